"""Noise: characters that make no words of any script, such as random letters, keyboard noise, wrongly decoded bytes.

A text is noise (:func:`is_noise`) in these cases:

- More than six of ten characters are U+FFFD, control characters, private or unassigned ones.
- It *mixes scripts* as no text does: words of two scripts, U+FFFD at letters, or letters of three scripts in turn
  (:func:`mixes_scripts`). Tokens drawn at random from the vocabulary of a multilingual model look like this.
- Its words have *neighbours that occur in no word*. Two Latin letters side by side score the digit of :func:`commonness`;
  two digits score 8. A small letter before a capital, a letter beside a digit, two different marks, and anything beside one
  of ``#$%&*+;<=>?@\\^_`{|}~!`` score 0. Marks at the ends of a word do not count, nor do single ones within ("3.5",
  "O'Neill", "km/h"), abbreviations (up to five capitals), Roman numbers and chemical formulas.
  The mean score of n neighbours is too low under 4 + (n - 8) / 8, at most 5.9; the limit is 0.3 higher where a question is
  given and the text shares no word of five letters with it and its passages. n must be 12 or more, and more than half of
  the characters; 8 or more where there are only letters.
- A fifth of it is marks of five kinds or more, two of which occur in no formula, and that mean is under 3.
- In an alphabet other than Latin, where passages in that alphabet are given: of 12 or more runs of three letters, question
  and passages hold less than a quarter.

Of 299,110 phrases of one to five words from the passages of NoMIRACL's released prompts in nine languages, 9 are noise, and
18 beside a question that has nothing to do with them. Of 20 random small letters 90 % are noise without a question and 94 %
with one, of 30 99 %; of 20 random characters of a keyboard 95 %, of 30 99 %. What cannot be known without a list of words
stays: a few random letters (names are as rare), random Chinese characters and Korean syllables, real words in random order.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise, product
from operator import add
from statistics import fmean
from string import ascii_lowercase
from typing import NamedTuple

_READ = 300  # characters
_UNREADABLE = 0.6
_FEWEST, _FEWEST_LETTERS = 12, 8  # neighbours
_LOWEST, _MORE_EACH, _HIGHEST, _MORE_UNRELATED = 4.0, 1 / 8, 5.9, 0.3
_ABBREVIATION = 5
_TRIPLES_SHARED = 0.25
_SCRIPTS, _FEWEST_WORDS, _WORDS_A_TOUCH = 3, 5, 15
_SYMBOLS = frozenset("#$%&*+;<=>?@\\^_`{|}~!")
_ODD = frozenset('#$%&;?@`|~!"{}[]<>\x0b\x0c')  # not in formulas
_FEWEST_MARKED, _MARKS, _ODD_MARKS, _MEAN_OF_MARKED = 6, 5, 2, 3.0
_COMMAND = re.compile(r"\\[A-Za-z]{2}|https?:")  # of LaTeX; an address
_EDGE = "*_#`~\"'()[]{}<>.,:;!?|="
_ALPHABETS = frozenset("CYRILLIC GREEK ARABIC HEBREW ARMENIAN GEORGIAN DEVANAGARI BENGALI TELUGU THAI".split())
_WORD = re.compile(r"[^\W\d_]{5,}")
_FORMULA = re.compile(
    r"(?:\d*\(?(?:H|He|Li|Be|B|C|N|O|F|Ne|Na|Mg|Al|Si|P|S|Cl|Ar|K|Ca|Ti|V|Cr|Mn|Fe|Co|Ni|Cu|Zn|As|Br|Ag|Sn|I|Ba|Pt|Au|Hg|Pb|U)"
    r"\d*\)?\d*)+[+-]?"
)
_ROMAN = re.compile("[IVXLCDM]+")
_JOINERS = "\u200b\u200c\u200d\u200e\u200f\ufeff\u00ad"

_FILE = resources.files("custom_metrics.reading").joinpath("letter_pairs.txt")
_LETTERS = str.maketrans(
    {"ı": "i", "ß": "ss", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ə": "e", "þ": "th"}
    | {"Ø": "O", "Ł": "L", "Đ": "D", "Æ": "AE", "Œ": "OE", "Þ": "TH"}
)
_ACCENTS = re.compile("[\u0300-\u036f]+")


def latin(text: str) -> str:
    """A text with the letters of Latin script as a to z and A to Z where they have that base; others stay."""
    if text.isascii():
        return text
    return _ACCENTS.sub("", unicodedata.normalize("NFD", text.translate(_LETTERS)))


@cache
def commonness() -> dict[str, int]:
    """The digit of two characters of ASCII side by side, where they have one.

    It is how often one letter follows another, which distinguishes words from random letters without a list of words:
    ``letter_pairs.txt`` has a line for each letter a to z and a digit for each that may follow it: 0 for pairs next to
    never seen, 9 for the most common. They were counted once, at commit 3556028, in the phrases of abstention of the 23
    languages in Latin script, which were written out there (1.1 MB); every language has the same weight, and marks on
    letters are dropped ("é" is "e"). Words of any language have a mean of 7 to 8, also of those that were not counted;
    letters drawn at random have 4.
    """
    rows = (line.split() for line in _FILE.read_text("utf-8").splitlines())
    digits = {first: dict(zip(ascii_lowercase, map(int, listed), strict=True)) for first, listed in rows}
    values: dict[str, int] = {}
    for a, b in product(map(chr, range(33, 127)), repeat=2):
        if a.isalpha() and b.isalpha():
            values[a + b] = 0 if a.islower() and b.isupper() else digits[a.lower()][b.lower()]
        elif a.isdigit() and b.isdigit():
            values[a + b] = 8
        elif (a.isalnum() == b.isalnum() and a != b) or (a.isalnum() != b.isalnum() and not _SYMBOLS.isdisjoint(a + b)):
            values[a + b] = 0
    return values


def is_noise(text: str, question: str | None = None, passages: Sequence[str] = ()) -> bool:
    """Whether a text makes no words (see the module). Its first 300 characters are read."""
    head = text[:_READ]
    characters = len("".join(head.split()))
    if not head.isprintable() or "\ufffd" in head:
        odd = sum(char == "\ufffd" or (unicodedata.category(char)[0] == "C" and not char.isspace()) for char in head)
        if odd - sum(map(head.count, _JOINERS)) > _UNREADABLE * characters:
            return True
    folded = latin(head)
    get = commonness().get
    values: list[int] = []
    for token in folded.split():
        word = token.strip(_EDGE)
        abbreviation = word.isupper() and ((word.isalpha() and len(word) <= _ABBREVIATION) or _ROMAN.fullmatch(word))
        if not abbreviation and (word.isalpha() or word[:1] > "Z" or not _FORMULA.fullmatch(word)):
            values += [value for value in map(get, map(add, word, word[1:])) if value is not None]
    mean = fmean(values) if values else _HIGHEST
    if len(values) >= _FEWEST_LETTERS and 2 * len(values) > len("".join(folded.split())):
        limit = min(_HIGHEST, _LOWEST + _MORE_EACH * (len(values) - _FEWEST_LETTERS))
        if question is not None:
            limit += _MORE_UNRELATED
        enough = len(values) >= _FEWEST or not any(char.isdigit() or char in _SYMBOLS for char in folded)
        if mean < limit and enough and not _shares_a_word(head, question, passages):
            return True
    if len(values) >= _FEWEST_MARKED and mean < _MEAN_OF_MARKED:
        marks = [char for char in head if char.isascii() and not char.isalnum() and char not in " \n\t\r"]
        many = len({*marks}) >= _MARKS and len(_ODD & {*marks}) >= _ODD_MARKS and 5 * len(marks) >= characters
        if many and not _COMMAND.search(head):
            return not _shares_a_word(head, question, passages)
    if folded.isascii():
        return False
    return mixes_scripts(head, question, passages) or _has_other_triples(head, question, passages)


def _shares_a_word(text: str, question: str | None, passages: Sequence[str]) -> bool:
    if question is None:
        return False
    context = "\n".join((question, *passages)).casefold()
    return any(word in context for word in _WORD.findall(text.casefold()))


def _has_other_triples(text: str, question: str | None, passages: Sequence[str]) -> bool:
    top = next((script for script, _ in scripts(text).most_common(1)), "")
    if top not in _ALPHABETS or question is None or not passages:
        return False
    triples = [word[at : at + 3] for word in text.casefold().split() for at in range(len(word) - 2)]
    triples = [triple for triple in triples if all(script_of(char) == top for char in triple)]
    context = "\n".join((question, *passages)).casefold()
    if len(triples) < _FEWEST or not any(script_of(char) == top for char in set(context)):
        return False
    return sum(triple in context for triple in triples) < _TRIPLES_SHARED * len(triples)


_UNSPACED = frozenset("EAST HANGUL THAI LAO KHMER MYANMAR".split())
_EAST = frozenset(("CJK", "KATAKANA", "BOPOMOFO"))


class _Run(NamedTuple):
    """Letters side by side in one script."""

    script: str
    letters: int
    joined: bool  # letters of another script stand directly before it


def _runs(text: str) -> tuple[list[_Run], int]:
    """The runs of a text, and the number of places where U+FFFD touches letters of a script with spaces.

    Chinese, kana and Bopomofo are one script. Greek letters that stand alone are symbols ("β-Carotin", "Ω").
    """
    runs: list[_Run] = []
    broken = letters = 0
    script, touches = "", False
    for char in (*text, " "):
        letter = script_of(char)
        if not letter and (char in _JOINERS or unicodedata.category(char)[0] == "M"):
            continue
        letter = "EAST" if letter in _EAST else letter
        if letter and letter == script:
            letters += 1
            continue
        if script and (script != "GREEK" or letters > 1):
            runs.append(_Run(script, letters, touches))
        broken += bool(script) and char == "\ufffd" and script not in _UNSPACED
        script, letters, touches = letter, 1, bool(script and letter)
    return runs, broken


def mixes_scripts(text: str, question: str | None = None, passages: Sequence[str] = ()) -> bool:
    """Whether a text jumps between scripts within words, or from word to word, as tokens drawn at random do.

    Two scripts touch where letters of both are side by side, one of them in a word of two letters or more. Latin beside
    Chinese, kana, Hangul or Thai does not count where a quarter of the letters, or the question, is in these ("NHKの番組").
    A text does so in any of these cases:

    - Two touches or U+FFFD at letters, and one for each 15 words; or one, in a text of three scripts.
    - Three words outside the two commonest scripts, each tenth at least; the script changes at each fourth word.
    - A touch, or five words in three scripts, where a question is given, and neither it nor the passages hold one of the
      text's words of five letters and more.

    Of 96,638 real texts (released answers, passages in nine languages, answers in ten) 26 mix scripts without a question:
    long ones on letters, symbols or names in three scripts, and English about Japanese names. Of 900 texts of tokens drawn
    at random (a byte-level BPE of twelve languages; half to 85 % of them Latin) all kinds of noise find 64 % of six tokens,
    88 % of twelve and 98 % of 25. The rule that an answer has to share a word or number with question or passages finds
    79 %, 53 % and 21 %, as ten passages hold many words, and takes "Wales", "CBS" and whole sentences for noise.
    """
    runs, broken = _runs(text)
    counts = Counter(run.script for run in runs)
    if len(counts) + broken < 2:
        return False
    unspaced = sum(run.letters for run in runs if run.script in _UNSPACED)
    eastern = any(script_of(char) in _EAST | _UNSPACED for char in question or "")
    together = {*_UNSPACED, "LATIN"} if eastern or 4 * unspaced >= sum(run.letters for run in runs) else set[str]()
    touches = broken
    for before, run in pairwise(runs):
        pair = {before.script, run.script}
        sizes = sorted((before.letters, run.letters))
        alone = sizes[0] == 1 and pair.isdisjoint(_UNSPACED)
        touches += run.joined and sizes[1] > 1 and not alone and not pair <= together
    if touches >= 2 and _WORDS_A_TOUCH * touches >= len(runs):
        return True
    three = len(counts) >= _SCRIPTS
    changes = sum(before.script != run.script for before, run in pairwise(runs))
    third = len(runs) - sum(count for _, count in counts.most_common(2))
    often = len(runs) >= _FEWEST_WORDS and third > 2 and 4 * changes >= len(runs) and 10 * third >= len(runs)
    if three and (touches or often):
        return True
    suspicious = touches or (three and len(runs) >= _FEWEST_WORDS)
    return bool(suspicious) and question is not None and not _shares_a_word(text, question, passages)


@lru_cache(maxsize=16384)
def script_of(char: str) -> str:
    """The script of a letter by its Unicode name ("CYRILLIC", "CJK"; kana are "KATAKANA"), ``""`` where it is no letter."""
    if not char.isalpha():
        return ""
    name = unicodedata.name(char, "?").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    script = re.split("[ -]", name, maxsplit=1)[0]
    return {"HIRAGANA": "KATAKANA", "IDEOGRAPHIC": "CJK"}.get(script, script)


def scripts(text: str) -> Counter[str]:
    """The number of a text's letters in each script."""
    counts = Counter(map(script_of, text))
    del counts[""]
    return counts
