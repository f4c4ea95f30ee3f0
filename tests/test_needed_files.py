"""Which files a task reads is known before it reads them; one error names all that are missing; where they come from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.clapnq import dataset as clapnq
from lm_eval_tasks.data import sources
from lm_eval_tasks.definition import TaskLoader, needed_files, require_files
from lm_eval_tasks.memerag import dataset as memerag
from lm_eval_tasks.mfava import annotations as detection
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.mtrag import dataset as mtrag
from lm_eval_tasks.mtragun import dataset as mtragun
from lm_eval_tasks.mushroom import dataset as mushroom
from lm_eval_tasks.nomiracl import dataset as nomiracl
from tests.conftest import evaluate
from tests.miniature import MINIATURE

DE = {"task_language": "de", "language": "de"}
OPTIONAL = {"retrieval/dev/question_dev_answerable.tsv"}  # gold passages are found by their text without it

LOADS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (nomiracl.load_task, DE),
    (nomiracl.load_task, {**DE, "max_samples": "all", "subset": "non_relevant"}),
    (nomiracl.load_task, {**DE, "subset": "relevant"}),
    (nomiracl.load_task, {**DE, "max_samples": None, "subset": "non_relevant", "split": "dev"}),
    (clapnq.load_task, {"task_name": "clapnq_gold"}),
    (clapnq.load_task, {"task_name": "clapnq_rag", "task_retriever": "bm25", "split": "dev"}),
    (mfava.load_task, DE),
    (detection.load_task, {**DE, "task_annotations": "gold"}),
    (mushroom.load_task, {"task_language": "zh"}),
    (mushroom.load_task, {"task_language": "zh", "split": "validation"}),
    (mushroom.load_task, {"task_language": "ca"}),
    (memerag.load_task, {"task_language": "fr"}),
    (mtrag.load_task, {}),
    (mtrag.load_judge_task, {"answers": "all"}),
    (mtragun.load_task, {"task_domain": "govt"}),
    (memerag.load_judge_task, {"task_language": "hi", "annotators": "majority"}),
]


@pytest.mark.parametrize(("loader", "options"), LOADS)
def test_the_files_that_are_named_are_those_that_are_read(
    loader: Callable[..., Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    locate = sources.locate

    def noted(repository: str, path: str, mirror: Any = None) -> Path:
        read.append(path)
        return locate(repository, path, mirror)

    monkeypatch.setattr(sources, "locate", noted)
    for cached in (*(module._documents for module in (nomiracl, clapnq, mfava, mushroom)), detection._documents):
        cached.cache_clear()
    loader(**options, mirror=MINIATURE)
    assert [file.path for file in needed_files(loader, options)] == [path for path in read if path not in OPTIONAL]


@pytest.mark.parametrize(
    ("loader", "options"),
    [
        (nomiracl.load_task, {**DE, "samples": "earlier"}),
        (nomiracl.load_task, {"task_language": "xx"}),
        (nomiracl.load_task, {**DE, "split": ["test"]}),
        (clapnq.load_task, {"split": {}}),
        (mushroom.load_task, {"task_language": "zh", "split": "no"}),
        (mushroom.load_task, {"task_language": "ca", "split": "validation"}),
        (print, {}),
        (None, {}),
    ],
)
def test_nothing_is_known_of_options_that_the_loader_refuses(loader: Any, options: dict[str, Any]) -> None:
    assert needed_files(loader, options) == []
    require_files(loader, options)


def test_all_missing_files_of_a_task_are_said_at_once(mirror: Path) -> None:
    german = mirror / "miracl" / "nomiracl" / "data" / "german"
    for name in ("qrels/test.relevant.tsv", "corpus.jsonl.gz"):
        (german / name).unlink()
    with pytest.raises(sources.MissingSource) as caught:
        evaluate(["nomiracl_de"], "grounded-baseline", metadata={"mirror": str(mirror)})
    names = [f"miracl/nomiracl/data/german/{name}" for name in ("qrels/test.relevant.tsv", "corpus.jsonl.gz")]
    assert str(caught.value) == (
        f"2 public files ({', '.join(names)}) are not in the mirror {mirror}. On a machine with internet, "
        f"`lm-eval-grounded sources --fetch '{names[0]}' '{names[1]}' --into {mirror}` puts them there."
    )
    assert [f"{file.repository}/{file.path}" for file in caught.value.files] == names


def test_one_missing_file_is_said_as_ever(mirror: Path) -> None:
    (mirror / "miracl" / "nomiracl" / "data" / "german" / "corpus.jsonl.gz").unlink()
    with pytest.raises(sources.MissingSource, match=r"^data/german/corpus\.jsonl\.gz of hub repository") as caught:
        evaluate(["nomiracl_de"], "grounded-baseline", metadata={"mirror": str(mirror)})
    assert [file.path for file in caught.value.files] == ["data/german/corpus.jsonl.gz"]


def test_without_a_mirror_what_cannot_be_loaded_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "local_copy", lambda file, folder: None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    require_files(nomiracl.load_task, DE)  # what is not here will be downloaded
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(sources.MissingSource, match=r"^5 public files .* not here and .*: HF_HUB_OFFLINE is set"):
        require_files(nomiracl.load_task, DE)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """The files that were asked for; a download is a file of the sample."""
    asked: list[tuple[str, str]] = []

    def fetch(file: sources.SourceFile) -> Path | None:
        asked.append((file.repository, file.path))
        return sources.local_copy(file, Path(MINIATURE))

    monkeypatch.setattr(sources, "fetch", fetch)
    monkeypatch.delenv(sources.MIRROR_VARIABLE, raising=False)
    caches = (clapnq._documents, mfava._documents, mushroom._documents)
    for cache in caches:
        cache.cache_clear()
    yield asked
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize(
    ("loader", "options", "documents", "said"),
    [
        (clapnq.load_task, {"name": "t"}, 32, "t: 32 questions, split validation, the gold passage, files from"),
        (mfava.load_task, {"task_language": "de"}, 9, "WorldHellow/mHallucinations-LLM/datasets/"),
        (mushroom.load_task, {"task_language": "de"}, 3, "Helsinki-NLP/mu-shroom/splits/"),
        (mushroom.load_task, {"task_language": "ca"}, 2, "Helsinki-NLP/mu-shroom/splits/"),
    ],
)
def test_without_a_mirror_the_published_files_are_read(
    fetched: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
    loader: TaskLoader,
    options: dict[str, str],
    documents: int,
    said: str,
) -> None:
    with caplog.at_level(logging.DEBUG, "lm_eval"):
        found = loader(**options)
    assert len(found["evaluation"]) == documents
    assert fetched == loader.files(options)
    assert any(message.startswith(said) for message in caplog.messages)


def test_without_a_mirror_the_examples_of_the_train_split_are_read(fetched: list[tuple[str, str]]) -> None:
    answerable, unanswerable = clapnq.questions_by_kind("train", None)
    assert [len(answerable), len(unanswerable)] == [10, 6]
    assert fetched == [("PrimeQA/clapnq", f"clapnq_train_{kind}answerable.jsonl") for kind in ("", "un")]
