"""From flagged words to a rate: Equation 1, Rogan and Gladen, their bounds, and what each does when prevalence shifts."""

from __future__ import annotations

import csv
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.hallucination import doubts, estimate, estimated_rate, flagged_words, rates, rogan_gladen_rate
from custom_metrics.reading.words import words
from custom_metrics.scores.detection import WordCounts
from custom_metrics.statistics.figures import Figure, is_measurable
from custom_metrics.statistics.intervals import share_of_clusters
from custom_metrics.statistics.random_effects import Errors, expected_errors, measured_errors
from detector_plugin import calibration as calibrations
from detector_plugin.calibration import LanguageCalibration
from lm_eval_tasks.detection.calibrated import errors_of

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
        scaled = c.prevalence * 0.5 / c.flagged_share  # what is flagged elsewhere, at the prevalence of the calibration
        assert estimated_rate(c.precision, c.recall, 50, 100) == pytest.approx(scaled)
    if tp + fn and fp + tn and c.recall != c.false_positive_rate:
        assert rogan_gladen_rate(c.flagged_share, c.recall, c.false_positive_rate) == pytest.approx(c.prevalence)


def test_the_shipped_calibration_of_the_papers_detector_is_table_10(shared: Path) -> None:
    """Every row of Table 10 and no other; the published F1 (a mean of three runs) is near that of P and R."""
    rows = list(csv.DictReader((shared / "reference/published/mfava_table10_detector_prf.csv").open()))
    languages = calibrations.load("mfava-llama-3-8b-multi-bidirect").languages
    entries = {(NAMES[code], kind): entry for code, kinds in languages.items() for kind, entry in kinds.items()}
    rows = [row for row in rows if row["language"] != "average"]
    assert {(row["language"], row["annotations"]) for row in rows} <= entries.keys()
    assert len(rows) == 5 + 27
    for row in rows:
        entry = entries[row["language"], row["annotations"]]
        published = [float(row[name]) for name in ("precision", "recall")]
        assert [100 * entry.precision, 100 * entry.recall] == pytest.approx(published)
        if row["language"] not in ("cantonese", "chinese", "hebrew"):  # whose runs differ most
            f1 = 2 * entry.precision * entry.recall / (entry.precision + entry.recall)
            assert f1 == pytest.approx(float(row["f1"]) / 100, abs=0.02)
    assert {"la", "pl", "ro"}.isdisjoint(languages)  # the paper's table lacks them


LANGUAGES = Path(calibrations.__file__).parents[1] / "lm_eval_tasks/mfava/languages.tsv"
NAMES = dict(line.split("\t")[:2] for line in LANGUAGES.read_text("utf-8").lower().splitlines())


def corpus(rng: np.random.Generator, prevalence: float) -> np.ndarray:
    """Word counts (tp, fp, fn, tn) of 100 documents whose prevalence and error rates vary from one to the next."""
    total = rng.integers(60, 240, 100)
    hallucinated = rng.binomial(total, rng.beta(8 * prevalence, 8 * (1 - prevalence), 100))
    tp = rng.binomial(hallucinated, rng.beta(11.25, 3.75, 100))
    fp = rng.binomial(total - hallucinated, rng.beta(2.25, 12.75, 100))
    return np.stack([tp, fp, hallucinated - tp, total - hallucinated - fp], axis=1)


@pytest.mark.one_python("how often bounds hold the truth")
@pytest.mark.parametrize("corpora", [200, pytest.param(1000, marks=pytest.mark.slow("bounds of 1,000 corpora, twice"))])
@pytest.mark.parametrize(("prevalence", "equation_1", "covers"), [(0.10, 0.204, 0.0), (0.35, 0.35, 0.95)])
def test_intervals_when_prevalence_shifts(prevalence: float, equation_1: float, covers: float, corpora: int) -> None:
    """Calibrated at 35 %. Rogan-Gladen is right at 10 %, too; Equation 1 says 20 % there and never holds the truth."""
    rng, rates = np.random.default_rng(7), []
    for _ in range(corpora):
        counts = corpus(rng, prevalence)
        flagged = np.stack([counts[:, :2].sum(axis=1), counts.sum(axis=1)], axis=1)
        got = estimate(flagged, measured_errors(corpus(rng, 0.35), 500))
        rates.append([got.rogan_gladen[:3], got.estimated[:3]])
    value, low, high = np.array(rates).T
    held = ((low <= prevalence) & (prevalence <= high)).mean(axis=1)
    wider = math.sqrt(2000 / corpora)  # the tolerances are some four standard errors of means over 2,000 corpora
    assert held == pytest.approx([0.95, covers], abs=0.02 * wider)
    assert value.mean(axis=1) == pytest.approx([prevalence, equation_1], abs=0.003 * wider)


