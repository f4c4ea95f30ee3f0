"""Labelled answers of the benchmarks and of files, for detectors to be trained on.

A benchmark that has some holds a ``labelled.py`` whose ``LABELLED`` names its collections. No list names the benchmark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from detector_plugin.labelled import LabelledAnswer, is_unreadable
from lm_eval_tasks.data.source_errors import MissingSource
from lm_eval_tasks.data.sources import mirror_folder
from lm_eval_tasks.definition import catalogue

__all__ = ["Collection", "collections", "labelled_answers", "readable"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class Collection(NamedTuple):
    """A set of labelled answers that has a name.

    Attributes:
        languages: ISO 639 codes of what is public.
        read: the answers of a language, from a mirror's folder, or from the network where that is ``None``.
        source: who made it.
        licence: of the data.
    """

    languages: Sequence[str]
    read: Callable[[str, str | None], list[LabelledAnswer]]
    source: str
    licence: str


def collections() -> Mapping[str, Collection]:
    """Name to collection, of every benchmark."""
    found: dict[str, Collection] = {}
    for folder in catalogue.folders():
        if (folder / "labelled.py").is_file():
            found |= import_module(f"lm_eval_tasks.{folder.name}.labelled").LABELLED
    return found


def labelled_answers(
    mirror: str | None = None, names: Sequence[str] | None = None, languages: Sequence[str] | None = None
) -> list[LabelledAnswer]:
    """The annotated answers of a mirror; languages without files are left out, and said.

    Args:
        mirror: folder of the public files; default the environment variable ``LM_EVAL_GROUNDED_MIRROR``.
        names: of collections; default all.
        languages: ISO 639 codes; default all.

    Raises:
        MissingSource: there is none at all.
    """
    folder = mirror_folder(mirror)
    place = str(folder) if folder else None
    found: list[LabelledAnswer] = []
    missing: list[str] = []
    for name, collection in collections().items():
        if names is not None and name not in names:
            continue
        for code in collection.languages:
            if languages is not None and code not in languages:
                continue
            try:
                found += collection.read(code, place)
            except (MissingSource, ValueError) as error:  # not there, or without an answer in this language
                log.debug("%s", error)
                missing.append(f"{code} {name}")
    if missing:
        log.warning("without %s, whose files are not there", ", ".join(missing))
    if not found:
        raise MissingSource("no annotated answer is to be had; name a mirror of the public files with --mirror DIR")
    return found


def readable(documents: Sequence[LabelledAnswer]) -> list[LabelledAnswer]:
    """The answers to learn from: those whose reference is text, not marks of what a translation model could not write."""
    return [document for document in documents if not is_unreadable(document.reference)]
