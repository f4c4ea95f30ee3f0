"""Token classifiers: where they come from and which ones are refused, what they read, what labels mean, how they run."""

from __future__ import annotations

import hashlib
import json
import re
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

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION
from detector_plugin import processes
from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import load_detector
from detector_plugin.processes import ProcessPlace, here
from detector_plugin.span_store import StoredDetector
from detector_plugin.transformers import TransformersDetector, class_meanings, parse_labels
from detector_plugin.transformers.inputs import prompt
from tests.conftest import run
from tests.test_transformers_detector import found, probabilities
from tests.tiny_models import BINARY, word_tokenizer, write_lexicon, write_llama_classifier, write_lookup


@pytest.mark.parametrize("stated", [True, False], ids=["labels beside the adapter", "labels told"])
def test_adapter(tmp_path: Path, stated: bool) -> None:
    peft = pytest.importorskip("peft")
    base, folder = write_llama_classifier(tmp_path / "base", "CausalLM"), tmp_path / "adapter"
    labels = dict(enumerate(["O", *CATEGORIES]))
    model = peft.get_peft_model(
        transformers.AutoModelForTokenClassification.from_pretrained(base, num_labels=7),
        peft.LoraConfig(task_type="TOKEN_CLS", r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
    ).eval()
    model.save_pretrained(folder)
    (folder / "README.md").write_text("---\nbase_model: x\nlicense: mit\n---\n# card\n", "utf-8")
    options: dict[str, Any] = {}
    if stated:
        (folder / "config.json").write_text(json.dumps({"id2label": labels}), "utf-8")
    else:
        with pytest.raises(UnusableDetector, match="not clear what 'LABEL_0'"):
            TransformersDetector(str(folder))
        options["labels"] = {f"LABEL_{number}": label for number, label in labels.items()}
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
    how = peft.LoraConfig(task_type="TOKEN_CLS", target_modules=["q_proj"], base_model_name_or_path="org/tiny-llama")
    peft.get_peft_model(model, how).save_pretrained(adapter)
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
    ("given", "message"),
    [
        ("KRLabsOrg/lettucedect-v2-mmbert-base", r"not in the cache .*HF_HUB_OFFLINE is set.*hf download KRLabsOrg/"),
        ("./nowhere", r"there is no folder /"),
        ("not a/name", r"cannot be fetched from https://huggingface.co/not a/name: Repo id must"),
        (str(Path(__file__).parent), r"no config.json and no adapter_config.json"),
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
def test_models_and_options_that_do_not_exist(lookup: Path, given: str | dict[str, Any], message: str) -> None:
    name, options = (given, {}) if isinstance(given, str) else (str(lookup), given)
    with pytest.raises(UnusableDetector, match=message):
        load_detector(name, **options)


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


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (["LABEL_0", "LABEL_1"], None, [None, HALLUCINATION]),
        (["Hallucination", "Supported"], None, [HALLUCINATION, None]),
        (["O", "B-hallucination", "I-hallucination"], None, [None, HALLUCINATION, HALLUCINATION]),
        (["fine", "not_supported"], None, [None, HALLUCINATION]),
        (["none", *CATEGORIES], None, [None, *CATEGORIES]),
        (["O", "B-Entity", "I-Entity", "B-subjective"], None, [None, "entity", "entity", "subjective"]),
        (["good", "bad"], {"good": "O", "1": "hallucination"}, [None, HALLUCINATION]),
        (["LABEL_0", "LABEL_1"], {"LABEL_1": "O", "LABEL_0": "hallucination"}, [HALLUCINATION, None]),
        (["O", "entity", "ENT2"], {"ENT2": "entity"}, [None, "entity", "entity"]),
        (["good", "bad"], None, r"not clear what 'good', 'bad' stand for.*labels=good=O;bad=hallucination"),
        (["LABEL_0", "LABEL_1", "LABEL_2"], None, r"not clear what 'LABEL_0'"),
        (["O", "supported"], None, r"not clear what 'O', 'supported' stand for, and one must be borne out, one hall"),
        (["O", "PER", "entity"], None, r"not clear what 'PER' stand.*for instance labels=PER=hallucination; a"),
        (["good", "bad"], {"ugly": "O"}, r"names 'ugly', but the model's labels are 'good', 'bad'"),
        (["good", "bad"], {"good": "fine"}, r"good=fine; a meaning is O, hallucination, entity"),
    ],
)
def test_labels(names: list[str], given: dict[str, str] | None, expected: list[str | None] | str) -> None:
    if isinstance(expected, list):
        assert class_meanings(names, given) == expected
        return
    with pytest.raises(UnusableDetector, match=expected):
        class_meanings(names, given)


