"""The figures of CLAPnq's human evaluation, from a judge's verdicts (Rosenthal et al. 2025, section 5, Table 7), and the
parser of a judge's reply: a rating, a preference between two answers, or whether a sentence is supported.

A value is a tuple that starts with the question's id, so that bounds are over questions, however many verdicts each has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.response import final_answer
from custom_metrics.scores.aggregations import Ratios, Source, defined_score
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.intervals import share_of_clusters
from custom_metrics.statistics.paired_difference import Floats

ASPECTS = ("faithfulness", "appropriateness")
FIRST, SECOND = "A", "B"

UNREAD = "unread"
TIE = "tie"

# ------------------------------------------------------------------------------------------------------- a judge's reply
# The parser reads what the prompt asks for: a line such as "Rating: 3" or "Preference: A", in any spelling and place, or
# the number or letter alone. Everything else is unread and counted. Nothing is guessed.

_QUOTED = re.compile(r"^[^\S\n]*>.*$", re.M)  # lines in which a judge repeats what it was shown
_MARKUP = re.compile(r"[*_`$]+|\\boxed\b")
# Runs are bounded, so that a reply of any length is read in linear time.
_LEAD = r"^(?:[\s|#-]{0,9}|\{\s{0,9}[\"'])(?!no |not )(?:[^\W\d]{1,30} ){0,3}"  # My final rating, | Rating |, {"rating"
_OF = r"(?: ?\((?:1 ?[-–] ?4|[^()\d\n]{1,40})\))?"  # (1-4), (faithfulness)
_IS = r"(?:[\s\"']{0,9}[:=：|]|\s{0,9}\n| is\b| [-–—] | (?=\d))[\s\"':\[({]{0,9}"
_CLOSED = r"[\s\"'.,;:!。\])}|]{0,9}"
# What may follow a verdict; so not: 2-3, 3/5, 3.5, 3 or 4, A or B, A/B.
_END = rf"(?:{_CLOSED}$|[\"']?[.,;:] (?!\d|[AB]\b)| [-–—(](?! ?\d|out of|or ))"
_NUMBER = r"(?P<verdict>[1-4]|one|two|three|four)(?:\.0)?(?: ?(?:/|out of) ?4)?"
_CHOICE = r"(?P<noun>(?:the )?(?:answer|response) )?(?P<verdict>A|B|(?:an? )?(?:tie|draw))"
# So not: Supported / Not Supported, partly supported.
_SUPPORT = r"(?P<verdict>(?:not[ -]|un)?supported)(?!\W{0,9}(?:or\W{1,9})?(?:not[ -]|un)?supported\b)"
# A second verdict in the same line, or the scale: the prompt repeated, or a change of mind.
_MORE = re.compile(r"\b(?:rating|score|preference|tie|(?:to|or) [1-4AB])\b", re.I)
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}


def _patterns(names: str, verdict: str) -> tuple[re.Pattern[str], ...]:
    """Patterns of a line that names its verdict, of that verdict at the start of its rest, and of a verdict alone."""
    named = re.compile(rf"{_LEAD}(?:{names}){_OF}{_IS}(?P<rest>.*)", re.I | re.M)
    alone = re.compile(rf"[\s\"'\[({{]{{0,9}}{verdict}{_CLOSED}", re.I)
    return named, re.compile(verdict + _END, re.I), alone


_RATING = _patterns("rating|score", _NUMBER)
_PREFERENCE = _patterns("preference|preferred(?: answer| response)?", _CHOICE)
_VERDICT = _patterns("verdict|label|judge?ment|factuality", _SUPPORT)


def read_rating(text: str | None) -> int | None:
    """The rating, 1 to 4, in a judge's reply. The last line that opens with ``Rating: `` (or ``Score``) decides: ``N``,
    ``N/4``, ``N out of 4``, as a word, in JSON. Without such a line, a number that stands alone in the first or last line
    does. ``None`` for anything else: no number, a half, a range, another scale."""
    verdict = _verdict(text, *_RATING)
    return None if verdict is None else _NUMBERS.get(verdict) or int(verdict)


def read_preference(text: str | None) -> str | None:
    """``"A"``, ``"B"`` or ``"tie"`` in a judge's reply about two answers, by a line ``Preference: ``, or a letter or a tie
    that stands alone, as in :func:`read_rating`. ``None`` for anything else."""
    verdict = _verdict(text, *_PREFERENCE)
    return None if verdict is None else verdict.upper() if len(verdict) == 1 else TIE


def read_support(text: str | None) -> bool | None:
    """Whether a sentence is supported: by a line ``Verdict: `` (or ``Label``) with ``Supported``, ``Not Supported`` or
    ``Unsupported``, or one alone, as in :func:`read_rating`. ``None`` for anything else, such as ``partly supported``."""
    verdict = _verdict(text, *_VERDICT)
    return None if verdict is None else verdict == "supported"


def _verdict(text: str | None, named: re.Pattern[str], first: re.Pattern[str], alone: re.Pattern[str]) -> str | None:
    reply = _MARKUP.sub("", _QUOTED.sub("", final_answer(text))).strip()
    if "\n" not in reply:  # a line in quotation marks among others is somebody else's
        reply = reply.strip("\"'“”")
    lines = list(named.finditer(reply))
    if lines:
        rest = lines[-1]["rest"]
        if inner := named.match(rest):  # the line before was a heading of the same name
            rest = inner["rest"]
        match = first.match(rest)
        return match["verdict"].lower() if match and not _MORE.search(rest, match.end("verdict")) else None
    replies = reply.splitlines()
    standing = [(number, match) for number, line in enumerate(replies) if (match := alone.fullmatch(line))]
    if len(standing) != 1:  # none, or a list
        return None
    ((number, match),) = standing
    heading = len(replies) > 1 and match.groupdict().get("noun")
    return match["verdict"].lower() if number in (0, len(replies) - 1) and not heading else None


def process_rating(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Values of one rating, ``"1"`` to ``"4"`` or ``"unread"``, of a document's ``answer`` by its ``aspect``.

    They are each aspect's rating (``None`` for the other aspect, and where it could not be read), ``f_plus_a`` and
    ``unread_rate`` (tuples for their aggregations), and ``abstention_rate`` (over answers: with faithfulness only).
    """
    rating = float(results[0]) if str(results[0]).isdecimal() else None
    aspect = doc["aspect"]
    return {
        **{name: rating if name == aspect else None for name in ASPECTS},
        "f_plus_a": (doc["id"], aspect, rating),
        "unread_rate": (doc["id"], int(rating is None), 1),
        "abstention_rate": float(is_abstention(doc["answer"], "en")) if aspect == ASPECTS[0] else None,
    }


