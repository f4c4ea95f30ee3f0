"""Classifiers of texts (entailment, fact checks) as detectors of sentences, against a plain loop of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from custom_metrics.reading.spans import HALLUCINATION
from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import load_detector
from detector_plugin.sentences import sentence_bounds
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.inputs import window_bounds
from tests.tiny_models import llama_config, llama_tokenizer, write_text_classifier

ENTAILMENT = ["entailment", "neutral", "contradiction"]
SENTENCES = ["the moon is a red star.", "a cold rock, big and hot.", "sun is the mars?", "the sun."]
ANSWERS = ["\n".join(SENTENCES), f"\n{SENTENCES[1]}  ", "", SENTENCES[2] + "\n\n" + SENTENCES[0]]
REFERENCES = ["the moon is a cold rock.", "the sun is a hot star, mars is red. a rock is big. " * 4, "a", "big " * 60]
LONGEST = 32


def probabilities(folder: Path, reference: str, sentence: str) -> tuple[Any, int]:
    """Those of the classes in the window that most likely supports the sentence (class 0), and the number of windows; by
    transformers alone, a window at a time. A token is a word here, so that windows are of words."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    words = tokenizer.tokenize(reference)
    windows, _ = window_bounds(len(words), len(tokenizer.tokenize(sentence)), LONGEST - 3)
    with torch.no_grad():
        read = [
            model(**tokenizer(" ".join(words[start:end]), sentence, return_tensors="pt")).logits.softmax(-1)[0].numpy()
            for start, end in windows
        ]
    return max(read, key=lambda row: row[0]), len(windows)


@pytest.mark.parametrize(
    ("labels", "categories"),
    [(ENTAILMENT, [None, "unverifiable", "contradictory"]), (["supported", "not_supported"], [None, HALLUCINATION])],
)
def test_whole_sentences_by_their_best_window(tmp_path: Path, labels: list[str], categories: list[str | None]) -> None:
    folder = write_text_classifier(tmp_path / "m", labels)
    detector = load_detector(str(folder), max_length=LONGEST)
    spans = detector.detect(REFERENCES, ANSWERS, ["en"] * 4)
    flagged = passed = most = 0
    for reference, answer, of_answer in zip(REFERENCES, ANSWERS, spans, strict=True):
        expected = []
        for sentence in SENTENCES:
            if (start := answer.find(sentence)) >= 0:
                row, n_windows = probabilities(folder, reference, sentence)
                most = max(most, n_windows)
                passed += row[0] > 0.5
                if row[0] <= 0.5:
                    kind = categories[1 + int(row[1:].argmax())]
                    expected.append((start, start + len(sentence), kind, pytest.approx(1 - row[0], abs=1e-4)))
        assert of_answer == sorted(expected)
        flagged += len(of_answer)
    assert flagged > 1 < passed  # both kinds, and more than one window
    assert most > 3
    for options in ({"batch_size": 1}, {"batch_tokens": 40}, {"threshold": 0.5}):
        assert (
            load_detector(str(folder), max_length=LONGEST, **options).detect(REFERENCES, ANSWERS, ["en"] * 4) == spans
        )


def test_a_sentence_longer_than_a_window_is_its_weakest_part(tmp_path: Path) -> None:
    folder = write_text_classifier(tmp_path / "m", ENTAILMENT)
    detector = TransformersDetector(str(folder), max_length=LONGEST, threshold=0)
    answer = "the moon is a cold big rock, " * 20 + "sun."
    (document,) = detector.token_probabilities(["the moon is cold. " * 20], [answer], ["en"])
    offsets, read = document.units()
    assert offsets.tolist() == [[0, len(answer)]]
    assert read[0, 0] == document.best[:, 0].min() < document.best[:, 0].max()
    assert [span[:2] for span in detector.detect(["a"], [" ... "], ["ja"])[0]] == [(1, 4)]  # no word is one sentence


@pytest.mark.parametrize(
    ("name", "labels", "options", "expected"),
    [
        ("m", ["contradiction", "entailment", "neutral"], {}, ["contradictory", None, "unverifiable"]),
        ("m", ["entailment", "not_entailment"], {}, [None, HALLUCINATION]),
        ("m", ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"], {}, [None, "contradictory", "unverifiable"]),
        ("MiniCheck-tiny", ["LABEL_0", "LABEL_1"], {}, [HALLUCINATION, None]),
        ("m", ["LABEL_0", "LABEL_1"], {"labels": "LABEL_0=hallucination;LABEL_1=O"}, [HALLUCINATION, None]),
        ("m", ["LABEL_0", "LABEL_1"], {}, "not clear what 'LABEL_0', 'LABEL_1' stand for.*option labels"),
        ("m", ["positive", "negative"], {}, "has the labels 'positive', 'negative'.*option labels"),
        ("m", ["contradiction", "neutral"], {}, "not clear what 'contradiction', 'neutral' stand for"),
        ("m", ENTAILMENT, {"attention": "bidirectional"}, "is for classifiers of tokens"),
    ],
)
def test_labels(tmp_path: Path, name: str, labels: list[str], options: dict[str, str], expected: Any) -> None:
    folder = str(write_text_classifier(tmp_path / name, labels))
    if isinstance(expected, str):
        with pytest.raises(UnusableDetector, match=f"^(?!.*\n).*{expected}"):
            TransformersDetector(folder, **options)
        return
    detector = TransformersDetector(folder, **options)
    assert detector.categories == expected
    # MiniCheck's own code joins document and claim with the token that ends a text
    assert detector.form == ("pair" if name == "m" else "paper")


def test_a_decoder_in_batches_and_alone(tmp_path: Path) -> None:
    """Its tokenizer has no padding: its class must be that of its last token, not of the padding."""
    torch.manual_seed(0)
    model = transformers.LlamaForSequenceClassification(llama_config(id2label=dict(enumerate(ENTAILMENT)))).eval()
    model.save_pretrained(tmp_path)
    llama_tokenizer().save_pretrained(tmp_path)
    together, alone = (
        TransformersDetector(str(tmp_path), threshold=0, **options).detect(REFERENCES, ANSWERS, [None] * 4)
        for options in ({}, {"batch_size": 1})
    )
    assert len({span.probability for span in alone[0]}) == 4
    assert together == [[span._replace(probability=pytest.approx(span[3], abs=1e-4)) for span in row] for row in alone]


def test_an_adapter_of_texts(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    base = write_text_classifier(tmp_path / "base", ENTAILMENT)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(base)
    settings = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query"], init_lora_weights=False)
    model = peft.get_peft_model(model, settings).eval()
    model.save_pretrained(tmp_path / "adapter")
    detector = TransformersDetector(str(tmp_path / "adapter"), labels="0=O;1=unverifiable;2=contradictory", threshold=0)
    inputs = transformers.AutoTokenizer.from_pretrained(base)(REFERENCES[0], SENTENCES[0], return_tensors="pt")
    with torch.no_grad():
        expected = 1 - float(model(**inputs).logits.softmax(-1)[0, 0])
    ((span,),) = detector.detect(REFERENCES[:1], SENTENCES[:1], ["en"])
    assert span.probability == pytest.approx(expected, abs=1e-4)


def test_sentences() -> None:
    for language, sentences, between in (
        ("de", ["Am 1. Mai kam J. Smith.", "Er ging!"], "  "),
        (None, ["- one", "- two"], "\n"),
        ("ja", ["月は冷たい。", "太陽は熱い。"], ""),
    ):
        answer = between.join(["", *sentences])
        assert [answer[start:end] for start, end in sentence_bounds(answer, language)] == sentences
