"""The commands and files that reproduce a results file: ``lm-eval-grounded reproduce``.

The harness writes model, arguments, seeds and limit into ``config``, and each task's configuration into ``configs``. The
rest is in ``configs.<task>.metadata`` (:mod:`lm_eval_tasks.data.provenance`). Nothing is downloaded.
"""

from __future__ import annotations

import glob
import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.usage.options import assignments
from custom_metrics.usage.printable import on_one_line, shell_word
from custom_metrics.usage.secrets import BLANK
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.atomic import sha256_of
from lm_eval_tasks.definition.catalogue import hint
from lm_eval_tasks.runs import Run
from lm_eval_tasks.runs.results_file import leaves_of, mapping, metadata_of, provenance_of, read_results

OUTPUT = "reproduced"
"""Folder that the commands write to."""

SAME, DIFFERS, ABSENT = STATES = ("same", "differs", "not here")


class Compared(NamedTuple):
    """A file or version of the recorded run, compared with this machine's: one of :data:`STATES`, its name, and both sums
    or versions if they differ, or why they are unknown."""

    state: str
    name: str
    details: tuple[str, ...] = ()


@dataclass
class Reproduction:
    """The commands and files that reproduce the numbers of a results file."""

    tasks: list[str]  # of ours, in the order they were run
    commands: list[str]  # to be run in this order; empty where none is known
    notes: list[str]  # what the commands do not contain, and what to check
    compared: list[Compared]  # versions and files
    fetch: str  # the command that downloads what is missing; empty if nothing is, or nothing can be downloaded

    @property
    def same(self) -> bool:
        """Whether everything is here, and the same."""
        return bool(self.commands) and all(compared.state == SAME for compared in self.compared)


@dataclass(frozen=True)
class RecordedRun:
    """The content of a results file about the chosen tasks of ours."""

    results: Mapping[str, Any]  # the whole content
    configs: Mapping[str, Mapping[str, Any]]  # of the tasks, in the order they were run
    records: Mapping[str, Mapping[str, Any]]  # task to the provenance of its numbers
    untraceable: Sequence[str]  # tasks without such a record
    metadata: Mapping[str, Any]  # the options that were given with ``--metadata``


def read_recorded(path: Path, task: str | None = None) -> RecordedRun:
    """Read a results file, or one task or group of it. OSError or ValueError: it cannot be read, is no results file, lacks
    the task, or has no provenance of its numbers."""
    results = read_results(path)
    configs = results["configs"]
    names = [name for name in results.get("n-samples") or configs if name in configs]
    if task is not None:
        groups = results.get("group_subtasks") or {}
        names = [name for name in names if name in {*leaves_of(task, groups)}]
        if not names:
            known = [*groups, *configs]
            raise ValueError(f"{path} has no task {task}{hint([task], known)}; it has {', '.join(known)}")
    records = {name: record for name in names if (record := provenance_of(configs[name]))}
    if not records:
        for name in names:
            if why := mapping(metadata_of(configs[name], "provenance")).get("failed"):
                raise ValueError(f"{path}: where the numbers of {name} come from could not be written down then: {why}")
        raise ValueError(f"{path} has no results of {provenance.PACKAGE}: its tasks are {', '.join(names) or 'none'}")
    metadata: dict[str, Any] = {}
    for name, record in records.items():
        given = mapping(record.get("answers")).get("metadata")
        if not isinstance(given, Mapping):
            given = provenance.metadata_given(configs[name], results["config"].get("model_args"))
        metadata |= given
    untraceable = [name for name in names if name not in records]
    return RecordedRun(results, {name: configs[name] for name in records}, records, untraceable, metadata)


