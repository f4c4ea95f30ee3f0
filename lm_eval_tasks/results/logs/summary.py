"""What a log shows at a glance: the shares of flagged answers and words by group, and the answers that deserve a look."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.hallucination import Estimates, estimate
from custom_metrics.reading.spans import Span, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.unsupported import SENTENCE_CURVES, unsupported_probability
from custom_metrics.statistics.figures import Figure, FloatWithCounts
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.statistics.random_effects import Errors
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.results.logs.answers import Log
from lm_eval_tasks.results.logs.fields import NUMBERS
from lm_eval_tasks.results.logs.judged import ABSTENTION, COUNTS, EVIDENCE, EXPECTED, FLAGGED_ANSWERS, JudgedAnswer

LANGUAGE, MODEL = "language", "model"
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
    """Answers of a group. `names` maps each field of the grouping to its value; without any, all answers are meant."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        # whether flagged (nan: in no share), whether declined; words flagged, all, and expected to be wrong
        self._values = array("d")
        self._clusters: list[str] = []
        self._usage: dict[str, list[float]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the answer of a row of the samples."""
        flag, counts = row[FLAGGED_ANSWERS], row[COUNTS] or {"flagged": 0, "words": 0}
        number = counts["words"]
        self._values.extend((math.nan if flag is None else flag, row[ABSTENTION]))
        self._values.extend((counts["flagged"], number, number * (row[EXPECTED] or 0)))
        self._clusters.append(row["doc"]["article"])
        for name in NUMBERS:
            if (value := row["doc"].get(name)) is not None:
                self._usage.setdefault(name, []).append(float(value))

    @property
    def _rows(self) -> NDArray[np.float64]:
        return np.array(self._values).reshape(-1, 5)

    @property
    def answers(self) -> int:
        return len(self._clusters)

    @property
    def abstaining(self) -> int:
        """Answers that decline."""
        return int(self._rows[:, 1].sum())

    @property
    def unread(self) -> int:
        """Answers that have no word, or on which the detector failed."""
        return int(np.isnan(self._rows[:, 0]).sum()) - self.abstaining

    @property
    def clusters(self) -> int:
        """Conversations, documents or questions; bounds take answers of one together."""
        return len(set(self._clusters))

    @cached_property
    def flagged_answers(self) -> Figure:
        return self._share(0)

    @property
    def declined(self) -> Figure:
        return self._share(1)

    def _share(self, column: int) -> Figure:
        numbered = zip(self._rows[:, column].tolist(), self._clusters, strict=True)
        values = [None if math.isnan(value) else FloatWithCounts(value, None, cluster) for value, cluster in numbered]
        return defined_share.figure_of(values)

    @property
    def flagged_words(self) -> Figure:
        return self.words().detected

    def words(self, column: int = 2, errors: Errors | None = None) -> Estimates:
        """The rates of words that are flagged, or of column 4 expected to be wrong, with bounds over clusters."""
        found = estimate(sums_by_cluster(self._rows[:, [column, 3]], self._clusters), errors)
        return Estimates(*(figure._replace(n=self.flagged_answers.n) for figure in found))

    @property
    def usage(self) -> dict[str, float]:
        """Means of :data:`NUMBERS`, over the answers that have one."""
        return {name: sum(values) / len(values) for name, values in self._usage.items()}


class LogSummary:
    """The answers of a log, as they are added: all, the groups by the fields `by` (``language``, ``model``, or labels), and
    the most suspicious, each to another question or with other passages."""

    def __init__(self, by: Sequence[str] = (), most: int = TO_LOOK_AT) -> None:
        self._by, self._most, self.total = by, most, Group({})
        self._groups: dict[tuple[str, ...], Group] = {}
        self._worst: dict[tuple[str, str], tuple[float, int, FlaggedAnswer]] = {}

    def add(self, judged: JudgedAnswer) -> None:
        """Add an answer."""
        row, doc, against = judged.row, judged.row["doc"], judged.row[EVIDENCE]
        self.total.add(row)
        if self._by:
            values = tuple(str(value) if (value := _field(doc, name)) is not None else NO_VALUE for name in self._by)
            names = dict(zip(self._by, values, strict=True))
            self._groups.setdefault(values, Group(names)).add(row)
        asked, worst = (doc["query"], doc["reference"]), self._worst
        if not self._most or not row[FLAGGED_ANSWERS] or (asked in worst and against <= worst[asked][0]):
            return
        if asked in worst or len(worst) < self._most or against > min(worst.values())[0]:
            worst[asked] = (against, -int(row["doc_id"]), _to_look_at(judged))
            if len(worst) > self._most:
                del worst[min(worst, key=lambda each: worst[each])]

    @property
    def groups(self) -> list[Group]:
        """In falling order of size."""
        return sorted(self._groups.values(), key=lambda group: (-group.answers, *group.names.values()))

    @property
    def to_look_at(self) -> list[FlaggedAnswer]:
        """The most suspicious first."""
        return [answer for *_, answer in sorted(self._worst.values(), reverse=True)]


def checked_groups(names: Sequence[str], logs: Sequence[Log]) -> list[str]:
    """The fields of a grouping; UsageError for one that none of the first records of the logs has."""
    known = {LANGUAGE, MODEL, *(label for log in logs for label in log.labels)}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"--by {on_one_line(', '.join(unknown))}: no such field in the first records; there is "
            f"{on_one_line(', '.join(sorted(known)))}; --fields label=PATH adds one"
        )
    return list(names)


def _field(doc: Mapping[str, Any], name: str) -> Any:
    return doc.get(name) or None if name in (LANGUAGE, MODEL) else doc.get("labels", {}).get(name)


def _to_look_at(judged: JudgedAnswer) -> FlaggedAnswer:
    doc, answer, detector = judged.row["doc"], judged.tagged["answer"], judged.tagged["detector"]
    spans, language = [span_of(span) for span in judged.tagged["spans"]], doc["language"]
    start, end, against = max(judged.sentences, key=lambda sentence: sentence[2])
    named = str(doc.get("query_id", "")), language, doc["model"], doc["query"], answer
    passage = nearest_passage(doc["reference"], answer, spans, language)
    probability = unsupported_probability(judged.row[EVIDENCE], detector)
    sentence = (start, end, unsupported_probability(against, detector, SENTENCE_CURVES))
    return FlaggedAnswer(judged.row["doc_id"], *named, passage, spans, probability, sentence)


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
