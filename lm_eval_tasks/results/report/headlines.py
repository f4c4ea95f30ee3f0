"""Headlines: for each model and benchmark the numbers to look at first, what they mean in a sentence, and the doubts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import Unit, is_measurable
from lm_eval_tasks.definition.schema import Metric, preferred_first
from lm_eval_tasks.results.report.answers import Read, read_task
from lm_eval_tasks.results.report.broken import Signs, one_sided, signs_of_run
from lm_eval_tasks.results.report.doubts import Doubt, doubts_of
from lm_eval_tasks.results.report.families import Family, families, title_of
from lm_eval_tasks.results.report.numbers import bounds, not_measurable, shown, with_bounds
from lm_eval_tasks.results.report.sentences import metrics_beside, sentence
from lm_eval_tasks.runs import Run, labels

__all__ = ["Headline", "headlines", "headlines_of", "headlines_of_family"]


@dataclass(frozen=True)
class Headline:
    """A number to look at first.

    Attributes:
        model: label of the run.
        benchmark: its name, see :func:`~lm_eval_tasks.results.report.families.title_of`.
        family: the task, or what its languages' tasks are called together: ``nomiracl``, ``clapnq_gold``.
        question: that the family answers; empty where its table has none.
        measured: the metric.
        filter: whose reading of the answers counts.
        figure: undefined (``nan``) where no document is in the denominator. A mean over languages has the bounds of
            :mod:`custom_metrics.statistics.strata`.
        says: one sentence about what it means.
        languages: language to its figure, where the number is a mean over languages; else empty.
        is_whole: whether the mean is over every language of its group.
        is_alike: whether the run answers all questions alike, in every language; it is then better than no other.
    """

    model: str
    benchmark: str
    family: str
    question: str
    measured: Metric
    filter: str
    figure: Figure
    says: str
    doubts: tuple[Doubt, ...] = ()
    languages: Mapping[str, Figure] = field(default_factory=dict)
    is_whole: bool = False
    is_alike: bool = False

    @property
    def metric(self) -> str:
        """Name of the metric in the results."""
        return self.measured.name

    @property
    def unit(self) -> Unit:
        """Of its values."""
        return self.measured.unit

    @property
    def is_measurable(self) -> bool:
        """Whether the number may be shown (:mod:`custom_metrics.statistics.units`)."""
        return is_measurable(self.figure, self.unit)

    @property
    def value(self) -> str:
        """The number; that it is not measurable, with its bounds, where it is not."""
        return not_measurable(self.figure, self.unit) or shown(self.figure.value, self.unit)

    @property
    def bounds(self) -> str:
        """The bounds that stand beside the value; empty where there are none, or they are in its place."""
        return bounds(self.figure, self.unit) if self.is_measurable else ""

    @property
    def text(self) -> str:
        """The number with its bounds, or that it is not measurable."""
        return with_bounds(self.figure, self.unit)

    @property
    def by_language(self) -> dict[str, str]:
        """Language to its number with bounds, where the number is a mean over languages."""
        return {language: with_bounds(figure, self.unit) for language, figure in self.languages.items()}


def headlines(runs: Sequence[Run], read: Read | None = read_task) -> list[Headline]:
    """The headlines of all runs: family by family, metric by metric, so that models stand beside each other.

    Args:
        runs: of one or more models.
        read: the answers of a task, to look for signs of a broken run; ``None`` to look for none.

    Raises:
        CorruptSource: a samples file is damaged in the middle.
    """
    names = labels(runs)
    listed = [one for run, name in zip(runs, names, strict=True) for one in headlines_of(run, name, read)]
    families = [*dict.fromkeys(one.family for one in listed)]
    metrics = [*dict.fromkeys((one.family, one.metric) for one in listed)]
    return sorted(listed, key=lambda one: (families.index(one.family), metrics.index((one.family, one.metric))))


def headlines_of(run: Run, name: str = "", read: Read | None = read_task) -> list[Headline]:
    """The headlines of a run, called `name`, else as its model; `read` as of :func:`headlines`."""
    return [one for family in families(run) for one in headlines_of_family(name or run.model, family, read)]


def headlines_of_family(model: str, family: Family, read: Read | None = read_task) -> list[Headline]:
    """The headlines of tasks that differ in their language alone; `read` as of :func:`headlines`."""
    broken = {language: signs_of_run(task, read) if read else Signs() for language, task in family.tasks.items()}
    return [_headline(model, family, metric, broken) for metric in _metrics_of(family)]


def _metrics_of(family: Family) -> list[Metric]:
    """The metrics of a family that have a headline, in their order: those with a sentence. Of a metric and those that
    stand in for it, it is the first that is defined, or the last."""
    task, listed = family.any, {metric.name for metric in family.any.metrics}
    more = sorted({*task.figures.get(task.headline_filter, {})} - listed)
    alternatives: list[list[Metric]] = []
    for metric in preferred_first([*task.metrics, *map(task.metric, more)]):
        if metric.sentence:
            preferred = [group for group in alternatives if group[-1].name == metric.fallback_for]
            if preferred:
                preferred[0].append(metric)
            else:
                alternatives.append([metric])

    def is_defined(metric: Metric) -> bool:
        return not math.isnan(family.mean(metric.name).value)

    return [next(filter(is_defined, group), group[-1]) for group in alternatives]


def _headline(model: str, family: Family, metric: Metric, broken: Mapping[str, Signs]) -> Headline:
    name, filter_name = metric.name, family.any.headline_filter
    figures, mean = family.figures(name), family.mean(name)
    beside = {other: family.mean(other) for other in metrics_beside(metric)}
    table = family.any.table
    return Headline(
        model=model,
        benchmark=title_of(family.any),
        family=family.name,
        question=table.question(family.name) if table else "",
        measured=metric,
        filter=filter_name,
        figure=mean,
        says=sentence(family, metric, mean, figures, beside),
        doubts=doubts_of(family, metric, filter_name, mean, broken),
        languages=figures if len(figures) > 1 else {},
        is_whole=family.is_whole,
        is_alike=all(
            one_sided(task, filter_name)[0] or broken[language].equal for language, task in family.tasks.items()
        ),
    )
