"""Print the command behind a results file, and what differs here.

Prints the command that made a results file, and compares what its numbers depend on with what is here: versions, every
public file by its SHA-256, detector and calibration. Public files are looked for where the results say, or where
LM_EVAL_GROUNDED_MIRROR says. Exit status 0 where all is the same, else 1.

Examples:
  lm-eval-grounded reproduce results/MODEL/results_DATE.json
  lm-eval-grounded reproduce results/MODEL/results_DATE.json | sh
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="RESULTS", help="results_*.json of `lm_eval` or of `score`")


def run(arguments: argparse.Namespace) -> int:
    from custom_metrics.usage.printable import on_one_line
    from lm_eval_tasks.results.reproduce import commands_of, differences, read_recorded

    recorded = read_recorded(arguments.results)
    commands, notes = commands_of(recorded)
    differing = differences(recorded, arguments.results)
    reasons = dict.fromkeys(why for record in recorded.records.values() for why in record.get("not_comparable", ()))
    notes += [f"Not comparable with the published figures: {'; '.join(reasons)}."] if reasons else []
    notes += [f"differs here: {line}" for line in differing] or ["Versions and files are the same here."]
    before, after = ([f"# {on_one_line(line)}" for line in lines] for lines in ([", ".join(recorded.records)], notes))
    say("\n".join([*before, *commands, *after]))
    return 0 if commands and not differing else 1
