"""What a log shows at a glance: the shares of flagged answers and words by group, and the answers that deserve a look.

It reads the samples of a run that ``detect LOG`` wrote (:mod:`lm_eval_tasks.results.logs`), one row at a time.
"""

from __future__ import annotations

import heapq
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from custom_metrics.hallucination import estimate
from custom_metrics.reading.spans import Span, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.unsupported import unsupported_probability
from custom_metrics.statistics.figures import UNDEFINED, Figure, FloatWithCounts
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.results.logs.answers import Log
from lm_eval_tasks.results.logs.run import COUNTS, EVIDENCE, FLAGGED_ANSWERS

LANGUAGE, MODEL = "language", "model"
USAGE = ("tokens_in", "tokens_out", "cost", "latency")
"""Quantities of an answer that some logs have: tokens, cost in the log's currency, seconds."""
TO_LOOK_AT = 10
MOST_GROUPS = 30
"""Groups that a terminal and a plot show, the largest; Python gets all."""
_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\n]+")
_EDGES = ".,;:!?\"'()[]\u3002\uff0c"
NO_VALUE = "(none)"
"""Group of answers whose record lacks the field."""


class FlaggedAnswer(NamedTuple):
    """An answer that deserves a look."""

    line: int
    id: str
    language: str
    model: str
    question: str
    answer: str
    passage: str  # the one that shares most words with what is flagged
    spans: list[Span]
    probability: float  # that it holds anything unsupported; nan without a curve of the detector


@dataclass
class Group:
    """Answers of a group. `names` maps each field of the grouping to its value; without any, all answers are meant."""

    names: Mapping[str, str]
    answers: int = 0
    abstaining: int = 0
    unread: int = 0  # the detector failed, or there is no word
    flagged_answers: Figure = UNDEFINED
    flagged_words: Figure = UNDEFINED
    usage: Mapping[str, float] = field(default_factory=dict)  # means over the answers that have one


class LogSummary(NamedTuple):
    """All answers of a log, its groups in falling order of size, and the answers to look at, the most suspicious first."""

    total: Group
    groups: list[Group]
    to_look_at: list[FlaggedAnswer]
    clusters: int  # conversations, documents or questions; bounds take answers of one together


class _Counts:
    """The columns of a group's answers."""

    def __init__(self) -> None:
        self.flags = array("d")  # nan: in no share
        self.words = array("d")  # flagged and all, in turn
        self.clusters: list[str] = []
        self.usage: dict[str, list[float]] = {}
        self.abstaining = self.unread = 0

    def add(self, flag: float, counts: tuple[float, int], cluster: str, usage: Mapping[str, float]) -> None:
        self.flags.append(flag)
        self.words.extend(counts)
        self.clusters.append(cluster)
        for name, value in usage.items():
            self.usage.setdefault(name, []).append(value)

    def group(self, names: Mapping[str, str]) -> Group:
        import numpy as np

        flags = [
            None if math.isnan(flag) else FloatWithCounts(flag, None, cluster)
            for flag, cluster in zip(self.flags, self.clusters, strict=True)
        ]
        read = sum(flag is not None for flag in flags)
        by_cluster = sums_by_cluster(np.frombuffer(self.words).reshape(-1, 2), self.clusters)
        of_words = estimate(by_cluster).detected
        return Group(
            names,
            len(self.flags),
            self.abstaining,
            self.unread,
            defined_share.figure_of(flags),
            of_words._replace(n=read),
            {name: sum(values) / len(values) for name, values in self.usage.items()},
        )


def checked_groups(names: Sequence[str], logs: Sequence[Log]) -> list[str]:
    """The fields of a grouping; UsageError for one that none of the first records of the logs has."""
    known = {LANGUAGE, MODEL, *(label for log in logs for label in log.labels)}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"--by {on_one_line(', '.join(unknown))}: no such field in the first records; there is "
            f"{on_one_line(', '.join(sorted(known)))}; --fields label=PATH adds one"
        )
    return list(names)


def summarise(rows: Iterable[Mapping[str, Any]], by: Sequence[str] = (), most: int = TO_LOOK_AT) -> LogSummary:
    """Summarise the samples of a log.

    Args:
        rows: of a samples file of ``detect LOG``.
        by: fields that make the groups: ``language``, ``model``, or fields of the records that the run has kept.
        most: answers to look at.
    """
    total, groups = _Counts(), dict[tuple[str, ...], _Counts]()
    worst: list[tuple[float, int, FlaggedAnswer]] = []
    for row in rows:
        doc, flag, of_words, against = row["doc"], row[FLAGGED_ANSWERS], row[COUNTS], row[EVIDENCE]
        counts = (of_words["flagged"], of_words["words"]) if of_words else (0, 0)
        abstains = bool(row["abstention_rate"])
        values = tuple(str(value) if (value := _field(doc, name)) is not None else NO_VALUE for name in by)
        usage = {name: float(doc[name]) for name in USAGE if doc.get(name) is not None}
        for part in (total, groups.setdefault(values, _Counts())) if by else (total,):
            part.add(math.nan if flag is None else flag, counts, doc["article"], usage)
            part.abstaining += abstains
            part.unread += flag is None and not abstains
        if flag and (len(worst) < most or against > worst[0][0]):
            entry = (against, -int(row["doc_id"]), _to_look_at(row))
            (heapq.heappush if len(worst) < most else heapq.heapreplace)(worst, entry)
    listed = [part.group(dict(zip(by, values, strict=True))) for values, part in groups.items()]
    listed.sort(key=lambda group: (-group.answers, *group.names.values()))
    return LogSummary(
        total.group({}), listed, [one for *_, one in sorted(worst, reverse=True)], len(set(total.clusters))
    )


def _field(doc: Mapping[str, Any], name: str) -> Any:
    return doc.get(name) or None if name in (LANGUAGE, MODEL) else doc.get("labels", {}).get(name)


def _to_look_at(row: Mapping[str, Any]) -> FlaggedAnswer:
    doc, tagged = row["doc"], json.loads(row["filtered_resps"][0])
    answer, spans = tagged["answer"], [span_of(span) for span in tagged["spans"]]
    return FlaggedAnswer(
        row["doc_id"],
        str(doc.get("query_id", "")),
        doc["language"],
        doc["model"],
        doc["query"],
        answer,
        nearest_passage(doc["reference"], answer, spans, doc["language"]),
        spans,
        unsupported_probability(row[EVIDENCE], tagged["detector"]),
    )


def nearest_passage(reference: str, answer: str, spans: Sequence[Span], language: str | None) -> str:
    """The paragraph of a reference that shares most words with an answer. Words of sentences in which something is flagged
    count twice, and each word less the more paragraphs have it."""
    paragraphs = [part.strip() for part in reference.split("\n\n") if part.strip()]
    of_paragraphs = [_distinct(part, language) for part in paragraphs]
    sentences = [match.span() for match in _SENTENCE.finditer(answer)]
    near = [answer[a:b] for a, b in sentences if any(span.start < b and span.end > a for span in spans)]
    weights = dict.fromkeys(_distinct(answer, language), 1) | dict.fromkeys(_distinct(" ".join(near), language), 2)
    holders = Counter(chain.from_iterable(of_paragraphs))
    shared = [sum(weights[word] / holders[word] for word in own & weights.keys()) for own in of_paragraphs]
    return max(zip(shared, paragraphs, strict=True), key=lambda pair: pair[0], default=(0.0, ""))[1]


def _distinct(text: str, language: str | None) -> set[str]:
    return {text[start:end].casefold().strip(_EDGES) for start, end in words(text, language)} - {""}
