"""What a number of a run means, in one plain sentence with its denominator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import Unit
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.metric_names import metric_name
from lm_eval_tasks.results.report.numbers import bounds, not_measurable, range_of, shown

__all__ = ["SENTENCES", "WINS", "Said", "sentence"]


class Said(NamedTuple):
    """How a metric is said.

    Attributes:
        text: with ``{value}``, and numbers that stand beside it by their metric.
        counted: what the denominator counts.
        is_count: whether the number is a count over that denominator, which is then said too.
    """

    text: str
    counted: str = "questions"
    is_count: bool = False


WINS = "win_rate_"
"""Metrics of a judge's comparisons begin so; the name of a system follows."""

SENTENCES = {
    "rogan_gladen_rate": Said(
        "About {value} of the words that it writes are made up, as corrected for the detector's errors (Rogan-Gladen); the "
        "detector flagged {detected_rate}",
        "answers",
    ),
    "estimated_rate": Said(
        "About {value} of the words that it writes are made up, by the mFAVA paper's Equation 1; the detector flagged "
        "{detected_rate}",
        "answers",
    ),
    "detected_rate": Said(
        "The detector flags {value} of the words that it writes; nothing corrects this for the detector's errors",
        "answers",
    ),
    "hallucination_rate": Said(
        "It claims to see an answer in {value} of the cases where no passage holds one", is_count=True
    ),
    "error_rate": Said(
        "It says that it does not know in {value} of the cases where a passage holds the answer", is_count=True
    ),
    "rougeL": Said(
        "Its answers overlap with the best reference answer by RougeL {value} on average, where 1 is word for word"
    ),
    "unanswerable_accuracy": Said(
        "It rightly declines {value} of the questions that cannot be answered", is_count=True
    ),
    "answerable_abstention_rate": Said(
        "It declines {value} of the questions that can be answered, which is the price of its caution", is_count=True
    ),
    "length": Said("An answer to an answerable question has {value} characters on average"),
    "gold_retrieved": Said("Retrieval found the gold passage for {value} of the answerable questions", is_count=True),
    "hallucinated_share": Said(
        "A detector flags {value} of the words of its answers; nothing corrects this for the detector's errors",
        "answers",
    ),
    "iou": Said(
        "The characters that it flags and those that people marked overlap by {value} on average, as intersection over "
        "union",
        "answers",
    ),
    "rho": Said(
        "Its probabilities rank characters as the annotators' votes do with a correlation of {value} on average",
        "answers",
    ),
    "f1": Said(
        "It finds {recall} of the hallucinated words, and {precision} of what it flags is hallucinated: F1 is {value}",
        "answers",
    ),
    "f_plus_a": Said(
        "The judge rates faithfulness and appropriateness together {value} on a scale from 1 to 4, as their harmonic mean"
    ),
    "faithfulness": Said("The judge rates faithfulness to the passages {value} on a scale from 1 to 4", "ratings"),
    "appropriateness": Said(
        "The judge rates how useful and complete answers look {value} on a scale from 1 to 4", "ratings"
    ),
}
"""Metric to how it is said, in the order of headlines."""


def sentence(
    family: Family, metric: str, unit: Unit, mean: Figure, figures: Mapping[str, Figure], beside: Mapping[str, Figure]
) -> str:
    """What a number means, with its denominator, its bounds, and the languages that it is a mean over.

    Args:
        family: the tasks.
        metric: of them.
        unit: of its values.
        mean: over the languages; of one task its figure.
        figures: language to figure.
        beside: metric to figure of what the sentence names too.
    """
    said = SENTENCES.get(metric)
    if said is None:
        said = Said("The judge prefers the answers of {system} in {value} of the comparisons")
    name = metric_name(metric)
    what = f"mean over {len(figures)} languages of {name}" if len(figures) > 1 else name
    if math.isnan(mean.value):
        why = (
            "no document is in its denominator" if family.has_results else "there is no results file beside the samples"
        )
        return f"The {what} is undefined: {why}."
    values = {name: range_of(figure, unit) for name, figure in beside.items()}
    if unknown := not_measurable(mean, unit):
        flagged = [f"the detector flagged {values['detected_rate']}"] if "detected_rate" in values else []
        return f"The {what} is {unknown}: {'; '.join([*flagged, *_details(family, said, unit, mean, figures)])}."
    text = said.text.format(value=shown(mean.value, unit), system=metric.removeprefix(WINS), **values)
    return f"{text} ({'; '.join(_details(family, said, unit, mean, figures))})."


def _details(family: Family, said: Said, unit: Unit, mean: Figure, figures: Mapping[str, Figure]) -> Iterator[str]:
    defined = [figure for figure in figures.values() if not math.isnan(figure.value)]
    if said.is_count and mean.n:
        yield f"{sum(round(figure.value * figure.n) for figure in defined)} of {mean.n} {said.counted}"
    elif mean.n:
        yield f"{mean.n} {said.counted}"
    if (between := bounds(mean, unit)) and not not_measurable(mean, unit):
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
