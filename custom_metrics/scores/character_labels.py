"""Agreement of spans by character: Mu-SHROOM's ``iou`` and ``rho``.

Both are figures of one answer and equal those of the shared task's scorer to the digit (``participant_kit/scorer.py`` of
https://github.com/Helsinki-NLP/mu-shroom; Vázquez et al. 2025). A corpus has their means over answers. *Hard labels* tell
whether each character is hallucinated, *soft labels* with which probability (of annotators: the share that marked it).
Words play no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from custom_metrics.reading.tagged_text import LOST
from custom_metrics.scores import detection
from custom_metrics.statistics.figures import FloatWithCounts

_DECIMALS = 8  # to which the scorer rounds before it asks whether labels are constant


def iou(annotated: Iterable[tuple[int, int]], predicted: Iterable[tuple[int, int]]) -> float:
    """Intersection over union of the characters of two sets of spans, which may overlap; 1.0 where both are empty."""
    theirs = {at for start, end in annotated for at in range(start, end)}
    ours = {at for start, end in predicted for at in range(start, end)}
    return len(theirs & ours) / len(theirs | ours) if theirs or ours else 1.0


def rho(annotated: Iterable[tuple[int, int, float]], predicted: Iterable[tuple[int, int, float]], length: int) -> float:
    """Spearman's correlation of the soft labels of a text's characters.

    There is no correlation where one side gives all characters the same label (to eight decimals). The value is then 1.0 if
    both sides do, else 0.0. So "nothing here" and "all of this" count the same. A prediction of one span over the whole
    text scores 0.0 where people marked a part.

    Spans are (start, end, probability) in characters; where they overlap the last one holds, outside it is 0. The labels of
    an empty text are constant.

    Raises:
        ValueError: a span reaches beyond the text of that length.
    """
    from scipy.stats import rankdata

    theirs, ours = np.zeros(length), np.zeros(length)
    for labels, spans in ((theirs, annotated), (ours, predicted)):
        for start, end, probability in spans:
            if not 0 <= start <= end <= length:
                raise ValueError(f"the span {start} to {end} is not in a text of {length} characters")
            labels[start:end] = probability
    constant = [len(np.unique(np.round(labels, _DECIMALS))) <= 1 for labels in (theirs, ours)]
    if any(constant):
        return float(all(constant))
    return float(np.corrcoef(rankdata(theirs), rankdata(ours))[0, 1])


# ------------------------------------------------------------------------------------------------ the harness's metrics


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a Mu-SHROOM task: ``iou`` and ``rho``, which carry the passage, and what
    :func:`custom_metrics.scores.detection.process_results` returns, of the same tagged text.

    The document's ``spans`` are hard labels, its ``soft_labels`` have ``start``, ``end`` and ``prob``. Every predicted span
    is a hard label, whatever its category. Its probability is the soft label; where spans overlap, the highest. Of a lost
    text both are 0.0, also where people marked nothing.
    """
    hard, predicted, kind = detection.annotated_and_predicted(doc, results)
    soft = [(label["start"], label["end"], label["prob"]) for label in doc["soft_labels"]]
    sure_last = sorted(predicted, key=lambda span: span.probability)
    overlap = iou((span[:2] for span in hard), (span[:2] for span in predicted))
    correlation = rho(soft, ((span.start, span.end, span.probability) for span in sure_last), len(doc["answer"]))
    if kind == LOST:
        overlap = correlation = 0.0
    passage = doc.get("passage", "")
    return {
        "iou": FloatWithCounts(overlap, cluster=passage),
        "rho": FloatWithCounts(correlation, cluster=passage),
        **detection.word_values(doc, hard, predicted, kind),
    }
