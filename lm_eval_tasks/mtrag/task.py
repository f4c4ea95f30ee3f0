"""The harness task of MTRAG's ratings, and an answer's values: the score of a detector or judge beside people's ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from custom_metrics.reading.tagged_text import LOST, align, parse
from custom_metrics.scores.detection import count_words
from custom_metrics.scores.ratings import SCALE, ceilings, opposite
from custom_metrics.statistics.figures import CountsOfCluster, Figure, FloatWithCounts
from lm_eval_tasks.harness.task import GroundedTask
from lm_eval_tasks.mtrag import METRICS, QUALITIES


class RatingsTask(GroundedTask):
    """A task whose figures have those of one rater beside them (:mod:`custom_metrics.scores.ratings`)."""

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        yield from ceilings(self.aggregation(), values)


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a tagged answer: for each metric its score and people's ratings, ``None`` where an answer
    that abstains is not in the denominator; and what ``mfava_detection_*`` has of replies. The score is the share of
    words without a tag, on people's scale. A text that is not the answer with tags (``lost``) has the opposite of their
    median."""
    text, spans = parse(results[0])
    alignment = align(text, spans, doc["answer"])
    share = count_words(doc["answer"], doc["language"], [], alignment.spans).flagged_share
    score = None if alignment.kind == LOST else SCALE[1] - (SCALE[1] - SCALE[0]) * share
    kinds = {"altered_rate": ("edited", LOST), "lost_rate": (LOST,)}
    replies = {name: FloatWithCounts(alignment.kind in of, cluster=doc["passage"]) for name, of in kinds.items()}
    return {**_values(doc, QUALITIES, score), **replies}


def process_rating(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a judge's rating, ``"1"`` to ``"4"`` or ``"unread"``. That of faithfulness is held against
    people's, that of appropriateness against their ratings of the other qualities. An unread one has the opposite of their
    median."""
    rating = float(results[0]) if str(results[0]).isdecimal() else None
    asked = QUALITIES[:1] if doc["aspect"] == QUALITIES[0] else QUALITIES[1:]
    return {**_values(doc, asked, rating), "unread_rate": FloatWithCounts(rating is None, cluster=doc["passage"])}


def _values(doc: Mapping[str, Any], asked: Sequence[str], score: float | None) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(METRICS)
    for metric, quality in METRICS.items():
        if quality in asked and not (doc["abstains"] and quality == QUALITIES[0]):
            ratings = doc["ratings"][quality]
            values[metric] = CountsOfCluster([opposite(ratings) if score is None else score, *ratings], doc["passage"])
    return values
