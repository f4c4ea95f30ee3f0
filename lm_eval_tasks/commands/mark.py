"""Draw answers of runs, and write the page that people mark them on.

Draws answers of mfava_*, clapnq_gold* and clapnq_rag* tasks, or of a log that `detect LOG` read, with known chances, and
writes a page that an annotator opens in any browser, marks, and saves: no server, no network. With `--serve` the page is
on 127.0.0.1, and saves marks as one goes. `lm-eval-grounded score RUN --marks FILE...` then estimates the rate of the
whole run. Long answers are drawn more often. A draw of 100 answers begins with the draw of 50, if the seed is the same.
All runs get the same questions. `--kind ratings` and `--kind preferences` are the CLAPnq paper's human evaluation.
`--kind labels` asks whether an answer of NoMIRACL or CLAPnq answers or declines.

Examples:
  lm-eval-grounded mark results/MODEL --tasks mfava_de --answers 50 -o marking
  lm-eval-grounded mark results/MODEL_A results/MODEL_B --tasks clapnq_rag --kind preferences -o marking
"""

from __future__ import annotations

import argparse
import json
import math
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
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
    kinds = "spans: people mark what is made up (the default); of clapnq_* also ratings of an answer, from 1 to 4, and "
    kinds += "preferences between answers of two runs; of nomiracl_* and clapnq_* labels: it answers or declines"
    choices = ("spans", "ratings", "preferences", "labels")
    parser.add_argument("--kind", choices=choices, default="spans", help=kinds)
    parser.add_argument("--categories", action="store_true", help="mark parts with mFAVA's six categories")
    parser.add_argument("--suggest", action="store_true", help="show the detector's spans first; the marks say so")
    parser.add_argument("--instructions", type=Path, metavar="FILE.md", help="for annotators, instead of ours")
    earlier = "of an earlier session: says how long marking takes"
    parser.add_argument("--marks", type=Path, nargs="+", default=[], metavar="FILE", help=earlier)
    parser.add_argument("--format", choices=("page", "label-studio"), default="page", help="default: page")
    serve = "serve the pages on 127.0.0.1 instead, and save marks in the folder as one goes; Ctrl-C ends"
    parser.add_argument("--serve", action="store_true", help=serve)
    add_output(parser, required=True)


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.results.marks.draw import TaskAnswers, draw
    from lm_eval_tasks.results.marks.page import page_content
    from lm_eval_tasks.runs import read_runs

    kind = arguments.kind
    if kind != "spans" and (arguments.categories or arguments.suggest or arguments.format != "page"):
        raise UsageError(f"--categories, --suggest and --format label-studio go with --kind spans, not with {kind}")
    if (arguments.suggest or arguments.serve) and arguments.format != "page":
        raise UsageError(f"--{'suggest' if arguments.suggest else 'serve'} goes with --format page")
    instructions = ""
    if arguments.instructions:
        try:
            instructions = arguments.instructions.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{arguments.instructions}: no UTF-8 text ({error})") from error
    seconds = _mean_seconds(arguments.marks, kind)
    runs = read_runs(arguments.runs)
    named = [*runs[0].tasks] if arguments.tasks is None and len(runs[0].tasks) == 1 else split_names(arguments.tasks)
    tasks = dict.fromkeys(task for name in named for task in runs[0].groups.get(name, (name,)))
    if not tasks:
        raise UsageError(f"--tasks: name a task of the run: {', '.join(runs[0].tasks)}")
    if kind in ("ratings", "preferences") and (other := [task for task in tasks if not task.startswith("clapnq_")]):
        raise UsageError(f"--kind {kind} is of clapnq_gold* and clapnq_rag*, not of {', '.join(other)}")
    if kind == "preferences" and len(runs) != 2:
        raise UsageError(f"--kind preferences compares two runs; here are {len(runs)}")
    contents = []
    for task in tasks:
        answers = [TaskAnswers.of(run.model, _task_of(run, task), kind) for run in runs]
        if arguments.suggest and not all(each.is_tagged for each in answers):
            raise UsageError(
                f"{task}: no detector has read all answers, so none can suggest; `lm-eval-grounded score` first"
            )
        drawn = draw(answers, arguments.answers, arguments.seed, kind)
        contents.append(page_content(answers, drawn, kind, arguments.categories, arguments.suggest, instructions))
        say(*_expectations(answers, drawn, contents[-1], arguments.answers, seconds))
    if arguments.serve:
        _serve({_page_name(content, contents): content for content in contents}, arguments.output)
    else:
        say(*_write(contents, arguments.output, arguments.format))
    say(*_next_commands(arguments, contents))
    return 0


