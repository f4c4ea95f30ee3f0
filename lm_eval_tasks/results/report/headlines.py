"""Headlines: the most important numbers of each model and family, each with doubts and a sentence that explains it.

A family is the same task in several languages, such as ``nomiracl_de`` and ``nomiracl_fr``; or a group.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from custom_metrics.broken_run import Signs
from custom_metrics.hallucination import doubts as doubts_of_correction
from custom_metrics.scores.detection import WordCounts
from custom_metrics.statistics.figures import FEW, Figure, is_measurable, small_n, without_point
from detector_plugin.detector import RAG
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Metric, preferred_first
from lm_eval_tasks.detection.calibrated import KINDS_OF_CALIBRATION
from lm_eval_tasks.detection.marked import METRIC as MARKED
from lm_eval_tasks.results.board import Cell, reported_figure
from lm_eval_tasks.results.doubts import READINGS, Findings, doubts_about_answers, signs_of
from lm_eval_tasks.results.formats import as_text, bounds, not_measurable, range_of, with_bounds
from lm_eval_tasks.results.report.documents import ReadAnswers, read_task
from lm_eval_tasks.runs import Run, TaskRun, labels
from lm_eval_tasks.runs.other_tasks import WHY_NO_MEAN

MANY = 3
"""Models from which on a report shows them all on one axis, and pairs of them as matrices."""

MEAN = "mean"
"""The key, in place of a language, of the mean over a model's languages."""


@dataclass(frozen=True)
class Family:
    """The tasks of a run that differ only in language, or those of a group."""

    name: str  # of their group, such as ``nomiracl_role``; of the task itself if it has no language
    tasks: Mapping[str, TaskRun]  # by language, in the order of the run; ``""`` for a task without one; others by name
    languages: int = 0  # number of languages of its group; 0 where no group of ours has this name
    results: Mapping[str, Any] = field(default_factory=dict)  # of a complete group: ``metric,filter`` to value

    @property
    def any_task(self) -> TaskRun:
        """One of its tasks, for what they share: metrics and filters."""
        return next(iter(self.tasks.values()))

    @property
    def parts(self) -> str:
        """What its tasks are, in the plural."""
        named = any(self.tasks) and not self.any_task.language
        return "tasks" if named or self.any_task.table is None else "languages"

    @property
    def filter(self) -> str:
        """The filter whose readings of the answers count."""
        return self.any_task.headline_filter

    @property
    def is_whole(self) -> bool:
        """Whether every language of its group is in the run."""
        return 0 < self.languages <= len(self.tasks)

    def figures(self, metric: str) -> dict[str, Figure]:
        """The figures of a metric by language; undefined where no document is in the denominator."""
        return {language: task.figure(metric, self.filter) for language, task in self.tasks.items()}

    def mean(self, metric: str) -> Figure:
        """The mean of a metric over the languages, as the board has it; for a single task, its figure."""
        return reported_figure([*self.tasks.values()], metric, self.filter, self.results)

    def why_no_mean(self, metric: str) -> str:
        """The first reason why a metric of another task is no mean of its documents' values; empty where there is none."""
        by_metric = (task.figures.get(self.filter, {}) for task in self.tasks.values())
        return next((str(why) for each in by_metric if (why := each.get(metric, {}).get(WHY_NO_MEAN))), "")

    def drawable(self, metric: str) -> dict[str, Figure]:
        """Figures to draw: by language, sorted, and last their mean (:data:`MEAN`). What is not measurable has no value."""
        figures = dict(sorted(self.figures(metric).items()))
        if len(figures) > 1:
            figures[MEAN] = self.mean(metric)
        unit = self.any_task.metric(metric).unit
        return {language: without_point(figure, unit) for language, figure in figures.items()}


