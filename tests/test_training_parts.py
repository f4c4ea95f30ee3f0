"""What a detector is trained on, and with: data, split, labels, loss and recipes, each by itself."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import REAL, TRANSLATED, LabelledAnswer, article_groups, text_groups, without_spans
from detector_plugin.transformers.inputs import Encoded, window_bounds
from detector_plugin.transformers.training import data as recipes
from detector_plugin.transformers.training import measuring
from detector_plugin.transformers.training.data import (
    GIVEN_UP,
    IGNORED,
    LABELS,
    NOT_MEASURED,
    UNPLACED,
    Example,
    Parts,
    _cut,
    split,
    synthetic,
    token_labels,
)
from detector_plugin.transformers.training.measuring import Row, best_threshold, table
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.train import read_data
from lm_eval_tasks.detection.labelled_answers import collections
from tests.growth import LINEAR, exponent
from tests.miniature import MINIATURE


def answer(text: str, reference: str = "r", language: str = "de", **more: Any) -> LabelledAnswer:
    return LabelledAnswer(reference, text, language, more.pop("annotations", "silver"), more.pop("spans", ()), **more)


def test_the_benchmarks_name_their_collections() -> None:
    assert {"mfava-gold", "mfava-silver", "mushroom"} <= collections().keys()
    assert collections()["mfava-gold"].languages == ("ar", "zh", "de", "ru", "tr")
    seen: Counter[str] = Counter()
    documents, ingredients = read_data(["mfava-gold", "mushroom"], MINIATURE, seen, ["de", "fi"])
    kinds = Counter(f"{document.language} {document.annotations}" for document in documents)
    assert kinds == {"de gold": 7, "de real": 3, "fi real": 3}
    assert [(one.name, one.documents) for one in ingredients] == [("mfava-gold", 7), ("mushroom", 6)]
    assert all(d.article.startswith("https://") and d.soft is not None for d in documents if d.annotations == "real")


def test_answers_of_an_article_stay_together() -> None:
    documents = [answer("1", "same text"), answer("2", "same\ntext "), answer("3", "alone")]
    documents += [answer(str(n), f"page, version {n}", article="https://x") for n in (4, 5)]
    documents.append(answer("6", "page, version 5", language="fi"))
    groups = [{document.answer for document in group} for group in article_groups(documents)]
    assert groups == [{"1", "2"}, {"3"}, {"4", "5", "6"}]


def test_split_is_by_article_even_over_languages_and_always_the_same() -> None:
    documents = [
        answer(f"{language} {article} {turn}", f"{language} article {article}", language)
        for language in ("de", "fi")
        for article in range(20)
        for turn in range(3)
    ]
    parts = split(documents, 0.2)
    assert [len(part) for part in (parts.learn, parts.choose, parts.measure)] == [96, 12, 12]
    assert {Counter(d.language for d in part)["de"] for part in (parts.choose, parts.measure)} == {6}
    articles = [{d.reference for d in part} for part in (parts.learn, parts.choose, parts.measure)]
    assert sum(map(len, articles)) == len(set.union(*articles)) == 40
    assert split(documents[::-1], 0.2).choose[0].reference == parts.choose[0].reference
    few = split([answer(str(n), str(n)) for n in range(3)], 0.1)
    assert [len(part) for part in (few.learn, few.choose, few.measure)] == [1, 1, 1]
    texts = {"learn": 1, "choose": 0, "measure": 0, "left_out": 0}
    assert split([answer("1")], 0.2) == Parts([answer("1")], [], [], [], texts=texts)


def test_languages_and_models_are_left_out_whole_and_their_articles_with_them() -> None:
    documents = [answer(str(n), f"article {n}", model=("org/A", "org/B")[n % 2], family="f") for n in range(8)]
    documents += [answer("also by B", "article 0", model="org/B"), answer("x", "fi", language="fi", model="org/A")]
    parts = split(documents, 0, without=["org/b", "fi"])
    assert {d.answer for d in parts.left_out} == {"1", "3", "5", "7", "also by B", "x"}
    assert {d.answer for d in parts.learn} == {"2", "4", "6"}
    assert parts.counts == {GIVEN_UP: 1}
    assert {d.answer for d in split(documents, 0, without=["fi"]).left_out} == {"x"}
    of_one_text = [answer(language, language, language, group="x") for language in ("de", "fi", "tr")]
    for given, without, why in (
        (documents, ["org/bb"], r"--without org/bb: no language, model or family.*did you mean 'org/b'"),
        (documents, ["de", "fi"], "none of 10 labelled answers is left to learn from without de, fi"),
        (of_one_text, ["fi"], "nothing is left to measure without fi: the other answers are about the"),
    ):
        with pytest.raises(UsageError, match=why):
            split(given, 0, without=without)


def _invented(number: int, language: str) -> str:
    """A text whose numbers, and the names of some, are the same in every language, each of which has words of its own."""
    draw = random.Random(number)
    facts = [(draw.randrange(1000, 9999), "".join(draw.choices("bdfgklmnrstvaeiou", k=7))) for _ in range(12)]
    return " ".join(
        f"{language}word{draw.randrange(400)} {name.capitalize() + ('', 'ä')[at % 3 == 0]} {language}{at}x {year}."
        for at, (year, name) in enumerate(facts)
    )


PARALLEL = [
    answer(f"{number} {language}", _invented(number, language), language)
    for language, texts in (("de", 100), ("fi", 100), ("tr", 50))
    for number in range(texts)
]
"""Each text in each language, in each language's own order; of the last language half the texts are missing."""
random.Random(0).shuffle(PARALLEL)