@pytest.mark.parametrize(
    ("wild", "calibration", "expected"),
    [
        ([[5, 20], [1, 20]], [[6, 2, 2, 10], [3, 1, 2, 14]], (0.15, 0.15 * 13 / 12, (0.15 - 1 / 9) / (9 / 13 - 1 / 9))),
        ([5, 20], None, (0.25, NAN, NAN)),  # one cluster
        ([[5, 20]], [[0, 2, 3, 5]], (0.25, NAN, 1 / 8)),  # TPR 0, FPR 2/7: (1/4 - 2/7) / (0 - 2/7)
        ([[5, 20]], [[0, 0, 0, 0]], (0.25, NAN, NAN)),
        ([[NAN, 20]], [[6, 2, 2, 10]], (NAN, NAN, NAN)),  # the detector failed
        ([], [[6, 2, 2, 10]], (NAN, NAN, NAN)),
        ([[0, 0]], [[6, 2, 2, 10]], (NAN, NAN, NAN)),  # no words
    ],
)
def test_rates_without_bounds(wild: list[object], calibration: list[list[int]] | None, expected: object) -> None:
    given = np.array(wild), None if calibration is None else measured_errors(np.array(calibration), 20)
    assert rates(*given) == pytest.approx(expected, nan_ok=True)
    assert [figure.value for figure in estimate(*given)] == pytest.approx(expected, nan_ok=True)


def test_errors_of_other_languages_give_no_rate_where_false_alarms_are_as_likely_as_hits() -> None:
    """The expected rates are those of the mean cell, here of equal cells, on the logit scale with half a word added."""
    wild, tpr = np.array([[30, 100]]), 20.5 / 26
    cell = np.tile([4, 1, 1, 4], (5, 1))  # of five answers
    for of_cell, corrected in ((cell, (0.3 - 1 + tpr) / (2 * tpr - 1)), (cell[:, [2, 3, 0, 1]], NAN)):
        detected, _, rogan_gladen = rates(wild, expected_errors({code: {"m": of_cell} for code in ("de", "fr")}))
        assert (detected, rogan_gladen) == pytest.approx((0.3, corrected), nan_ok=True)


@pytest.mark.parametrize(
    ("share", "calibration", "words_of_reasons"),
    [
        (0.3, WordCounts(60, 20, 40, 180), []),
        (0.05, WordCounts(60, 20, 40, 180), ["5.0% of the words are flagged, 26.7% in the calibration"]),
        (0.3, WordCounts(0, 50, 0, 150), ["no hallucinated word, or no other"]),
        (0.9, WordCounts(30, 50, 70, 150), ["a difference under 10%", "90.0% of the words"]),
    ],
)
def test_doubts(share: float, calibration: WordCounts, words_of_reasons: list[str]) -> None:
    reasons = doubts(share, calibration)
    assert len(reasons) == len(words_of_reasons)
    assert all(said in reason for said, reason in zip(words_of_reasons, reasons, strict=True))


WILD = np.array([[3, 20], [5, 31], [0, 12], [9, 40], [2, 25], [4, 18]])
CALIBRATION = np.array([[9, 1, 3, 40], [4, 2, 2, 30], [7, 0, 5, 25], [3, 3, 1, 50], [6, 1, 2, 33]])


def pooled(draws: Any, tpr: float = 0.7, fpr: float = 0.1, ratio: float = 1.2) -> Errors:
    return Errors(tpr, fpr, ratio, np.asarray(draws, dtype=float), expected=True)


def useless(number: int) -> Errors:
    """Of 200 draws so many can be, and 160 and more cannot: more is flagged by false alarm alone."""
    return pooled([[0.9, 0.0, 1.0]] * number + [[0.9, 0.8, 1.0]] * (200 - number))


UNLIKE = measured_errors(np.tile([16, 4, 4, 16], (50, 1)))

HALF = np.array([[1, 2]] * 5)  # half of the words are flagged, in every resample
WHOLE = np.array([[9, 9], [8, 8], [8, 9]])  # nearly every word is
EXPECTED = [[0.7, 0.1, 1.0], [0.9, 0.05, 2.0], [0.1, 0.4, 9.0], [0.6, 0.12, 0.5]] * 50
NONE = (NAN, NAN, NAN, NAN)
ONE = ((0.5, 0.0, 1.0, NAN), ((0.5 - 0.1) / (0.8 - 0.1), 0.0, 1.0, NAN))