def process_pair(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Values of one comparison, ``"A"``, ``"B"``, ``"tie"`` or ``"unread"``, of answers of ``first`` and ``second``.

    For every system ``win_rate_<system>`` is (id, 1 if preferred, else 0; ``None`` where it took no part or the verdict
    could not be read). ``tie_rate``, ``first_position_rate`` and ``unread_rate`` are (id, in the share, in the
    denominator), ``flip_rate`` (id, the pair, which system was preferred).
    """
    verdict = results[0]
    shown = {FIRST: doc["first"], SECOND: doc["second"]}
    read = verdict in (FIRST, SECOND, TIE)
    values: dict[str, Any] = {}
    for system in doc["systems"]:
        took_part = read and system in shown.values()
        values[f"win_rate_{system}"] = (doc["id"], float(shown.get(verdict) == system) if took_part else None)
    values["tie_rate"] = (doc["id"], int(verdict == TIE), int(read))
    values["first_position_rate"] = (doc["id"], int(verdict == FIRST), int(verdict in (FIRST, SECOND)))
    values["unread_rate"] = (doc["id"], int(not read), 1)
    values["flip_rate"] = (doc["id"], *sorted(shown.values()), shown.get(verdict, TIE) if read else UNREAD)
    return values


class OfVerdicts(Ratios):
    """A figure of verdicts, whose documents are clustered by question. A value starts with the question's id."""

    clustered_by = ""
    unit = "questions"
    shares_clusters = False

    def cluster_names(self, values: Sequence[Any]) -> Sequence[Any]:
        return ["" if value is None else str(value[0]) for value in values]


class WinRate(OfVerdicts):
    """The mean over questions of a system's wins over its verdicts there; ties are no wins (Appendix A.2)."""

    def statistics(self, value: Any) -> list[float]:
        _, won = value
        return [math.nan, math.nan] if won is None else [float(won), 1.0]

    def by_cluster(self, rows: Rows) -> Rows:
        """The share of wins at each question, which counts once."""
        sums = super().by_cluster(rows)
        return sums._replace(values=np.column_stack([sums.values[:, 0] / sums.values[:, 1], np.ones(len(sums.values))]))

    def figure(self, rows: Rows) -> Figure:
        scores = self.by_cluster(rows).values[:, 0].tolist()
        return defined_score.figure_of(scores)


class ShareOfVerdicts(OfVerdicts):
    """A share of verdicts, of values (question, in the share, in the denominator)."""

    def statistics(self, value: Any) -> list[float]:
        _, hits, counted = value
        return [float(hits), float(counted)]

    def size(self, rows: Rows) -> int:
        return int(np.nansum(rows.values[:, 1]))

    def figure(self, rows: Rows) -> Figure:
        """With the bounds of a share of unequal units (:mod:`custom_metrics.statistics.intervals`), the questions."""
        clusters = self.by_cluster(rows).values
        if not clusters[:, 1].any():
            return UNDEFINED
        low, high, error = (float(each) for each in share_of_clusters(*clusters.T))
        return Figure(self.value(rows), low, high, error, self.size(rows))


class FlipRate(ShareOfVerdicts):
    """The share of pairs whose verdict changes with the order of the answers; in the row of the first document."""

    not_compared = "a pair's two verdicts are in two documents"

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        pairs: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
        for place, value in enumerate(values):
            if value is not None:
                *pair, preferred = value
                pairs.setdefault(tuple(pair), []).append((place, preferred))
        rows = np.full((len(values), 2), math.nan)
        for verdicts in pairs.values():
            places, preferred = zip(*verdicts, strict=True)
            if len(places) == 2 and UNREAD not in preferred:
                rows[places[0]] = preferred[0] != preferred[1], 1
        return Rows(rows, self.cluster_names(values))


class HarmonicRating(OfVerdicts):
    """The harmonic mean of the two aspects' means, of values (question, aspect, rating)."""

    form = (2 * len(ASPECTS),)
    harmonic = True

    def statistics(self, value: Any) -> NDArray[Any]:
        _, aspect, rating = value
        rows = np.zeros((len(ASPECTS), 2))
        rows[ASPECTS.index(aspect)] = math.nan if rating is None else rating, 1
        return rows.ravel()

    def ratios(self, sums: Floats) -> list[tuple[Floats, Floats]]:
        return [(sums[..., 0], sums[..., 1]), (sums[..., 2], sums[..., 3])]

    def size(self, rows: Rows) -> int:
        return len(self.by_cluster(rows).values)


win_rate = WinRate("win_rate")
share = ShareOfVerdicts("share")
flip_rate = FlipRate("flip_rate")
f_plus_a = HarmonicRating("f_plus_a")