def families(run: Run) -> list[Family]:
    """The families of a run, in the order of its tasks.

    If the run has a complete group of ours, the family is exactly that group, so that its mean is the group's number. A
    further language of the same benchmark (``mfava_fa`` beside the group ``mfava``) is then a family of its own.
    """
    by_name: dict[str, dict[str, TaskRun]] = {}
    for task in run.tasks.values():
        by_name.setdefault(task.family, {})[task.part] = task
    listed: list[Family] = []
    for name, tasks in by_name.items():
        members = {*{**run.groups, **catalogue.groups(run.tasks)}.get(name, ())}
        is_whole = bool(members) and members <= {task.task for task in tasks.values()}
        outside = {language: task for language, task in tasks.items() if is_whole and task.task not in members}
        inside = {language: task for language, task in tasks.items() if language not in outside}
        results = run.group_results.get(name, {}) if is_whole else {}
        listed.append(Family(name, inside, len(members), results))
        listed += [Family(task.task, {language: task}) for language, task in outside.items()]
    return listed


def title_of(task: TaskRun) -> str:
    """The name of a task's benchmark, as in its paper; of a task that is in no table, its group's or its own."""
    return (task.table.title if task.table else "") or task.benchmark or task.task


# ----------------------------------------------------------------------------------------------------------- headlines


_NAMED = 5  # languages of a mean
_PLACE = re.compile(r"\{([^{}]+)\}")  # in a sentence: {value}, {rest}, or {<metric>}
CORRECTED = ("estimated_rate", "rogan_gladen_rate")
"""Rates that a calibration corrects."""

_APART = 0.05  # difference between two readings of the same answers that is a doubt
_CONCERNED = 3  # languages that a doubt names
_SHORT = 40  # characters of a detail that is shown for each language
_WORDS = 10**9  # assumed size of a calibration, of which only the rates are known


class Doubt(NamedTuple):
    """A reason to trust a number less: ``not_comparable``, ``few``, ``unbounded``, ``undefined``, ``calibration``,
    ``clipped``, ``unlike``, ``invalid``, ``abstains``, ``readings``, ``alike``, ``cut`` or ``broken``."""

    kind: str
    text: str  # without a full stop


@dataclass(frozen=True)
class Headline:
    """A number on a report's first screen. Means over languages have bounds of :mod:`custom_metrics.statistics.strata`."""

    model: str  # label of the run
    benchmark: str  # the title of its table
    family: str  # name of the task, or of its family: ``nomiracl``, ``clapnq_gold``
    question: str  # that the family answers; empty where it has none
    measured: Metric
    filter: str
    figure: Figure  # undefined where no document is in the denominator
    explanation: str  # a sentence that explains the number
    doubts: tuple[Doubt, ...] = ()
    languages: Mapping[str, Figure] = field(default_factory=dict)  # if the number is a mean over them; else empty
    parts: str = "languages"  # what the mean is over; of groups of other benchmarks ``tasks``
    is_whole: bool = False  # whether the mean is over every language of its group
    is_alike: bool = False  # whether the run answers all questions alike in every language, and so is never better

    @property
    def metric(self) -> str:
        return self.measured.name

    @property
    def cell(self) -> Cell:
        """The number as a cell of the board, without a rank."""
        return Cell.of(self.figure, self.measured, self.is_alike)

    @property
    def is_measurable(self) -> bool:
        """Whether the number may be shown (:mod:`custom_metrics.statistics.figures`)."""
        return self.cell.is_measurable

    @property
    def value(self) -> str:
        """The number; if it is not measurable, a note with its bounds."""
        unknown = not_measurable(self.figure, self.measured.unit, self.measured.needs)
        return unknown or as_text(self.figure.value, self.measured.unit)

    @property
    def bounds(self) -> str:
        """The bounds to show beside the value; empty where there are none, or the value has them. With the number of
        documents, if these are few."""
        shown = bounds(self.figure, self.measured.unit) if self.is_measurable else ""
        return ", ".join(filter(None, (shown, small_n(self.figure))))

    @property
    def text(self) -> str:
        """The number with its bounds, or that it is not measurable."""
        return with_bounds(self.figure, self.measured.unit)