def _mean_seconds(marks: Iterable[Path], kind: str) -> float | None:
    """The mean time that an answer took in files of marks, in seconds; ``None`` where none was timed."""
    from lm_eval_tasks.results.marks.lines import read_rows

    rows = (row for path in marks for _, row in read_rows(path) if row.get("kind") == kind)
    times: list[Any] = [row.get("seconds") for row in rows]
    numbers = [time for time in times if type(time) in (int, float) and 0 < time < math.inf]
    return fmean(numbers) if numbers else None


def _page_name(content: dict[str, Any], contents: Sequence[dict[str, Any]]) -> str:
    task = f"_{content['file'].partition('_')[2]}" if len(contents) > 1 else ""
    return f"marking{task}.html"


def _serve(contents: dict[str, dict[str, Any]], folder: Path) -> None:
    """Serve the pages until Ctrl-C."""
    from lm_eval_tasks.results.marks.serving import MarkingServer

    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts a command with & has it ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    with MarkingServer(contents, folder) as server:
        say(*(f"{server.origin}{server.path}{name}" for name in contents))
        say(f"Open it in a browser of this computer. Marks are saved in {folder} after each answer; Ctrl-C ends.")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        with server.lock:  # what is being saved
            say("Ended; the same command goes on.")


def _write(contents: Sequence[dict[str, Any]], folder: Path, form: str) -> list[Path]:
    """Write a page for each content, or files for Label Studio to import; returns the paths."""
    from lm_eval_tasks.results.marks.lines import project
    from lm_eval_tasks.results.marks.page import marking_page

    files: dict[Path, str] = {}
    for content in contents:
        name = _page_name(content, contents)
        if form == "page":
            files[folder / name] = marking_page(content)
        else:
            task = name.removeprefix("marking").removesuffix(".html")
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


def _expectations(
    answers: Sequence[TaskAnswers], drawn: Draw, content: dict[str, Any], number: int, seconds: float | None
) -> Iterator[str]:
    """Lines about the draw: how wide bounds will be, and how long marking takes, of this number of answers and others."""
    from lm_eval_tasks.results.marks.draw import NUMBERS, expectations

    things = "pairs" if content["kind"] == "preferences" else "answers"
    documents = sum(chance > 0 for chance in drawn.chances.values())
    models = " and ".join(each.model for each in answers)
    yield f"{content['title']} ({len(drawn.order)} of {documents} documents of {models}, seed {drawn.seed})"
    for row in expectations(answers, drawn.seed, content["kind"], (number, *NUMBERS)):
        bounds = "" if math.isnan(row.width) else f", 95 % bounds about {row.width:.2f} wide"
        time = f", {row.items * seconds / 60:.0f} minutes" if seconds else ""
        yield f"  --answers {row.answers}: {row.items} {things} to mark{bounds}{time}"
    if content["kind"] == "spans" and not all(each.is_tagged for each in answers):
        yield "  no detector has read these answers yet: `score` runs one, whose reading makes bounds narrower"
    if seconds is None:
        yield "  no answer was timed yet: --marks FILE, of an earlier session, tells how long they take"


def _next_commands(arguments: argparse.Namespace, contents: Sequence[dict[str, Any]]) -> Iterator[str]:
    files = " ".join(f"{content['file']}_*.jsonl" for content in contents)
    if arguments.serve:
        yield "Then:"
        files = " ".join(shell_word(str(arguments.output / content["file"])) + "_*.jsonl" for content in contents)
    elif arguments.format == "page":
        yield "Send the page to an annotator, who opens it in a browser, and sends a file back. Then:"
    else:
        yield "Import the tasks into a project of Label Studio with this interface, and export it as JSON. Then:"
        files = "EXPORT.json"
    judge = {"ratings": "clapnq_judge", "preferences": "clapnq_judge_pairs"}.get(arguments.kind)
    if judge is None:
        for place in arguments.runs:
            yield f"  lm-eval-grounded score {shell_word(str(place))} --marks {files}"
        return
    places = [str(place) for place in arguments.runs]
    judged: Sequence[Any] = [places] if arguments.kind == "preferences" else places
    for number, samples in enumerate(judged, 1):  # of a judge's runs in one folder only the newest counts
        metadata = shell_word(json.dumps({"samples": samples}, ensure_ascii=False))
        yield (
            f"  lm_eval --tasks {judge} --model ... --metadata {metadata} --log_samples --output_path JUDGED/{number}"
        )
    yield f"  lm-eval-grounded score JUDGED --marks {files}"
