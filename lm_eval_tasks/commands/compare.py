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
from pathlib import Path

from lm_eval_tasks.commands import add_output, add_runs, print_or_write, runs_of, split_names

FORMATS = ("text", "markdown", "latex", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, "; two runs or more in all")
    settings = (
        "prompt, system_instruction, template (chat template), shots, retriever, detector, generation, all, model"
    )
    parser.add_argument("--across", metavar="S,...", help=f"runs may differ in these settings alone: {settings}")
    parser.add_argument("--pair", metavar="A=B", action="append", default=[], help="compare task A with B; repeatable")
    parser.add_argument("--tasks", metavar="T,...", help="tasks and groups (default: all that two runs have)")
    parser.add_argument("--metrics", metavar="M,...", help="default: the headline metrics of each benchmark")
    parser.add_argument("--all", action="store_true", help="all metrics")
    parser.add_argument("--filter", metavar="NAME", help="such as strict (default: robust, else a task's first)")
    parser.add_argument("--calibration", type=Path, metavar="FILE", help="file that the runs' rates were corrected by")
    parser.add_argument("--paper", action="store_true", help="published figures beside (--format csv: these alone)")
    parser.add_argument(
        "--plan", type=float, metavar="D", help="how many documents a difference of D needs (power 80 %%)"
    )
    parser.add_argument("--short", action="store_true", help="one row and a verdict for each benchmark and language")
    parser.add_argument("--pairs", action="store_true", help="of three models or more, every pair and language")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    add_output(parser, metavar="FILE", help="default: standard output")


def run(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from custom_metrics.usage.plain_errors import UsageError
    from detector_plugin import calibration
    from lm_eval_tasks.results.compare import compare_runs
    from lm_eval_tasks.results.compare.beside_paper import render_with_paper, select_published
    from lm_eval_tasks.results.compare.planning import plan, render_plan
    from lm_eval_tasks.results.compare.tables import render, short_table
    from lm_eval_tasks.results.formats import render_sections
    from lm_eval_tasks.results.joining import check_across
    from lm_eval_tasks.runs import labels

    across = check_across(split_names(arguments.across))
    if arguments.calibration is not None:
        calibration.load(str(arguments.calibration))
    runs = runs_of(arguments)
    tasks, metrics = split_names(arguments.tasks) or None, split_names(arguments.metrics) or None
    if arguments.paper and (across or arguments.pair or arguments.plan is not None):
        raise UsageError("--paper goes without --across, --pair and --plan: published figures are of one setting")
    if arguments.short and arguments.format in ("csv", "json"):
        raise UsageError("--short is for readers; --format csv and json have every difference")
    comparison = None
    if len(runs) > 1 or across or arguments.pair or not (arguments.paper or arguments.plan is not None):
        comparison = compare_runs(
            runs,
            tasks,
            metrics,
            arguments.all,
            arguments.filter,
            progress=lambda tasks: iter(tqdm(tasks, "compared", unit="task", disable=None, leave=False)),
            across=across,
            pairs=arguments.pair,
        )
    if arguments.paper:
        published = select_published(runs, tasks, metrics, arguments.all)
        text = render_with_paper(comparison, published, labels(runs), arguments.format)
    elif arguments.plan is not None:
        planned = plan(comparison or runs[0], arguments.plan, tasks, metrics)
        text = render_plan(*planned, arguments.plan, arguments.format)
    elif comparison is not None and arguments.short:
        text = render_sections([short_table(comparison)], arguments.format)
    elif comparison is not None:
        text = render(comparison, arguments.format, arguments.pairs)
    print_or_write(text, arguments.output)
    return 0