def _numbers(*parts: Sequence[LabelledAnswer]) -> set[int]:
    """Of the texts of some parts."""
    return {int(document.answer.split()[0]) for part in parts for document in part}


def test_translations_are_one_text_by_their_numbers_and_names() -> None:
    groups = text_groups(PARALLEL)
    assert len(groups) == 100
    assert sorted(Counter(len(group) for group in groups).items()) == [(2, 50), (3, 50)]
    assert all(len(_numbers(group)) == 1 for group in groups)
    assert len(article_groups(PARALLEL)) == 250
    # Numbers are the same in any digits; a single language has no translations.
    arabic = answer("7 ar", _invented(7, "ar").translate({ord(str(n)): chr(0x660 + n) for n in range(10)}), "ar")
    (group,) = (group for group in text_groups([*PARALLEL, arabic]) if arabic in group)
    assert _numbers(group) == {7}
    german = [replace(document, language="de") for document in PARALLEL]
    assert len(text_groups(german)) == 250


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"group": "x"}, {"group": "x", "language": "fi"}, True),
        ({"group": "x"}, {"group": "y", "language": "fi"}, False),
        ({"group": TRANSLATED}, {"group": TRANSLATED, "language": "fi"}, False),
        ({"reference": "equal"}, {"reference": "equal ", "language": "fi"}, True),
        ({"article": "p"}, {"article": "p ", "language": "fi"}, True),
        ({"reference": "In 1849"}, {"reference": "Vuonna 1849", "language": "fi"}, False),  # too little
        ({"reference": "1 " * 5000}, {"reference": "1 " * 5001, "language": "fi"}, False),
        ({"reference": ""}, {"reference": "\0\ud800", "language": "fi"}, False),
    ],
)
def test_what_makes_one_text_of_two(first: dict[str, Any], second: dict[str, Any], same: bool) -> None:
    documents = [answer("a", **{"reference": "r1", **first}), answer("b", **{"reference": "r2", **second})]
    assert (len(text_groups(documents)) == 1) is same


