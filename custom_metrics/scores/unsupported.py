"""Whether an answer holds anything that its passages do not support, judged by the spans that a detector found in it.

"Any flagged word" is no verdict on an answer: long answers nearly always have one. The evidence of an answer is
``sqrt(sum(-log(1 - p)))`` over its flagged words, where p is the probability of the span that a word is in. A logistic
curve turns it into the probability that a person finds something unsupported (:data:`CURVES`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.reading.spans import probabilities, span_of
from custom_metrics.reading.words import words

CURVES = {("lexical", "8111b6c960d5"): (-1.2503, 0.5038)}
"""Name and version of a detector to intercept and slope of its curve. A version is of weights and of options that change
what is found, such as another threshold: these need curves of their own. Fitted by maximum likelihood on the 499 answers of
MEMERAG in German and Spanish (``annotators=one``): an answer is unsupported where any of its sentences is."""

_MOST_SURE = 0.9999  # of a word; spans have four decimals


def evidence(answer: str, spans: Sequence[Sequence[Any]] | None, language: str | None) -> float:
    """The evidence against an answer, from 0 on: its spans are rows of start, end, category and probability."""
    if not spans:
        return 0.0
    of_words = probabilities(words(answer, language), [span_of(span) for span in spans])
    return math.sqrt(sum(-math.log1p(-min(p, _MOST_SURE)) for p in of_words))


def unsupported_probability(against: float, detector: Mapping[str, str]) -> float:
    """The probability that a person finds something unsupported, from the :func:`evidence`; ``nan`` for a detector without
    a curve. `detector` is its description (:func:`detector_plugin.detector.describe`)."""
    curve = CURVES.get((detector["name"], detector["version"]))
    return math.nan if curve is None else 1 / (1 + math.exp(-curve[0] - curve[1] * against))


def is_unsupported(against: float, detector: Mapping[str, str]) -> bool:
    """Whether an answer is flagged: its probability is at least a half; for a detector without a curve, anything in it is
    flagged."""
    probability = unsupported_probability(against, detector)
    return against > 0 if math.isnan(probability) else probability >= 0.5
