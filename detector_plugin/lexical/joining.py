"""Numbers written in groups of digits ("1,234,567", "12,34,567", "1 234"), and words split at a line's end, each as one.

Several groups, or a decimal mark behind them, say by themselves which sign separates thousands. "1.234" has four digits in
German and is a fraction in English: of a single group the language decides. Only numbers are joined that an answer and its
reference write otherwise: all others have the features that the weights were trained on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from itertools import accumulate

from custom_metrics.usage.printable import ascii_digits

_LANGUAGES = {
    ",": "en zh yue ja ko th he hi bn ta te mr gu pa ne ur fa ar sw yo ms fil tl si my km am ha",
    ".": "de es it pt nl id tr vi da sr hr bs sl mk sq ro el ca eu gl is az",
    " ": "fr ru uk be bg pl cs sk hu fi sv nb no nn et lv lt ka hy kk",
}
_SIGN = {code: sign for sign, codes in _LANGUAGES.items() for code in codes.split()}
"""Language to the sign between its groups of digits (CLDR)."""

_NO_MARK = "'’\xa0\u2009\u202f\u066c"  # signs that are neither decimal marks nor spaces between words
_GROUPS = re.compile(
    rf"(?<![0-9.,])(?<![0-9] )[1-9][0-9]{{0,2}}(?P<sign>[., {_NO_MARK}])[0-9]{{3}}(?P<more>(?:(?P=sign)[0-9]{{3}})*)"
    r"(?![0-9]|(?P=sign)[0-9])(?=(?P<mark>[.,][0-9])?)"
)
_LAKHS = re.compile(r"(?<![0-9.,])[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9]|,[0-9])")
_DIGITS = re.compile(r"(?<![0-9])[0-9]{4,}(?![0-9])")
_SIGNS = re.compile("[^0-9]")
_SPLIT = re.compile(r"(?P<first>[^\W\d_]+)(?P<gone>(?P<hyphen>[-\u2010]|\xad)[ \t]*\r?\n[ \t]*)(?P<second>[^\W\d_]+)")
_ENGLISH = re.compile(r"\b(?:the|of|and|was|is|to|in)\b")
_ENGLISH_SHARE = 0.1  # of the words of a text that is English

Removed = list[tuple[int, int]]


def written_otherwise(answer: str, reference: str) -> frozenset[str]:
    """The digits of those numbers of an answer that the reference has, but not as they are written there."""
    in_answer, in_reference = map(_writings, (answer, reference))
    return frozenset(
        digits for digits in in_answer if not in_answer[digits] <= in_reference.get(digits, in_answer[digits])
    )


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
    text where these were, rising. A hyphen stays where the word without it is none (`is_word`), and a number that is not
    `among` these digits."""
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
