"""Token classifiers as detectors, on tiny models made here: what is expected is known to the character."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from custom_metrics.spans import CATEGORIES, HALLUCINATION, Span
from detector_plugin.detector import Detector, UnusableDetector, load_detector
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.forms import prompt
from detector_plugin.transformers.labels import mapping_of, meanings
from detector_plugin.transformers.readings import spans_of
from detector_plugin.transformers.windows import number_of_windows, windows
from tests.conftest import run

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["moon", "sun", "mars", "is", "the", "a", "rock", "star", "red", "cold", "hot", "big", ".", ",", "?", "user"]
BINARY = {0: "supported", 1: "hallucinated"}


def word_tokenizer(max_length: int = 512) -> Any:
    """One token a word, BERT's special tokens."""
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep")},
    )


def write_lookup(folder: Path, longest: int = 128, labels: dict[int, str] = BINARY) -> Path:
    """A BERT that flags words the reference lacks: rigged so that a word of the answer attends to itself in the reference.

    The only head's scores are high for a token of the first text that is the same word, low for [CLS], lower for the rest.
    What is looked at is written where the classifier reads it: 1 for a word, 0 for [CLS].
    """
    vocabulary = len(SPECIAL) + len(WORDS)
    first, second, seen = vocabulary, vocabulary + 1, vocabulary + 2  # places in the hidden state
    width = vocabulary + 3
    config = transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=longest,
        id2label=labels,
        label2id={label: number for number, label in labels.items()},
    )
    model = transformers.BertForTokenClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for name, parameter in model.named_parameters():
            if "LayerNorm.weight" in name:
                parameter.fill_(1)
        embeddings, layer = model.bert.embeddings, model.bert.encoder.layer[0]
        for number in range(vocabulary):
            embeddings.word_embeddings.weight[number, number] = 1
        embeddings.token_type_embeddings.weight[0, first] = 1
        embeddings.token_type_embeddings.weight[1, second] = 1
        # A state is `low` everywhere but at the word's and the text's place, where it is `low + step`.
        step = 1 / math.sqrt((2 / width) * (1 - 2 / width))
        low = -2 / width * step
        attention = layer.attention.self
        scale = math.sqrt(width)
        for number in range(len(SPECIAL), vocabulary):  # same word: 40
            attention.query.weight[number, number] = 40 * scale / step
            attention.query.bias[number] = -40 * scale * low / step
            attention.key.weight[number, number] = 1 / step
            attention.key.bias[number] = -low / step
        attention.query.bias[second] = scale  # of the second text: -80; [CLS]: 20
        attention.key.weight[second, second] = -80 / step
        attention.key.weight[second, 2] = 20 / step
        attention.key.bias[second] = 80 * low / step - 20 * low / step
        for number in range(len(SPECIAL), vocabulary):
            attention.value.weight[seen, number] = 1 / step
        attention.value.bias[seen] = -low / step * len(WORDS)
        layer.attention.output.dense.weight[seen, seen] = 10
        model.classifier.weight[0, seen] = 20
        model.classifier.bias[0] = -20
    model.save_pretrained(folder)
    word_tokenizer(longest).save_pretrained(folder)
    return folder


def write_lexicon(folder: Path, classes: dict[str, int], labels: dict[int, str], longest: int = 64) -> Path:
    """A BERT without layers: each word has a class whatever the reference says; all others have class 0."""
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=len(labels),
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=1,
        max_position_embeddings=longest,
        id2label=labels,
        label2id={label: number for number, label in labels.items()},
    )
    model = transformers.BertForTokenClassification(config)
    with torch.no_grad():
        for parameter in (*model.bert.parameters(), model.classifier.bias):
            parameter.zero_()
        model.bert.embeddings.LayerNorm.weight.fill_(1)
        for number, word in enumerate([*SPECIAL, *WORDS]):
            model.bert.embeddings.word_embeddings.weight[number, classes.get(word, 0)] = 1
        model.classifier.weight.copy_(20 * torch.eye(len(labels)))
    model.save_pretrained(folder)
    word_tokenizer(longest).save_pretrained(folder)
    return folder


