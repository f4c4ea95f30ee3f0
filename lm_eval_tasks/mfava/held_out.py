"""What the lexical detector finds with weights that saw neither an answer's language nor its model's family.

``python -m lm_eval_tasks.mfava.held_out --mirror DIR [--counts FILE]`` prints the figures and writes each answer's counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from custom_metrics.character_labels import iou, rho
from custom_metrics.detection import WordCounts, count_words
from custom_metrics.spans import Span, covered
from custom_metrics.words import words
from detector_plugin import lexical
from detector_plugin.lexical.training import REAL, LabelledAnswer, weights_name

__all__ = ["Reading", "calibration_error", "readings", "summary"]

BINS = 10


@dataclass(frozen=True)
class Reading:
    """What the detector says of an answer.

    Attributes:
        counts: words, flagged above the threshold.
        spans: those of largest expected overlap, with probabilities.
        probabilities: (words,).
        hallucinated: (words,) what the annotators say.
    """

    counts: WordCounts
    spans: list[Span]
    probabilities: NDArray[np.float64]
    hallucinated: NDArray[np.bool_]


def readings(documents: Sequence[LabelledAnswer], folder: Path | None = None) -> Iterator[Reading]:
    """Each answer read with weights that were trained without its language and, of a real one, its model's family.

    Args:
        documents: annotated answers.
        folder: of weights, as ``lm-eval-grounded train`` writes it; default those that ship.
    """
    folder = lexical.WEIGHTS if folder is None else folder
    loaded: dict[Path, tuple[lexical.LexicalDetector, lexical.LexicalDetector]] = {}
    for document in documents:
        path = folder / weights_name(document.language, document.family)
        if not path.is_file():  # a family that answers in this language alone goes with it
            path = folder / weights_name(document.language)
        if path not in loaded:
            loaded[path] = lexical.LexicalDetector(weights=path), lexical.LexicalDetector(weights=path, spans="iou")
        by_word, by_overlap = loaded[path]
        (probabilities,) = by_word.probabilities(
            [document.reference], [document.answer], [document.language], [document.question]
        )
        found = by_word.marked(document.answer, document.language, probabilities)
        spans = by_overlap.marked(document.answer, document.language, probabilities)
        places = words(document.answer, document.language)
        yield Reading(
            count_words(document.answer, document.language, document.spans, found),
            spans,
            probabilities,
            np.array([category is not None for category in covered(places, document.spans)], np.bool_),
        )


def calibration_error(probabilities: NDArray[np.float64], hallucinated: NDArray[np.bool_]) -> float:
    """Expected calibration error in ten bins of equal width (Guo et al. 2017)."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    off = np.bincount(bins, probabilities, BINS) - np.bincount(bins, hallucinated, BINS)
    return float(np.abs(off).sum() / len(probabilities))


def summary(
    documents: Sequence[LabelledAnswer], found: Sequence[Reading]
) -> dict[tuple[str, str], Mapping[str, float]]:
    """Figures by language and kind of annotation, and under ``("all", kind)`` and ``("all", "all")``."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, document in enumerate(documents):
        for key in (
            (document.language, document.annotations),
            ("all", document.annotations),
            ("all", "all"),
        ):
            groups.setdefault(key, []).append(number)
    table: dict[tuple[str, str], Mapping[str, float]] = {}
    for key, numbers in sorted(groups.items()):
        counts = WordCounts(*(sum(column) for column in zip(*(found[n].counts for n in numbers), strict=True)))
        row = {
            "documents": len(numbers),
            "f1": 100 * counts.f1,
            "share": counts.prevalence,
            "flagged": counts.flagged_share,
            "ece": calibration_error(
                np.concatenate([found[n].probabilities for n in numbers]),
                np.concatenate([found[n].hallucinated for n in numbers]),
            ),
        }
        if key[1] == REAL:
            row["iou"] = float(np.mean([_iou(documents[n], found[n]) for n in numbers]))
            row["rho"] = float(np.mean([_rho(documents[n], found[n]) for n in numbers]))
        table[key] = row
    return table


def _iou(document: LabelledAnswer, reading: Reading) -> float:
    return iou(((s.start, s.end) for s in document.spans), ((s.start, s.end) for s in reading.spans))


def _rho(document: LabelledAnswer, reading: Reading) -> float:
    soft = document.spans if document.soft is None else document.soft
    return rho(
        ((s.start, s.end, s.probability) for s in soft),
        ((s.start, s.end, s.probability) for s in reading.spans),
        len(document.answer),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, write the counts."""
    from lm_eval_tasks.mfava.training import labelled_answers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--counts", type=Path)
    options = parser.parse_args(arguments)
    documents = labelled_answers(options.mirror)
    found = list(readings(documents, options.weights))
    for (language, kind), row in summary(documents, found).items():
        figures = "  ".join(f"{name} {value:.3f}" for name, value in row.items())
        sys.stdout.write(f"{language:4} {kind:7} {figures}\n")
    if options.counts:
        lines = [
            json.dumps(
                {
                    "language": document.language,
                    "annotations": document.annotations,
                    "model": document.model,
                    "family": document.family,
                    **reading.counts._asdict(),
                }
            )
            for document, reading in zip(documents, found, strict=True)
        ]
        options.counts.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
