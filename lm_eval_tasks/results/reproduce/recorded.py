"""The run that a results file records: the tasks whose numbers can be traced, and the commands that made them, as typed."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from custom_metrics.usage.options import assignments
from custom_metrics.usage.printable import shell_word
from custom_metrics.usage.secrets import BLANK
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.definition.catalogue import hint
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.runs.results_file import leaves_of, mapping, metadata_of, provenance_of, read_results

OUTPUT = "reproduced"
"""Folder that the commands write to."""


@dataclass(frozen=True)
class RecordedRun:
    """The content of a results file about the chosen tasks of ours."""

    results: Mapping[str, Any]  # the whole content
    configs: Mapping[str, Mapping[str, Any]]  # of the tasks, in the order they were run
    records: Mapping[str, Mapping[str, Any]]  # task to the provenance of its numbers
    untraceable: Sequence[str]  # tasks without such a record
    config: Mapping[str, Any]  # model, arguments, seeds and limit, as the harness writes them
    metadata: Mapping[str, Any]  # the options that were given with ``--metadata``


def read_recorded(path: Path, task: str | None = None) -> RecordedRun:
    """Read a results file, or one task or group of it.

    Raises:
        ValueError: the file is damaged, no results file, or has no provenance of its numbers.
        OSError: it cannot be read.
    """
    results = read_results(path)
    names = [name for name in results.get("n-samples") or results["configs"] if name in results["configs"]]
    if task is not None:
        groups = results.get("group_subtasks") or {}
        leaves = set(leaves_of(task, groups))
        names = [name for name in names if name in leaves]
        if not names:
            known = [*groups, *results["configs"]]
            raise ValueError(f"{path} has no task {task}{hint([task], known)}; it has {', '.join(known)}")
    records = {name: record for name in names if (record := provenance_of(results["configs"][name]))}
    if not records:
        for name in names:
            if why := mapping(metadata_of(results["configs"][name], "provenance")).get("failed"):
                raise ValueError(f"{path}: where the numbers of {name} come from could not be written down then: {why}")
        raise ValueError(f"{path} has no results of {provenance.PACKAGE}: its tasks are {', '.join(names) or 'none'}")
    untraceable = [name for name in names if name not in records]
    configs = {name: results["configs"][name] for name in records}
    metadata: dict[str, Any] = {}
    for name, config in configs.items():
        answers = records[name].get("answers")
        options = answers.get("metadata") if isinstance(answers, Mapping) else None
        if not isinstance(options, Mapping):
            options = provenance.metadata_given(config, results["config"].get("model_args"))
        metadata |= options
    return RecordedRun(results, configs, records, untraceable, results["config"], metadata)


# ------------------------------------------------------------------------------------------------------------ commands


def commands_of(run: RecordedRun, task: str | None = None, mirror: str | None = None) -> tuple[list[str], list[str]]:
    """The commands to run in this order, and notes on what they do not contain: the harness's command, and the one that
    scored its answers if these were logged first. There are none if the run recorded no command line.

    Task and mirror are those of :func:`lm_eval_tasks.results.reproduce.reproduce`.
    """
    config, notes = run.config, []
    typed = next(filter(None, (metadata_of(config, provenance.COMMAND_LINE) for config in run.configs.values())), None)
    try:
        words = shlex.split(typed) if isinstance(typed, str) else []
    except ValueError:  # a quotation that never ends
        words = []
    if words[:1] != ["lm_eval"]:
        words = []
        is_log = any(provenance_of(config).get("read_from") == "log" for config in run.configs.values())
        notes.append(
            "`lm-eval-grounded detect` read a log and made this run."
            if is_log
            else "The run wrote down no command line: a program started it (simple_evaluate), or its answers came without "
            "a results file."
        )
    if run.untraceable:
        notes.append(
            f"The run had tasks that say nothing of where their numbers come from: {', '.join(run.untraceable)}."
        )
    if config.get("model_sha"):
        notes.append(
            f"The model was at commit {config['model_sha']}: revision={config['model_sha']} in --model_args has that one, "
            f"whatever has come since."
        )
    if config.get("use_cache"):
        notes.append(f"Answers may have come from a cache (--use_cache {config['use_cache']}).")
    sampled = [name for name, config in run.configs.items() if (config.get("generation_kwargs") or {}).get("do_sample")]
    if sampled and config.get("model") not in WEIGHTLESS:
        notes.append(
            f"Answers of {', '.join(sampled)} were sampled: with the same seeds they are the same on the same hardware, "
            f"batch size and libraries only."
        )
    named_here = mirror if "mirror" in run.metadata else None
    if any(word.startswith(("--config", "-C")) for word in words):
        notes.append(
            "The command reads its other settings from the file behind --config, whose content is not recorded."
        )
        if named_here and "--metadata" not in words:  # which would replace the file's metadata
            notes.append(f"Write mirror={named_here} into the metadata of that file.")
            named_here = None
    environment = ""
    origins = {str(record.get("read_from")) for record in run.records.values()}
    if "mirror" not in run.metadata and origins & {"mirror", sources.SAMPLE}:  # the environment named it
        if place := mirror or (sources.SAMPLE if sources.SAMPLE in origins else ""):
            environment = f"{sources.MIRROR_VARIABLE}={shell_word(place)} "
        else:
            notes.append(f"The files came from a mirror that {sources.MIRROR_VARIABLE} named; set it to yours.")
    if not words:
        return [], notes
    words = _drop_option(words, "--output_path", "-o")
    if task:
        words = [*_drop_option(words, "--tasks", "-t"), "--tasks", task]
    words = _with_json(words, {"mirror": named_here} if named_here else {})
    commands = [environment + " ".join(map(shell_word, [*words, "--output_path", OUTPUT]))]
    if any("answers" in record for record in run.records.values()):
        scored = ["lm-eval-grounded", "score", OUTPUT]
        metadata = next(iter(run.configs.values())).get("metadata") or {}
        for key in ("detector", "detector_args", "calibration", "calibration_annotations"):
            if (value := metadata.get(key)) is not None:
                text = json.dumps(value) if isinstance(value, Mapping) else str(value)
                scored += [f"--{key.removeprefix('calibration_')}", text]
        commands.append(" ".join(map(shell_word, scored)))
    if any(BLANK in command for command in commands):
        notes.append(
            f"{BLANK} stands for a key or a password that was not written down: put yours in its place, or leave the "
            f"option out and set the variable that is read instead, such as OPENAI_API_KEY or HF_TOKEN."
        )
    return commands, notes


def _with_json(words: list[str], more: Mapping[str, Any]) -> list[str]:
    """The words of a command line with all options of ``--metadata``, and `more`, as one JSON object, as every version of
    the harness reads it: 0.4 reads ``name=value`` too, which 0.5 does not."""
    others = _drop_option(words, "--metadata", "")
    left = Counter(words) - Counter(others)
    given: dict[str, Any] = {}
    try:
        for word in words:
            if left[word] and not word.startswith("--"):
                left[word] -= 1
                given |= json.loads(word) if word.startswith("{") else assignments(word)
    except ValueError:  # not understood: as it was typed
        return [*words, *(["--metadata", json.dumps(more)] if more else [])]
    given |= more
    return [*others, "--metadata", json.dumps(given, ensure_ascii=False)] if given else others


def _drop_option(words: list[str], name: str, abbreviation: str) -> list[str]:
    """The words of a command line without an option, which may be abbreviated, and its values."""
    words_left, of_option = [], False
    for word in words:
        if word.startswith("-"):
            option = word.partition("=")[0]
            of_option = option == abbreviation or (len(option) > 2 and name.startswith(option))
        if not of_option:
            words_left.append(word)
    return words_left
