"""Copies of runs in which something is changed, for the tests of what compares them; and samples written by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.logged_runs import lines

DATE = "2026-01-01T00-00-00.000000"

Row = dict[str, Any]


def copied_models(two_models: Path, folder: Path, tasks: Sequence[str]) -> tuple[Path, Path]:
    """The folders of both models' files, with the samples of some tasks only."""
    for run in sorted(two_models.iterdir()):
        (folder / run.name).mkdir(parents=True)
        for pattern in ("results_*.json", *(f"samples_{task}_2*.jsonl" for task in tasks)):
            for path in run.glob(pattern):
                shutil.copy(path, folder / run.name)
    first, second = (folder / run.name for run in sorted(two_models.iterdir()))
    return first, second


def few_tasks(two_models: Path, folder: Path, tasks: Sequence[str]) -> Path:
    """A folder of both models' runs of some tasks, as if no other had been run: quick to read."""
    for run in copied_models(two_models, folder, tasks):
        change_results(run, lambda results: _without_other_tasks(results, tasks))
    return folder


def _without_other_tasks(results: Row, tasks: Sequence[str]) -> None:
    for part in ("results", "configs", "versions", "n-shot", "n-samples", "higher_is_better"):
        results[part] = {task: results[part][task] for task in tasks}
    results |= {"groups": {}, "group_subtasks": {}}


def change_samples(folder: Path, task: str, change: Callable[[list[Row]], list[Row]]) -> None:
    (path,) = folder.glob(f"samples_{task}_2*.jsonl")
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in change(lines(path))), "utf-8")


def change_results(folder: Path, change: Callable[[Row], object]) -> None:
    (path,) = folder.glob("results_*.json")
    results = json.loads(path.read_text("utf-8"))
    change(results)
    path.write_text(json.dumps(results, ensure_ascii=False), "utf-8")


def in_a_chat(row: Row) -> Row:
    """A row whose prompt a chat template rendered."""
    text = f"<|user|>{row['arguments']['gen_args_0']['arg_0']}<|end|><|assistant|>"
    return {**row, "prompt_hash": "0" * 64, "arguments": {"gen_args_0": {"arg_0": text}}}


def written_samples(folder: Path, task: str, values: Sequence[Row], docs: Sequence[Row] | None = None) -> Path:
    """A samples file without a results file: the values of the metrics, document by document."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{DATE}.jsonl"
    rows = [
        {
            **{"doc_id": number, "doc": {"id": f"q{number}", **(docs[number] if docs else {})}},
            **{"resps": [["an answer"]], "filtered_resps": ["an answer"], "filter": "none"},
            **{"prompt_hash": f"hash {number}", "metrics": list(of_document)},
            **of_document,
        }
        for number, of_document in enumerate(values)
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path
