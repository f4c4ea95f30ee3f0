"""Dense retrieval: models that are what they are called, their vectors of passages and questions, how they rank."""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import re
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import dense, open_retriever
from lm_eval_tasks.clapnq.retrieval.dense import Encoder, Floats, encoder_for, encoders, load, weights_of
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from tests.miniature import MINIATURE
from tests.test_retrieval import asked, ids, write_corpus
from tests.test_vectors import blocks_of_4, never, the_folder, whole  # noqa: F401 -- a fixture
from tests.tiny_models import copy_of, write_encoder_files

pytestmark = pytest.mark.usefixtures("blocks_of_4")

PASSAGES = [
    ("p01", "The Moon draws the ocean towards it, so the sea rises and falls twice a day.", "Tides"),
    ("p02", "Yeast turns sugar into gas, and the dough rises.", "Bread"),
    ("p03", "It has four strings and is played with a bow.", "Violin"),
    ("p04", "Petrol burns in the cylinders and drives the wheels.", "Automobile"),
    ("p05", "Willow bark was chewed against headaches long before the pill was made.", "Aspirin"),
    ("p06", "Lava and ash leave the mountain through a vent.", "Volcano"),
    ("p07", "The author of Hamlet was born in Stratford.", "Shakespeare"),
    ("p08", "Leaves make sugar out of light, water and air.", "Photosynthesis"),
    ("p09", "The queen lays the eggs; the workers gather nectar.", "Bees"),
    ("p10", "Parliament sits beside the Thames under a famous clock.", "Westminster"),
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    return Corpus.open(write_corpus(tmp_path / "passages.tsv", PASSAGES))


@pytest.fixture
def encoder(tiny_encoder: Path) -> str:
    """The option ``encoder``, for what holds of any model."""
    return str(tiny_encoder)


def open_on_cpu(name: str, corpus: Corpus, **options: Any) -> dense.Dense:
    retriever = open_retriever(name, corpus, {"encoder_device": "cpu", **options})
    assert isinstance(retriever, dense.Dense)
    return retriever


def vectors_of(retriever: dense.Dense) -> Floats:
    return whole(retriever._blocks)


def encoded(model: str, texts: list[str]) -> Floats:
    """What sentence-transformers makes of texts when nothing stands between."""
    from sentence_transformers import SentenceTransformer

    found: Floats = SentenceTransformer(model, device="cpu", local_files_only=True).encode(texts, prompt="")
    return found


# A number below 1 moves by no more than 2**-12 when it is rounded to float16; 1e-5 is for sums in another order.
ROUNDING = 2**-12 + 1e-5

PARAPHRASES = [
    ("what makes a loaf fluffy", "p02"),
    ("which engine runs on gasoline", "p04"),
    ("who wrote sonnets for Elizabethan theatres", "p07"),
    ("how do plants feed themselves", "p08"),
    ("British lawmakers", "p10"),
]


def test_meaning_finds_what_words_do_not(corpus: Corpus, minilm: str) -> None:
    questions = asked(*[question for question, _ in PARAPHRASES])
    by_words = open_retriever("bm25", corpus).search(questions, len(PASSAGES))
    by_meaning = open_on_cpu("minilm", corpus, minilm=minilm).search(questions, len(PASSAGES))
    for (question, gold), words, meaning in zip(PARAPHRASES, by_words, by_meaning, strict=True):
        assert dict(words)[gold] == 0, question
        assert meaning[0][0] == gold, question
        assert sorted(ids(meaning)) == [id for id, _, _ in PASSAGES]
        assert all(one >= other for (_, one), (_, other) in pairwise(meaning))


def test_scores_are_cosines_of_what_the_model_says(corpus: Corpus, minilm: str) -> None:
    """By Cauchy and Schwarz no score is off by more than half a float16 step of unit vectors, 2**-11."""
    retriever = open_on_cpu("minilm", corpus, minilm=minilm)
    passages, question = encoded(minilm, corpus.contents()), encoded(minilm, ["what makes a loaf fluffy"])
    assert vectors_of(retriever) == pytest.approx(passages, abs=ROUNDING)
    (found,) = retriever.search(asked("what makes a loaf fluffy"), 10)
    expected = dict(zip(corpus.ids, (passages @ question[0]).tolist(), strict=True))
    assert dict(found) == pytest.approx(expected, abs=2**-11)
    _, weights = weights_of(encoder_for("minilm", {"minilm": minilm}))
    assert retriever.describe() == {  # what its rankings depend on
        **{"retriever": "minilm", "model": "sentence-transformers/all-MiniLM-L6-v2", "weights": weights},
        **{"revision": encoders()["minilm"].revision, "query_prefix": "", "passage_prefix": "", "max_length": 256},
        **{"normalised": True, "corpus": corpus.key},
    }


def test_the_title_counts_and_a_text_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm: str) -> None:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    tide = "the sea rises and falls " * 60  # 300 tokens of 256
    rows = [("a", tide, "Tides"), ("b", tide + "strings of a violin", "Tides"), ("c", tide, "Violin")]
    retriever = open_on_cpu("minilm", Corpus.open(write_corpus(tmp_path / "x.tsv", rows)), minilm=minilm)
    a, b, c = vectors_of(retriever)
    assert b == pytest.approx(a, abs=2 * ROUNDING)
    assert a @ c < 0.99
    (found,) = retriever.search(asked("the sea"), 3)
    assert set(ids(found)[:2]) == {"a", "b"}


