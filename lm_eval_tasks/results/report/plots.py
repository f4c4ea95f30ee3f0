"""The plots of a report, each with its data as a table: every metric that the report has a sentence for, with its bounds;
and two metrics that are traded against each other. The tables of the benchmarks name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import NOT_MEASURABLE, UNDEFINED, Figure
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.definition.catalogue import language_name
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import MEAN, Family, families
from lm_eval_tasks.results.formats import short_names
from lm_eval_tasks.results.report.drawing import Line, Panel, Plane, Plot, Point, Row
from lm_eval_tasks.runs import Run, labels

MANY = 3
"""Models from which on a plot shows their means alone."""

_LIMITS = {"share": (0.0, 1.0), "score": (0.0, 1.0), "correlation": (-1.0, 1.0), "rating": (1.0, 4.0)}
_NAMED = 6  # points in a caption


class _Entry(NamedTuple):
    """A model's figures by metric. Those that are not measurable have bounds and no value."""

    label: str  # of the model
    look: int  # the number of its colour and marker, which are the same in every plot
    group: str  # a language, a task of a group, or MEAN; the system that a judge judged; or empty
    figures: Mapping[str, Figure]


def plots_of(runs: Sequence[Run], order: Mapping[str, Sequence[str]] | None = None) -> list[Plot]:
    """The plots of the tasks in some runs, in the order of the tasks. Tasks of other benchmarks have no plot, nor have
    families without a defined figure. `order` has the labels of a family's models, the best first; the default is that of
    the runs."""
    by_family: dict[str, list[tuple[str, int, Family]]] = {}
    for look, (run, label) in enumerate(zip(runs, labels(runs), strict=True)):
        for family in families(run):
            if family.any_task.table is not None:
                by_family.setdefault(family.name, []).append((label, look, family))
    plots: list[Plot] = []
    for name, models in by_family.items():
        places = {label: place for place, label in enumerate((order or {}).get(name, ()))}
        models.sort(key=lambda model: places.get(model[0], len(places)))
        family, (metrics, entries) = models[0][2], _figures_of(models)
        traded = [metric for metric in metrics.values() if metric.traded_against in metrics]
        plots += [_trade_off(family, entries, metric, metrics[metric.traded_against]) for metric in traded[:1]]
        if metrics:
            plots.append(_intervals(family, entries, metrics, is_many=len(runs) >= MANY))
    return plots


def _figures_of(models: Iterable[tuple[str, int, Family]]) -> tuple[dict[str, Metric], list[_Entry]]:
    """The metrics that a report has a sentence for and a model has a figure of, by name; and these figures: an entry for
    each model and language, its mean last. Win rates of systems are one metric."""
    metrics: dict[str, Metric] = {}
    entries: list[_Entry] = []
    for label, look, family in models:
        task = family.any_task
        files = task.provenance.get("local_files") or ()
        systems = [str(file["system"]) for file in files if isinstance(file, dict) and "system" in file]
        judged = ", ".join(dict.fromkeys(systems))
        listed = [metric.name for metric in task.metrics]
        by_group: dict[str, dict[str, Figure]] = {}
        for metric in map(task.metric, (*listed, *sorted({*task.figures.get(family.filter, {})} - {*listed}))):
            name = metric.name.removesuffix(metric.rest).rstrip("_") if metric.rest else metric.name
            figures = family.drawable(metric.name) if metric.sentence else {}
            if any(not math.isnan(figure.value) or _is_unknown(figure) for figure in figures.values()):
                metrics.setdefault(name, metric)
            for group, figure in figures.items():
                by_group.setdefault(metric.rest or group or judged, {})[name] = figure
        entries += [_Entry(label, look, group, figures) for group, figures in by_group.items()]
    return metrics, entries


