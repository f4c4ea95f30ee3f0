"""Folding: the form of a text in which phrases are compared; and the boundaries of its words.

Folding removes what does not distinguish phrases: case, width, kinds of apostrophes and quotes, vowel marks, Markdown.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

from custom_metrics.usage.printable import IGNORABLE, POINTS

_QUOTES = "“”„‟«»‹›「」『』《》〈〉〝〞＂"
_FOLD = str.maketrans(
    {
        **dict.fromkeys("’‘ʼ‛`ʹ′", "'"),
        **dict.fromkeys(_QUOTES, '"'),
        "ı": "i",
        "\u0307": None,  # left behind when Turkish İ is lowered
        **dict.fromkeys("أإآٱ", "ا"),
        **dict.fromkeys("ىيےېۓ", "ی"),
        "ك": "ک",
        "ة": "ه",
        "ہ": "ه",
        "ھ": "ه",
        "ۀ": "ه",
        "ۂ": "ه",
        **dict.fromkeys(f"{POINTS}\u0640", None),  # vowel marks of Arabic and Hebrew, tatweel
        "\u05be": "-",
        "ş": "ș",  # Romanian with the cedillas of old keyboards
        "ţ": "ț",
        **dict.fromkeys("*_#", " "),  # Markdown
        **dict.fromkeys("‐‑‒–—―", "-"),
        **dict.fromkeys(map(chr, (*range(10), *range(11, 32), 127)), " "),  # control characters; a line break stays
        **dict.fromkeys("\x85\u2028\u2029", "\n"),
    }
)
_FOLDED = re.compile(f"[{re.escape(''.join(map(chr, _FOLD)))}]")  # most texts hold few: faster than `str.translate`
NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff]+")
"""Runs of scripts that put no space between words: Thai, Lao, Burmese, Khmer, Han, kana."""
_SPACES = re.compile(" {2,}")
_MARKS = re.compile("[\u0300-\u036f]+")  # combining: tones, dots below, macrons, circumflexes
SIGNS = {**dict.fromkeys("❌✗✘🚫⛔👎❎", False), **dict.fromkeys("✅✓✔👍☑", True)}  # signs that stand for a verdict
EDGE = " \t\n.,:;!?\"'()[]{}<>|/\\-=~+&。、،؛؟।॥…·・•¿¡✓✗❌✅🤷⚠ℹ✘✔☑👍👎🚫⛔✖\ufe0f"
"""Marks that do not count at the ends of a sentence."""

_SPLIT_OFF = re.compile(r" (?i:(?<=\b(?:do|is|ca) )(?=n['’]t\b)|(?<=\bdoes )(?=n['’]t\b)|(?<=[a-z] )(?=['’][sm]\b))")
"""The space of a tokenizer before an English ending: "do n't", "I 'm"."""

# An apostrophe as escapes, wrong encodings or tokenizers leave it: "don\\'t", "donâ€™t", "donu0027t", "DON T".
_BROKEN_APOSTROPHE = re.compile(r"([nN])(?i:\\['’]|u0027|â€™|u2019|(?<=\b(?:do|is)n) |(?<=\b(?:does)n) )(?=[tT]\b)")
_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")


def legible(text: str) -> str:
    """A text as its writer saw it, without HTML's entities ("I don&#39;t know") and JSON's escapes; "do n't" is a word."""
    if "&" in text:
        text = html.unescape(text)
    if "\\u" in text:
        text = _ESCAPED.sub(lambda code: bytes.fromhex(code[0].replace("\\u", "")).decode("utf-16-be", "replace"), text)
    text = _BROKEN_APOSTROPHE.sub(r"\1'", text)
    return _SPLIT_OFF.sub("", text) if " n'" in text or " n’" in text or " '" in text or " ’" in text else text


@lru_cache(maxsize=16)  # an answer is folded for each question that is asked of it
def fold(text: str, marks: bool = False) -> str:
    """Fold a text, and with `marks` the combining ones (Yoruba's tones)."""
    text = legible(text)
    if not text.isascii():
        text = IGNORABLE.sub("", text).replace("´", "'")  # NFKC makes a blank and an accent of it
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold()
    text = _FOLDED.sub(lambda match: _FOLD[ord(match[0])] or "", text)
    if marks:
        text = _MARKS.sub("", unicodedata.normalize("NFD", text))
    return _SPACES.sub(" ", text) if "  " in text else text


@lru_cache(maxsize=16384)
def is_word(char: str) -> bool:
    """Whether a character belongs to a word: letters, digits, and the marks that stand on or beside letters."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


@lru_cache(maxsize=16384)
def is_boundary(outside: str, inside: str) -> bool:
    """Whether a word may end between two characters: at a character that belongs to no word, between scripts without
    spaces, and where such a script or any other than Latin begins behind an ASCII letter."""
    if not is_word(outside) or NO_SPACES.match(outside):
        return True
    return inside.isascii() and outside > "ɏ" and not "Ḁ" <= outside <= "ỿ"
