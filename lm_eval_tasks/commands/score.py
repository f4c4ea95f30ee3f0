"""Tag and score the mfava_* and clapnq_* answers that `lm_eval --predict_only --log_samples` wrote.

Tags the logged answers of mfava_*, clapnq_gold* and clapnq_rag* tasks and writes results_*.json and samples_*.jsonl as the
harness does, with the numbers of a run in one step. After a kill the same command goes on where it stopped. Several
processes can share the tagging: `accelerate launch -m lm_eval_tasks.cli score ...`.

Examples:
  lm-eval-grounded score results/MODEL --detector lexical -o scored
  lm-eval-grounded score results/MODEL --marks marks-anna.jsonl -o marked
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval_tasks.commands import add_detector, add_output, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="samples file, or folder of them")
    add_detector(parser)
    parser.add_argument("--calibration", help="file of `calibrate`, a detector whose calibration ships, or `none`")
    which = "which calibration (default: the first of these that there is for the language; of clapnq_* rag alone)"
    parser.add_argument("--annotations", choices=("real", "pooled", "gold", "silver", "rag"), help=which)
    marks = "people's marks of some answers, as the page of `mark` saves them: adds marked_rate; with labels "
    marks += "marked_balanced_error and so on"
    parser.add_argument("--marks", type=Path, nargs="+", default=(), metavar="FILE", help=marks)
    draws = "count the first N draws of the marks only, where later ones are not marked"
    parser.add_argument("--complete-to", "--complete_to", type=int, metavar="N", help=draws)
    add_output(parser, help="default: the folder of the samples")


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.harness import make_table
    from lm_eval_tasks.results.score import score

    answers = arguments.path, arguments.detector, arguments.detector_args, arguments.calibration, arguments.annotations
    for written in score(*answers, arguments.output, arguments.marks, arguments.complete_to):
        results = in_file_order(json.loads(written.read_text("utf-8")))
        say(make_table(results))
        if results.get("groups"):
            say(make_table(results, "groups"))
        say(written)
    return 0


def in_file_order(results: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a results file, with keys that keep their order in the harness's table."""
    from lm_eval_tasks.harness.harness_results import ordered

    def in_order(metrics: Mapping[str, Any]) -> dict[str, Any]:
        names = dict.fromkeys(key.partition(",")[0] for key in metrics if "," in key and "_stderr," not in key)
        return ordered(metrics, list(names))

    keys = [key for key in ("results", "groups") if results.get(key)]
    return {**results, **{key: {name: in_order(metrics) for name, metrics in results[key].items()} for key in keys}}
