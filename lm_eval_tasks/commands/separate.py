"""Lay results out one folder a task, for a leaderboard's converter.

Writes below DIR/tasks one folder a task and run, with its results and samples alone, and below DIR/groups the averages of
groups, which have no samples. The files of the run stay as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import add_output, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="results file, or folder of them")
    add_output(parser, required=True)


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.commands.work.separating import separate

    say(*separate(arguments.path, arguments.output))
    return 0
