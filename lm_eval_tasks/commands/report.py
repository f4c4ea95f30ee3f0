"""Write a page with headlines, plots, differences, documents and provenance.

Writes one HTML file that loads nothing: the headlines of each model and benchmark with bounds and doubts, plots, the
differences between models, documents to read, search and filter, and where every number comes from. `--format markdown`
writes a summary for a pull request instead.

Examples:
  lm-eval-grounded report results/MODEL_A results/MODEL_B -o report.html
  lm-eval-grounded report results/MODEL --format markdown
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import add_output, add_runs, print_or_write, runs_of, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, "; several for several models")
    add_output(parser, "FILE", "the page (default: report.html; markdown: standard output)")
    documents = "how many of each task to show, or `all` (default: 8, fewer where the page would exceed 4.8 MB)"
    parser.add_argument("--documents", type=_number, default=argparse.SUPPRESS, metavar="N", help=documents)
    parser.add_argument("--paper", action="store_true", help="published figures beside those of the runs")
    parser.add_argument("--png", type=Path, metavar="DIR", help="also write the plots as PNG")
    parser.add_argument("--svg", type=Path, metavar="DIR", help="also write the plots as SVG")
    parser.add_argument("--format", choices=("html", "markdown"), default="html", help="default: html")


def _number(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of documents; give 0 or more, or all")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from custom_metrics.usage.plain_errors import UsageError
    from lm_eval_tasks.data.atomic import check_place, check_writable
    from lm_eval_tasks.results.report import markdown_of, write_report
    from lm_eval_tasks.results.report.drawing import save
    from lm_eval_tasks.results.report.plots import plots_of

    printed = arguments.format == "markdown"
    path = arguments.output or Path("report.html")
    if not printed:
        check_place(path)
    for folder in (arguments.svg, arguments.png):
        if folder is not None:
            check_writable(folder)
    runs = runs_of(arguments)
    if arguments.png or arguments.svg:
        try:
            say(*save(plots_of(runs), arguments.svg, arguments.png))
        except ModuleNotFoundError as error:  # matplotlib
            raise UsageError(str(error)) from error
    if printed:
        print_or_write(markdown_of(runs), arguments.output)
        if arguments.output is None:
            return 0
    elif "documents" in arguments:
        write_report(runs, path, arguments.documents, None, arguments.paper)
    else:
        write_report(runs, path, paper=arguments.paper)
    say(path)
    return 0
