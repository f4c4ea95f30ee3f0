"""The work of ``lm-eval-grounded reproduce``: from a results file to the command that made it and the files it needs.

The harness writes model, arguments, seeds and limit into ``config``, and each task's configuration into ``configs``; what
is missing there stands in ``configs.<task>.metadata`` (:mod:`lm_eval_tasks.data.provenance`).
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
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.results.reproduce.recorded import RecordedRun, commands_of, read_recorded
from lm_eval_tasks.runs.results_file import said_of

__all__ = ["Compared", "Reproduction", "reproduce", "table"]

SAME, DIFFERS, ABSENT, UNKNOWN = STATES = ("same", "differs", "not here", "unknown")


class Compared(NamedTuple):
    """Something that a number depends on, there and here: one of :data:`STATES`, what it is, and both sums or versions
    where they differ, or why it cannot be told."""

    state: str
    what: str
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, what: str, there: Any, here: Any, kind: str = "sha256") -> Compared:
        """The same, or both sums or versions (`kind`)."""
        if there == here:
            return cls(SAME, what)
        return cls(DIFFERS, what, (f"{kind} there: {there}", f"{kind} here:  {here}"))

    @classmethod
    def of_file(cls, what: str, sha256: Any, local: Path | None) -> Compared:
        if local is None:
            return cls(ABSENT, what, (f"sha256 there: {sha256}",))
        return cls.of(what, sha256, sha256_of(local))


@dataclass
class Reproduction:
    """The commands and files that give the numbers of a results file again."""

    tasks: list[str]  # of ours, in the order they were run
    commands: list[str]  # to be typed one after another; empty where none can be told
    notes: list[str]  # what the commands cannot say, and what to look at
    compared: list[Compared]  # versions and files, there and here
    fetch: str  # the command that downloads what is not here; empty where all is, or nothing can be downloaded

    @property
    def same(self) -> bool:
        """Whether all is here, and the same."""
        return bool(self.commands) and all(compared.state == SAME for compared in self.compared)


def reproduce(path: Path, task: str | None = None, mirror: str | None = None) -> Reproduction:
    """What gives the numbers of a results file again.

    Args:
        path: ``results_*.json`` of ``lm_eval`` or of ``lm-eval-grounded score``.
        task: one task or group of it; default all.
        mirror: where the public files lie here, if not where the results say.

    Raises:
        ValueError: it is no such file, is damaged, or says nothing of where its numbers come from.
        OSError: it cannot be read.
    """
    run = read_recorded(path, task)
    if mirror and "mirror" in run.metadata:
        run = replace(run, metadata={**run.metadata, "mirror": mirror})
    commands, notes = commands_of(run, task, mirror)
    public, of_mirror, fetch = _public_files(run, mirror or run.metadata.get("mirror"))
    others = (*_local_files(run, path), *_encoders(run), *_detectors(run))
    compared = {each.what: each for each in (*_versions(run), *public, *others)}
    notes += of_mirror
    reasons = dict.fromkeys(reason for record in run.records.values() for reason in record.get("not_comparable", ()))
    if reasons:
        notes.append(f"Not comparable with the published figures: {'; '.join(reasons)}.")
    return Reproduction(list(run.configs), commands, notes, [*compared.values()], fetch)


def table(reproduction: Reproduction) -> str:
    """The report as a script of a shell: the commands; then, in comments, what is the same here and what is not."""
    lines = []
    for compared in reproduction.compared:
        lines += [f"{compared.state:9} {compared.what}", *(f"{'':9}   {detail}" for detail in compared.details)]
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
    """The versions of the libraries that the records name."""
    there: dict[str, Any] = {}
    for record in run.records.values():
        there |= record.get("versions") or {}
    for name in ("lm_eval", "transformers"):
        of_harness = run.results.get(f"{name}_version")
        if of_harness and of_harness != "N/A":
            there[name] = of_harness
    for name, number in there.items():
        try:
            here = version(name)
        except PackageNotFoundError:
            here = "none"
        yield Compared.of(f"{name} {number}", str(number), here, "version")


def _public_files(run: RecordedRun, place: str | None) -> tuple[list[Compared], list[str], str]:
    """The public files that the records of a run name, in the mirror at `place`, by default that of the environment,
    else in the caches of downloads; notes on why a mirror cannot be looked into; and the command that downloads what is
    not here."""
    records = run.records.values()
    if not place and any(record.get("read_from") == sources.SAMPLE for record in records):
        place = sources.SAMPLE
    notes, folder = [], None
    try:
        folder = sources.mirror_folder(place)  # else what LM_EVAL_GROUNDED_MIRROR names here, else the caches
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
        except ValueError:  # what is no name of a repository
            local = None
        if local is None:
            missing.append(file)
        compared.append(Compared.of_file(f"{repository}@{revision[:12]} {path}", entry.get("sha256"), local))
    into = folder if folder is not None and place != sources.SAMPLE else None
    return compared, notes, sources.fetch_command(missing, into) if missing else ""


def _local_files(run: RecordedRun, path: Path) -> Iterator[Compared]:
    """Files of the user's: where ``--metadata`` or the model's arguments named them, or beside the results at `path`."""
    arguments = run.config.get("model_args")
    scored = next((place for config in run.configs.values() if (place := said_of(config, "samples"))), None)
    places = {"samples": scored, **(arguments if isinstance(arguments, Mapping) else {}), **run.metadata}
    entries = [entry for record in run.records.values() for entry in record.get("local_files") or ()]
    entries += run.config.get("answers_from") or []
    for entry in entries:
        option, name = str(entry.get("option")), str(entry.get("name"))
        named = places.get(option) or []
        candidates = []
        for place in named if isinstance(named, (list, tuple)) else [named]:
            whole = Path(str(place)).expanduser()
            candidates += [whole / name, whole, *map(Path, glob.glob(str(whole), recursive=True))]
        candidates.append(path.parent / Path(name).name)
        local = next((file for file in candidates if file.name == Path(name).name and file.is_file()), None)
        yield Compared.of_file(f"{option}: {name}", entry.get("sha256"), local)


def _encoders(run: RecordedRun) -> Iterator[Compared]:
    """Models that made the vectors of passages."""
    retrievals = [record.get("retrieval") or {} for record in run.records.values()]
    halves = [half for retrieval in retrievals for half in retrieval.get("halves") or ()]
    entries = [entry for entry in (*retrievals, *halves) if entry.get("weights")]
    if not entries:
        return
    from huggingface_hub import snapshot_download

    from lm_eval_tasks.clapnq.retrieval import encoder as encoding

    for entry in entries:
        what = f"encoder {entry.get('model')}@{str(entry.get('revision'))[:12]}"
        there = f"sha256 there: {entry['weights']} (of its files' sums)"
        try:
            encoder = encoding.encoder_for(str(entry.get("retriever")), run.metadata)
            if encoder.folder is None:
                cached = snapshot_download(encoder.repository, revision=encoder.revision, local_files_only=True)
                encoder = replace(encoder, folder=Path(cached))
            yield Compared.of(what, entry["weights"], encoding.weights_of(encoder)[1])
        except sources.CorruptSource as error:
            yield Compared(DIFFERS, what, (there, f"here: {error}"))
        except (OSError, ValueError) as error:  # no such folder, or not in the cache
            yield Compared(ABSENT, what, (there, f"here: {str(error).splitlines()[0]}"))


def _detectors(run: RecordedRun) -> Iterator[Compared]:
    """Detector and calibration of each task, and the detector that was evaluated."""
    from detector_plugin.calibration import CalibrationError, load

    evaluated, arguments = run.config.get("detector"), run.config.get("model_args")
    if isinstance(evaluated, Mapping):
        named = arguments.get("detector") if isinstance(arguments, Mapping) else None
        yield _compare_detector(evaluated, named)
    for task, record in run.records.items():
        detector, calibration = record.get("detector"), record.get("calibration")
        if isinstance(detector, Mapping):
            yield _compare_detector(detector, said_of(run.configs[task], "detector"))
        if isinstance(calibration, Mapping):
            of_detector = detector.get("name") if isinstance(detector, Mapping) else None
            what = f"calibration {calibration.get('file')}"
            try:
                here = load(str(said_of(run.configs[task], "calibration") or of_detector)).sha256
                yield Compared.of(what, calibration.get("sha256"), here)
            except CalibrationError as error:
                yield Compared(ABSENT, what, (str(error),))


def _compare_detector(entry: Mapping[str, Any], named: Any) -> Compared:
    """By its version, which a detector has when it is loaded; one that is prompted is not loaded for that."""
    from detector_plugin.filters import shared_detector

    what, there = f"detector {entry.get('name')}", entry.get("version")
    if str(entry.get("name")).startswith("llm:"):
        why = f"version there: {there}; a language model is not loaded here to compare it"
        return Compared(UNKNOWN, what, (why,))
    options = json.dumps(entry.get("options") or {}, sort_keys=True)
    try:
        detector = shared_detector(str(named or entry.get("name")), options)
    except (OSError, ValueError) as error:
        return Compared(ABSENT, what, (f"version there: {there}; here: {error}",))
    return Compared.of(what, there, detector.version, "version")
