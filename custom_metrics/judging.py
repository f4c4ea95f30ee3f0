"""The figures of CLAPnq's human evaluation, from a judge's verdicts (Rosenthal et al. 2025, section 5, Table 7).

The harness hands an aggregation one value per document. Here a value is a tuple that starts with the question's id, so that
bounds are bootstrapped over questions, whatever number of verdicts each has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from custom_metrics.abstention import is_abstention
from custom_metrics.intervals import bootstrap_mean, percentile_bounds, resampled_sums, wilson
from custom_metrics.verdicts import TIE, UNREAD

__all__ = [
    "ASPECTS",
    "f_plus_a",
    "f_plus_a_high",
    "f_plus_a_low",
    "flip_rate",
    "flip_rate_high",
    "flip_rate_low",
    "process_pair",
    "process_rating",
    "share",
    "share_high",
    "share_low",
    "win_rate",
    "win_rate_high",
    "win_rate_low",
]

ASPECTS = ("faithfulness", "appropriateness")
FIRST, SECOND = "A", "B"

Value = tuple[Any, ...]

# ------------------------------------------------------------------------------------------------- values of one document


def process_rating(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Values of one rating.

    Args:
        doc: ``id`` of the question, ``aspect``, and ``answer``, which was rated.
        results: the rating as text, ``"1"`` to ``"4"``, or ``"unread"``.

    Returns:
        Each aspect's rating (``nan`` for the other aspect, and where it could not be read), ``f_plus_a`` and
        ``unread_rate`` (over all ratings; both tuples for their aggregations), ``abstention_rate``
        (over answers: with faithfulness only).
    """
    rating = float(results[0]) if str(results[0]).isdecimal() else math.nan
    aspect = doc["aspect"]
    values: dict[str, Any] = {name: rating if name == aspect else math.nan for name in ASPECTS}
    values["f_plus_a"] = (doc["id"], aspect, rating)
    values["unread_rate"] = (doc["id"], int(math.isnan(rating)), 1)
    counted = aspect == ASPECTS[0]
    values["abstention_rate"] = float(is_abstention(doc["answer"], "en")) if counted else math.nan
    return {key: value for name, value in values.items() for key in (name, f"{name}_ci_low", f"{name}_ci_high")}


