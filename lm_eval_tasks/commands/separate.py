"""Lay results out one folder a task, for a leaderboard's converter.

Writes below DIR/tasks one folder a task and run, with its results and samples alone, and below DIR/groups the averages of
groups, which have no samples. The files of the run stay as they are.

Examples:
  lm-eval-grounded separate results/MODEL -o separate
  lm-eval-grounded separate results/MODEL/results_DATE.json -o separate
"""

# `every_eval_ever convert lm_eval --include_samples` takes the last file that `samples_<task>_*.jsonl` matches. For
# `clapnq_gold` that may be `clapnq_gold_gpt`'s, and for the group `nomiracl` it is one language's. In a folder with one
# task and one run of it, there is only the right file.

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lm_eval_tasks.commands import add_output, say

_BY_NAME = (
    *("results", "groups", "group_subtasks", "configs", "versions"),
    *("n-shot", "higher_is_better", "n-samples", "task_hashes"),
)
"""Sections of a results file that have an entry for each task or group."""
_NOT_METRICS = ("alias", "name", "sample_len", "sample_count", "samples", "bypass")
"""Keys of a task's results that are no scores; ``bypass`` is the harness's metric of ``--predict_only``, always 999."""
_DATE = re.compile(r"_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.json$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="results file, or folder of them")
    add_output(parser, required=True)


def run(arguments: argparse.Namespace) -> int:
    say(*separate(arguments.path, arguments.output))
    return 0


def separate(place: Path, output: Path) -> list[Path]:
    """Lay results out as ``output/tasks/<folder>/<date>/<task>/`` and ``output/groups/<folder>/<date>/<group>/``.

    Each folder has a results file with only that task, and its samples of the same run, as a hard link if the file system
    has links, and written anew if their settings hold secrets. A group's results file has what the configurations of its
    tasks share, such as their data set. Results of ``--predict_only`` have no score and are skipped.

    Existing files of the same runs are replaced.

    Returns:
        The results files that were written.

    Raises:
        MissingSource: there is no results file, or none with a score.
        ValueError: a results file cannot be read, or holds ``NaN``; or `output` is below `place`, where the next call would
            read its files as results.
    """
    from lm_eval_tasks.data.atomic import finished
    from lm_eval_tasks.data.sources import MissingSource

    if place.is_dir() and place.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(f"{output}: lies in {place}; name a folder beside it (-o)")
    files = [place] if place.is_file() else finished(place, "results_*.json") if place.is_dir() else []
    written = [path for file in files for path in _separate_file(file, output)]
    if not written:
        reason = "no score in its results (--predict_only?)" if files else "no results file (results_<date>.json)"
        raise MissingSource(f"{place.resolve()}: {reason}")
    return written


def _separate_file(file: Path, output: Path) -> Iterator[Path]:
    from lm_eval_tasks.data.atomic import whole_file
    from lm_eval_tasks.data.samples import write_without_secrets
    from lm_eval_tasks.runs.results_file import leaves_of, read_results

    results = read_results(file)
    for name in results["results"]:
        if Path(name).name != name:
            raise ValueError(f"{file}: no name of a task: {name!r}")
    try:
        json.dumps(results, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{file}: it holds NaN, which is no JSON; score the run again with this release") from error
    match = _DATE.search(file.name)
    date = match["date"] if match else file.stem
    for name, scores in results["results"].items():
        if not any(_is_score(key, value) for key, value in scores.items()):
            continue
        is_task = name in results["configs"]
        separated = dict(results)
        for section in _BY_NAME:
            if isinstance(results.get(section), Mapping):
                separated[section] = {key: value for key, value in results[section].items() if key == name}
        if not is_task:
            tasks = leaves_of(name, results.get("group_subtasks") or {})
            first, *rest = [results["configs"][task] for task in tasks if task in results["configs"]] or [{}]
            separated["configs"] = {
                name: {
                    key: value
                    for key, value in first.items()
                    if all(key in config and config[key] == value for config in rest)
                }
            }
        folder = output / ("tasks" if is_task else "groups") / file.resolve().parent.name / date / name
        samples = file.with_name(f"samples_{name}_{date}.jsonl")
        if is_task and samples.is_file():
            with whole_file(folder / samples.name) as partial:
                if not write_without_secrets(samples, partial):
                    try:
                        os.link(samples, partial)
                    except OSError:  # on another file system, or one without links
                        shutil.copyfile(samples, partial)
        written = folder / f"results_{date}.json"
        with whole_file(written) as partial:
            partial.write_text(json.dumps(separated, indent=2, ensure_ascii=False), "utf-8")
        yield written


def _is_score(key: str, value: Any) -> bool:
    metric = key.partition(",")[0]
    return isinstance(value, (int, float)) and not metric.endswith("_stderr") and metric not in _NOT_METRICS
