"""Edges of the parsers: lengths, orders and counts at which the next one reads otherwise."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from custom_metrics.reading.response import final_answer
from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import ParseReport, parse
from custom_metrics.relevance import ANSWER, INVALID, robust_label
from custom_metrics.scores.repetition import is_repetitive
from lm_eval_tasks.mfava.detection import AnnotationReport, annotate
from lm_eval_tasks.mushroom.labels import hard_spans, soft_labels

# ------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<bos><pad> Berlin", "Berlin"),
        ("[/INST]<eos> Berlin <eos> </s>", "Berlin"),
        ("Berlin</s>[/INST]", "Berlin"),
        ("Berlin[/INST]</s>", "Berlin"),
        ("a < b and [c]", "a < b and [c]"),
        ("<eos>", ""),
        ("<|channel|>final<|message|>a<|channel|>final<|message|>b", "b"),
        ("<think>a</think>b</think>c", "c"),
        ("assistant: model: Berlin", "model: Berlin"),
        ("assistant\nassistant\nBerlin", "assistant\nBerlin"),  # one heading is debris, two are what it says
    ],
)
def test_tokens_go_at_both_ends_and_one_heading(response: str, answer: str) -> None:
    assert final_answer(response) == answer


@pytest.mark.parametrize(("length", "unwrapped"), [(20_000, True), (20_001, False)])
def test_an_object_is_read_up_to_twenty_thousand_characters(length: int, unwrapped: bool) -> None:
    text = '{"answer": "' + "a" * (length - 14) + '"}'
    assert len(text) == length
    assert (final_answer(text) == text) is not unwrapped


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("eins zwei drei vier " * 3, False),
        ("eins zwei drei vier " * 4, True),
        ("eins zwei drei vier " * 3 + "und nun ganz anders", False),
        ("nein " * 11, False),
        ("nein " * 12, True),
        ("nein " * 11 + "doch", False),  # twelve words, of which eleven are a run
        (" ".join(map(str, range(64))) + " ", False),
        ((" ".join(map(str, range(64))) + " ") * 4, True),
        ((" ".join(map(str, range(65))) + " ") * 4, False),  # a longer period is not looked for
        ("Der Fluss ist lang gewesen. " * 2, False),
        ("Der Fluss ist lang gewesen. Ja. " * 3, True),
        ("Der Fluss war lang. Ja, sehr. " * 3, False),  # sentences of 16 and 6 letters
        ("Der Fluss war lange hier. " * 3, True),  # 20 letters
        ("Der Fluss war lang hier. " * 3, False),  # 19 letters
    ],
)
def test_a_loop_has_four_copies_or_a_sentence_three_times(text: str, loops: bool) -> None:
    assert is_repetitive(text, "de") is loops


def test_the_next_passage_of_those_given_goes_on_with_the_prompt() -> None:
    passages = ("Berlin: a city", "Rom: a city")
    text = "[3] Paris: The capital of France."
    assert robust_label(text, "en", "What is it?", passages) == INVALID
    assert robust_label(text, "en", "What is it?") == ANSWER


# ---------------------------------------------------------------------------------------------------------------- tags


@pytest.mark.parametrize(
    ("end", "cut"),
    [
        ("<", True),
        ("</", True),
        ("<de", True),
        ("</MARK", True),
        ("<hallucinat", True),
        ("<foo", False),
        ("<entitys", False),
    ],
)
def test_a_tag_that_was_cut_off_goes(end: str, cut: bool) -> None:
    report = ParseReport()
    assert parse(f"Katze {end}", report) == (f"Katze {'' if cut else end}", [])
    assert report.repaired == ({"cut tag": 1} if cut else {})
    assert (report.texts, report.spans) == (1, 0)


def test_a_report_sums_over_its_texts() -> None:
    report = ParseReport()
    for _ in range(2):
        parse("<entity>a</entity> <invented>b<invented>c</invented> <", report)
        parse("<relation>a. <subjective>b", report)
    assert (report.texts, report.spans) == (4, 8)
    assert report.repaired == {"doubled opening tag": 2, "cut tag": 2, "unclosed tag": 4}


def test_a_report_says_what_was_found() -> None:
    report = AnnotationReport()
    assert (
        str(report)
        == "annotated texts: ; nan% aligned; 0 opening tags as the paper counts them, 0 spans; repaired: nothing"
    )
    assert math.isnan(report.aligned_share)
    assert annotate("Die <entity>Katze</entity>", "Die Katze", report) == [Span(4, 9, "entity")]
    assert annotate("Die <Entity>Katze</Entity>", "Die Katze", report) == [Span(4, 9, "entity")]
    assert annotate("Die <invented>Katze</invented>", "Die  Katze", report) == [Span(5, 10, "invented")]
    assert annotate("etwas anderes", "xyz qqq", report) is None
    assert str(report) == (
        "annotated texts: 2 identical, 1 white space, 1 lost; 75.00% aligned; 2 opening tags as the paper counts them, "
        "3 spans; repaired: 2 capitalised category"
    )


# -------------------------------------------------------------------------------------------------------------- labels


def test_labels_are_repaired_and_every_repair_is_counted() -> None:
    seen: Counter[str] = Counter()
    for _ in range(2):
        assert hard_spans([[5, 20], [3, 6], [4, 4], [-3, 1], [12, 14]], 10, seen) == [Span(0, 1), Span(3, 10)]
        soft = [
            {"start": 0, "end": 4, "prob": 0.5},
            {"start": 2, "end": 3, "prob": 1},
            {"start": 9, "end": 12, "prob": 0.0},
        ]
        assert soft_labels(soft, 10, seen) == [
            {"start": 0, "end": 2, "prob": 0.5},
            {"start": 2, "end": 3, "prob": 1.0},
            {"start": 3, "end": 4, "prob": 0.5},
            {"start": 9, "end": 10, "prob": 0.0},
        ]
    assert seen == {
        "labels that reach beyond the answer, cut there": 8,
        "labels that end where they start or before, left out": 2,
        "answers with labels that overlap, made disjoint": 4,
    }


def test_labels_that_touch_stay_as_they_are() -> None:
    seen: Counter[str] = Counter()
    touching = [{"start": 4, "end": 6, "prob": 0.5}, {"start": 0, "end": 4, "prob": 0.5}]
    assert soft_labels(touching, 6, seen) == touching[::-1]
    assert hard_spans([[0, 6]], 6, seen) == [Span(0, 6)]
    assert not seen


@pytest.mark.parametrize("place", [True, "1", None, 1.5, math.inf, math.nan, [1]])
def test_a_place_is_a_whole_number(place: object) -> None:
    for labels in ([[place, 3]], [[0, place]]):
        with pytest.raises(ValueError, match=r"^a label starts or ends at .*, which is no place$"):
            hard_spans(labels, 10, Counter())