def test_labels_as_options(tmp_path: Path) -> None:
    assert parse_labels(" LABEL_0 = O;LABEL_1=hallucination ") == {"LABEL_0": "O", "LABEL_1": "hallucination"}
    with pytest.raises(UnusableDetector, match="not a list of label=meaning"):
        parse_labels("LABEL_0")
    folder = str(write_lexicon(tmp_path / "m", {"sun": 1}, {0: "good", 1: "bad"}))
    with pytest.raises(UnusableDetector, match=r"detector .*/m: has the labels 'good', 'bad'.*option labels"):
        TransformersDetector(folder)
    assert found(TransformersDetector(folder, labels="good=O;bad=hallucination"), "moon", "the sun.") == ["sun"]


def test_lettucedetect_prompts_are_theirs_to_the_last_character() -> None:
    """sha256 of what lettucedetect 0.2.3 makes of the passage "R" and the question "Q", cut to eight digits."""
    digests = {"en": "a2800345", "de": "89b307be", "fr": "a48c8693", "es": "bf69de7b", "it": "a412f533"}
    for language, digest in {**digests, "pl": "682a8c4e", "zh": "779f8109", "hu": "3785ce68"}.items():
        texts = ["R".join(prompt("lettucedetect", question, language)) for question in ("Q", None)]
        assert hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8] == digest
    for language, read_as in (("sw", "en"), (None, "en"), ("yue", "zh")):
        assert prompt("lettucedetect", "Q", language) == prompt("lettucedetect", "Q", read_as)
    assert "".join(prompt("lettucedetect", "{context} {passages}", "en")).count("{passages}") == 1  # of the question
    assert prompt("lettucedetect-v2", "Why?", "de") == ("User request: Why?\n\n", "")
    assert prompt("lettucedetect-v2", None, "de") == prompt("pair", "Why?", "de") == ("", "")


@pytest.mark.parametrize(
    ("form", "question", "text"),
    [
        ("pair", "is it?", "[CLS] the moon is cold . [SEP] a moon [SEP]"),
        ("paper", None, "[CLS] the moon is cold . [SEP] a moon [SEP]"),
        ("lettucedetect-v2", None, "[CLS] the moon is cold . [SEP] a moon [SEP]"),
        ("lettucedetect-v2", "is the sun?", "[CLS] {3} is the sun ? the moon is cold . [SEP] a moon [SEP]"),
        ("lettucedetect", None, "[CLS] {1} the {6} the moon is cold . {2} [SEP] a moon [SEP]"),
    ],
)
def test_what_the_model_reads(lookup: Path, form: str, question: str | None, text: str) -> None:
    """``{3}``: three unknown tokens."""
    text, answer = re.sub(r"{(\d)}", lambda number: " ".join(["[UNK]"] * int(number[1])), text), "a moon"
    detector = TransformersDetector(str(lookup), form=form)
    encoded = detector.encoder.encode("the moon is cold.", answer, question, "en")
    tokens = np.array(detector.encoder.tokenizer.convert_ids_to_tokens(encoded.ids.tolist()))
    assert " ".join(tokens) == text
    assert (" ".join(tokens[encoded.reference]), " ".join(tokens[encoded.answer])) == ("the moon is cold .", answer)
    assert [answer[start:end] for start, end in encoded.offsets] == answer.split()
    second = 0 if form == "paper" else 3
    assert encoded.types.tolist() == [0] * (len(tokens) - second) + [1] * second


def test_paper_form_of_a_decoder(llama_classifier: Path) -> None:
    detector = TransformersDetector(str(llama_classifier))
    assert detector.form == "paper"
    encoded = detector.encoder.encode("the moon", "a red sun", None, None)
    tokens = detector.encoder.tokenizer.convert_ids_to_tokens(encoded.ids.tolist())
    assert " ".join(tokens) == " ".join("<s> the moon </s> a red sun".split())
    assert [tokens[place] for place in encoded.answer] == ["a", "red", "sun"]


