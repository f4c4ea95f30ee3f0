"""Headlines: for each model and benchmark the numbers to look at first, what they mean in a sentence, and the doubts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import Unit, is_measurable, unit_of
from lm_eval_tasks.results.report.answers import Read, read_task
from lm_eval_tasks.results.report.broken import Signs, one_sided, signs_of_run
from lm_eval_tasks.results.report.doubts import Doubt, doubts_of
from lm_eval_tasks.results.report.families import Family, families
from lm_eval_tasks.results.report.numbers import with_bounds
from lm_eval_tasks.results.report.sentences import SENTENCES, WINS, sentence
from lm_eval_tasks.runs import Run, TaskRun, headline_filter, labels

__all__ = ["RATES", "Headline", "filter_of", "headlines", "headlines_of", "headlines_of_family", "signs_of_family"]

RATES = ("rogan_gladen_rate", "estimated_rate", "detected_rate")
"""The rates of mFAVA, the one to be preferred first. The headline is the first that is defined."""

_BESIDE = {
    "hallucination_rate": ("invalid_rate",),
    "error_rate": ("invalid_rate",),
    "rogan_gladen_rate": ("detected_rate", "estimated_rate"),
    "estimated_rate": ("detected_rate",),
    "f1": ("precision", "recall"),
    "rougeL": ("recall", "rougeLp"),
    "gold_retrieved": ("ndcg@10", "recall@10"),
}


@dataclass(frozen=True)
class Headline:
    """A number to look at first.

    Attributes:
        model: name of the run.
        benchmark: folder of the benchmark; empty for tasks that are in no table of ours.
        family: the task, or what its languages' tasks are called together: ``nomiracl``, ``clapnq_gold``.
        metric, filter: which number of the results.
        unit: of its values.
        figure: with 95 % bounds; undefined (``nan``) where no document is in the denominator. A mean over languages has
            the bounds of :mod:`custom_metrics.statistics.strata`.
        denominator: the documents that count, in words.
        higher_is_better: ``None`` where neither is.
        says: one sentence about what it means.
        doubts: why it may mean less than it seems.
        languages: language to its figure, where the number is a mean over languages; else empty.
        is_whole: whether the mean is over every language of its group.
        is_alike: whether the run answers all questions alike, in every language; it is then better than no other.
        beside: metric to figure of what belongs beside it, such as the detected rate.
    """

    model: str
    benchmark: str
    family: str
    metric: str
    filter: str
    unit: Unit
    figure: Figure
    denominator: str
    higher_is_better: bool | None
    says: str
    doubts: tuple[Doubt, ...] = ()
    languages: Mapping[str, Figure] = field(default_factory=dict)
    is_whole: bool = False
    is_alike: bool = False
    beside: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def is_measurable(self) -> bool:
        """Whether the number may be shown (:mod:`custom_metrics.statistics.units`)."""
        return is_measurable(self.figure, self.unit)

    @property
    def text(self) -> str:
        """The number with its bounds, or that it is not measurable."""
        return with_bounds(self.figure, self.unit)


def headlines(runs: Sequence[Run], read: Read | None = read_task) -> list[Headline]:
    """The headlines of all runs: family by family, metric by metric, so that models stand beside each other.

    Args:
        runs: of one or more models.
        read: the answers of a task, to look for signs of a broken run; ``None`` to look for none.

    Raises:
        CorruptSource: a samples file is damaged in the middle.
    """
    names = labels(runs)
    found = [one for run, name in zip(runs, names, strict=True) for one in headlines_of(run, name, read)]
    places: dict[str, int] = {}
    for one in found:
        places.setdefault(one.family, len(places))
    metrics = {metric: place for place, metric in enumerate(SENTENCES)}
    return sorted(found, key=lambda one: (places[one.family], metrics.get(one.metric, len(metrics)), one.metric))


def headlines_of(run: Run, name: str = "", read: Read | None = read_task) -> list[Headline]:
    """The headlines of a run.

    Args:
        run: of a model.
        name: what to call it; default the model's name.
        read: see :func:`headlines`.
    """
    return [
        one
        for family in families(run)
        for one in headlines_of_family(name or run.model, family, signs_of_family(family, read) if read else {})
    ]


def headlines_of_family(
    model: str, family: Family, broken: Mapping[str, Signs] = MappingProxyType({})
) -> list[Headline]:
    """The headlines of tasks that differ in their language alone.

    Args:
        model: what to call it.
        family: the tasks.
        broken: language to signs of a broken run, of :func:`signs_of_family`.
    """
    return [_headline(model, family, metric, broken) for metric in _metrics_of(family)]


def signs_of_family(family: Family, read: Read = read_task) -> dict[str, Signs]:
    """Language to the signs of a broken run in its answers, where there are any.

    Raises:
        CorruptSource: as of :func:`headlines`.
    """
    found = {language: signs_of_run(task, read) for language, task in family.tasks.items()}
    return {language: signs for language, signs in found.items() if any(signs)}


def filter_of(task: TaskRun) -> str:
    """The filter whose numbers are shown: :func:`lm_eval_tasks.runs.headline_filter`."""
    return headline_filter(task.filters)


def _metrics_of(family: Family) -> list[str]:
    """The metrics of a family that have a headline, in their order."""
    filter_name = filter_of(family.any)
    known = {metric.name for metric in family.any.metrics}
    rates = [rate for rate in RATES if rate in known]
    defined = [rate for rate in rates if not math.isnan(family.mean(rate, filter_name).value)]
    passed_over = {*rates} - {*defined[:1]} if defined else {*rates[:-1]}
    wins = [metric for metric in family.any.figures.get(filter_name, {}) if metric.startswith(WINS)]
    return [metric for metric in SENTENCES if metric in known - passed_over] + wins


def _headline(model: str, family: Family, metric: str, broken: Mapping[str, Signs]) -> Headline:
    filter_name, unit = filter_of(family.any), unit_of(metric)
    figures, mean = family.figures(metric, filter_name), family.mean(metric, filter_name)
    beside = {other: family.mean(other, filter_name) for other in _BESIDE.get(metric, ())}
    measured = next((one for one in family.any.metrics if one.name == metric), None)
    written = family.any.figures.get(filter_name, {}).get(metric, {})
    return Headline(
        model=model,
        benchmark=family.benchmark,
        family=family.name,
        metric=metric,
        filter=filter_name,
        unit=unit,
        figure=mean,
        denominator=str(written.get("denominator") or (measured.denominator if measured else "")),
        higher_is_better=measured.higher_is_better if measured else True,  # wins have no entry of their own
        says=sentence(family, metric, unit, mean, figures, beside),
        doubts=doubts_of(family, metric, filter_name, unit, mean, broken),
        languages=figures if len(figures) > 1 else {},
        is_whole=family.is_whole,
        is_alike=all(
            one_sided(task, filter_name)[0] or broken.get(language, Signs()).equal
            for language, task in family.tasks.items()
        ),
        beside=beside,
    )
