"""Scores of detection: iou and rho by the published formula, and figures from summed counts of words."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custom_metrics.reading.spans import Span
from custom_metrics.reading.words import words
from custom_metrics.scores import detection
from custom_metrics.scores.detection import WordCounts, count_words, iou, process_character_results, rho
from custom_metrics.statistics.intervals import resampled_sums, spread
from tests.logged_runs import lines

Soft = list[tuple[int, int, float]]


def published_iou(annotated: Any, found: Any) -> float:
    """``score_iou`` of the shared task's ``participant_kit/scorer.py``, by its formula."""
    reference = {at for span in annotated for at in range(*span)}
    predicted = {at for span in found for at in range(*span)}
    if not reference and not predicted:
        return 1.0
    return len(reference & predicted) / len(reference | predicted)


def published_rho(annotated: Soft, found: Soft, length: int) -> float:
    """``score_cor`` of the same, with SciPy's Spearman as there."""
    stats = pytest.importorskip("scipy.stats")
    reference, predicted = [0.0] * length, [0.0] * length
    for labels, spans in ((reference, annotated), (predicted, found)):
        for start, end, probability in spans:
            for at in range(start, end):
                labels[at] = probability
    distinct = [len({round(value, 8) for value in labels}) for labels in (reference, predicted)]
    if 1 in distinct:
        return float(distinct[0] == distinct[1])
    return float(stats.spearmanr(reference, predicted).correlation)


@pytest.mark.parametrize(
    ("annotated", "found", "expected"),
    [
        ([], [], 1.0),
        ([(0, 4)], [], 0.0),
        ([(0, 4)], [(2, 6)], 2 / 6),
        ([(0, 4), (2, 6)], [(0, 6)], 1.0),  # overlapping spans are one set of characters
        ([(3, 3)], [], 1.0),  # an empty span has no character
    ],
)
def test_iou(annotated: list[tuple[int, int]], found: list[tuple[int, int]], expected: float) -> None:
    assert iou(annotated, found) == expected


@pytest.mark.parametrize(
    ("annotated", "found", "length", "expected"),
    [
        ([], [], 5, 1.0),  # both constant
        ([(0, 5, 1.0)], [], 5, 1.0),  # both constant, and opposite: so the scorer has it
        ([(0, 2, 1.0)], [], 5, 0.0),  # one constant
        ([(0, 2, 1.0)], [(0, 2, 0.1)], 5, 1.0),  # ranks alone count
        ([(0, 2, 1.0)], [(2, 4, 1.0)], 4, -1.0),
        ([(0, 1, 1.0), (1, 2, 0.5)], [(0, 2, 1.0)], 4, 0.9428090415820635),
        ([(0, 2, 0.5), (1, 2, 1.0)], [(0, 1, 0.5), (1, 2, 1.0)], 4, 1.0),  # the last span holds
        ([(0, 2, 1e-9)], [(0, 2, 1.0)], 4, 0.0),  # constant to eight decimals
        ([], [], 0, 1.0),
        ([(2, 2, 0.5), (0, 1, 1.0)], [(0, 1, 0.25)], 3, 1.0),  # an empty span says nothing
    ],
)
def test_rho(annotated: Soft, found: Soft, length: int, expected: float) -> None:
    assert rho(annotated, found, length) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("span", [(0, 6, 1.0), (-1, 2, 1.0), (3, 2, 1.0)])
def test_a_span_beyond_the_text_is_refused(span: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="is not in a text of 5 characters"):
        rho([], [span], 5)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[int, Soft, Soft]:
    length = draw(st.integers(1, 40))
    places = st.tuples(st.integers(0, length), st.integers(0, length)).map(lambda pair: tuple(sorted(pair)))
    probability = st.sampled_from([1 / 3, 0.3333333333, 0.5, 2 / 3, 0.6666666667, 1.0]) | st.floats(0, 1)
    spans = st.lists(st.builds(lambda place, p: (*place, p), places, probability), max_size=5)
    return length, draw(spans), draw(spans)


