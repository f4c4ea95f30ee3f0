"""A trained detector on documents that it has not seen: the threshold that suits it, and its errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import covered
from custom_metrics.reading.words import words
from custom_metrics.scores.character_labels import iou
from custom_metrics.scores.detection import WordCounts, count_words
from custom_metrics.statistics.intervals import percentile_bounds, resampled_sums, sums_by_cluster
from detector_plugin.calibration import ANNOTATIONS, Calibration, LanguageCalibration, measured, too_few
from detector_plugin.labelled import REAL, LabelledAnswer
from detector_plugin.transformers.forms import Encoder
from detector_plugin.transformers.windows import SMALLEST_ROOM, number_of_windows

__all__ = [
    "USUAL_THRESHOLD",
    "Row",
    "best_threshold",
    "calibration_of",
    "measure",
    "not_calibrated",
    "over_languages",
    "table",
]

USUAL_THRESHOLD = 0.5
"""Where there is nothing to choose one by."""

_THRESHOLDS = np.round(np.arange(0.02, 0.99, 0.01), 2)
MOST_WINDOWS = 4096
"""Of a document that is measured. Each window of the answer is read with each of the reference, so that the time grows
with both. A reference and an answer of some 12,000 tokens each have as many, at 512 tokens."""
TOO_LONG = f"too long to choose the threshold by or to measure, more than {MOST_WINDOWS} windows"

_AS_GOOD = 0.001  # of F1, within which a threshold is as good as the best


class Row(NamedTuple):
    """A detector's errors on the documents of a language and kind of annotation; counted in words, summed over documents.

    Attributes:
        part: ``left out`` (the language or model was left out whole) or ``measured`` (other articles were learned from).
        language, annotations: of the documents.
        counts: (documents, 4) true positives, false positives, false negatives, true negatives.
        models: of each document, the model that wrote it.
        iou: mean over documents of the characters' intersection over union.
        clusters: of each document, the article that it is about; those of one article hang together.
    """

    part: str
    language: str
    annotations: str
    counts: NDArray[np.int64]
    models: tuple[str, ...]
    iou: float
    clusters: tuple[str, ...] = ()

    @property
    def total(self) -> WordCounts:
        """Summed over the documents."""
        return WordCounts(*map(int, self.counts.sum(axis=0)))

    @property
    def f1_bounds(self) -> tuple[float, float]:
        """95 % bounds of F1, by a bootstrap over articles; ``nan`` of a single one, or where F1 is not defined."""
        sums = sums_by_cluster(self.counts, self.clusters or None)
        if len(sums) < 2:
            return math.nan, math.nan
        tp, fp, fn, _ = resampled_sums(sums).T
        with np.errstate(invalid="ignore"):  # 0/0
            return percentile_bounds(2 * tp / (2 * tp + fp + fn))


def short_enough(
    documents: Sequence[LabelledAnswer], encoder: Encoder, max_length: int, counts: Counter[str]
) -> list[LabelledAnswer]:
    """The documents that can be read in `MOST_WINDOWS`; the others are counted."""
    kept = []
    for document in documents:
        encoded = encoder.encode(document.reference, document.answer, document.question, document.language)
        room = max(max_length - len(encoded.fixed), SMALLEST_ROOM)
        if number_of_windows(len(encoded.reference), len(encoded.answer), room) <= MOST_WINDOWS:
            kept.append(document)
        else:
            counts[TOO_LONG] += 1
    return kept


def best_threshold(detector: Any, documents: Sequence[LabelledAnswer]) -> float:
    """The middle of the thresholds whose mean F1 over languages and kinds of annotation is as good as the best.

    Args:
        detector: a :class:`detector_plugin.transformers.TransformersDetector`.
        documents: that the model has not learned from.

    Returns:
        The threshold; `USUAL_THRESHOLD` where the documents have no hallucinated word.
    """
    groups: dict[tuple[str, str], list[tuple[NDArray[np.float32], NDArray[np.bool_]]]] = {}
    for document, probabilities, hallucinated in _word_readings(detector, documents):
        groups.setdefault((document.language, document.annotations), []).append((probabilities, hallucinated))
    curves = []
    for readings in groups.values():
        p = np.concatenate([probabilities for probabilities, _ in readings])
        y = np.concatenate([hallucinated for _, hallucinated in readings])
        if y.any():
            curves.append([2 * float((y & (p >= t)).sum()) / float((p >= t).sum() + y.sum()) for t in _THRESHOLDS])
    if not curves:
        return USUAL_THRESHOLD
    mean = np.mean(curves, axis=0)
    good = _THRESHOLDS[mean >= mean.max() - _AS_GOOD]
    return float(good[len(good) // 2])


def _word_readings(
    detector: Any, documents: Sequence[LabelledAnswer]
) -> Iterator[tuple[LabelledAnswer, NDArray[np.float32], NDArray[np.bool_]]]:
    """Documents with words, the probability of each word (that of its likeliest token), and whether it is hallucinated."""
    references, answers, languages, questions = _columns(documents)
    supported = [category is None for category in detector.categories]
    for reading in detector.readings(references, answers, languages, questions):
        document = documents[reading.index]
        places = words(document.answer, document.language)
        if not places:
            continue
        of_tokens = 1 - reading.best[:, supported].sum(1)
        of_characters = np.zeros(len(document.answer) + 1, np.float32)
        for (start, end), probability in zip(reading.encoded.offsets.tolist(), of_tokens.tolist(), strict=True):
            of_characters[start:end] = np.maximum(of_characters[start:end], probability)
        spaces = [at for at, character in enumerate(document.answer) if character.isspace()]
        of_characters[spaces] = 0  # a token may begin with the space before its word
        yield (
            document,
            np.array([of_characters[start:end].max() for start, end in places], np.float32),
            np.array([category is not None for category in covered(places, document.spans)], np.bool_),
        )


def measure(detector: Any, documents: Sequence[LabelledAnswer], part: str) -> list[Row]:
    """A detector's errors by language and kind of annotation.

    Args:
        detector: any.
        documents: that it has not learned from.
        part: see `Row`.
    """
    references, answers, languages, questions = _columns(documents)
    groups: dict[tuple[str, str], list[tuple[LabelledAnswer, WordCounts, float]]] = {}
    for document, spans in zip(documents, detector.detect(references, answers, languages, questions), strict=True):
        counts = count_words(document.answer, document.language, document.spans, spans)
        overlap = iou(((s.start, s.end) for s in document.spans), ((s.start, s.end) for s in spans))
        groups.setdefault((document.language, document.annotations), []).append((document, counts, overlap))
    return [
        Row(
            part,
            *key,
            np.array([counts for _, counts, _ in found], np.int64),
            tuple(document.model for document, _, _ in found),
            float(np.mean([overlap for _, _, overlap in found])),
            tuple(document.article or document.reference for document, _, _ in found),
        )
        for key, found in sorted(groups.items())
    ]


def _columns(documents: Sequence[LabelledAnswer]) -> tuple[list[str], list[str], list[str], list[str]]:
    return (
        [document.reference for document in documents],
        [document.answer for document in documents],
        [document.language for document in documents],
        [document.question for document in documents],
    )


def _errors(row: Row) -> LanguageCalibration:
    models = row.models if row.annotations == REAL and any(row.models) else ()
    return measured(row.counts, f"training, {row.part}: {row.language} {row.annotations}", models, row.clusters)


def not_calibrated(row: Row) -> str:
    """Why a row makes no calibration; empty where it makes one."""
    if row.annotations not in ANNOTATIONS:
        return f"{row.language} {row.annotations}: not a kind that a calibration has"
    if not row.total.precision > 0:
        return f"{row.language} {row.annotations}: not one hallucinated word of what was held out is flagged"
    return too_few(_errors(row))


def calibration_of(rows: Sequence[Row], detector: dict[str, str], note: str) -> Calibration:
    """The calibration that rows make. What was left out whole counts before articles that were held out.

    Args:
        rows: of :func:`measure`.
        detector: its ``name``, ``version`` and ``licence``.
        note: kept in the file.
    """
    languages: dict[str, dict[str, LanguageCalibration]] = {}
    for row in sorted(rows, key=lambda row: row.part != "left out"):
        kinds = languages.setdefault(row.language, {})
        if row.annotations not in kinds and not not_calibrated(row):
            kinds[row.annotations] = _errors(row)
    return Calibration(detector, {code: kinds for code, kinds in languages.items() if kinds}, note=note)


def over_languages(rows: Sequence[Row]) -> list[Row]:
    """For each part and kind of annotation that has several languages, one row of all their documents."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.part, row.annotations), []).append(row)
    return [
        Row(
            part,
            "all",
            annotations,
            np.concatenate([row.counts for row in those]),
            tuple(name for row in those for name in row.models),
            float(np.average([row.iou for row in those], weights=[len(row.counts) for row in those])),
            tuple(name for row in those for name in row.clusters),
        )
        for (part, annotations), those in sorted(groups.items())
        if len(those) > 1
    ]


_HEAD = (
    "",
    "language",
    "annotations",
    "documents",
    "precision",
    "recall",
    "F1 (95 % bounds)",
    "hallucinated",
    "flagged",
)


def table(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table, in percent; ``–`` where a share is not defined (nothing flagged, say)."""
    lines = [f"| {' | '.join((*_HEAD, 'IoU'))} |", f"|{'---|' * (len(_HEAD) + 1)}"]
    for row in (*over_languages(rows), *rows):
        counts = row.total
        low, high = row.f1_bounds
        f1 = f"{_percent(counts.f1)} ({_percent(low)} – {_percent(high)})" if low == low else _percent(counts.f1)
        cells = [row.part, row.language, row.annotations, str(len(row.counts))]
        cells += [_percent(counts.precision), _percent(counts.recall), f1]
        cells += [_percent(counts.prevalence), _percent(counts.flagged_share), f"{row.iou:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}"