def llama_config(**options: Any) -> Any:
    return transformers.LlamaConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        initializer_range=0.5,
        **options,
    )


def llama_tokenizer() -> Any:
    """Begins texts with a token, as Llama's does, and has one that ends them; none that pads or separates."""
    vocabulary = {word: number for number, word in enumerate(["<s>", "</s>", "[UNK]", "-", *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lookup(tmp_path_factory.mktemp("lookup"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    transformers.LlamaForTokenClassification(llama_config(num_labels=2)).save_pretrained(folder)
    llama_tokenizer().save_pretrained(folder)
    return folder


def found(detector: TransformersDetector, reference: str, answer: str, question: str | None = None) -> list[str]:
    """The flagged parts of one answer."""
    questions = None if question is None else [question]
    return [answer[start:end] for start, end, *_ in detector.detect([reference], [answer], ["en"], questions)[0]]


def probabilities(detector: TransformersDetector, texts: list[tuple[str, str]]) -> list[Any]:
    """Of the answers' tokens, all documents in one batch."""
    encoded = [detector.encoder.encode(reference, answer, None, "en") for reference, answer in texts]
    rows = detector.runner.probabilities(encoded, [np.arange(len(document.ids)) for document in encoded])
    return [row[document.answer] for row, document in zip(rows, encoded, strict=True)]


# Labels


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (["LABEL_0", "LABEL_1"], None, [None, HALLUCINATION]),
        (["supported", "hallucinated"], None, [None, HALLUCINATION]),
        (["Hallucination", "Supported"], None, [HALLUCINATION, None]),
        (["0", "1"], None, [None, HALLUCINATION]),
        (["O", "unsupported"], None, [None, HALLUCINATION]),
        (["O", "B-hallucination", "I-hallucination"], None, [None, HALLUCINATION, HALLUCINATION]),
        (["fine", "not_supported"], None, [None, HALLUCINATION]),
        (["none", *CATEGORIES], None, [None, *CATEGORIES]),
        (["O", "B-Entity", "I-Entity", "B-subjective"], None, [None, "entity", "entity", "subjective"]),
        (["good", "bad"], {"good": "O", "bad": "hallucination"}, [None, HALLUCINATION]),
        (["good", "bad"], {"0": "O", "1": "entity"}, [None, "entity"]),
        (["LABEL_0", "LABEL_1"], {"LABEL_1": "O", "LABEL_0": "hallucination"}, [HALLUCINATION, None]),
        (["LABEL_0", "LABEL_1"], {"LABEL_0": "hallucination", "LABEL_1": "O"}, [HALLUCINATION, None]),
        (["O", "entity", "ENT2"], {"ENT2": "entity"}, [None, "entity", "entity"]),
    ],
)
def test_labels(names: list[str], given: dict[str, str] | None, expected: list[str | None]) -> None:
    assert meanings(names, given) == expected


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (
            ["good", "bad"],
            None,
            r"'good', 'bad'.*not clear what 'good', 'bad' stand for.*labels=good=O;bad=hallucination",
        ),
        (["LABEL_0", "LABEL_1", "LABEL_2"], None, r"not clear what 'LABEL_0'"),
        (["O", "supported"], None, r"none of them says that a token is hallucinated"),
        (["entity", "relation"], None, r"none of them says that a token is borne out"),
        (["O", "PER", "entity"], None, r"not clear what 'PER' stand"),
        (["good", "bad"], {"ugly": "O"}, r"names 'ugly', but the model's labels are 'good', 'bad'"),
        (["good", "bad"], {"good": "fine"}, r"good=fine; a meaning is O, hallucination, entity"),
    ],
)
def test_labels_that_say_nothing(names: list[str], given: dict[str, str] | None, message: str) -> None:
    with pytest.raises(UnusableDetector, match=message):
        meanings(names, given)


def test_labels_as_text() -> None:
    assert mapping_of(" LABEL_0 = O;LABEL_1=hallucination ") == {"LABEL_0": "O", "LABEL_1": "hallucination"}
    assert mapping_of(None) is None
    with pytest.raises(UnusableDetector, match="no list of label=meaning"):
        mapping_of("LABEL_0")


def test_labels_of_a_model(tmp_path: Path) -> None:
    folder = str(write_lexicon(tmp_path / "m", {"sun": 1}, {0: "good", 1: "bad"}))
    with pytest.raises(UnusableDetector, match=r"detector .*/m: has the labels 'good', 'bad'.*option labels"):
        TransformersDetector(folder)
    assert found(TransformersDetector(folder, labels="good=O;bad=hallucination"), "moon", "the sun.") == ["sun"]
    assert found(TransformersDetector(folder, labels={"good": "hallucination", "bad": "O"}), "", "the sun.") == [
        "the",
        ".",
    ]


# Forms


def test_lettucedetect_prompts_are_theirs_to_the_last_character() -> None:
    # sha256 of what lettucedetect 0.2.3 makes of the passage "R" and the question "Q", cut to eight digits.
    made = {}
    for language in ("en", "de", "fr", "es", "it", "pl", "zh", "hu"):
        texts = ["R".join(prompt("lettucedetect", question, language)) for question in ("Q", None)]
        made[language] = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]
    assert made == LETTUCE
    assert "R".join(prompt("lettucedetect", "Why?", "en")) == (
        "Briefly answer the following question:\nWhy?\nBear in mind that your response should be strictly based on the "
        "following 1 passages:\npassage 1: R\nIn case the passages do not contain the necessary information to answer the "
        'question, please reply with: "Unable to answer based on given passages."\noutput:'
    )
    assert "R".join(prompt("lettucedetect", "", "de")) == "Fasse den folgenden Text zusammen:\nPassage 1: R\nAusgabe:\n"
    assert (
        prompt("lettucedetect", "Q", "sw") == prompt("lettucedetect", "Q", None) == prompt("lettucedetect", "Q", "en")
    )
    assert prompt("lettucedetect", "Q", "yue") == prompt("lettucedetect", "Q", "zh")
    assert "".join(prompt("lettucedetect", "{context} {passages}", "en")).count("{passages}") == 1  # of the question
    assert prompt("lettucedetect-v2", "Why?", "de") == ("User request: Why?\n\n", "")
    assert prompt("lettucedetect-v2", None, "de") == prompt("pair", "Why?", "de") == ("", "")


