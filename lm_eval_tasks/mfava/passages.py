"""Which passage an annotated answer is about: one name in all languages, into which mFAVA's texts were translated.

Answers about one passage hang together. A silver file has the 309 texts in the same order in every language, and a passage
is known by its place there. The gold file has most of them in each of its languages, in another order, and several rows of
one text that several people marked: ``passages.tsv`` says where the text of a row stands in the silver files.
``python -m lm_eval_tasks.mfava.passages --mirror DIR > passages.tsv`` makes that table: two texts are one where they share
numbers, by their rarity three tenths of all, and neither shares more with another text.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources

import numpy as np

from lm_eval_tasks.data import sources
from lm_eval_tasks.mfava.languages import GOLD_FILE, LANGUAGES, REPOSITORY

__all__ = ["is_unplaced", "passages_of"]

SILVER_ROWS = 309
"""Of a public silver file. A file of another length has texts of its own."""

LEAST = 0.3
"""Of their numbers' weight, what two texts share that are one. Of German and Turkish texts 220 have it, 217 have 0.5."""


def passages_of(references: Sequence[str], parallel: bool) -> list[str]:
    """The passage of each row of a file: a place in the silver files, or a digest of the reference.

    Args:
        references: of the file's rows.
        parallel: whether the rows stand in their places, as in a silver file.
    """
    first: dict[str, int] = {}
    places = [first.setdefault(reference, place) for place, reference in enumerate(references)]
    if parallel and len(references) == SILVER_ROWS:
        return [str(place) for place in places]
    known = _table()
    return [known.get(digest := _digest(reference), digest) for reference in references]


def is_unplaced(passage: str) -> bool:
    """Whether a passage is a text of the gold file, of which nobody can say where it stands in the silver files."""
    return _table().get(passage) == passage


def _digest(reference: str) -> str:
    return hashlib.sha256(reference.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, str]:
    text = resources.files(__package__).joinpath("passages.tsv").read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines()[1:])


# ------------------------------------------------------------------------------------------------------ making the table


def _matches(
    texts: Sequence[set[int]], others: Sequence[set[int]], weights: Mapping[int, float]
) -> Iterator[tuple[int, int]]:
    """Places of the texts that are one: each has most numbers with the other."""

    def weight(numbers: set[int]) -> float:
        return sum(weights[number] for number in numbers)

    shared = np.array([[weight(a & b) / (weight(a | b) or 1.0) for b in others] for a in texts])
    best, back = shared.argmax(axis=1), shared.argmax(axis=0)
    for place, other in enumerate(best):
        if back[other] == place and shared[place, other] >= LEAST:
            yield place, int(other)


def _numbers(text: str) -> set[int]:
    return {int(digits) for digits in re.findall(r"\d{2,9}", text)}


def _rows(file: str, mirror: str | None) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(sources.locate(REPOSITORY, file, mirror).read_text("utf-8"))
    return rows


def _lines(mirror: str | None) -> Iterator[str]:
    silver = [row["references"] for row in _rows(LANGUAGES["fi"].silver_file, mirror)]
    passages = {place: _numbers(silver[place]) for place in sorted({silver.index(text) for text in silver})}
    names = [str(place) for place in passages]
    known = list(passages.values())
    gold: dict[str, list[str]] = {}
    for row in _rows(GOLD_FILE, mirror):
        if row["references"] not in gold.setdefault(row["language"], []):
            gold[row["language"]].append(row["references"])
    of_text = {code: [_numbers(text) for text in texts] for code, texts in gold.items()}
    times = Counter(number for many in (*of_text.values(), known) for numbers in many for number in numbers)
    weights = {number: 1 / count for number, count in times.items()}
    for code, numbered in of_text.items():
        places = dict(_matches(numbered, known, weights))
        for place, numbers in enumerate(numbered):
            digest = _digest(gold[code][place])
            if place not in places:  # in no silver file: later languages may have it
                names.append(digest)
                known.append(numbers)
            yield f"{digest}\t{names[places[place]] if place in places else digest}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror")
    sys.stdout.write("reference\tpassage\n" + "".join(f"{line}\n" for line in _lines(parser.parse_args().mirror)))
