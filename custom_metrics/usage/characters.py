"""Characters that say nothing, and characters that are one letter or digit in several forms."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

IGNORABLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's property Default_Ignorable_Code_Point (DerivedCoreProperties.txt), which :mod:`unicodedata` lacks: soft
hyphens, joiners, controls of direction, variation selectors. They are no part of a word."""

POINTS = "".join(
    chr(code)
    for first, last in ((0x0591, 0x05C7), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06ED))
    for code in range(first, last + 1)
    if unicodedata.category(chr(code)) == "Mn"
)
"""Vowel points and other marks of Arabic and Hebrew, with which a word is still the same."""

_OTHER_DIGIT = re.compile(r"(?![0-9])\d")


def ascii_digits(text: str) -> str:
    """The text with the decimal digits of every script as 0 to 9."""
    return text if text.isascii() else _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)


def plain(text: str) -> str:
    """The text in one form (NFC), without :data:`IGNORABLE` characters, and with the letters and digits that stand for
    others as these: ligatures, full width, Arabic presentation forms, digits of every script.

    Signs stay as they are: NFKC would read "Windows™" as "WindowsTM", and "1½" as "11⁄2".
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", "".join(map(_plain, IGNORABLE.sub("", text))))


@cache
def _plain(character: str) -> str:
    if unicodedata.category(character)[0] == "L":
        return unicodedata.normalize("NFKC", character)
    return ascii_digits(character)
