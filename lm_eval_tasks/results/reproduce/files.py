"""Public files and files of the user's, by their SHA-256 there and here."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_tasks.data import sources
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.results.reproduce.compared import ABSENT, Compared, compare
from lm_eval_tasks.runs.results_file import said_of

__all__ = ["PublicFiles", "local_files", "public_files"]


class PublicFiles(NamedTuple):
    """Public files there and here.

    Attributes:
        compared: one by one.
        notes: why a mirror cannot be looked into.
        fetch: the command that downloads what is not here; empty where all is.
    """

    compared: list[Compared]
    notes: list[str]
    fetch: str


def public_files(records: Iterable[Mapping[str, Any]], place: str | None) -> PublicFiles:
    """The public files that some records name.

    Args:
        records: where the numbers of tasks come from.
        place: the mirror to look into; default that of the environment, else the caches of downloads.
    """
    records = list(records)
    notes = []
    named = place or (sources.SAMPLE if any(record.get("read_from") == sources.SAMPLE for record in records) else None)
    folder = None
    try:
        folder = sources.mirror_folder(named)  # else what LM_EVAL_GROUNDED_MIRROR names here, else the caches
    except sources.MissingSource as error:
        notes.append(f"{error} Or say --mirror DIR.")
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
        try:
            local = sources.local_copy(file, folder)
        except ValueError:  # what is no name of a repository
            local = None
        if local is None:
            missing.append(file)
            compared.append(Compared(ABSENT, what, (f"sha256 there: {entry.get('sha256')}",)))
        else:
            compared.append(compare(what, entry.get("sha256"), sha256_of(local), "sha256"))
    into = folder if folder is not None and named != sources.SAMPLE else None
    return PublicFiles(compared, notes, sources.fetch_command(missing, into) if missing else "")


def _source_file(repository: str, path: str, entry: Mapping[str, Any]) -> sources.SourceFile:
    """The file at the revision that was read, where a mirror may hold it."""
    try:
        known = sources.find(repository, path)
    except KeyError:  # of another version of this package
        return sources.SourceFile(str(entry.get("host")), repository, str(entry.get("revision")), path, "")
    if known.revision == entry.get("revision"):
        return known
    return sources.SourceFile(known.host, repository, str(entry.get("revision")), path, "", known.also_at)


def local_files(
    results: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]], told: Mapping[str, Any], path: Path
) -> list[Compared]:
    """Files of the user's: where ``--metadata`` or the model's arguments named them, or beside the results."""
    arguments = results["config"].get("model_args")
    scored = next((place for config in results["configs"].values() if (place := said_of(config, "samples"))), None)
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
            compared[what] = compare(what, entry.get("sha256"), sha256_of(local), "sha256")
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