def test_a_text_falls_on_one_side_in_all_its_languages_and_is_left_out_in_all() -> None:
    parts = split(PARALLEL, 0.2)
    numbers = [_numbers(part) for part in (parts.learn, parts.choose, parts.measure)]
    assert [len(part) for part in numbers] == [80, 10, 10]
    assert len(set.union(*numbers)) == 100
    assert parts.texts == {"learn": 80, "choose": 10, "measure": 10, "left_out": 0}
    # What is left out takes its translations along.
    parts = split(PARALLEL, 0.2, without=["tr"])
    # All of tr's texts are in de and fi: 100 of their 200 answers, which is as many as may be given up.
    assert _numbers(parts.left_out) == {*range(50)}
    assert _numbers(parts.learn, parts.choose, parts.measure) == {*range(50, 100)}
    assert parts.counts == {GIVEN_UP: 100}
    # fi has every text: half are measured, of the other half the other languages are learned from.
    parts = split(PARALLEL, 0.2, without=["fi"])
    left_out, others = _numbers(parts.left_out), _numbers(parts.learn, parts.choose, parts.measure)
    assert left_out.isdisjoint(others)
    assert {one.language for one in parts.left_out} == {"fi"}
    assert len(left_out) + len(others) == 100
    assert parts.counts[GIVEN_UP] in (74, 75)
    assert parts.counts[NOT_MEASURED] == len(others)
    assert len(parts.left_out) == parts.texts["left_out"]


def test_translations_of_which_text_nobody_can_say_are_on_no_side() -> None:
    lone = [answer("lone", "nothing to go by", "ar", group=TRANSLATED)]
    placed = [answer("7 ar", _invented(7, "ar"), "ar", group=TRANSLATED)]
    parts = split([*PARALLEL, *lone, *placed], 0.2)
    everywhere = {one.answer for part in (parts.learn, parts.choose, parts.measure) for one in part}
    assert ("lone" in everywhere, "7 ar" in everywhere, parts.counts) == (False, True, {UNPLACED: 1})
    assert split([*lone, answer("1", language="ar")], 0).counts == {}  # one language: no translations


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize("unit", ["1849 Kemijoki ", "{} Name{} ", "1 "])
@pytest.mark.slow("texts that are long enough to take measurable time")
def test_texts_are_told_apart_in_linear_time(unit: str) -> None:
    def parallel(size: int) -> list[LabelledAnswer]:
        half = "".join(unit.replace("{}", str(at)) for at in range(size))
        return [answer("a", f"{half} de", "de"), answer("b", f"{half} fi", "fi"), answer("c", f"{half} tr", "tr")]

    assert exponent(text_groups, parallel, 500) < LINEAR

    def many(size: int) -> list[LabelledAnswer]:
        return [answer("", f"{unit * 3} {at} {at + 1} name{at}", ("de", "fi")[at % 2]) for at in range(size)]

    assert exponent(text_groups, many, 200) < LINEAR


@pytest.mark.slow("groups the public data, 20 s each")
@pytest.mark.parametrize(
    ("recipe", "data", "without", "measured"),
    [
        ("encoder", None, [], {}),
        ("encoder", None, ["fi"], {("fi", "silver"): 168, ("fi", "real"): 135}),
        ("paper-multi", None, ["fi"], {("fi", "silver"): 154}),
        ("encoder", "mushroom", ["de"], {("de", "real"): 200}),
    ],
)
def test_no_translation_of_what_is_held_out_is_learned_from(
    hub: str, recipe: str, data: str | None, without: list[str], measured: dict[tuple[str, str], int]
) -> None:
    """Of the public data, by the place of silver texts and pages' items, and mFAVA's by numbers that are no years."""
    used = recipes.read(recipe)
    documents, _ = read_data((data or used.data).split(","), hub, Counter())
    parts = split(documents, used.held_out, without)
    held_out = [*parts.measure, *parts.left_out]
    assert Counter((one.language, one.annotations) for one in parts.left_out) == measured
    assert len(parts.measure) >= (7 if data else 200)
    keys = {one.group for one in parts.learn} - {"", TRANSLATED}
    assert len(keys) > 50
    assert [one for one in held_out if one.group in keys] == []
    references = {one.reference for one in [*held_out, *parts.learn]}
    numbers = {text: {*re.findall(r"\b(?!(?:19|20)\d\d\b)\d{3,}", text)} for text in references}
    learned = {one.reference: one.language for one in parts.learn if one.annotations != REAL}
    inserted = [one for one in held_out if one.annotations != REAL and not data]
    for one, (text, language) in product(inserted, learned.items()):
        own, other = numbers[one.reference], numbers[text]
        if language != one.language and len(own & other) > 4:
            assert len(own & other) / len(own | other) < 0.5, (one.reference[:99], text[:99])


