"""What a detector finds in the answers of a log: a row of the run's samples and a line of the output for each; and what the
log shows at a glance, the shares of flagged answers and words by group, and the answers that deserve a look."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import Estimates, estimate
from custom_metrics.reading.spans import Span, probabilities, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores import unsupported
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.unsupported import SENTENCE_CURVES, unsupported_probability
from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.statistics.random_effects import Errors
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from detector_plugin.detector import Detector, describe
from detector_plugin.sentences import sentence_bounds
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.clapnq.corpus import Passage
from lm_eval_tasks.detection import calibrated
from lm_eval_tasks.models.baseline import best_passage
from lm_eval_tasks.results.logs.answers import UNKNOWN, Log
from lm_eval_tasks.results.logs.fields import NUMBERS

if TYPE_CHECKING:
    import pandas

LANGUAGE, MODEL = "language", "model"
TO_LOOK_AT = 10
MOST_GROUPS = 30
"""Groups that a terminal and a page show, the largest; Python gets all."""
_COLUMNS = (
    *("flag", "declined", "flagged", "words", "expected", "cluster"),  # flagged and expected: words
    *("language", "model", "guessed", "untagged", "no_passages", *NUMBERS),
)
_NO_VALUE = "(none)"  # group of answers whose record lacks the field
FILTER_NAME = "answer"
FLAGGED_ANSWERS, ABSTENTION, EXPECTED = "flagged_answers", "abstention_rate", "expected_share"
"""Metrics that count answers, and one that expects words to be wrong."""
SHARE, COUNTS = (metric.name for metric in OF_A_DETECTOR)
"""Metrics of words; the values of the second are a mapping with ``flagged`` and ``words``."""
EVIDENCE = "unsupported_evidence"
"""What a row of the samples has beside its metrics: :func:`custom_metrics.scores.unsupported.evidence`."""

Answer: TypeAlias = tuple[int, dict[str, Any], str]
"""Number of the line, document, answer."""


class JudgedAnswer(NamedTuple):
    """A row of a samples file, with values of the metrics; the answer and its spans, as the filter ``hallucination_spans``
    gives them; start, end and evidence of its sentences."""

    row: dict[str, Any]
    tagged: Mapping[str, Any]
    sentences: Sequence[tuple[int, int, float]] = ()

    def entry(self) -> dict[str, Any]:
        """The line of the answer in the output: what was found, with probabilities where the detector has curves."""
        row, doc, (answer, spans) = self.row, self.row["doc"], (self.tagged["answer"], self.tagged["spans"])

        def probability(against: float, curves: unsupported.Curves) -> float | None:
            found = unsupported_probability(against, self.tagged["detector"], curves)
            return None if spans is None or math.isnan(found) else round(found, 4)

        return {
            **{"line": row["doc_id"], "place": doc["id"], "id": doc.get("query_id"), "language": doc["language"]},
            **{"flagged_share": row[SHARE], "expected_share": row[EXPECTED]},
            "unsupported_probability": probability(row[EVIDENCE], unsupported.CURVES),
            "spans": spans,
            "texts": None if spans is None else [answer[start:end] for start, end, *_ in spans],
            "sentences": [(*place, probability(against, SENTENCE_CURVES)) for *place, against in self.sentences],
        }


def by_detector(detector: Detector, answers: Sequence[Answer], settings: Mapping[str, str]) -> Iterator[JudgedAnswer]:
    """What a detector finds in answers, which it reads together; nothing supports an answer without passages."""
    given = [(doc, answer) for _, doc, answer in answers if doc["reference"]]
    codes = [None if doc["language"] == UNKNOWN else doc["language"] for doc, _ in given]
    references, questions = ([doc[name] for doc, _ in given] for name in ("reference", "query"))
    found = iter(detector.detect(references, [answer for _, answer in given], codes, questions))
    for number, doc, answer in answers:
        spans = next(found) if doc["reference"] else [Span(0, len(answer))]
        yield judge(number, {**doc, **settings}, {"answer": answer, "spans": spans, "detector": describe(detector)})


def judge(number: int, doc: dict[str, Any], tagged: Mapping[str, Any]) -> JudgedAnswer:
    """The values of the metrics of an answer that a detector has tagged."""
    answer, language = tagged["answer"], doc["language"]
    abstains = is_abstention(answer, language)
    share, counts = (None, None) if abstains else calibrated.TaggedAnswer.from_document(doc, tagged).values()
    places, bounds = words(answer, language), sentence_bounds(answer, language)
    of_words = probabilities(places, [span_of(span) for span in tagged["spans"] or ()])
    of_sentences = unsupported.evidence_of_parts(places, of_words, bounds)
    against = round(math.hypot(*of_sentences), 4)
    flagged = None if share is None else float(unsupported.is_unsupported(against, tagged["detector"]))
    values = {COUNTS: counts, SHARE: share, FLAGGED_ANSWERS: flagged, ABSTENTION: float(abstains)}
    values[EXPECTED] = None if share is None else sum(of_words) / len(places)
    row = {
        **{"doc_id": number, "doc": doc, "target": "", "resps": [[answer]]},
        **{"filtered_resps": [json.dumps(tagged, ensure_ascii=False)], EVIDENCE: against},
        **{"filter": FILTER_NAME, "metrics": [*values], **values},
    }
    return JudgedAnswer(row, tagged, [(*ends, found) for ends, found in zip(bounds, of_sentences, strict=True)])


class FlaggedAnswer(NamedTuple):
    """An answer that deserves a look."""

    line: int
    id: str
    language: str
    model: str
    question: str
    answer: str
    passage: str  # the paragraph that is nearest to the most suspicious sentence
    spans: list[Span]
    probability: float  # that it holds anything unsupported; nan without a curve of the detector
    sentence: tuple[int, int, float]  # the most suspicious: start, end, and the same probability of it


class Group:
    """Answers of a group. `names` maps each field of the grouping to its value; without any, all answers are meant."""

    def __init__(self, names: Mapping[str, str], frame: pandas.DataFrame) -> None:
        self.names, self.frame, self.answers = names, frame, len(frame)
        self.abstaining = int(frame["declined"].sum())
        self.unread = int(frame["flag"].isna().sum()) - self.abstaining
        """Answers that have no word, or on which the detector failed."""
        self.clusters = frame["cluster"].nunique()
        """Conversations, documents or questions; bounds take answers of one together."""
        self.usage = {name: float(mean) for name, mean in frame[[*NUMBERS]].mean().items() if mean == mean}
        """Means, over the answers that have a number."""
        self.flagged_answers = self.share("flag")

    def share(self, column: str) -> Figure:
        """The share of answers whose value is 1."""
        return defined_share.figure(Rows(self.frame[column].to_numpy(float), self.frame["cluster"].tolist()))

    @property
    def flagged_words(self) -> Figure:
        return self.words("flagged").detected

    def words(self, column: str, errors: Errors | None = None) -> Estimates:
        """The rates of words that are flagged, or expected to be wrong, with bounds over clusters."""
        sums = sums_by_cluster(self.frame[[column, "words"]].to_numpy(float), self.frame["cluster"].tolist())
        return Estimates(*(figure._replace(n=self.flagged_answers.n) for figure in estimate(sums, errors)))


class LogSummary:
    """The answers of a log, as they are added: all, the groups by the fields `by` (``language``, ``model``, or labels), and
    the most suspicious, each to another question or with other passages."""

    def __init__(self, by: Sequence[str] = (), most: int = TO_LOOK_AT) -> None:
        self._by, self._most, self._rows = [*by], most, list[tuple[Any, ...]]()
        self._worst: dict[tuple[str, str], tuple[float, int, FlaggedAnswer]] = {}

    def add(self, judged: JudgedAnswer) -> None:
        """Add an answer."""
        row, tagged, doc, against = judged.row, judged.tagged, judged.row["doc"], judged.row[EVIDENCE]
        counts = row[COUNTS] or {"flagged": 0, "words": 0}
        expected = counts["words"] * (row[EXPECTED] or 0)
        kept = doc["language"], doc["model"], doc["guessed"], tagged["spans"] is None, not doc["reference"]
        fields = {name: doc[name] or _NO_VALUE for name in (LANGUAGE, MODEL)} | doc.get("labels", {})
        numbers = row[FLAGGED_ANSWERS], row[ABSTENTION], counts["flagged"], counts["words"], expected, doc["article"]
        self._rows.append(
            (*numbers, *kept, *map(doc.get, NUMBERS), *(fields.get(name, _NO_VALUE) for name in self._by))
        )
        asked, worst = (doc["query"], doc["reference"]), self._worst
        if not self._most or not row[FLAGGED_ANSWERS] or (asked in worst and against <= worst[asked][0]):
            return
        if asked in worst or len(worst) < self._most or against > min(worst.values())[0]:
            worst[asked] = (against, -int(row["doc_id"]), _to_look_at(judged))
            if len(worst) > self._most:
                del worst[min(worst, key=lambda each: worst[each])]

    @cached_property
    def total(self) -> Group:
        """All answers, once all are added."""
        import pandas

        frame = pandas.DataFrame(self._rows, columns=[*_COLUMNS, *(f"by {name}" for name in self._by)])
        return Group({}, frame.astype(dict.fromkeys(("flag", *NUMBERS), float)))

    @property
    def groups(self) -> list[Group]:
        """In falling order of size."""
        by = [f"by {name}" for name in self._by]
        parts = self.total.frame.groupby(by) if by else ()
        groups = [Group(dict(zip(self._by, values, strict=True)), part) for values, part in parts]
        return sorted(groups, key=lambda group: (-group.answers, *group.names.values()))

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


def _to_look_at(judged: JudgedAnswer) -> FlaggedAnswer:
    doc, answer, detector = judged.row["doc"], judged.tagged["answer"], judged.tagged["detector"]
    start, end, against = max(judged.sentences, key=lambda sentence: sentence[2])
    paragraphs = [Passage("", "", part.strip()) for part in doc["reference"].split("\n\n") if part.strip()]
    nearest = paragraphs[best_passage(answer[start:end], paragraphs)[0]].text if paragraphs else ""
    return FlaggedAnswer(
        *(
            judged.row["doc_id"],
            str(doc.get("query_id", "")),
            doc["language"],
            doc["model"],
            doc["query"],
            answer,
            nearest,
        ),
        [span_of(span) for span in judged.tagged["spans"]],
        unsupported_probability(judged.row[EVIDENCE], detector),
        (start, end, unsupported_probability(against, detector, SENTENCE_CURVES)),
    )
