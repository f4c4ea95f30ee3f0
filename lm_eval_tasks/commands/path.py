"""Print the task folder, for `lm_eval --include_path`.

Examples:
  lm-eval-grounded path
  lm-eval-grounded path | xargs lm_eval ls tasks --include_path
"""

from __future__ import annotations

import argparse

from lm_eval_tasks.commands import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.harness.autoload import task_folder

    say(task_folder())
    return 0
