"""Rank detectors on all answers that people marked, on one page.

Runs each detector by `lm_eval` over the sets whose files are there: Mu-SHROOM, MEMERAG, mFAVA gold, RAGTruth, FaithBench. A
detector is first tried on one answer of each set. A run that was stopped goes on where it stopped, and a finished one is
kept. DIR/index.html ranks all detectors that DIR has, beside published figures; the command prints where the named ones
stand. Four that need no download are always among them. Further options are those of `lm_eval`.

Examples:
  lm-eval-grounded arena KRLabsOrg/lettucedect-v2-mmbert-base -o arena
  lm-eval-grounded arena my/detector,threshold=0.4 another/detector --mirror mirror
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import PlainError, UsageError
from custom_metrics.usage.secrets import blank
from detector_plugin.detector import DEFAULT_DETECTOR
from lm_eval_tasks.commands import add_mirror, add_output, say

if TYPE_CHECKING:
    from lm_eval_tasks.runs import Run

SETS = {
    "Mu-SHROOM": "mushroom",
    "MEMERAG": "memerag",
    "mFAVA gold": "mfava_detection_gold",
    "RAGTruth": "ragtruth",
    "FaithBench": "faithbench",
}
"""Sets of answers that people marked, to their group or task."""

HELD_OUT = f"{DEFAULT_DETECTOR},held_out=True"  # its weights that ship were trained on Mu-SHROOM
REFERENCES = (HELD_OUT, "flag-unseen", "flag-all", "flag-none")
_BYTES = {"GB": 1e9, "MB": 1e6, "kB": 1e3}
_OF_COLUMN = ("benchmark", "group", "column", "metric")
_WEIGHTS = ("*.safetensors", "*.bin", "*")  # the first that finds a file: a repository may have several forms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    detectors = "with their options, as in --model_args detector=..."
    parser.add_argument("detectors", nargs="*", metavar="NAME_OR_PATH[,OPTION=VALUE...]", help=detectors)
    parser.add_argument("--tasks", metavar="TASK,...", help="some detection tasks or groups, not all sets")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N answers of each task, to try the command")
    add_mirror(parser)
    add_output(parser, "DIR", "folder of the runs and of the page (default: arena)")
    parser.allow_abbrev = False
    parser.set_defaults(unknown=[], output=Path("arena"))


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.results.leaderboard import write_leaderboard

    named = [checked(typed) for typed in arguments.detectors]
    tasks = tasks_there(arguments.tasks, arguments.mirror)
    every = [task for of_set in tasks.values() for task in of_set]
    shared = [
        *(["--metadata", json.dumps({"mirror": arguments.mirror})] if arguments.mirror else []),
        *arguments.unknown,
    ]
    runs: Path = arguments.output / "results"
    for number, typed in enumerate(detectors := [*dict.fromkeys((*named, *REFERENCES))], 1):
        detector, shown = tried(typed, tasks, shared), f"{number} of {len(detectors)}: {blank(typed)}"
        if finished(runs, typed, detector, every, arguments.limit):
            say(f"{shown}, as it was run before")
            continue
        say(f"{shown} fits; reading the answers of {', '.join(tasks)}")
        spans = arguments.output / ".spans" / _results_name(typed).rpartition("/")[2]
        spans.parent.mkdir(parents=True, exist_ok=True)
        limit = ["--limit", str(arguments.limit)] if arguments.limit else []
        options = [*shared, *limit, "--output_path", str(runs), "--log_samples", "--use_cache", str(spans)]
        if _lm_eval(typed, every, options).returncode:
            raise PlainError(
                f"{blank(typed)}: the run ended with an error (above); the same command goes on from there"
            )
    tags = arguments.output / "detectors.csv"
    _write_tags(tags, runs)
    site = write_leaderboard(runs, arguments.output, tags=tags)
    say(site.overviews)
    rows = json.loads((arguments.output / "leaderboard.json").read_text("utf-8"))["rows"]
    for typed in named:
        say(f"{blank(typed)} stands", *standing(rows, _run_of(runs, typed).folder.relative_to(runs).as_posix()), "")
    say(f"{site.index}: {site.runs} detectors")
    return 0


def checked(typed: str) -> str:
    """A detector as it was typed; ``lexical`` with weights that did not see the language of an answer. An UnusableDetector
    where there is none of this name, or it has no such option; no weights are loaded."""
    from custom_metrics.usage.options import assignments
    from detector_plugin.loading import check_detector

    name, _, options = typed.partition(",")
    check_detector(name, json.dumps(assignments(options), sort_keys=True))
    if name != DEFAULT_DETECTOR or "held_out" in options:
        return typed
    say(f"{blank(typed)} was trained on Mu-SHROOM; it is run with held_out=True")
    return f"{typed},held_out=True"


def tasks_there(chosen: str | None, mirror: str | None) -> dict[str, list[str]]:
    """The tasks of each set whose documents are there; it says which are not. A UsageError where none are."""
    from lm_eval_tasks.definition import catalogue

    groups = {name: name for name in chosen.split(",")} if chosen else SETS
    there: dict[str, list[str]] = {}
    lacking: dict[str, list[str]] = {}
    log = logging.getLogger("lm_eval")
    level = log.level
    log.setLevel(logging.ERROR)  # loaders say all of it again in the runs
    for title, group in groups.items():
        for name in catalogue.groups().get(group, (group,)):
            listed = catalogue.task_named(name)
            if listed is None or not catalogue.tables()[listed[0]].measures_detectors(name):
                raise UsageError(f"--tasks {name}: no task that measures detectors{catalogue.hint([name])}")
            module, _, loader = listed[1].base.documents.rpartition(".")
            try:
                getattr(import_module(module), loader)(**listed[1].options, **({"mirror": mirror} if mirror else {}))
            except (OSError, ValueError, PlainError):
                lacking.setdefault(title, []).append(name)
            else:
                there.setdefault(title, []).append(name)
    log.setLevel(level)
    for title, names in lacking.items():
        say(f"{title}: without {' '.join(names)}, whose files are not here (`lm-eval-grounded sources` lists them)")
    if not there:
        raise UsageError("arena: no marked answer is here; name a mirror of the public files with --mirror DIR")
    return there


def tried(typed: str, tasks: Mapping[str, Sequence[str]], options: Sequence[str]) -> Mapping[str, Any]:
    """The description of a detector that has read one answer of each set. A UsageError with the last line of the harness
    where it failed."""
    with TemporaryDirectory() as folder:
        first = [of_set[0] for of_set in tasks.values()]
        ended = _lm_eval(typed, first, [*options, "--limit", "1", "--output_path", folder], subprocess.PIPE)
        found = [*Path(folder).rglob("results_*.json")]
        if ended.returncode or not found:
            last = [line for line in ended.stderr.splitlines() if line.strip()][-1:]
            raise UsageError(f"{blank(typed)} does not fit: {' '.join(last) or 'it wrote no results'}")
        detector: Mapping[str, Any] = json.loads(found[0].read_text("utf-8"))["config"]["detector"]
        return detector


def _lm_eval(
    typed: str, tasks: Sequence[str], options: Sequence[str], stderr: int | None = None
) -> subprocess.CompletedProcess[str]:
    """A run of the harness, which shows its bar of progress, but not its table."""
    model = ["--model", "hallucination-detector", "--model_args", f"detector={typed}", "--tasks", ",".join(tasks)]
    return subprocess.run(  # noqa: S603 (a list of words, no shell)
        [sys.executable, "-m", "lm_eval", *model, *options],
        env={**os.environ, "LMEVAL_LOG_LEVEL": "ERROR"},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
    )


def finished(runs: Path, typed: str, detector: Mapping[str, Any], tasks: Sequence[str], limit: int | None) -> bool:
    """Whether there is a run of the same detector over the same tasks, in the versions that they have now."""
    from lm_eval_tasks.data.sources import MissingSource
    from lm_eval_tasks.definition import catalogue

    try:
        earlier = _run_of(runs, typed)
    except MissingSource:
        return False
    recorded = earlier.config.get("detector")
    same = isinstance(recorded, Mapping) and all(recorded.get(key) == detector.get(key) for key in ("name", "version"))
    versions = {task.name: table.version for table in catalogue.tables().values() for task in table.tasks}
    return same and all(
        task in earlier.tasks
        and earlier.tasks[task].version == versions[task]
        and (earlier.tasks[task].provenance.get("run") or {}).get("limit") == limit
        for task in tasks
    )


def _run_of(runs: Path, typed: str) -> Run:
    from lm_eval_tasks.data.sources import MissingSource
    from lm_eval_tasks.runs import read_runs

    found = [run for run in read_runs([runs]) if run.model == _results_name(typed)]
    if not found:
        raise MissingSource(f"{runs}: no run of {blank(typed)}")
    return found[0]


def _results_name(typed: str) -> str:
    from lm_eval_tasks.models.detector import HallucinationDetector

    return HallucinationDetector.results_name(f"detector={typed}")


def _write_tags(path: Path, runs: Path) -> None:
    """What the page says of a detector: its size, its licence."""
    from lm_eval_tasks.data.atomic import whole_file
    from lm_eval_tasks.runs import read_runs

    with whole_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(("model", "weights", "licence"))
        for found in read_runs([runs]):
            detector = found.config.get("detector") or {}
            table.writerow((found.model, size_of(str(detector.get("name", ""))), detector.get("licence", "")))


def size_of(name: str) -> str:
    """The size of a detector's weights on this machine; empty where it has none, or none are here."""
    folder = Path(name).expanduser()
    if name == DEFAULT_DETECTOR:
        from detector_plugin import lexical

        folder = Path(lexical.__file__).parent / "weights"
    elif "/" in name and not folder.is_dir():
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(name, local_files_only=True))
        except (OSError, ValueError):
            return ""
    sizes = [[file.stat().st_size for file in folder.glob(pattern) if file.is_file()] for pattern in _WEIGHTS]
    total = sum(next(filter(None, sizes), [])) if name and folder.is_dir() else 0
    return next((f"{total / size:.3g} {unit}" for unit, size in _BYTES.items() if total >= size), "")


def standing(rows: Sequence[Mapping[str, Any]], folder: str) -> Iterator[str]:
    """Where the run of a folder stands, a line for each figure of a set, from the rows of ``leaderboard.json``."""
    from lm_eval_tasks.results.formats import number
    from lm_eval_tasks.results.leaderboard.standings import MEAN_COLUMN

    for row in rows:
        if row["folder"] == folder and row["column"] in (MEAN_COLUMN, row["benchmark"]) and row["value"] is not None:
            same = [each for each in rows if each["rank"] and all(each[key] == row[key] for key in _OF_COLUMN)]
            bounds = "" if row["low"] is None else f" [{number(row['low'])}, {number(row['high'])}]"
            rank = f", rank {row['rank']} of {len(same)}" if row["rank"] else ""
            yield f"  {row['benchmark']} {row['metric']}: {number(row['value'])}{bounds}{rank}"