def reproduce(path: Path, task: str | None = None, mirror: str | None = None) -> Reproduction:
    """Find what reproduces the numbers of a results file.

    Args:
        path: ``results_*.json`` of ``lm_eval`` or of ``lm-eval-grounded score``.
        task: one of its tasks or groups; default all.
        mirror: folder of the public files, if it is not that of the results file.

    Raises:
        ValueError, OSError: as :func:`read_recorded`.
    """
    run = read_recorded(path, task)
    if mirror and "mirror" in run.metadata:
        run = replace(run, metadata={**run.metadata, "mirror": mirror})
    commands, notes = commands_of(run, task, mirror)
    public, of_mirror, fetch = _public_files(run, mirror or run.metadata.get("mirror"))
    compared = (*_versions(run), *public, *_local_files(run, path), *_detectors(run))
    reasons = dict.fromkeys(reason for record in run.records.values() for reason in record.get("not_comparable", ()))
    notes += of_mirror + ([f"Not comparable with the published figures: {'; '.join(reasons)}."] if reasons else [])
    return Reproduction([*run.configs], commands, notes, [*{each.name: each for each in compared}.values()], fetch)


def render_script(reproduction: Reproduction) -> str:
    """A reproduction as a shell script: the commands; then, in comments, what is the same here and what is not."""
    lines = []
    for state, name, details in reproduction.compared:
        lines += [f"{state:9} {name}", *(f"{'':9}   {detail}" for detail in details)]
    counts = Counter(compared.state for compared in reproduction.compared)
    lines.append("; ".join(f"{counts[state]} {state}" for state in STATES if counts[state]))
    lines += [f"What is not here: {reproduction.fetch}"] if reproduction.fetch else []
    tasks, notes, report = (
        [f"# {on_one_line(line)}".rstrip() for line in comments]
        for comments in ([", ".join(reproduction.tasks)], reproduction.notes, lines)
    )
    return "\n".join([*tasks, *reproduction.commands, *notes, "", *report])


# ------------------------------------------------------------------------------------------------------------ commands


def commands_of(run: RecordedRun, task: str | None = None, mirror: str | None = None) -> tuple[list[str], list[str]]:
    """The harness's command, and the one that scored its answers if these were logged first; and notes on what they do not
    contain. There are none if the run recorded no command line. Task and mirror are those of :func:`reproduce`."""
    first = next(iter(run.configs.values()))
    origins = {str(record.get("read_from")) for record in run.records.values()}
    try:
        words = shlex.split(str(metadata_of(first, provenance.COMMAND_LINE) or ""))
    except ValueError:  # a quotation that never ends
        words = []
    options = {"mirror": mirror} if mirror and "mirror" in run.metadata else {}
    notes = list[str]()
    if words[:1] != ["lm_eval"]:
        words = []
        started = "a program started it (simple_evaluate), or its answers came without a results file"
        from_log = "`lm-eval-grounded detect` read a log and made this run."
        notes.append(from_log if "log" in origins else f"The run recorded no command line: {started}.")
    if run.untraceable:
        notes.append(
            f"Tasks of the run without a record of where their numbers come from: {', '.join(run.untraceable)}."
        )
    if sha := run.results["config"].get("model_sha"):
        notes.append(f"The model was at commit {sha}: revision={sha} in --model_args keeps it there.")
    if any(word.startswith(("--config", "-C")) for word in words):
        notes.append("The command reads other settings from the file behind --config, whose content is not recorded.")
        if options and "--metadata" not in words:  # which would replace the file's metadata
            notes.append(f"Write mirror={options.pop('mirror')} into the metadata of that file.")
    environment = ""
    if "mirror" not in run.metadata and origins & {"mirror", sources.SAMPLE}:  # the environment named it
        if place := mirror or (sources.SAMPLE if sources.SAMPLE in origins else ""):
            environment = f"{sources.MIRROR_VARIABLE}={shell_word(place)} "
        else:
            notes.append(f"The files came from a mirror that {sources.MIRROR_VARIABLE} named; set it to yours.")
    if not words:
        return [], notes
    words, _ = _without_option(words, "--output_path", "-o")
    if task:
        words = [*_without_option(words, "--tasks", "-t")[0], "--tasks", task]
    words = _with_json(words, options)
    commands = [environment + " ".join(map(shell_word, [*words, "--output_path", OUTPUT]))]
    if any("answers" in record for record in run.records.values()):
        scored = ["lm-eval-grounded", "score", OUTPUT]
        for key in ("detector", "detector_args", "calibration", "calibration_annotations"):
            if (value := metadata_of(first, key)) is not None:
                text = json.dumps(value) if isinstance(value, Mapping) else str(value)
                scored += [f"--{key.removeprefix('calibration_')}", text]
        by_people = (mapping(record.get(key)) for record in run.records.values() for key in ("marks", "label_marks"))
        if marks := dict.fromkeys(name for each in by_people for name in each.get("files") or ()):
            scored += ["--marks", *marks]
        commands.append(" ".join(map(shell_word, scored)))
    if any(BLANK in command for command in commands):
        notes.append(
            f"{BLANK} stands for a key or a password that was not written down: put yours in its place, or leave the "
            f"option out and set the variable that is read instead, such as OPENAI_API_KEY or HF_TOKEN."
        )
    return commands, notes