def test_synthetic_documents() -> None:
    documents = [
        answer(f"good {n} bad", f"page {n}", spans=(Span(len(f"good {n} "), len(f"good {n} bad")),)) for n in range(10)
    ] + [answer("alone", "page", language="fi", article="")]
    made = synthetic(documents, 6)
    assert Counter(one.annotations for one in made) == {"unrelated": 3, "cleaned": 3}
    for one in made:
        number = one.answer.split()[1]
        if one.annotations == "unrelated":
            assert one.spans == (Span(0, len(one.answer)),)
            assert one.reference in {f"page {n}" for n in range(10)} - {f"page {number}"}
        else:
            assert (one.answer, one.spans, one.reference) == (f"good {number} ", (), f"page {number}")
    assert synthetic(documents, 6) == made
    assert len(synthetic(documents, 1000)) < len(documents) + 1
    assert synthetic([answer("alone", "page")], 4) == []
    assert without_spans("abcdef", [Span(4, 5), Span(1, 3), Span(2, 4)]) == "af"


def test_labels_of_tokens_and_the_shares_of_annotators() -> None:
    document = answer("a bad word 🌙", spans=(Span(2, 5, "entity"), Span(6, 8)))
    offsets = np.array([(0, 1), (1, 5), (5, 6), (5, 8), (8, 10), (10, 12), (11, 12), (0, 0)])
    labels, shares = token_labels(document, offsets, "binary", soft=False)
    assert labels.tolist() == [0, 1, IGNORED, 1, 0, 0, 0, IGNORED]
    assert shares.tolist() == [0, 1, 0, 1, 0, 0, 0, 0]
    labels, _ = token_labels(document, offsets, "category", soft=False)
    nobody = len(LABELS["category"])
    assert labels.tolist() == [0, 1 + CATEGORIES.index("entity"), IGNORED, nobody, 0, 0, 0, IGNORED]
    soft = (Span(0, 2, probability=0.25), Span(2, 4, probability=0.75))
    document = answer("abcdef", spans=(Span(2, 4, "entity"),), soft=soft)
    offsets = np.array([(0, 2), (2, 4), (1, 3), (4, 6)])
    for kind, expected in (("binary", [1, 1, 1, 0]), ("category", [nobody, 1, 1, 0])):
        labels, shares = token_labels(document, offsets, kind, soft=True)
        assert (labels.tolist(), shares.tolist()) == (expected, [0.25, 0.75, 0.5, 0])


def _encoded(reference: Sequence[int], answer: Sequence[int]) -> Encoded:
    """Reference and answer between three special tokens."""
    ids = np.array([0, *reference, 1, *answer, 2])
    first = len(reference) + 2
    places = np.arange(1, len(reference) + 1), np.arange(first, first + len(answer))
    offsets = np.stack([np.arange(len(answer)), np.arange(len(answer)) + 1], 1)
    return Encoded(ids, np.zeros(len(ids), np.int64), np.array([0, first - 1, len(ids) - 1]), *places, offsets)


def _parts(encoded: Encoded, room: int) -> list[Example]:
    number = len(encoded.answer)
    return list(_cut(encoded, np.arange(number, dtype=np.int16), np.zeros(number, np.float32), room))


