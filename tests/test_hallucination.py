"""From flagged words to a rate: Equation 1, Rogan and Gladen, their bounds, and what each does when prevalence shifts."""

from __future__ import annotations

import csv
import math
from itertools import pairwise
from pathlib import Path
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custom_metrics.hallucination import Rates, doubts, estimate, estimated_rate, rates, rogan_gladen_rate
from custom_metrics.reading.words import words
from custom_metrics.scores import detection
from custom_metrics.scores.detection import WordCounts
from detector_plugin import calibration as calibrations

NAN = math.nan


@pytest.mark.parametrize(
    ("precision", "recall", "detected", "total", "rate"),
    [
        (0.5, 0.5, 10, 100, 0.1),  # as many false alarms as misses: the flagged share itself
        (0.5819, 0.7406, 200, 1000, 0.157143),  # Table 10, German gold
        (0.7398, 0.5340, 200, 1000, 0.277079),  # Table 10, Arabic gold
        (1.0, 0.5, 600, 1000, 1.2),  # the equation knows no upper bound
        (0.8, 0.6, 0, 100, 0.0),
        (0.8, 0.6, 0, 0, NAN),
        (0.8, 0.0, 5, 100, NAN),
        (NAN, 0.5, 5, 100, NAN),
        (0.0, NAN, 5, 100, NAN),
    ],
)
def test_estimated_rate(precision: float, recall: float, detected: float, total: float, rate: float) -> None:
    assert estimated_rate(precision, recall, detected, total) == pytest.approx(rate, abs=5e-7, nan_ok=True)


@pytest.mark.parametrize(
    ("share", "tpr", "fpr", "rate"),
    [
        (0.1, 1.0, 0.0, 0.1),
        (0.3, 0.8, 0.2, 1 / 6),
        (0.1, 0.8, 0.2, 0.0),  # fewer flagged than by false alarm alone
        (0.9, 0.8, 0.2, 1.0),
        (0.5, 0.4, 0.4, NAN),  # the detector tells nothing apart
        (NAN, 0.8, 0.2, NAN),
        (0.5, 0.8, NAN, NAN),
    ],
)
def test_rogan_gladen_rate(share: float, tpr: float, fpr: float, rate: float) -> None:
    assert rogan_gladen_rate(share, tpr, fpr) == pytest.approx(rate, nan_ok=True)


counts = st.integers(0, 10_000)


@given(counts, counts, counts, counts)
def test_on_its_own_calibration_both_give_the_true_rate(tp: int, fp: int, fn: int, tn: int) -> None:
    """The identity of A.4: P*(TP+FP) = TP, and TP/R = TP + FN; Rogan and Gladen's holds likewise."""
    c = WordCounts(tp, fp, fn, tn)
    if tp:
        assert estimated_rate(c.precision, c.recall, tp + fp, sum(c)) == pytest.approx(c.prevalence)
    if tp + fn and fp + tn and c.recall != c.false_positive_rate:
        assert rogan_gladen_rate(c.flagged_share, c.recall, c.false_positive_rate) == pytest.approx(c.prevalence)


@given(st.integers(1, 500), st.integers(0, 500), st.integers(0, 500), st.integers(1, 500), st.integers(0, 1000))
def test_equation_1_scales_the_calibrations_prevalence(tp: int, fp: int, fn: int, tn: int, flagged: int) -> None:
    c = WordCounts(tp, fp, fn, tn)
    expected = c.prevalence * (flagged / 1000) / c.flagged_share
    assert estimated_rate(c.precision, c.recall, flagged, 1000) == pytest.approx(expected)


def test_the_shipped_calibration_of_the_papers_detector_is_table_10(shared: Path) -> None:
    """Every row of Table 10 and no other; the published F1 (a mean of three runs) is near that of P and R."""
    rows = list(csv.DictReader((shared / "reference/published/mfava_table10_detector_prf.csv").open()))
    paper = calibrations.load("mfava-llama-3-8b-multi-bidirect")
    seen = 0
    for row in rows:
        if row["language"] == "average":
            continue
        precision, recall = float(row["precision"]) / 100, float(row["recall"]) / 100
        (entry,) = (
            kinds[row["annotations"]]
            for code, kinds in paper.languages.items()
            if row["annotations"] in kinds and NAMES[code] == row["language"]
        )
        assert (entry.precision, entry.recall) == pytest.approx((precision, recall))
        if row["language"] not in ("cantonese", "chinese", "hebrew"):  # whose runs differ most
            f1 = 2 * entry.precision * entry.recall / (entry.precision + entry.recall)
            assert f1 == pytest.approx(float(row["f1"]) / 100, abs=0.02)
        seen += 1
    assert seen == 5 + 27
    assert {"la", "pl", "ro"}.isdisjoint(paper.languages)  # the paper's table lacks them


