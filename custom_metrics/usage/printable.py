"""Foreign text made safe to print: nothing in it acts on a terminal, hides, turns its direction, or begins a line.

Names, messages and answers come from files that others wrote. Each character that is not shown becomes an escape of JSON,
``\\u001b``; so JSON text that went through :func:`printable` still holds the same values.

Halves of surrogate pairs (``"\\ud800"`` in JSON, half a character of UTF-16) are in no file: Python keeps them, but writing
them as UTF-8 raises, and the harness then loses the rest of a task's samples. :func:`without_surrogates` replaces them.
:func:`plain` is a text without characters that say nothing, and with one form of each letter and digit.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Sequence
from functools import cache

_JOINERS = "\u200c\u200d"  # Persian words and emoji are written with them
_UNUSUAL = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    """A text whose control characters, marks of direction and surrogates are escapes. Line feeds and tabs stay."""
    return text if text.isprintable() else _UNUSUAL.sub(lambda match: _escaped(match[0], "\n\t"), text)


def on_one_line(text: str) -> str:
    """The same with line feeds and tabs as escapes, too: for a cell of a table, a comment, the name of something."""
    return text if text.isprintable() else _UNUSUAL.sub(lambda match: _escaped(match[0], ""), text)


def shorten(names: Sequence[str], most: int = 3) -> str:
    """At most `most` names, and the number of further ones: ``de, fr and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def excerpt(value: object) -> str:
    """The first 60 characters of a text, or of any other value as Python writes it, on one line: for messages."""
    if isinstance(value, str):
        return on_one_line(f"{value[:60]!r}{'...' if len(value) > 60 else ''}")
    return on_one_line(f"{value!r:.60}")


def shell_word(text: str) -> str:
    """A word of a POSIX shell that stands for the text, :func:`printable`."""
    return shlex.quote(printable(text))


def _escaped(character: str, allowed: str) -> str:
    printed = character.isprintable() or character in allowed or character in _JOINERS
    if printed or unicodedata.category(character) == "Zs":  # spaces of other widths
        return character
    escape = json.dumps(character)[1:-1]
    return f"\\u{ord(character):04x}" if escape == character else escape  # JSON lets U+007F stand


SURROGATE = re.compile("[\ud800-\udfff]")  # one half of a pair


def without_surrogates(text: str) -> str:
    """The text with matching halves joined to one character, and each lone half replaced by U+FFFD."""
    if text.isascii() or not SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# <|im_end|>, </s>, <start_of_turn>, <｜User｜>, ◁think▷, [INST], [gMASK], [|endofturn|], ]~b]: a bracket that touches what
# follows, also in full width, which some tokenizers make plain. [1] is none.
_OPENING = re.compile(r"[<＜﹤◁](?=\S)|[\[［](?=[^\s\d])|\](?=~)")
# Format characters that scripts need; all others (direction overrides, tag characters) carry text that no reader sees.
_NEEDED = "\u200c\u200d\u00ad"
# Variation selectors beyond those of emoji: marks by category, but unseen, and 256 of them spell any byte.
_SELECTORS = {*map(chr, range(0xFE00, 0xFE0E)), *map(chr, range(0xE0100, 0xE01F0))}


def quote(text: str) -> str:
    """The text as quoted lines. Invisible and other non-text characters are removed, tabs become spaces.

    A judge's prompt holds answers from untrusted sources. Each of their lines is prefixed with ``> ``, so that none can
    pass for a line of the prompt, and what a tokenizer could take for a special token is broken up.
    """
    lines = []
    for line in text.splitlines() or [""]:
        shown = (c for c in line.replace("\t", " ") if unicodedata.category(c)[0] != "C" or c in _NEEDED)
        visible = "".join(c for c in shown if c not in _SELECTORS)
        lines.append(f"> {_OPENING.sub(lambda match: f'{match[0]} ', visible)}".rstrip())
    return "\n".join(lines)


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
