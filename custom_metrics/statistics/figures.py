"""Figures of many documents: value, bounds, standard error and number of documents; and the values of documents.

Ranks of a run exchange values only: a document's counts and cluster are attributes of its value, which files lack.

A figure whose 95 % bounds span more than half of its scale is *not measurable*: 0.0 would look like the best of all.
Reports and comparisons show its bounds alone (:func:`without_point`). The harness's results lack such a corrected rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Stratum(NamedTuple):
    """A share of documents that a mean of shares is made of."""

    share: float
    n: int  # documents in its denominator
    weight: float  # what it counts in the mean; all of them add up to 1


class Figure(NamedTuple):
    """A figure of many documents, with its 95 % bounds; ``nan`` for what is not defined."""

    value: float
    low: float = math.nan
    high: float = math.nan
    standard_error: float = math.nan
    n: int = 0  # documents in the denominator

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """The shares that a mean of shares is made of; none of any other figure."""
        return ()

    def as_json(self, denominator: str = "", is_measurable: bool = True) -> dict[str, Any]:
        """For a results file: ``null`` for what is not defined. The denominator describes which documents count. The value
        of a figure that is not measurable stands under ``not_measurable``, for means of many; ``value`` is ``null``."""
        numbers = zip(self._fields, self[:4], strict=False)
        values = {name: None if math.isnan(number) else float(number) for name, number in numbers}
        if not is_measurable:
            values |= {"value": None, "not_measurable": values["value"]}
        strata = {"strata": [stratum._asdict() for stratum in self.strata]} if self.strata else {}
        return {**values, "n": self.n, "denominator": denominator, **strata}


class FigureOfStrata(Figure):
    """A mean of shares that also holds the shares."""

    strata: tuple[Stratum, ...] = ()

    @classmethod
    def of(cls, figure: Figure, strata: Sequence[Stratum]) -> FigureOfStrata:
        with_strata = cls(*figure)
        with_strata.strata = tuple(strata)
        return with_strata


UNDEFINED = Figure(math.nan)


class Rows(NamedTuple):
    """What each document adds to a figure, by which the figure is computed and two models are compared."""

    values: NDArray[Any]  # (documents, ...) numbers; nan for a document that does not count
    clusters: Sequence[Any] = ()  # the name of each document's cluster, empty if it is its own; none: all are their own
    context: Any = None  # what else the figure rests on, as JSON holds it, such as the key of a calibration

    def only(self, documents: NDArray[Any]) -> Rows:
        """The rows of some documents, by a mask."""
        return self._replace(values=self.values[documents], clusters=[*compress(self.clusters, documents)])


class FloatWithCounts(float):
    """A float that also holds the counts its aggregation sums, and the name of the document's cluster."""

    counts: Any
    cluster: Any

    def __new__(cls, value: float, counts: Any = None, cluster: Any = "") -> FloatWithCounts:
        number = super().__new__(cls, value)
        number.counts, number.cluster = counts, cluster
        return number


class CountsOfCluster(list[Any]):
    """A document's counts, and the name of its cluster."""

    def __init__(self, counts: Sequence[Any], cluster: Any) -> None:
        super().__init__(counts)
        self.cluster = cluster


def outcome(answerable: bool, right: bool) -> dict[str, int]:
    """The value of a document for a balanced error: whether its question can be answered, and the model was wrong."""
    return {"answerable": int(answerable), "wrong": int(not right)}


Unit = Literal["share", "score", "correlation", "characters", "words", "rating", "number"]

MAX_USEFUL_CI_WIDTH = 0.5  # width of 95 % bounds, as a part of the scale, above which a figure is not measurable
FEW = 10  # number of questions below which a share is almost meaningless: the 95 % bound of 0 of 9 is 0.3
FEWEST_UNSAID = 50  # documents below which a figure's number of documents is shown beside it
NOT_MEASURABLE = "not measurable"  # the text in place of such a figure
_SCALES: dict[Unit, tuple[float, float]] = {"share": (0, 1), "score": (0, 1), "correlation": (-1, 1), "rating": (1, 4)}
"""Unit to the ends of its scale; lengths in characters and words, and numbers of any kind, have none."""


def fixed(value: float, decimals: int, sign: str = "") -> str:
    """A number with so many decimals; from ten million on as a power of ten, ``1.234e+07``. `sign` is that of a format."""
    return f"{value:{sign}.{decimals}f}" if abs(value) < 1e7 else f"{value:{sign}.4g}"


def is_wide(low: float, high: float, scale: float = 1.0) -> bool:
    """Whether bounds span more than half of a scale of this length; unknown bounds (``nan``) do not."""
    return high - low > MAX_USEFUL_CI_WIDTH * scale


def is_measurable(figure: Figure, unit: Unit) -> bool:
    """Whether a figure may be shown as a number. One without bounds may: how sure it is, is not known."""
    least, greatest = _SCALES.get(unit, (0, math.inf))
    return not is_wide(figure.low, figure.high, greatest - least)


def within_scale(figure: Figure, unit: Unit) -> Figure:
    """A figure whose bounds end where its scale does: those of a mean of few scores may reach beyond."""
    least, greatest = _SCALES.get(unit, (-math.inf, math.inf))
    if not (figure.low < least or figure.high > greatest):
        return figure
    return figure._replace(low=max(figure.low, least), high=min(figure.high, greatest))


def small_n(figure: Figure) -> str:
    """``n = 26`` for a figure of few documents; empty for others, and where the number is not known."""
    return f"n = {figure.n}" if 0 < figure.n < FEWEST_UNSAID else ""


def without_point(figure: Figure, unit: Unit) -> Figure:
    """A figure as it is drawn: one that is not measurable keeps its bounds and loses its value."""
    return figure if is_measurable(figure, unit) else figure._replace(value=math.nan, standard_error=math.nan)