def process_pair(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Values of one comparison of two systems' answers.

    Args:
        doc: ``id`` of the question, ``first`` and ``second`` (the systems, as shown), ``systems`` (all there are).
        results: ``"A"``, ``"B"``, ``"tie"`` or ``"unread"``.

    Returns:
        For every system ``win_rate_<system>``: (id, 1 if preferred, else 0; ``nan`` where it took no part or the verdict
        could not be read). ``tie_rate``, ``first_position_rate``, ``unread_rate``: (id, in the share, in the denominator).
        ``flip_rate``: (id, the pair, which system was preferred). Each also with its bounds' names.
    """
    verdict = results[0]
    shown = {FIRST: doc["first"], SECOND: doc["second"]}
    read = verdict in (FIRST, SECOND, TIE)
    values: dict[str, Any] = {}
    for system in doc["systems"]:
        took_part = read and system in shown.values()
        values[f"win_rate_{system}"] = (doc["id"], float(shown.get(verdict) == system) if took_part else math.nan)
    values["tie_rate"] = (doc["id"], int(verdict == TIE), int(read))
    values["first_position_rate"] = (doc["id"], int(verdict == FIRST), int(verdict in (FIRST, SECOND)))
    values["unread_rate"] = (doc["id"], int(not read), 1)
    values["flip_rate"] = (doc["id"], *sorted(shown.values()), shown.get(verdict, TIE) if read else UNREAD)
    return {key: value for name, value in values.items() for key in (name, f"{name}_ci_low", f"{name}_ci_high")}


# ------------------------------------------------------------------------------------------- figures of all the documents


def _aggregations(
    figure: Callable[[tuple[Value, ...]], tuple[float, float, float]],
) -> tuple[Callable[[Sequence[Value]], float], ...]:
    """Value, lower and upper bound as three aggregations over one computation."""
    computed = lru_cache(maxsize=16)(figure)

    def part(number: int) -> Callable[[Sequence[Value]], float]:
        def aggregation(values: Sequence[Value]) -> float:
            # lists come back from a distributed gather or a samples file; nan is made equal to itself for the cache
            return computed(tuple(tuple(None if x != x else x for x in value) for value in values))[number]

        return aggregation

    return part(0), part(1), part(2)


def _win_rate(values: tuple[Value, ...]) -> tuple[float, float, float]:
    """The mean over questions of a system's wins over its verdicts there; ties are no wins (Appendix A.2)."""
    verdicts: dict[Any, list[float]] = {}
    for question, won in values:
        if won is not None:
            verdicts.setdefault(question, []).append(won)
    scores = [sum(won) / len(won) for won in verdicts.values()]
    if not scores:
        return math.nan, math.nan, math.nan
    rate = math.fsum(scores) / len(scores)  # the same in whatever order ranks bring them
    # A bootstrap of nothing but wins would say 1 to 1.
    return (rate, *(wilson(math.fsum(scores), len(scores)) if rate in (0, 1) else bootstrap_mean(scores)))


def _share(values: tuple[Value, ...]) -> tuple[float, float, float]:
    """A share of verdicts."""
    questions: dict[Any, list[int]] = {}
    for question, hit, counted in values:
        sums = questions.setdefault(question, [0, 0])
        sums[0], sums[1] = sums[0] + hit, sums[1] + counted
    return _ratio(list(questions.values()))


def _flips(values: tuple[Value, ...]) -> tuple[float, float, float]:
    """The share of pairs whose verdict changes with the order of the answers, of those that were read in both orders."""
    pairs: dict[tuple[Any, ...], list[str]] = {}
    for *pair, preferred in values:
        pairs.setdefault(tuple(pair), []).append(preferred)
    questions: dict[Any, list[int]] = {}
    for (question, *_), preferred in pairs.items():
        if len(preferred) == 2 and UNREAD not in preferred:
            sums = questions.setdefault(question, [0, 0])
            sums[0], sums[1] = sums[0] + (preferred[0] != preferred[1]), sums[1] + 1
    return _ratio(list(questions.values()))


def _f_plus_a(values: tuple[Value, ...]) -> tuple[float, float, float]:
    """The harmonic mean of the two aspects' means."""
    questions: dict[Any, list[float]] = {}
    for question, aspect, rating in values:
        if rating is not None:
            sums = questions.setdefault(question, [0.0, 0, 0.0, 0])
            place = 2 * ASPECTS.index(aspect)
            sums[place], sums[place + 1] = sums[place] + rating, sums[place + 1] + 1
    if not questions:
        return math.nan, math.nan, math.nan
    clusters = np.array(list(questions.values()), dtype=float)
    return (float(_harmonic(clusters.sum(0)[None])[0]), *percentile_bounds(_harmonic(resampled_sums(clusters))))


def _harmonic(sums: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = sums[:, 0] / sums[:, 1], sums[:, 2] / sums[:, 3]
        harmonic: np.ndarray[Any, Any] = 2 * first * second / (first + second)
    return harmonic


def _ratio(clusters: Sequence[Sequence[int]]) -> tuple[float, float, float]:
    hits, counted = (sum(sums[place] for sums in clusters) for place in (0, 1))
    if not counted:
        return math.nan, math.nan, math.nan
    asked = sum(sums[1] > 0 for sums in clusters)
    if hits in (0, counted):  # a bootstrap of these would say 0 to 0; so many questions, whatever was said of each
        return (hits / counted, *wilson(asked if hits else 0, asked))
    sums = resampled_sums(np.array(clusters))
    with np.errstate(invalid="ignore"):
        return (hits / counted, *percentile_bounds(sums[:, 0] / sums[:, 1]))


f_plus_a, f_plus_a_low, f_plus_a_high = _aggregations(_f_plus_a)
win_rate, win_rate_low, win_rate_high = _aggregations(_win_rate)
share, share_low, share_high = _aggregations(_share)
flip_rate, flip_rate_low, flip_rate_high = _aggregations(_flips)