@settings(deadline=None)
@given(labelled())
def test_any_labels_score_as_the_published_scorer_has_it(case: tuple[int, Soft, Soft]) -> None:
    length, annotated, found = case
    hard, flagged = ([span[:2] for span in spans] for spans in (annotated, found))
    assert iou(hard, flagged) == published_iou(hard, flagged) == iou(flagged, hard)
    value = rho(annotated, found, length)
    assert value == pytest.approx(published_rho(annotated, found, length), abs=1e-12)
    assert value == pytest.approx(rho(found, annotated, length), abs=1e-12)
    assert -1 - 1e-12 <= value <= 1 + 1e-12
    assert iou(hard, hard) == 1
    assert rho(annotated, annotated, length) == pytest.approx(1)


@pytest.mark.one_python("figures of the public data; the code is tested by the cases above")
@pytest.mark.slow("every labelled answer of a mirror, three times")
def test_every_real_answer_scores_as_the_published_scorer_has_it(hub: str) -> None:
    """All labelled answers of the mirror, with and without page, against predictions of three kinds."""
    files = sorted(Path(hub, "github/Helsinki-NLP/mu-shroom/splits").rglob("*.jsonl"))
    rows = [row for path in files for row in lines(path)]
    assert len(rows) >= 1605  # of ten languages; mirrors may hold further ones
    for row in rows:
        length, hard, soft = len(row["model_output_text"]), row["hard_labels"], soft_of(row)
        thirds = [(0, length // 3, 0.2), (length // 2, 2 * length // 3, 0.9)]
        for found in ([], [(0, length, 1.0)], thirds):
            places = [span[:2] for span in found]
            assert iou(hard, places) == published_iou(hard, places)
            assert rho(soft, found, length) == pytest.approx(published_rho(soft, found, length), abs=1e-12)


def soft_of(row: dict[str, Any]) -> Soft:
    return [(label["start"], label["end"], label["prob"]) for label in row["soft_labels"]]


BASELINES = [
    # language, test answers; the shared task's baselines "mark all" and "mark none": iou, rho
    ("ar", 150, (0.3614, 0.0067), (0.0467, 0.0067)),
    ("ca", 100, (0.2423, 0.06), (0.08, 0.06)),
    ("cs", 100, (0.2632, 0.1), (0.13, 0.1)),
    ("de", 150, (0.3451, 0.0133), (0.0267, 0.0133)),
    ("en", 154, (0.3489, 0.0), (0.0325, 0.0)),
    ("es", 152, (0.1853, 0.0132), (0.0855, 0.0132)),
    ("eu", 99, (0.3671, 0.0), (0.0101, 0.0)),
    ("fa", 100, (0.2028, 0.01), (0.0, 0.01)),
    ("fi", 150, (0.4857, 0.0), (0.0, 0.0)),
    ("it", 150, (0.2826, 0.0), (0.0, 0.0)),
]


@pytest.mark.parametrize(("language", "answers", "mark_all", "mark_none"), BASELINES)
def test_the_shared_tasks_baselines(hub: str, language: str, answers: int, mark_all: Any, mark_none: Any) -> None:
    """On all test answers, with and without page; the README's figures."""
    (path,) = Path(hub, "github/Helsinki-NLP/mu-shroom/splits/test_labeled/v1").glob(f"*.{language}-tst*")
    rows = lines(path)
    assert len(rows) == answers
    for expected, probability in ((mark_all, 1.0), (mark_none, 0.0)):
        scores = []
        for row in rows:
            length = len(row["model_output_text"])
            found = [(0, length, probability)] * (probability > 0)
            scores.append((iou(row["hard_labels"], [span[:2] for span in found]), rho(soft_of(row), found, length)))
        assert [sum(values) / answers for values in zip(*scores, strict=True)] == pytest.approx(expected, abs=5e-5)


DOC = {
    "answer": "Die Donau ist 3500 km lang.",
    "language": "de",
    "spans": [{"start": 14, "end": 21, "category": "hallucination"}],
    "soft_labels": [{"start": 4, "end": 9, "prob": 0.25}, {"start": 14, "end": 21, "prob": 1.0}],
}


@pytest.mark.parametrize(
    ("response", "iou_", "rho_", "counts"),
    [
        ("Die Donau ist <hallucination>3500 km</hallucination> lang.", 1.0, 0.846114, [2, 0, 0, 4]),
        ("Die Donau ist <entity>3500</entity> <invented>km</invented> lang.", 6 / 7, 0.764471, [2, 0, 0, 4]),
        ("<hallucination>Die Donau ist 3500 km lang.</hallucination>", 7 / 27, 0.0, [2, 4, 0, 0]),
        (
            'Die <hallucination probability="0.2">Donau</hallucination> ist '
            '<hallucination probability="0.9">3500 km</hallucination> lang.',
            7 / 12,
            1.0,
            [2, 1, 0, 3],
        ),
        # nested tags: each character has the higher probability
        *(
            (
                f'Die Donau <entity probability="{outer}">ist <invented probability="{inner}">3500 km</invented> lang.'
                "</entity>",
                *(7 / 17, of_both, [2, 2, 0, 2]),
            )
            for outer, inner, of_both in ((0.3, 0.8, 0.503227), (0.8, 0.3, 0.109691))
        ),
        ("Die  Donau ist 3500 km lang. ", 0.0, 0.0, [0, 0, 2, 4]),  # white space alters nothing
        ("Die Donau war <entity>3500 km</entity> lang.", 1.0, 0.846114, [2, 0, 0, 4]),
        ("Etwas ganz anderes, ohne jedes gemeinsame Wort: xyz, qqq, jjj, vvv", 0.0, 0.0, [0, 0, 2, 4]),
    ],
)
def test_a_tagged_answer_is_scored(response: str, iou_: float, rho_: float, counts: list[int]) -> None:
    values = process_character_results(DOC, [response])
    assert next(iter(values)) == "iou"  # the answer's own score
    assert values["iou"] == pytest.approx(iou_)
    assert values["rho"] == pytest.approx(rho_, abs=5e-7)
    assert values["precision"] == values["recall"] == values["f1"].counts == counts
    tp, fp, fn, _ = counts
    assert values["f1"] == 2 * tp / (2 * tp + fp + fn)  # the document's own
    assert values["lost_rate"] == float("xyz" in response)
    assert values["altered_rate"] == float("xyz" in response or "war" in response)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Die Donau ist 3500 km lang.", (1.0, 1.0, 1.0)),  # as the shared task's scorer has it
        ("Die Donau ist <entity>3500 km</entity> lang.", (0.0, 0.0, 0.0)),
        ("", (0.0, 0.0, 0.0)),
        ("I'm sorry, but I cannot help with that.", (0.0, 0.0, 0.0)),
        ("<hallucination></hallucination>", (0.0, 0.0, 0.0)),
        ("Keine Halluzinationen.", (0.0, 0.0, 0.0)),
    ],
)
def test_a_lost_reply_wins_nothing_where_people_marked_nothing(reply: str, expected: tuple[float, ...]) -> None:
    for process in (process_character_results, detection.process_results, detection.process_category_results):
        values = process({**DOC, "spans": [], "soft_labels": []}, [reply])
        assert values["f1"] == expected[2]
        assert (values.get("iou", expected[0]), values.get("rho", expected[1])) == expected[:2]