LETTUCE = {
    "en": "a2800345",
    "de": "89b307be",
    "fr": "a48c8693",
    "es": "bf69de7b",
    "it": "a412f533",
    "pl": "682a8c4e",
    "zh": "779f8109",
    "hu": "3785ce68",
}


@pytest.mark.parametrize(
    ("form", "question", "text", "answer"),
    [
        ("pair", "is it?", "[CLS] the moon is cold . [SEP] a moon [SEP]", "a moon"),
        ("paper", None, "[CLS] the moon is cold . [SEP] a moon [SEP]", "a moon"),
        ("lettucedetect-v2", None, "[CLS] the moon is cold . [SEP] a moon [SEP]", "a moon"),
        (
            "lettucedetect-v2",
            "is the sun?",
            "[CLS] [UNK] [UNK] [UNK] is the sun ? the moon is cold . [SEP] a moon [SEP]",
            "a moon",
        ),
        (
            "lettucedetect",
            None,
            "[CLS] [UNK] the [UNK] [UNK] [UNK] [UNK] [UNK] [UNK] the moon is cold . [UNK] [UNK] [SEP] a moon [SEP]",
            "a moon",
        ),
    ],
)
def test_what_the_model_reads(lookup: Path, form: str, question: str | None, text: str, answer: str) -> None:
    detector = TransformersDetector(str(lookup), form=form)
    encoded = detector.encoder.encode("the moon is cold.", answer, question, "en")
    tokens = np.array(detector.encoder.tokenizer.convert_ids_to_tokens(encoded.ids.tolist()))
    assert " ".join(tokens) == text
    assert " ".join(tokens[encoded.reference]) == "the moon is cold ."
    assert " ".join(tokens[encoded.answer]) == answer
    assert [answer[start:end] for start, end in encoded.offsets] == answer.split()
    assert sorted([*encoded.fixed, *encoded.reference, *encoded.answer]) == list(range(len(tokens)))
    second = 0 if form == "paper" else len(answer.split()) + 1
    assert encoded.types.tolist() == [0] * (len(tokens) - second) + [1] * second


