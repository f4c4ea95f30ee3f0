"""All of an `lm_eval` run but the answers: files, prompts, detector, calibration.

Takes the options of `lm_eval` (see `lm_eval run --help`) and does everything but generate: looks for every file (one
command fetches those that are missing), makes the documents and prompts, counts requests, tokens (by the model's tokenizer
where that is on this machine, else estimated) and prompts that the model would cut, tries the folder of the results, loads
detector and calibration, and shows a prompt. Nothing is downloaded. Exit status 0: the run can start; 1: it cannot; 2: it
is not a run.

Examples:
  lm-eval-grounded check --model hf --model_args pretrained=gpt2 --tasks nomiracl_de --output_path results
  lm-eval-grounded check --model vllm --model_args pretrained=MODEL --tasks grounded_lite --speed 2500
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import PlainError, UsageError
from custom_metrics.usage.printable import on_one_line, printable
from custom_metrics.usage.secrets import blank
from lm_eval_tasks.commands import say
from lm_eval_tasks.definition import CUT_PROMPTS
from lm_eval_tasks.harness import context_window
from lm_eval_tasks.harness.short_errors import as_ours

if TYPE_CHECKING:
    from lm_eval_tasks.data.sources import SourceFile

_TOKENIZERS = ("tokenizer", "pretrained", "model")  # model arguments that name a tokenizer, the most specific first
_HEAD, _TAIL = 1000, 400  # characters of a prompt that are shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lm-eval-grounded check --tasks TASK[,TASK...] [--speed N] [--full] [any option of lm_eval]"
    speed = "tokens a second (as `vllm bench throughput` prints it), or 3requests: says how long the run takes at most"
    parser.add_argument("--speed", type=_speed, metavar="N", help=speed)
    parser.add_argument("--full", action="store_true", help="show prompts whole, not their beginning and end")
    parser.allow_abbrev = False
    parser.set_defaults(unknown=[])


def _speed(text: str) -> tuple[float, str]:
    """Number and unit (``tokens`` or ``requests``) of a speed a second."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(tokens|requests)?", text.strip())
    if not match or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no speed, such as 2500 (tokens a second) or 3requests")
    return float(match[1]), match[2] or "tokens"


def run(arguments: argparse.Namespace) -> int:
    # The libraries read both once, when they are imported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    os.environ.setdefault("TQDM_DISABLE", "1")
    from lm_eval_tasks.harness import EvaluatorConfig, HarnessCLI

    logging.getLogger("lm_eval").setLevel(logging.WARNING)
    for name in ("lm_eval.api.task", "lm_eval.api.task._task"):  # a hint about --metadata for every task
        logging.getLogger(name).setLevel(logging.ERROR)
    no_task = UsageError("check: say what would be run, e.g. --tasks nomiracl_de,clapnq_rag")
    if not arguments.unknown:  # the harness would print its help
        raise no_task
    arguments_before = sys.argv
    sys.argv = [arguments_before[0], "run", *arguments.unknown]
    try:
        typed = HarnessCLI().parse_args()
    finally:
        sys.argv = arguments_before
    config = EvaluatorConfig.from_cli(typed)
    if not config.tasks:
        raise no_task
    # Few-shot examples have files of their own, which tasks look for only if they know of the shots.
    shots = {"num_fewshot": config.num_fewshot} if config.num_fewshot else {}
    try:
        manager = config.process_tasks({**config.metadata, **shots})
    except ValueError as error:  # no such task
        raise as_ours(error) from error
    dry_run = _DryRun(config)
    dry_run.find_model(is_named=bool(typed.model))
    requests = [request for spec in _split_groups(manager, config.tasks) for request in dry_run.prepare(manager, spec)]
    dry_run.try_model(requests)
    say(*dry_run.report(arguments.speed, arguments.full))
    return 0 if dry_run.ready else 1


def _split_groups(manager: Any, specs: Sequence[Any]) -> Iterator[Any]:
    """The tasks of groups and tags one by one, so that an error in one does not hide others."""
    from lm_eval_tasks.harness import load_yaml

    for spec in specs:
        entry = manager._index.get(spec) if isinstance(spec, str) else None
        members: Any = None
        if entry is not None and entry.kind.name == "TAG":
            members = sorted(entry.tags)
        elif entry is not None and entry.kind.name == "GROUP" and entry.yaml_path:
            members = load_yaml(entry.yaml_path, resolve_func=False).get("task")
        if isinstance(members, list) and all(isinstance(member, str) and member != spec for member in members):
            yield from _split_groups(manager, members)
        else:
            yield spec


