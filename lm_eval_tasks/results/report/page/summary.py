"""What a page says of models: their numbers by family and metric, with the doubts that many of them share; and every
number, with what it was measured on.

Each family and language has an :class:`Overview`: all models on one axis, the best model, the models that show no
difference to it, and the best model by what a made-up answer costs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure, without_point
from lm_eval_tasks.definition.catalogue import language_name
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import Column, Costs, place_of
from lm_eval_tasks.results.compare import Comparison
from lm_eval_tasks.results.compare.verdicts import Verdict, verdict_on
from lm_eval_tasks.results.report.drawing import on_axis
from lm_eval_tasks.results.report.headlines import Doubt, Headline
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.run import recorded_settings, signature_of

_SEVERE = ("incomplete", "alike", "cut", "broken", "undefined", "invalid", "abstains", "clipped", "unlike")
"""Kinds of doubts that the first screen shows beside a model, the worst first. The others are shown below."""

_SCALES = {"share": 1.0, "score": 1.0, "rating": 4.0}
_MORE = 2  # metrics of an overview beside the first: what it is traded against, and another headline
_WHERE = re.compile(r"in \d+ of \d+ (languages|tasks)")


class MetricSummary(NamedTuple):
    """The headlines of all models for a metric of a family, without the doubts that are shown elsewhere."""

    headlines: list[Headline]
    is_tight: bool = False  # whether the scale of shares ends at the next ten percent, not at 100 %

    @property
    def measured(self) -> Metric:
        """The metric, as the table of its benchmark describes it."""
        return self.headlines[0].measured

    @property
    def top(self) -> float:
        """The end of the scale: 1 for shares and scores (or what exceeds it), 4 for ratings, else the largest bound.
        A tight one ends at the next tenth."""
        values = (value for headline in self.headlines for value in (headline.figure.value, headline.figure.high))
        largest = max((value for value in values if not math.isnan(value)), default=1.0)
        if self.is_tight and self.measured.unit in ("share", "score"):
            return math.ceil(10 * largest) / 10 or 1.0
        return max(largest, _SCALES.get(self.measured.unit, 1.0))

    def drawn(self, look: int, headline: Headline) -> list[tuple[int, float, float | None, float]]:
        """What is drawn of a number in a model's look, as in :meth:`lm_eval_tasks.results.report.drawing.Panel.drawn`."""
        places = on_axis(without_point(headline.figure, self.measured.unit), 0.0, self.top)
        return [(look, *places)] if places else []


class Row(NamedTuple):
    """A model: its numbers, ``None`` where it lacks one; its rank, ``None`` where it has none; and doubts, in short."""

    model: str
    headlines: tuple[Headline | None, ...]
    rank: int | None
    doubts: str


class Overview(NamedTuple):
    """The models of a family of tasks, or of one of its languages. The first metric of `shown` sorts them: the balanced
    error, if there is one. What is traded against each other follows, and another headline."""

    family: str
    task: str  # the group whose mean is shown, or the task
    benchmark: str  # its title
    question: str  # that it answers
    doubts: list[Doubt]  # about all of its numbers
    metrics: list[MetricSummary]  # the best model of each first
    shown: list[MetricSummary]
    rows: list[Row]
    best: Row | None  # the first row, if it was compared with others
    equals: list[str]  # models that show no difference to it
    costs: Costs | None
    verdict: Verdict | None  # the same as everywhere
    languages: Mapping[str, Overview] = {}  # of a family of several, by code; or its tasks, by name
    parts: str = ""  # what these are
    group: int = 0  # the number of the group of models, which were asked the same: those of the first are the full runs
    apart: str = ""  # what sets a further group apart
    elsewhere: int = 0  # number of models in further groups

    @property
    def main_doubts(self) -> list[Doubt]:
        """One doubt of each kind, for the first screen."""
        return [*{doubt.kind: doubt for doubt in reversed(self.doubts)}.values()][::-1]


def common_doubts(listed: Sequence[Headline]) -> list[Doubt]:
    """The doubts that all of several numbers share; none for a single number, which has them beside it."""
    if len(listed) < 2:
        return []
    return [doubt for doubt in listed[0].doubts if all(doubt in headline.doubts for headline in listed)]


