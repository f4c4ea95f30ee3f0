"""Print the command behind a results file, and what differs here.

Prints the command that made a results file, and compares what its numbers depend on with what is here: versions, every
public file by its SHA-256, detector and calibration. Exit status 0 where all is the same, else 1.

Examples:
  lm-eval-grounded reproduce results/MODEL/results_DATE.json
  lm-eval-grounded reproduce results/MODEL/results_DATE.json --task nomiracl_de
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="RESULTS", help="results_*.json of `lm_eval` or of `score`")
    parser.add_argument("--task", metavar="T", help="one task or group of it (default: all)")
    parser.add_argument("--mirror", help="where the public files lie here (default: where the results say)")


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.results.reproduce import render_script, reproduce

    reproduction = reproduce(arguments.results, arguments.task, arguments.mirror)
    say(render_script(reproduction))
    return 0 if reproduction.same else 1
