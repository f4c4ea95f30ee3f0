"""What a detector finds in the answers of a log: a row of the run's samples, and a line of the output, for each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.spans import Span, probabilities, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores import unsupported
from detector_plugin.detector import Detector, describe
from detector_plugin.sentences import sentence_bounds
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.detection.calibrated import TaggedAnswer
from lm_eval_tasks.results.logs.answers import UNKNOWN, Answer

FILTER_NAME = "answer"
FLAGGED_ANSWERS, ABSTENTION, EXPECTED = "flagged_answers", "abstention_rate", "expected_share"
"""Metrics that count answers, and one that expects words to be wrong."""
SHARE, COUNTS = (metric.name for metric in OF_A_DETECTOR)
"""Metrics of words; the values of the second are a mapping with ``flagged`` and ``words``."""
EVIDENCE = "unsupported_evidence"
"""What a row of the samples has beside its metrics: :func:`custom_metrics.scores.unsupported.evidence`."""


class JudgedAnswer(NamedTuple):
    """A row of a samples file, with values of the metrics; the answer and its spans, as the filter ``hallucination_spans``
    gives them; start, end and evidence of its sentences."""

    row: dict[str, Any]
    tagged: Mapping[str, Any]
    sentences: Sequence[tuple[int, int, float]] = ()

    def probability(self, against: float, curves: unsupported.Curves = unsupported.CURVES) -> float:
        """The probability that it, or a sentence, holds anything unsupported; ``nan`` without a curve of the detector."""
        return unsupported.unsupported_probability(against, self.tagged["detector"], curves)

    def counts(self) -> dict[str, Any]:
        """What it adds to the shares of a log; ``flagged`` is ``None`` where it is in none."""
        row, words = self.row, self.row[COUNTS] or {"flagged": 0, "words": 0}
        return {
            **{"declined": bool(row[ABSTENTION]), "flagged": row[FLAGGED_ANSWERS], "cluster": row["doc"]["article"]},
            **{"flagged_words": words["flagged"], "words": words["words"]},
            "expected_words": words["words"] * (row[EXPECTED] or 0),
        }

    def entry(self) -> dict[str, Any]:
        """The line of the answer in the output: what was found, with probabilities where the detector has curves."""
        row, doc, answer, spans = self.row, self.row["doc"], self.tagged["answer"], self.tagged["spans"]

        def rounded(*against: Any) -> float | None:
            found = math.nan if spans is None else self.probability(*against)
            return None if math.isnan(found) else round(found, 4)

        return {
            **{"line": row["doc_id"], "place": doc["id"], "id": doc.get("query_id"), "language": doc["language"]},
            **{"flagged_share": row[SHARE], "expected_share": row[EXPECTED]},
            "unsupported_probability": rounded(row[EVIDENCE]),
            "spans": spans,
            "texts": None if spans is None else [answer[start:end] for start, end, *_ in spans],
            "sentences": [(*ends, rounded(against, unsupported.SENTENCE_CURVES)) for *ends, against in self.sentences],
        }


def by_detector(detector: Detector, answers: Sequence[Answer], settings: Mapping[str, str]) -> Iterator[JudgedAnswer]:
    """What a detector finds in answers, which it reads together; nothing supports an answer without passages."""
    given = [
        (doc["reference"], answer, doc["language"], doc["query"]) for _, doc, answer in answers if doc["reference"]
    ]
    references, texts, languages, questions = zip(*given, strict=True) if given else ((), (), (), ())
    codes = [None if language == UNKNOWN else language for language in languages]
    found = iter(detector.detect(references, texts, codes, questions))
    for number, doc, answer in answers:
        spans = next(found) if doc["reference"] else [Span(0, len(answer))]
        yield judge(number, {**doc, **settings}, {"answer": answer, "spans": spans, "detector": describe(detector)})


def judge(number: int, doc: dict[str, Any], tagged: Mapping[str, Any]) -> JudgedAnswer:
    """The values of the metrics of an answer that a detector has tagged."""
    answer, language = tagged["answer"], doc["language"]
    abstains = is_abstention(answer, language)
    share, counts = (None, None) if abstains else TaggedAnswer.from_document(doc, tagged).values()
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
