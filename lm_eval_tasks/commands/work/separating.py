"""One folder a task, from results files of many: for converters that look for a task's samples by its name alone.

``every_eval_ever convert lm_eval --include_samples`` takes the last file that ``samples_<task>_*.jsonl`` matches. Of
``clapnq_gold`` that may be ``clapnq_gold_gpt``'s, and of the group ``nomiracl`` it is one language's. A folder that holds
one task, and one run of it, leaves it no choice. Groups have no samples, so they are kept apart from tasks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lm_eval_tasks.data.atomic import finished, whole_file
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.runs.results_file import leaves_of

__all__ = ["separate"]

_BY_NAME = (
    *("results", "groups", "group_subtasks", "configs", "versions"),
    *("n-shot", "higher_is_better", "n-samples", "task_hashes"),
)
"""Parts of a results file that have an entry a task or group."""
_NOT_METRICS = ("alias", "name", "sample_len", "sample_count", "samples")
_PREDICTED = "bypass"  # the harness's metric of `--predict_only`, always 999
_DATE = re.compile(r"_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.json$")


def separate(place: Path, into: Path) -> list[Path]:
    """Lay results out as ``into/tasks/<folder>/<date>/<task>/`` and ``into/groups/<folder>/<date>/<group>/``.

    Each folder has a results file with that task alone; beside it its samples of the same run, as a hard link where the
    file system has them. A group's results file describes it with what the configurations of its tasks share, among it
    their data set. Results of ``--predict_only`` have no score and are passed over.

    Args:
        place: results file, or a folder of them.
        into: not below `place`; what is there of the same runs is replaced.

    Returns:
        The results files that were written.

    Raises:
        MissingSource: there is no results file, or none with a score.
        CorruptSource: a results file cannot be read, or holds ``NaN``.
        ValueError: `into` is below `place`, where the next run of this would take it for results.
    """
    if place.is_dir() and place.resolve() in (into.resolve(), *into.resolve().parents):
        raise ValueError(f"{into}: lies in {place}; name a folder beside it (-o)")
    files = [place] if place.is_file() else finished(place, "results_*.json") if place.is_dir() else []
    written = [path for file in files for path in _separate_file(file, into)]
    if not written:
        what = "no score in its results (--predict_only?)" if files else "no results file (results_<date>.json)"
        raise MissingSource(f"{place.resolve()}: {what}")
    return written


def _separate_file(file: Path, into: Path) -> Iterable[Path]:
    results = _read(file)
    match = _DATE.search(file.name)
    date = match["date"] if match else file.stem
    for name, scores in results["results"].items():
        if not any(_is_score(key, value) for key, value in scores.items()):
            continue
        is_task = name in results["configs"]
        alone = {part: _only(value, name) if part in _BY_NAME else value for part, value in results.items()}
        if not is_task:
            tasks = leaves_of(name, results.get("group_subtasks") or {})
            alone["configs"] = {
                name: _shared([results["configs"][task] for task in tasks if task in results["configs"]])
            }
        folder = into / ("tasks" if is_task else "groups") / file.resolve().parent.name / date / name
        samples = file.with_name(f"samples_{name}_{date}.jsonl")
        if is_task and samples.is_file():
            _link(samples, folder / samples.name)
        written = folder / f"results_{date}.json"
        with whole_file(written) as partial:
            partial.write_text(json.dumps(alone, indent=2, ensure_ascii=False), "utf-8")
        yield written


def _read(file: Path) -> dict[str, Any]:
    def refuse(constant: str) -> Any:
        raise ValueError(f"it holds {constant}, which is no JSON; score the run again with this release")

    try:
        results = json.loads(file.read_text("utf-8"), parse_constant=refuse)
        scores = results["results"]
        groups = results.get("group_subtasks") or {}
        if not all(isinstance(part, dict) for part in (scores, *scores.values(), results["configs"], groups)):
            raise TypeError
        if not all(
            isinstance(members, list) and all(isinstance(name, str) for name in members) for members in groups.values()
        ):
            raise TypeError
        unfit = next((name for name in scores if Path(name).name != name), None)
        if unfit is not None:
            raise ValueError(f"no name of a task: {unfit!r}")
    except (AttributeError, KeyError, TypeError) as error:
        raise CorruptSource(f"{file.resolve()}: no results of lm_eval") from error
    except (ValueError, RecursionError) as error:
        raise CorruptSource(f"{file.resolve()}: {error}") from error
    found: dict[str, Any] = results
    return found


def _is_score(key: str, value: Any) -> bool:
    metric = key.partition(",")[0]
    return (
        isinstance(value, (int, float)) and not metric.endswith("_stderr") and metric not in (*_NOT_METRICS, _PREDICTED)
    )


def _only(part: Any, name: str) -> Any:
    return {key: value for key, value in part.items() if key == name} if isinstance(part, Mapping) else part


def _shared(configs: list[Mapping[str, Any]]) -> dict[str, Any]:
    """What all of these have, with the same value."""
    first, *others = configs or [{}]
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def _link(file: Path, place: Path) -> None:
    with whole_file(place) as partial:
        try:
            os.link(file, partial)
        except OSError:  # another file system, or one without links
            shutil.copyfile(file, partial)
