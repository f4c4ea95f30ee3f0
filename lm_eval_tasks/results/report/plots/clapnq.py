"""CLAPnq: answer quality against length and caution, with and without the gold passage; and a judge's ratings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.results.report.plots import ranges, scatter
from lm_eval_tasks.results.report.plots.drawing import Axis, axis_of, short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Entry, Model, Plot, by_task, columns_of, not_drawn, rows_of

ANSWERED = ("rougeL", "length", "unanswerable_accuracy", "answerable_abstention_rate")
RETRIEVED = ("rougeL", "gold_retrieved")
ASPECTS = ("faithfulness", "appropriateness", "f_plus_a")
_WINS = "win_rate_"

_QUALITY, _LENGTH, _RIGHT, _PRICE = map(axis_of, ANSWERED)


def length(models: Sequence[Model]) -> Plot:
    """Answer quality against length."""
    metrics = (_QUALITY.metric, _LENGTH.metric)
    entries = by_task(models, metrics)
    return Plot(
        name="clapnq_length",
        title="Answer quality against length (CLAPnq)",
        caption=(
            "RougeL of the answers to answerable questions against their mean length. Two models of one quality differ in "
            "how many words they need for it. Lines are 95 % bounds." + not_drawn(entries)
        ),
        columns=("model", "task", *columns_of(*metrics)),
        rows=rows_of(entries),
        draw=lambda: _draw(entries, [(_LENGTH, _QUALITY)]),
    )


def caution(models: Sequence[Model]) -> Plot:
    """Unanswerable questions declined against answerable ones declined, and the effect on answer quality."""
    metrics = (_PRICE.metric, _RIGHT.metric, _QUALITY.metric)
    entries = by_task(models, metrics)
    return Plot(
        name="clapnq_caution",
        title="What caution brings, and its price (CLAPnq)",
        caption=(
            "Left: unanswerable questions that are declined, which is right, against answerable ones that are declined, "
            "which is the price; near the upper left corner is best. Right: RougeL over all answerable questions, declined "
            "ones too, against the same price. Lines are 95 % bounds." + not_drawn(entries)
        ),
        columns=("model", "task", *columns_of(*metrics)),
        rows=rows_of(entries),
        draw=lambda: _draw(entries, [(_PRICE, _RIGHT), (_PRICE, _QUALITY)]),
    )


def _draw(entries: Sequence[Entry], pairs: Sequence[tuple[Axis, Axis]]) -> Any:
    """A panel for each pair of metrics, with a dot for each model and task."""
    names = short_names(entry.model for entry in entries)
    dots = [entry._replace(group=_setting(entry.group)) for entry in entries]
    legend = {entry.colour: wrapped(names[entry.model], 60, 1) for entry in entries}
    return scatter.draw([scatter.Panel("", dots, x, y) for x, y in pairs], legend)


def _setting(task: str) -> str:
    """The task's name without the benchmark's: ``gold``, ``rag bge``."""
    return task.removeprefix("clapnq_").replace("_", " ")


def retrieval(models: Sequence[Model]) -> Plot:
    """Answers to questions whose gold passage was retrieved, and to those whose was missed."""
    cases = ("retrieved", "missed")
    rouge, declined = ([f"{metric}_{case}" for case in cases] for metric in (_QUALITY.metric, _PRICE.metric))
    metrics = (*rouge, *declined, "gold_retrieved")
    entries = by_task(models, metrics)

    def label(model: str, entry: Entry) -> str:
        counts = ", ".join(f"{entry.figures[metric].n} {case}" for metric, case in zip(rouge, cases, strict=True))
        return f"{model}\n{_setting(entry.group)}: {counts}"

    return Plot(
        name="clapnq_retrieval",
        title="Answers where the gold passage was retrieved, and where it was missed (CLAPnq)",
        caption=(
            "Answerable questions only. Left: RougeL. Right: questions declined, which is right where the passages do not "
            "hold the answer. Lines are 95 % bounds; of one question they have no width. A line without a mark spans more "
            "than half of the scale: not measurable. The counts are of questions."
        ),
        columns=("model", "task", *columns_of(*metrics)),
        rows=rows_of(entries),
        draw=lambda: ranges.draw(
            [
                _panel("answer quality", entries, rouge, label, _QUALITY._replace(limits=ranges.SHARE)),
                _panel("caution", entries, declined, label, _PRICE._replace(limits=ranges.PERCENT)),
            ],
            [f"gold passage {case}" for case in cases],
        ),
    )


def _panel(
    title: str, entries: Sequence[Entry], metrics: Sequence[str], label: Callable[[str, Entry], str], x: Axis
) -> ranges.Panel:
    """A panel with a line for each entry. `label` makes the line's label from the short name of its model and the entry."""
    names = short_names(entry.model for entry in entries)
    lines = [
        ranges.Line(label(wrapped(names[entry.model], 30), entry), [entry.figures[metric] for metric in metrics])
        for entry in entries
    ]
    return ranges.Panel(title, lines, x)


def ratings(models: Sequence[Model]) -> Plot:
    """A judge's ratings of systems' answers: the models are judges; the system is named if the results name it."""
    entries = []
    for entry, (_, _, family) in zip(by_task(models, ASPECTS), models, strict=True):
        files = family.any_task.provenance.get("local_files") or ()
        systems = [str(file["system"]) for file in files if isinstance(file, dict) and file.get("system")]
        entries.append(entry._replace(group=", ".join(dict.fromkeys(systems))))
    axis, names = Axis("rating", limits=(0.9, 4.1)), [metric_of(aspect).in_prose for aspect in ASPECTS]
    return Plot(
        name=f"{models[0].family.name}_ratings",
        title=f"A judge's ratings ({models[0].family.name})",
        caption=(
            "Means on a scale from 1 (no) to 4 (yes): is the answer faithful to its passages; does it look appropriate, "
            "useful, concise and complete. F+A: the harmonic mean of both. Lines are 95 % bounds over questions. "
            "A judge's ratings are as good as its agreement with people."
        ),
        columns=("judge", "system", *columns_of(*ASPECTS)),
        rows=rows_of(entries),
        draw=lambda: ranges.draw([_panel("", entries, ASPECTS, _judged, axis)], names),
    )


def comparisons(models: Sequence[Model]) -> Plot | None:
    """The share of comparisons that each system wins, by judge; ``None`` where there are none."""
    entries = [
        Entry(judge, colour, metric.removeprefix(_WINS), {"win_rate": family.drawable_mean(metric)})
        for judge, colour, family in models
        for metric in family.any_task.figures.get(family.filter, {})
        if metric.startswith(_WINS)
    ]
    axis = Axis("comparisons won (%)", 100, ranges.PERCENT)
    plot = Plot(
        name=f"{models[0].family.name}_wins",
        title=f"Comparisons won, by a judge ({models[0].family.name})",
        caption="The share of a system's comparisons that it wins; ties are no wins. Lines are 95 % bounds over questions.",
        columns=("judge", "system", *columns_of("win_rate")),
        rows=rows_of(entries),
        draw=lambda: ranges.draw([_panel("", entries, ["win_rate"], _judged, axis)], ["win rate"]),
    )
    return plot if entries else None


def _judged(judge: str, entry: Entry) -> str:
    return judge + (f"\non {wrapped(entry.group, 30, 1)}" if entry.group else "")
