"""Draw answers of runs, and write the page that people mark them on.

Draws answers of mfava_*, clapnq_gold* and clapnq_rag* tasks, or of a log that `detect LOG` read, with known chances, and
writes a page that an annotator opens in any browser, marks, and saves: no server, no network. `lm-eval-grounded score RUN
--marks FILE...` then estimates the rate of the whole run. Long answers are drawn more often. A draw of 100 answers begins
with the draw of 50, if the seed is the same. All runs get the same questions. `--kind labels` asks whether an answer of
NoMIRACL or CLAPnq answers or declines.

Examples:
  lm-eval-grounded mark results/MODEL --tasks mfava_de --answers 50 -o marking
  lm-eval-grounded mark results/MODEL_A results/MODEL_B --tasks nomiracl_sw --kind labels -o labelling
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import shell_word
from lm_eval_tasks.commands import add_output, print_or_write, say, split_names

if TYPE_CHECKING:
    from lm_eval_tasks.results.marks.draw import Draw, TaskAnswers
    from lm_eval_tasks.runs import Run, TaskRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder, results file or samples file")
    parser.add_argument("--tasks", metavar="T,...", help="whose answers are drawn (default: the only task of a run)")
    parser.add_argument("--answers", type=int, default=50, metavar="N", help="to mark, of each run (default: 50)")
    parser.add_argument("--seed", type=int, default=1234, help="of the draw (default: 1234)")
    kinds = (
        "spans: people mark what is made up (the default); labels, of nomiracl_* and clapnq_*: it answers or declines"
    )
    parser.add_argument("--kind", choices=("spans", "labels"), default="spans", help=kinds)
    parser.add_argument("--categories", action="store_true", help="mark parts with mFAVA's six categories")
    parser.add_argument("--suggest", action="store_true", help="show the detector's spans first; the marks say so")
    parser.add_argument("--instructions", type=Path, metavar="FILE.md", help="for annotators, instead of ours")
    parser.add_argument("--format", choices=("page", "label-studio"), default="page", help="default: page")
    add_output(parser, required=True)


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.results.marks.draw import TaskAnswers, draw
    from lm_eval_tasks.results.marks.page import page_content
    from lm_eval_tasks.runs import read_runs

    kind = arguments.kind
    if kind != "spans" and (arguments.categories or arguments.suggest or arguments.format != "page"):
        raise UsageError(f"--categories, --suggest and --format label-studio go with --kind spans, not with {kind}")
    if arguments.suggest and arguments.format != "page":
        raise UsageError("--suggest goes with --format page")
    instructions = ""
    if arguments.instructions:
        try:
            instructions = arguments.instructions.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{arguments.instructions}: no UTF-8 text ({error})") from error
    runs = read_runs(arguments.runs)
    named = [*runs[0].tasks] if arguments.tasks is None and len(runs[0].tasks) == 1 else split_names(arguments.tasks)
    tasks = dict.fromkeys(task for name in named for task in runs[0].groups.get(name, (name,)))
    if not tasks:
        raise UsageError(f"--tasks: name a task of the run: {', '.join(runs[0].tasks)}")
    contents = []
    for task in tasks:
        answers = [TaskAnswers.of(run.model, _task_of(run, task), kind) for run in runs]
        if arguments.suggest and not all(each.is_tagged for each in answers):
            raise UsageError(
                f"{task}: no detector has read all answers, so none can suggest; `lm-eval-grounded score` first"
            )
        drawn = draw(answers, arguments.answers, arguments.seed)
        contents.append(page_content(answers, drawn, arguments.categories, arguments.suggest, instructions))
        say(*_expectations(answers, drawn, contents[-1], arguments.answers))
    say(*_write(contents, arguments.output, arguments.format))
    say(*_next_commands(arguments, contents))
    return 0


def _write(contents: Sequence[dict[str, Any]], folder: Path, form: str) -> list[Path]:
    """Write a page for each content, or files for Label Studio to import; returns the paths."""
    from lm_eval_tasks.results.marks.lines import project
    from lm_eval_tasks.results.marks.page import marking_page

    files: dict[Path, str] = {}
    for content in contents:
        task = f"_{content['file'].partition('_')[2]}" if len(contents) > 1 else ""
        if form == "page":
            files[folder / f"marking{task}.html"] = marking_page(content)
        else:
            tasks, interface = project(content)
            files[folder / f"tasks{task}.json"] = json.dumps(tasks, ensure_ascii=False, indent=1)
            files[folder / f"interface{task}.xml"] = interface
    for path, text in files.items():
        print_or_write(text, path)
    return [*files]


def _task_of(run: Run, name: str) -> TaskRun:
    from lm_eval_tasks.definition.catalogue import hint

    if name not in run.tasks:
        near = hint([name], [*run.groups, *run.tasks])
        raise UsageError(f"{run.folder}: the run of {run.model} has no {name}{near}; it has {', '.join(run.tasks)}")
    return run.tasks[name]


def _expectations(answers: Sequence[TaskAnswers], drawn: Draw, content: dict[str, Any], number: int) -> Iterator[str]:
    """Lines about the draw: how wide bounds will be, of this number of answers and others."""
    from lm_eval_tasks.results.marks.draw import NUMBERS, expectations

    documents = sum(chance > 0 for chance in drawn.chances.values())
    models = " and ".join(each.model for each in answers)
    yield f"{content['title']} ({len(drawn.order)} of {documents} documents of {models}, seed {drawn.seed})"
    for row in expectations(answers, drawn.seed, (number, *NUMBERS)):
        bounds = "" if math.isnan(row.width) else f", 95 % bounds about {row.width:.2f} wide"
        yield f"  --answers {row.answers}: {row.items} answers to mark{bounds}"
    if content["kind"] == "spans" and not all(each.is_tagged for each in answers):
        yield "  no detector has read these answers yet: `score` runs one, whose reading makes bounds narrower"


def _next_commands(arguments: argparse.Namespace, contents: Sequence[dict[str, Any]]) -> Iterator[str]:
    files = " ".join(f"{content['file']}_*.jsonl" for content in contents)
    if arguments.format == "page":
        yield "Send the page to an annotator, who opens it in a browser, and sends a file back. Then:"
    else:
        yield "Import the tasks into a project of Label Studio with this interface, and export it as JSON. Then:"
        files = "EXPORT.json"
    for place in arguments.runs:
        yield f"  lm-eval-grounded score {shell_word(str(place))} --marks {files}"
