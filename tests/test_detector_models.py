"""Where a token classifier comes from: folders, the hub's cache, adapters; and which ones are refused, and why."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from custom_metrics.reading.spans import CATEGORIES
from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import load_detector
from detector_plugin.transformers import TransformersDetector
from tests.conftest import run
from tests.test_transformers_detector import probabilities
from tests.tiny_models import BINARY, word_tokenizer, write_lexicon, write_llama_classifier, write_lookup

# Adapters


@pytest.mark.parametrize("stated", [True, False], ids=["labels beside the adapter", "labels told"])
def test_adapter(tmp_path: Path, stated: bool) -> None:
    peft = pytest.importorskip("peft")
    base, folder, labels = (
        write_llama_classifier(tmp_path / "base", "CausalLM"),
        tmp_path / "adapter",
        ["O", *CATEGORIES],
    )
    model = peft.get_peft_model(
        transformers.AutoModelForTokenClassification.from_pretrained(base, num_labels=7),
        peft.LoraConfig(task_type="TOKEN_CLS", r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
    ).eval()
    model.save_pretrained(folder)
    (folder / "README.md").write_text("---\nbase_model: x\nlicense: mit\n---\n# card\n", "utf-8")
    options: dict[str, Any] = {}
    if stated:
        (folder / "config.json").write_text(json.dumps({"id2label": dict(enumerate(labels))}), "utf-8")
    else:
        with pytest.raises(UnusableDetector, match="not clear what 'LABEL_0'"):
            TransformersDetector(str(folder))
        options["labels"] = {f"LABEL_{number}": label for number, label in enumerate(labels)}
    detector = TransformersDetector(str(folder), attention="causal", **options)
    assert (detector.categories, detector.licence) == ([None, *CATEGORIES], "mit")
    assert "+base." in detector.version
    text = ("the moon", "a red sun")
    ids = detector.encoder.encode(*text, None, None).ids.tolist()
    theirs = model(input_ids=torch.tensor([ids])).logits.softmax(-1)[0, -3:].detach().numpy()
    np.testing.assert_allclose(probabilities(detector, [text])[0], theirs, atol=1e-5)
    both = TransformersDetector(str(folder), **options)
    assert both.engine.bidirectional
    assert not np.allclose(probabilities(both, [text])[0], theirs, atol=1e-3)
    moved = base.rename(tmp_path / "moved")
    with pytest.raises(UnusableDetector, match=r"base model .*/base \(of .*option base_model\): there is no folder"):
        TransformersDetector(str(folder), **options)
    assert TransformersDetector(str(folder), base_model=str(moved), **options).version == both.version


def test_adapter_without_a_head(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = transformers.LlamaForCausalLM.from_pretrained(write_llama_classifier(tmp_path / "base", "CausalLM"))
    peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    with pytest.raises(UnusableDetector, match=r"not a trained classifier: .*/base has no weights score"):
        TransformersDetector(str(tmp_path / "adapter"))


def test_pickled_weights_are_not_read(lookup: Path, tmp_path: Path) -> None:
    """They could run code; a sentinel that says so if it was unpickled is never called."""
    adapter = {"base_model_name_or_path": str(lookup), "peft_type": "LORA", "task_type": "TOKEN_CLS"}
    for weights in ("pytorch_model.bin", "adapter_model.bin"):
        folder = tmp_path / weights
        shutil.copytree(lookup, folder, ignore=shutil.ignore_patterns("*.safetensors"))
        if weights.startswith("adapter"):
            (folder / "adapter_config.json").write_text(json.dumps(adapter), "utf-8")
        torch.save({"classifier.weight": torch.zeros(2, 8)}, folder / weights)
        with pytest.raises(UnusableDetector, match="safetensors"):
            TransformersDetector(str(folder))


# What a detector is called, and what is refused


def test_name_version_licence(lookup: Path, tmp_path: Path) -> None:
    one = write_lexicon(tmp_path / "one", {"sun": 1}, BINARY)
    detector = TransformersDetector(f"{one}/")
    assert (detector.name, detector.licence) == (str(one), "unknown")
    (one / "README.md").write_text("---\nlicense: other\nlicense_name: free\n---\n", "utf-8")
    again = TransformersDetector(str(one))
    assert (again.version, again.licence) == (detector.version, "free")
    other = TransformersDetector(str(write_lexicon(tmp_path / "other", {"moon": 1}, BINARY)))
    assert other.version != detector.version
    changed = TransformersDetector(str(one), threshold="0.7", form="paper", batch_size=1)
    assert changed.version == f"{detector.version};form=paper;threshold=0.7"


@pytest.mark.slow("starts a Python of its own, which imports torch and peft")
def test_from_the_hubs_cache(tmp_path: Path) -> None:
    """As a user types it: names of the hub, here for an adapter and its base model that were fetched before."""
    peft = pytest.importorskip("peft")

    def snapshot(name: str, commit: str) -> Path:
        folder = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(commit, "utf-8")
        return folder / "snapshots" / commit

    lettuce = write_lookup(snapshot("KRLabsOrg/lettucedect-v2-tiny", "1" * 40))
    (lettuce / "README.md").write_text("---\nlicense: apache-2.0\n---\n", "utf-8")
    base, adapter = snapshot("org/tiny-llama", "2" * 40), snapshot("org/mfava-adapter", "3" * 40)
    write_llama_classifier(base, "CausalLM")
    model = transformers.LlamaForTokenClassification.from_pretrained(base, num_labels=2)
    model.config._name_or_path = model.name_or_path = "org/tiny-llama"
    settings = peft.LoraConfig(
        task_type="TOKEN_CLS", target_modules=["q_proj"], base_model_name_or_path="org/tiny-llama"
    )
    peft.get_peft_model(model, settings).save_pretrained(adapter)
    program = (
        "from detector_plugin import load_detector\nfrom detector_plugin.detector import describe\n"
        "import json\n"
        "for name in ('KRLabsOrg/lettucedect-v2-tiny', 'org/mfava-adapter'):\n"
        "    detector = load_detector(name)\n"
        "    found = detector.detect(['the moon'], ['the sun'], ['en'], ['is it?'])\n"
        "    print(json.dumps([*describe(detector).values(), detector.form, found[0] if 'lettuce' in name else []]))\n"
    )
    output = run([sys.executable, "-c", program], tmp_path, HF_HOME=str(tmp_path), HF_HUB_CACHE=str(tmp_path / "hub"))
    assert [json.loads(line) for line in output.stdout.splitlines()] == [
        ["KRLabsOrg/lettucedect-v2-tiny", "1" * 40, "apache-2.0", "lettucedetect-v2", [[4, 7, "hallucination", 1.0]]],
        ["org/mfava-adapter", f"{'3' * 40}+base.{'2' * 40}", "unknown", "paper", []],
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "pairs"}, r"option form: 'pairs' is none of auto, lettucedetect,"),
        ({"threshold": 2}, r"option threshold: 2 is not a number from 0 to 1"),
        ({"batch_size": "0"}, r"option batch_size: '0' is not a whole number from 1"),
        ({"max_length": 129}, r"max_length=129, but the model reads 128 tokens at most"),
        ({"max_length": 10}, r"of max_length=10 tokens, prompt and question take 3"),
        ({"trust_remote_code": "maybe"}, r"option trust_remote_code: 'maybe' is neither"),
        ({"device": "cuda:99"}, r"option device: 'cuda:99' cannot be used here"),
        ({"dtype": "int8"}, r"option dtype: 'int8' is none of"),
        ({"base_model": "x"}, r"base_model is for PEFT adapters"),
    ],
)
def test_options_that_do_not_exist(lookup: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableDetector, match=message):
        TransformersDetector(str(lookup), **options)


def test_models_that_do_not_exist(tmp_path: Path) -> None:
    for name, message in [
        ("KRLabsOrg/lettucedect-v2-mmbert-base", r"not in the cache .*HF_HUB_OFFLINE is set.*hf download KRLabsOrg/"),
        ("./nowhere", r"there is no folder /"),
        (str(tmp_path / "nowhere"), r"there is no folder /"),
        ("not a/name", r"neither a folder \(/.*\) nor a name that the hub could have"),
        (str(tmp_path), r"no config.json and no adapter_config.json"),
    ]:
        with pytest.raises(UnusableDetector, match=message):
            load_detector(name)


def test_models_that_are_no_classifiers(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=20, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "masked")
    with pytest.raises(UnusableDetector, match="is a BertForMaskedLM, not a classifier of tokens or texts"):
        TransformersDetector(str(tmp_path / "masked"))
    bare = tmp_path / "bare"
    transformers.BertModel(config).save_pretrained(bare)
    word_tokenizer().save_pretrained(bare)
    settings = json.loads((bare / "config.json").read_text("utf-8"))
    for content, why in (
        (json.dumps({**settings, "architectures": None}), r"not a trained classifier: .* has no weights classifier"),
        ('{"model_type": "unheard-of"}', "its configuration cannot be read: .*unheard-of"),
        ("{", "its configuration cannot be read: "),
    ):
        (bare / "config.json").write_text(content, "utf-8")
        with pytest.raises(UnusableDetector, match=why):
            TransformersDetector(str(bare))


def test_without_the_libraries(lookup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnusableDetector, match=r"need torch, .*pip install 'lm-eval-grounded\[hf\]'"):
        TransformersDetector(str(lookup))


def test_needs_a_fast_tokenizer(tmp_path: Path) -> None:
    write_lexicon(tmp_path, {}, BINARY)
    for file in tmp_path.glob("*token*"):
        file.unlink()
    transformers.CanineTokenizer().save_pretrained(tmp_path)
    with pytest.raises(UnusableDetector, match="is not a fast one"):
        TransformersDetector(str(tmp_path))
