"""The commands behind a results file, as they were typed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from custom_metrics.usage.printable import shell_word
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.runs.results_file import leaves_of, said_of

__all__ = ["OUTPUT", "commands_of", "score_command"]

_DEFAULT_SEEDS = (0, 1234, 1234, 1234)
_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_DEFAULT_DEVICE = "cuda:0"  # of the harness's command line, where nobody says anything

OUTPUT = "reproduced"
"""Folder that the commands write to."""


def commands_of(
    results: Mapping[str, Any],
    configs: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    told: Mapping[str, Any],
    task: str | None,
    mirror: str | None,
) -> tuple[list[str], list[str]]:
    """The harness's command, and what it cannot say."""
    config, notes = results["config"], []
    model = config.get("model")
    if not isinstance(model, str) or results.get("model_source") in (None, "CUSTOM", "logged answers"):
        return [], [f"The model was an object of a program's own ({model}): there is no command that makes it."]
    words = ["lm_eval", "--model", model]
    arguments = config.get("model_args")
    if arguments:
        words += ["--model_args", _pairs(arguments)]
    everything = [name for name in results.get("n-samples") or results["configs"] if name in results["configs"]]
    words += ["--tasks", ",".join([task] if task else _named(results, everything))]
    if not task and (others := [name for name in everything if name not in configs]):
        notes.append(f"The run had tasks that say nothing of where their numbers come from: {', '.join(others)}.")
    shots = max((int(each.get("num_fewshot") or 0) for each in configs.values()), default=0)
    if shots:
        words += ["--num_fewshot", str(shots)]
    if config.get("batch_size") not in (None, 1, "1"):
        words += ["--batch_size", str(config["batch_size"])]
    if config.get("device") not in (None, _DEFAULT_DEVICE):
        words += ["--device", str(config["device"])]
    if config.get("limit") is not None:
        limit = float(config["limit"])
        words += ["--limit", str(int(limit)) if limit.is_integer() else str(limit)]
    picked = {name: chosen for name, record in records.items() if (chosen := _run(record).get("samples"))}
    if picked:
        words += ["--samples", json.dumps(picked)]
    if config.get("gen_kwargs"):
        words += ["--gen_kwargs", _pairs(config["gen_kwargs"])]
    if told:
        words += ["--metadata", _pairs(dict(told))]
    seeds = tuple(config.get(name) for name in _SEEDS)
    if seeds != _DEFAULT_SEEDS:
        words += ["--seed", ",".join(map(str, seeds))]
    if any(_run(record).get("apply_chat_template") for record in records.values()):
        words.append("--apply_chat_template")
        if results.get("fewshot_as_multiturn") is False:
            words += ["--fewshot_as_multiturn", "false"]
        if results.get("chat_template_sha"):
            notes.append(
                f"Chat template: SHA-256 {results['chat_template_sha']}. The harness does not write down its name: where "
                f"the tokenizer has several, name it behind --apply_chat_template."
            )
    if results.get("system_instruction"):
        words += ["--system_instruction", str(results["system_instruction"])]
    folders = dict.fromkeys(
        str(Path(source).parent)
        for each in configs.values()
        if (source := said_of(each, "config_source")) and "lm_eval_tasks" not in Path(str(source)).parts
    )
    if folders:
        words += ["--include_path", next(iter(folders))]
    if len(folders) > 1:
        notes.append(f"The tasks' YAMLs lie in several folders, and --include_path takes one: {', '.join(folders)}.")
    if any(_is_predicted(name, configs, records) for name in configs):
        words.append("--predict_only")
    words += ["--output_path", OUTPUT, "--log_samples"]
    if config.get("model_sha"):
        notes.append(
            f"The model was at commit {config['model_sha']}: revision={config['model_sha']} in --model_args has that one, "
            f"whatever has come since."
        )
    if config.get("use_cache"):
        notes.append(f"Answers may have come from a cache (--use_cache {config['use_cache']}).")
    sampled = [name for name, each in configs.items() if (each.get("generation_kwargs") or {}).get("do_sample")]
    if sampled and config.get("model") not in WEIGHTLESS:
        notes.append(
            f"Answers of {', '.join(sampled)} were sampled: with the same seeds they are the same on the same hardware, "
            f"batch size and libraries only."
        )
    return [_environment(records, told, mirror, notes) + _line(words)], notes


def _environment(
    records: Mapping[str, Mapping[str, Any]], told: Mapping[str, Any], mirror: str | None, notes: list[str]
) -> str:
    """What stands before the command: the mirror, where the environment named it."""
    origins = {str(record.get("read_from")) for record in records.values()}
    if "mirror" in told or not origins & {"mirror", sources.SAMPLE}:
        return ""
    named = mirror or (sources.SAMPLE if sources.SAMPLE in origins else "")
    if named:
        return f"{sources.MIRROR_VARIABLE}={shell_word(named)} "
    notes.append(f"The files came from a mirror that {sources.MIRROR_VARIABLE} named; set it to yours.")
    return ""


def _run(record: Mapping[str, Any]) -> Mapping[str, Any]:
    run = record.get("run")
    return run if isinstance(run, Mapping) else {}


def _is_predicted(
    name: str, configs: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> bool:
    answers = records[name].get("answers")
    return bool(answers.get("predict_only")) if isinstance(answers, Mapping) else provenance.is_predicted(configs[name])


def _named(results: Mapping[str, Any], tasks: Sequence[str]) -> list[str]:
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

    written = ",".join(f"{key}={value}" for key, value in arguments.items())
    try:
        if "{" not in written and _exactly(key_val_to_dict(written)) == _exactly(arguments):
            return written
    except (ValueError, SyntaxError):
        pass
    return json.dumps(dict(arguments), ensure_ascii=False)


def _exactly(arguments: Mapping[str, Any]) -> str:
    return json.dumps(
        dict(arguments), sort_keys=True, default=repr
    )  # 1, 1.0 and true are equal in Python, and not here


def score_command(configs: Mapping[str, Mapping[str, Any]]) -> str:
    """The second of two steps."""
    words = ["lm-eval-grounded", "score", OUTPUT]
    metadata = next(iter(configs.values())).get("metadata") or {}
    for key, option in (
        ("detector", "--detector"),
        ("detector_args", "--detector_args"),
        ("calibration", "--calibration"),
        ("calibration_annotations", "--annotations"),
    ):
        value = metadata.get(key)
        if value is not None:
            words += [option, json.dumps(value) if isinstance(value, Mapping) else str(value)]
    return _line(words)


def _line(words: Sequence[str]) -> str:
    return " ".join(map(shell_word, words))
