"""How common it is that one letter follows another. This tells words from random letters without a list of words.

``letter_pairs.txt`` has a line for each letter a to z and a digit for each that may follow it: 0 for pairs next to never
seen, 9 for the most common. They are counted in the phrase tables of the 23 languages in Latin script, every one with the
same weight; marks on letters are dropped ("é" is "e"). Words have a mean of 7 to 8, also in languages without a table.
Letters drawn at random have 4. ``python -m custom_metrics.letter_pairs`` writes the file anew.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from functools import cache
from importlib import resources
from itertools import pairwise, product
from pathlib import Path
from string import ascii_lowercase

from custom_metrics.phrases import LANGUAGES, phrases

__all__ = ["Commonness", "commonness", "latin"]

_FILE = resources.files("custom_metrics").joinpath("letter_pairs.txt")
_ENOUGH = 5_000  # pairs; tables in other scripts hold some loan words
_UNSEEN = 2e-6
_LETTERS = str.maketrans(
    {"ı": "i", "ß": "ss", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ə": "e", "þ": "th"}
    | {"Ø": "O", "Ł": "L", "Đ": "D", "Æ": "AE", "Œ": "OE", "Þ": "TH"}
)
_MARKS = re.compile("[\u0300-\u036f]+")

Commonness = dict[str, int]
"""Two letters to a digit."""


def latin(text: str) -> str:
    """A text with the letters of Latin script as a to z and A to Z where they have that base; others stay."""
    if text.isascii():
        return text
    return _MARKS.sub("", unicodedata.normalize("NFD", text.translate(_LETTERS)))


@cache
def commonness() -> Commonness:
    """The digits of all 676 pairs."""
    rows = (line.split() for line in _FILE.read_text("utf-8").splitlines())
    return {
        first + second: int(digit)
        for first, digits in rows
        for second, digit in zip(ascii_lowercase, digits, strict=True)
    }


def counted() -> str:
    """The content of ``letter_pairs.txt``, counted in the phrase tables."""
    shares: dict[str, float] = dict.fromkeys(map("".join, product(ascii_lowercase, repeat=2)), 0.0)
    languages = 0
    for language in LANGUAGES:
        found: Counter[str] = Counter()
        for listed in phrases(language).values():
            if isinstance(listed, list):
                for word in re.findall("[a-z]+", latin("\n".join(listed).lower())):
                    found.update(first + second for first, second in pairwise(word))
        if found.total() >= _ENOUGH:
            languages += 1
            for pair, count in found.items():
                shares[pair] += count / found.total()
    lines = []
    for first in ascii_lowercase:
        digits = (
            round(9 + 0.9 * (math.log2(shares[first + second] / languages + _UNSEEN) + 7)) for second in ascii_lowercase
        )
        lines.append(f"{first} {''.join(str(max(0, min(9, digit))) for digit in digits)}\n")
    return "".join(lines)


if __name__ == "__main__":
    Path(str(_FILE)).write_text(counted(), "utf-8")
