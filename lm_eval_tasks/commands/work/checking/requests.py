"""The requests of a task as the harness would build them, chat template included."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.harness.prompt_lengths import Measure

if TYPE_CHECKING:
    from lm_eval.config.evaluate_config import EvaluatorConfig

__all__ = ["requests_of"]


def requests_of(task: Any, config: EvaluatorConfig, model: Any, measure: Measure) -> list[Any]:
    """The requests as ``simple_evaluate`` would have them built."""
    from lm_eval.evaluator_utils import get_sample_size

    if config.predict_only:
        task.override_metric(metric_name="bypass")
    if config.gen_kwargs and task.get_config("output_type") == "generate_until":
        task.set_config(key="generation_kwargs", value=config.gen_kwargs, update=True)
    if task.get_config("num_fewshot") != 0 and config.num_fewshot is not None:
        task.set_config(key="num_fewshot", value=config.num_fewshot)
    elif task.get_config("num_fewshot") is None:
        task.set_config(key="num_fewshot", value=0)
    seeds = config.seed if isinstance(config.seed, list) else [None]
    task.set_fewshot_seed(seed=seeds[-1])
    chat = bool(config.apply_chat_template)
    task.build_all_requests(
        limit=get_sample_size(task, config.limit),
        samples=config.samples.get(task.config.task) if isinstance(config.samples, dict) else None,
        system_instruction=config.system_instruction,
        apply_chat_template=chat,
        fewshot_as_multiturn=bool(config.fewshot_as_multiturn),
        chat_template=_chat_template(model, measure, config) if chat else None,
    )
    return list(task.instances)


def _chat_template(model: Any, measure: Measure, config: EvaluatorConfig) -> Any:
    if model is not None:
        return model.apply_chat_template
    if measure.tokenizer is None or not measure.tokenizer.chat_template:  # a server's: its turns one after another
        return lambda turns, add_generation_prompt=True: "\n\n".join(turn["content"] for turn in turns)
    named = config.apply_chat_template
    options = dict(config.model_args.get("chat_template_args") or {})
    if isinstance(named, str):
        options["chat_template"] = named
    return partial(_templated, measure.tokenizer, options)


def _templated(tokenizer: Any, options: dict[str, Any], turns: Any, add_generation_prompt: bool = True) -> str:
    return str(
        tokenizer.apply_chat_template(
            turns,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
            **options,
        )
    )
