"""Compare two models or more: paired differences with bounds and p.

Joins the answers of runs by the content of their documents, and refuses runs whose documents, prompts or detectors differ.
Prints both values of each headline metric, their paired difference with 95 % bounds, and p, corrected by Holm where there
are several languages or pairs of models; and the smallest difference that so many documents show. A run is what `lm_eval
--output_path DIR --log_samples`, a replay or `lm-eval-grounded score` wrote. --paper adds the published figures of the same
tasks; one run is then enough.

Examples:
  lm-eval-grounded compare results/MODEL_A results/MODEL_B
  lm-eval-grounded compare results/ZERO_SHOT results/FIVE_SHOTS --across shots
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.commands import add_output, add_runs, print_or_write, runs_of, split_names

if TYPE_CHECKING:
    from lm_eval_tasks.definition.schema import Metric
    from lm_eval_tasks.published import PublishedComparison
    from lm_eval_tasks.results.compare import Comparison
    from lm_eval_tasks.results.formats import Section
    from lm_eval_tasks.runs import Run

FORMATS = ("text", "markdown", "latex", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, "; two runs or more in all")
    settings = (
        "version (of tasks), prompt, system_instruction, template (chat template), shots, retriever, detector, generation, "
        "all, model"
    )
    parser.add_argument("--across", metavar="S,...", help=f"runs may differ in these settings alone: {settings}")
    parser.add_argument("--pair", metavar="A=B", action="append", default=[], help="compare task A with B; repeatable")
    parser.add_argument("--tasks", metavar="T,...", help="tasks and groups (default: all that two runs have)")
    parser.add_argument("--metrics", metavar="M,...", help="default: the headline metrics of each benchmark")
    parser.add_argument("--all", action="store_true", help="all metrics")
    parser.add_argument("--filter", metavar="NAME", help="such as strict (default: robust, else a task's first)")
    parser.add_argument("--calibration", type=Path, metavar="FILE", help="file that the runs' rates were corrected by")
    parser.add_argument("--paper", action="store_true", help="published figures beside (--format csv: these alone)")
    needed = "how many documents a difference of D needs (power 80 %%)"
    parser.add_argument("--plan", type=float, metavar="D", help=needed)
    parser.add_argument("--short", action="store_true", help="one row and a verdict for each benchmark and language")
    parser.add_argument("--pairs", action="store_true", help="of three models or more, every pair and language")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    add_output(parser, metavar="FILE", help="default: standard output")


def run(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from lm_eval_tasks.results.joining import check_across
    from lm_eval_tasks.results.report import Report
    from lm_eval_tasks.runs import labels

    across = check_across(split_names(arguments.across))
    if arguments.calibration is not None:
        from detector_plugin import calibration

        calibration.load(str(arguments.calibration))
    runs = runs_of(arguments)
    tasks, metrics = split_names(arguments.tasks) or None, split_names(arguments.metrics) or None
    if arguments.paper and (across or arguments.pair or arguments.plan is not None):
        raise UsageError("--paper goes without --across, --pair and --plan: published figures are of one setting")
    if arguments.short and arguments.format in ("csv", "json"):
        raise UsageError("--short is for readers; --format csv and json have every difference")
    report = None
    if len(runs) > 1 or across or arguments.pair or not (arguments.paper or arguments.plan is not None):
        given = runs, tasks, metrics, arguments.all, arguments.filter
        bar = partial(tqdm, desc="compared", unit="task", disable=None, leave=False)
        report = Report.comparing(*given, progress=lambda tasks: iter(bar(tasks)), across=across, pairs=arguments.pair)
    comparison = report.comparison if report else None
    if arguments.paper:
        published = select_published(runs, tasks, metrics, arguments.all)
        text = render_with_paper(comparison, published, labels(runs), arguments.format)
    elif arguments.plan is not None:
        planned = plan(comparison or runs[0], arguments.plan, tasks, metrics)
        text = render_plan(*planned, arguments.plan, arguments.format)
    elif report is not None:
        text = report.to_text(arguments.format, pairs=arguments.pairs, short=arguments.short)
    print_or_write(text, arguments.output)
    return 0


# --------------------------------------------------------------------------- how many documents show a given difference

_OF_PAIRS = "By the variance of the paired differences seen; of several pairs, by the one that needs most."
_OF_ONE_RUN = (
    "One run has no pairs. Assumed is another run whose values vary as much, independently of these; two runs over equal "
    "documents mostly need fewer."
)

_Planned = tuple[str, "Metric", str, str, int, int, float, bool]
"""Of a difference: task or group, metric and filter; the unit, number of these and of documents; the standard error of a
difference over them, and whether that is one of shares."""


def plan(
    seen: Comparison | Run,
    difference: float,
    tasks: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The documents that show a difference with a power of 80 %, and notes on how they were computed.

    Args:
        seen: runs that were compared; or one run, which is planned by the standard errors of its results.
        difference: in the metrics' units. Headlines in characters, words or ratings are left out unless `metrics` has them.
        tasks, metrics: of a single run; default all tasks, and their headlines.

    Returns:
        A row for each task or group and metric: what was seen, the smallest difference that this shows (``detectable``),
        and what is ``needed``, in `unit` and in documents; ``None`` where nothing varies.

    Raises:
        UsageError: the difference is not larger than 0, or is none of shares and nothing else is planned; or there is
            nothing to plan.
    """
    from custom_metrics.statistics.paired_difference import detectable_difference, rows_needed
    from lm_eval_tasks.results.compare import Comparison

    if not (math.isfinite(difference) and difference > 0):
        raise UsageError(f"--plan takes a difference larger than 0, such as 0.02, got {difference:g}")
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    left_out: dict[str, None] = {}
    too_large: dict[str, None] = {}
    for task, metric, read_by, unit, n, documents, error, of_shares in (
        _seen(seen) if isinstance(seen, Comparison) else _assumed(seen, tasks, metrics)
    ):
        is_share = metric.unit in ("share", "score", "correlation")
        if not metrics and not is_share:
            left_out[f"{metric.name} is in {metric.unit.removesuffix('s')}s"] = None
        elif is_share and difference >= 1:
            too_large[f"{metric.name} differs by less than 1"] = None
        elif n:
            smallest = detectable_difference(error, n if of_shares else 0)
            needed = rows_needed(difference, n * error**2, of_shares) if error > 0 else None
            documents_needed = needed and math.ceil(needed * documents / n)
            planned = {"task": task, "metric": metric.name, "filter": read_by, "unit": unit, "n": n}
            planned |= {"documents": documents, "detectable": None if math.isnan(smallest) else smallest}
            planned |= {"needed": needed, "needed_documents": documents_needed}
            known = rows.setdefault((task, metric.name, read_by), planned)
            if (known["needed"] or 0) < (needed or 0):
                known |= planned
    if too_large and not rows:
        raise UsageError(f"--plan takes a difference of shares, such as 0.05 for 5 points, got {difference:g}")
    if not rows:
        raise UsageError("there is nothing to plan: no such task or metric has a standard error in the results")
    notes = [_OF_PAIRS if isinstance(seen, Comparison) else _OF_ONE_RUN]
    if too_large:
        notes.append(f"Left out: {', '.join(too_large)}.")
    if left_out:
        notes.append(f"Left out: {', '.join(left_out)} (--metrics NAME --plan D).")
    return [*rows.values()], notes


