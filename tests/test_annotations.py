"""Spans and tagged text: what human gold really holds is read, repaired and counted; and how far annotators agree."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered, span_of
from custom_metrics.reading.tagged_text import align, merged, parse, render, tag_counts
from custom_metrics.reading.words import words
from lm_eval_tasks.mfava.annotations import AnnotationReport, annotate
from lm_eval_tasks.results.marks.lines import mean_kappa

CASES = [
    # annotated, text, spans, repairs
    ("Die Katze ist <entity>Astronaut</entity>.", "Die Katze ist Astronaut.", [(14, 23, "entity")], {}),
    ("<invented>Alles.</invented>", "Alles.", [(0, 6, "invented")], {}),
    ("nichts", "nichts", [], {}),
    ("", "", [], {}),
    (None, "", [], {}),
    # spelling
    ("<Entity>A</Entity> b", "A b", [(0, 1, "entity")], {"capitalised category": 2}),
    ("<contridictory>A</contradictory> b", "A b", [(0, 1, "contradictory")], {"misspelt category": 1}),
    ("<unverified>A</unverified>", "A", [(0, 1, "unverifiable")], {"misspelt category": 2}),
    ("<entty>A</entiuty> <sibjective>B</subfjective>", "A B", [(0, 1, "entity"), (2, 3, "subjective")],
     {"misspelt category": 4}),
    ("< entity >A</ entity > b", "A b", [(0, 1, "entity")], {}),

    # an opening tag that closes
    ("<entity>Kater<entity> hier", "Kater hier", [(0, 5, "entity")], {"opening tag that closes": 1}),
    (
        "<entity>A<entity> b <entity>C<entity> d <entity>E</entity>",
        "A b C d E",
        [(0, 1, "entity"), (4, 5, "entity"), (8, 9, "entity")],
        {"opening tag that closes": 2},
    ),
    ("<invented> a <Invented> b </invented> c", " a  b  c", [(0, 6, "invented")],
     {"doubled opening tag": 1, "capitalised category": 1}),
    # closing tags
    ("a</entity> b", "a b", [], {"closing tag alone": 1}),
    ("<entity>A</relation> b", "A b", [(0, 1, "entity")], {"closing tag of another category": 1}),
    ("<entity/>A", "A", [], {"closing tag alone": 1}),
    ("<entity></entity>A", "A", [], {"empty span": 1}),
    # unclosed: to the end of the sentence, or to the next tag
    ("<subjective>Schön ist es. Und gut.", "Schön ist es. Und gut.", [(0, 13, "subjective")], {"unclosed tag": 1}),
    ("<entity>A <relation>b</relation> c.", "A b c.", [(0, 2, "entity"), (2, 3, "relation")], {"unclosed tag": 1}),
    ("<invented>ohne Ende", "ohne Ende", [(0, 9, "invented")], {"unclosed tag": 1}),
    # nesting and crossing
    ("<invented>a <entity>B</entity> c</invented>", "a B c", [(0, 5, "invented"), (2, 3, "entity")], {}),
    ("<entity>a<relation>b</entity>c</relation>", "abc", [(0, 2, "entity"), (1, 3, "relation")], {}),
    # what is no category
    ("a < b <entity>c</entity> > d, <3", "a < b c > d, <3", [(6, 7, "entity")], {}),
    ("<정글북> <김> <Bokaro ist", "<정글북> <김> <Bokaro ist", [], {}),
    ("<entity><delete>A</delete></entity> <mark>b</mark>", "A b", [(0, 1, "entity")], {"markup removed": 4}),
    ("<p>A<br/><span style=\"color: red\">b</span></p>", "Ab", [], {"markup removed": 5}),
    ("a <b und c> d <entityx1> e", "a <b und c> d <entityx1> e", [], {}),
    ("Ende <contr", "Ende ", [], {"cut tag": 1}),
    ("<" * 9, "<" * 8, [], {"cut tag": 1}),
    ("Ende <Bokaro", "Ende <Bokaro", [], {}),
    # escapes
    ("&lt;entity>A&lt;/entity> &amp;lt;", "<entity>A</entity> &lt;", [], {}),
]  # fmt: skip


@pytest.mark.parametrize(("annotated", "text", "spans", "repaired"), CASES)
def test_parse(annotated: str, text: str, spans: list[tuple[int, int, str]], repaired: dict[str, int]) -> None:
    counted: Counter[str] = Counter()
    assert parse(annotated, counted) == (text, [Span(*span) for span in spans])
    assert counted == Counter(repaired)


TAGS = ("entity", "</entity>", "<entity>", "<entty", "<b>", "<mark a='b'>", "<invented", "</", "<hallucination/>")
PIECES = st.sampled_from([*TAGS, "&lt;", "&amp;", "lt;", "amp;", "\u200f", *"<>/& b3.\né字\x00"])
TEXTS = st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=14).map("".join))


@st.composite
def texts_with_spans(draw: st.DrawFn) -> tuple[str, list[Span]]:
    text = draw(TEXTS)
    places = st.integers(0, len(text))
    categories = st.sampled_from((*CATEGORIES, HALLUCINATION))
    spans = st.builds(Span, places, places, categories, st.just(1.0) | st.floats(0, 1))
    return text, draw(st.lists(spans, max_size=6))


@settings(deadline=None)
@given(texts_with_spans())
def test_what_is_rendered_is_read_again(written: tuple[str, list[Span]]) -> None:
    """Whatever the text holds, however spans nest and cross; probabilities to the last digit."""
    text, spans = written
    repaired: Counter[str] = Counter()
    assert parse(render(text, spans), repaired) == (text, merged(spans))
    assert not repaired


ALIGNED = [
    # copy, spans of the copy, original, spans of the original, kind
    ("abc def", [(0, 3)], "abc def", [(0, 3)], "identical"),
    (" a b c ", [(2, 4)], "abc", [(1, 2)], "white space"),
    ("Das Haus ist rot.", [(4, 8)], "Das Haus war rot!", [(4, 8)], "edited"),
    ("Here is the text: Das Haus ist rot.", [(22, 26)], "Das Haus ist rot.", [(4, 8)], "edited"),
    ("Das ist rot.", [(0, 11)], "Das Haus ist rot.", [(0, 16)], "edited"),
    ("Das neue Haus ist rot.", [(4, 8)], "Das Haus ist rot.", [], "edited"),
    ("abcd", [(0, 2)], "abxy", [(0, 2)], "edited"),  # half of the characters in common are enough
    ("abcde", [(0, 2)], "abxyz", [], "lost"),
    ("", [], "Das Haus", [], "lost"),
    (" ", [(0, 1)], "", [], "white space"),
]


@pytest.mark.parametrize(("copy", "spans", "original", "expected", "kind"), ALIGNED)
def test_align(copy: str, spans: list[tuple[int, int]], original: str, expected: Any, kind: str) -> None:
    alignment = align(copy, [Span(*span, "entity") for span in spans], original)
    assert alignment.spans == [Span(*span, "entity") for span in expected]
    assert alignment.kind == kind


def test_long_texts_are_aligned_by_words() -> None:
    original = " ".join(f"wort{number}" for number in range(60_000))
    copy = original.replace("wort7 ", "wort sieben ", 1)
    start = copy.index("wort59000 ")
    alignment = align(copy, [Span(start, start + 9, "entity")], original)
    assert [original[span.start : span.end] for span in alignment.spans] == ["wort59000"]


def gold(hub: str) -> list[dict[str, str]]:
    return json.loads(Path(hub, "WueNLP/mHallucination_Detection/combined_gold_languages.json").read_text("utf-8"))


@pytest.mark.parametrize(("language", "code"), [("arabic", "ar"), ("german", "de"), ("turkish", "tr")])
def test_tag_counts_are_those_of_table_2(hub: str, shared: Path, language: str, code: str) -> None:
    path = shared / "reference/published/mfava_table2_gold_span_counts.csv"
    (row,) = (row for row in csv.DictReader(path.open()) if row["language"] == code)
    counts = sum((tag_counts(d["gold_annotations"]) for d in gold(hub) if d["language"] == language), Counter())
    assert {**counts, "total": counts.total()} == {name: int(row[name]) for name in (*CATEGORIES, "total")}


@pytest.mark.parametrize(
    ("language", "spans", "kinds"),
    [
        ("arabic", 666, {"white space": 187, "edited": 61}),
        ("german", 1694, {"identical": 270, "white space": 46, "edited": 15}),  # 1777 tags: 117 opening ones close
        ("turkish", 1017, {"identical": 135, "white space": 73, "edited": 36, "lost": 1}),
    ],
)
def test_gold_is_aligned_and_repairs_are_counted(hub: str, language: str, spans: int, kinds: dict[str, int]) -> None:
    report = AnnotationReport()
    for document in gold(hub):
        if document["language"] == language:
            annotate(document["gold_annotations"], document["generated_text"], report)
    assert report.kinds == kinds

    assert report.carried == spans
    if language == "german":
        assert report.repaired["opening tag that closes"] == 117
        assert "1777 opening tags as the paper counts them, 1694 spans" in str(report)


def test_every_silver_document_is_aligned(hub: str) -> None:
    folder = Path(hub, "github/WorldHellow/mHallucinations-LLM/datasets/hallucination_detection/silver")
    report = AnnotationReport()
    for path in folder.rglob("*.json"):
        for document in json.loads(path.read_text("utf-8")):
            assert annotate(document["silver_annotations"], document["generated_text"], report) is not None
    assert sum(report.kinds.values()) == 12 * 309


@pytest.mark.parametrize(
    ("text", "tagged"),
    [("a <b", "a &lt;b"), ("a <", "a &lt;"), ("a <3", "a <3"), ("&amp;lt;", "&amp;amp;lt;"), ("&amp;", "&amp;")],
)
def test_what_would_be_read_as_a_tag_is_escaped(text: str, tagged: str) -> None:
    assert render(text, []) == tagged
    assert render(text, [Span(0, len(text), "entity")]) == f"<entity>{tagged}</entity>"
    assert parse(tagged) == (text, [])


@pytest.mark.parametrize(
    ("annotated", "spans", "repaired"),
    [
        ('<entity probability="0.73">A</entity>', [Span(0, 1, "entity", 0.73)], {}),
        ("<entity probability='1e-05'>A</entity>", [Span(0, 1, "entity", 1e-05)], {}),
        ('<entity why="x" probability = "0">A</entity>', [Span(0, 1, "entity", 0.0)], {}),
        ('<entity probability="1.5">A</entity>', [Span(0, 1, "entity")], {"probability that is none": 1}),
        ('<entity probability="nan">A</entity>', [Span(0, 1, "entity")], {"probability that is none": 1}),
        ('<entity improbability="0.2">A</entity>', [Span(0, 1, "entity")], {}),
        ('<entity probability="0.4">A. B', [Span(0, 2, "entity", 0.4)], {"unclosed tag": 1}),
    ],
)
def test_a_tag_says_how_sure(annotated: str, spans: list[Span], repaired: dict[str, int]) -> None:
    counted: Counter[str] = Counter()
    assert parse(annotated, counted)[1] == spans
    assert counted == repaired


def test_overlapping_spans_keep_the_higher_probability() -> None:
    spans = [Span(0, 6, "entity", 0.3), Span(2, 4, "entity", 0.9), Span(6, 8, "entity", 0.3), Span(8, 9, "entity")]
    assert merged(spans) == [
        Span(0, 2, "entity", 0.3),
        Span(2, 4, "entity", 0.9),
        Span(4, 8, "entity", 0.3),  # touching and alike: one
        Span(8, 9, "entity"),
    ]


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ([0, 4, "entity"], Span(0, 4, "entity", 1.0)),
        ((3, 3, "entity", 0), Span(3, 3, "entity", 0.0)),  # nothing at all, and surely fine
        ([np.int64(1), 2, "x", "0.5"], Span(1, 2, "x", 0.5)),
    ],
)
def test_a_list_is_a_span(value: Any, span: Span) -> None:
    found = span_of(value)
    assert found == span
    assert [type(part) for part in found] == [int, int, str, float]


FORM = (
    "a span is [start, end, category] or [start, end, category, probability] with 0 <= start <= end and a probability "
    "from 0 to 1, got {}"
)


@pytest.mark.parametrize(
    "value",
    [
        *([0, 4], [0, 4, "x", "much"], ["a", 4, "x"], [math.inf, 4, "x"], [1.5, 3, "x"], ["1", 2, "x"], [0, True, "x"]),
        *([0, 1, "x", 10**400], None, [4, 3, "x"], [-1, 3, "x"], [0, 4, "x", 1.1], [0, 4, "x", "nan"]),
    ],
)
def test_what_is_no_span_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(FORM.format(repr(value)))}$"):
        span_of(value)


@pytest.mark.parametrize(
    ("spans", "categories"),
    [
        ([Span(0, 20, "entity"), Span(5, 7, "invented")], ["entity", "invented", "entity", "entity"]),
        ([Span(5, 7, "invented"), Span(0, 20, "entity")], ["entity", "invented", "entity", "entity"]),
        ([Span(0, 3, "a"), Span(2, 20, "b")], ["a", "b", "b", "b"]),  # the shorter one, though it starts before
        ([Span(0, 12, "b"), Span(11, 14, "a")], ["b", "b", "a", None]),  # the shorter one, though it ends after
        ([Span(5, 9, "b"), Span(6, 10, "a")], [None, "a", None, None]),  # of equal ones the later
        ([Span(4, 5)], [None, None, None, None]),  # between two words
        ([Span(3, 6)], [HALLUCINATION, HALLUCINATION, None, None]),
        ([Span(14, 16)], [None, None, None, HALLUCINATION]),
    ],
)
def test_a_word_is_in_the_shortest_span_with_a_character_of_it(spans: list[Span], categories: list[str | None]) -> None:
    words = [(0, 4), (5, 9), (10, 14), (15, 19)]
    assert covered(words, spans) == categories


CODES = {"Arabic": "ar", "German": "de", "Turkish": "tr"}


@pytest.mark.one_python("what the public data hold")
def test_silver_and_gold_of_mfava_agree_as_in_its_figure_2(hub: str) -> None:
    """Words, hallucinated or not; and their categories."""
    path = Path(hub, "WueNLP", "mHallucination_Detection", "combined_gold_languages.json")
    binary: dict[str, list[tuple[bool, ...]]] = defaultdict(list)
    categories: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    of_word = (None, *CATEGORIES)
    for row in json.loads(path.read_text("utf-8")):
        code, text = CODES[row["language"].capitalize()], row["generated_text"]
        both = [annotate(row[f"{kind}_annotations"], text, AnnotationReport()) for kind in ("gold", "silver")]
        if None not in both:
            places = words(text, code)
            labels = [*zip(*(covered(places, spans or ()) for spans in both), strict=True)]
            binary[code] += [tuple(label is not None for label in pair) for pair in labels]
            categories[code] += [tuple(map(of_word.index, pair)) for pair in labels]
    found = {
        code: tuple(round(float(cohen_kappa_score(*zip(*each[code], strict=True))), 3) for each in (binary, categories))
        for code in sorted(binary)
    }
    assert found == {"ar": (0.594, 0.483), "de": (0.823, 0.689), "tr": (0.703, 0.588)}


@pytest.mark.parametrize(
    ("labels", "kappa", "several"),
    [
        ([{"anna": [1, 1, 0, 0], "bert": [1, 0, 0, 0]}], 0.5, 1),
        ([{"anna": [0], "bert": [1]}, {"anna": [1], "bert": [0]}], -1.0, 2),
        ([{"anna": [0, 0], "bert": [1, 1]}], 0.0, 1),
        ([{"anna": [1], "bert": [1]}], None, 1),  # one label alone: no evidence that they agree
        ([{"anna": [1]}, {"bert": [0]}], None, 0),
        ([{"a": [0, 1], "b": [0, 1], "c": [1, 0]}], -1 / 3, 1),  # the mean of 1, -1 and -1
    ],
)
def test_kappa_is_the_mean_over_pairs_of_annotators(
    labels: list[dict[str, list[int]]], kappa: float | None, several: int
) -> None:
    assert mean_kappa(labels) == (kappa if kappa is None else pytest.approx(kappa), several)
