"""Headlines: the most important numbers of each run and family, each with doubts and a sentence that explains it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from custom_metrics.hallucination import doubts as doubts_of_correction
from custom_metrics.scores.aggregations import NotMeasured
from custom_metrics.scores.detection import WordCounts
from custom_metrics.statistics.figures import FEW, Figure, is_measurable
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from detector_plugin.detector import RAG
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.definition.schema import Metric, preferred_first
from lm_eval_tasks.detection.calibrated import KINDS_OF_CALIBRATION
from lm_eval_tasks.detection.marked import METRIC as MARKED
from lm_eval_tasks.results import formats
from lm_eval_tasks.results.board import Cell, Column, Doubt, Family, families
from lm_eval_tasks.results.doubts import READINGS, Findings, doubts_about_answers, signs_of
from lm_eval_tasks.results.formats import Section, as_text, bounds, not_measurable, range_of, with_bounds
from lm_eval_tasks.results.joining import JoinedTask
from lm_eval_tasks.results.measuring import measure
from lm_eval_tasks.results.report.documents import ReadAnswers, read_task
from lm_eval_tasks.runs import Answers, Run, TaskRun
from lm_eval_tasks.runs.run import number_of

_NAMED = 5  # languages of a mean
_PLACE = re.compile(r"\{([^{}]+)\}")  # in a sentence: {value}, {rest}, or {<metric>}
CORRECTED = ("estimated_rate", "rogan_gladen_rate")
"""Rates that a calibration corrects."""

_APART = 0.05  # difference between two readings of the same answers that is a doubt
_CONCERNED = 3  # languages that a doubt names
_SHORT = 40  # characters of a detail that is shown for each language
_WORDS = 10**9  # assumed size of a calibration, of which only the rates are known


def title_of(task: TaskRun) -> str:
    """The name of a task's benchmark, as in its paper; of a task that is in no table, its group's or its own."""
    return (task.table.title if task.table else "") or task.benchmark or task.task


def headlines(runs: Sequence[Run], read_answers: ReadAnswers = read_task, by_part: bool = False) -> list[Column]:
    """The headlines of runs as columns of the board, without ranks: of each family and metric; with `by_part`, of each of
    its languages or tasks by itself. `read_answers` is used to find signs of a broken run."""
    listed = [(number, family) for number, run in enumerate(runs) for family in families(run)]
    if by_part:
        parts = [(n, task) for n, family in listed for task in family.tasks.values() if task.table and task.part]
        listed = [(number, Family(task.task, {task.part: task})) for number, task in parts]
    unmarked = {family.name for _, family in listed if len(runs) > 1 and math.isnan(family.mean(MARKED).value)}
    columns: dict[str, dict[str, Column]] = {}  # by family and metric
    cells: dict[tuple[str, str], dict[int, Cell]] = {}
    for number, family in listed:
        for metric, cell in _cells_of(family, read_answers, family.name in unmarked):
            of_column = cells.setdefault((family.name, metric.name), {})
            of_column[number] = cell
            column = Column(family.name, metric, family.filter, of_column, benchmark=title_of(family.any_task))
            columns.setdefault(family.name, {}).setdefault(metric.name, column)
    return [column for of_family in columns.values() for column in of_family.values()]


def _cells_of(family: Family, read_answers: ReadAnswers, compared: bool) -> Iterator[tuple[Metric, Cell]]:
    """The headlines of a run's family of tasks, by metric. A run that is `compared` with others also has what its detector
    flags, where only marks could measure more."""
    about_answers = {}
    for language, task in family.tasks.items():
        signs = signs_of(task, read_answers(task) if task.samples else None)
        about_answers[language] = [*doubts_about_answers(task, family.filter, signs)]
    is_alike = all(any(kind == "alike" for kind, *_ in findings) for findings in about_answers.values())
    for metric in _metrics_of(family, compared):
        mean = family.mean(metric.name)
        sentence, reasons = _sentence(family, metric, mean), _doubts(family, metric, mean, about_answers)
        yield metric, Cell.of(mean, metric, is_alike)._replace(family=family, explanation=sentence, reasons=reasons)


def _metrics_of(family: Family, compared: bool) -> list[Metric]:
    """The metrics of a family that have a headline, in order: those with a sentence. Of a metric and its fallbacks, the
    first that is defined; or the last."""
    task = family.any_task
    if task.table is None and family.results:
        reported = {name for name, value in family.results.items() if isinstance(value, float)}
        return [m for m in task.metrics if m.headline and f"{m.name},{family.filter}" in reported]
    more = sorted({*task.figures.get(family.filter, {})} - {metric.name for metric in task.metrics})
    by_first: dict[str, Metric] = {}  # of a metric and its fallbacks, by the name of the first
    first_of: dict[str, str] = {}
    for metric in (m for m in preferred_first([*task.metrics, *map(task.metric, more)]) if m.sentence):
        first = first_of[metric.name] = first_of.get(metric.fallback_for, metric.name)
        if first not in by_first or math.isnan(family.mean(by_first[first].name).value):
            by_first[first] = metric
    chosen = [*by_first.values()]
    in_doubt = any(m.name == MARKED or (m.needs and not is_measurable(family.mean(m.name), m.unit)) for m in chosen)
    raw = [m for m in task.metrics if m.is_raw and m.sentence and m not in chosen and in_doubt and compared]
    return [*chosen, *raw]  # what models are compared by where the corrected rate of one is not known


def metrics_in_sentence(metric: Metric) -> list[str]:
    """The other metrics whose numbers the sentence of a metric contains."""
    return [name for name in _PLACE.findall(metric.sentence) if name not in ("value", "rest")]


def _sentence(family: Family, metric: Metric, mean: Figure) -> str:
    """A sentence that explains a number, with its denominator, its bounds, and the languages that it is a mean over."""
    figures, parts = family.figures(metric.name), family.parts
    defined = [language for language, figure in figures.items() if not math.isnan(figure.value)]
    metric_name = f"{f'mean over {len(figures)} {parts} of ' if len(figures) > 1 else ''}{metric.in_prose}"
    if math.isnan(mean.value):
        has_results = any(task.figures or task.results for task in family.tasks.values())
        why = "no document is in its denominator" if has_results else "there is no results file beside the samples"
        why = "the results file has no number of the group" if defined else why
        return f"The {metric_name} is undefined: {family.why_no_mean(metric.name) or why}."
    details = []
    if mean.n:
        shares = [share for figure in figures.values() for share in figure.strata or [(figure.value, figure.n, 1.0)]]
        right = sum(round(share * n) for share, n, _ in shares if not math.isnan(share))
        is_count = metric.is_share and as_text(right / mean.n, metric.unit) == as_text(mean.value, metric.unit)
        counted = re.sub(r"s\b", "", metric.counted, count=1) if mean.n == 1 and not metric.is_share else metric.counted
        together = f" of all {parts} together" if is_count and len(defined) > 1 else ""
        details.append(f"{f'{right} of ' if is_count else ''}{mean.n} {counted}{together}")
    unknown = not_measurable(mean, metric.unit, metric.needs)
    if (interval := bounds(mean, metric.unit)) and not unknown:
        details.append(f"95 % bounds {interval}")
    marks = mapping(family.any_task.provenance.get("marks")) if metric.name == MARKED and len(figures) == 1 else {}
    if isinstance(worth := marks.get("worth"), float) and math.isfinite(worth):
        as_good_as = "draws, which with the detector's reading are as good as"
        details.append(f"{marks['draws']} {as_good_as} {worth:.0f} without it")
    if len(figures) > 1 and family.any_task.table is None:
        details.append(f"over the {len(figures)} tasks of the group")
    elif len(figures) > 1 and family.is_whole and len(defined) == len(figures):
        details.append(f"mean over all {len(figures)} {parts}")
    elif len(figures) > 1:
        of_group = f" of {family.languages}" if family.languages else ""
        names = f": {', '.join(defined)}" if len(defined) <= _NAMED else ""
        undefined = ", ".join(language for language in figures if language not in defined)
        without = f", undefined in {undefined}" if undefined else ""
        details.append(f"mean over {len(defined)}{of_group} {parts}{names}{without}")
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


def _doubts(family: Family, metric: Metric, mean: Figure, about_answers: Mapping[str, Findings]) -> tuple[Doubt, ...]:
    """The doubts about a metric of a family of tasks, whose `mean` is shown; with those about the answers, by language."""
    details: dict[tuple[str, str], dict[str, str]] = {}
    for language, task in family.tasks.items():
        for kind, summary, detail in _task_doubts(task, metric, family.filter, about_answers[language]):
            details.setdefault((kind, summary), {})[language] = detail
    doubts = [Doubt(kind, _merged(summary, of_parts, family)) for (kind, summary), of_parts in details.items()]
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


def _task_doubts(task: TaskRun, metric: Metric, filter_name: str, about_answers: Findings) -> Findings:
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
    yield from about_answers
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
    fpr, recall, prevalence = map(number_of, map(recorded.get, ("false_positive_rate", "recall", "prevalence")))
    if metric == "rogan_gladen_rate" and figure.value in (0, 1):
        ends = ("0", "less", "nothing is made up", fpr), ("100 %", "more", "everything is", recall)
        limit, compared, where, rate = ends[int(figure.value)]
        summary = f"the corrected rate is cut off at {limit}: the detector flags {compared} than it does where {where}"
        yield "clipped", summary, f"{as_text(detected, 'share')}, there {as_text(rate, 'share')}"
    elif figure.value > 1:
        yield "clipped", "the estimated rate is above 100 %, as Equation 1 has no upper bound", ""
    if not math.isnan(detected + fpr + recall + prevalence):
        wrong = round(_WORDS * prevalence)
        tp, fp = round(wrong * recall), round((_WORDS - wrong) * fpr)
        counts = WordCounts(tp, fp, wrong - tp, _WORDS - wrong - fp)  # which have these rates
        for reason in doubts_of_correction(detected, counts):
            yield "unlike", "the correction is far from where it was measured", reason


# --------------------------------------------------------------------------------------------- by a column of documents


MOST = 60
"""Values of a column of documents: one of more, such as an id, groups nothing."""


def sections_by(field: str, runs: Mapping[str, Run], read_answers: ReadAnswers) -> list[Section]:
    """A table of each task whose documents have the column: a row for each of its values and each run (by label), with the
    headlines and their bounds.

    Raises:
        UsageError: no document has it, or each its own value; the message has the columns that documents have.
    """
    tables, columns = [], dict[str, None]()
    for name in dict.fromkeys(name for run in runs.values() for name in run.tasks):
        rows = []
        measured: list[Metric] = []
        for label, run in runs.items():
            if (task := run.tasks.get(name)) is None or task.samples is None or not len(answers := read_answers(task)):
                continue
            columns |= dict.fromkeys(answers[0].doc)
            measured = measured or [metric for metric in task.metrics if task.is_headline(metric.name)]
            for value, documents in _grouped(answers, field):
                part = answers.only(documents)
                rows.append((value, label, str(len(part)), *_cells(label, task, part, measured)))
        if rows:
            header = (field, "run", "answers", *(f"{m.in_prose}{formats.ARROWS[m.higher_is_better]}" for m in measured))
            tables.append(Section(header, tuple(sorted(rows, key=lambda row: row[0])), (f"{name}, by {field}",)))
    if not tables:
        known = ", ".join(map(on_one_line, columns)) or "none, as no answers were logged (--log_samples)"
        raise UsageError(
            f"--by {field}: no task's documents have such a column with 2 to {MOST} values; they have {known}"
        )
    return tables


def _grouped(answers: Answers, field: str) -> Iterator[tuple[str, list[int]]]:
    """The values of a column with the numbers of their documents; none where documents lack it, or it groups nothing."""
    groups: dict[str, list[int]] = {}
    for number, answer in enumerate(answers if field in answers[0].doc else ()):
        groups.setdefault(on_one_line(str(answer.doc.get(field, ""))), []).append(number)
    if 1 < len(groups) <= MOST:
        yield from groups.items()


def _cells(label: str, task: TaskRun, answers: Answers, metrics: list[Metric]) -> Iterator[str]:
    joined = JoinedTask.join(task.task, {0: (label, task, answers)})
    for metric in metrics:
        try:
            yield with_bounds(measure(joined, metric, task.headline_filter).figure(0), metric.unit)
        except (NotMeasured, KeyError):  # a metric that this run does not have
            yield formats.UNDEFINED_TEXT
