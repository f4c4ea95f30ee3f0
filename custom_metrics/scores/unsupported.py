"""Whether an answer holds anything that its passages do not support, judged by the spans that a detector found in it.

"Any flagged word" is no verdict on an answer: long answers nearly always have one. The evidence of an answer is
``sqrt(sum(-log(1 - p)))`` over its flagged words, where p is the probability of the span that a word is in. A logistic
curve turns it into the probability that a person finds something unsupported (:data:`CURVES`). That of a sentence is over
its own words, with a curve of its own (:data:`SENTENCE_CURVES`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.reading.spans import probabilities, span_of
from custom_metrics.reading.words import words

Curves = Mapping[tuple[str, str], tuple[float, float]]
"""Name and version of a detector to intercept and slope of its curve. A version is of weights and of options that change
what is found, such as another threshold: these need curves of their own."""

CURVES: Curves = {("lexical", "8111b6c960d5"): (-1.2503, 0.5038)}
"""Of answers. Fitted by maximum likelihood on the 499 answers of MEMERAG in German and Spanish (``annotators=one``)."""

SENTENCE_CURVES: Curves = {("lexical", "8111b6c960d5"): (-1.3051, 0.5270)}
"""Of sentences: fitted on the 1,013 of these answers that people judged. Where errors are rarer, it orders sentences well
and says too much of each: on RAGTruth's question answering .32 in the mean, not .10."""

_MOST_SURE = 0.9999  # of a word; spans have four decimals


def evidence(answer: str, spans: Sequence[Sequence[Any]] | None, language: str | None) -> float:
    """The evidence against an answer, from 0 on: its spans are rows of start, end, category and probability."""
    places = words(answer, language)
    of_words = probabilities(places, [span_of(span) for span in spans or ()])
    return evidence_of_parts(places, of_words, [(0, len(answer))])[0]


def evidence_of_parts(
    places: Sequence[tuple[int, int]], of_words: Sequence[float], parts: Sequence[tuple[int, int]]
) -> list[float]:
    """The evidence against parts of an answer, such as its sentences, from the places of its words and their probabilities.
    A part ends behind its last character, and has the words that begin in it."""
    starts = [start for start, _ in places]
    inside = (of_words[bisect_left(starts, start) : bisect_left(starts, end)] for start, end in parts)
    return [math.sqrt(sum(-math.log1p(-min(p, _MOST_SURE)) for p in of_part)) for of_part in inside]


def unsupported_probability(against: float, detector: Mapping[str, str], curves: Curves = CURVES) -> float:
    """The probability that a person finds something unsupported, from the :func:`evidence`; ``nan`` for a detector without
    a curve. `detector` is its description (:func:`detector_plugin.detector.describe`)."""
    curve = curves.get((detector["name"], detector["version"]))
    return math.nan if curve is None else 1 / (1 + math.exp(-curve[0] - curve[1] * against))


def is_unsupported(against: float, detector: Mapping[str, str]) -> bool:
    """Whether an answer is flagged: its probability is at least a half; without a curve, anything in it is flagged."""
    probability = unsupported_probability(against, detector)
    return against > 0 if math.isnan(probability) else probability >= 0.5