NAMES = dict(
    line.split("\t")[:2]
    for line in (Path(calibrations.__file__).parents[1] / "lm_eval_tasks/mfava/languages.tsv")
    .read_text("utf-8")
    .lower()
    .splitlines()
)


def test_the_papers_standard_deviations_divide_by_n_minus_1(shared: Path) -> None:
    """Figure 4 prints the mean and spread of each language's eleven rates; ours are computed alike."""
    rows = list(csv.reader((shared / "reference/published/mfava_figure4_rates.csv").open(encoding="utf-8")))[1:]
    complete = [[float(cell.split("±")[0]) for cell in row[1:-1]] for row in rows if all(row[1:])]
    spreads = [float(row[-1].split("±")[1]) for row in rows if all(row[1:])]
    assert len(complete) >= 10
    close = [abs(stdev(rates) - spread) < 0.006 for rates, spread in zip(complete, spreads, strict=True)]
    assert sum(close) >= 0.9 * len(close)


# ----------------------------------------------------------------------------------------------------------- estimates


def corpus(
    rng: np.random.Generator, documents: int, prevalence: float, tpr: float = 0.75, fpr: float = 0.15
) -> np.ndarray:
    """Word counts (tp, fp, fn, tn) of documents whose prevalence and error rates vary from one to the next."""
    total = rng.integers(60, 240, documents)
    hallucinated = rng.binomial(total, rng.beta(8 * prevalence, 8 * (1 - prevalence), documents))
    tp = rng.binomial(hallucinated, rng.beta(15 * tpr, 15 * (1 - tpr), documents))
    fp = rng.binomial(total - hallucinated, rng.beta(15 * fpr, 15 * (1 - fpr), documents))
    return np.stack([tp, fp, hallucinated - tp, total - hallucinated - fp], axis=1)


def flagged(counts: np.ndarray) -> np.ndarray:
    return np.stack([counts[:, 0] + counts[:, 1], counts.sum(axis=1)], axis=1)


@pytest.mark.one_python("how often bounds hold the truth")
@pytest.mark.parametrize(
    "corpora", [200, pytest.param(1000, marks=pytest.mark.slow("bounds of 1,000 corpora, 7 ms each, twice"))]
)
@pytest.mark.parametrize(("prevalence", "equation_1", "covers"), [(0.10, 0.204, 0.0), (0.35, 0.35, 0.95)])
def test_intervals_when_prevalence_shifts(prevalence: float, equation_1: float, covers: float, corpora: int) -> None:
    """Corpora that are drawn at one prevalence, calibrated at a prevalence of 35 %.

    Rogan-Gladen is right at 10 % too, and its 95 % intervals hold the truth 93 to 97 times in 100. Equation 1 is right
    where the answers are like the calibration; at 10 % it says 20 %, and its intervals never hold the truth.
    """
    rng = np.random.default_rng(7)
    held = np.zeros(2)
    means = np.zeros(2)
    for _ in range(corpora):
        got = estimate(flagged(corpus(rng, 100, prevalence)), corpus(rng, 100, 0.35), iterations=500)
        for index, interval in enumerate((got.rogan_gladen, got.estimated)):
            held[index] += interval.low <= prevalence <= interval.high
            means[index] += interval.value / corpora
    wider = math.sqrt(2000 / corpora)  # the tolerances are some four standard errors of means over 2,000 corpora
    assert held[0] / corpora == pytest.approx(0.95, abs=0.02 * wider)
    assert means[0] == pytest.approx(prevalence, abs=0.003 * wider)
    assert held[1] / corpora == pytest.approx(covers, abs=0.02 * wider)
    assert means[1] == pytest.approx(equation_1, abs=0.005 * wider)


