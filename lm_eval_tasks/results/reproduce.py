"""The command behind a results file, and the versions, files and settings that differ here. Nothing is downloaded.

The harness writes model, arguments and seeds into ``config``. The rest is in ``configs.<task>.metadata``
(:mod:`lm_eval_tasks.data.provenance`).
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.usage.options import assignments
from custom_metrics.usage.printable import shell_word
from custom_metrics.usage.secrets import BLANK
from lm_eval_tasks.data import provenance, sha256_of, sources
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.runs import Run
from lm_eval_tasks.runs.results_file import metadata_of, provenance_of, read_results

OUTPUT = "reproduced"
"""Folder that the commands write to."""


class RecordedRun(NamedTuple):
    """A results file."""

    results: Mapping[str, Any]  # the whole content
    records: Mapping[str, Mapping[str, Any]]  # task of ours to the provenance of its numbers
    options: Mapping[str, Any]  # metadata of these tasks, with what was given when their answers were made


def read_recorded(path: Path) -> RecordedRun:
    """Read a results file. OSError or ValueError: it cannot be read, or has no provenance of its numbers."""
    results = read_results(path)
    configs = results["configs"]
    names = [name for name in results.get("n-samples") or configs if name in configs]
    records = {name: record for name in names if (record := provenance_of(configs[name]))}
    if not records:
        raise ValueError(f"{path} does not say where the numbers of its tasks ({', '.join(names) or 'none'}) come from")
    made = [mapping(mapping(record.get("answers")).get("metadata")) for record in records.values()]
    given = [*(mapping(configs[name].get("metadata")) for name in records), *made]
    return RecordedRun(results, records, {name: value for each in given for name, value in each.items()})


def commands_of(run: RecordedRun) -> tuple[list[str], list[str]]:
    """The harness's command, and the one that scored its answers if these were logged first, none where the run recorded no
    command line; and notes on what they do not contain."""
    config = run.results["configs"][next(iter(run.records))]
    origins = {str(record.get("read_from")) for record in run.records.values()}
    words, notes = list[str](), list[str]()
    with suppress(ValueError):  # a quotation that never ends
        words = shlex.split(str(metadata_of(config, provenance.COMMAND_LINE) or ""))
    if sha := run.results["config"].get("model_sha"):
        notes.append(f"The model was at commit {sha}: revision={sha} in --model_args keeps it there.")
    if words[:1] != ["lm_eval"]:
        started = "a program started it (simple_evaluate), or its answers came without a results file"
        from_log = "`lm-eval-grounded detect` read a log and made this run."
        return [], [from_log if "log" in origins else f"The run recorded no command line: {started}.", *notes]
    own = {place for place, word in enumerate(words) if word in ("--output_path", "-o")}
    words = [word for place, word in enumerate(words) if not {place, place - 1} & own]
    if "--metadata" in words:  # as JSON, which every version of the harness reads
        first = words.index("--metadata") + 1
        last = next((place for place in range(first, len(words)) if words[place].startswith("-")), len(words))
        given = [json.loads(word) if word.startswith("{") else assignments(word) for word in words[first:last]]
        options = {name: value for each in given for name, value in each.items()}
        words[first:last] = [json.dumps(options, ensure_ascii=False)]
    commands = [" ".join(map(shell_word, [*words, "--output_path", OUTPUT]))]
    if "mirror" not in run.options and origins & {"mirror", sources.SAMPLE}:  # the environment named it
        place = sources.SAMPLE if sources.SAMPLE in origins else "DIR"
        commands[0] = f"{sources.MIRROR_VARIABLE}={place} {commands[0]}"
    if any("answers" in record for record in run.records.values()):
        scored = ["lm-eval-grounded", "score", OUTPUT]
        for key in ("detector", "detector_args", "calibration", "calibration_annotations"):
            if (value := metadata_of(config, key)) is not None:
                text = json.dumps(value) if isinstance(value, Mapping) else str(value)
                scored += [f"--{key.removeprefix('calibration_')}", text]
        by_people = (mapping(record.get(key)) for record in run.records.values() for key in ("marks", "label_marks"))
        if marks := dict.fromkeys(name for each in by_people for name in each.get("files") or ()):
            scored += ["--marks", *marks]
        commands.append(" ".join(map(shell_word, scored)))
    if any(BLANK in command for command in commands):
        notes.append(f"{BLANK} stands for a key or a password: put yours in its place.")
    return commands, notes


def command_files(runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """The results files of some runs (label to run), each once, with the commands that made them, in order; with ``notes``
    on what the commands do not contain, or why there are none; and the number of the report's tasks in each file."""
    for model, run in runs.items():
        files = Counter(task.results_file for task in run.tasks.values())
        for path, tasks in files.items():
            why = "There is no results file beside the samples: the command is not known."
            try:
                commands, notes = commands_of(read_recorded(path)) if path else ([], [why])
            except (OSError, ValueError) as error:
                commands, notes = [], [str(error).replace(str(path), path.name if path else "")]
            where = {"folder": (path.parent if path else run.folder).name, "file": path.name if path else ""}
            yield {"model": model, **where, "tasks": tasks, "commands": commands, "notes": notes}


