"""What a token classifier reads, and what its labels mean: known to the character, on tiny models made here."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION
from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers import TransformersDetector, class_meanings, parse_labels
from detector_plugin.transformers.inputs import prompt
from tests.test_transformers_detector import found
from tests.tiny_models import write_lexicon, write_lookup


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (["LABEL_0", "LABEL_1"], None, [None, HALLUCINATION]),
        (["Hallucination", "Supported"], None, [HALLUCINATION, None]),
        (["O", "B-hallucination", "I-hallucination"], None, [None, HALLUCINATION, HALLUCINATION]),
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
    for labels, flagged in (("good=O;bad=hallucination", ["sun"]), ({"0": "hallucination", "bad": "O"}, ["the", "."])):
        assert found(TransformersDetector(folder, labels=labels), "moon", "the sun.") == flagged


# Forms


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
