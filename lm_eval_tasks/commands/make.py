"""Make files of the data that a model made: questions, answers, inserted errors, translations.

The steps are harness tasks: `lm_eval --tasks mfava_make_queries_de --metadata '{"articles": "FILE"}' --log_samples`, then
mfava_make_answers_<language>, mfava_make_silver_<language> and mfava_translate_<language>.

`collect` reads their samples, checks every reply, and writes JSON lines: articles of the next step (the option
articles), or training data. `mirror` writes such files in the layout of mFAVA's public ones, for the option mirror.

Examples:
  lm-eval-grounded make collect results/MODEL -o questions.jsonl
  lm-eval-grounded make mirror texts.jsonl -o mirror
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import add_output, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("collect", "mirror"))
    parser.add_argument("places", nargs="+", type=Path, metavar="PATH", help="samples, or collected files (mirror)")
    add_output(parser, "PATH", "the file (collect) or the folder (mirror)", required=True)
    steps = ("queries", "answers", "silver", "translate")
    parser.add_argument("--step", choices=steps, help="collect: of samples of several steps, which")
    parser.add_argument("--faithful", action="store_true", help="collect: each text before its errors, too")


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.making.collect import collect, write_mirror

    if arguments.what == "mirror":
        tasks, unusable = write_mirror(arguments.places, arguments.output)
        for task, number in tasks.items():
            say(f"{task}: {number}")
        left_out = dict(unusable)
    else:
        collected = collect(arguments.places, arguments.output, arguments.step, arguments.faithful)
        rows = ", ".join(f"{number} {language}" for language, number in collected.rows.items())
        say(f"{collected.step}: {rows} of {collected.replies} replies")
        left_out = collected.left_out
    for reason, number in left_out.items():
        say(f"left out, {reason}: {number}")
    say(arguments.output)
    return 0
