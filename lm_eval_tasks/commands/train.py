"""Train the lexical detector anew (needs LightGBM).

Trains the lexical detector on every annotated answer of a mirror, and once more without each language, and writes weights
and calibration. The same mirror gives the same bytes.
"""

from __future__ import annotations

import argparse

from lm_eval_tasks.commands import add_mirror, add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_mirror(parser)
    add_output(parser, help="default: the package's own weights are replaced")


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.commands.work.training import train_lexical

    for path in train_lexical(arguments.mirror, arguments.output):
        print(path)
    return 0
