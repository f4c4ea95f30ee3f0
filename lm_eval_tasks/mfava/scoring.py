"""The second of two steps: answers that were logged are tagged, counted and written as the harness would have.

``lm_eval --predict_only --log_samples`` writes samples files; :func:`score` runs the same harness tasks over their
documents and answers, so the numbers are those of a run in one step.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from detector_plugin import filters
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.mfava.samples import read_samples, samples_files
from lm_eval_tasks.models.answering import DocumentAnswerer
from lm_eval_tasks.sources import MissingSource

__all__ = ["score"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_SHARED = ("system_instruction", "system_instruction_sha", "chat_template", "chat_template_sha", "fewshot_as_multiturn")


class _LoggedAnswers(DocumentAnswerer):
    """A harness model that answers what was answered before."""

    def __init__(self, samples: Mapping[str, Mapping[int, dict[str, Any]]]) -> None:
        super().__init__()
        self.samples = samples

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        answers = []
        for request in requests:
            response = self.samples[request.task_name][request.doc_id]["resps"][0][0]
            answers.append(response if isinstance(response, str) else "")
        return answers


def score(
    place: Path,
    detector: str = "lexical",
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    calibration_annotations: str | None = None,
    output: Path | None = None,
) -> Path:
    """Tag and score the answers of an earlier run.

    What the detector has found is kept in ``.spans_<detector>.jsonl`` beside the results until they are written: after a
    kill, the same command goes on from there.

    Args:
        place: a samples file, or a folder: of each estimation task below it, the newest samples file.
        detector, detector_args, calibration, calibration_annotations: as for :func:`lm_eval_tasks.mfava.dataset.load`.
        output: folder for ``results_*.json`` and ``samples_*.jsonl``; default the folder of the samples.

    Returns:
        The results file.

    Raises:
        MissingSource: there are no samples of an estimation task.
        CorruptSource: a samples file is damaged in the middle.
        UnusableDetector, CalibrationError: see :func:`lm_eval_tasks.mfava.dataset.load`.
    """
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.autoload import task_folder

    found = samples_files(place)
    ours = {task: path for task, path in found.items() if task.removeprefix("mfava_") in LANGUAGES and "_" in task}
    if len(ours) < len(found):
        log.info("passed over, no estimation tasks: %s", ", ".join(sorted(found.keys() - ours.keys())))
    if not ours:
        raise MissingSource(
            f"{place.resolve()}: samples of {', '.join(found)}, none of mfava_<language>, whose answers a detector tags"
        )
    samples = {task: _numbered(list(read_samples(path))) for task, path in ours.items()}
    earlier = _earlier_results(next(iter(ours.values())))
    folder = (output or next(iter(ours.values())).parent).resolve()
    folder.mkdir(parents=True, exist_ok=True)

    store = folder / f".spans_{re.sub(r'[^A-Za-z0-9.-]+', '_', detector)}.jsonl"
    options: dict[str, Any] = {
        "detector": detector,
        "detector_args": detector_args,
        "calibration": calibration,
        "calibration_annotations": calibration_annotations,
        "samples": str(place),
    }
    metadata = {key: value for key, value in options.items() if value is not None}
    tracker = EvaluationTracker(output_path=str(folder.parent))
    with filters.wrapped(lambda made: StoredDetector(made, store)):
        results = simple_evaluate(
            model=_LoggedAnswers(samples),
            tasks=[*_whole_groups(earlier, ours), *ours],
            task_manager=TaskManager(include_path=task_folder(), include_defaults=False, metadata=metadata),
            evaluation_tracker=tracker,
            bootstrap_iters=0,
            log_samples=True,
        )
    assert results is not None
    logged = results.pop("samples")
    for task, rows in logged.items():
        for row in rows:  # the prompt as the model saw it: a chat template is not at hand here
            before = samples[task][int(row["doc_id"])]
            row["arguments"] = [tuple(arguments.values()) for arguments in before.get("arguments", {}).values()]
            row["prompt_hash"] = before.get("prompt_hash", row["prompt_hash"])
    results["config"] = {
        **results["config"],
        **{key: value for key, value in earlier.get("config", {}).items() if key != "bootstrap_iters"},
        "scored_from": {task: str(path) for task, path in ours.items()},
    }
    general = tracker.general_config_tracker
    general.model_source = earlier.get("model_source", "logged answers")
    general.model_name = earlier.get("model_name", folder.name)
    general.model_name_sanitized = folder.name
    for key in _SHARED:
        setattr(general, key, earlier.get(key))
    tracker.save_results_aggregated(results=results, samples=logged)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=logged[task])
    written = folder / f"results_{tracker.date_id}.json"
    if not written.is_file():
        raise OSError(f"the results could not be written to {written}")
    store.unlink(missing_ok=True)
    return written


def _numbered(samples: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Samples by their position among the documents of a file, which is what the harness numbers them by."""
    return dict(enumerate(sorted(samples, key=lambda sample: int(sample["doc_id"]))))


def _earlier_results(samples: Path) -> dict[str, Any]:
    """The results file that was written with a samples file; empty where there is none."""
    date = samples.stem.rsplit("_", 1)[-1]
    path = samples.with_name(f"results_{date}.json")
    if not path.is_file():
        log.warning("%s is not there: the results will not say which model gave the answers", path)
        return {}
    try:
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        log.warning("%s cannot be read (%s): the results will not say which model gave the answers", path, error)
        return {}
    return content


def _whole_groups(earlier: Mapping[str, Any], scored: Mapping[str, Path]) -> list[str]:
    """Groups of the earlier run of which every task is scored again."""
    groups = earlier.get("group_subtasks") or {}
    return [group for group, tasks in groups.items() if group not in scored and tasks and set(tasks) <= scored.keys()]
