"""All of an `lm_eval` run but the answers: files, prompts, detector, calibration.

Takes the options of `lm_eval` (see `lm_eval run --help`) and does everything but generate: looks for every file (one
command fetches those that are missing), makes the documents and prompts, counts them by the model's tokenizer where that is
on this machine, loads detector and calibration, and shows a prompt. Nothing is downloaded. Exit status 0: the run can
start; 1: it cannot; 2: it is not a run.
"""

from __future__ import annotations

import argparse
import logging
import os

from lm_eval_tasks.commands import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own: what is not known here is the harness's."""
    parser.usage = "lm-eval-grounded check --tasks TASK[,TASK...] [any option of lm_eval]"
    parser.allow_abbrev = False
    parser.set_defaults(unknown=[])


def run(arguments: argparse.Namespace) -> int:
    # Both are read once, when the libraries are imported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    os.environ.setdefault("TQDM_DISABLE", "1")
    from lm_eval_tasks.commands.check.dry_run import check

    logging.getLogger("lm_eval").setLevel(logging.WARNING)
    report = check(arguments.unknown)
    for line in report.lines():
        say(line)
    return 0 if report.ready else 1