def test_passages_are_encoded_anew_for_another_prefix_of_theirs(corpus: Corpus, encoder: str, tmp_path: Path) -> None:
    for prefixes, folders in (({}, 1), ({"query_prefix": "ask: "}, 1), ({"passage_prefix": "passage: "}, 2)):
        open_on_cpu("dense", corpus, encoder=encoder, **prefixes)
        assert sum(path.is_dir() for path in (tmp_path / "cache" / "vectors").iterdir()) == folders


PROMPTS = {"query": "query: ", "document": "passage: "}


@pytest.mark.parametrize(
    ("configuration", "options", "prefixes"),
    [
        ({}, {}, ("", "")),
        ({"prompts": PROMPTS}, {}, ("query: ", "passage: ")),
        ({"prompts": {"query": "q: ", "passage": "p: "}}, {}, ("q: ", "p: ")),
        ({"prompts": PROMPTS}, {"query_prefix": "", "passage_prefix": "text: "}, ("", "text: ")),
        ({}, {"query_prefix": "q: ", "passage_prefix": "p: "}, ("q: ", "p: ")),
        ({"prompts": PROMPTS, "default_prompt_name": "document"}, {"query_prefix": ""}, ("", "passage: ")),
    ],
)
def test_dense_uses_the_models_own_prompts_unless_told_otherwise(
    corpus: Corpus,
    encoder: str,
    tmp_path: Path,
    configuration: dict[str, Any],
    options: dict[str, str],
    prefixes: tuple[str, str],
) -> None:
    retriever = open_on_cpu("dense", corpus, encoder=copy_of(encoder, tmp_path / "model", **configuration), **options)
    described = retriever.describe()
    assert (described["query_prefix"], described["passage_prefix"]) == prefixes
    query, passage = prefixes
    passages = encoded(encoder, [passage + content for content in corpus.contents()])
    assert vectors_of(retriever) == pytest.approx(passages, abs=ROUNDING)
    ((found, score),) = retriever.search(asked("eruption"), 1)[0]
    expected = passages @ encoded(encoder, [query + "eruption"])[0]
    assert found == corpus.ids[expected.argmax()]
    assert score == pytest.approx(float(expected.max()), abs=2**-11)


def test_a_named_model_has_its_papers_prefixes_not_its_folders(corpus: Corpus, minilm: str, tmp_path: Path) -> None:
    folder = copy_of(minilm, tmp_path / "model", prompts=PROMPTS, default_prompt_name="query")
    found = open_on_cpu("minilm", corpus, minilm=folder)
    assert (found.describe()["query_prefix"], found.describe()["passage_prefix"]) == ("", "")
    assert vectors_of(found) == pytest.approx(encoded(minilm, corpus.contents()), abs=ROUNDING)


