"""``lm-eval-grounded reproduce``: a results file read backwards, into the command that made it and the files it needs.

The harness writes model, arguments, seeds and limit into ``config``, and each task's configuration into ``configs``; what
is missing there stands in ``configs.<task>.metadata.provenance`` (:mod:`lm_eval_tasks.provenance`).
"""

from __future__ import annotations

import glob
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_tasks import provenance, sources
from lm_eval_tasks.digests import sha256_of

__all__ = ["SAME", "Compared", "Reproduction", "reproduce", "table"]

SAME, DIFFERS, ABSENT, UNKNOWN = "same", "differs", "not here", "unknown"

_DEFAULT_SEEDS = (0, 1234, 1234, 1234)
_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_DEFAULT_DEVICE = "cuda:0"  # of the harness's command line, where nobody says anything
OUTPUT = "reproduced"
"""Folder that the commands write to."""


class Compared(NamedTuple):
    """Something that a number depends on, there and here.

    Attributes:
        state: ``same``, ``differs``, ``not here``, or ``unknown`` where it cannot be told.
        what: it is, with its version where that is the same.
        details: both sums or versions where they differ, or why it cannot be told.
    """

    state: str
    what: str
    details: tuple[str, ...] = ()


@dataclass
class Reproduction:
    """What it takes to get the numbers of a results file again.

    Attributes:
        tasks: of ours, in the order they were run.
        commands: to be typed one after another; empty where none can be told.
        notes: what the file does not say, and what to look at.
        compared: versions and files, there and here.
        fetch: the command that downloads what is not here; empty where all is, or nothing can be downloaded.
    """

    tasks: list[str]
    commands: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    fetch: str = ""

    @property
    def same(self) -> bool:
        """Whether all is here, and the same."""
        return bool(self.commands) and all(one.state == SAME for one in self.compared)


def reproduce(path: Path, task: str | None = None, mirror: str | None = None) -> Reproduction:
    """Read a results file.

    Args:
        path: ``results_*.json`` of ``lm_eval`` or of ``lm-eval-grounded score``.
        task: one task or group of it; default all.
        mirror: where the public files lie here, if not where the results say.

    Raises:
        ValueError: it is no such file, is damaged, or says nothing of where its numbers come from.
        OSError: it cannot be read.
    """
    results = _read(path)
    chosen = _chosen(results, task, path)
    configs = {name: results["configs"][name] for name in chosen}
    records = {name: _record(config) for name, config in configs.items()}
    found = Reproduction(chosen)
    told = _metadata(results, configs, records)
    scored = any("answers" in record for record in records.values())
    place = mirror or told.get("mirror")
    if mirror:
        told = {**told, "mirror": mirror} if "mirror" in told else told
    found.commands, found.notes = _commands(results, configs, records, told, task, mirror)
    if scored and found.commands:
        found.commands.append(_score_command(configs))
    found.compared = [
        *_versions(results, records.values()),
        *_public_files(records.values(), place, found),
        *_local_files(results, records, told, path),
        *_encoders(records.values(), told),
        *_detectors(results["config"], configs, records),
    ]
    reasons = dict.fromkeys(reason for record in records.values() for reason in record.get("not_comparable", ()))
    if reasons:
        found.notes.append(f"Not comparable with the published figures: {'; '.join(reasons)}.")
    return found


def table(found: Reproduction) -> str:
    """What a person reads: the commands, each on a line of its own, then what is the same here and what is not."""
    lines = [f"# {', '.join(found.tasks)}", *found.commands, *(f"# {note}" for note in found.notes), ""]
    for one in found.compared:
        lines += [f"{one.state:9} {one.what}", *(f"{'':9}   {detail}" for detail in one.details)]
    counts = {state: sum(one.state == state for one in found.compared) for state in (SAME, DIFFERS, ABSENT, UNKNOWN)}
    lines.append("; ".join(f"{number} {state}" for state, number in counts.items() if number))
    if found.fetch:
        lines.append(f"What is not here: {found.fetch}")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------------- reading


