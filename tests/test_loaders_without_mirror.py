"""Loaders where no mirror is named: public files come from where they are published, and the log says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_eval_tasks.clapnq import dataset as clapnq
from lm_eval_tasks.data import sources
from lm_eval_tasks.definition.loading import TaskLoader
from lm_eval_tasks.harness.autoload import task_folder
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.mushroom import dataset as mushroom


@pytest.fixture(autouse=True)
def fetched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """The files that were asked for; a download is a file of the sample."""
    asked: list[tuple[str, str]] = []

    def fetch(file: sources.SourceFile) -> Path | None:
        asked.append((file.repository, file.path))
        return sources.local_copy(file, Path(task_folder(), "sample"))

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
        (
            clapnq.load_task,
            {"name": "t"},
            32,
            "t: split validation, the gold passage, files from the Hugging Face hub and GitHub",
        ),
        (
            mfava.load_task,
            {"task_language": "de"},
            9,
            "mfava_de: 9 questions from GitHub; {",
        ),
        (
            mushroom.load_task,
            {"task_language": "de"},
            3,
            "mushroom_de: files from GitHub",
        ),
    ],
    ids=["clapnq", "mfava", "mushroom"],
)
def test_without_a_mirror_the_published_files_are_read(
    fetched: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
    loader: TaskLoader,
    options: dict[str, str],
    documents: int,
    said: str,
) -> None:
    with caplog.at_level(logging.INFO, "lm_eval"):
        found = loader(**options)
    assert len(found["evaluation"]) == documents
    assert fetched == loader.files(options)
    assert any(message.startswith(said) for message in caplog.messages)


def test_without_a_mirror_the_examples_of_the_train_split_are_read(fetched: list[tuple[str, str]]) -> None:
    answerable, unanswerable = clapnq.train_questions(None, "t")
    assert [len(answerable), len(unanswerable)] == [10, 6]
    assert fetched == [("PrimeQA/clapnq", f"clapnq_train_{kind}answerable.jsonl") for kind in ("", "un")]
