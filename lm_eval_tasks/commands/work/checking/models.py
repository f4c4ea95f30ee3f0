"""The model of a run: made where it has no weights, else looked up, with its tokenizer and its window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import PlainError
from lm_eval_tasks.commands.work.checking.report import Report, said
from lm_eval_tasks.harness.prompt_lengths import Measure, measure_of

if TYPE_CHECKING:
    from lm_eval.config.evaluate_config import EvaluatorConfig

__all__ = ["check_answers", "measure_for", "model_of"]


def model_of(config: EvaluatorConfig, report: Report) -> Any:
    """A model without weights, made; ``None`` for any other, which is only looked up."""
    from lm_eval.api.registry import get_model

    from lm_eval_tasks.models.answering import DocumentAnswerer

    given = {"batch_size": config.batch_size, "max_batch_size": config.max_batch_size, "device": config.device}
    try:
        kind = get_model(config.model)
        weightless = isinstance(kind, type) and issubclass(kind, DocumentAnswerer)
        return kind.create_from_arg_obj(config.model_args, given) if weightless else None
    except Exception as error:  # an unknown name, a library that is not installed, an argument that is none
        report.problems.append(f"model {config.model}: {said(error)}")
        return None


def measure_for(config: EvaluatorConfig, report: Report) -> Measure:
    """The measure in which the prompts of a run are counted. Problems of the model's tokenizer go into the report."""
    measure, why = measure_of(config.model_args)
    if why:
        report.notes.append(f"prompts are counted in characters: {why}")
    if measure.architecture.endswith("ForTokenClassification"):
        report.problems.append(
            f"{config.model_args.get('pretrained')} is a {measure.architecture}: it marks words and writes no answers. "
            f"Name it as a detector: --metadata detector=NAME, or --model hallucination-detector on detection tasks"
        )
    if config.apply_chat_template and measure.tokenizer is not None and not measure.tokenizer.chat_template:
        report.problems.append("--apply_chat_template: the tokenizer has no chat template")
    return measure


def check_answers(model: Any, requests: Sequence[Any], report: Report) -> None:
    """Ask a model without weights: ``replay`` for every answer, any other for one a task."""
    from lm_eval_tasks.models.replay import Replay

    asked = list(requests) if isinstance(model, Replay) else list({r.task_name: r for r in requests}.values())
    try:
        model.respond(asked, True)
    except PlainError as error:
        report.problems.append(said(error))
