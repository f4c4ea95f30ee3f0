"""What a number of a run means, in one plain sentence with its denominator."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.numbers import bounds, not_measurable, range_of, shown

__all__ = ["metrics_beside", "sentence"]


_PLACE = re.compile(r"\{([^{}]+)\}")
"""A place in a sentence: ``{value}``, ``{rest}``, or ``{<metric>}``."""


def metrics_beside(metric: Metric) -> list[str]:
    """The metrics whose numbers the sentence of one names too."""
    return [name for name in _PLACE.findall(metric.sentence) if name not in ("value", "rest")]


def sentence(
    family: Family, metric: Metric, mean: Figure, figures: Mapping[str, Figure], beside: Mapping[str, Figure]
) -> str:
    """What a number means, with its denominator, its bounds, and the languages that it is a mean over.

    Args:
        family: the tasks.
        metric: of them.
        mean: over the languages; of one task its figure.
        figures: language to figure.
        beside: metric to figure of what the sentence names too (:func:`metrics_beside`).
    """
    name = metric.in_prose
    what = f"mean over {len(figures)} languages of {name}" if len(figures) > 1 else name
    if math.isnan(mean.value):
        why = (
            "no document is in its denominator" if family.has_results else "there is no results file beside the samples"
        )
        return f"The {what} is undefined: {why}."
    others = {name: family.any.metric(name) for name in beside}
    texts = {name: range_of(figure, others[name].unit) for name, figure in beside.items()}
    details = "; ".join(_details(family, metric, mean, figures))
    if unknown := not_measurable(mean, metric.unit):
        flagged = "".join(f"the detector flagged {text}; " for name, text in texts.items() if others[name].is_raw)
        return f"The {what} is {unknown}: {flagged}{details}."
    texts |= {"value": shown(mean.value, metric.unit), "rest": metric.rest}
    return _PLACE.sub(lambda place: texts.get(place[1], place[0]), metric.sentence) + f" ({details})."


def _details(family: Family, metric: Metric, mean: Figure, figures: Mapping[str, Figure]) -> Iterator[str]:
    defined = [figure for figure in figures.values() if not math.isnan(figure.value)]
    if mean.n:
        counted = f"{sum(round(figure.value * figure.n) for figure in defined)} of " if metric.is_share else ""
        yield f"{counted}{mean.n} {metric.counted}"
    if (between := bounds(mean, metric.unit)) and not not_measurable(mean, metric.unit):
        yield f"95 % bounds {between}"
    if len(figures) > 1:
        yield _languages(family, figures)


def _languages(family: Family, figures: Mapping[str, Figure]) -> str:
    """The languages that a mean is over, each of which counts the same."""
    undefined = [language for language, figure in figures.items() if math.isnan(figure.value)]
    number = len(figures) - len(undefined)
    if family.is_whole and not undefined:
        return f"mean over all {number} languages"
    if number <= 5:
        named = ", ".join(language for language in figures if language not in undefined)
        of = f" of {family.languages}" if family.languages else ""
        return f"mean over {number}{of} languages: {named}" + _without(undefined)
    of = f" of {family.languages}" if family.languages else ""
    return f"mean over {number}{of} languages" + _without(undefined)


def _without(undefined: list[str]) -> str:
    return f", undefined in {', '.join(undefined)}" if undefined else ""
