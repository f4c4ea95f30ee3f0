"""Encoders: models that are what they are called, and options, devices and packages that are not there."""

from __future__ import annotations

import hashlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import open_retriever
from lm_eval_tasks.clapnq.retrieval.dense import Encoder, encoder_for, encoders, load, weights_of
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from tests.miniature import MINIATURE
from tests.test_retrieval import write_corpus
from tests.tiny_models import copy_of, write_encoder_files


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
def test_what_makes_the_vectors_counts_and_nothing_else(
    tmp_path: Path, file: str, content: str | None, same: bool
) -> None:
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


@pytest.fixture
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No download (tests/conftest.py), and an empty cache of them."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))


REVISIONS = {name: known.revision for name, known in encoders().items()}


@pytest.mark.usefixtures("no_hub")
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
    name: str, options: dict[str, str], download: str, say: str
) -> None:
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


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    return Corpus.open(write_corpus(tmp_path / "passages.tsv", [("p1", "A text.", "Title")]))


def test_the_command_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The base install has none of them."""
    for name in ("sentence_transformers", "torch", "transformers"):
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
