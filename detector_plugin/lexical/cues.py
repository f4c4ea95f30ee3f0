"""Words that tell of invention whatever the reference says: beliefs, rumours, secrets, superlatives.

FAVA's unverifiable, subjective and invented sentences (Mishra et al. 2024) are written in such words. `cues.tsv` has them
for each language and concept: a trailing ``*`` stands for any ending, ``_`` for a space. They were written down concept by
concept, as a dictionary would translate them, not read off any annotation of the language; which concepts there are was
seen in the French, Indonesian and Finnish silver annotations.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from detector_plugin.lexical.normalisation import normalise, without_arabic_prefix

__all__ = ["CONCEPTS", "cue_hits", "cues_version", "has_cues"]

CONCEPTS = (
    "opinion",
    "rumour",
    "never",
    "always",
    "only",
    "many",
    "often",
    "expert",
    "secret",
    "best",
    "beauty",
    "fame",
    "fiction",
    "leisure",
    "novelty",
    "actually",
    "negation",
    "source",  # speaks of the reference itself, or of what it lacks
    "all",
)
"""Concepts of `cues.tsv`, in the order of the columns."""

_LONGEST = 16  # letters of a beginning


class _Cues:
    """Concepts, as numbers, by whole word, by beginning, and by two words."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.beginnings: dict[str, int] = {}
        self.pairs: dict[tuple[str, str], int] = {}


_FILE = Path(__file__).parent / "cues.tsv"


def cues_version() -> str:
    """SHA-256 of the cues: other cues, other features."""
    return hashlib.sha256(_FILE.read_bytes()).hexdigest()


@lru_cache(maxsize=1)
def _tables() -> dict[str, _Cues]:
    tables: dict[str, _Cues] = {}
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        language, concept, cues = line.split("\t")
        number = CONCEPTS.index(concept)
        table = tables.setdefault(language, _Cues())
        for cue in cues.split(" "):
            text = normalise(cue)
            if "_" in text:
                first, second = text.split("_")
                table.pairs.setdefault((first, second), number)
            elif text.endswith("*"):
                table.beginnings.setdefault(text[:-1], number)
            else:
                table.words.setdefault(text, number)
    return tables


def has_cues(language: str | None) -> bool:
    """Whether `cues.tsv` has the language."""
    return language in _tables()


@lru_cache(maxsize=1 << 16)
def _concept(token: str, language: str) -> int:
    table = _tables()[language]
    for form in dict.fromkeys((token, without_arabic_prefix(token))):
        found = table.words.get(form)
        if found is not None:
            return found
        for length in range(min(len(form), _LONGEST), 0, -1):
            found = table.beginnings.get(form[:length])
            if found is not None:
                return found
    return -1


def cue_hits(tokens: list[str], language: str | None) -> NDArray[np.intp]:
    """(tokens,) number of each normalised token's concept in `CONCEPTS`; -1 for none, and for languages without cues."""
    if language is None or language not in _tables():
        return np.full(len(tokens), -1, np.intp)
    found = np.fromiter((_concept(token, language) for token in tokens), np.intp, len(tokens))
    pairs = _tables()[language].pairs
    if pairs:
        for index, pair in enumerate(pairwise(tokens)):
            concept = pairs.get(pair)
            if concept is not None:
                found[index] = found[index + 1] = concept
    return found