def _seen(comparison: Comparison) -> Iterator[_Planned]:
    for row in comparison.differences:
        counts = row.unit, row.result.n, row.documents, row.result.standard_error, row.of_shares
        yield row.column.name, row.metric, row.column.filter, *counts


def _assumed(run: Run, tasks: Collection[str] | None, metrics: Collection[str] | None) -> Iterator[_Planned]:
    """What is known of a single run, as if another was independent of it."""
    from lm_eval_tasks.results.board import reported_figure

    for name, members in (*run.groups.items(), *((name, (name,)) for name in run.tasks)):
        of_group = [run.tasks[member] for member in members]
        read_by = of_group[0].headline_filter
        for metric in of_group[0].metrics if not tasks or {name, *members} & {*tasks} else ():
            if metric.name in metrics if metrics else of_group[0].is_headline(metric.name):
                figure = reported_figure(of_group, metric.name, read_by)
                error = math.sqrt(2) * figure.standard_error
                yield name, metric, read_by, "documents", figure.n, figure.n, error, metric.is_share


def render_plan(rows: Sequence[dict[str, Any]], notes: Sequence[str], difference: float, form: str) -> str:
    """A plan as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``, with a line end."""
    from lm_eval_tasks.results.compare.tables import WITH_POWER
    from lm_eval_tasks.results.formats import Section, csv_of, json_of, number, render_sections

    if form in ("csv", "json"):
        return csv_of(rows) if form == "csv" else json_of({"difference": difference, "plan": rows, "notes": [*notes]})
    cells = []
    for row in rows:
        counts = []
        for n, documents in ((row["n"], row["documents"]), (row["needed"], row["needed_documents"])):
            of_others = "" if n is None or row["unit"] == "documents" else f" {row['unit']} ({documents:,} documents)"
            counts.append("-" if n is None else f"{n:,}{of_others}")
        shows = "-" if row["detectable"] is None else number(row["detectable"])
        cells.append(tuple(map(on_one_line, (row["task"], row["metric"], counts[0], shows, counts[1]))))
    before = (
        f"Documents that show a difference of {difference:g} {WITH_POWER}; where p is corrected for other comparisons, "
        "more are needed."
    )
    unknown = ["-: the values seen do not vary, or are too few."] if any(row["needed"] is None for row in rows) else []
    after = ("Shows: the smallest difference that the documents seen show with this power.", *unknown, *notes)
    header = ("task", "metric", "seen", "shows", f"{difference:g} needs")
    return render_sections([Section(header, tuple(cells), (before,), after)], form)


