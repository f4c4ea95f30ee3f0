"""What a results file says of its run: the tasks whose numbers can be traced, and the commands behind them, as they were
typed where it has that, else built from the settings of the run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from custom_metrics.usage.printable import shell_word
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.runs.results_file import leaves_of, read_results, record_of, said_of

__all__ = ["OUTPUT", "RecordedRun", "commands_of", "read_recorded"]

OUTPUT = "reproduced"
"""Folder that the commands write to."""

_SEEDS = {"random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234}  # and the harness's defaults
_DEFAULT_DEVICE = "cuda:0"  # of the harness's command line, where nobody says anything


@dataclass(frozen=True)
class RecordedRun:
    """A results file, as far as its tasks are ours and chosen.

    Attributes:
        results: the whole content.
        configs: task to its configuration, in the order they were run.
        records: task to the provenance of its numbers.
        metadata: the options that were given with ``--metadata``.
    """

    results: Mapping[str, Any]
    configs: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, Mapping[str, Any]]
    metadata: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """Model, arguments, seeds and limit, as the harness writes them."""
        config: Mapping[str, Any] = self.results["config"]
        return config


def read_recorded(path: Path, task: str | None = None) -> RecordedRun:
    """Read a results file, of which one task or group may be chosen.

    Raises:
        ValueError: it is no such file, is damaged, or says nothing of where its numbers come from.
        OSError: it cannot be read.
    """
    results = read_results(path)
    names = _in_order(results)
    if task is not None:
        groups = results.get("group_subtasks") or {}
        leaves = set(leaves_of(task, groups))
        names = [name for name in names if name in leaves]
        if not names:
            raise ValueError(f"{path} has no task {task}; it has {', '.join([*groups, *results['configs']])}")
    records = {name: record for name in names if (record := record_of(results["configs"][name]))}
    if not records:
        raise ValueError(f"{path}{_why_untraceable(results['configs'], names)}")
    configs = {name: results["configs"][name] for name in records}
    metadata: dict[str, Any] = {}
    for name, config in configs.items():
        answers = records[name].get("answers")
        given = answers.get("metadata") if isinstance(answers, Mapping) else None
        if not isinstance(given, Mapping):
            given = provenance.metadata_given(config, results["config"].get("model_args"))
        metadata |= given
    return RecordedRun(results, configs, records, metadata)


def _in_order(results: Mapping[str, Any]) -> list[str]:
    """The tasks of a results file, in the order they were run."""
    return [name for name in results.get("n-samples") or results["configs"] if name in results["configs"]]


def _why_untraceable(configs: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> str:
    for name in names:
        record = said_of(configs[name], "provenance")
        if isinstance(record, Mapping) and record.get("failed"):
            return f": where the numbers of {name} come from could not be written down then: {record['failed']}"
    tasks = ", ".join(names)
    if any("lm_eval_tasks" in str(said_of(config, "config_source")) for config in configs.values()):
        return (
            f" was written by a version of {provenance.PACKAGE} that did not yet say where its numbers come from; "
            f"run the tasks again ({tasks})"
        )
    return f" has no results of {provenance.PACKAGE}: its tasks are {tasks or 'none'}"


# ------------------------------------------------------------------------------------------------------------ commands


def commands_of(run: RecordedRun, task: str | None = None, mirror: str | None = None) -> tuple[list[str], list[str]]:
    """The commands to be typed one after another, and notes on what they cannot say.

    Args:
        run: what the results file says.
        task: the task or group that was chosen; default all.
        mirror: where the public files lie here, if not where the results say.

    Returns:
        The harness's command, and the one that scored its answers where these were logged first. No command where a program
        made the model.
    """
    config, model, source = run.config, run.config.get("model"), run.results.get("model_source")
    if not isinstance(model, str) or source in (None, "CUSTOM", "logged answers"):
        return [], [f"The model was an object of a program's own ({model}): there is no command that makes it."]
    notes: list[str] = []
    everything = _in_order(run.results)
    if not task and (others := [name for name in everything if name not in run.configs]):
        notes.append(f"The run had tasks that say nothing of where their numbers come from: {', '.join(others)}.")
    words = None if task else _as_typed(run, mirror, notes)
    if words is None:
        words = _built(run, task or ",".join(_groups_of(run.results, everything)), notes)
    if config.get("model_sha"):
        notes.append(
            f"The model was at commit {config['model_sha']}: revision={config['model_sha']} in --model_args has that one, "
            f"whatever has come since."
        )
    if config.get("use_cache"):
        notes.append(f"Answers may have come from a cache (--use_cache {config['use_cache']}).")
    sampled = [name for name, each in run.configs.items() if (each.get("generation_kwargs") or {}).get("do_sample")]
    if sampled and model not in WEIGHTLESS:
        notes.append(
            f"Answers of {', '.join(sampled)} were sampled: with the same seeds they are the same on the same hardware, "
            f"batch size and libraries only."
        )
    commands = [words]
    if any("answers" in record for record in run.records.values()):
        scored = ["lm-eval-grounded", "score", OUTPUT]
        metadata = next(iter(run.configs.values())).get("metadata") or {}
        for key in ("detector", "detector_args", "calibration", "calibration_annotations"):
            if (value := metadata.get(key)) is not None:
                given = json.dumps(value) if isinstance(value, Mapping) else str(value)
                scored += [f"--{key.removeprefix('calibration_')}", given]
        commands.append(scored)
    first, *others = (" ".join(map(shell_word, words)) for words in commands)
    origins = {str(record.get("read_from")) for record in run.records.values()}
    if "mirror" not in run.metadata and origins & {"mirror", sources.SAMPLE}:  # the environment named it
        if named := mirror or (sources.SAMPLE if sources.SAMPLE in origins else ""):
            first = f"{sources.MIRROR_VARIABLE}={shell_word(named)} {first}"
        else:
            notes.append(f"The files came from a mirror that {sources.MIRROR_VARIABLE} named; set it to yours.")
    return [first, *others], notes


def _as_typed(run: RecordedRun, mirror: str | None, notes: list[str]) -> list[str] | None:
    """The words of the command line that the run wrote down; ``None`` where it wrote none, as older releases."""
    typed = next((said_of(config, provenance.COMMAND_LINE) for config in run.configs.values()), None)
    try:
        words = shlex.split(typed) if isinstance(typed, str) else []
    except ValueError:  # a quotation that never ends
        return None
    if words[:1] != ["lm_eval"]:
        return None
    for option in ("--output_path", "-o"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    if mirror and "mirror" in run.metadata:
        words += ["--metadata", f"mirror={mirror}"]  # the harness takes the last one
    if any(provenance.BLANK in word for word in words):
        notes.append(f"{provenance.BLANK} stands for a secret that was not written down.")
    return [*words, "--output_path", OUTPUT]


def _built(run: RecordedRun, tasks: str, notes: list[str]) -> list[str]:
    """The words of a command with the settings of the run."""
    results, config = run.results, run.config
    asked = {name: record["run"] for name, record in run.records.items() if isinstance(record.get("run"), Mapping)}
    chat_template = any(of_task.get("apply_chat_template") for of_task in asked.values())
    samples = {name: of_task["samples"] for name, of_task in asked.items() if of_task.get("samples")}
    seeds = [config.get(name) for name in _SEEDS]
    limit = None if config.get("limit") is None else float(config["limit"])
    folders = dict.fromkeys(
        str(Path(source).parent)
        for each in run.configs.values()
        if (source := said_of(each, "config_source")) and "lm_eval_tasks" not in Path(str(source)).parts
    )
    predicted = False
    for name, each in run.configs.items():
        answers = run.records[name].get("answers")
        logged_first = (
            bool(answers.get("predict_only")) if isinstance(answers, Mapping) else provenance.is_predicted(each)
        )
        predicted = predicted or logged_first
    options = {
        "--model": config["model"],
        "--model_args": _pairs(config.get("model_args") or ""),
        "--tasks": tasks,
        "--num_fewshot": max((int(each.get("num_fewshot") or 0) for each in run.configs.values()), default=0),
        "--batch_size": config.get("batch_size") if config.get("batch_size") not in (1, "1") else None,
        "--device": config.get("device") if config.get("device") != _DEFAULT_DEVICE else None,
        "--limit": None if limit is None else str(int(limit) if limit.is_integer() else limit),
        "--samples": json.dumps(samples) if samples else None,
        "--gen_kwargs": _pairs(config.get("gen_kwargs") or ""),
        "--metadata": _pairs(run.metadata or ""),
        "--seed": ",".join(map(str, seeds)) if seeds != [*_SEEDS.values()] else None,
        "--apply_chat_template": chat_template,
        "--fewshot_as_multiturn": "false" if chat_template and results.get("fewshot_as_multiturn") is False else None,
        "--system_instruction": results.get("system_instruction"),
        "--include_path": next(iter(folders), None),
        "--predict_only": predicted,
    }
    words = ["lm_eval"]
    for option, value in options.items():
        if value:
            words += [option] if value is True else [option, str(value)]
    if chat_template and results.get("chat_template_sha"):
        notes.append(
            f"Chat template: SHA-256 {results['chat_template_sha']}. The harness does not write down its name: where "
            f"the tokenizer has several, name it behind --apply_chat_template."
        )
    if len(folders) > 1:
        notes.append(f"The tasks' YAMLs lie in several folders, and --include_path takes one: {', '.join(folders)}.")
    return [*words, "--output_path", OUTPUT, "--log_samples"]


def _groups_of(results: Mapping[str, Any], tasks: Sequence[str]) -> list[str]:
    """What was asked for: groups of which all is there, and the tasks of none; in the order they were run."""
    groups = results.get("group_subtasks") or {}
    inner = {member for members in groups.values() for member in members}
    whole = {name: set(leaves_of(name, groups)) for name in groups if name not in inner}
    named: dict[str, None] = {}
    for each in tasks:
        group = next((name for name, leaves in whole.items() if each in leaves and leaves <= set(tasks)), each)
        named[group] = None
    return list(named)


def _pairs(arguments: Any) -> str:
    """Arguments as the harness's command line reads them: ``a=b,c=d`` where that gives the same values, else JSON."""
    if not isinstance(arguments, Mapping):
        return str(arguments)
    from lm_eval._cli.utils import key_val_to_dict

    def exactly(values: Mapping[str, Any]) -> str:  # 1, 1.0 and true are equal in Python, and not here
        return json.dumps(dict(values), sort_keys=True, default=repr)

    written = ",".join(f"{key}={value}" for key, value in arguments.items())
    try:
        if "{" not in written and exactly(key_val_to_dict(written)) == exactly(arguments):
            return written
    except (ValueError, SyntaxError):
        pass
    return json.dumps(dict(arguments), ensure_ascii=False)
