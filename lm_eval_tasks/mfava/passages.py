"""Names of the passages that annotated answers are about: one name in all languages, for a text and its translations.

Answers about one passage depend on each other. A silver file has the 309 texts in the same order in every language, and a
passage is named by its place there. The gold file has most of them in each of its languages, in another order, and several
rows of one text that several people marked: ``passages.tsv`` maps the text of a row to its place in the silver files.
``python -m lm_eval_tasks.mfava.passages --mirror DIR > passages.tsv`` makes that table. A translation keeps numbers and
names, and names are written alike in some of the silver files' languages. A text gets the place where it is nearest to all
translations of a passage taken together, by the cosine of these keys weighted by their rarity, and the passage to the text.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from importlib import resources

import numpy as np

from detector_plugin.labelled import translation_keys
from lm_eval_tasks.data import sources
from lm_eval_tasks.mfava.languages import GOLD_FILE, LANGUAGES, REPOSITORY

SILVER_ROWS = 309
"""Rows of a public silver file. A file of another length has texts of its own."""

MIN_COSINE = 0.02
"""Least cosine of a text and its passage: of the 716 of 722 texts that have a place, two have less than .03."""


def passages_of(references: Sequence[str], parallel: bool) -> list[str]:
    """The passage of each row of a file: a place in the silver files, or a digest of the reference. `parallel` rows stand
    in their places, as in a silver file."""
    first: dict[str, int] = {}
    places = [first.setdefault(reference, place) for place, reference in enumerate(references)]
    if parallel and len(references) == SILVER_ROWS:
        return [str(place) for place in places]
    by_digest = _table()
    return [by_digest.get(digest := _digest(reference), digest) for reference in references]


def is_unplaced(passage: str) -> bool:
    """Whether a passage is a text of the gold file whose place in the silver files is not known."""
    return _table().get(passage) == passage


def _digest(reference: str) -> str:
    return hashlib.sha256(reference.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, str]:
    text = resources.files(__package__).joinpath("passages.tsv").read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines()[1:])


# ------------------------------------------------------------------------------------------------------ making the table


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
    return {
        text: names[place]
        for text, place in enumerate(best)
        if back[place] == text and cosines[text, place] >= MIN_COSINE
    }


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
            yield f"{_digest(text)}\t{places.get(number, _digest(text))}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror")
    sys.stdout.write("reference\tpassage\n" + "".join(f"{line}\n" for line in table_of(parser.parse_args().mirror)))