class _DryRun:
    """A dry run and its findings. It loads no model with weights, and no code of a repository."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.model: Any = None  # only a model without weights; others are not loaded
        self.kind: Any = None  # class of the model that is named
        self.settings: Any = None  # its configuration of Hugging Face
        self.tokenizer: Any = None  # if None, prompts are counted in characters, and tokens are estimated
        self.window: context_window.Window | None = None
        self.lines: list[str] = []
        self.requests = self.prompt_tokens = self.answer_tokens = 0
        self.examples: dict[str, tuple[str, str]] = {}  # template to its first task, and that task's first prompt
        self.notes: list[str] = []
        self.problems: list[str] = []
        self.problems_of_tasks: dict[str, list[str]] = {}  # problem to the tasks that have it
        self.missing: dict[SourceFile, None] = {}
        self.cuts: dict[str, context_window.Cut] = {}
        self.cuts_allowed: dict[str, context_window.Cut] = {}

    @property
    def ready(self) -> bool:
        return not (self.missing or self.problems or self.problems_of_tasks or self.cuts)

    def find_model(self, is_named: bool) -> None:
        """Make a model without weights, or load the tokenizer of another; and check the folder of the results."""
        from lm_eval_tasks.data import check_writable
        from lm_eval_tasks.harness import get_model
        from lm_eval_tasks.harness.harness_results import output_folder
        from lm_eval_tasks.models import DocumentAnswerer

        config = self.config
        if config.output_path:
            try:
                check_writable(output_folder(config.output_path))
            except UsageError as error:
                self.problems.append(f"--output_path: {error}")
        try:
            kind = self.kind = get_model(config.model) if is_named else None
            if isinstance(kind, type) and issubclass(kind, DocumentAnswerer):
                options = {name: getattr(config, name) for name in ("batch_size", "max_batch_size", "device")}
                self.model = kind.create_from_arg_obj(config.model_args, options)
                return
        except Exception as error:  # an unknown name, a library that is not installed, a wrong argument
            self.problems.append(f"model {config.model}: {_in_one_line(as_ours(error))}")
        if why := self._find_tokenizer(config.model_args):
            self.notes.append(f"tokens are estimated by script: {why}")
        elif config.apply_chat_template and not self.tokenizer.chat_template:
            self.problems.append("--apply_chat_template: the tokenizer has no chat template")
        self.window = context_window.planned_window(self.kind, config.model_args, self.settings, self.tokenizer)

    def _find_tokenizer(self, model_args: Any) -> str:
        """Load the tokenizer without downloading; return why it cannot be loaded, or an empty text."""
        name = next((str(model_args[key]) for key in _TOKENIZERS if model_args.get(key)), None)
        if name is None:
            return "no tokenizer is named (--model_args pretrained=NAME or tokenizer=NAME)"
        try:
            from transformers import AutoConfig, AutoTokenizer
        except ImportError:
            return f"the tokenizer of {name} needs transformers: pip install 'lm-eval-grounded[hf]'"
        offline: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        if model_args.get("revision"):
            offline["revision"] = str(model_args["revision"])
        try:
            self.settings = AutoConfig.from_pretrained(str(model_args.get("pretrained") or name), **offline)
        except Exception:  # a folder with only a tokenizer, a server's model, or not on this machine
            self.settings = None
        architecture = next(iter(getattr(self.settings, "architectures", None) or ()), "")
        if architecture.endswith("ForTokenClassification"):
            self.problems.append(
                f"{model_args.get('pretrained')} is a {architecture}: it marks words and writes no answers. Name it as a "
                f'detector: --metadata \'{{"detector": "NAME"}}\', or --model hallucination-detector on detection tasks'
            )
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(name, **offline)
        except Exception as error:  # transformers raises OSError, ValueError, ImportError and those of its parsers
            message = next(iter(str(error).splitlines()), type(error).__name__)
            return f"the tokenizer of {name} cannot be loaded on this machine: {message}"
        return ""

    def prepare(self, manager: Any, spec: Any) -> list[Any]:
        from lm_eval_tasks.data.sources import MissingSource

        name = spec if isinstance(spec, str) else str(spec.get("task") or spec.get("group"))
        described = len(self.lines)
        requests: list[Any] = []
        try:
            for task in manager.load([spec])["tasks"].values():
                requests += self._requests(task)
                self._describe(name, task, requests)
        except MissingSource as error:
            self.missing |= dict.fromkeys(error.files)
            if not error.files:
                self._task_problem(name, _in_one_line(error))
        except Exception as error:  # any error of ours, of the harness, or of another task would end the run
            self._task_problem(name, _in_one_line(as_ours(error)))
        if len(self.lines) == described:
            self.lines.append(f"{name}: not ready")
        return requests

    def _task_problem(self, task: str, problem: str) -> None:
        self.problems_of_tasks.setdefault(problem.removeprefix(f"{task}: "), []).append(task)

    def _requests(self, task: Any) -> list[Any]:
        """The requests of a task as ``simple_evaluate`` would have them built."""
        config, limit = self.config, self.config.limit
        if config.predict_only:
            task.override_metric(metric_name="bypass")
        if config.gen_kwargs and task.get_config("output_type") == "generate_until":
            task.set_config(key="generation_kwargs", value=config.gen_kwargs, update=True)
        if task.get_config("num_fewshot") != 0 and config.num_fewshot is not None:
            task.set_config(key="num_fewshot", value=config.num_fewshot)
        elif task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=config.seed[-1] if isinstance(config.seed, list) else None)
        task.build_all_requests(
            limit=None if limit is None else ceil(len(task.eval_docs) * limit) if limit < 1 else int(limit),
            samples=config.samples.get(task.config.task) if isinstance(config.samples, dict) else None,
            system_instruction=config.system_instruction,
            apply_chat_template=bool(config.apply_chat_template),
            fewshot_as_multiturn=bool(config.fewshot_as_multiturn),
            chat_template=self._templated if config.apply_chat_template else None,
        )
        return list(task.instances)

    def _templated(self, turns: Any, add_generation_prompt: bool = True) -> str:
        if self.model is not None:
            return str(self.model.apply_chat_template(turns, add_generation_prompt=add_generation_prompt))
        if self.tokenizer is None or not self.tokenizer.chat_template:  # a server's: its turns one after another
            return "\n\n".join(turn["content"] for turn in turns)
        options = dict(self.config.model_args.get("chat_template_args") or {})
        if isinstance(self.config.apply_chat_template, str):
            options["chat_template"] = self.config.apply_chat_template
        continuing = {"continue_final_message": not add_generation_prompt, **options}
        prompt = self.tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=add_generation_prompt, **continuing
        )
        return str(prompt)

    def _describe(self, name: str, task: Any, requests: Sequence[Any]) -> None:
        """Report the number of questions, the lengths of their prompts, and the detector and calibration of the answers."""
        tagging = []
        if getattr(task, "tags_answers", False):
            from detector_plugin.detector import describe
            from detector_plugin.filters import shared_detector
            from lm_eval_tasks.detection.calibrated import describe_calibration

            doc = next(iter(task.eval_docs))
            detector = describe(shared_detector(doc["detector"], doc["detector_args"]))
            calibration = describe_calibration(doc)
            corrected = f"{calibration['file']} ({calibration['annotations']})" if calibration else "none"
            tagging = [f"  detector {detector['name']}, version {detector['version']}; calibration {corrected}"]
        prompts = [str(request.args[0]) for request in requests]
        if not prompts:
            return
        lengths_of = self._lengths([*dict.fromkeys(prompts)])
        tokens = [lengths_of[prompt] for prompt in prompts]
        unit, counts = ("characters", [*map(len, prompts)]) if self.tokenizer is None else ("tokens", tokens)
        window = self.window or context_window.Window(
            0, int(self.config.model_args.get("max_gen_toks") or context_window.DEFAULT_ANSWER)
        )
        is_generated = task.config.output_type == "generate_until"
        answer = window.longest_answer(task.config.generation_kwargs or {}) if is_generated else 0
        self.requests += len(prompts)
        self.prompt_tokens += sum(tokens)
        self.answer_tokens += len(prompts) * answer
        questions = len({(request.task_name, request.doc_id) for request in requests})
        lengths = f"{min(counts)} to {max(counts)} {unit}, median {round(median(counts))}"
        limit = f"; answers of up to {answer} tokens" if answer else ""
        self.lines += [f"{name}: {questions} questions; prompts of {lengths}{limit}", *tagging]
        self.examples.setdefault(str(task.config.doc_to_text), (name, prompts[0]))
        cut = context_window.count_cut(self.window, requests, lambda prompt: lengths_of[str(prompt)])
        if cut and hasattr(task, "may_cut_prompts"):
            (self.cuts_allowed if task.may_cut_prompts else self.cuts)[name] = cut

    def _lengths(self, prompts: list[str]) -> dict[str, int]:
        """Tokens of each prompt, by the model's tokenizer or an estimate. `hf` alone adds those of a text's beginning."""
        if self.tokenizer is None:
            return {prompt: context_window.estimated_length(prompt) for prompt in prompts}
        begins = self.kind is None or any(each.__name__ == "HFLM" for each in self.kind.__mro__)
        begins = begins and not prompts[0].startswith(self.tokenizer.bos_token or "\0")
        tokens = self.tokenizer(prompts, add_special_tokens=begins)["input_ids"]
        return dict(zip(prompts, map(len, tokens), strict=True))

    def try_model(self, requests: Sequence[Any]) -> None:
        """Ask a model without weights: ``replay`` for every answer, others for one answer of each task."""
        from lm_eval_tasks.models.replay import Replay

        if self.model is None or not requests:
            return
        one_a_task = {request.task_name: request for request in requests}
        try:
            self.model.respond(requests if isinstance(self.model, Replay) else [*one_a_task.values()], True)
        except PlainError as error:
            self.problems.append(_in_one_line(error))

    def _cost(self, speed: tuple[float, str] | None) -> str:
        prompts = f"{self.prompt_tokens:,}" if self.tokenizer else f"about {_about(self.prompt_tokens):,}"
        cost = (
            f"in all: {self.requests:,} requests; {prompts} tokens of prompts, up to {self.answer_tokens:,} of answers"
        )
        if speed is None:
            return cost
        number, unit = speed
        seconds = (self.requests if unit == "requests" else self.prompt_tokens + self.answer_tokens) / number
        most = "at most " if unit == "tokens" else ""
        minutes, hours = seconds / 60, seconds / 3600
        time = f"{hours:.1f} hours" if hours >= 2 else f"{minutes:.0f} minutes" if minutes >= 2 else f"{seconds:.0f} s"
        return f"{cost}; {most}{time} at {number:,g} {unit} a second, without loading the model"

    def report(self, speed: tuple[float, str] | None = None, full: bool = False) -> Iterator[str]:
        from lm_eval_tasks.data import sources
        from lm_eval_tasks.harness import installed, untried
        from lm_eval_tasks.harness.autoload import task_folder

        yield from self.lines
        if self.requests:
            yield self._cost(speed)
        for task, prompt in self.examples.values():
            yield f"\nThe first prompt of {task}:"
            left_out = 0 if full else len(prompt) - _HEAD - _TAIL
            parts = [prompt[:_HEAD], prompt[-_TAIL:]] if left_out > 0 else [prompt]
            for number, part in enumerate(parts):
                if number:
                    yield f"  [{left_out:,} characters left out; --full shows them]"
                yield from (f"  | {printable(line)}" for line in part.splitlines())
        yield f"\nThe harness is lm-eval {installed()}; our tasks are in {task_folder()}."
        for task, cut in self.cuts_allowed.items():
            self.notes.append(f"{cut.cut} of {cut.of} prompts of {task} will be cut, which {CUT_PROMPTS} allows")
        yield from (f"note: {on_one_line(note)}" for note in filter(None, (untried(), *self.notes)))
        for problem, tasks in self.problems_of_tasks.items():
            more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
            yield on_one_line(f"problem: {tasks[0]}{more}: {problem}")
        if self.cuts and self.window:
            self.problems.append(context_window.refusal(self.cuts, self.window, estimated=self.tokenizer is None))
        yield from (f"problem: {on_one_line(problem)}" for problem in self.problems)
        if self.missing:
            yield f"problem: {len(self.missing)} public files are missing:"
            yield from (f"  {file.repository}/{file.path}" for file in self.missing)
            folder = sources.mirror_folder(self.config.metadata.get("mirror"))
            command = sources.fetch_command([*self.missing], folder)
            yield f"On a machine with internet, this fetches them:\n  {command}"
        yield "ready: every file is here, every prompt could be made" if self.ready else "not ready"


def _in_one_line(error: BaseException) -> str:
    """The message of an error on one line; with its class if it is not meant for users."""
    text = blank(" ".join(str(error).split()))
    return text if isinstance(error, PlainError) else f"{type(error).__name__}: {text}"


def _about(number: int) -> int:
    """A number with its first two digits."""
    return round(number, 2 - len(str(number)))
