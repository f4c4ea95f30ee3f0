"""Many runs on one static page: a table of models by benchmark and language, with ranks by significance.

Writes SITE/index.html, a page for each run, and all figures as leaderboard.csv and leaderboard.json, from all runs below
each FOLDER (results and samples files of lm_eval, replay or score), and prints the overview. The pages load nothing, and
work without JavaScript. Models without a significant difference share a rank. SITE keeps what was read of each run: the
next time only new runs are read.

Examples:
  lm-eval-grounded leaderboard results -o site
  lm-eval-grounded leaderboard results /data/more_results -o site --tags tags.csv --reports
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import add_cost, add_output, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="of runs; one in several counts once")
    parser.add_argument("--reports", action="store_true", help="write a report of each run too (some seconds each)")
    parser.add_argument("--tags", type=Path, metavar="CSV", help="columns model and others (size, ...) to show")
    parser.add_argument("--url", default="", help="address the site will have: links to it then show a picture")
    add_cost(parser)
    add_output(parser, "SITE", "folder of the site", required=True)


def run(arguments: argparse.Namespace) -> int:
    from custom_metrics.usage.printable import on_one_line
    from lm_eval_tasks.results.leaderboard import write_leaderboard

    site = write_leaderboard(
        arguments.folders, arguments.output, arguments.reports, arguments.tags, arguments.url, arguments.cost
    )
    say(site.overviews)
    say(f"{site.index}: {site.runs} runs, {site.updated} folders read")
    for folder, reason in site.unreadable.items():
        say(on_one_line(f"not read: {folder}: {reason}"))
    if site.untagged:
        say(on_one_line(f"--tags names models without a run: {', '.join(site.untagged)}"))
    return 0
