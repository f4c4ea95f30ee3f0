"""The plots of a report, each with its data as a table: every metric that the report has a sentence for, with its bounds;
and two metrics that are traded against each other. The tables of the benchmarks name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from custom_metrics.statistics.figures import Figure
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.definition.catalogue import language_name
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import MEAN, Family, families
from lm_eval_tasks.results.formats import short_names
from lm_eval_tasks.results.report.drawing import Entry, Line, Plot
from lm_eval_tasks.runs import Run, labels

MANY = 3
"""Models from which on a plot shows their means alone."""

_NAMED = 6  # points in a caption


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


def _figures_of(models: Iterable[tuple[str, int, Family]]) -> tuple[dict[str, Metric], list[Entry]]:
    """The metrics that a report has a sentence for and a model has a figure of, by name; and these figures: an entry for
    each model and language, its mean last. Win rates of systems are one metric."""
    metrics: dict[str, Metric] = {}
    entries: list[Entry] = []
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
            if not all(
                math.isnan(figure.value) and math.isnan(figure.low + figure.high) for figure in figures.values()
            ):
                metrics.setdefault(name, metric)
            for group, figure in figures.items():
                by_group.setdefault(metric.rest or group or judged, {})[name] = figure
        last = [*by_group][-1:]
        entries += [Entry(label, look, group, of, group not in last) for group, of in by_group.items()]
    return metrics, entries


def _trade_off(family: Family, entries: Sequence[Entry], metric: Metric, price: Metric) -> Plot:
    """A metric and the one that it is traded against: a point for each model, and of few models one for each language."""
    means = [entry for entry in entries if not entry.is_part]
    parts = [entry for entry in entries if entry.is_part and len(means) < MANY]
    names, part = short_names(entry.label for entry in means), family.parts[:-1]
    point = f"the mean of a model over its {family.parts}" if len(family.tasks) > 1 else "a model"
    plot = Plot(
        name=f"{family.name}_trade_off",
        title=f"{metric.heading} / {price.heading} ({family.name})",
        caption=(
            f"A point with 95 % bounds is {point}{f'; a small point is one {part}' if parts else ''}. To the right: "
            f"{metric.heading} ({metric.better} is better). Upwards: {price.heading} ({price.better} is better). A model "
            "can improve either at the price of the other."
        ),
        metrics={metric.name: metric, price.name: price},
        entries=[*parts, *means],
        part=part,
        series={names[entry.label]: entry.look for entry in means},
        family=family.name,
    )
    points = plot.points
    undrawn = [" of ".join(filter(None, (e.group, e.label))) for e in plot.entries if e not in points]
    left_out = f" Not drawn, because a rate is undefined or not measurable: {shorten(undrawn, _NAMED)}."
    return replace(plot, caption=plot.caption + left_out) if undrawn else plot


def _intervals(family: Family, entries: Sequence[Entry], metrics: Mapping[str, Metric], is_many: bool) -> Plot:
    """A panel for each metric. Its lines are the languages of few models; else models."""
    names, looks = short_names(entry.label for entry in entries), {entry.label: entry.look for entry in entries}
    has_parts, part = any(family.tasks), family.parts[:-1]
    by_part = has_parts and not is_many
    if has_parts and is_many:
        entries = [entry for entry in entries if not entry.is_part]
    lines: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.group == MEAN, entry.group)) if by_part else entries:
        lines.setdefault((entry.group, "" if by_part else entry.label), []).append(entry)

    def label_of(group: str, label: str) -> str:
        if by_part:
            return group if language_name(group) == group else f"{language_name(group)}  {group}"
        return names[label] + ("" if has_parts or not group else f" on {group}")

    return Plot(
        name=f"{family.name}_intervals",
        title=f"{f'By {part}' if by_part else 'By model'} ({family.name})",
        caption=(
            "Lines are 95 % bounds. A line without a mark spans more than half of the scale: the figure is not measurable. "
            "A figure without a line is undefined, or not in the run."
        ),
        metrics=metrics,
        entries=entries,
        part=part if has_parts else "system",
        series={names[label]: look for label, look in looks.items()} if by_part else {},
        lines=[Line(label_of(*key), of_line, by_part and key[0] == MEAN) for key, of_line in lines.items()],
    )