@pytest.mark.slow  # starts two processes that import torch
def test_several_devices_give_the_vectors_of_one(
    corpus: Corpus, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes, two blocks at a time, an odd number of blocks."""
    one = open_on_cpu("dense", corpus, encoder=encoder)
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "another cache"))
    two = open_on_cpu("dense", corpus, encoder=encoder, encoder_device="cpu+cpu")
    assert [len(block) for block in two._blocks] == [4, 4, 2]
    assert vectors_of(two) == pytest.approx(vectors_of(one), abs=1e-3)
    questions = asked(*[question for question, _ in PARAPHRASES])
    for found, expected in zip(two.search(questions, 10), one.search(questions, 10), strict=True):
        assert ids(found) == ids(expected)
        assert dict(found) == pytest.approx(dict(expected), abs=1e-3)
    assert multiprocessing.active_children() == []


def test_a_model_of_dot_products_is_not_normalised(corpus: Corpus, encoder: str, tmp_path: Path) -> None:
    """The length of its vectors says something; without the layer that normalises, these are not 1."""
    folder = Path(copy_of(encoder, tmp_path / "model", similarity_fn_name="dot"))
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    kept = [module for module in modules if not module["type"].endswith("Normalize")]
    (folder / "modules.json").write_text(json.dumps(kept), "utf-8")
    retriever = open_on_cpu("dense", corpus, encoder=str(folder))
    assert retriever.describe()["normalised"] is False
    lengths = np.linalg.norm(vectors_of(retriever), axis=1)
    assert lengths == pytest.approx(np.linalg.norm(encoded(str(folder), corpus.contents()), axis=1), rel=1e-3)
    assert np.abs(lengths - 1).min() > 0.1


@pytest.mark.slow("MiniLM reads 60 passages: 15 s on a CPU")
def test_the_command_ranks_by_vectors_that_it_makes_once(
    minilm: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On the sample, whose 18 gold passages MiniLM finds; the second command encodes nothing."""
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    caplog.set_level(logging.INFO, "lm_eval")
    command = f"retrieve --mirror {MINIATURE} --retriever minilm --minilm {minilm} --encoder-device cpu".split()
    row = r"^ndcg@10 +100\.0 +(?:\[[\d.]+, [\d.]+\]|-)   53$"
    assert main([*command, "-o", str(tmp_path / "file.run")]) == 0
    assert re.search(row, capsys.readouterr().out, re.MULTILINE)
    assert len((tmp_path / "file.run").read_text("utf-8").splitlines()) == 320
    assert "encoding 60 passages with sentence-transformers/all-MiniLM-L6-v2 (once)" in caplog.text
    caplog.clear()
    assert main(command) == 0
    assert re.search(row, capsys.readouterr().out, re.MULTILINE)
    assert "encoding" not in caplog.text


def test_the_named_encoders_are_the_papers_with_their_prefixes() -> None:
    found = {name: (known.repository, known.query_prefix, known.passage_prefix) for name, known in encoders().items()}
    assert found == {
        "minilm": ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        "bge": ("BAAI/bge-base-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        "e5": ("intfloat/e5-base-v2", "query: ", "passage: "),
    }
    for known in encoders().values():
        assert re.fullmatch("[0-9a-f]{40}", known.revision or "")
        assert re.fullmatch("[0-9a-f]{64}", known.weights or "")


def digest_of(folder: Path) -> str:
    found, digest = weights_of(encoder_for("dense", {"encoder": str(folder)}))
    assert found == folder
    return digest


@pytest.mark.parametrize(
    ("file", "content", "same"),
    [
        ("model.safetensors", "other weights", False),
        ("config.json", '{"hidden_act": "relu"}', False),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true}', False),
        ("vocab.txt", "a b d", False),
        ("2_Dense/model.safetensors", "one more layer", False),
        ("vocab.txt", None, False),
        ("README.md", "about", True),
        ("pytorch_model.bin", "pickle", True),
        ("onnx/model.onnx", "another runtime", True),
        (".cache/huggingface/download/config.json.metadata", "of hf download --local-dir", True),
    ],
)
def test_what_makes_the_vectors_counts_alone(tmp_path: Path, file: str, content: str | None, same: bool) -> None:
    first, second = write_encoder_files(tmp_path / "a"), write_encoder_files(tmp_path / "b", {file: content})
    assert (digest_of(first) == digest_of(second)) is same


@pytest.mark.parametrize("extra", [{}, {"pytorch_model.bin": "pickle"}, {"onnx/model.safetensors": "x"}])
def test_a_folder_without_safetensors_is_no_model(tmp_path: Path, extra: dict[str, str]) -> None:
    folder = write_encoder_files(tmp_path / "m", {"model.safetensors": None, **extra})
    for name, option in (("dense", "encoder"), ("minilm", "minilm")):
        with pytest.raises(MissingSource, match=rf"^{folder} holds no \*\.safetensors, .*weights can run code"):
            weights_of(encoder_for(name, {option: folder}))


def test_a_folder_that_is_named_as_a_model_must_hold_it(tmp_path: Path) -> None:
    folder = write_encoder_files(tmp_path / "m")
    found, pinned = hashlib.sha256(b"weights").hexdigest(), encoders()["bge"].weights
    with pytest.raises(CorruptSource, match=rf"does not hold BAAI/bge.*: the SHA-256 .* is {found}, not {pinned}\."):
        weights_of(encoder_for("bge", {"bge": folder}))


def test_a_folder_of_a_named_model_must_be_complete(tmp_path: Path) -> None:
    """Without these, the model still loads, pools and cuts in another way, and says nothing."""
    encoder = Encoder("owner/name", "v1", weights=hashlib.sha256(b"weights").hexdigest(), folder=tmp_path)
    write_encoder_files(tmp_path, {"modules.json": None, "sentence_bert_config.json": None})
    with pytest.raises(MissingSource, match=r"lacks modules\.json, sentence_bert_config\.json, .* download owner/name"):
        weights_of(encoder)
    write_encoder_files(tmp_path)
    assert weights_of(encoder)[0] == tmp_path


REVISIONS = {name: known.revision for name, known in encoders().items()}


@pytest.mark.parametrize(
    ("name", "options", "download", "say"),
    [
        ("minilm", {}, f"sentence-transformers/all-MiniLM-L6-v2 --revision {REVISIONS['minilm']}", "minilm"),
        ("bge", {"minilm": "DIR"}, f"BAAI/bge-base-en-v1.5 --revision {REVISIONS['bge']}", "bge"),
        ("dense", {"encoder": "owner/name", "encoder_revision": "v2"}, "owner/name --revision v2", "encoder"),
        ("dense", {"encoder": "name"}, "name", "encoder"),
    ],
)
def test_a_model_that_is_not_to_be_had_says_how_to_get_it(
    name: str, options: dict[str, str], download: str, say: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))  # and no download (tests/conftest.py)
    with pytest.raises(MissingSource) as refused:
        weights_of(encoder_for(name, options))
    assert re.fullmatch(
        rf"The encoder {download.split()[0]} is not here and could not be downloaded: .+ With internet, "
        rf"`hf download {download} --local-dir DIR` fetches it; for a cluster without, copy DIR there and say {say}=DIR\.",
        str(refused.value),
    )