def headlines(runs: Sequence[Run], read_answers: ReadAnswers = read_task, by_language: bool = False) -> list[Headline]:
    """The headlines of runs, ordered by family and metric, so that models are next to each other; with `by_language`, those
    of each language by itself. `read_answers` is used to find signs of a broken run."""
    labelled = [(name, family) for run, name in zip(runs, labels(runs), strict=True) for family in families(run)]
    if by_language:
        tasks = [
            (name, task) for name, family in labelled for task in family.tasks.values() if task.table and task.part
        ]
        labelled = [(name, Family(task.task, {task.part: task})) for name, task in tasks]
    unmarked = {family.name for _, family in labelled if math.isnan(family.mean(MARKED).value)}
    compared = unmarked if len(runs) > 1 else set()
    listed = [
        row
        for name, family in labelled
        for row in headlines_of_family(name, family, read_answers, family.name in compared)
    ]
    order = [*dict.fromkeys(row.family for row in listed)]
    metrics = [*dict.fromkeys((row.family, row.metric) for row in listed)]
    return sorted(listed, key=lambda row: (order.index(row.family), metrics.index((row.family, row.metric))))


def headlines_of_family(
    model: str, family: Family, read_answers: ReadAnswers = read_task, compared: bool = False
) -> list[Headline]:
    """The headlines of a family of tasks; `read_answers` as of :func:`headlines`. A model that is `compared` with others
    also has what its detector flags, where only marks could measure more."""
    broken = {
        language: signs_of(task, read_answers(task) if task.samples else None)
        for language, task in family.tasks.items()
    }
    is_alike = all(
        any(kind == "alike" for kind, *_ in doubts_about_answers(task, family.filter, broken[language]))
        for language, task in family.tasks.items()
    )
    table, listed = family.any_task.table, []
    for metric in _metrics_of(family, compared):
        figures, mean = family.figures(metric.name), family.mean(metric.name)
        listed.append(
            Headline(
                model=model,
                benchmark=title_of(family.any_task),
                family=family.name,
                question=table.question(family.name) if table else "",
                measured=metric,
                filter=family.filter,
                figure=mean,
                explanation=_sentence(family, metric, mean),
                doubts=doubts_of(family, metric, mean, broken),
                languages=figures if len(figures) > 1 else {},
                parts=family.parts,
                is_whole=family.is_whole,
                is_alike=is_alike,
            )
        )
    return listed


def _metrics_of(family: Family, compared: bool) -> list[Metric]:
    """The metrics of a family that have a headline, in order: those with a sentence. Of a metric and its fallbacks, the
    first that is defined; or the last."""
    task, listed = family.any_task, {metric.name for metric in family.any_task.metrics}
    more = sorted({*task.figures.get(family.filter, {})} - listed)
    if task.table is None and family.results:
        return [
            m for m in task.metrics if m.headline and isinstance(family.results.get(f"{m.name},{family.filter}"), float)
        ]
    chosen: list[Metric] = []
    places: dict[str | None, int] = {}  # in `chosen`, of a metric or its fallback
    for metric in preferred_first([*task.metrics, *map(task.metric, more)]):
        if metric.sentence:
            places[metric.name] = place = places.get(metric.fallback_for, len(chosen))
            if place == len(chosen):
                chosen.append(metric)
            elif math.isnan(family.mean(chosen[place].name).value):
                chosen[place] = metric
    in_doubt = any(m.name == MARKED or (m.needs and not is_measurable(family.mean(m.name), m.unit)) for m in chosen)
    raw = [m for m in task.metrics if m.is_raw and m.sentence and m not in chosen and in_doubt and compared]
    return [*chosen, *raw]  # what models are compared by where the corrected rate of one is not known


def metrics_in_sentence(metric: Metric) -> list[str]:
    """The other metrics whose numbers the sentence of a metric contains."""
    return [name for name in _PLACE.findall(metric.sentence) if name not in ("value", "rest")]


