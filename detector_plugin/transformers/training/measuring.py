"""A trained detector on documents that it has not seen: the threshold that suits it, and its errors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import covered
from custom_metrics.reading.words import words
from custom_metrics.scores.detection import WordCounts, count_words, iou
from custom_metrics.statistics.intervals import resampled_sums, spread, sums_by_cluster
from detector_plugin.calibration import Calibration, LanguageCalibration, from_counts, why_too_few
from detector_plugin.labelled import REAL, LabelledAnswer

USUAL_THRESHOLD = 0.5  # the threshold where no document can choose one
_THRESHOLDS = np.round(np.arange(0.02, 0.99, 0.01), 2)
_AS_GOOD = 0.001  # of F1, within which a threshold is as good as the best


class Row(NamedTuple):
    """A detector's errors on the documents of a language and kind of annotation."""

    part: str  # "left out" (the language or model was left out whole) or "measured" (other articles were learned from)
    language: str
    annotations: str
    documents: Sequence[LabelledAnswer]
    counts: NDArray[np.int64]  # (documents, 4) true positives, false positives, false negatives, true negatives
    overlaps: Sequence[float]  # intersection over union of each document's characters

    @property
    def total(self) -> WordCounts:
        """Summed over the documents."""
        return WordCounts(*map(int, self.counts.sum(axis=0)))

    def as_json(self) -> dict[str, Any]:
        """For the record of a training."""
        named = {"part": self.part, "language": self.language, "annotations": self.annotations}
        return {**named, "documents": len(self.documents), **self.total._asdict()}

    @property
    def iou(self) -> float:
        """Mean over the documents."""
        return float(np.mean(self.overlaps))

    @property
    def clusters(self) -> list[str]:
        """The article of each document; documents of one article depend on each other."""
        return [document.article or document.reference for document in self.documents]

    @property
    def f1_bounds(self) -> tuple[float, float]:
        """95 % bounds of F1, by a bootstrap over articles; ``nan`` for a single article, or where F1 is not defined."""
        sums = sums_by_cluster(self.counts, self.clusters)
        if len(sums) < 2:
            return math.nan, math.nan
        tp, fp, fn, _ = resampled_sums(sums).T
        with np.errstate(invalid="ignore"):  # 0/0
            return spread(2 * tp / (2 * tp + fp + fn))[:2]

    @property
    def errors(self) -> LanguageCalibration:
        """As a calibration has them."""
        models = [document.model for document in self.documents]
        named = self.annotations == REAL and any(models)
        source = f"training, {self.part}: {self.language} {self.annotations}"
        return from_counts(self.counts, source, models if named else (), self.clusters)

    @property
    def why_not_calibrated(self) -> str:
        """Why the row makes no calibration; empty where it makes one."""
        if not self.total.precision > 0:
            return f"{self.language} {self.annotations}: the detector flags no hallucinated word of what was held out"
        return why_too_few(self.errors)


