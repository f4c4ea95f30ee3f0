"""``lm-eval-grounded check``: all of a harness run but the answers, so that a mistake costs seconds.

It takes the arguments of ``lm_eval`` and reads them as the harness does. Files are looked for, documents and prompts made,
detectors and calibrations loaded; a model with weights is not. Nothing is downloaded.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from custom_metrics.plain_errors import PlainError, UsageError
from lm_eval_tasks import sources
from lm_eval_tasks.prompt_lengths import Lengths, Measure, measure_of

if TYPE_CHECKING:
    from lm_eval.config.evaluate_config import EvaluatorConfig
    from lm_eval.tasks import TaskManager

__all__ = ["Checked", "Report", "check"]


@dataclass
class Checked:
    """What was found of one task.

    Attributes:
        task: its name.
        questions: how many would be asked.
        lengths: of their prompts, in ``unit``; ``None`` where none could be made.
        answer_tokens: at most so many in an answer; ``None`` where the model decides.
        detector, calibration: what tags and corrects its answers; empty where nothing does.
        example: the first prompt.
        problems: what is wrong, a line each.
    """

    task: str
    questions: int = 0
    lengths: Lengths | None = None
    unit: str = ""
    answer_tokens: int | None = None
    detector: str = ""
    calibration: str = ""
    example: str = ""
    template: str = ""
    problems: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What was found of a run.

    Attributes:
        tasks: one by one.
        missing: public files that are not here, of all tasks.
        fetch: the command that fetches them; empty where none is missing.
        notes: what is not checked, and why.
        problems: of the run as a whole.
    """

    tasks: list[Checked] = field(default_factory=list)
    missing: list[sources.SourceFile] = field(default_factory=list)
    fetch: str = ""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether the run can start."""
        return not (self.missing or self.problems or any(task.problems for task in self.tasks))

    def lines(self) -> Iterator[str]:
        """The report for a person."""
        from detector_plugin.display import printable

        for task in self.tasks:
            yield from _lines(task)
        shown = set()
        for task in self.tasks:
            if task.example and task.template not in shown:
                shown.add(task.template)
                yield f"\nThe first prompt of {task.task}:"
                yield from (f"  | {printable(line)}" for line in task.example.splitlines())
        yield ""
        yield from (f"note: {note}" for note in self.notes)
        of: dict[str, list[str]] = {}
        for task in self.tasks:
            for problem in task.problems:
                of.setdefault(problem.removeprefix(f"{task.task}: "), []).append(task.task)
        for problem, tasks in of.items():
            others = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
            yield f"problem: {tasks[0]}{others}: {problem}"
        yield from (f"problem: {problem}" for problem in self.problems)
        if self.missing:
            yield f"problem: {len(self.missing)} public files are missing:"
            yield from (f"  {file.repository}/{file.path}" for file in self.missing)
            yield f"On a machine with internet, this fetches them:\n  {self.fetch}"
        yield "ready: every file is here, every prompt could be made" if self.ready else "not ready"


def _lines(task: Checked) -> Iterator[str]:
    if task.lengths is None:
        yield f"{task.task}: not ready"
        return
    shortest, middle, longest = task.lengths
    answer = f"; answers of up to {task.answer_tokens} tokens" if task.answer_tokens else ""
    prompts = f"prompts of {shortest} to {longest} {task.unit}, median {middle}"
    yield f"{task.task}: {task.questions} questions; {prompts}{answer}"
    if task.detector:
        yield f"  detector {task.detector}; calibration {task.calibration or 'none'}"


def check(arguments: Sequence[str]) -> Report:
    """Check what ``lm_eval`` would run.

    Args:
        arguments: those of ``lm_eval run``.

    Raises:
        SystemExit: arguments that the harness does not have.
        ValueError: no task is named, or one that there is not.
    """
    nothing = UsageError("check: say what would be run, e.g. --tasks nomiracl_de,clapnq_rag")
    if not arguments:  # the harness would print its help
        raise nothing
    given = _parsed(arguments)
    from lm_eval.config.evaluate_config import EvaluatorConfig

    config = EvaluatorConfig.from_cli(given)
    if not config.tasks:
        raise nothing
    logging.getLogger("lm_eval.api.task").setLevel(logging.ERROR)  # a hint about --metadata for every task
    # Few-shot examples have files of their own: so the tasks know before they read any.
    shots = {"num_fewshot": config.num_fewshot} if config.num_fewshot else {}
    manager = config.process_tasks({**config.metadata, **shots})
    report = Report()
    model = _model(config, report) if given.model else None
    measure = Measure() if model is not None else _measure(config, report)
    requests: list[Any] = []
    for spec in _leaves(manager, config.tasks):
        checked, made = _task(manager, spec, config, model, measure, report)
        report.tasks.append(checked)
        requests += made
    if model is not None and requests:
        _answers(model, requests, report)
    report.missing = list(dict.fromkeys(report.missing))
    if report.missing:
        report.fetch = sources.fetch_command(report.missing, sources.mirror_folder(config.metadata.get("mirror")))
    return report


def _parsed(arguments: Sequence[str]) -> Any:
    """As the harness reads its command line."""
    from lm_eval._cli.harness import HarnessCLI

    before = sys.argv
    sys.argv = [before[0], "run", *arguments]
    try:
        return HarnessCLI().parse_args()
    finally:
        sys.argv = before


def _model(config: EvaluatorConfig, report: Report) -> Any:
    """A model without weights, made; ``None`` for any other, which is only looked up."""
    from lm_eval.api.registry import get_model

    from lm_eval_tasks.models.answering import DocumentAnswerer

    given = {"batch_size": config.batch_size, "max_batch_size": config.max_batch_size, "device": config.device}
    try:
        kind = get_model(config.model)
        weightless = isinstance(kind, type) and issubclass(kind, DocumentAnswerer)
        return kind.create_from_arg_obj(config.model_args, given) if weightless else None
    except Exception as error:  # an unknown name, a library that is not installed, an argument that is none
        report.problems.append(f"model {config.model}: {_said(error)}")
        return None


def _measure(config: EvaluatorConfig, report: Report) -> Measure:
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


def _task(
    manager: TaskManager, spec: Any, config: EvaluatorConfig, model: Any, measure: Measure, report: Report
) -> tuple[Checked, list[Any]]:
    """What is found of a task, and its requests."""
    checked = Checked(spec if isinstance(spec, str) else str(spec.get("task") or spec.get("group")))
    requests: list[Any] = []
    try:
        for task in manager.load([spec])["tasks"].values():
            requests += _requests(task, config, model, measure)
            _describe(checked, task, config)
        _count(checked, requests, measure)
    except sources.MissingSource as error:
        report.missing += error.files
        if not error.files:
            checked.problems.append(_said(error))
    except Exception as error:  # of ours, of the harness, or of another task: all of them would end the run
        checked.problems.append(_said(error))
    return checked, requests


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, PlainError) else f"{type(error).__name__}: {text}"


def _requests(task: Any, config: EvaluatorConfig, model: Any, measure: Measure) -> list[Any]:
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


def _describe(checked: Checked, task: Any, config: EvaluatorConfig) -> None:
    generation = task.config.generation_kwargs or {}
    checked.answer_tokens = generation.get("max_gen_toks") or config.model_args.get("max_gen_toks")
    checked.template = str(task.config.doc_to_text)
    if getattr(task, "tags_answers", False):
        from detector_plugin.detector import describe
        from detector_plugin.filters import shared_detector
        from lm_eval_tasks.calibrated import described

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


def _answers(model: Any, requests: Sequence[Any], report: Report) -> None:
    """What a model without weights would answer: all of ``replay``'s, one a task of any other."""
    from lm_eval_tasks.models.replay import Replay

    asked = list(requests) if isinstance(model, Replay) else list({r.task_name: r for r in requests}.values())
    try:
        model.respond(asked, True)
    except PlainError as error:
        report.problems.append(_said(error))