def _sentence(family: Family, metric: Metric, mean: Figure) -> str:
    """A sentence that explains a number, with its denominator, its bounds, and the languages that it is a mean over."""
    figures = family.figures(metric.name)
    mean_over = f"mean over {len(figures)} {family.parts} of " if len(figures) > 1 else ""
    metric_name = f"{mean_over}{metric.in_prose}"
    if math.isnan(mean.value):
        has_results = any(task.figures or task.results for task in family.tasks.values())
        why = "no document is in its denominator" if has_results else "there is no results file beside the samples"
        if not all(math.isnan(figure.value) for figure in figures.values()):
            why = "the results file has no number of the group"
        return f"The {metric_name} is undefined: {family.why_no_mean(metric.name) or why}."
    details = []
    if mean.n:
        shares = [share for figure in figures.values() for share in figure.strata or [(figure.value, figure.n, 1.0)]]
        right = sum(round(share * n) for share, n, _ in shares if not math.isnan(share))
        is_count = metric.is_share and as_text(right / mean.n, metric.unit) == as_text(mean.value, metric.unit)
        counted = re.sub(r"s\b", "", metric.counted, count=1) if mean.n == 1 and not metric.is_share else metric.counted
        defined_in = sum(not math.isnan(figure.value) for figure in figures.values())
        together = f" of all {family.parts} together" if is_count and defined_in > 1 else ""
        details.append(f"{f'{right} of ' if is_count else ''}{mean.n} {counted}{together}")
    unknown = not_measurable(mean, metric.unit, metric.needs)
    if (interval := bounds(mean, metric.unit)) and not unknown:
        details.append(f"95 % bounds {interval}")
    marks = mapping(family.any_task.provenance.get("marks")) if metric.name == MARKED and len(figures) == 1 else {}
    if isinstance(worth := marks.get("worth"), float) and math.isfinite(worth):
        details.append(
            f"{marks['draws']} draws, which with the detector's reading are as good as {worth:.0f} without it"
        )
    undefined = [language for language, figure in figures.items() if math.isnan(figure.value)]
    if len(figures) > 1 and family.any_task.table is None:
        details.append(f"over the {len(figures)} tasks of the group")
    elif len(figures) > 1 and family.is_whole and not undefined:
        details.append(f"mean over all {len(figures)} {family.parts}")
    elif len(figures) > 1:
        defined = [language for language in figures if language not in undefined]
        of_group = f" of {family.languages}" if family.languages else ""
        names = f": {', '.join(defined)}" if len(defined) <= _NAMED else ""
        without = f", undefined in {', '.join(undefined)}" if undefined else ""
        details.append(f"mean over {len(defined)}{of_group} {family.parts}{names}{without}")
    text = "; ".join(details)
    others = {name: family.any_task.metric(name) for name in metrics_in_sentence(metric)}
    texts = {name: range_of(family.mean(name), other.unit) for name, other in others.items()}
    if unknown:
        flagged = "".join(f"the detector flagged {texts[name]}; " for name, other in others.items() if other.is_raw)
        names = ",".join(task.task for task in [*family.tasks.values()][:3])
        remedy = f" {metric.remedy.replace('{task}', names)}." if metric.remedy else ""
        return f"The {metric_name} is {unknown}: {flagged}{text}.{remedy}"
    texts |= {"value": as_text(mean.value, metric.unit), "rest": metric.rest}
    return _PLACE.sub(lambda match: texts.get(match[1], match[0]), metric.sentence) + (f" ({text})." if text else ".")


# ------------------------------------------------------------------------------------------------------------- doubts


def doubts_of(family: Family, metric: Metric, mean: Figure, broken: Mapping[str, Signs]) -> tuple[Doubt, ...]:
    """The doubts about a metric of a family of tasks, whose `mean` is shown. `broken` are the signs of a broken run, by
    language."""
    details: dict[tuple[str, str], dict[str, str]] = {}
    for language, task in family.tasks.items():
        for kind, summary, detail in _task_doubts(task, metric, family.filter, broken[language]):
            details.setdefault((kind, summary), {})[language] = detail
    doubts = [Doubt(kind, _merged(summary, details, family)) for (kind, summary), details in details.items()]
    if not math.isnan(mean.value) and math.isnan(mean.low + mean.high):
        why = family.why_no_mean(metric.name)
        doubts.append(Doubt("unbounded", f"it has no bounds: {why}" if why else "the results have no bounds for it"))
    return tuple(doubts)