def test_form_by_name(tmp_path: Path) -> None:
    other = write_lookup(tmp_path / "other")
    (tmp_path / "lettuce-link").symlink_to(other)
    names = ("lettucedect-base-modernbert-en-v1", "lettucedect-v2-mmbert-base")
    folders = [other, tmp_path / "lettuce-link", *(write_lookup(tmp_path / name) for name in names)]
    forms = [TransformersDetector(str(folder)).form for folder in folders]
    assert forms == ["pair", "pair", "lettucedetect", "lettucedetect-v2"]


REFERENCES = ["the moon is cold. " * (n % 4 + 1) for n in range(40)]
ANSWERS = ["the sun is a red star." for _ in range(40)]
LANGUAGES = ["en"] * 40


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError("no room"), RuntimeError("can't allocate memory: 9 TB")])
def test_a_batch_that_does_not_fit_is_halved_and_later_ones_are_smaller(
    lookup: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    detector = TransformersDetector(str(lookup), batch_size=32, batch_tokens=10_000)
    expected = detector.detect(REFERENCES, ANSWERS, LANGUAGES)
    logits, sizes, most = detector.engine._logits, [], 8

    def small(ids: Any, types: Any = None) -> Any:
        sizes.append(len(ids))
        if len(ids) > most:
            raise error
        return logits(ids, types)

    monkeypatch.setattr(detector.engine, "_logits", small)
    assert detector.detect(REFERENCES, ANSWERS, LANGUAGES) == expected
    assert sizes[:3] == [32, 16, 8]
    assert sizes.count(32) == 1  # batches are smaller from then on
    assert max(sizes[sizes.index(8) :]) <= 16
    assert "32 inputs of up to 30 tokens do not fit into the memory of cpu" in caplog.text
    assert "batches have 240 tokens at most from now on" in caplog.text
    most = 0
    with pytest.raises(UnusableDetector, match=r"30 tokens do not fit into the memory of cpu; set max_length"):
        detector.detect(REFERENCES, ANSWERS, LANGUAGES)
    error = RuntimeError("a fault")
    with pytest.raises(RuntimeError, match="a fault"):
        detector.detect(REFERENCES, ANSWERS, LANGUAGES)


def test_no_more_documents_are_read_ahead_than_are_sorted_together(lookup: Path) -> None:
    """Of a long list, only the first chunks have been encoded when the first answer is done."""
    detector = TransformersDetector(str(lookup), batch_size=2)
    encoded: list[int] = []
    encode_all = detector.encoder.encode_all
    detector.encoder.encode_all = lambda documents: encoded.append(len(documents)) or encode_all(documents)  # type: ignore
    spans = detector.detect_each(REFERENCES * 3, ANSWERS * 3, LANGUAGES * 3)
    next(spans)
    assert sum(encoded) <= 16 * 2 + 2 * 32  # a round of batches, and two chunks of the tokenizer
    assert sum(1 for _ in spans) == 119
    assert sum(encoded) == 120


def test_spans_are_kept_under_other_options_of_speed_alone(lookup: Path, tmp_path: Path) -> None:
    store = tmp_path / "spans.jsonl"
    options_of = ({"batch_size": 1}, {"batch_size": 4, "device": "cpu"}, {"threshold": 0.9}, {"dtype": "bfloat16"})
    for options, lines in zip(options_of, (3, 3, 6, 9), strict=True):
        stored = StoredDetector(load_detector(str(lookup), **options), store, options)
        stored.detect(["the moon"] * 3, ["the moon is a red star.", "", "the moon"], ["en"] * 3)
        assert len(store.read_text("utf-8").splitlines()) == lines


LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}


@pytest.mark.parametrize("without", [None, *LAUNCHED])
def test_which_process_of_a_launch_this_is(monkeypatch: pytest.MonkeyPatch, without: str | None) -> None:
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert (here(), processes.gpu()) == (ProcessPlace(3, 4, 1), "cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # fewer GPUs than processes
    assert processes.gpu() == "cuda:0"
    if without is not None:  # a cluster's variables are no launch
        monkeypatch.delenv(without)
        assert (here(), processes.gpu()) == (ProcessPlace(0, 1, 0), "cuda")
        assert processes.gather("mine") == processes.all_gather("mine") == ["mine"]
