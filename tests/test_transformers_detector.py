"""Classifiers of tokens and of sentences as detectors: windows, probabilities, spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span
from detector_plugin.detector import Detector, UnusableDetector
from detector_plugin.loading import load_detector
from detector_plugin.sentences import sentence_bounds
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.inputs import spans_of, window_bounds
from tests.tiny_models import (
    BINARY,
    llama_config,
    llama_tokenizer,
    word_tokenizer,
    write_lexicon,
    write_text_classifier,
)


def found(detector: TransformersDetector, reference: str, answer: str, question: str | None = None) -> list[str]:
    """The flagged parts of one answer."""
    questions = None if question is None else [question]
    return [answer[start:end] for start, end, *_ in detector.detect([reference], [answer], ["en"], questions)[0]]


def probabilities(detector: TransformersDetector, texts: list[tuple[str, str]]) -> list[Any]:
    """Of the answers' tokens, all documents in one batch."""
    encoded = [detector.encoder.encode(reference, answer, None, "en") for reference, answer in texts]
    rows = detector.engine.probabilities([one.ids for one in encoded], [one.types for one in encoded])
    return [row[document.answer] for row, document in zip(rows, encoded, strict=True)]


def test_words_that_the_reference_lacks(lookup: Path) -> None:
    detector = load_detector(str(lookup))
    assert isinstance(detector, Detector)
    answers = ["the moon is a red star.", "the moon is cold.", "", "  \n", "sun"]
    references = ["the moon is a cold rock."] * 4 + [""]
    expected = [[Span(14, 22)], [], [], [], [Span(0, 3)]]
    assert detector.detect(references, answers, ["en"] * 5) == expected
    assert detector.detect([], [], []) == []
    assert detector.detect(["the moon."], ["the sun."], ["en"], ["the sun?"]) == [[Span(4, 7)]]  # in pairs no evidence
    with pytest.raises(ValueError, match="2 answers, but 1 references"):
        detector.detect(["a"], ["a", "b"], ["en", "en"])


def test_a_word_that_only_the_third_window_has(lookup: Path) -> None:
    detector = TransformersDetector(str(lookup), max_length=32)
    reference = "the moon is cold. " * 10 + "a red rock."
    assert window_bounds(43, 6, 29)[0] == [(0, 23), (10, 33), (20, 43)]
    assert found(detector, reference, "the rock is a star.") == ["star"]
    assert found(detector, "sun " + reference, "the sun, the rock") == [","]
    assert found(detector, "rock " + reference, "the moon is cold. " * 30 + "a hot rock") == ["hot"]  # both are long


def test_long_answer(tmp_path: Path) -> None:
    detector = TransformersDetector(str(write_lexicon(tmp_path / "m", {"sun": 1}, BINARY, 512)))
    words = ["moon"] * 100_000
    for place in (0, 300, 301, 99_999):
        words[place] = "sun"
    spans = detector.detect(["the moon"], [" ".join(words)], [None])[0]
    at = 5 * 300 - 1  # the first word is one letter shorter
    assert spans == [Span(0, 3), Span(at, at + 7), Span(5 * 99_999 - 3, 5 * 99_999)]


def test_batches_change_nothing(lookup: Path, llama_classifier: Path) -> None:
    texts = [("the moon is cold. " * n, "a red sun is the star. " * (n % 3 + 1)) for n in range(7)]
    for folder in (lookup, llama_classifier):
        detector = TransformersDetector(str(folder))
        together = probabilities(detector, texts)
        for text, of_text in zip(texts, together, strict=True):
            np.testing.assert_allclose(probabilities(detector, [text])[0], of_text, atol=1e-5)
        references, answers = map(list, zip(*texts, strict=True))
        expected = detector.detect(references, answers, [None] * 7)
        for options in ({"batch_size": 1}, {"batch_size": 3}, {"batch_tokens": 40}, {"dtype": "float32"}):
            assert TransformersDetector(str(folder), **options).detect(references, answers, [None] * 7) == expected


def test_categories(tmp_path: Path) -> None:
    labels = dict(enumerate(["O", *CATEGORIES]))
    classes = {word: number for number, word in enumerate(["moon", "sun", "mars", "red", "cold", "hot"], 1)}
    detector = TransformersDetector(str(write_lexicon(tmp_path / "m", classes, labels)))
    answer = "moon moon, sun the   red\n\nred hot ."
    assert detector.detect([""], [answer], ["en"]) == [
        [Span(0, 9, "entity"), Span(11, 14, "relation"), Span(21, 29, "contradictory"), Span(30, 33, "subjective")]
    ]


@pytest.mark.parametrize(
    ("answer", "offsets", "flagged", "expected"),
    [
        ("one two", [(0, 3), (3, 7)], [0, 1], ["two"]),  # white space of the token goes
        ("one two", [(0, 3), (3, 4), (4, 7)], [1, 0, 1], ["one two"]),  # a token of white space says nothing
        ("one.two", [(0, 3), (3, 4), (4, 7)], [1, 0, 1], ["one", "two"]),
        ("x🌙y", [(0, 1), (1, 2), (1, 2), (2, 3)], [0, 1, 1, 0], ["🌙"]),  # two tokens of one character
        ("one two", [(0, 3), (3, 7)], [0.5, 0.49], ["one"]),
        ("one", [(0, 0), (0, 3)], [1, 0], []),
    ],
)
def test_spans_of_tokens(answer: str, offsets: list[Any], flagged: list[float], expected: list[str]) -> None:
    both = np.array([[1 - one, one] for one in flagged], np.float32).reshape(-1, 2)
    spans = spans_of(answer, np.array(offsets).reshape(-1, 2), both, [None, HALLUCINATION], 0.5)
    assert [answer[start:end] for start, end, *_ in spans] == expected


