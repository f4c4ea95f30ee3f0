"""The three rates and their bounds, each against its formula on resamples that anybody can draw."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from custom_metrics import hallucination
from custom_metrics.hallucination import (
    estimate,
    flagged_words,
    rates,
)
from custom_metrics.reading.words import words
from custom_metrics.statistics import random_effects
from custom_metrics.statistics.figures import UNDEFINED, Figure
from custom_metrics.statistics.intervals import resampled_sums, spread
from custom_metrics.statistics.random_effects import Errors, annotated

WILD = np.array([[3, 20], [5, 31], [0, 12], [9, 40], [2, 25], [4, 18]])
CALIBRATION = np.array([[9, 1, 3, 40], [4, 2, 2, 30], [7, 0, 5, 25], [3, 3, 1, 50], [6, 1, 2, 33]])


def approx(interval: Any) -> Any:
    return pytest.approx(tuple(interval), nan_ok=True, rel=1e-12)


@pytest.mark.parametrize(("iterations", "seed"), [(300, 7), (2000, 1234)])
def test_rates_of_a_calibration_and_their_bounds(iterations: int, seed: int) -> None:
    given = {} if iterations == 2000 else {"iterations": iterations, "seed": seed}
    found = estimate(WILD, CALIBRATION, **given)  # type: ignore[arg-type]
    shares = np.divide(*resampled_sums(WILD, iterations, seed).T)
    tpr, fpr, ratio = annotated(CALIBRATION, iterations, seed + 1).draws.T
    q, (TP, FP, FN, TN) = 23 / 146, CALIBRATION.sum(0)
    assert found.detected == approx(Figure(q, *spread(shares)))
    assert found.estimated == approx(
        Figure(q * (TP / (TP + FP)) / (TP / (TP + FN)), *spread(np.minimum(shares * ratio, 1)))
    )
    assert bool((tpr > fpr).all()) is (iterations == 300)  # of 2,000 draws one tells nothing: it counts as 0 and as 1
    corrected = np.clip((shares - fpr) / (tpr - fpr), 0, 1)
    low, high = spread(np.where(tpr > fpr, corrected, 0))[0], spread(np.where(tpr > fpr, corrected, 1))[1]
    point = (q - FP / (FP + TN)) / (TP / (TP + FN) - FP / (FP + TN))
    error = spread(corrected[tpr > fpr])[2]
    assert found.rogan_gladen == approx(Figure(point, low, high, error))


def test_precision_and_recall_alone_give_equation_1() -> None:
    found = estimate(WILD, None, 0.8, 0.5, 200, 3)
    shares = np.divide(*resampled_sums(WILD, 200, 3).T)
    assert found.estimated == approx(Figure(0.8 / 0.5 * 23 / 146, *spread(1.6 * shares)))
    assert found.rogan_gladen == approx(UNDEFINED)
    assert estimate(WILD, None, 0.8, 0.0, 200, 3).estimated == approx(UNDEFINED)
    assert estimate(WILD, precision=0.8, iterations=200, seed=3).estimated == approx(UNDEFINED)
    assert estimate(WILD, recall=0.8, iterations=200, seed=3).estimated == approx(UNDEFINED)


def test_a_resample_without_words_is_left_out_silently_and_a_single_finding_is_not_certain() -> None:
    wild = np.vstack([WILD, [[0, 0]] * 2])
    calibration = np.vstack([[[9, 1, 3, 40]], [[0, 0, 0, 5]]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = estimate(wild, calibration, iterations=200, seed=5)
        level = estimate(
            wild, np.array([[1, 1, 1, 1], [9, 1, 3, 40], [2, 2, 2, 2]]), iterations=200, seed=5
        ).rogan_gladen
    assert found.estimated.value == pytest.approx(12 / 10 * 23 / 146)
    assert found.estimated.low < 0.07 < 0.5 < found.estimated.high
    assert found.rogan_gladen[1:3] == (0.0, 1.0)
    assert 0 <= level.low <= level.value <= level.high <= 1


def pooled(draws: Any, tpr: float = 0.7, fpr: float = 0.1, ratio: float = 1.2) -> Any:
    return Errors(tpr, fpr, ratio, np.asarray(draws, dtype=float))


def expecting(monkeypatch: pytest.MonkeyPatch, errors: Errors) -> None:
    """Whatever was measured in other languages, these errors are expected."""
    monkeypatch.setattr(hallucination, "detector_errors", lambda *args: errors)
    monkeypatch.setattr(hallucination, "expected", lambda *args: errors[:3])


def of_languages(*cells: list[list[int]]) -> dict[str, dict[str, Any]]:
    return {f"language {place}": {"a model": np.array(counts)} for place, counts in enumerate(cells)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (23 / 146, math.nan, math.nan)),
        ({"precision": 0.5, "recall": 0.25}, (23 / 146, 2 * 23 / 146, math.nan)),
        ({"calibration": np.array([[6, 2, 4, 40], [2, 1, 2, 30]])}, (23 / 146, None, None)),
        ({"pooled": of_languages([[6, 2, 4, 40]], [[9, 1, 4, 30]], [[5, 3, 6, 50]])}, (23 / 146, None, None)),
    ],
    ids=["nothing known", "Table 10", "calibration", "pooled"],
)
def test_rates_are_those_of_the_estimate_without_its_bootstrap(
    options: dict[str, Any], expected: tuple[float | None, ...]
) -> None:
    found, whole = rates(WILD, **options), estimate(WILD, iterations=50, **options)
    assert list(found) == pytest.approx([part.value for part in whole], nan_ok=True)
    for value, known in zip(found, expected, strict=True):
        assert not math.isnan(value) if known is None else value == pytest.approx(known, nan_ok=True)


def test_errors_that_are_expected_give_bounds_from_those_that_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.array([[0.7, 0.1, 1.0], [0.9, 0.05, 2.0], [0.1, 0.4, 9.0], [0.6, 0.12, 0.5]] * 50)
    asked: list[Any] = []

    def predicted(*args: Any) -> Errors:
        asked.append(args)
        return pooled(draws)

    monkeypatch.setattr(random_effects, "predicted", predicted)
    monkeypatch.setattr(hallucination, "expected", lambda _: pooled(draws)[:3])
    languages: dict[str, Any] = {"de": {}}
    found = estimate(WILD, iterations=200, seed=3, pooled=languages)
    assert asked == [(languages, 200, 4)]
    shares = np.divide(*resampled_sums(WILD, 200, 3).T)
    can_be = (draws[:, 1] <= shares) & (shares <= draws[:, 0])
    low, high, error = spread(((shares - draws[:, 1]) / (draws[:, 0] - draws[:, 1]))[can_be])
    value = (23 / 146 - 0.1) / 0.6
    assert found.detected == approx(Figure(23 / 146, *spread(shares)))
    assert found.estimated == approx(Figure(1.2 * 23 / 146, *spread(np.minimum(draws[:, 2] * shares, 1.0))))
    assert found.rogan_gladen == approx(Figure(value, min(low, value), max(high, value), error))


@pytest.mark.parametrize(
    ("possible", "known"),
    [(20, True), (19, False)],  # of 200
)
def test_where_fewer_than_a_tenth_of_the_errors_can_be_nothing_is_known(
    possible: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.array([[0.9, 0.0, 1.0]] * possible + [[0.9, 0.8, 1.0]] * (200 - possible))
    expecting(monkeypatch, pooled(draws))
    found = estimate(WILD, iterations=200, seed=3, pooled={}).rogan_gladen
    assert (found[1:3] != (0.0, 1.0)) is known
    assert math.isnan(found.standard_error) is not known


@pytest.mark.parametrize(("tpr", "fpr", "defined"), [(0.7, 0.7, False), (0.1, 0.7, False), (0.7, 0.69, True)])
def test_a_detector_that_is_expected_to_tell_nothing_has_no_rate(
    tpr: float, fpr: float, defined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.array([[0.9, 0.0, 1.0]] * 200)
    expecting(monkeypatch, pooled(draws, tpr, fpr))
    found = estimate(WILD, iterations=200, seed=3, pooled={})
    assert [not math.isnan(part) for part in found.rogan_gladen[:4]] == [defined] * 4
    assert found.estimated.value == pytest.approx(1.2 * 23 / 146)


def test_draws_of_equal_rates_are_left_out_and_a_large_estimate_keeps_its_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = np.array([[1, 1], [1, 1], [2, 2]])  # every word is flagged
    draws = np.array([[1.0, 1.0, 3.0], [1.0, 0.5, 9.0]] * 100)
    expecting(monkeypatch, pooled(draws, 0.9, 0.1, 2.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = estimate(whole, iterations=200, seed=3, pooled={})
    assert found.rogan_gladen == approx(Figure(1.0, 1.0, 1.0, 0.0))
    assert found.estimated == approx(Figure(2.5, 2.5, 2.5, 0.0))  # limited at the expected 2.5, not at 1


def test_words_are_flagged_by_any_of_their_characters() -> None:
    assert flagged_words("die Katze schläft", [[4, 5, "entity"], [16, 17, "x", 0.5]]) == (2, 3)
    assert flagged_words("die Katze", []) == (0, 2)
    assert flagged_words("我不知道", [[0, 1, "entity"]], "zh") == (1, len(words("我不知道", "zh")))
    failed, number = flagged_words("die Katze", None)
    assert math.isnan(failed)
    assert number == 2


HALF = np.array([[1, 2]] * 5)  # half of the words are flagged, in every resample


def test_one_calibration_document_tells_nothing_of_how_they_differ() -> None:
    found = estimate(HALF, np.array([[4, 1, 1, 9]]))
    assert found.estimated == approx(Figure(0.5, math.nan, math.nan))
    assert found.rogan_gladen == approx(Figure((0.5 - 0.1) / (0.8 - 0.1), 0.0, 1.0))
    two_of_one_text = estimate(HALF, np.array([[2, 1, 0, 4], [2, 0, 1, 5]]), clusters=["a", "a"])
    assert [*two_of_one_text] == [approx(part) for part in found]