def command_files(runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """The results files of some runs (label to run), each once, with the commands that made them, in order; with ``notes``
    on what the commands do not contain, or why there are none; and the number of the report's tasks in each file."""
    for model, run in runs.items():
        files = Counter(task.results_file for task in run.tasks.values() if task.results_file is not None)
        for path, tasks in files.items():
            try:
                commands, notes = commands_of(read_recorded(path))
            except (OSError, ValueError) as error:
                commands, notes = [], [str(error).replace(str(path), path.name)]
            where = {"model": model, "folder": path.parent.name, "file": path.name}
            yield {**where, "commands": commands, "notes": notes, "tasks": tasks}
        if not files:
            why = "There is no results file beside the samples: the command is not known."
            where = {"model": model, "folder": run.folder.name, "file": ""}
            yield {**where, "commands": [], "notes": [why], "tasks": len(run.tasks)}


def _with_json(words: list[str], more: Mapping[str, Any]) -> list[str]:
    """The words of a command line with all options of ``--metadata``, and `more`, as one JSON object, as every version of
    the harness reads it: 0.4 reads ``name=value`` too, which 0.5 does not."""
    others, typed = _without_option(words, "--metadata", "")
    given: dict[str, Any] = {}
    for word in typed:
        given |= json.loads(word) if word.startswith("{") else assignments(word)
    given |= more
    return [*others, "--metadata", json.dumps(given, ensure_ascii=False)] if given else others


def _without_option(words: list[str], name: str, abbreviation: str) -> tuple[list[str], list[str]]:
    """The words of a command line without an option, which may be abbreviated; and the option's values."""
    others: list[str] = []
    values: list[str] = []
    of_option = False
    for word in words:
        if word.startswith("-"):
            option = word.partition("=")[0]
            of_option = option == abbreviation or (len(option) > 2 and name.startswith(option))
            if not of_option:
                others.append(word)
        else:
            (values if of_option else others).append(word)
    return others, values


# ------------------------------------------------------------------------------------------------------- there and here


def _compared(name: str, recorded: Any, find: Callable[..., Any], *arguments: Any, kind: str = "sha256") -> Compared:
    """Compare a sum or version (`kind`) with that of this machine, which `find` returns: ``None``, or an OSError or
    ValueError, where there is none."""
    there = f"{kind} there: {recorded}"
    try:
        local = find(*arguments)
    except (OSError, ValueError) as error:
        return Compared(ABSENT, name, (there, f"here: {(str(error) or repr(error)).splitlines()[0]}"))
    if local is None:
        return Compared(ABSENT, name, (there,))
    return Compared(SAME, name) if recorded == local else Compared(DIFFERS, name, (there, f"{kind} here:  {local}"))


def _file(name: str, entry: Mapping[str, Any], local: Path | None) -> Compared:
    return _compared(name, entry.get("sha256"), lambda: local and sha256_of(local))


def _versions(run: RecordedRun) -> Iterator[Compared]:
    recorded = {name: number for each in run.records.values() for name, number in (each.get("versions") or {}).items()}
    harness = {name: run.results.get(f"{name}_version") for name in ("lm_eval", "transformers")}
    recorded |= {name: number for name, number in harness.items() if number and number != "N/A"}
    for name, number in recorded.items():
        yield _compared(f"{name} {number}", str(number), _installed, name, kind="version")


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _public_files(run: RecordedRun, mirror: str | None) -> tuple[list[Compared], list[str], str]:
    """Compare the public files of a run's records with those in the `mirror`, by default that of the environment,
    else in the caches of downloads. Also returns notes on why a mirror cannot be read, and the command that downloads the
    missing files."""
    records = run.records.values()
    if not mirror and any(record.get("read_from") == sources.SAMPLE for record in records):
        mirror = sources.SAMPLE
    notes, folder = [], None
    try:
        folder = sources.mirror_folder(mirror)  # else what LM_EVAL_GROUNDED_MIRROR names here, else the caches
    except sources.MissingSource as error:
        notes.append(f"{error} Or say --mirror DIR.")
    entries = {(entry["repository"], entry["path"]): entry for record in records for entry in record.get("files") or ()}
    also_at = {(file.repository, file.path): file.also_at for file in sources.files()}
    compared, missing = [], []
    for (repository, path), entry in sorted(entries.items()):
        revision = entry["revision"]
        file = sources.SourceFile(entry["host"], repository, revision, path, "", also_at.get((repository, path), ""))
        try:
            local = sources.local_copy(file, folder)
        except ValueError:  # no name of a repository
            local = None
        missing += [file] if local is None else []
        compared.append(_file(f"{repository}@{revision[:12]} {path}", entry, local))
    mirror_folder = folder if mirror != sources.SAMPLE else None
    return compared, notes, sources.fetch_command(missing, mirror_folder) if missing else ""


def _local_files(run: RecordedRun, path: Path) -> Iterator[Compared]:
    """Compare the user's files: where ``--metadata`` or the model's arguments named them, or beside the results."""
    config = run.results["config"]
    scored = next((value for each in run.configs.values() if (value := metadata_of(each, "samples"))), None)
    places = {"samples": scored, **mapping(config.get("model_args")), **run.metadata}
    entries = [entry for record in run.records.values() for entry in record.get("local_files") or ()]
    for entry in (*entries, *(config.get("answers_from") or [])):
        option, name = entry["option"], Path(entry["name"])
        patterns = places.get(option) or []
        candidates = []
        for pattern in patterns if isinstance(patterns, (list, tuple)) else [patterns]:
            location = Path(str(pattern)).expanduser()
            candidates += [location / name, location, *map(Path, glob.glob(str(location), recursive=True))]
        candidates.append(path.parent / name.name)
        local = next((file for file in candidates if file.name == name.name and file.is_file()), None)
        yield _file(f"{option}: {entry['name']}", entry, local)


def _detectors(run: RecordedRun) -> Iterator[Compared]:
    """Compare the detector and calibration of each task, and the detector that was evaluated."""
    from detector_plugin.calibration import load

    if evaluated := mapping(run.results["config"].get("detector")):
        yield _detector(evaluated, mapping(run.results["config"].get("model_args")).get("detector"))
    for task, record in run.records.items():
        detector, calibration = mapping(record.get("detector")), mapping(record.get("calibration"))
        if detector:
            yield _detector(detector, metadata_of(run.configs[task], "detector"))
        if calibration:
            file = str(metadata_of(run.configs[task], "calibration") or detector.get("name"))
            name = f"calibration {calibration.get('file')}"
            yield _compared(name, calibration.get("sha256"), lambda file: load(file).sha256, file)


def _detector(entry: Mapping[str, Any], name_or_path: Any) -> Compared:
    """Compare a detector by its version, for which it is loaded; prompted language models are not."""
    from detector_plugin.filters import shared_detector

    name, recorded = entry["name"], entry.get("version")
    if name.startswith("llm:"):
        why = "a language model is not loaded to compare it"
        return Compared(ABSENT, f"detector {name}", (f"version there: {recorded}", f"here: {why}"))
    options = json.dumps(entry.get("options") or {}, sort_keys=True)
    return _compared(
        f"detector {name}",
        recorded,
        lambda: shared_detector(str(name_or_path or name), options).version,
        kind="version",
    )