COUNTS = [[6, 2, 4, 8], [0, 0, 0, 50], [1, 0, 9, 0], [3, 5, 1, 20], [2, 2, 2, 2]]
RATES = {
    "precision": lambda c: c[..., 0] / (c[..., 0] + c[..., 1]),
    "recall": lambda c: c[..., 0] / (c[..., 0] + c[..., 2]),
    "f1": lambda c: 2 * c[..., 0] / (2 * c[..., 0] + c[..., 1] + c[..., 2]),
}


@pytest.mark.parametrize("metric", RATES)
def test_a_metric_is_of_the_sums_and_its_bounds_of_resampled_sums(metric: str) -> None:
    kind = getattr(detection, metric)
    many, value = COUNTS * 150, RATES[metric](np.sum(COUNTS, axis=0))
    with np.errstate(invalid="ignore"):
        informing = ~np.isnan(RATES[metric](np.array(many)))  # 300 documents and more
    expected = (value, *spread(RATES[metric](resampled_sums(np.array(many)[informing]))), 750)
    assert kind.figure_of(many) == pytest.approx(expected, rel=1e-12)
    ten = kind.figure_of(COUNTS * 2)
    assert 0 <= ten.low < expected[1] < value < expected[2] < ten.high <= 1
    assert kind.figure_of([*COUNTS * 2, *[[0, 0, 0, 9]] * 20])[:4] == pytest.approx(ten[:4])  # they say nothing of it
    assert math.isnan(kind.figure_of([*COUNTS[:4], *[[0, 0, 0, 9]] * 20]).low)
    assert kind.linear(kind.rows(COUNTS)).values.mean() == pytest.approx(value)