def test_a_folder_that_does_not_exist_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    of_dense = [("dense", "encoder", f"{folder}nowhere") for folder in ("./", "/", "~/", "models/of/")]
    for name, option, place in [("minilm", "minilm", "nowhere"), ("bge", "bge", "nowhere"), *of_dense]:
        with pytest.raises(MissingSource) as refused:
            encoder_for(name, {option: place})
        assert str(refused.value) == (
            f"{Path(place).expanduser().resolve()}: no such folder ({option}=DIR names the folder of that model's files)"
        )


@pytest.mark.parametrize("absent", [["sentence_transformers"], ["sentence_transformers", "torch", "transformers"]])
def test_the_command_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], absent: list[str]
) -> None:
    """The base install has none of them."""
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    model = write_encoder_files(tmp_path / "m")
    assert main(["retrieve", "--retriever", "dense", "--encoder", str(model), "--mirror", MINIATURE]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("lm-eval-grounded: clapnq: dense retrieval needs sentence-transformers, which cannot be ")
    assert last.endswith("pip install 'lm-eval-grounded[dense]'")


@pytest.mark.parametrize("size", [0, 2.5, "64", True, None])
def test_a_batch_has_a_whole_number_of_texts(corpus: Corpus, tmp_path: Path, size: Any) -> None:
    options = {"encoder": write_encoder_files(tmp_path / "m"), "encoder_batch_size": size}
    with pytest.raises(ValueError, match="encoder_batch_size must be a whole number of at least 1, got"):
        open_retriever("dense", corpus, options)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch tells which devices there are")
@pytest.mark.parametrize(
    ("device", "said"), [("gpu", "gpu"), ("cpu+cuda:99", "cuda:99"), ("cpu,cpu", "cpu,cpu"), ("cpu+", "")]
)
def test_a_device_that_cannot_be_used_is_named(corpus: Corpus, tmp_path: Path, device: str, said: str) -> None:
    options = {"encoder": write_encoder_files(tmp_path / "m"), "encoder_device": device}
    with pytest.raises(ValueError, match=f"^clapnq: encoder_device={said} cannot be used: "):
        open_retriever("dense", corpus, options)


def test_what_is_no_model_or_compares_otherwise_is_refused(minilm: str, tmp_path: Path) -> None:
    broken = write_encoder_files(tmp_path / "broken")
    with pytest.raises(ValueError, match=rf"^clapnq: {broken} is no sentence-transformers model that loads: "):
        load(encoder_for("dense", {"encoder": broken}), broken, "cpu")
    for function in ("euclidean", "manhattan"):
        folder = Path(copy_of(minilm, tmp_path / function, similarity_fn_name=function))
        with pytest.raises(ValueError, match=rf"^clapnq: {function} compares by {function} distance; retrieval here"):
            load(encoder_for("dense", {"encoder": folder}), folder, "cpu")