def overviews(
    families: Sequence[Headline],
    languages: Sequence[Headline],
    tasks: Mapping[str, Mapping[str, str]],
    comparison: Comparison | None,
) -> Iterator[Overview]:
    """The overviews of families, from the headlines of families and of their tasks, in their order; those of models that
    were asked something else come last. `tasks` maps family to language to task."""
    by_task = {task: [*rows] for task, rows in groupby(languages, key=lambda row: row.family)}
    of_every, later = (common_doubts(families), common_doubts(languages)), []
    for family, of_family in groupby(families, key=lambda row: row.family):
        members = tasks[family]
        compared = family if len(members) > 1 else next(iter(members.values()))
        ordered = sorted(members.items(), key=lambda member: language_name(member[0])) if len(members) > 1 else ()
        groups: dict[tuple[int, str], list[Headline]] = {}
        for row in of_family:
            group = comparison.group_of(row.model, members.values()) if comparison else (0, "")
            groups.setdefault((group[0], group[1] if group[0] else ""), []).append(row)
        for (number, why), rows in sorted(groups.items(), key=lambda group: group[0][0]):
            models = {row.model for row in rows}
            compares = comparison and comparison.of_group(number)
            inner = {
                code: _overview(own, of_every[1], task, compares)
                for code, task in ordered
                if (own := [row for row in by_task.get(task, ()) if row.model in models])
            }
            overview = _overview(rows, of_every[0], compared, compares, members)._replace(
                languages=inner, parts=rows[0].parts, group=number, apart=why
            )
            if number:
                later.append(overview)
            else:
                others = [row.model for (other, _), rows in groups.items() if other for row in rows]
                yield overview._replace(elsewhere=len({*others}))
    yield from later


def column_of(metric: MetricSummary, compared: str, comparison: Comparison, tasks: Mapping[str, str]) -> Column | None:
    """The column of a group or task. A group without one whose numbers are all of one task, such as the language with
    people's marks, has that task's; `tasks` are the group's, by language."""
    column = comparison.column(metric.measured.name, compared)
    by_language = (each.languages.items() for each in metric.headlines)
    defined = {code for figures in by_language for code, figure in figures if not math.isnan(figure.value)}
    if column is None and len(defined) == 1:
        return comparison.column(metric.measured.name, tasks.get(defined.pop(), ""))
    return column


def _overview(
    numbers: Sequence[Headline],
    everywhere: Sequence[Doubt],
    compared: str,
    comparison: Comparison | None,
    tasks: Mapping[str, str] = MappingProxyType({}),
) -> Overview:
    """The overview of a family's headlines, with the column of the group or task that is `compared`. The doubts of a model
    are those that not all numbers of the page or of the family share. `tasks` are the family's, by language."""
    common = [doubt for doubt in common_doubts(numbers) if doubt not in everywhere]
    shared = {*everywhere, *common}
    own = [replace(row, doubts=tuple(doubt for doubt in row.doubts if doubt not in shared)) for row in numbers]
    metrics = [MetricSummary([*group]) for _, group in groupby(own, key=lambda row: row.metric)]
    verdict = verdict_on(comparison, compared) if comparison else None
    shown = [*_shown(metrics, verdict.leading.metric if verdict else "")]
    names: Sequence[str] = comparison.models if comparison else ()
    column = column_of(shown[0], compared, comparison, tasks) if comparison else None
    by_rank = {names[run]: rank for run, rank in column.ranks.items()} if column else {}
    doubted = {names[run] for run, cell in column.cells.items() if cell.doubts and cell.rank == 1} if column else set()
    in_order = [headline.model for headline in _sorted(shown[0], by_rank, doubted)]
    by_metric = [{headline.model: headline for headline in metric.headlines} for metric in shown]
    most, rows = max(len(headline.languages) for headline in shown[0].headlines), []
    for model in dict.fromkeys([*in_order, *(each.model for each in own)]):
        headlines = tuple(of_metric.get(model) for of_metric in by_metric)
        number = len(headlines[0].languages) if headlines[0] else most
        partly = f"mean over {number or 1} of {most} {numbers[0].parts}" if number < most else ""
        text = "; ".join(filter(None, (partly, *_severe(headlines[0]))))
        rows.append(Row(model, headlines, None if model in doubted else by_rank.get(model), text))
    first = names.index(rows[0].model) if rows[0].rank else None
    beaten, equals = ([], []) if column is None or first is None else (column.beaten_by(first), column.equals(first))
    return Overview(
        numbers[0].family,
        compared,
        numbers[0].benchmark,
        numbers[0].question,
        common,
        [MetricSummary(_sorted(metric, {})) for metric in metrics],
        shown,
        rows,
        best=rows[0] if beaten or equals else None,
        equals=[names[run] for run in equals],
        costs=comparison.costs.get(compared) if comparison else None,
        verdict=verdict,
    )