def test_the_tokenizers_own_pair_is_read(lookup: Path) -> None:
    detector = TransformersDetector(str(lookup), form="lettucedetect")
    tokenizer = detector.encoder.tokenizer
    before, after = prompt("lettucedetect", "is the sun?", "de")
    theirs = tokenizer(f"{before}the moon.{after}", "a red star", truncation="only_first", max_length=128)
    assert detector.encoder.encode("the moon.", "a red star", "is the sun?", "de").ids.tolist() == theirs["input_ids"]


@pytest.mark.parametrize(("separator", "between"), [(None, "</s>"), ("-", "-"), ("is the", "is the"), ("", "")])
def test_paper_form_of_a_decoder(llama: Path, separator: str | None, between: str) -> None:
    detector = TransformersDetector(str(llama), separator=separator)
    assert detector.form == "paper"
    encoded = detector.encoder.encode("the moon", "a red sun", None, None)
    tokens = detector.encoder.tokenizer.convert_ids_to_tokens(encoded.ids.tolist())
    assert " ".join(tokens) == " ".join(f"<s> the moon {between} a red sun".split())
    assert [tokens[place] for place in encoded.answer] == ["a", "red", "sun"]
    with pytest.raises(UnusableDetector, match="option separator: only the form paper"):
        TransformersDetector(str(llama), separator="-", form="pair")


@pytest.mark.parametrize(
    ("name", "form"),
    [("lettucedect-base-modernbert-en-v1", "lettucedetect"), ("lettucedect-v2-mmbert-base", "lettucedetect-v2")],
)
def test_form_by_name(lookup: Path, tmp_path: Path, name: str, form: str) -> None:
    (tmp_path / name).symlink_to(lookup)
    (tmp_path / "copy").symlink_to(lookup)
    assert TransformersDetector(str(tmp_path / "copy")).form == "pair"
    folder = tmp_path / "of" / name
    write_lookup(folder)
    assert TransformersDetector(str(folder)).form == form


# Detection


def test_words_that_the_reference_lacks(lookup: Path) -> None:
    detector = load_detector(str(lookup))
    assert isinstance(detector, Detector)
    answers = ["the moon is a red star.", "the moon is cold.", "", "  \n", "sun"]
    references = ["the moon is a cold rock."] * 4 + [""]
    expected = [[Span(14, 22)], [], [], [], [Span(0, 3)]]
    assert detector.detect(references, answers, ["en"] * 5) == expected
    assert detector.detect([], [], []) == []
    with pytest.raises(ValueError, match="2 answers, but 1 references"):
        detector.detect(["a"], ["a", "b"], ["en", "en"])


def test_question_is_no_evidence_in_pairs(lookup: Path) -> None:
    detector = TransformersDetector(str(lookup))
    assert found(detector, "the moon.", "the sun.", question="the sun?") == ["sun"]


def test_a_word_that_only_the_third_window_has(lookup: Path) -> None:
    detector = TransformersDetector(str(lookup), max_length=32)
    reference = "the moon is cold. " * 10 + "a red rock."
    number = number_of_windows(43, 6, 29)
    assert number == 3
    assert [window.reference for window in windows(43, 6, 29)] == [(0, 23), (10, 33), (20, 43)]
    assert found(detector, reference, "the rock is a star.") == ["star"]
    assert found(detector, "sun " + reference, "the sun, the rock") == [","]