def _trade_off(family: Family, entries: Sequence[_Entry], metric: Metric, price: Metric) -> Plot:
    """A metric and the one that it is traded against: a point for each model, and of few models one for each language."""
    pair = metric.name, price.name
    means = {entry.label: entry for entry in entries}  # the last entry of each model
    parts = [entry for entry in entries if len(means) < MANY and entry is not means[entry.label]]
    shown = [*parts, *means.values()]
    undrawn = [" of ".join(filter(None, (entry.group, entry.label))) for entry in shown if not _is_drawn(entry, pair)]
    left_out = f" Not drawn, because a rate is undefined or not measurable: {shorten(undrawn, _NAMED)}."
    point = f"the mean of a model over its {family.parts}" if len(family.tasks) > 1 else "a model"
    names = short_names(means)
    return Plot(
        name=f"{family.name}_trade_off",
        title=f"{metric.heading} / {price.heading} ({family.name})",
        caption=(
            f"A point with 95 % bounds is {point}{f'; a small point is one {family.parts[:-1]}' if parts else ''}. To the "
            f"right: {metric.heading} ({metric.better} is better). Upwards: {price.heading} ({price.better} is better). A "
            f"model can improve either at the price of the other.{left_out if undrawn else ''}"
        ),
        **_table(family.parts[:-1], shown, {metric.name: metric, price.name: price}),
        series={names[label]: entry.look for label, entry in means.items()},
        plane=Plane(
            metric.heading,
            price.heading,
            metric.unit == price.unit == "share",
            [
                Point(entry.look, entry.figures[metric.name], entry.figures[price.name], entry in parts)
                for entry in shown
                if _is_drawn(entry, pair)
            ],
        ),
        family=family.name,
    )


def _intervals(family: Family, entries: Sequence[_Entry], metrics: Mapping[str, Metric], is_many: bool) -> Plot:
    """A panel for each metric. Its lines are the languages of few models; else models."""
    names, looks = short_names(entry.label for entry in entries), {entry.label: entry.look for entry in entries}
    has_parts = any(family.tasks)
    by_part = has_parts and not is_many
    if has_parts and is_many:
        entries = [*{entry.label: entry for entry in entries}.values()]  # the means
    lines: dict[tuple[str, str], list[_Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.group == MEAN, entry.group)) if by_part else entries:
        lines.setdefault((entry.group, "" if by_part else entry.label), []).append(entry)

    def line_of(entries: Sequence[_Entry], name: str) -> Line:
        label, _, group, _ = entries[0]
        if by_part:
            text = group if language_name(group) == group else f"{language_name(group)}  {group}"
        else:
            text = names[label] + ("" if has_parts or not group else f" on {group}")
        figures = [entry.figures.get(name, UNDEFINED) for entry in entries]
        return Line(text, figures, [entry.look for entry in entries], by_part and group == MEAN)

    return Plot(
        name=f"{family.name}_intervals",
        title=f"{f'By {family.parts[:-1]}' if by_part else 'By model'} ({family.name})",
        caption=(
            "Lines are 95 % bounds. A line without a mark spans more than half of the scale: the figure is not measurable. "
            "A figure without a line is undefined, or not in the run."
        ),
        **_table(family.parts[:-1] if has_parts else "system", entries, metrics),
        series={names[label]: look for label, look in looks.items()} if by_part else {},
        panels=tuple(
            Panel(
                metric.title or name.replace("_", " "),
                [line_of(entries, name) for entries in lines.values()],
                "" if metric.unit == "share" else metric.unit,
                metric.unit == "share",
                _LIMITS.get(metric.unit),
            )
            for name, metric in metrics.items()
        ),
    )


def _is_unknown(figure: Figure) -> bool:
    """Whether a figure without a value is not measurable; an undefined one has no bounds either."""
    return math.isnan(figure.value) and not math.isnan(figure.low + figure.high)


def _is_drawn(entry: _Entry, metrics: Iterable[str]) -> bool:
    return not any(math.isnan(entry.figures.get(metric, UNDEFINED).value) for metric in metrics)


def _table(group: str, entries: Iterable[_Entry], metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """The table of a plot: a row for each entry, with model, `group`, and each figure's bounds and number of documents."""
    rows: list[Row] = []
    for entry in entries:
        cells: list[str | float | int | None] = []
        for figure in (entry.figures.get(name, UNDEFINED) for name in metrics):
            value, low, high = (None if math.isnan(number) else number for number in figure[:3])
            cells += [NOT_MEASURABLE if _is_unknown(figure) else value, low, high, figure.n]
        rows.append((entry.label, entry.group, *cells))
    columns = ("model", group, *(f"{name}{ending}" for name in metrics for ending in ("", "_low", "_high", "_n")))
    shares = frozenset(name for name, metric in metrics.items() if metric.unit == "share")
    return {"columns": columns, "rows": tuple(rows), "shares": shares}