def best_threshold(detector: Any, documents: Sequence[LabelledAnswer]) -> float:
    """The middle of the thresholds of a :class:`detector_plugin.transformers.TransformersDetector` whose mean F1 over
    languages and kinds of annotation is as good as the best; `USUAL_THRESHOLD` where no word is hallucinated.
    """
    # Of each language and kind: the probability of each word, that of its likeliest token, and whether it is hallucinated.
    groups: dict[tuple[str, str], tuple[list[float], list[bool]]] = defaultdict(lambda: ([], []))
    supported = [category is None for category in detector.categories]
    for reading in detector.token_probabilities(*_columns(documents)):
        document = documents[reading.index]
        offsets, classes = reading.units()
        of_characters = np.zeros(len(document.answer) + 1, np.float32)
        likely = (1 - classes[:, supported].sum(1)).tolist()
        for (start, end), probability in zip(offsets.tolist(), likely, strict=True):
            of_characters[start:end] = np.maximum(of_characters[start:end], probability)
        # A token may begin with the space before its word.
        of_characters[[at for at, character in enumerate(document.answer) if character.isspace()]] = 0
        places = words(document.answer, document.language)
        probabilities, hallucinated = groups[document.language, document.annotations]
        probabilities += [of_characters[start:end].max() for start, end in places]
        hallucinated += [category is not None for category in covered(places, document.spans)]
    curves = [
        f1_at(_THRESHOLDS, np.array(probabilities, np.float32), np.array(hallucinated))
        for probabilities, hallucinated in groups.values()
        if any(hallucinated)
    ]
    if not curves:
        return USUAL_THRESHOLD
    mean = np.mean(curves, axis=0)
    good = _THRESHOLDS[mean >= mean.max() - _AS_GOOD]
    return float(good[len(good) // 2])


def f1_at(thresholds: NDArray[Any], probabilities: NDArray[Any], hallucinated: NDArray[Any]) -> list[float]:
    """F1 at each threshold, of words or tokens of which at least one is hallucinated."""
    flagged = [probabilities >= threshold for threshold in thresholds]
    return [2 * float((hallucinated & these).sum()) / float(these.sum() + hallucinated.sum()) for these in flagged]


def measure(detector: Any, documents: Sequence[LabelledAnswer], part: str) -> list[Row]:
    """The errors of any detector on documents that it has not learned from, by language and kind of annotation."""
    groups: dict[tuple[str, str], list[tuple[LabelledAnswer, WordCounts, float]]] = defaultdict(list)
    for document, spans in zip(documents, detector.detect(*_columns(documents)), strict=True):
        if spans is None:  # the detector failed on it
            continue
        counts = count_words(document.answer, document.language, document.spans, spans)
        overlap = iou(((s.start, s.end) for s in document.spans), ((s.start, s.end) for s in spans))
        groups[document.language, document.annotations].append((document, counts, overlap))
    rows = []
    for key, group in sorted(groups.items(), key=lambda item: item[0]):
        answers, counts_of_answers, overlaps = zip(*group, strict=True)
        rows.append(Row(part, *key, answers, np.array(counts_of_answers, np.int64), overlaps))
    return rows


def _columns(documents: Sequence[LabelledAnswer]) -> tuple[list[str], ...]:
    names = ("reference", "answer", "language", "question")
    return tuple([getattr(document, name) for document in documents] for name in names)


def calibration_of(rows: Sequence[Row], detector: dict[str, str], note: str) -> Calibration:
    """The calibration that rows make. What was left out whole counts before articles that were held out."""
    languages: dict[str, dict[str, LanguageCalibration]] = {}
    for row in sorted(rows, key=lambda row: row.part != "left out"):
        if not row.why_not_calibrated:
            languages.setdefault(row.language, {}).setdefault(row.annotations, row.errors)
    return Calibration(detector, languages, note=note)


def table(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table, in percent; ``–`` where a share is not defined (nothing flagged, say). The first rows are
    of all languages together, for each part and kind of annotation that has several."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.part, row.annotations].append(row)
    over_languages = [
        Row(
            *(part, "all", annotations, [document for row in group for document in row.documents]),
            np.concatenate([row.counts for row in group]),
            [overlap for row in group for overlap in row.overlaps],
        )
        for (part, annotations), group in sorted(groups.items(), key=lambda item: item[0])
        if len(group) > 1
    ]
    columns = (
        "| language | annotations | documents | precision | recall | F1 (95 % bounds) | hallucinated | flagged | IoU |"
    )
    lines = [f"| {columns}", "|---" * columns.count("|") + "|"]
    for row in (*over_languages, *rows):
        counts = row.total
        low, high = row.f1_bounds
        bounds = "" if math.isnan(low) else f" ({_percent(low)} – {_percent(high)})"
        cells = [row.part, row.language, row.annotations, str(len(row.documents))]
        cells += [_percent(counts.precision), _percent(counts.recall), _percent(counts.f1) + bounds]
        cells += [_percent(counts.prevalence), _percent(counts.flagged_share), f"{row.iou:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}"