# --------------------------------------------------------------------------------------------- beside published figures


def select_published(
    runs: Sequence[Run], tasks: Sequence[str] | None = None, metrics: Sequence[str] | None = None, every: bool = False
) -> list[PublishedComparison]:
    """The published figures for tasks and metrics of one run or several, of which there is one (else a UsageError);
    arguments as of :func:`compare_runs`."""
    from lm_eval_tasks.published import all_rows, compare_with_published

    groups = {name: members for run in runs for name, members in run.groups.items()}
    task_names = None if tasks is None else {member for name in tasks for member in (name, *groups.get(name, ()))}
    by_name = {task.task: task for run in runs for task in run.tasks.values()}

    def is_asked(entry: PublishedComparison) -> bool:
        if task_names is not None and entry.task not in task_names:
            return False
        if metrics is not None:
            return entry.metric in metrics
        return every or entry.source.of == "retriever" or by_name[entry.task].is_headline(entry.metric)

    selected = [entry for entry in compare_with_published(runs) if is_asked(entry)]
    if not selected:
        sources = ", ".join(sorted({row.task.partition("_")[0] for row in all_rows()}))
        raise UsageError(
            f"there is no published figure beside these tasks and metrics; there are some of {sources} (all of them: "
            f"lm_eval_tasks/published/README.md)"
        )
    return selected


def render_with_paper(
    comparison: Comparison | None, published: Sequence[PublishedComparison], models: Sequence[str], form: str
) -> str:
    """A comparison (``None`` for a single run), followed by a table of published figures for each task and source.

    `form` is as of :func:`render`; models are the labels of the runs. A CSV file holds the published figures alone, as its
    columns are others than those of the comparison."""
    from lm_eval_tasks.results.compare.tables import differences_table, legend, letter_of
    from lm_eval_tasks.results.formats import csv_of, json_of, render_sections

    if form == "csv":
        return csv_of(_rows(published))
    if form == "json":
        return json_of({**({} if comparison is None else comparison.as_json()), "published": _rows(published)})
    letters = {model: letter_of(index) for index, model in enumerate(models)}
    by_source: dict[tuple[str, str], list[PublishedComparison]] = {}
    for entry in published:
        by_source.setdefault((entry.task, entry.source.name), []).append(entry)
    described: set[str] = set()
    tables = [] if comparison is None else [differences_table(comparison)]
    for (_, source), entries in by_source.items():
        tables.append(_section(entries, letters, source in described))
        described.add(source)
    if comparison is None:
        tables[0] = replace(tables[0], before=(*legend(models), *tables[0].before))
    return render_sections(tables, form)