@pytest.mark.parametrize(
    ("reference", "answer", "room"), [(0, 9, 16), (5, 9, 16), (300, 9, 40), (40, 200, 40), (500, 500, 40)]
)
def test_each_part_of_an_answer_has_the_nearest_of_the_reference(reference: int, answer: int, room: int) -> None:
    """Held against all pairs of parts: the first of the best."""
    draw = np.random.default_rng(reference)
    encoded = _encoded(draw.integers(3, 60, reference).tolist(), draw.integers(3, 60, answer).tolist())
    best: dict[tuple[int, int], tuple[int, tuple[int, int]]] = {}
    of_reference, of_answer = window_bounds(reference, answer, room)
    for (part, _), (first, end) in product(of_answer, of_reference):
        shared = {*encoded.ids[encoded.reference[first:end]]} & {*encoded.ids[encoded.answer[slice(*part)]]}
        if part not in best or len(shared) > best[part][0]:
            best[part] = len(shared), (first, end)
    expected = [
        [0, *encoded.ids[encoded.reference[slice(*cut)]], 1, *encoded.ids[encoded.answer[slice(*part)]], 2]
        for part, (_, cut) in best.items()
    ]
    found = _parts(encoded, room)
    assert [one.ids.tolist() for one in found] == expected
    learned = [one.labels[one.labels != IGNORED].tolist() for one in found]
    assert [label for labels in learned for label in labels] == list(range(answer))


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize("vocabulary", [5, 30_000])
@pytest.mark.slow("texts that are long enough to take measurable time")
def test_a_long_line_is_cut_in_linear_time(vocabulary: int) -> None:
    def long(size: int) -> Encoded:
        draw = np.random.default_rng(size)
        return _encoded(*draw.integers(3, 3 + vocabulary, (2, size)).tolist())

    assert exponent(lambda encoded: _parts(encoded, 64), long, 5_000) < LINEAR


def test_loss() -> None:
    torch = pytest.importorskip("torch")
    from detector_plugin.transformers.training.trainer import token_loss

    logits = torch.tensor([[[1.0, 2.0, 0.5], [0.0, 0.0, 3.0], [9.0, 0.0, 0.0], [-1e4, 1e4, 0.0]]])
    labels = torch.tensor([[1, 3, IGNORED, 1]])
    shares = torch.tensor([[0.25, 1.0, 0.0, 1.0]])
    p = torch.softmax(logits[0].double(), -1)
    expected = -0.75 * math.log(p[0, 0]) - 0.25 * math.log(p[0, 1]) - math.log(p[1, 1] + p[1, 2])
    assert token_loss(logits, labels, shares).item() == pytest.approx(expected, rel=1e-5)
    hard = token_loss(logits[:, :1], torch.tensor([[2]]), torch.tensor([[1.0]]))
    assert hard.item() == pytest.approx(-math.log(p[0, 2]), rel=1e-5)
    assert token_loss(logits, torch.full((1, 4), IGNORED), shares).item() == 0


def test_recipes_are_those_of_the_papers() -> None:
    """Table 5 of the mFAVA paper."""
    table_5 = {
        **{"base": "meta-llama/Meta-Llama-3-8B", "quantization": "4bit", "bf16": True, "seed": 42},
        **{"lora_r": 32, "lora_alpha": 32, "lora_dropout": 0.05, "num_train_epochs": 2, "max_length": 4096},
        **{"learning_rate": 1e-4, "weight_decay": 0.01, "attention": "bidirectional", "form": "paper"},
        **{"per_device_train_batch_size": 8, "gradient_accumulation_steps": 8, "held_out": 0.3},
    }
    recipe = recipes.read("paper-multi")
    assert {**recipe.values, **recipe.trainer}.items() >= table_5.items()