@pytest.mark.parametrize(
    ("wild", "errors", "estimated", "rogan_gladen"),
    [
        (WILD, None, NONE, NONE),
        (
            *(WILD, measured_errors(CALIBRATION, 300)),
            *((0.183790, 0.102024, 0.271914, 0.0453541), (0.183404, 0.0502286, 0.281812, 0.0609025)),
        ),
        # of 2,000 draws one tells nothing: it counts as 0 and as 1
        (
            *(WILD, measured_errors(CALIBRATION, 2000)),
            *((0.183790, 0.096115, 0.277733, 0.0499101), (0.183404, 0.0372510, 0.305850, 0.0668149)),
        ),
        # precision and recall alone: Equation 1, with what is flagged drawn alone
        (
            *(WILD, errors_of(LanguageCalibration(0.8, 0.5, None, "table"), 200)),
            *((0.252055, 0.157054, 0.320050, 0.0458044), NONE),
        ),
        # of the errors expected in other languages those that can be
        (*(WILD, pooled(EXPECTED)), *((0.189041, 0.0528244, 1.0, 0.363545), (0.0958904, 0.0118493, 0.171715, 0.0437))),
        # nothing is known where fewer than a fifth can be
        (WILD, useless(40), (0.189041, 0.0981589, 0.200031, 0.0286277), (0.0958904, 0.0958904, 0.227815, 0.0361899)),
        (WILD, useless(39), (0.189041, 0.0, 1.0, 0.0286277), (0.0958904, 0.0, 1.0, NAN)),
        # a detector that is expected to tell nothing has no rate
        (WILD, pooled([[0.9, 0.0, 1.0]] * 200, 0.7, 0.7), (0.189041, 0.0981589, 0.200031, 0.0286277), NONE),
        # draws of equal rates are left out, and an estimate beyond 1 keeps its bounds
        (
            *(WHOLE, pooled([[1.0, 1.0, 2.0], [1.0, 0.5, 9.0]] * 100, 0.9, 0.1, 2.5)),
            *((2.5 * 25 / 26, 1.84615, 2.5 * 25 / 26, 0.240605), (1.0, (8 / 9 - 0.5) / 0.5, 1.0, 0.0655634)),
        ),
        # a resample without words is left out silently, and a single finding is not certain
        (
            *(np.vstack([WILD, [[0, 0]] * 2]), measured_errors(np.array([[9, 1, 3, 40], [0, 0, 0, 5]]))),
            *((0.189041, 0.0, 1.0, 0.192135), (0.186465, 0.0, 1.0, 0.0924968)),
        ),
        # TPR 0.8 and FPR 0.2: a flagged share of 0.02 or 0.95 means that the answers are unlike the texts
        *(
            (np.tile([flagged, 100], (4, 1)), UNLIKE, (flagged / 100, 0.0, 1.0, error), (rate, 0.0, 1.0, NAN))
            for flagged, rate, error in ((0, 0.0, 0.0), (2, 0.0, 0.000401994), (95, 1.0, 0.0190735))
        ),
        # one calibration document, or two of one text, tell nothing of how they differ
        (HALF, measured_errors(np.array([[4, 1, 1, 9]])), *ONE),
        (HALF, measured_errors(np.array([[2, 1, 0, 4], [2, 0, 1, 5]]), clusters=["a", "a"]), *ONE),
    ],
)
def test_rates_and_their_bounds(
    wild: Any, errors: Errors | None, estimated: tuple[float, ...], rogan_gladen: tuple[float, ...]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = estimate(wild, errors)
    assert found.detected == Figure(wild[:, 0].sum() / wild[:, 1].sum(), *map(float, share_of_clusters(*wild.T)))
    assert found.estimated[:4] == pytest.approx(estimated, nan_ok=True, rel=1e-5, abs=1e-12)
    assert found.rogan_gladen[:4] == pytest.approx(rogan_gladen, nan_ok=True, rel=1e-5)


@pytest.mark.parametrize(("precision", "recall"), [(0.8, 0.0), (0.8, NAN), (NAN, 0.8)])
def test_errors_that_correct_nothing(precision: float, recall: float) -> None:
    assert errors_of(LanguageCalibration(precision, recall, None, "table")) is None


def test_words_are_flagged_by_any_of_their_characters() -> None:
    assert flagged_words("die Katze schläft", [[4, 5, "entity"], [16, 17, "x", 0.5]]) == (2, 3)
    assert flagged_words("die Katze", []) == (0, 2)
    assert flagged_words("我不知道", [[0, 1, "entity"]], "zh") == (1, len(words("我不知道", "zh")))
    assert flagged_words("die Katze", None) == pytest.approx((NAN, 2), nan_ok=True)


@pytest.mark.parametrize(("flagged", "known"), [(0, False), (1, False), (30, True)])
def test_nothing_is_known_where_less_is_flagged_than_by_false_alarm_alone(flagged: int, known: bool) -> None:
    """No flagged word is no estimate of 0.000 without error: neither corrected rate is measurable then."""
    answers = np.array([[flagged, 100]] * 20)
    calibration = np.array([[16 + i % 3, 4 + i % 2, 4, 40] for i in range(12)])  # FPR 10 %
    found = estimate(answers, measured_errors(calibration))
    for rate in (found.estimated, found.rogan_gladen):
        assert is_measurable(rate, "share") is known
        assert ((rate.low, rate.high) == (0, 1)) is not known


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
