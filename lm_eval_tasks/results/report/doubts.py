"""Doubts about a number of a run: reasons to trust it less.

A report shows each doubt beside its number. If the number is a mean over languages, the doubt names the languages it
concerns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from custom_metrics.broken_run import Signs
from custom_metrics.hallucination import doubts as doubts_of_correction
from custom_metrics.scores.detection import WordCounts
from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import is_measurable
from detector_plugin.detector import RAG
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.detection.calibrated import KINDS_OF_CALIBRATION
from lm_eval_tasks.harness.run_warnings import FEW
from lm_eval_tasks.results.doubts import Findings, doubts_about_answers
from lm_eval_tasks.results.formats import as_text
from lm_eval_tasks.results.report.answers import READINGS
from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.runs import TaskRun

CORRECTED = ("estimated_rate", "rogan_gladen_rate")
"""Rates that a calibration corrects."""

_APART = 0.05  # difference between two readings of the same answers that is a doubt
_NAMED = 3  # languages that a doubt names
_SHORT = 40  # characters of a detail that is shown for each language
_WORDS = 10**9  # assumed size of a calibration, of which only the rates are known


class Doubt(NamedTuple):
    """A reason to trust a number less: ``not_comparable``, ``few``, ``unbounded``, ``undefined``, ``calibration``,
    ``clipped``, ``unlike``, ``invalid``, ``abstains``, ``readings``, ``alike`` or ``broken``."""

    kind: str
    text: str  # without a full stop


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
    more = [f"{number - _NAMED} more"] if number > _NAMED else []
    concerned = f"{where}: {', '.join([*[*details][:_NAMED], *more])}"
    if len(distinct) == 1:
        where = where if number == total else concerned
        return f"{summary} ({detail}, {where})" if detail else f"{summary} ({where})"
    if not is_short:
        return f"{summary} ({concerned}; in {language}: {detail})"
    texts = [f"{language} {text}" for language, text in details.items()]
    return f"{summary} ({where}: {'; '.join([*texts[:_NAMED], *more])})"


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
    calibration = task.provenance.get("calibration")
    recorded: Mapping[str, Any] = calibration if isinstance(calibration, Mapping) else {}
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