def test_windows_cover_every_pair_of_tokens() -> None:
    for reference, answer, room in [(0, 5, 16), (100, 3, 16), (3, 100, 16), (100, 90, 40), (7, 9, 16), (0, 1, 16)]:
        met = np.zeros((max(reference, 1), answer), bool)
        decided = np.zeros(answer, int)
        seen = set()
        for (first, end), (start, stop), core in windows(reference, answer, room):
            assert end - first + stop - start <= room
            met[first : max(end, 1), core[0] : core[1]] = True
            assert start <= core[0] < core[1] <= stop
            seen.add(core)
        for core in seen:
            decided[core[0] : core[1]] += 1
        assert met.all()
        assert (decided == 1).all()
        assert number_of_windows(reference, answer, room) == len(list(windows(reference, answer, room)))


def test_long_answer(tmp_path: Path) -> None:
    detector = TransformersDetector(str(write_lexicon(tmp_path / "m", {"sun": 1}, BINARY, 512)))
    words = ["moon"] * 100_000
    for place in (0, 300, 301, 99_999):
        words[place] = "sun"
    spans = detector.detect(["the moon"], [" ".join(words)], [None])[0]
    at = 5 * 300 - 1  # the first word is one letter shorter
    assert spans == [Span(0, 3), Span(at, at + 7), Span(5 * 99_999 - 3, 5 * 99_999)]


def test_long_answer_with_a_long_reference(lookup: Path) -> None:
    detector = TransformersDetector(str(lookup))
    answer = "the moon is cold. " * 30 + "a hot rock"
    assert found(detector, "rock " + "the moon is cold. " * 30 + "a", answer) == ["hot"]


def test_batches_change_nothing(lookup: Path, llama: Path) -> None:
    texts = [("the moon is cold. " * n, "a red sun is the star. " * (n % 3 + 1)) for n in range(7)]
    for folder in (lookup, llama):
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


def test_spans_of_tokens() -> None:
    def spans(answer: str, offsets: list[tuple[int, int]], flagged: list[float], threshold: float = 0.5) -> list[str]:
        both = np.array([[1 - one, one] for one in flagged], np.float32).reshape(-1, 2)
        told = spans_of(answer, np.array(offsets).reshape(-1, 2), both, [None, HALLUCINATION], threshold)
        return [answer[start:end] for start, end, *_ in told]

    assert spans("a b", [], []) == []
    assert spans("one two", [(0, 3), (3, 7)], [0, 1]) == ["two"]  # white space of the token goes
    assert spans("one two", [(0, 3), (3, 7)], [1, 1]) == ["one two"]
    assert spans("one two", [(0, 3), (3, 4), (4, 7)], [1, 0, 1]) == ["one two"]  # a token of white space says nothing
    assert spans("one.two", [(0, 3), (3, 4), (4, 7)], [1, 0, 1]) == ["one", "two"]
    assert spans("x🌙y", [(0, 1), (1, 2), (1, 2), (2, 3)], [0, 1, 1, 0]) == ["🌙"]  # two tokens of one character
    assert spans("one two", [(0, 3), (3, 7)], [0.5, 0.49]) == ["one"]
    assert spans("one two", [(0, 3), (3, 7)], [0.5, 0.49], 0.4) == ["one two"]
    assert spans("one", [(0, 0), (0, 3)], [1, 0]) == []


def test_a_spans_probability_is_the_mean_of_its_characters() -> None:
    probabilities = np.array([[0.4, 0.6], [0.1, 0.9], [0.8, 0.2], [0.25, 0.75]], np.float32)
    offsets = np.array([(0, 1), (1, 4), (5, 7), (8, 9)])
    assert spans_of("a234 no b", offsets, probabilities, [None, HALLUCINATION], 0.5) == [
        Span(0, 4, HALLUCINATION, 0.825),
        Span(8, 9, HALLUCINATION, 0.75),
    ]


def test_broken_characters_and_long_questions(lookup: Path) -> None:
    detector = TransformersDetector(str(lookup), form="lettucedetect-v2")
    # The question stands in the same text as the reference, and this model does not tell them apart: no sun is flagged.
    assert found(detector, "the \ud800 moon", "the \udfff moon sun", question="sun " * 1000) == ["\udfff"]
    assert len(detector.encoder.encode("the", "the", "sun " * 1000, None).fixed) < 128 // 2


# Decoders