def test_what_no_resample_defines_has_no_bounds_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = detection.precision.figure_of([[0, 0, 3, 5], [0, 0, 1, 1]])
        macro = detection.f1.figure_of([[[0, 0, 0, 5]] * 6])
        nothing = detection.recall.figure_of([])
    assert np.isnan([found.value, found.low, macro.value, nothing.value]).all()


TEXT = "Er war 1969 auf dem Mars"
GOLD = [Span(7, 11, "entity"), Span(12, 19, "relation")]
FOUND = [Span(7, 11, "entity"), Span(16, 24, "invented"), Span(12, 15, "relation")]


def test_words_are_counted_by_what_both_sides_say() -> None:
    found = count_words(TEXT, "de", GOLD, FOUND)
    assert found == WordCounts(3, 1, 0, 2)
    assert all(type(count) is int for count in found)
    assert count_words(TEXT, "de", FOUND, GOLD) == WordCounts(3, 0, 1, 2)
    assert count_words("我不知道", "zh", [Span(0, 1)], []) == WordCounts(0, 0, 1, len(words("我不知道", "zh")) - 1)


def doc(text: str, spans: list[Span]) -> dict[str, Any]:
    names = ("start", "end", "category")
    return {"answer": text, "language": "de", "spans": [dict(zip(names, span[:3], strict=True)) for span in spans]}


def test_a_document_has_the_counts_of_its_categories_and_of_all_of_them() -> None:
    tagged = "Er war <entity>1969</entity> <relation>auf</relation> <invented>dem Mars</invented>"
    got = detection.process_category_results(doc(TEXT, GOLD), [tagged])
    counts = [[1, 0, 0, 5], [1, 0, 1, 4], [0, 2, 0, 4], *[[0, 0, 0, 6]] * 3]
    assert got["precision"] == got["recall"] == got["f1"].counts == counts
    assert got["f1"] == pytest.approx(2 * 2 / (2 * 2 + 2 + 1))
    assert {**got, "f1": 0, "precision": 0, "recall": 0} == {
        **dict.fromkeys(("f1", "precision", "recall", "altered_rate", "lost_rate"), 0.0)
    }


@pytest.mark.parametrize(
    ("tagged", "gold", "f1"), [(TEXT, [], 1.0), (TEXT, GOLD, 0.0), ("<entity>Er</entity>" + TEXT[2:], [], 0.0)]
)
def test_a_document_in_which_neither_side_marks_a_word_is_right(tagged: str, gold: list[Span], f1: float) -> None:
    for process in (detection.process_results, detection.process_category_results):
        got = process(doc(TEXT, gold), [tagged])
        assert float(got["f1"]) == f1


