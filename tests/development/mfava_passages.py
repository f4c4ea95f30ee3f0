"""Make ``lm_eval_tasks/mfava/passages.tsv``: the place in the silver files of every text of the gold file.

``python -m tests.development.mfava_passages ../shared/hub > lm_eval_tasks/mfava/passages.tsv``

A translation keeps numbers and names, and names are written alike in some of the silver files' languages. A text gets the
place where it is nearest to all translations of a passage taken together, by the cosine of these keys weighted by their
rarity, and the passage to the text.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set

import numpy as np

from detector_plugin.labelled import translation_keys
from lm_eval_tasks.data import sources
from lm_eval_tasks.mfava.annotations import digest_of
from lm_eval_tasks.mfava.dataset import GOLD_FILE, LANGUAGES, REPOSITORY

MIN_COSINE = 0.02
"""Least cosine of a text and its passage: of the 716 of 722 texts that have a place, two have less than .03."""


def _places(texts: Sequence[Set[Hashable]], passages: Mapping[int, Set[Hashable]]) -> dict[int, int]:
    """Map texts to passages, both by number, from the keys of the texts of a language and those of the passages."""
    frequencies = Counter(key for keys in passages.values() for key in keys)
    squares = {key: math.log((len(passages) + 1) / count) ** 2 for key, count in frequencies.items()}

    def size(keys: Set[Hashable]) -> float:
        return math.fsum(squares[key] for key in keys)

    restricted = [text & squares.keys() for text in texts]
    shared = np.array([[size(keys & text) for keys in passages.values()] for text in restricted])
    sizes = [np.sqrt([*map(size, group)]) for group in (restricted, passages.values())]
    cosines = shared / np.maximum(np.outer(*sizes), 1.0)
    names, best, back = [*passages], cosines.argmax(axis=1), cosines.argmax(axis=0)
    mutual = ((text, place) for text, place in enumerate(best) if back[place] == text)
    return {text: names[place] for text, place in mutual if cosines[text, place] >= MIN_COSINE}


def _rows(file: str, mirror: str | None) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(sources.locate(REPOSITORY, file, mirror).read_text("utf-8"))
    return rows


def table_of(mirror: str | None) -> Iterator[str]:
    """The lines of the table below its head, from the public files."""
    passages: dict[int, set[Hashable]] = {}
    first: list[int] = []  # of the places of one text
    for language in (LANGUAGES["fi"], *(entry for entry in LANGUAGES.values() if entry.silver_file)):
        try:
            silver = [row["references"] for row in _rows(language.silver_file, mirror)]
        except sources.MissingSource:  # a mirror may hold a part of the languages
            continue
        first = first or [silver.index(text) for text in silver]
        for place, text in zip(first, silver, strict=True):
            passages.setdefault(place, set()).update(translation_keys(text))
    gold: dict[str, dict[str, None]] = {}
    for row in _rows(GOLD_FILE, mirror):
        gold.setdefault(row["language"], {})[row["references"]] = None
    for texts in gold.values():
        places = _places([translation_keys(text) for text in texts], passages)
        for number, text in enumerate(texts):
            yield f"{digest_of(text)}\t{places.get(number, digest_of(text))}"


if __name__ == "__main__":
    sys.stdout.write("reference\tpassage\n" + "".join(f"{line}\n" for line in table_of(sys.argv[1])))
