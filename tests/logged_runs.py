"""Runs of the harness with their logged answers, for the tests of what reads them: made once a session, and copied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from lm_eval_tasks.results import logs
from tests.conftest import command, evaluate, run
from tests.miniature import MINIATURE, MINIATURE_FOLDER
from tests.shared_once import SharedOnce

TASKS = "mfava_de,mfava_zh"
ANSWERS = MINIATURE_FOLDER / "answers.jsonl"
"""Of the model ``sample/closed-book`` to :data:`TASKS`. It makes up some of what it says, which ``lexical`` flags."""


def detect_log(log: Path, output: Path, skips: bool = False, **options: Any) -> Path:
    """A log read by ``detect LOG``; its results file."""
    return logs.detect_log([logs.open_log(log, log.name, {}, skips)], output, **options)[0]


def generate(
    folder: Path,
    *options: str,
    tasks: str = TASKS,
    model: str = "grounded-baseline",
    model_args: str = "strategy=lexical",
    metadata: tuple[str, ...] = (),
) -> Path:
    """One `lm_eval` run over the sample; the folder its files are in."""
    run(
        [
            *(command("lm_eval"), "--tasks", tasks, "--model", model, *options),
            *(("--model_args", model_args) if model_args else ()),
            *("--log_samples", "--output_path", str(folder), "--metadata", f"mirror={MINIATURE}", *metadata),
        ],
        folder.parent,
    )
    return files_of(folder)


def in_this_process(tasks: list[str], model: str, model_args: str, folder: Path | None, **options: Any) -> Any:
    """A run in this process, written as `lm_eval --log_samples --output_path` writes it; the harness's record of it."""
    from lm_eval.loggers import EvaluationTracker

    tracker = EvaluationTracker(output_path=folder and str(folder))
    known = {"metadata": {"mirror": MINIATURE}, "log_samples": True, "evaluation_tracker": tracker}
    results = evaluate(tasks, model, model_args, **{**known, **options})
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    return tracker.general_config_tracker


def replay(folder: Path, *options: str) -> Path:
    """The same of :data:`ANSWERS`."""
    return generate(folder, *options, model="replay", model_args=f"path={ANSWERS}")


def files_of(folder: Path) -> Path:
    (results,) = folder.rglob("results_*.json")
    return results.parent


def only_predicted(shared_once: SharedOnce) -> Path:
    """The same answers, logged and not yet tagged; to be copied before anything is written."""
    return files_of(shared_once("mfava predicted", lambda folder: replay(folder / "out", "--predict_only")))


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def sample(number: int, **more: Any) -> dict[str, Any]:
    doc = {"id": f"de_{number}_1", "language": "de", "article": number, "subset": 0, "query": "q", "title": "t"}
    doc["reference"] = "Ein Text."
    return {"doc_id": number, "doc": doc, "resps": [["Ein Text."]], "filter": "answer", **more}


def write_samples(folder: Path, content: str, task: str = "mfava_de", date: str = "2026-01-01T00-00-00.0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text(content, "utf-8")
    return path
