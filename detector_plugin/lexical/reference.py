"""Tokens, normalised so that spellings of different writers, scripts and inflections are one; and the index of a reference,
in which the words of an answer are looked up."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile
from math import log
from operator import eq

import numpy as np
from numpy.typing import NDArray

from custom_metrics.usage.printable import IGNORABLE, POINTS, ascii_digits

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
_ARABIC |= dict.fromkeys((point for point in POINTS if point >= "\u0600"), "")  # with Hebrew's the weights were trained
# Casefolding makes "i̇" of Turkish İ; ı and i are one letter to whoever capitalises a name.
_FOLDED = str.maketrans(_CYRILLIC | _ARABIC | {"ı": "i", "\u0307": ""})
_FOLDABLE = re.compile("[" + re.escape("".join(map(chr, _FOLDED))) + "]")


def normalise(text: str) -> str:
    """Compatibility form (NFKC), casefolded, Cyrillic as Latin, Arabic without vowels and with one letter for its variants.

    The number of line feeds does not change: a text of one word a line stays one.
    """
    if not text.isascii():
        text = ascii_digits(unicodedata.normalize("NFKC", IGNORABLE.sub("", text)))
    text = text.casefold()
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


# The index

GRAMS = (4, 8)
"""Lengths of the character n-grams, spaces between words included."""

_SHORTEST = 3  # letters of a beginning or ending: fewer are in any text
_STRIDE = 20  # tokens; a window is two strides, about two sentences
_MOST_WINDOWS = 256  # longer references get longer windows, so that time stays linear
_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, of golden ratio: Knuth's multiplicative hash
_SPARSE = 32  # table slots a gram: about 3% of the lookups find a gram that is not there
_LARGEST_TABLE = 23  # bits: 8 MB


@dataclass(frozen=True)
class ReferenceIndex:
    """The tokens and n-grams of one reference. Windows are two strides of tokens long and overlap by one."""

    forms: set[str]  # normalised tokens
    sorted_forms: list[str]  # a token and the form with its longest prefix are neighbours
    stems: dict[str, int]  # number of each
    windows: NDArray[np.int64]  # postings: numbers of the windows that each stem occurs in, rising, stem by stem
    window_bounds: NDArray[np.int64]  # (stems + 1,) where in `windows` the postings of each stem begin
    n_windows: int  # at least 1
    pairs: set[tuple[str, str]]  # stems next to each other
    grams: dict[int, NDArray[np.bool_]]  # for each of `GRAMS` a table of what occurs, by hash
    amounts: NDArray[np.float64]  # natural logarithms of the numbers above 0, rising

    def windows_of(self, name: str) -> NDArray[np.int64]:
        """Numbers of the windows that a stem occurs in; none where the reference lacks it."""
        number = self.stems.get(name)
        return self.windows[:0] if number is None else self.windows[slice(*self.window_bounds[number : number + 2])]

    def longest_prefix(self, token: str) -> int:
        """Length of the longest common prefix of a token and any token of the reference; 0 if it is under 3 letters."""
        place = bisect_left(self.sorted_forms, token)
        neighbours = self.sorted_forms[max(place - 1, 0) : place + 1]
        longest = max((sum(takewhile(bool, map(eq, token, other))) for other in neighbours), default=0)
        return longest if longest >= _SHORTEST else 0


def code_points(tokens: list[str]) -> NDArray[np.uint64]:
    """Code points of the tokens, with a space before, between and after them."""
    return np.frombuffer(f" {' '.join(tokens)} ".encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)


def gram_hashes(text: NDArray[np.uint64]) -> dict[int, NDArray[np.uint64]]:
    """For each n of `GRAMS` the hashes of all n-grams of a text of code points, shape (len(text) - n + 1,) or (0,)."""

    def doubled(half: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
        length = max(len(half) - n, 0)
        return np.asarray(half[:length] * np.uint64(pow(_MULTIPLIER, n, 1 << 64)) + half[n : n + length], np.uint64)

    four = doubled(doubled(text, 1), 2)
    return {4: four, 8: doubled(four, 4)}


def slots(hashes: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """The slot of each hash in a table of `size` slots (a power of 2)."""
    places = (hashes * np.uint64(_MULTIPLIER)) >> np.uint64(65 - size.bit_length())
    return np.asarray(places, np.int64)


@lru_cache(maxsize=4)  # several questions of one article follow each other
def index_reference(text: str) -> ReferenceIndex:
    """Index a reference. The index of a text without a letter or digit is empty."""
    normalised = normalise(text)
    tokens = TOKEN.findall(normalised)
    forms = set(tokens)
    stem_of = {form: stem(form) for form in forms}
    in_order = [stem_of[token] for token in tokens]
    stems: dict[str, int] = {}
    numbers = np.array([stems.setdefault(name, len(stems)) for name in in_order], np.int64)
    stride = max(_STRIDE, -(-len(tokens) // _MOST_WINDOWS))
    # Window i is strides i and i + 1: a token of stride s is in windows s - 1 and s.
    n_windows = max(-(-len(tokens) // stride) - 1, 1)
    strides = np.arange(len(tokens)) // stride
    last = np.minimum(strides, n_windows - 1)
    first = np.maximum(strides - 1, 0)
    postings = np.unique(np.concatenate([numbers * n_windows + first, numbers * n_windows + last]))
    grams = {}
    size = 1 << min(max((_SPARSE * (len(text) + 1)).bit_length(), 12), _LARGEST_TABLE)
    for n, hashes in gram_hashes(code_points(tokens)).items():
        table = np.zeros(size, np.bool_)
        table[slots(hashes, size)] = True
        grams[n] = table
    return ReferenceIndex(
        forms=forms,
        sorted_forms=sorted(forms),
        stems=stems,
        windows=postings % n_windows,
        window_bounds=np.searchsorted(postings, np.arange(len(stems) + 1) * n_windows),
        n_windows=n_windows,
        pairs=set(pairwise(in_order)),
        grams=grams,
        amounts=np.array(sorted(set(amounts(normalised)))),
    )
