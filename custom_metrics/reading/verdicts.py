"""A judge's verdict read from its reply: a rating, or a preference between two answers.

The readers accept what the prompt asks for, a line such as ``Rating: 3`` or ``Preference: A``, in any spelling and place,
or the number or letter alone. Everything else is unread and counted. They do not guess.
"""

from __future__ import annotations

import re

from custom_metrics.reading.response import final_answer

__all__ = ["TIE", "UNREAD", "read_preference", "read_rating"]

UNREAD = "unread"
TIE = "tie"

_QUOTED = re.compile(r"^[^\S\n]*>.*$", re.M)  # lines in which a judge repeats what it was shown
_MARKUP = re.compile(r"[*_`$]+|\\boxed\b")
# Runs are bounded, so that a reply of any length is read in linear time.
_LEAD = r"^(?:[\s|#-]{0,9}|\{\s{0,9}[\"'])(?!no |not )(?:[^\W\d]{1,30} ){0,3}"  # My final rating, | Rating |, {"rating"
_OF = r"(?: ?\((?:1 ?[-–] ?4|[^()\d\n]{1,40})\))?"  # (1-4), (faithfulness)
_IS = r"(?:[\s\"']{0,9}[:=：|]|\s{0,9}\n| is\b| [-–—] | (?=\d))[\s\"':\[({]{0,9}"
_CLOSED = r"[\s\"'.,;:!。\])}|]{0,9}"
# What may follow a verdict; so not: 2-3, 3/5, 3.5, 3 or 4, A or B, A/B.
_END = rf"(?:{_CLOSED}$|[\"']?[.,;:] (?!\d|[AB]\b)| [-–—(](?! ?\d|out of|or ))"
_NUMBER = r"(?P<said>[1-4]|one|two|three|four)(?:\.0)?(?: ?(?:/|out of) ?4)?"
_CHOICE = r"(?P<noun>(?:the )?(?:answer|response) )?(?P<said>A|B|(?:an? )?(?:tie|draw))"
# A second verdict in the same line, or the scale: the prompt repeated, or a change of mind.
_MORE = re.compile(r"\b(?:rating|score|preference|tie|(?:to|or) [1-4AB])\b", re.I)
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}


def _named(names: str) -> re.Pattern[str]:
    return re.compile(rf"{_LEAD}(?:{names}){_OF}{_IS}(?P<rest>.*)", re.I | re.M)


def _alone(verdict: str) -> re.Pattern[str]:
    return re.compile(rf"[\s\"'\[({{]{{0,9}}{verdict}{_CLOSED}", re.I)


def _first(verdict: str) -> re.Pattern[str]:
    return re.compile(verdict + _END, re.I)


_RATING = _named("rating|score"), _first(_NUMBER), _alone(_NUMBER)
_PREFERENCE = _named("preference|preferred(?: answer| response)?"), _first(_CHOICE), _alone(_CHOICE)


def read_rating(text: str | None) -> int | None:
    """The rating, 1 to 4, in a judge's reply.

    The last line that opens with ``Rating: `` (or ``Score``) decides: ``N``, ``N/4``, ``N out of 4``, as a word, in JSON.
    Without such a line, a number that stands alone in the first or last line does. ``None`` for anything else: no number, a
    half, a range, another scale.
    """
    said = _verdict(text, *_RATING)
    return None if said is None else _NUMBERS.get(said) or int(said)


def read_preference(text: str | None) -> str | None:
    """``"A"``, ``"B"`` or ``"tie"`` in a judge's reply about two answers.

    The last line that opens with ``Preference: `` decides. Without such a line, a letter or a tie that stands alone in the
    first or last line does. ``None`` for anything else.
    """
    said = _verdict(text, *_PREFERENCE)
    return None if said is None else said.upper() if len(said) == 1 else TIE


def _verdict(text: str | None, named: re.Pattern[str], first: re.Pattern[str], alone: re.Pattern[str]) -> str | None:
    said = _MARKUP.sub("", _QUOTED.sub("", final_answer(text))).strip()
    if "\n" not in said:  # a line in quotation marks among others is somebody else's
        said = said.strip("\"'“”")
    lines = list(named.finditer(said))
    if lines:
        rest = lines[-1]["rest"]
        match = first.match(rest)
        return match["said"].lower() if match and not _MORE.search(rest, match.end("said")) else None
    replies = said.splitlines()
    standing = [(number, match) for number, line in enumerate(replies) if (match := alone.fullmatch(line))]
    if len(standing) != 1:  # none, or a list
        return None
    ((number, match),) = standing
    heading = len(replies) > 1 and match.groupdict().get("noun")
    return match["said"].lower() if number in (0, len(replies) - 1) and not heading else None
