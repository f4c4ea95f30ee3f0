"""Make a calibration file from runs of mushroom_* and mfava_detection_*.

Reads the samples of detection runs and writes the detector's precision, recall, false positive rate, prevalence and word
counts of each document, by language.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import add_output, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="*", metavar="RESULTS", help="folders or samples files of the runs")
    add_output(parser, "FILE")
    parser.add_argument(
        "--check",
        metavar="CALIBRATION",
        help="instead: hold the estimates with a calibration (file, or detector whose ships) against its real answers",
    )
    parser.add_argument("--note", default="", help="kept in the file")


def run(arguments: argparse.Namespace) -> int:
    if arguments.check:
        if arguments.results or arguments.output is not None or arguments.note:
            raise ValueError(
                f"calibrate --check {arguments.check} reads that calibration alone, and writes none. Leave out the "
                f"results, -o and --note; or write a calibration of the results (-o FILE), then --check FILE"
            )
        return _check(arguments.check)
    if not arguments.results or arguments.output is None:
        raise ValueError("calibrate: name the results of detection runs, and the file to write with -o")
    from lm_eval_tasks.commands.work.calibrating import calibration_from_runs, table
    from lm_eval_tasks.data.atomic import whole_file

    calibration = calibration_from_runs(arguments.results, arguments.note)
    with whole_file(arguments.output) as partial:
        calibration.save(partial)
    say(table(calibration))
    say(f"{arguments.output}: detector {calibration.detector['name']}, version {calibration.detector['version']}")
    return 0


def _check(calibration: str) -> int:
    from detector_plugin.calibration import load
    from lm_eval_tasks.mfava import cells

    found = cells.cells(load(calibration))
    if not found:
        raise ValueError(
            f"{calibration} has real answers in fewer than three languages, or no model with {cells.FEWEST} of "
            f"them; measure them with `lm_eval --model hallucination-detector --tasks mushroom ...`"
        )
    say(cells.table(found))
    return 0
