"""The commands and files that reproduce a results file: ``lm-eval-grounded reproduce``.

The harness writes model, arguments, seeds and limit into ``config``, and each task's configuration into ``configs``. The
rest is in ``configs.<task>.metadata`` (:mod:`lm_eval_tasks.data.provenance`).
"""

from __future__ import annotations

import glob
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.atomic import sha256_of
from lm_eval_tasks.results.reproduce.recorded import RecordedRun, commands_of, read_recorded
from lm_eval_tasks.runs.results_file import metadata_of

__all__ = ["Compared", "Reproduction", "render_script", "reproduce"]

SAME, DIFFERS, ABSENT, UNKNOWN = STATES = ("same", "differs", "not here", "unknown")


class Compared(NamedTuple):
    """A file or version of the recorded run, compared with this machine's: one of :data:`STATES`, its name, and both sums
    or versions if they differ, or why they are unknown."""

    state: str
    name: str
    details: tuple[str, ...] = ()

    @classmethod
    def compare(cls, name: str, recorded: Any, local: Any, kind: str = "sha256") -> Compared:
        """Compare two sums or versions (`kind`)."""
        if recorded == local:
            return cls(SAME, name)
        return cls(DIFFERS, name, (f"{kind} there: {recorded}", f"{kind} here:  {local}"))

    @classmethod
    def compare_file(cls, name: str, sha256: Any, local: Path | None) -> Compared:
        if local is None:
            return cls(ABSENT, name, (f"sha256 there: {sha256}",))
        return cls.compare(name, sha256, sha256_of(local))


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


def reproduce(path: Path, task: str | None = None, mirror: str | None = None) -> Reproduction:
    """Find what reproduces the numbers of a results file.

    Args:
        path: ``results_*.json`` of ``lm_eval`` or of ``lm-eval-grounded score``.
        task: one of its tasks or groups; default all.
        mirror: folder of the public files, if it is not that of the results file.

    Raises:
        ValueError: the file is damaged, no results file, or has no provenance of its numbers.
        OSError: it cannot be read.
    """
    run = read_recorded(path, task)
    if mirror and "mirror" in run.metadata:
        run = replace(run, metadata={**run.metadata, "mirror": mirror})
    commands, notes = commands_of(run, task, mirror)
    public, of_mirror, fetch = _public_files(run, mirror or run.metadata.get("mirror"))
    local = (*_local_files(run, path), *_encoders(run), *_detectors(run))
    compared = {compared_item.name: compared_item for compared_item in (*_versions(run), *public, *local)}
    notes += of_mirror
    reasons = dict.fromkeys(reason for record in run.records.values() for reason in record.get("not_comparable", ()))
    if reasons:
        notes.append(f"Not comparable with the published figures: {'; '.join(reasons)}.")
    return Reproduction(list(run.configs), commands, notes, [*compared.values()], fetch)


def render_script(reproduction: Reproduction) -> str:
    """A reproduction as a shell script: the commands; then, in comments, what is the same here and what is not."""
    lines = []
    for compared in reproduction.compared:
        lines += [f"{compared.state:9} {compared.name}", *(f"{'':9}   {detail}" for detail in compared.details)]
    counts = Counter(compared.state for compared in reproduction.compared)
    lines.append("; ".join(f"{counts[state]} {state}" for state in STATES if counts[state]))
    if reproduction.fetch:
        lines.append(f"What is not here: {reproduction.fetch}")
    tasks, notes, report = (
        [f"# {on_one_line(line)}".rstrip() for line in comments]
        for comments in ([", ".join(reproduction.tasks)], reproduction.notes, lines)
    )
    return "\n".join([*tasks, *reproduction.commands, *notes, "", *report])


# ------------------------------------------------------------------------------------ there and here; nothing is downloaded


def _versions(run: RecordedRun) -> Iterator[Compared]:
    """Compare the versions of the libraries in the records."""
    recorded: dict[str, Any] = {}
    for record in run.records.values():
        recorded |= record.get("versions") or {}
    for name in ("lm_eval", "transformers"):
        of_harness = run.results.get(f"{name}_version")
        if of_harness and of_harness != "N/A":
            recorded[name] = of_harness
    for name, number in recorded.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = "none"
        yield Compared.compare(f"{name} {number}", str(number), installed, "version")


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
    entries = {
        (str(entry.get("repository")), str(entry.get("path"))): entry
        for record in records
        for entry in record.get("files") or ()
        if isinstance(entry, Mapping)
    }
    also_at = {(file.repository, file.path): file.also_at for file in sources.files()}
    compared, missing = [], []
    for (repository, path), entry in sorted(entries.items()):
        host, revision = str(entry.get("host")), str(entry.get("revision"))
        file = sources.SourceFile(host, repository, revision, path, "", also_at.get((repository, path), ""))
        try:
            local = sources.local_copy(file, folder)
        except ValueError:  # no name of a repository
            local = None
        if local is None:
            missing.append(file)
        compared.append(Compared.compare_file(f"{repository}@{revision[:12]} {path}", entry.get("sha256"), local))
    mirror_folder = folder if folder is not None and mirror != sources.SAMPLE else None
    return compared, notes, sources.fetch_command(missing, mirror_folder) if missing else ""


