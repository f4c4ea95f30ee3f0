"""What a log shows at a glance: the shares of flagged answers and words by group, and the answers that deserve a look.

It reads the samples of a run that ``detect LOG`` wrote (:mod:`lm_eval_tasks.results.logs`), one row at a time.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from custom_metrics.hallucination import estimate
from custom_metrics.reading.spans import Span, probabilities, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.unsupported import SENTENCE_CURVES, evidence_of_parts, unsupported_probability
from custom_metrics.statistics.figures import Figure, FloatWithCounts
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from detector_plugin.sentences import sentence_bounds
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
    sentence: tuple[int, int, float]  # the most suspicious: start, end, and the same probability of it


class Group:
    """Answers of a group. `names` maps each field of the grouping to its value; without any, all answers are meant.

    `abstaining` answers decline; `unread` ones have no word, or the detector failed.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.abstaining = self.unread = 0
        self._flags = array("d")  # nan: in no share
        self._words = array("d")  # flagged and all, in turn
        self._clusters: list[str] = []
        self._usage: dict[str, list[float]] = {}

    def add(self, row: Mapping[str, Any], usage: Mapping[str, float]) -> None:
        """Add the answer of a row of the samples."""
        flag, of_words, abstains = row[FLAGGED_ANSWERS], row[COUNTS], bool(row["abstention_rate"])
        self._flags.append(math.nan if flag is None else flag)
        self._words.extend((of_words["flagged"], of_words["words"]) if of_words else (0, 0))
        self._clusters.append(row["doc"]["article"])
        for name, value in usage.items():
            self._usage.setdefault(name, []).append(value)
        self.abstaining += abstains
        self.unread += flag is None and not abstains

    @property
    def answers(self) -> int:
        return len(self._flags)

    @property
    def clusters(self) -> int:
        """Conversations, documents or questions; bounds take answers of one together."""
        return len(set(self._clusters))

    @cached_property
    def flagged_answers(self) -> Figure:
        numbered = zip(self._flags, self._clusters, strict=True)
        flags = [None if math.isnan(flag) else FloatWithCounts(flag, None, cluster) for flag, cluster in numbered]
        return defined_share.figure_of(flags)

    @cached_property
    def flagged_words(self) -> Figure:
        import numpy as np

        by_cluster = sums_by_cluster(np.frombuffer(self._words).reshape(-1, 2), self._clusters)
        return estimate(by_cluster).detected._replace(n=self.flagged_answers.n)

    @property
    def usage(self) -> dict[str, float]:
        """Means of :data:`USAGE`, over the answers that have one."""
        return {name: sum(values) / len(values) for name, values in self._usage.items()}


class LogSummary(NamedTuple):
    """All answers of a log, its groups in falling order of size, and the answers to look at, the most suspicious first."""

    total: Group
    groups: list[Group]
    to_look_at: list[FlaggedAnswer]


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
        most: answers to look at, each to another question or with other passages.
    """
    total, groups = Group({}), dict[tuple[str, ...], Group]()
    worst: dict[tuple[str, str], tuple[float, int, FlaggedAnswer]] = {}  # one answer for each question and its passages
    for row in rows:
        doc, against = row["doc"], row[EVIDENCE]
        usage = {name: float(doc[name]) for name in USAGE if doc.get(name) is not None}
        total.add(row, usage)
        if by:
            values = tuple(str(value) if (value := _field(doc, name)) is not None else NO_VALUE for name in by)
            if values not in groups:
                groups[values] = Group(dict(zip(by, values, strict=True)))
            groups[values].add(row, usage)
        question = doc["query"], doc["reference"]
        if not row[FLAGGED_ANSWERS] or (question in worst and against <= worst[question][0]):
            continue
        if question in worst or len(worst) < most or against > min(worst.values())[0]:
            worst[question] = (against, -int(row["doc_id"]), _to_look_at(row))
            if len(worst) > most:
                del worst[min(worst, key=lambda each: worst[each])]
    listed = sorted(groups.values(), key=lambda group: (-group.answers, *group.names.values()))
    return LogSummary(total, listed, [one for *_, one in sorted(worst.values(), reverse=True)])


def _field(doc: Mapping[str, Any], name: str) -> Any:
    return doc.get(name) or None if name in (LANGUAGE, MODEL) else doc.get("labels", {}).get(name)


def _to_look_at(row: Mapping[str, Any]) -> FlaggedAnswer:
    doc, tagged = row["doc"], json.loads(row["filtered_resps"][0])
    answer, spans, language = tagged["answer"], [span_of(span) for span in tagged["spans"]], doc["language"]
    places, bounds = words(answer, language), sentence_bounds(answer, language)
    of_sentences = evidence_of_parts(places, probabilities(places, spans), bounds)
    against, (start, end) = max(zip(of_sentences, bounds, strict=True), key=lambda one: one[0])
    return FlaggedAnswer(
        row["doc_id"],
        str(doc.get("query_id", "")),
        language,
        doc["model"],
        doc["query"],
        answer,
        nearest_passage(doc["reference"], answer, spans, language),
        spans,
        unsupported_probability(row[EVIDENCE], tagged["detector"]),
        (start, end, unsupported_probability(against, tagged["detector"], SENTENCE_CURVES)),
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