def test_macro_scores_count_the_categories_that_people_marked() -> None:
    """Marked and never found counts as 0; found and never marked does not count."""
    counts = np.array([[[2, 1, 1, 9], [0, 3, 0, 9], [0, 0, 4, 9], [1, 0, 0, 9], [0, 0, 0, 9], [0, 0, 0, 9]]] * 3)
    for kind in (detection.precision, detection.recall, detection.f1):
        assert kind(counts.tolist()) == pytest.approx((2 / 3 + 0 + 1) / 3)
    varied = np.concatenate([np.stack([np.roll(counts[0], place, axis=0) for place in range(3)])] * 100)
    resampled = resampled_sums(varied.reshape(300, 24)).reshape(-1, 6, 4)
    with np.errstate(invalid="ignore"):
        rates = np.nan_to_num(resampled[..., 0] / (resampled[..., 0] + resampled[..., 1]))
    occurs = resampled[..., 0] + resampled[..., 2] > 0
    bounds = spread((rates * occurs).sum(-1) / occurs.sum(-1))
    assert detection.precision.figure_of(varied.tolist())[1:] == pytest.approx((*bounds, 300), rel=1e-12)


def test_a_category_alone_has_the_figures_of_its_counts() -> None:
    values = [[[n, 1, 2, 9], [1, n, 0, 9], *[[0, 0, 0, 9]] * 4] for n in (1, 2, 3)]
    found = detection.category_figures(values)
    assert list(found)[:4] == ["f1_entity", "precision_entity", "recall_entity", "f1_relation"]
    assert len(found) == 18
    assert found["precision_entity"] == detection.precision.figure_of([of[0] for of in values])
    assert found["recall_relation"] == detection.recall.figure_of([of[1] for of in values])
    assert found["f1_relation"].value == pytest.approx(2 * 3 / (2 * 3 + 6))
    assert math.isnan(found["f1_subjective"].value)


@pytest.mark.parametrize(
    ("counts", "rates"),
    [
        (WordCounts(6, 2, 4, 8), (0.75, 0.6, 12 / 18, 0.2, 0.5, 0.4)),
        (WordCounts(0, 0, 0, 0), (math.nan,) * 6),
        (WordCounts(1, 2, 3, 0), (1 / 3, 0.25, 2 / 7, 1.0, 4 / 6, 0.5)),
    ],
)
def test_rates_of_counts(counts: WordCounts, rates: tuple[float, ...]) -> None:
    names = ("precision", "recall", "f1", "false_positive_rate", "prevalence", "flagged_share")
    assert [getattr(counts, name) for name in names] == pytest.approx(rates, nan_ok=True)


@pytest.mark.parametrize(("positive", "others", "n"), [(1, 299, 1), (4, 30, 4), (6, 300, 6)])
def test_a_recall_is_compared_over_the_passages_that_have_something_to_find(positive: int, others: int, n: int) -> None:
    """One passage of 300 had p = 9.8e-91; of fewer than five there is none."""
    first, second = ([[3 + k % 2, 1, 2, 40] for k in range(positive)], [[2, 1, 3 - k % 3, 40] for k in range(positive)])
    rest = [[[0, 1, 0, 50]] * others, [[0, 0, 0, 51]] * others]
    rows = [detection.recall.rows([*of, *nothing]) for of, nothing in zip((first, second), rest, strict=True)]
    found = detection.recall.difference(*rows)
    assert found.n == n
    if n < 5:
        assert np.isnan([found.p, found.low, found.high]).all()
    else:
        alone = detection.recall.difference(*map(detection.recall.rows, (first, second)))
        assert found[:7] == pytest.approx(alone[:7])


def test_sensitivity_by_one_passage_leaves_a_balanced_accuracy_without_p() -> None:
    kind = detection.balanced_accuracy
    rows = [kind.rows([[found, 1, 5 - found, 40], *[[0, n % 3, 0, 40]] * 99]) for n, found in ((0, 3), (1, 2))]
    assert math.isnan(detection.balanced_accuracy.difference(*rows).p)