def _local_files(run: RecordedRun, path: Path) -> Iterator[Compared]:
    """Compare the user's files: where ``--metadata`` or the model's arguments named them, or beside the results."""
    arguments = run.config.get("model_args")
    scored = next((value for config in run.configs.values() if (value := metadata_of(config, "samples"))), None)
    places = {"samples": scored, **(arguments if isinstance(arguments, Mapping) else {}), **run.metadata}
    entries = [entry for record in run.records.values() for entry in record.get("local_files") or ()]
    entries += run.config.get("answers_from") or []
    for entry in entries:
        option, name = str(entry.get("option")), str(entry.get("name"))
        patterns = places.get(option) or []
        candidates = []
        for pattern in patterns if isinstance(patterns, (list, tuple)) else [patterns]:
            location = Path(str(pattern)).expanduser()
            candidates += [location / name, location, *map(Path, glob.glob(str(location), recursive=True))]
        candidates.append(path.parent / Path(name).name)
        local = next((file for file in candidates if file.name == Path(name).name and file.is_file()), None)
        yield Compared.compare_file(f"{option}: {name}", entry.get("sha256"), local)


def _encoders(run: RecordedRun) -> Iterator[Compared]:
    """Compare the models that made the vectors of passages."""
    retrievals = [record.get("retrieval") or {} for record in run.records.values()]
    halves = [half for retrieval in retrievals for half in retrieval.get("halves") or ()]
    entries = [entry for entry in (*retrievals, *halves) if entry.get("weights")]
    if not entries:
        return
    from huggingface_hub import snapshot_download

    from lm_eval_tasks.clapnq.retrieval import dense as encoding

    for entry in entries:
        name = f"encoder {entry.get('model')}@{str(entry.get('revision'))[:12]}"
        recorded = f"sha256 there: {entry['weights']} (of its files' sums)"
        try:
            encoder = encoding.encoder_for(str(entry.get("retriever")), run.metadata)
            if encoder.folder is None:
                cached = snapshot_download(encoder.repository, revision=encoder.revision, local_files_only=True)
                encoder = replace(encoder, folder=Path(cached))
            yield Compared.compare(name, entry["weights"], encoding.weights_of(encoder)[1])
        except sources.CorruptSource as error:
            yield Compared(DIFFERS, name, (recorded, f"here: {error}"))
        except (OSError, ValueError) as error:  # no such folder, or not in the cache
            yield Compared(ABSENT, name, (recorded, f"here: {str(error).splitlines()[0]}"))


def _detectors(run: RecordedRun) -> Iterator[Compared]:
    """Compare the detector and calibration of each task, and the detector that was evaluated."""
    from detector_plugin.calibration import CalibrationError, load

    evaluated, arguments = run.config.get("detector"), run.config.get("model_args")
    if isinstance(evaluated, Mapping):
        name_or_path = arguments.get("detector") if isinstance(arguments, Mapping) else None
        yield _compare_detector(evaluated, name_or_path)
    for task, record in run.records.items():
        detector, calibration = record.get("detector"), record.get("calibration")
        if isinstance(detector, Mapping):
            yield _compare_detector(detector, metadata_of(run.configs[task], "detector"))
        if isinstance(calibration, Mapping):
            of_detector = detector.get("name") if isinstance(detector, Mapping) else None
            name = f"calibration {calibration.get('file')}"
            try:
                local = load(str(metadata_of(run.configs[task], "calibration") or of_detector)).sha256
                yield Compared.compare(name, calibration.get("sha256"), local)
            except CalibrationError as error:
                yield Compared(ABSENT, name, (str(error),))


def _compare_detector(entry: Mapping[str, Any], name_or_path: Any) -> Compared:
    """Compare a detector by its version, for which it is loaded; prompted language models are not."""
    from detector_plugin.filters import shared_detector

    name, recorded = f"detector {entry.get('name')}", entry.get("version")
    if str(entry.get("name")).startswith("llm:"):
        why = f"version there: {recorded}; a language model is not loaded here to compare it"
        return Compared(UNKNOWN, name, (why,))
    options = json.dumps(entry.get("options") or {}, sort_keys=True)
    try:
        detector = shared_detector(str(name_or_path or entry.get("name")), options)
    except (OSError, ValueError) as error:
        return Compared(ABSENT, name, (f"version there: {recorded}; here: {error}",))
    return Compared.compare(name, recorded, detector.version, "version")