def test_a_spans_probability_is_the_mean_of_its_characters() -> None:
    probabilities = np.array([[0.4, 0.6], [0.1, 0.9], [0.8, 0.2], [0.25, 0.75]], np.float32)
    offsets = np.array([(0, 1), (1, 4), (5, 7), (8, 9)])
    assert spans_of("a234 no b", offsets, probabilities, [None, HALLUCINATION], 0.5) == [
        *(Span(0, 4, HALLUCINATION, 0.825), Span(8, 9, HALLUCINATION, 0.75))
    ]


def test_broken_characters_and_long_questions(lookup: Path) -> None:
    detector = TransformersDetector(str(lookup), form="lettucedetect-v2")
    # The question stands in the same text as the reference, and this model does not tell them apart: no sun is flagged.
    assert found(detector, "the \ud800 moon", "the \udfff moon sun", question="sun " * 1000) == ["\udfff"]
    assert len(detector.encoder.encode("the", "the", "sun " * 1000, None).fixed) < 128 // 2


def test_attention(llama_classifier: Path) -> None:
    first = {}
    for attention in ("auto", "bidirectional", "causal"):
        detector = TransformersDetector(str(llama_classifier), attention=attention)
        with_sun, with_mars = probabilities(detector, [("the moon", "a red sun"), ("the moon", "a red mars")])
        first[attention] = with_sun[0].tolist()
        assert (with_sun[0] == with_mars[0]).all() == (attention == "causal")
    assert first["auto"] == first["bidirectional"] != first["causal"]
    own = transformers.LlamaForTokenClassification.from_pretrained(llama_classifier).eval()
    for form, options in (("paper", {"attention": "causal"}), ("pair", {})):
        detector = TransformersDetector(str(llama_classifier), form=form, **options)
        ids = detector.encoder.encode("the moon", "a red sun", None, None).ids
        theirs = own(torch.tensor([ids.tolist()])).logits.softmax(-1)[0].detach().numpy()
        ours = probabilities(detector, [("the moon", "a red sun"), ("the moon", "a red sun " * 5)])[0]
        np.testing.assert_allclose(ours, theirs[-3:], atol=1e-5)


@pytest.mark.parametrize("kind", ["Mistral", "Qwen2", "Gemma2", "GPT2"])
def test_other_decoders_see_both_ways(tmp_path: Path, kind: str) -> None:
    if kind == "GPT2" and not hasattr(transformers, "ModernBertConfig"):
        pytest.skip("refused: GPT-2 took no such masks before transformers 4.48")
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 64}
    if kind != "GPT2":
        sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        sizes |= {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64}
    sizes |= {"vocab_size": 20, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1}
    config = getattr(transformers, f"{kind}Config")(initializer_range=0.5, **sizes)
    getattr(transformers, f"{kind}ForTokenClassification")(config).save_pretrained(tmp_path)
    llama_tokenizer().save_pretrained(tmp_path)
    detector = TransformersDetector(str(tmp_path))
    assert detector.engine.bidirectional
    text = ("the moon", "a red sun")
    one = probabilities(detector, [text, ("the moon " * 4, "a")])[0]
    alone, other = (probabilities(detector, [each])[0] for each in (text, ("the moon", "a red mars")))
    assert (one[0] != other[0]).any()
    np.testing.assert_allclose(one, alone, atol=1e-5)


@pytest.mark.parametrize("kind", ["ModernBert", "XLMRoberta"])
def test_other_encoders(tmp_path: Path, kind: str) -> None:
    if not hasattr(transformers, f"{kind}Config"):
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    torch.manual_seed(0)
    tokenizer = word_tokenizer(10**30)
    config = getattr(transformers, f"{kind}Config")(
        **{"vocab_size": 20, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2},
        **{"num_attention_heads": 2, "max_position_embeddings": 42, "pad_token_id": 1, "id2label": BINARY},
        **({"global_attn_every_n_layers": 2, "local_attention": 4} if kind == "ModernBert" else {"type_vocab_size": 1}),
    )
    if kind == "XLMRoberta":
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    getattr(transformers, f"{kind}ForTokenClassification")(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    detector = TransformersDetector(str(tmp_path), form="pair")
    assert detector.max_length == (42 if kind == "ModernBert" else 40)
    # XLM-R's table has one text's number only: that of the second must not be given.
    detector.detect(["the moon is cold. " * 20, ""], ["a red sun. " * 20, "a"], [None, "de"])
    with pytest.raises(UnusableDetector, match="attention=causal is for decoders"):
        TransformersDetector(str(tmp_path), attention="causal")


ENTAILMENT = ["entailment", "neutral", "contradiction"]
SENTENCES = ["the moon is a red star.", "a cold rock, big and hot.", "sun is the mars?", "the sun."]
ANSWERS = ["\n".join(SENTENCES), f"\n{SENTENCES[1]}  ", "", SENTENCES[2] + "\n\n" + SENTENCES[0]]
REFERENCES = ["the moon is a cold rock.", "the sun is a hot star, mars is red. a rock is big. " * 4, "a", "big " * 60]
LONGEST = 32


def probabilities_of_sentences(folder: Path, reference: str, sentence: str) -> tuple[Any, int]:
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
                row, n_windows = probabilities_of_sentences(folder, reference, sentence)
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
        again = load_detector(str(folder), max_length=LONGEST, **options)
        assert again.detect(REFERENCES, ANSWERS, ["en"] * 4) == spans


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
