"""All of a harness run but the answers, so that a mistake costs seconds.

:func:`check` takes the arguments of ``lm_eval`` and reads them as the harness does. It looks for files, makes documents and
prompts, and loads detectors and calibrations. It loads no model with weights, and downloads nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import PlainError, UsageError
from lm_eval_tasks.commands.check.prompt_lengths import Measure, measure_of
from lm_eval_tasks.commands.check.report import Report, TaskReport, in_one_line
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.atomic import check_writable
from lm_eval_tasks.harness.harness_results import output_folder

if TYPE_CHECKING:
    from lm_eval.config.evaluate_config import EvaluatorConfig
    from lm_eval.tasks import TaskManager

__all__ = ["check"]


def check(arguments: Sequence[str]) -> Report:
    """Check what ``lm_eval`` would run.

    Args:
        arguments: those of ``lm_eval run``.

    Raises:
        SystemExit: arguments that the harness does not have.
        ValueError: no task is named, or one that there is not.
    """
    no_task = UsageError("check: say what would be run, e.g. --tasks nomiracl_de,clapnq_rag")
    if not arguments:  # the harness would print its help
        raise no_task
    parsed = _parsed(arguments)
    from lm_eval.config.evaluate_config import EvaluatorConfig

    config = EvaluatorConfig.from_cli(parsed)
    if not config.tasks:
        raise no_task
    logging.getLogger("lm_eval.api.task").setLevel(logging.ERROR)  # a hint about --metadata for every task
    # Few-shot examples have files of their own: so the tasks know before they read any.
    shots = {"num_fewshot": config.num_fewshot} if config.num_fewshot else {}
    manager = config.process_tasks({**config.metadata, **shots})
    report = Report()
    if config.output_path:
        try:
            check_writable(output_folder(config.output_path))
        except UsageError as error:
            report.problems.append(f"--output_path: {error}")
    model = _weightless_model(config, report) if parsed.model else None
    measure = Measure() if model is not None else _measure(config, report)
    requests: list[Any] = []
    for spec in _leaves(manager, config.tasks):
        requests += _check_task(manager, spec, config, model, measure, report)
    if model is not None and requests:
        _check_answers(model, requests, report)
    report.missing = list(dict.fromkeys(report.missing))
    if report.missing:
        report.fetch = sources.fetch_command(report.missing, sources.mirror_folder(config.metadata.get("mirror")))
    return report


def _parsed(arguments: Sequence[str]) -> Any:
    """Arguments as the harness reads its command line."""
    from lm_eval._cli.harness import HarnessCLI

    before = sys.argv
    sys.argv = [before[0], "run", *arguments]
    try:
        return HarnessCLI().parse_args()
    finally:
        sys.argv = before


# ---------------------------------------------------------------------------------------------------------- the model


def _weightless_model(config: EvaluatorConfig, report: Report) -> Any:
    """A model without weights, made; ``None`` for any other, which is only looked up."""
    from lm_eval.api.registry import get_model

    from lm_eval_tasks.models.answering import DocumentAnswerer

    options = {"batch_size": config.batch_size, "max_batch_size": config.max_batch_size, "device": config.device}
    try:
        kind = get_model(config.model)
        weightless = isinstance(kind, type) and issubclass(kind, DocumentAnswerer)
        return kind.create_from_arg_obj(config.model_args, options) if weightless else None
    except Exception as error:  # an unknown name, a library that is not installed, an argument that is none
        report.problems.append(f"model {config.model}: {in_one_line(error)}")
        return None


def _measure(config: EvaluatorConfig, report: Report) -> Measure:
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


def _check_answers(model: Any, requests: Sequence[Any], report: Report) -> None:
    """Ask a model without weights: ``replay`` for every answer, any other for one a task."""
    from lm_eval_tasks.models.replay import Replay

    asked = requests if isinstance(model, Replay) else [*{r.task_name: r for r in requests}.values()]
    try:
        model.respond(asked, True)
    except PlainError as error:
        report.problems.append(in_one_line(error))


# ---------------------------------------------------------------------------------------------------------- the tasks


def _leaves(manager: TaskManager, specs: Sequence[Any]) -> Iterator[Any]:
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
            yield from _leaves(manager, members)
        else:
            yield spec


def _check_task(
    manager: TaskManager, spec: Any, config: EvaluatorConfig, model: Any, measure: Measure, report: Report
) -> list[Any]:
    """Add the findings about a task to the report; returns its requests."""
    findings = TaskReport(spec if isinstance(spec, str) else str(spec.get("task") or spec.get("group")))
    report.tasks.append(findings)
    requests: list[Any] = []
    try:
        for task in manager.load([spec])["tasks"].values():
            requests += _requests(task, config, model, measure)
            _describe(findings, task, config)
        _count(findings, requests, measure)
    except sources.MissingSource as error:
        report.missing += error.files
        if not error.files:
            findings.problems.append(in_one_line(error))
    except Exception as error:  # of ours, of the harness, or of another task: all of them would end the run
        findings.problems.append(in_one_line(error))
    return requests


def _requests(task: Any, config: EvaluatorConfig, model: Any, measure: Measure) -> list[Any]:
    """The requests of a task as ``simple_evaluate`` would have them built."""
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


def _chat_template(model: Any, measure: Measure, config: EvaluatorConfig) -> Callable[..., str]:
    """A function from turns to the prompt, as the model has it."""
    if model is not None:
        return model.apply_chat_template  # type: ignore[no-any-return]
    if measure.tokenizer is None or not measure.tokenizer.chat_template:  # a server's: its turns one after another
        return lambda turns, add_generation_prompt=True: "\n\n".join(turn["content"] for turn in turns)
    options = dict(config.model_args.get("chat_template_args") or {})
    if isinstance(config.apply_chat_template, str):
        options["chat_template"] = config.apply_chat_template
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


def _describe(findings: TaskReport, task: Any, config: EvaluatorConfig) -> None:
    """Add the template of a task's prompts, and what tags and corrects its answers."""
    generation = task.config.generation_kwargs or {}
    findings.answer_tokens = generation.get("max_gen_toks") or config.model_args.get("max_gen_toks")
    findings.template = str(task.config.doc_to_text)
    if getattr(task, "tags_answers", False):
        from detector_plugin.detector import describe
        from detector_plugin.filters import shared_detector
        from lm_eval_tasks.detection.calibrated import described

        doc = next(iter(task.eval_docs))
        detector = describe(shared_detector(doc["detector"], doc["detector_args"]))
        findings.detector = f"{detector['name']}, version {detector['version']}"
        calibration = described(doc)
        findings.calibration = f"{calibration['file']} ({calibration['annotations']})" if calibration else ""


def _count(findings: TaskReport, requests: Sequence[Any], measure: Measure) -> None:
    """Add the number of questions and the lengths of their prompts, and say which do not fit the model."""
    prompts = [str(request.args[0]) for request in requests]
    findings.questions = len({(request.task_name, request.doc_id) for request in requests})
    if not prompts:
        return
    counts = measure.counts(prompts)
    findings.lengths = f"{min(counts)} to {max(counts)} {measure.unit}, median {round(median(counts))}"
    findings.example = prompts[0]
    if measure.window is not None:
        answer = findings.answer_tokens or 0
        over = sum(count + answer > measure.window for count in counts)
        if over:
            findings.problems.append(
                f"{over} of {len(counts)} prompts do not fit: the longest has {max(counts)} tokens, an answer up to "
                f"{answer}, and the model takes {measure.window} in all; what is over would be cut"
            )