def _read(path: Path) -> dict[str, Any]:
    if path.is_dir():
        known = sorted(found.name for found in path.rglob("results_*.json"))
        raise ValueError(f"{path} is a folder; name a results file" + (f", such as {known[-1]}" if known else ""))
    try:
        results = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no results file, or a damaged one: {error}") from error
    if not isinstance(results, dict) or not all(
        isinstance(results.get(key), dict) for key in ("results", "configs", "config")
    ):
        raise ValueError(
            f"{path} is no results file of `lm_eval` or `lm-eval-grounded score` (results_*.json: an object with results, "
            f"configs and config)"
        )
    if not all(isinstance(config, dict) for config in results["configs"].values()):
        raise ValueError(f"{path} is damaged: configs holds something that is no configuration of a task")
    return results


def _record(config: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of a task; empty where there is none."""
    metadata = config.get("metadata")
    record = metadata.get("provenance") if isinstance(metadata, Mapping) else None
    return dict(record) if isinstance(record, Mapping) and "failed" not in record else {}


def _chosen(results: Mapping[str, Any], task: str | None, path: Path) -> list[str]:
    order = list(results.get("n-samples") or results["configs"])
    names = [name for name in order if name in results["configs"]]
    if task is not None:
        groups = results.get("group_subtasks") or {}
        wanted = set(_leaves(task, groups))
        names = [name for name in names if name in wanted]
        if not names:
            known = ", ".join([*groups, *results["configs"]])
            raise ValueError(f"{path} has no task {task}; it has {known}")
    ours = [name for name in names if _record(results["configs"][name])]
    if ours:
        return ours
    failed = [name for name in names if _failure(results["configs"][name])]
    if failed:
        why = _failure(results["configs"][failed[0]])
        raise ValueError(f"{path}: where the numbers of {failed[0]} come from could not be written down then: {why}")
    if any("lm_eval_tasks" in str(_of(config, "config_source")) for config in results["configs"].values()):
        raise ValueError(
            f"{path} was written by a version of {provenance.PACKAGE} that did not yet say where its numbers come from; "
            f"run the tasks again ({', '.join(names)})"
        )
    raise ValueError(f"{path} has no results of {provenance.PACKAGE}: its tasks are {', '.join(names) or 'none'}")


def _of(config: Mapping[str, Any], key: str) -> Any:
    metadata = config.get("metadata")
    return metadata.get(key) if isinstance(metadata, Mapping) else None


def _failure(config: Mapping[str, Any]) -> str:
    record = _of(config, "provenance")
    return str(record.get("failed") or "") if isinstance(record, Mapping) else ""


def _leaves(name: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if name not in groups:
        yield name
    for member in groups.get(name, ()):
        yield from _leaves(member, groups)


# ------------------------------------------------------------------------------------------------------------ commands


def _metadata(
    results: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What was said with ``--metadata``."""
    arguments = results["config"].get("model_args")
    found: dict[str, Any] = {}
    for name, config in configs.items():
        answers = records[name].get("answers")
        said = answers.get("metadata") if isinstance(answers, Mapping) else None
        found |= said if isinstance(said, Mapping) else provenance.metadata_given(config, arguments)
    return found


def _commands(
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
        if (source := _of(each, "config_source")) and "lm_eval_tasks" not in Path(str(source)).parts
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
    if sampled and config.get("model") not in _DETERMINISTIC:
        notes.append(
            f"Answers of {', '.join(sampled)} were sampled: with the same seeds they are the same on the same hardware, "
            f"batch size and libraries only."
        )
    line = shlex.join(words)
    return [_environment(records, told, mirror, notes) + line], notes


_DETERMINISTIC = ("grounded-baseline", "replay", "hallucination-detector")


def _environment(
    records: Mapping[str, Mapping[str, Any]], told: Mapping[str, Any], mirror: str | None, notes: list[str]
) -> str:
    """What stands before the command: the mirror, where the environment named it."""
    origins = {str(record.get("read_from")) for record in records.values()}
    if "mirror" in told or not origins & {"mirror", sources.SAMPLE}:
        return ""
    named = mirror or (sources.SAMPLE if sources.SAMPLE in origins else "")
    if named:
        return f"{sources.MIRROR_VARIABLE}={shlex.quote(named)} "
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
    whole = {name: set(_leaves(name, groups)) for name in groups if name not in inner}
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


def _score_command(configs: Mapping[str, Mapping[str, Any]]) -> str:
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
    return shlex.join(words)


# ----------------------------------------------------------------------------------------------------------- comparing


def _compare(what: str, there: Any, here: Any, kind: str) -> Compared:
    if there == here:
        return Compared(SAME, what)
    return Compared(DIFFERS, what, (f"{kind} there: {there}", f"{kind} here:  {here}"))


def _versions(results: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[Compared]:
    from importlib.metadata import PackageNotFoundError, version

    def here(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "none"

    there: dict[str, Any] = {}
    for record in records:
        there |= record.get("versions") or {}
    for name in ("lm_eval", "transformers"):
        said = results.get(f"{name}_version")
        if said and said != "N/A":
            there[name] = said
    return [_compare(f"{name} {said}", str(said), here(name), "version") for name, said in there.items()]


def _public_files(records: Iterable[Mapping[str, Any]], place: str | None, found: Reproduction) -> list[Compared]:
    records = list(records)
    named = place or (sources.SAMPLE if any(record.get("read_from") == sources.SAMPLE for record in records) else None)
    folder = None
    try:
        folder = sources.mirror_folder(named)  # else what LM_EVAL_GROUNDED_MIRROR names here, else the caches
    except sources.MissingSource as error:
        found.notes.append(f"{error} Or say --mirror DIR.")
    compared, missing = [], []
    entries = {
        (str(entry.get("repository")), str(entry.get("path"))): entry
        for record in records
        for entry in record.get("files") or ()
        if isinstance(entry, Mapping)
    }
    for (repository, path), entry in sorted(entries.items()):
        file = _source_file(repository, path, entry)
        what = f"{repository}@{file.revision[:12]} {path}"
        local = sources.local_copy(file, folder)
        if local is None:
            missing.append(file)
            compared.append(Compared(ABSENT, what, (f"sha256 there: {entry.get('sha256')}",)))
        else:
            compared.append(_compare(what, entry.get("sha256"), sha256_of(local), "sha256"))
    if missing:
        into = folder if folder is not None and named != sources.SAMPLE else None
        found.fetch = sources.fetch_command(missing, into)
    return compared


def _source_file(repository: str, path: str, entry: Mapping[str, Any]) -> sources.SourceFile:
    """The file at the revision that was read, where a mirror may hold it."""
    try:
        known = sources.find(repository, path)
    except KeyError:  # of another version of this package
        return sources.SourceFile(str(entry.get("host")), repository, str(entry.get("revision")), path, "")
    if known.revision == entry.get("revision"):
        return known
    return sources.SourceFile(known.host, repository, str(entry.get("revision")), path, "", known.also_at)


def _local_files(
    results: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]], told: Mapping[str, Any], path: Path
) -> list[Compared]:
    """Files of the user's: where ``--metadata`` or the model's arguments named them, or beside the results."""
    arguments = results["config"].get("model_args")
    scored = next((place for config in results["configs"].values() if (place := _of(config, "samples"))), None)
    said = {"samples": scored, **(arguments if isinstance(arguments, Mapping) else {}), **told}
    entries = [entry for record in records.values() for entry in record.get("local_files") or ()]
    entries += results["config"].get("answers_from") or []
    compared = {}
    for entry in entries:
        option, name = str(entry.get("option")), str(entry.get("name"))
        local = _find(name, said.get(option), path.parent)
        what = f"{option}: {name}"
        if local is None:
            compared[what] = Compared(ABSENT, what, (f"sha256 there: {entry.get('sha256')}",))
        else:
            compared[what] = _compare(what, entry.get("sha256"), sha256_of(local), "sha256")
    return list(compared.values())


def _find(name: str, places: Any, beside: Path) -> Path | None:
    candidates = []
    for place in places if isinstance(places, (list, tuple)) else [places] if places else []:
        named = Path(str(place)).expanduser()
        candidates += [named / name, named]
        candidates += [Path(found) for found in glob.glob(str(named), recursive=True)]
    candidates.append(beside / Path(name).name)
    last = Path(name).name
    return next((place for place in candidates if place.name == last and place.is_file()), None)


def _encoders(records: Iterable[Mapping[str, Any]], told: Mapping[str, Any]) -> list[Compared]:
    """Models that made the vectors of passages, each once; nothing is downloaded."""
    compared = {}
    for record in records:
        retrieval = record.get("retrieval") or {}
        for said in (retrieval, *(retrieval.get("halves") or ())):
            if said.get("weights"):
                what = f"encoder {said.get('model')}@{str(said.get('revision'))[:12]}"
                compared[what] = _compare_encoder(what, said, told)
    return list(compared.values())


def _compare_encoder(what: str, said: Mapping[str, Any], told: Mapping[str, Any]) -> Compared:
    from huggingface_hub import snapshot_download

    from lm_eval_tasks.clapnq.retrieval import encoder as encoders

    there = f"sha256 there: {said['weights']} (of its files' sums)"
    try:
        encoder = encoders.named(str(said.get("retriever")), told)
        if encoder.folder is None:
            cached = snapshot_download(encoder.repository, revision=encoder.revision, local_files_only=True)
            encoder = replace(encoder, folder=Path(cached))
        return _compare(what, said["weights"], encoders.weights_of(encoder)[1], "sha256")
    except sources.CorruptSource as error:
        return Compared(DIFFERS, what, (there, f"here: {error}"))
    except (OSError, ValueError) as error:  # no such folder, or not in the cache
        return Compared(ABSENT, what, (there, f"here: {str(error).splitlines()[0]}"))


def _detectors(
    config: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> list[Compared]:
    """Detector and calibration of each task, and the detector that was evaluated, each once."""
    compared = {}
    evaluated, arguments = config.get("detector"), config.get("model_args")
    if isinstance(evaluated, Mapping):
        what = f"detector {evaluated.get('name')}"
        named = arguments.get("detector") if isinstance(arguments, Mapping) else None
        compared[what] = _compare_detector(what, evaluated, named)
    for name, record in records.items():
        detector, calibration = record.get("detector"), record.get("calibration")
        metadata = configs[name].get("metadata") or {}
        if isinstance(detector, Mapping):
            what = f"detector {detector.get('name')}"
            compared[what] = _compare_detector(what, detector, metadata.get("detector"))
        if isinstance(calibration, Mapping):
            what = f"calibration {calibration.get('file')}"
            compared[what] = _compare_calibration(what, calibration, detector, metadata.get("calibration"))
    return list(compared.values())


def _compare_detector(what: str, said: Mapping[str, Any], named: Any) -> Compared:
    """By its version, which a detector has when it is loaded; one that is prompted is not loaded for that."""
    version = said.get("version")
    if str(said.get("name")).startswith("llm:"):
        return Compared(
            UNKNOWN, what, (f"version there: {version}; a language model is not loaded here to compare it",)
        )
    from detector_plugin.filters import shared_detector

    options = json.dumps(said.get("options") or {}, sort_keys=True)
    try:
        return _compare(what, version, shared_detector(str(named or said.get("name")), options).version, "version")
    except (OSError, ValueError) as error:
        return Compared(ABSENT, what, (f"version there: {version}; here: {error}",))


def _compare_calibration(what: str, said: Mapping[str, Any], detector: Any, named: Any) -> Compared:
    from detector_plugin.calibration import CalibrationError, load

    wanted = named or (detector.get("name") if isinstance(detector, Mapping) else None)
    try:
        return _compare(what, said.get("sha256"), load(str(wanted)).sha256, "sha256")
    except CalibrationError as error:
        return Compared(ABSENT, what, (str(error),))
