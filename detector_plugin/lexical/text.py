"""Normalisation of tokens, so that spellings of different writers, scripts and inflections are one; and the words,
sentences and clauses of a text."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from math import log

import numpy as np
from numpy.typing import NDArray

# Scripts without spaces are compared character by character; everything else by runs of letters and digits.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
"""A token, the unit of a lookup in the reference: a run of letters and digits, or a character of an unspaced script."""

# Serbian Latin for the Cyrillic of Serbian (mFAVA answers in one, its references in the other); the remaining letters of
# other languages get a spelling of their own, as both sides of a comparison are written the same way.
_CYRILLIC = dict(zip("абвгдђежзијклмнопрстћуфхцчшйыэёіїєґ", "abvgdđežzijklmnoprstćufhcčšjyeoijeg", strict=True))
_CYRILLIC |= {"љ": "lj", "њ": "nj", "џ": "dž", "щ": "šč", "ъ": "", "ь": "", "ю": "ju", "я": "ja"}
# Alef, yeh and kaf differ by keyboard (Arabic, Persian, Urdu), teh marbuta is often typed as heh.
_ARABIC = {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ی": "ي", "ئ": "ي", "ؤ": "و", "ة": "ه", "ۃ": "ه", "ہ": "ه"}
_ARABIC |= {"ھ": "ه", "ک": "ك", "ـ": ""}
_TASHKEEL = dict.fromkeys([*range(0x0610, 0x061B), *range(0x064B, 0x0660), 0x0670, *range(0x06D6, 0x06DD)])
_INVISIBLE = dict.fromkeys([0x00AD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), 0xFE0F, 0xFEFF])
_DIGITS = {ord(zero) + digit: str(digit) for zero in "٠۰०০" for digit in range(10)}
# Casefolding makes "i̇" of Turkish İ; ı and i are one letter to whoever capitalises a name.
_FOLDED = str.maketrans(_CYRILLIC | _ARABIC | {"ı": "i", "\u0307": ""}) | _TASHKEEL | _INVISIBLE | _DIGITS
_FOLDABLE = re.compile("[" + re.escape("".join(map(chr, _FOLDED))) + "]")


def normalise(text: str) -> str:
    """Compatibility form (NFKC), casefolded, Cyrillic as Latin, Arabic without vowels and with one letter for its variants.

    The number of line feeds does not change: a text of one word a line stays one.
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    # Looking for one such letter is much faster than translating every letter of a Latin text.
    return text.translate(_FOLDED) if _FOLDABLE.search(text) else text


_ARABIC_PREFIX = re.compile(r"^(?:[وفبك]?ال|ولل|لل|وب|ول|[وبلفكس])(?=\w{3})")
_ARABIC_SUFFIX = re.compile(r"(?<=\w{3})(?:هما|هم|ها|نا|ات|ان|ون|ين|يه|وا|ته|تي|ه|ي|ا|ن|ت)$")
_STEM_LETTERS = 5  # the "first five letters" of Can et al. (2008), as good as a stemmer for Turkish retrieval
_STEM_SYLLABLES = 2  # Korean: what follows is mostly particles


# Thousands are set apart by a point, comma, apostrophe or space, as the language has it.
_AMOUNT = re.compile(r"\d{1,3}(?:[.,'’ ]\d{3}){1,4}(?!\d)|(?<!\d)\d{1,15}(?!\d)")


def amounts(text: str) -> list[float]:
    """Natural logarithms of the whole numbers above 0 in a normalised text, in order; "6.000" and "6 000" are one."""
    numbers = (int("".join(filter(str.isdecimal, run))) for run in _AMOUNT.findall(text))
    return [log(number) for number in numbers if number]


@lru_cache(maxsize=1 << 16)
def stem(token: str) -> str:
    """A normalised token without its inflection, roughly and for all languages.

    Arabic script: without the affixes of Larkey's light stemmer (light10, with a few more suffixes); Korean: the first two
    syllables; otherwise the first five letters, without diacritics. Numbers are left as they are.
    """
    first = token[:1]
    if first.isdigit() or len(token) < 3:
        return token
    if "\u0600" <= first <= "\u06ff":
        return _ARABIC_SUFFIX.sub("", _ARABIC_PREFIX.sub("", token))
    if "\uac00" <= first <= "\ud7a3":
        return token[:_STEM_SYLLABLES]
    if token.isascii():
        return token[:_STEM_LETTERS]
    if "\u1ea0" <= max(token) <= "\u1ef9":  # Vietnamese: without its tones a syllable is another word
        return token[:_STEM_LETTERS]
    bare = "".join(c for c in unicodedata.normalize("NFD", token) if not unicodedata.combining(c))
    return bare[:_STEM_LETTERS]


# Words, sentences and clauses

_CLOSERS = "\"'»«”“’)]）」』*"
_END = re.compile(rf"[.!?…؟۔。！？।][{re.escape(_CLOSERS)}]*(?:\[\d+\])*$")
_BREAK = re.compile(rf"[,;:،؛，；：、–—][{re.escape(_CLOSERS)}]*$|^[–—-]$")
# "1. Februar", "J. Smith", "z.B.": a point that ends no sentence.
_ABBREVIATION = re.compile(r"^[(\"„“«]*(?:\d{1,2}|\w|(?:\w\.)+\w)\.$")
_ITEM_NUMBER = re.compile(r"^[*_(]*\d{1,2}[.):][*_]*$")


class Layout:
    """Words, sentences and clauses of a text with at least one word; `places` are each word's first and end character."""

    def __init__(self, text: str, places: list[tuple[int, int]]) -> None:
        self.texts = [text[start:end] for start, end in places]  # with their punctuation
        self.n_words = len(places)
        new_lines = [False] + ["\n" in text[before:after] for (_, before), (after, _) in pairwise(places)]
        # (n_words,) whether a word numbers the item of a list, and states nothing
        self.item_numbers = np.array(
            [_ITEM_NUMBER.match(word) is not None and fresh for word, fresh in zip(self.texts, new_lines, strict=True)],
            np.bool_,
        )
        # first word of each, rising from 0; numbers of words; (n_words,) number of each word's
        self.sentence_starts, self.clause_starts = _segment_starts(self.texts, new_lines)
        self.sentence_words = np.diff(self.sentence_starts, append=self.n_words)
        self.clause_words = np.diff(self.clause_starts, append=self.n_words)
        self.sentence_of = np.repeat(np.arange(len(self.sentence_starts)), self.sentence_words)
        self.clause_of = np.repeat(np.arange(len(self.clause_starts)), self.clause_words)


def _segment_starts(words: list[str], new_lines: list[bool]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the first word of each sentence, and of each clause; a sentence's first word also begins a clause."""
    sentences = [0]
    clauses = [0]
    for index in range(1, len(words)):
        before = words[index - 1]
        if new_lines[index]:
            sentences.append(index)
        elif before[-1].isalnum():
            continue
        elif (
            _END.search(before)
            and not words[index][0].islower()
            and not (before[-1] == "." and _ABBREVIATION.match(before))
        ):
            sentences.append(index)
        elif _BREAK.search(before):
            pass
        else:
            continue
        clauses.append(index)
    return np.array(sentences, np.intp), np.array(clauses, np.intp)
