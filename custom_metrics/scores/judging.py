"""The figures of CLAPnq's human evaluation, from a judge's verdicts (Rosenthal et al. 2025, section 5, Table 7).

The harness hands an aggregation one value per document. Here a value is a tuple that starts with the question's id, so that
bounds are bootstrapped over questions, however many verdicts each has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.verdicts import TIE, UNREAD
from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import UNDEFINED, Figure, mean_figure
from custom_metrics.statistics.intervals import Spread, resampled_sums, spread, wilson

__all__ = ["ASPECTS", "f_plus_a", "flip_rate", "process_pair", "process_rating", "share", "win_rate"]

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
        Each aspect's rating (``None`` for the other aspect, and where it could not be read), ``f_plus_a`` and
        ``unread_rate`` (over all ratings; both tuples for their aggregations), ``abstention_rate``
        (over answers: with faithfulness only).
    """
    rating = float(results[0]) if str(results[0]).isdecimal() else None
    aspect = doc["aspect"]
    return {
        **{name: rating if name == aspect else None for name in ASPECTS},
        "f_plus_a": (doc["id"], aspect, rating),
        "unread_rate": (doc["id"], int(rating is None), 1),
        "abstention_rate": float(is_abstention(doc["answer"], "en")) if aspect == ASPECTS[0] else None,
    }


def process_pair(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Values of one comparison of two systems' answers.

    Args:
        doc: ``id`` of the question, ``first`` and ``second`` (the systems, as shown), ``systems`` (all there are).
        results: ``"A"``, ``"B"``, ``"tie"`` or ``"unread"``.

    Returns:
        For every system ``win_rate_<system>``: (id, 1 if preferred, else 0; ``None`` where it took no part or the verdict
        could not be read). ``tie_rate``, ``first_position_rate``, ``unread_rate``: (id, in the share, in the denominator).
        ``flip_rate``: (id, the pair, which system was preferred).
    """
    verdict = results[0]
    shown = {FIRST: doc["first"], SECOND: doc["second"]}
    read = verdict in (FIRST, SECOND, TIE)
    values: dict[str, Any] = {}
    for system in doc["systems"]:
        took_part = read and system in shown.values()
        values[f"win_rate_{system}"] = (doc["id"], float(shown.get(verdict) == system) if took_part else None)
    values["tie_rate"] = (doc["id"], int(verdict == TIE), int(read))
    values["first_position_rate"] = (doc["id"], int(verdict == FIRST), int(verdict in (FIRST, SECOND)))
    values["unread_rate"] = (doc["id"], int(not read), 1)
    values["flip_rate"] = (doc["id"], *sorted(shown.values()), shown.get(verdict, TIE) if read else UNREAD)
    return values


# ------------------------------------------------------------------------------------------- figures of all the documents


def _aggregation(name: str, figure: Callable[[tuple[Value, ...]], Figure]) -> Aggregation:
    computed = lru_cache(maxsize=16)(figure)  # equal values need one bootstrap
    # Lists come back from a distributed gather or a samples file.
    return Aggregation(name, lambda values: computed(tuple(map(tuple, values))))


def _win_rate(values: tuple[Value, ...]) -> Figure:
    """The mean over questions of a system's wins over its verdicts there; ties are no wins (Appendix A.2)."""
    verdicts: dict[Any, list[float]] = {}
    for question, won in values:
        if won is not None:
            verdicts.setdefault(question, []).append(won)
    scores = [sum(won) / len(won) for won in verdicts.values()]
    found = mean_figure(scores)
    if found.value in (0, 1):  # a bootstrap of nothing but wins would say 1 to 1
        low, high = wilson(math.fsum(scores), len(scores))
        return found._replace(low=low, high=high)
    return found


def _share(values: tuple[Value, ...]) -> Figure:
    """A share of verdicts."""
    questions: dict[Any, list[int]] = {}
    for question, hit, counted in values:
        sums = questions.setdefault(question, [0, 0])
        sums[0], sums[1] = sums[0] + hit, sums[1] + counted
    return _ratio(list(questions.values()))


def _flips(values: tuple[Value, ...]) -> Figure:
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


def _f_plus_a(values: tuple[Value, ...]) -> Figure:
    """The harmonic mean of the two aspects' means."""
    questions: dict[Any, list[float]] = {}
    for question, aspect, rating in values:
        if rating is not None:
            sums = questions.setdefault(question, [0.0, 0, 0.0, 0])
            place = 2 * ASPECTS.index(aspect)
            sums[place], sums[place + 1] = sums[place] + rating, sums[place + 1] + 1
    if not questions:
        return UNDEFINED
    clusters = np.array(list(questions.values()), dtype=float)
    value = float(_harmonic(clusters.sum(0)[None])[0])
    if math.isnan(value):
        return UNDEFINED
    return Figure(value, *spread(_harmonic(resampled_sums(clusters))), len(questions))


def _harmonic(sums: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(invalid="ignore"):  # 0/0
        first, second = sums[:, 0] / sums[:, 1], sums[:, 2] / sums[:, 3]
        harmonic: np.ndarray[Any, Any] = 2 * first * second / (first + second)
    return harmonic


def _ratio(clusters: Sequence[Sequence[int]]) -> Figure:
    """Hits over counted; bounds from a bootstrap over questions, each of which is (hits, counted)."""
    asked = [sums for sums in clusters if sums[1]]
    hits, counted = (sum(sums[place] for sums in asked) for place in (0, 1))
    if not counted:
        return UNDEFINED
    low, high, error = _spread_of(asked)
    if hits in (0, counted):  # a bootstrap of these would say 0 to 0; so many questions, whatever was said of each
        low, high = wilson(len(asked) if hits else 0, len(asked))
    return Figure(hits / counted, low, high, error, counted)


def _spread_of(clusters: Sequence[Sequence[int]]) -> Spread:
    if len(clusters) < 2:  # nothing to draw from
        return Spread(math.nan, math.nan, math.nan)
    sums = resampled_sums(np.array(clusters))
    return spread(sums[:, 0] / sums[:, 1])


f_plus_a = _aggregation("f_plus_a", _f_plus_a)
win_rate = _aggregation("win_rate", _win_rate)
share = _aggregation("share", _share)
flip_rate = _aggregation("flip_rate", _flips)