def test_estimates_of_a_small_corpus() -> None:
    calibration = np.array([[6, 2, 2, 10], [3, 1, 2, 14]])
    got = estimate(np.array([[5, 20], [1, 20]]), calibration)
    assert got.detected.value == pytest.approx(6 / 40)
    assert got.estimated.value == pytest.approx((9 / 12) * 6 / ((9 / 13) * 40))
    assert got.rogan_gladen.value == pytest.approx((6 / 40 - 3 / 27) / (9 / 13 - 3 / 27))
    for interval in got:
        assert interval.low <= interval.value <= interval.high
    assert got == estimate(np.array([[5, 20], [1, 20]]), calibration)  # seeded


@pytest.mark.parametrize(("flagged_words", "value"), [(0, 0.0), (8, 0.0), (380, 1.0)])
def test_a_flagged_share_that_no_prevalence_explains_tells_nothing(flagged_words: int, value: float) -> None:
    """Calibrated on TPR 0.8 and FPR 0.2, a flagged share of 0, 0.02 or 0.95 means that the answers are unlike the texts."""
    calibration = np.tile([16, 4, 4, 16], (50, 1))
    got = estimate(np.tile([flagged_words // 4, 100], (4, 1)), calibration).rogan_gladen
    assert got[:3] == (value, 0.0, 1.0)
    assert math.isnan(got.standard_error)


def test_without_counts_only_equation_1_is_there() -> None:
    got = estimate(np.array([[5, 20], [1, 20]]), None, precision=0.5819, recall=0.7406)
    assert got.estimated.value == pytest.approx(0.5819 / 0.7406 * 6 / 40)
    assert got.estimated.low < got.estimated.value < got.estimated.high
    assert all(map(math.isnan, got.rogan_gladen[:4]))


def test_without_calibration_or_words_nothing_is_made_up() -> None:
    got = estimate(np.array([[5, 20]]))
    assert got.detected.value == 0.25
    assert all(map(math.isnan, (*got.estimated[:4], *got.rogan_gladen[:4])))
    for empty in (np.zeros((0, 2)), np.zeros((3, 2))):
        assert all(math.isnan(number) for interval in estimate(empty) for number in interval[:4])


@pytest.mark.parametrize(
    ("wild", "calibration", "expected"),
    [
        (
            [[5, 20], [1, 20]],
            [[6, 2, 2, 10], [3, 1, 2, 14]],
            (0.15, 0.15 * 13 / 12, (0.15 - 3 / 27) / (9 / 13 - 3 / 27)),
        ),
        ([5, 20], None, (0.25, NAN, NAN)),  # one cluster
        ([[5, 20]], [[0, 2, 3, 5]], (0.25, NAN, 1 / 8)),  # TPR 0, FPR 2/7: (1/4 - 2/7) / (0 - 2/7)
        ([[5, 20]], [[0, 0, 0, 0]], (0.25, NAN, NAN)),
        ([[0, 20]], [[0, 0, 0, 10]], (0.0, NAN, NAN)),  # nothing is flagged
        ([[NAN, 20]], [[6, 2, 2, 10]], (NAN, NAN, NAN)),  # the detector failed
        ([], [[6, 2, 2, 10]], (NAN, NAN, NAN)),
        ([[0, 0]], [[6, 2, 2, 10]], (NAN, NAN, NAN)),  # no words
    ],
)
def test_rates_without_bounds(wild: list[object], calibration: list[list[int]] | None, expected: object) -> None:
    found = rates(np.array(wild), None if calibration is None else np.array(calibration))
    assert isinstance(found, Rates)
    assert found == pytest.approx(expected, nan_ok=True)


def test_errors_of_other_languages_give_no_rate_where_false_alarms_are_as_likely_as_hits() -> None:
    """The expected rates are those of the mean cell, here of equal cells, on the logit scale with half a word added."""
    wild = np.array([[30, 100]])
    cell = np.tile([4, 1, 1, 4], (5, 1))  # of five answers
    good = {language: {"m": cell} for language in ("de", "fr")}
    bad = {language: {"m": cell[:, [2, 3, 0, 1]]} for language in ("de", "fr")}
    tpr = 20.5 / 26
    found = rates(wild, pooled=good)
    assert found == pytest.approx((0.3, 0.3, (0.3 - 1 + tpr) / (2 * tpr - 1)))
    found = rates(wild, pooled=bad)
    assert (found.detected, math.isnan(found.rogan_gladen)) == (0.3, True)


def test_the_calibrations_uncertainty_is_in_the_bounds() -> None:
    rng = np.random.default_rng(0)
    wild = flagged(corpus(rng, 400, 0.2))
    many, few = corpus(rng, 2000, 0.35), corpus(rng, 20, 0.35)
    width = [got.high - got.low for got in (estimate(wild, c).rogan_gladen for c in (many, few))]
    assert width[1] > 2 * width[0]


@pytest.mark.parametrize(
    ("share", "calibration", "words_of_reasons"),
    [
        (0.3, WordCounts(60, 20, 40, 180), []),
        (0.05, WordCounts(60, 20, 40, 180), ["5.0% of the words are flagged, 26.7% in the calibration"]),
        (0.9, WordCounts(60, 20, 40, 180), ["90.0% of the words are flagged"]),
        (0.3, WordCounts(30, 50, 70, 150), ["a difference under 10%"]),
        (NAN, WordCounts(60, 20, 40, 180), ["not a word to count"]),
        (0.3, WordCounts(0, 50, 0, 150), ["no hallucinated word, or no other"]),
        (0.9, WordCounts(30, 50, 70, 150), ["a difference under 10%", "90.0% of the words"]),
    ],
)
def test_doubts(share: float, calibration: WordCounts, words_of_reasons: list[str]) -> None:
    reasons = doubts(share, calibration)
    assert len(reasons) == len(words_of_reasons)
    assert all(said in reason for said, reason in zip(words_of_reasons, reasons, strict=True))


# ----------------------------------------------------------------------------------------------------------- detection


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Die Katze,  rot.", "de", ["Die", "Katze,", "rot."]),
        ("", "de", []),
        (" \n\t", "zh", []),
        ("我来到北京清华大学", "zh", ["我", "来到", "北京", "清华大学"]),
        ("すもももももももものうち", "ja", ["すもも", "も", "もも", "も", "もも", "の", "うち"]),
        ("北京 大學。", "yue", ["北京", "大學", "。"]),
        ("ไปโรงเรียน", "th", ["ไปโรงเรียน"]),
        ("a b", None, ["a", "b"]),
    ],
)
def test_words(text: str, language: str | None, expected: list[str]) -> None:
    assert [text[start:end] for start, end in words(text, language)] == expected


@settings(deadline=None)  # the segmenters load their dictionaries first
@given(st.text(max_size=60), st.sampled_from(["de", "zh", "ja", None]))
def test_words_lie_in_the_text_in_order(text: str, language: str | None) -> None:
    places = words(text, language)
    assert all(start < end for start, end in places)
    assert all(a[1] <= b[0] for a, b in pairwise(places))
    assert "".join(text[s:e] for s, e in places) == "".join(text.split())


@pytest.mark.one_python("how time grows")
def test_a_loop_of_a_hundred_thousand_characters_is_cut_into_words() -> None:
    assert len(words("哈" * 100_000, "zh")) > 0
    assert len(words("すもも" * 30_000, "ja")) > 0


DOC = {
    "answer": "Er war 1969 auf dem Mars.",
    "language": "de",
    "spans": [{"start": 20, "end": 24, "category": "entity"}],
}


@pytest.mark.parametrize(
    ("tagged", "counted", "altered", "lost"),
    [
        ("Er war 1969 auf dem <entity>Mars</entity>.", [1, 0, 0, 5], 0, 0),
        ("Er war 1969 auf dem Mars.", [0, 0, 1, 5], 0, 0),
        ("Er  war <entity>1969</entity> auf dem Mars.", [0, 1, 1, 4], 0, 0),  # white space alters nothing
        ("Er war 1970 auf dem <invented>Mars</invented>.", [1, 0, 0, 5], 1, 0),
        ("I cannot help with that.", [0, 0, 1, 5], 1, 1),
        ("", [0, 0, 1, 5], 1, 1),
    ],
)
def test_a_tagged_answer_is_held_against_the_annotators(
    tagged: str, counted: list[int], altered: int, lost: int
) -> None:
    got = detection.process_results(DOC, [tagged])
    assert got["f1"].counts == got["precision"] == got["recall"] == counted
    tp, fp, fn, _ = counted
    assert next(iter(got.values())) == 2 * tp / (2 * tp + fp + fn)  # the document's own F1 comes first
    assert (got["altered_rate"], got["lost_rate"]) == (altered, lost)


# ---------------------------------------------------------------------------------------------------------- repetition