def _merged(summary: str, details: Mapping[str, str], family: Family) -> str:
    """One text for a doubt, with its detail for each language concerned."""
    number, total, distinct = len(details), len(family.tasks), {*details.values()}
    language, detail = next(((where, text) for where, text in details.items() if text), ("", ""))
    is_short = all(len(text) <= _SHORT for text in distinct)
    if total == 1 or (len(distinct) == 1 and number == total and not (is_short and detail)):
        # of one task; or a sentence, which holds for other families in the same words
        return f"{summary} ({detail})" if detail else summary
    every = "both" if total == 2 else f"all {total}"
    where = f"in {every if number == total else f'{number} of {total}'} {family.parts}"
    more = [f"{number - _CONCERNED} more"] if number > _CONCERNED else []
    concerned = f"{where}: {', '.join([*[*details][:_CONCERNED], *more])}"
    if len(distinct) == 1:
        where = where if number == total else concerned
        return f"{summary} ({detail}, {where})" if detail else f"{summary} ({where})"
    if not is_short:
        return f"{summary} ({concerned}; in {language}: {detail})"
    texts = [f"{language} {text}" for language, text in details.items()]
    return f"{summary} ({where}: {'; '.join([*texts[:_CONCERNED], *more])})"


def _task_doubts(task: TaskRun, metric: Metric, filter_name: str, signs: Signs) -> Findings:
    figure = task.figure(metric.name, filter_name)
    if not task.provenance and task.table is not None:
        yield "not_comparable", "the results do not say what it was measured on", ""
    if reasons := task.not_comparable:
        yield "not_comparable", "not comparable with published figures", "; ".join(reasons)
    if math.isnan(figure.value):
        not_defined = "no document is in its denominator, or nothing corrects it"
        unknown = "there is no results file beside the samples"
        yield "undefined", not_defined if task.figures or task.results else unknown, ""
        return
    if 0 < figure.n < FEW:
        yield "few", "fewer than ten questions", f"{figure.n}"
    yield from doubts_about_answers(task, filter_name, signs)
    if filter_name in READINGS and is_measurable(figure, metric.unit):
        other_filter = READINGS[1 - READINGS.index(filter_name)]
        theirs = task.figure(metric.name, other_filter)
        if abs(theirs.value - figure.value) > _APART:
            detail = f"{as_text(theirs.value, metric.unit)}, not {as_text(figure.value, metric.unit)}"
            yield "readings", f"the {other_filter} reading of the same answers gives another number", detail
    if metric.name in CORRECTED:
        yield from _correction_doubts(task, metric.name, filter_name, figure)


def _correction_doubts(task: TaskRun, metric: str, filter_name: str, figure: Figure) -> Findings:
    recorded = mapping(task.provenance.get("calibration"))
    kind = str(recorded.get("annotations") or "")
    if kind and kind not in ("real", RAG):
        rests_on = KINDS_OF_CALIBRATION.get(kind, kind)
        yield "calibration", f"its correction rests on {rests_on} ({kind})", ""
    version = recorded.get("detector_version")
    if version and task.detector.get("version") not in (None, version):
        yield "calibration", "its correction was measured on another version of the detector", str(version)
    raw = (task.figure(name, filter_name).value for name in ("detected_rate", "hallucinated_share"))
    detected = next((value for value in raw if not math.isnan(value)), math.nan)
    fpr, recall, prevalence = (
        float(value) if isinstance(value := recorded.get(key), (int, float)) else math.nan
        for key in ("false_positive_rate", "recall", "prevalence")
    )
    if metric == "rogan_gladen_rate" and figure.value in (0, 1):
        limit, compared, rate = ("0", "less", fpr) if figure.value == 0 else ("100 %", "more", recall)
        summary = f"the corrected rate is cut off at {limit}: the detector flags {compared} than it does where "
        summary += "nothing is made up" if figure.value == 0 else "everything is"
        yield "clipped", summary, f"{as_text(detected, 'share')}, there {as_text(rate, 'share')}"
    elif figure.value > 1:
        yield "clipped", "the estimated rate is above 100 %, as Equation 1 has no upper bound", ""
    if not math.isnan(detected + fpr + recall + prevalence):
        wrong = round(_WORDS * prevalence)
        tp, fp = round(wrong * recall), round((_WORDS - wrong) * fpr)
        counts = WordCounts(tp, fp, wrong - tp, _WORDS - wrong - fp)  # which have these rates
        for reason in doubts_of_correction(detected, counts):
            yield "unlike", "the correction is far from where it was measured", reason