def test_the_command_shows_a_recipe_and_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--lora_r 4 --soft-labels --labels category --report_to wandb --gradient_checkpointing --seed=47"
    assert main(f"train --recipe paper-multi --show {options}".split()) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown.items() >= {"lora_r": 4, "soft_labels": True, "labels": "category"}.items()
    theirs = {"report_to": "wandb", "gradient_checkpointing": "true", "num_train_epochs": 2, "seed": "47"}
    assert shown["trainer"].items() >= theirs.items()
    for words, why in (
        ("loose", "'loose' belongs to no option"),
        ("--recipe none -o x", "recipe 'none': there are encoder, paper-multi"),
        ("", "name the folder of the new detector with -o DIR"),
        ("-o x --data mfava", "--data mfava: neither a file nor one of mfava-gold, mfava-silver, mu"),
        (f"-o x --data mushroom --languages de,xx --mirror {MINIATURE}", "--languages xx: the d"),
        ("--lora_r x", "invalid int value: 'x'"),
        ("--form pears", "invalid choice: 'pears'"),
    ):
        assert main(["train", *words.split()]) == 2
        assert why in capsys.readouterr().err


class Spotter:
    """A detector whose token probabilities are written in the answer: `word|0.8 `."""

    categories = (None, HALLUCINATION)

    def token_probabilities(self, references: Any, answers: Any, languages: Any, questions: Any) -> Any:
        for index, text in enumerate(answers):
            tokens = [*re.finditer(r" ?[^ ]+", text)]  # with the space before it, as byte-level ones have
            p = np.array([float(token[0].split("|")[1]) for token in tokens], np.float32)
            units = np.array([token.span() for token in tokens]), np.stack([1 - p, p], 1)
            yield SimpleNamespace(index=index, units=lambda units=units: units)


def test_the_threshold_is_the_best_over_languages() -> None:
    german = answer("a|0.9 b|0.6 c|0.55", spans=(Span(0, 5), Span(6, 11)))  # best from 0.56 to 0.6
    finnish = answer("a|0.9 b|0.59 c|0.3", spans=(Span(0, 5), Span(6, 12)), language="fi")  # best from 0.31 to 0.59
    assert best_threshold(Spotter(), [german]) == pytest.approx(0.58)
    assert best_threshold(Spotter(), [german, finnish]) == pytest.approx(0.58, abs=0.011)
    assert best_threshold(Spotter(), [answer("a|0.9")]) == 0.5
    assert best_threshold(Spotter(), []) == 0.5


def test_what_is_left_out_whole_calibrates_before_what_is_held_out() -> None:
    def row(part: str, language: str, annotations: str, counts: list[list[int]]) -> Row:
        documents = [answer("", str(at), language, annotations=annotations, model="m") for at in range(len(counts))]
        return Row(part, language, annotations, documents, np.array(counts), [0.5] * len(counts))

    rows = [
        row("measured", "de", "real", [[1, 1, 1, 1]] * 5),
        row("left out", "de", "real", [[2, 0, 0, 2], [1, 1, 0, 0]] * 3),
        row("measured", "fi", "silver", [[3, 1, 0, 4]] * 5),
        row("measured", "it", "gold", [[0, 0, 1, 1]] * 5),  # finds nothing: nothing can be corrected
    ]
    few = row("measured", "it", "silver", [[3, 1, 0, 4]] * 4)
    why = [one.why_not_calibrated[:27] for one in (*rows[2:], few)]
    assert why == ["", "it gold: the detector flags", "training, measured: it silv"]
    assert measuring.calibration_of([few], {}, "").languages == {}
    made = measuring.calibration_of(rows, {"name": "d", "version": "1", "licence": "x"}, "note")
    assert {code: list(kinds) for code, kinds in made.languages.items()} == {"de": ["real"], "fi": ["silver"]}
    german = made.languages["de"]["real"]
    assert (german.precision, german.recall, german.models) == (0.75, 1.0, ("m",) * 6)
    assert german.source == "training, left out: de real"
    assert "| measured | it | gold | 5 | – | 0.0 | 0.0 | 50.0 | 0.0 | 0.500 |" in table(rows)
    first = table([*rows, row("left out", "fi", "real", [[0, 0, 2, 0]])]).splitlines()[2]  # of both languages
    assert first.startswith("| left out | all | real | 7 | 75.0 | 81.8 | ")