def _section(entries: Sequence[PublishedComparison], letters: dict[str, str], described: bool) -> Section:
    from custom_metrics.statistics.figures import NOT_MEASURABLE, is_measurable
    from lm_eval_tasks.results.formats import Section, number, with_range

    first = entries[0]
    where = first.source.where.partition(";")[0]
    runs = list(dict.fromkeys(run for entry in entries for run in entry.figures))
    notes: dict[str, int] = {}
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        for run, figure in entry.figures.items():
            value = number(figure.value) if is_measurable(figure, entry.measured.unit) else NOT_MEASURABLE
            value = with_range(value, figure.low, figure.high)
            rows.append((entry.metric, f"{letters[run]} (this run)", value, *[""] * len(runs)))
        for row, against in entry.rows:
            cells = {}
            for delta in against:
                reasons = [f"not comparable: {why}" for why in delta.why_none]
                remarks = reasons or [*delta.differs_in, *filter(None, [delta.method])]
                numbers = ", ".join(str(notes.setdefault(note, len(notes) + 1)) for note in remarks)
                difference = with_range(number(delta.difference, sign=True), delta.low, delta.high, sign=True)
                text = "none" if delta.why_none else difference
                cells[delta.run] = f"{text} ({numbers})" if numbers else text
            shots = f", {row.num_fewshot} shots" if row.num_fewshot else ""
            name = f"{row.model}{shots}" + (f" ({row.task})" if row.task != entry.task else "")
            of = f" ({row.count}/{row.n})" if row.count is not None else ""
            spread = f" ± {number(row.spread)}" if row.count is None and row.spread is not None else ""
            value = f"{number(row.value)}{of}{spread}"
            rows.append((entry.metric, name, value, *(cells.get(run, "") for run in runs)))
    after = [f"({number}) {note}" for note, number in notes.items()]
    if all_of := next((entry.total for entry in entries if len(entry.rows) < entry.total), 0):
        after.append(f"Of {all_of} published figures: the first, the middle, the last, and those next to the runs.")
    filter_name = first.source.filter
    read_by = f" Answers are read by the filter {filter_name}." if len(first.run_filters) > 1 and filter_name else ""
    source = f"{first.task}: {first.source}. Measured on: {first.rows[0][0].measured_on}.{read_by}"
    header = ("metric", "model", "value", *(f"{letters[run]} - published" for run in runs))
    before = (on_one_line(f"{first.task}: {where}, as above." if described else source),)
    return Section(header, tuple(tuple(map(on_one_line, row)) for row in rows), before, tuple(map(on_one_line, after)))


_PUBLISHED = {name: name for name in ("model", "task", "split")} | {"shots": "num_fewshot"}
_PUBLISHED |= {name: name for name in ("value", "spread", "count", "n")}


def _rows(published: Sequence[PublishedComparison]) -> list[dict[str, Any]]:
    """A row for each published figure and run, for CSV and JSON; ``None`` for what is not defined."""
    rows = [
        {
            "task": entry.task,
            "metric": entry.metric,
            "filter": entry.source.filter,
            "run": delta.run,
            **{name: getattr(entry.figures[delta.run], name) for name in ("value", "low", "high", "n")},
            **{f"published_{name}": getattr(row, field) for name, field in _PUBLISHED.items()},
            "source": str(entry.source),
            "difference": delta.difference,
            "difference_low": delta.low,
            "difference_high": delta.high,
            "method": delta.method,
            "why_none": "; ".join(delta.why_none),
            "differs_in": "; ".join(delta.differs_in),
        }
        for entry in published
        for row, against in entry.rows
        for delta in against
    ]
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]
