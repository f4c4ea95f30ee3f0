"""Runs made by hand: models whose figures a test writes down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from custom_metrics.scores.aggregations import defined_share
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Benchmark, Metric
from lm_eval_tasks.runs import Run, TaskRun
from lm_eval_tasks.runs.run import Settings

Values = Mapping[str, Any]
SETTINGS = Settings("", 0, "", "", {}, None)


def figure(value: float, low: float | None = None, high: float | None = None, n: int = 100) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "standard_error": None, "n": n, "denominator": "questions"}


def share(count: int, n: int) -> dict[str, Any]:
    return defined_share.figure_of([1.0] * count + [0.0] * (n - count)).as_json("questions")


def task(
    name: str,
    figures: Mapping[str, Values] | Values,
    language: str = "",
    provenance: Mapping[str, Any] | None = None,
    metrics: Sequence[str] = (),
    results: Values | None = None,
) -> TaskRun:
    """A task of a run, of which nothing is to be doubted where no provenance says so. Figures are metric to figure, of the
    task's only filter, or filter to these; metrics by default those of the task's table, else of the figures."""
    base = catalogue.base_of(name)
    filters = tuple(base.filters) if base else ("none",)
    by_filter = figures if {*figures} <= {*filters} else {filters[0]: figures}
    listed = metrics or ([metric.name for metric in base.metrics] if base else [*next(iter(by_filter.values()), {})])
    known = {metric.name: metric for metric in base.metrics} if base else {}
    table = catalogue.tables().get(name.partition("_")[0])
    return TaskRun(
        task=name,
        benchmark=name.partition("_")[0],
        language=language,
        version=1,
        config={"filter_list": [{"name": filter_name} for filter_name in filters]},
        provenance={"split": "test", "not_comparable": []} if provenance is None else provenance,
        figures=by_filter,
        metrics=tuple(_measured(metric, known.get(metric), table) for metric in listed),
        settings=SETTINGS,
        results=results or {},
        samples=None,
        results_file=None,
        table=table,
    )


def _measured(name: str, metric: Metric | None, table: Benchmark | None) -> Metric:
    described = metric or catalogue.metric_of(name, table)
    return replace(described, aggregation=described.aggregation.rpartition(".")[2], denominator="")


def run(model: str, tasks: Sequence[TaskRun], config: Values | None = None) -> Run:
    return Run(model, Path("runs") / model.rpartition("/")[2], {one.task: one for one in tasks}, config=config or {})
