"""The plots of a report, each with its data as a table: every metric that the report has a sentence for, with its bounds;
and two metrics that are traded against each other. The tables of the benchmarks name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import UNDEFINED, Figure
from custom_metrics.statistics.units import NOT_MEASURABLE
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.formats import short_names
from lm_eval_tasks.results.report import drawing
from lm_eval_tasks.results.report.drawing import Axis, Plot, Row, wrapped
from lm_eval_tasks.results.report.headlines import MANY, MEAN, Family, families, language_name
from lm_eval_tasks.runs import Run, labels

_LIMITS = {
    "share": drawing.SHARE_LIMITS,
    "score": drawing.SHARE_LIMITS,
    "correlation": (-1.03, 1.03),
    "rating": (0.9, 4.1),
}
_NAMED = 6  # points in a caption


class _Entry(NamedTuple):
    """A model's figures by metric. Those that are not measurable have bounds and no value."""

    label: str  # of the model
    look: int  # the number of its colour and marker, which are the same in every plot
    group: str  # a language or MEAN; the system that a judge judged; or empty
    figures: Mapping[str, Figure]


def plots_of(runs: Sequence[Run]) -> list[Plot]:
    """The plots of the tasks in some runs, in the order of the tasks. A picture is drawn when it is needed. Tasks of other
    benchmarks have no plot, nor have families without a defined figure."""
    by_family: dict[str, list[tuple[str, int, Family]]] = {}
    for look, (run, label) in enumerate(zip(runs, labels(runs), strict=True)):
        for family in families(run):
            if family.any_task.table is not None:
                by_family.setdefault(family.name, []).append((label, look, family))
    plots: list[Plot] = []
    for models in by_family.values():
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
        judged = ", ".join(
            dict.fromkeys(str(file["system"]) for file in files if isinstance(file, dict) and "system" in file)
        )
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
    languages = [entry for entry in entries if len(means) < MANY and entry is not means[entry.label]]
    shown = [*languages, *means.values()]
    undrawn = [" of ".join(filter(None, (entry.group, entry.label))) for entry in shown if not _is_drawn(entry, pair)]

    def draw() -> Any:
        picture, (axes,) = drawing.subplots([""], 4.4, 4.2)
        for entry in (entry for entry in shown if _is_drawn(entry, pair)):
            x, y = (entry.figures[name] for name in pair)
            style = {**drawing.marker_style(entry.look), "linestyle": "none"}
            if entry in languages:
                axes.plot(x.value, y.value, **{**style, "markersize": 3, "alpha": 0.5})
            else:
                axes.plot(x.value, y.value, **style)
                axes.hlines(y.value, x.low, x.high, color=style["color"])
                axes.vlines(x.value, y.low, y.high, color=style["color"])
        end = max(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.set(xlim=(-0.04 * end, end), ylim=(-0.04 * end, end), xlabel=metric.heading, ylabel=price.heading)
        if metric.unit == price.unit == "share":
            axes.xaxis.set_major_formatter(drawing.PERCENT)
            axes.yaxis.set_major_formatter(drawing.PERCENT)
        names = short_names(means)
        looks = [(wrapped(names[label], 60, 1), drawing.marker_style(entry.look)) for label, entry in means.items()]
        drawing.legend(picture, looks)
        return picture

    left_out = f" Not drawn, because a rate is undefined or not measurable: {shorten(undrawn, _NAMED)}."
    point = "the mean of a model over its languages" if len(family.tasks) > 1 else "a model"
    return Plot(
        name=f"{family.name}_trade_off",
        title=f"{metric.heading} / {price.heading} ({family.name})",
        caption=(
            f"A point with 95 % bounds is {point}{'; a small point is one language' if languages else ''}. To the right: "
            f"{metric.heading} ({metric.better} is better). Upwards: {price.heading} ({price.better} is better). A model "
            f"can improve either at the price of the other.{left_out if undrawn else ''}"
        ),
        columns=("model", "language", *_columns_of(pair)),
        rows=_rows_of(shown, pair),
        draw=draw,
        shares=frozenset(each.name for each in (metric, price) if each.unit == "share"),
        family=family.name,
    )


def _intervals(family: Family, entries: Sequence[_Entry], metrics: Mapping[str, Metric], is_many: bool) -> Plot:
    """A panel for each metric. Its lines are the languages of few models; else models."""
    names, looks = short_names(entry.label for entry in entries), {entry.label: entry.look for entry in entries}
    has_languages = bool(family.any_task.language)
    by_language = has_languages and not is_many
    if has_languages and is_many:
        entries = [*{entry.label: entry for entry in entries}.values()]  # the means
    lines: dict[tuple[str, str], list[_Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.group == MEAN, entry.group)) if by_language else entries:
        lines.setdefault((entry.group, "" if by_language else entry.label), []).append(entry)

    def line_of(entries: Sequence[_Entry], name: str) -> drawing.Line:
        label, _, group, _ = entries[0]
        is_mean = by_language and group == MEAN
        if by_language:
            text = group if is_mean else f"{language_name(group)}  {group}"
        else:
            text = wrapped(names[label], 30) + ("" if has_languages or not group else f"\non {wrapped(group, 30, 1)}")
        figures = [entry.figures.get(name, UNDEFINED) for entry in entries]
        return drawing.Line(text, figures, is_mean, [entry.look for entry in entries])

    def draw() -> Any:
        panels = [
            drawing.Panel(
                wrapped(metric.title or name.replace("_", " "), 34),
                [line_of(entries, name) for entries in lines.values()],
                Axis("" if metric.unit == "share" else metric.unit, _LIMITS.get(metric.unit), metric.unit == "share"),
            )
            for name, metric in metrics.items()
        ]
        series = looks if by_language else {}
        return drawing.draw_lines(panels, [wrapped(names[label], 60, 1) for label in series], [*series.values()])

    return Plot(
        name=f"{family.name}_intervals",
        title=f"{'By language' if by_language else 'By model'} ({family.name})",
        caption=(
            "Lines are 95 % bounds. A line without a mark spans more than half of the scale: the figure is not measurable. "
            "A figure without a line is undefined, or not in the run."
        ),
        columns=("model", "language" if has_languages else "system", *_columns_of(metrics)),
        rows=_rows_of(entries, metrics),
        draw=draw,
        shares=frozenset(name for name, metric in metrics.items() if metric.unit == "share"),
    )


def _is_unknown(figure: Figure) -> bool:
    """Whether a figure without a value is not measurable; an undefined one has no bounds either."""
    return math.isnan(figure.value) and not math.isnan(figure.low + figure.high)


def _is_drawn(entry: _Entry, metrics: Iterable[str]) -> bool:
    return not any(math.isnan(entry.figures.get(metric, UNDEFINED).value) for metric in metrics)


def _columns_of(metrics: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{metric}{ending}" for metric in metrics for ending in ("", "_low", "_high", "_n"))


def _rows_of(entries: Iterable[_Entry], metrics: Iterable[str]) -> tuple[Row, ...]:
    """A row for each entry: model, group, and the cells of :func:`_columns_of`."""
    rows: list[Row] = []
    for entry in entries:
        cells: list[str | float | int | None] = []
        for figure in (entry.figures.get(name, UNDEFINED) for name in metrics):
            value, low, high = (None if math.isnan(number) else number for number in figure[:3])
            cells += [NOT_MEASURABLE if _is_unknown(figure) else value, low, high, figure.n]
        rows.append((entry.label, entry.group, *cells))
    return tuple(rows)
