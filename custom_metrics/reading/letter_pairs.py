"""How common it is that one letter follows another: what tells words from random letters without a list of words.

``letter_pairs.txt`` has a line for each letter a to z and a digit for each that may follow it: 0 for pairs next to never
seen, 9 for the most common. They were counted once, at commit 3556028, in the phrases of abstention of the 23 languages in
Latin script, which were written out there (1.1 MB); every language has the same weight, and marks on letters are dropped
("é" is "e"). Words of any language have a mean of 7 to 8, also of those that were not counted; letters drawn at random
have 4.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources
from string import ascii_lowercase

__all__ = ["Commonness", "commonness", "latin"]

_FILE = resources.files("custom_metrics.reading").joinpath("letter_pairs.txt")
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
