"""Tokens, normalised over spellings, scripts and inflections; and the index of a reference, in which they are looked up.

Numbers written in groups of digits ("1,234,567", "12,34,567", "1 234"), and words split at a line's end, are each as one.
Several groups, or a decimal mark behind them, say by themselves which sign separates thousands. "1.234" has four digits in
German and is a fraction in English: of a single group the language decides. Only numbers are joined that an answer and its
reference write otherwise: all others have the features that the weights were trained on.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise, takewhile
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


GRAMS = (4, 8)  # lengths of the character n-grams, spaces between words included
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


_LANGUAGES = {
    ",": "en zh yue ja ko th he hi bn ta te mr gu pa ne ur fa ar sw yo ms fil tl si my km am ha",
    ".": "de es it pt nl id tr vi da sr hr bs sl mk sq ro el ca eu gl is az",
    " ": "fr ru uk be bg pl cs sk hu fi sv nb no nn et lv lt ka hy kk",
}
_SIGN = {code: sign for sign, codes in _LANGUAGES.items() for code in codes.split()}  # between groups of digits (CLDR)
_NO_MARK = "'’\xa0\u2009\u202f\u066c"  # signs that are neither decimal marks nor spaces between words
_GROUPS = re.compile(
    rf"(?<![0-9.,])(?<![0-9] )[1-9][0-9]{{0,2}}(?P<sign>[., {_NO_MARK}])[0-9]{{3}}(?P<more>(?:(?P=sign)[0-9]{{3}})*)"
    r"(?![0-9]|(?P=sign)[0-9])(?=(?P<mark>[.,][0-9])?)"
)
_LAKHS = re.compile(r"(?<![0-9.,])[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9]|,[0-9])")
_DIGITS = re.compile(r"(?<![0-9])[0-9]{4,}(?![0-9])")
_SIGNS = re.compile("[^0-9]")
_SPLIT = re.compile(
    r"(?<![^\W\d_])(?P<first>[^\W\d_]+)"  # from a word's first letter: a long word is read once
    r"(?P<gone>(?P<hyphen>[-\u2010]|\xad)[ \t]*\r?\n[ \t]*)(?P<second>[^\W\d_]+)"
)
_ENGLISH = re.compile(r"\b(?:the|of|and|was|is|to|in)\b")
_ENGLISH_SHARE = 0.1  # of the words of a text that is English

Removed = list[tuple[int, int]]


def written_otherwise(answer: str, reference: str) -> frozenset[str]:
    """The digits of those numbers of an answer that the reference has, but not as they are written there."""
    in_answer, in_reference = map(_writings, (answer, reference))
    return frozenset(number for number, ways in in_answer.items() if not ways <= in_reference.get(number, ways))


def _writings(text: str) -> dict[str, set[str]]:
    """Digits to the ways in which they are written, of numbers of four digits and more."""
    writings: dict[str, set[str]] = {}
    for pattern in (_GROUPS, _LAKHS, _DIGITS):
        for match in pattern.finditer(ascii_digits(text)):
            writings.setdefault(_SIGNS.sub("", match[0]), set()).add(match[0])
    return writings


def joined(
    text: str,
    language: str | None,
    is_word: Callable[[str], bool] | None = None,
    among: Collection[str] | None = None,
) -> tuple[str, Removed]:
    """The text with decimal digits as 0 to 9 and without the signs within numbers and split words; and the places in the
    text where these were, rising. A hyphen stays where the word without it is none, and a number not `among` these."""
    text = ascii_digits(text)
    removed: Removed = []
    for match in _GROUPS.finditer(text):
        if among is not None and _SIGNS.sub("", match[0]) not in among:
            continue
        sign, mark = match["sign"], match["mark"]
        is_told = match["more"] or sign in _NO_MARK or (mark and sign in ".," and mark[0] != sign)
        if is_told or sign == _SIGN.get(language or ""):
            removed += _signs(match)
    for match in _LAKHS.finditer(text):
        removed += _signs(match) if among is None or _SIGNS.sub("", match[0]) in among else []
    removed += [match.span("gone") for match in _SPLIT.finditer(text) if _is_split(match, is_word)]
    if not removed:
        return text, removed
    removed.sort()
    kept = zip([0, *(end for _, end in removed)], [*(start for start, _ in removed), len(text)], strict=True)
    return "".join(text[start:end] for start, end in kept), removed


def joined_reference(text: str, language: str | None, among: Collection[str] | None = None) -> str:
    """A reference as :func:`joined`. An English one for an answer in another language has the signs of English. A hyphen at
    a line's end may belong to the word ("well-known"): both parts stand behind the text, too."""
    is_english = len(_ENGLISH.findall(text)) > _ENGLISH_SHARE * (text.count(" ") + 1)
    whole, removed = joined(text, "en" if is_english else language, None, among)
    split = (match for match in _SPLIT.finditer(text) if match["hyphen"] != "\xad" and _is_split(match))
    return "\n".join((whole, *(f"{match['first']} {match['second']}" for match in split))) if removed else whole


def place_in_joined(places: Iterable[int], removed: Removed) -> list[int]:
    """Places in a text, rising, as places in the text without what was `removed`."""
    gone = [0, *accumulate(end - start for start, end in removed)]
    number, found = 0, []
    for place in places:
        while number < len(removed) and removed[number][1] <= place:
            number += 1
        inside = max(0, place - removed[number][0]) if number < len(removed) else 0
        found.append(place - gone[number] - inside)
    return found


def _signs(match: re.Match[str]) -> Removed:
    return [(at, at + 1) for at in range(*match.span()) if not match.string[at].isdecimal()]


def _is_split(match: re.Match[str], is_word: Callable[[str], bool] | None = None) -> bool:
    """Whether a word goes on in the next line: not with a capital, as in "North-\\nRhine", unless behind a soft hyphen."""
    if match["hyphen"] == "\xad":
        return True
    return not match["second"][0].isupper() and (is_word is None or is_word(match["first"] + match["second"]))
