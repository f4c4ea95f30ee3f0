"""The tasks of a run, one by one: their files, prompts, detector and calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.commands.work.checking.report import Checked, Report, said
from lm_eval_tasks.commands.work.checking.requests import requests_of
from lm_eval_tasks.data import sources
from lm_eval_tasks.harness.prompt_lengths import Measure

if TYPE_CHECKING:
    from lm_eval.config.evaluate_config import EvaluatorConfig
    from lm_eval.tasks import TaskManager

__all__ = ["check_task", "leaves_of"]


def leaves_of(manager: TaskManager, specs: Sequence[Any]) -> Iterator[Any]:
    """The tasks of groups and tags one by one, so that an error of one hides no other."""
    from lm_eval.tasks._yaml_loader import load_yaml

    for spec in specs:
        entry = manager.task_index.get(spec) if isinstance(spec, str) else None
        members: Any = None
        if entry is not None and entry.kind.name == "TAG":
            members = sorted(entry.tags)
        elif entry is not None and entry.kind.name == "GROUP" and entry.yaml_path:
            members = load_yaml(entry.yaml_path, resolve_func=False).get("task")
        if isinstance(members, list) and all(isinstance(member, str) and member != spec for member in members):
            yield from leaves_of(manager, members)
        else:
            yield spec


def check_task(
    manager: TaskManager, spec: Any, config: EvaluatorConfig, model: Any, measure: Measure, report: Report
) -> tuple[Checked, list[Any]]:
    """The findings about a task, and its requests."""
    checked = Checked(spec if isinstance(spec, str) else str(spec.get("task") or spec.get("group")))
    requests: list[Any] = []
    try:
        for task in manager.load([spec])["tasks"].values():
            requests += requests_of(task, config, model, measure)
            _describe(checked, task, config)
        _count(checked, requests, measure)
    except sources.MissingSource as error:
        report.missing += error.files
        if not error.files:
            checked.problems.append(said(error))
    except Exception as error:  # of ours, of the harness, or of another task: all of them would end the run
        checked.problems.append(said(error))
    return checked, requests


def _describe(checked: Checked, task: Any, config: EvaluatorConfig) -> None:
    generation = task.config.generation_kwargs or {}
    checked.answer_tokens = generation.get("max_gen_toks") or config.model_args.get("max_gen_toks")
    checked.template = str(task.config.doc_to_text)
    if getattr(task, "tags_answers", False):
        from detector_plugin.detector import describe
        from detector_plugin.filters import shared_detector
        from lm_eval_tasks.detection.calibrated import described

        doc = next(iter(task.eval_docs))
        found = describe(shared_detector(doc["detector"], doc["detector_args"]))
        checked.detector = f"{found['name']}, version {found['version']}"
        calibration = described(doc)
        checked.calibration = f"{calibration['file']} ({calibration['annotations']})" if calibration else ""


def _count(checked: Checked, requests: Sequence[Any], measure: Measure) -> None:
    prompts = [str(request.args[0]) for request in requests]
    checked.questions = len({(request.task_name, request.doc_id) for request in requests})
    if not prompts:
        return
    counts = measure.counts(prompts)
    checked.lengths, checked.unit, checked.example = measure.summary(counts), measure.unit, prompts[0]
    if measure.window is not None:
        answer = checked.answer_tokens or 0
        over = sum(count + answer > measure.window for count in counts)
        if over:
            checked.problems.append(
                f"{over} of {len(counts)} prompts do not fit: the longest has {max(counts)} tokens, an answer up to "
                f"{answer}, and the model takes {measure.window} in all; what is over would be cut"
            )
