"""The differences of a comparison: a row for each metric, pair of models, and task or group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean
from typing import Any

from custom_metrics.statistics.multiple_comparisons import holm
from custom_metrics.statistics.paired_difference import PairedDifference
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.compare.comparison import Difference
from lm_eval_tasks.results.compare.measured import Measured, compare_measured
from lm_eval_tasks.runs import TaskRun

__all__ = ["corrected", "group_rows", "in_order", "task_rows"]


def task_rows(
    known: Mapping[str, tuple[TaskRun, tuple[Metric, ...]]],
    measured: Mapping[tuple[str, str, str], Measured],
    runs: int,
) -> Iterator[Difference]:
    for (name, metric_name, read_by), values in measured.items():
        run, metrics = known[name]
        metric = next(metric for metric in metrics if metric.name == metric_name)
        for first, second in combinations(range(runs), 2):
            if values.present[first].any() and values.present[second].any():
                yield _row(name, run, metric, read_by, [values], first, second)


def group_rows(
    groups: Mapping[str, Sequence[str]],
    asked: Sequence[str] | None,
    names: Sequence[str],
    known: Mapping[str, tuple[TaskRun, tuple[Metric, ...]]],
    measured: Mapping[tuple[str, str, str], Measured],
    runs: int,
) -> Iterator[Difference]:
    for group, members in groups.items():
        present = [name for name in members if name in known]
        if (asked and group not in asked) or not {*members} <= {*names} or len(present) < len(members):
            continue
        run, metrics = known[present[0]]
        read_by = {read for name, _, read in measured if name in members}
        for metric in metrics:
            for filter_name in read_by:
                parts = [
                    measured[name, metric.name, filter_name]
                    for name in members
                    if (name, metric.name, filter_name) in measured
                ]
                for first, second in combinations(range(runs), 2):
                    both = [p for p in parts if p.counted(first).any() and p.counted(second).any()]
                    if both and len({part.kind for part in both}) == 1:
                        yield _row(group, run, metric, filter_name, both, first, second, every=parts)


def _row(
    name: str,
    run: TaskRun,
    metric: Metric,
    filter_name: str,
    parts: Sequence[Measured],
    first: int,
    second: int,
    every: Sequence[Measured] = (),
) -> Difference:
    """A difference, of a group where the measured values of `every` task of it are given."""
    group = bool(every)
    found: PairedDifference = compare_measured(parts, first, second)
    counted = [(part.counted(first), part.counted(second)) for part in parts]
    own = [fmean(values) if (values := _own(every or parts, model)) else math.nan for model in (first, second)]
    return Difference(
        task=name,
        benchmark=run.benchmark,
        language="" if group else run.language,
        group=group,
        tasks=len(parts),
        metric=metric.name,
        filter=filter_name,
        higher_is_better=metric.higher_is_better,
        headline=run.is_headline(metric.name),
        first=first,
        second=second,
        first_value=found.first,
        second_value=found.second,
        difference=found.difference,
        low=found.low,
        high=found.high,
        p=found.p,
        p_exact=found.p_exact,
        p_adjusted=found.p,
        family=1,
        n=found.n,
        unit=parts[0].unit,
        only_first=sum(int((one & ~other).sum()) for one, other in counted),
        only_second=sum(int((other & ~one).sum()) for one, other in counted),
        first_own=own[0],
        second_own=own[1],
        method=found.method,
        denominator=metric.denominator,
        measured=metric,
    )


def _own(parts: Sequence[Measured], model: int) -> list[float]:
    """A model's own values, of the tasks that have one."""
    values = [part.own(model) for part in parts]
    return [value for value in values if not math.isnan(value)]


def _family(row: Difference) -> tuple[Any, ...]:
    return row.benchmark or row.task, row.metric, row.filter, row.group


def corrected(rows: Sequence[Difference]) -> list[Difference]:
    """Holm's correction over a metric's comparisons: all languages and pairs of models; groups by themselves."""
    families: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(rows):
        families.setdefault(_family(row), []).append(place)
    found = list(rows)
    for places in families.values():
        adjusted = holm([rows[place].p for place in places])
        tested = sum(rows[place].p == rows[place].p for place in places)
        for place, p in zip(places, adjusted, strict=True):
            found[place] = replace(rows[place], p_adjusted=float(p), family=max(1, tested))
    return found


def in_order(rows: Sequence[Difference]) -> list[Difference]:
    """Benchmark by benchmark as they were run; in each headlines first, groups before tasks."""
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows if not row.group))
    metrics = list(dict.fromkeys(row.metric for row in rows))
    return sorted(
        rows,
        key=lambda row: (benchmarks.index(row.benchmark), not row.headline, metrics.index(row.metric), not row.group),
    )