def _severe(headline: Headline | None) -> Iterator[str]:
    """The severe doubts about a number, all about its answers among them, without details except the number of languages
    concerned."""
    for kind in _SEVERE:
        for text in (doubt.text for doubt in headline.doubts if doubt.kind == kind) if headline else ():
            where = _WHERE.search(text)
            yield text.partition(" (")[0].partition(":")[0] + (f" ({where[0]})" if where else "")


def _sorted(metric: MetricSummary, by_rank: Mapping[str, int], last: Collection[str] = ()) -> list[Headline]:
    """The headlines of a metric, the best model first; some of a rank `last`: to share the first one is no distinction of a
    run with doubts."""
    higher_is_better = bool(metric.measured.higher_is_better)

    def order(headline: Headline) -> tuple[Any, ...]:
        place = place_of(headline.cell._replace(rank=by_rank.get(headline.model)), higher_is_better)
        return *place[:2], headline.model in last, *place[2:]

    return sorted(metric.headlines, key=order)


def _shown(metrics: Sequence[MetricSummary], decides: str) -> Iterator[MetricSummary]:
    """The most prominent metric that is defined for a model; that which `decides` between two, or is traded against it."""

    def order(metric: MetricSummary) -> tuple[bool, int]:
        return any(not math.isnan(each.figure.value) for each in metric.headlines), metric.measured.prominence

    first = max(metrics, key=order)
    yield first._replace(is_tight=True)
    traded = (*first.measured.balances, first.measured.traded_against)
    more = [each for each in metrics if each.measured.headline and each.measured.better and each != first]
    yield from sorted(more, key=lambda each: (each.measured.name != decides, each.measured.name not in traded))[:_MORE]


# ---------------------------------------------------------------------------------------------------------- every number


def _tasks(runs: Mapping[str, Run], benchmark: str) -> Iterator[tuple[str, TaskRun]]:
    """The tasks of a benchmark with their model, ordered by task, so that models are next to each other."""
    names = dict.fromkeys(
        task.task for run in runs.values() for task in run.tasks.values() if task.benchmark == benchmark
    )
    return ((model, run.tasks[name]) for name in names for model, run in runs.items() if name in run.tasks)


def numbers(runs: Mapping[str, Run], benchmark: str) -> Iterator[tuple[str, TaskRun, str, Metric, Figure, str]]:
    """All figures of a benchmark's tasks: model, task, filter, metric, figure and denominator."""
    for model, task in _tasks(runs, benchmark):
        for filter_name in task.filters:
            written = task.figures.get(filter_name, {})
            for metric in map(task.metric, dict.fromkeys([*(metric.name for metric in task.metrics), *written])):
                denominator = str(written.get(metric.name, {}).get("denominator") or metric.denominator)
                yield model, task, filter_name, metric, task.figure(metric.name, filter_name), denominator


def origins(runs: Mapping[str, Run], benchmark: str) -> list[dict[str, Any]]:
    """Records of what the tasks of a benchmark depend on. Models with equal records share one."""
    records: dict[str, dict[str, Any]] = {}
    for model, task in _tasks(runs, benchmark):
        files = [entry for entry in task.provenance.get("files") or () if isinstance(entry, Mapping)]
        keys = ("repository", "revision", "path", "sha256")
        record = {
            "task": task.task,
            "facts": [*_facts(task)],
            "files": [{key: str(entry.get(key) or "") for key in keys} for entry in files],
            "not_comparable": [*task.not_comparable],
        }
        records.setdefault(json.dumps(record), {**record, "models": []})["models"].append(model)
    return [*records.values()]


_TITLES = {
    "version": "task version",
    "kept": "documents",
    "left_out": "left out",
    "read_from": "read from",
    "template": "prompt (SHA-256)",
    "shots": "examples in the prompt",
    "chat_template": "chat template (SHA-256)",
    "system_instruction": "system instruction",
}


def _facts(task: TaskRun) -> Iterator[tuple[str, str]]:
    """Names and values, as text, of the known facts about a task."""
    yield "signature", signature_of([task])
    if task.samples is None:
        yield "answers", "not logged"
    for name, value in recorded_settings(task).items():
        if name == "limit" and value is not None:
            value = f"{value:g}"
        elif name == "shots":
            value = value or None
        elif name == "detector":
            value = " ".join(str(value[key]) for key in ("name", "version") if value.get(key))
        if text := _pairs(value):
            yield _TITLES.get(name, name), text


def _pairs(value: Any) -> str:
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    return ", ".join(
        f"{key}: [{', '.join(map(str, item))}]" if isinstance(item, (list, tuple)) else f"{key}: {item}"
        for key, item in value.items()
        if item not in (None, "")
    )
