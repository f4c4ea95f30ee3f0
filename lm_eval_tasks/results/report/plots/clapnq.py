"""CLAPnq: answer quality against length and caution, with and without the gold passage; and a judge's ratings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lm_eval_tasks.results.report.families import Family
from lm_eval_tasks.results.report.plots import ranges, scatter
from lm_eval_tasks.results.report.plots.drawing import short_names, wrapped
from lm_eval_tasks.results.report.plots.entries import Colours, Entry, Named, by_task, columns_of, not_drawn, rows_of
from lm_eval_tasks.results.report.plots.plot import Plot
from lm_eval_tasks.results.report.plots.scatter import Axis

__all__ = ["ANSWERED", "ASPECTS", "RETRIEVED", "caution", "comparisons", "length", "ratings", "retrieval", "wins"]

_WINS = "win_rate_"
ANSWERED = ("rougeL", "length", "unanswerable_accuracy", "answerable_abstention_rate")
RETRIEVED = ("rougeL", "gold_retrieved")
ASPECTS = ("faithfulness", "appropriateness", "f_plus_a")
_ASPECT_NAMES = ("faithfulness", "appropriateness", "both (harmonic mean)")
_AXES = {
    "rougeL": Axis("RougeL"),
    "length": Axis("length of an answer (characters)"),
    "unanswerable_accuracy": Axis("unanswerable questions declined (%)", 100),
    "answerable_abstention_rate": Axis("answerable questions declined (%)", 100),
}


def length(families: Sequence[Named], colours: Colours) -> Plot:
    """Answer quality against length."""
    metrics = ("rougeL", "length")
    entries = by_task(families, metrics)
    return Plot(
        name="clapnq_length",
        title="Answer quality against length (CLAPnq)",
        caption=(
            "RougeL of the answers to answerable questions against their mean length. Two models of one quality differ in "
            "how many words they need for it. Lines are 95 % bounds." + not_drawn(entries)
        ),
        columns=("model", "task", *columns_of(*metrics)),
        rows=rows_of(entries),
        draw=lambda: _draw(entries, colours, [("length", "rougeL")]),
    )


def caution(families: Sequence[Named], colours: Colours) -> Plot:
    """What caution brings against what it costs, and what is left of answer quality."""
    metrics = ("answerable_abstention_rate", "unanswerable_accuracy", "rougeL")
    entries = by_task(families, metrics)
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
        draw=lambda: _draw(entries, colours, [(metrics[0], metrics[1]), (metrics[0], metrics[2])]),
    )


def _draw(entries: Sequence[Entry], colours: Colours, pairs: Sequence[tuple[str, str]]) -> Any:
    """A panel for each two metrics, with a dot for each model and task."""
    names = short_names(entry.model for entry in entries)
    panels = [
        scatter.Panel(
            "",
            [scatter.Dot(_setting(task), figures[x], figures[y], colours[model]) for model, task, figures in entries],
            _AXES[x],
            _AXES[y],
        )
        for x, y in pairs
    ]
    legend = {colours[model]: wrapped(name, 60, 1) for model, name in names.items()}
    return scatter.draw(panels, legend, same_scale=False)


def _setting(task: str) -> str:
    """A task without the benchmark's name: ``gold``, ``rag bge``."""
    return task.removeprefix("clapnq_").replace("_", " ")


def retrieval(families: Sequence[Named]) -> Plot:
    """Answers where the gold passage was among those given, and where it was missed."""
    parts = ("retrieved", "missed")
    rouge, declined = ([f"{metric}_{part}" for part in parts] for metric in ("rougeL", "answerable_abstention_rate"))
    metrics = (*rouge, *declined, "gold_retrieved")
    entries = by_task(families, metrics)

    def label(model: str, entry: Entry) -> str:
        counts = ", ".join(f"{entry.figures[metric].n} {part}" for metric, part in zip(rouge, parts, strict=True))
        return f"{model}\n{_setting(entry.part)}: {counts}"

    percent = Axis("questions declined (%)", 100, ranges.PERCENT)
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
                _panel("answer quality", entries, rouge, label, Axis("RougeL", limits=ranges.SHARE)),
                _panel("caution", entries, declined, label, percent),
            ],
            [f"gold passage {part}" for part in parts],
        ),
    )


def _panel(
    title: str, entries: Sequence[Entry], metrics: Sequence[str], label: Callable[[str, Entry], str], x: Axis
) -> ranges.Panel:
    """A panel with a line for each entry, called what `label` makes of the short name of its model and of the entry."""
    names = short_names(entry.model for entry in entries)
    lines = [
        ranges.Line(label(wrapped(names[entry.model], 30), entry), [entry.figures[metric] for metric in metrics])
        for entry in entries
    ]
    return ranges.Panel(title, lines, x)


def _judged(judge: str, entry: Entry) -> str:
    return judge + (f"\non {wrapped(entry.part, 30, 1)}" if entry.part else "")


def ratings(families: Sequence[Named]) -> Plot:
    """Ratings of systems' answers, where a family's model is the judge."""
    entries = [
        entry._replace(part=_rated_system(family))
        for entry, (_, family) in zip(by_task(families, ASPECTS), families, strict=True)
    ]
    family_name = families[0][1].name
    axis = Axis("rating", limits=(0.9, 4.1))
    return Plot(
        name=f"{family_name}_ratings",
        title=f"A judge's ratings ({family_name})",
        caption=(
            "Means on a scale from 1 (no) to 4 (yes): is the answer faithful to its passages; does it look appropriate, "
            "useful, concise and complete. Lines are 95 % bounds over questions. A judge's ratings are as good as its "
            "agreement with people."
        ),
        columns=("judge", "system", *columns_of(*ASPECTS)),
        rows=rows_of(entries),
        draw=lambda: ranges.draw([_panel("", entries, ASPECTS, _judged, axis)], _ASPECT_NAMES),
    )


def _rated_system(family: Family) -> str:
    """Whose answers were rated, where the results say so."""
    files = family.any.provenance.get("local_files") or ()
    systems = [str(file["system"]) for file in files if isinstance(file, dict) and file.get("system")]
    return ", ".join(dict.fromkeys(systems))


def wins(families: Sequence[Named]) -> list[Entry]:
    """The share of its comparisons that each system wins with each judge."""
    return [
        Entry(judge, metric.removeprefix(_WINS), {"win_rate": family.drawn_mean(metric, family.any.headline_filter)})
        for judge, family in families
        for metric in family.any.figures.get(family.any.headline_filter, {})
        if metric.startswith(_WINS)
    ]


def comparisons(families: Sequence[Named]) -> Plot:
    """The plot of :func:`wins`."""
    entries = wins(families)
    family_name = families[0][1].name
    axis = Axis("comparisons won (%)", 100, ranges.PERCENT)
    return Plot(
        name=f"{family_name}_wins",
        title=f"Comparisons won, by a judge ({family_name})",
        caption="The share of a system's comparisons that it wins; ties are no wins. Lines are 95 % bounds over questions.",
        columns=("judge", "system", *columns_of("win_rate")),
        rows=rows_of(entries),
        draw=lambda: ranges.draw([_panel("", entries, ["win_rate"], _judged, axis)], ["win rate"]),
    )