def test_attention(llama: Path) -> None:
    first = {}
    for attention in ("auto", "bidirectional", "causal"):
        detector = TransformersDetector(str(llama), attention=attention)
        with_sun, with_mars = probabilities(detector, [("the moon", "a red sun"), ("the moon", "a red mars")])
        first[attention] = with_sun[0].tolist()
        assert (with_sun[0] == with_mars[0]).all() == (attention == "causal")
    assert first["auto"] == first["bidirectional"] != first["causal"]
    own = transformers.LlamaForTokenClassification.from_pretrained(llama).eval()
    for form, options in (("paper", {"attention": "causal"}), ("pair", {})):
        detector = TransformersDetector(str(llama), form=form, **options)
        ids = detector.encoder.encode("the moon", "a red sun", None, None).ids
        theirs = own(torch.tensor([ids.tolist()])).logits.softmax(-1)[0].detach().numpy()
        ours = probabilities(detector, [("the moon", "a red sun"), ("the moon", "a red sun " * 5)])[0]
        np.testing.assert_allclose(ours, theirs[-3:], atol=1e-5)


@pytest.mark.parametrize("kind", ["Mistral", "Qwen2", "Gemma2", "GPT2"])
def test_other_decoders_see_both_ways(tmp_path: Path, kind: str) -> None:
    if kind == "GPT2" and not hasattr(transformers, "ModernBertConfig"):
        pytest.skip("refused: GPT-2 took no such masks before transformers 4.48")
    torch.manual_seed(0)
    sizes = (
        {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 64}
        if kind == "GPT2"
        else {
            **{"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
            **{"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64},
        }
    )
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=20, initializer_range=0.5, pad_token_id=0, bos_token_id=0, eos_token_id=1, **sizes
    )
    getattr(transformers, f"{kind}ForTokenClassification")(config).save_pretrained(tmp_path)
    llama_tokenizer().save_pretrained(tmp_path)
    detector = TransformersDetector(str(tmp_path))
    assert detector.runner.bidirectional
    one, other, alone = (
        probabilities(detector, texts)[0]
        for texts in (
            [("the moon", "a red sun"), ("the moon " * 4, "a")],
            [("the moon", "a red mars")],
            [("the moon", "a red sun")],
        )
    )
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


# Adapters


@pytest.mark.parametrize("stated", [True, False], ids=["labels beside the adapter", "labels told"])
def test_adapter(tmp_path: Path, stated: bool) -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    base = tmp_path / "base"
    transformers.LlamaForCausalLM(llama_config()).save_pretrained(base)
    llama_tokenizer().save_pretrained(base)
    labels = ["O", *CATEGORIES]
    model = peft.get_peft_model(
        transformers.AutoModelForTokenClassification.from_pretrained(base, num_labels=7),
        peft.LoraConfig(task_type="TOKEN_CLS", r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
    ).eval()
    folder = tmp_path / "adapter"
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
    assert detector.categories == [None, *CATEGORIES]
    assert detector.licence == "mit"
    assert "+base." in detector.version
    encoded = detector.encoder.encode("the moon", "a red sun", None, None)
    theirs = model(input_ids=torch.tensor([encoded.ids.tolist()])).logits.softmax(-1)[0].detach().numpy()
    np.testing.assert_allclose(probabilities(detector, [("the moon", "a red sun")])[0], theirs[-3:], atol=1e-5)
    both = TransformersDetector(str(folder), **options)
    assert both.runner.bidirectional
    assert not np.allclose(probabilities(both, [("the moon", "a red sun")])[0], theirs[-3:], atol=1e-3)

    moved = base.rename(tmp_path / "moved")
    with pytest.raises(
        UnusableDetector, match=r"adapter, base model .*/base \(of .*option base_model\): there is no folder"
    ):
        TransformersDetector(str(folder), **options)
    again = TransformersDetector(str(folder), base_model=str(moved), **options)
    assert again.version == both.version


def test_adapter_without_a_head(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    base = tmp_path / "base"
    transformers.LlamaForCausalLM(llama_config()).save_pretrained(base)
    llama_tokenizer().save_pretrained(base)
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    with pytest.raises(UnusableDetector, match=r"no trained token classifier: .*/base has no weights score"):
        TransformersDetector(str(tmp_path / "adapter"))


def test_pickled_weights_are_not_read(lookup: Path, tmp_path: Path) -> None:
    """They could run code; a sentinel that says so if it was unpickled is never called."""
    for source, weights in ((lookup, "pytorch_model.bin"), (None, "adapter_model.bin")):
        folder = tmp_path / weights
        folder.mkdir()
        if source is None:
            settings = {"base_model_name_or_path": str(lookup), "peft_type": "LORA", "task_type": "TOKEN_CLS"}
            (folder / "adapter_config.json").write_text(json.dumps(settings), "utf-8")
        else:
            for path in source.iterdir():
                if path.suffix != ".safetensors":
                    (folder / path.name).write_bytes(path.read_bytes())
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
    changed = TransformersDetector(str(one), threshold="0.7", form="paper", batch_size=1, progress=False)
    assert changed.version == f"{detector.version};form=paper;threshold=0.7"


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
    transformers.LlamaForCausalLM(llama_config()).save_pretrained(base)
    llama_tokenizer().save_pretrained(base)
    model = transformers.LlamaForTokenClassification.from_pretrained(base, num_labels=2)
    model.config._name_or_path = model.name_or_path = "org/tiny-llama"
    settings = peft.LoraConfig(
        task_type="TOKEN_CLS", target_modules=["q_proj"], base_model_name_or_path="org/tiny-llama"
    )
    peft.get_peft_model(model, settings).save_pretrained(adapter)
    program = (
        "from detector_plugin.detector import describe, load_detector\n"
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
        ({"treshold": 0.5}, r"no option treshold; there are attention, base_model, batch_size.*trust_remote_code"),
        ({"form": "pairs"}, r"option form: 'pairs' is none of auto, lettucedetect,"),
        ({"threshold": 2}, r"option threshold: 2 is not a number from 0 to 1"),
        ({"batch_size": "0"}, r"option batch_size: '0' is not a whole number from 1"),
        ({"max_length": 2.5}, r"option max_length: 2.5 is not a whole number"),
        ({"max_length": 129}, r"max_length=129, but the model reads 128 tokens at most"),
        ({"max_length": 10}, r"of max_length=10 tokens, prompt and question take 3"),
        ({"progress": "maybe"}, r"option progress: 'maybe' is neither"),
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
        ("lexica", r"no folder here, .*Built-in detectors are lexical and llm"),
        ("./nowhere", r"there is no folder /"),
        (str(tmp_path / "nowhere"), r"there is no folder /"),
        ("not a name", r"neither a folder \(/.*\) nor a name that the hub could have"),
        (str(tmp_path), r"no config.json and no adapter_config.json"),
    ]:
        with pytest.raises(UnusableDetector, match=message):
            load_detector(name)


def test_models_that_are_no_token_classifiers(tmp_path: Path) -> None:
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "sequences")
    with pytest.raises(UnusableDetector, match="is a BertForSequenceClassification, no token classifier"):
        TransformersDetector(str(tmp_path / "sequences"))
    transformers.BertModel(config).save_pretrained(tmp_path / "bare")
    settings = json.loads((tmp_path / "bare" / "config.json").read_text("utf-8"))
    (tmp_path / "bare" / "config.json").write_text(json.dumps({**settings, "architectures": None}), "utf-8")
    word_tokenizer().save_pretrained(tmp_path / "bare")
    with pytest.raises(UnusableDetector, match=r"no trained token classifier: .* has no weights classifier"):
        TransformersDetector(str(tmp_path / "bare"))
    (tmp_path / "bare" / "config.json").write_text('{"model_type": "unheard-of"}', "utf-8")
    with pytest.raises(UnusableDetector, match=r"its configuration cannot be read: .*unheard-of"):
        TransformersDetector(str(tmp_path / "bare"))
    (tmp_path / "bare" / "config.json").write_text("{", "utf-8")
    with pytest.raises(UnusableDetector, match="its configuration cannot be read"):
        TransformersDetector(str(tmp_path / "bare"))


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