def differences(run: RecordedRun, path: Path) -> list[str]:
    """What is not here, or is another version or file than the results file `path` says: a line each."""
    compared = (*_versions(run), *_public_files(run), *_local_files(run, path), *_calibrations(run))
    lines = [f"{name}: {there} there, {here or 'nothing'} here" for name, there, here in compared if there != here]
    return [*dict.fromkeys(lines)]


Compared = tuple[str, Any, Any]  # what it is; its version or SHA-256 there, and here: ``None`` where it is not here


def _versions(run: RecordedRun) -> Iterator[Compared]:
    recorded = {name: number for each in run.records.values() for name, number in mapping(each.get("versions")).items()}
    harness = {name: run.results.get(f"{name}_version") for name in ("lm_eval", "transformers")}
    for name, number in {**recorded, **{name: n for name, n in harness.items() if n and n != "N/A"}}.items():
        try:
            yield name, str(number), version(name)
        except PackageNotFoundError:
            yield name, str(number), None


def _public_files(run: RecordedRun) -> Iterator[Compared]:
    """The public files in the mirror that the run names, else in that of the environment, else in the caches."""
    records = run.records.values()
    of_sample = any(record.get("read_from") == sources.SAMPLE for record in records)
    mirror = run.options.get("mirror") or (sources.SAMPLE if of_sample else None)
    try:
        folder = sources.mirror_folder(mirror)
    except sources.MissingSource:
        yield "mirror", mirror, None
        folder = sources.mirror_folder()
    entries = {(entry["repository"], entry["path"]): entry for record in records for entry in record.get("files") or ()}
    for (repository, name), entry in sorted(entries.items()):
        here = None
        with suppress(KeyError):  # a file that no task reads any more
            here = sources.local_copy(sources.source_file(repository, name), folder)
        yield f"{repository}@{entry['revision'][:12]} {name}", entry.get("sha256"), here and sha256_of(here)


def _local_files(run: RecordedRun, path: Path) -> Iterator[Compared]:
    """The user's files: where ``--metadata`` or the model's arguments named them, or beside the results."""
    config = run.results["config"]
    places = {**mapping(config.get("model_args")), **run.options}
    entries = [entry for record in run.records.values() for entry in record.get("local_files") or ()]
    for entry in (*entries, *(config.get("answers_from") or [])):
        named, name = places.get(entry["option"]) or [], Path(entry["name"])
        listed = [Path(str(each)).expanduser() for each in (named if isinstance(named, list) else [named])]
        candidates = (*(each / name for each in listed), *listed, path.parent / name.name)
        here = next((file for file in candidates if file.name == name.name and file.is_file()), None)
        yield f"{entry['option']}: {entry['name']}", entry.get("sha256"), here and sha256_of(here)


def _calibrations(run: RecordedRun) -> Iterator[Compared]:
    from detector_plugin.calibration import CalibrationError, load

    for task, record in run.records.items():
        if calibration := mapping(record.get("calibration")):
            named = metadata_of(run.results["configs"][task], "calibration")
            here = None
            with suppress(CalibrationError):
                here = load(str(named or mapping(record.get("detector")).get("name"))).sha256
            yield f"calibration {calibration.get('file')}", calibration.get("sha256"), here
