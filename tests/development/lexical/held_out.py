"""Held-out figures of the lexical detector: with weights that saw neither an answer's language nor its model's family.

``python -m tests.development.lexical --mirror DIR -o TRAINED`` trains such weights. ``python -m
tests.development.lexical.held_out --mirror DIR --weights TRAINED/weights`` prints the figures as rows of the READMEs'
tables. Without ``--weights`` it reads the weights that ship, which saw answers of the model's family in other languages.
``--plot FILE`` draws a reliability diagram of the probabilities.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import Span, covered
from custom_metrics.reading.words import words
from custom_metrics.scores.detection import WordCounts, count_words, iou, rho
from custom_metrics.statistics.intervals import resampled_sums, spread, sums_by_cluster
from detector_plugin.labelled import REAL, LabelledAnswer, is_unreadable
from detector_plugin.lexical import WEIGHTS, LexicalDetector
from lm_eval_tasks.detection.labelled_answers import labelled_answers
from tests.development.lexical.training import weights_name

BINS = 10

Detectors = tuple[LexicalDetector, LexicalDetector]
"""Two detectors of the same weights: the first marks by word, the second for overlap."""


class Prediction(NamedTuple):
    """The detector's prediction for an answer, and the annotators' labels."""

    counts: WordCounts  # of words, flagged above the threshold
    flagged: list[Span]  # above the threshold, with probabilities
    spans: list[Span]  # those of largest expected overlap, with probabilities
    probabilities: NDArray[np.float64]  # (words,)
    hallucinated: NDArray[np.bool_]  # (words,) by the annotators


def predictions(documents: Sequence[LabelledAnswer], folder: Path = WEIGHTS) -> Iterator[Prediction]:
    """Predict each answer with weights of a folder that were trained without its language and, for a real one, without its
    model's family. The weights that ship saw the family in other languages."""
    load = cache(_detectors)
    for document in documents:
        path = folder / weights_name(document.language, document.family)
        yield _predict(document, load(path if path.is_file() else folder / weights_name(document.language)))


def _detectors(weights: Path) -> Detectors:
    return LexicalDetector(weights=weights), LexicalDetector(weights=weights, spans="iou")


def _predict(document: LabelledAnswer, detectors: Detectors) -> Prediction:
    answer, language = document.answer, document.language
    by_word, by_overlap = detectors
    (probabilities,) = by_word.probabilities([document.reference], [answer], [language], [document.question])
    flagged = by_word.marked(answer, language, probabilities)
    hallucinated = [category is not None for category in covered(words(answer, language), document.spans)]
    counts = count_words(answer, language, document.spans, flagged)
    spans = by_overlap.marked(answer, language, probabilities)
    return Prediction(counts, flagged, spans, probabilities, np.array(hallucinated, np.bool_))


def summary(
    documents: Sequence[LabelledAnswer], predicted: Sequence[Prediction]
) -> dict[tuple[str, str], Mapping[str, float]]:
    """Figures by language and kind of annotation, and under ``("all", kind)`` and ``("all", "all")``.

    Of words, in percent, counts summed over answers: precision, recall and F1 with 95 % bounds (bootstrap over texts),
    the share that is hallucinated, the share that is flagged; the expected calibration error; of real answers IoU and rho.
    Answers whose reference is unreadable (marks of a translation model) are in their language's row alone.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, document in enumerate(documents):
        groups[document.language, document.annotations].append(number)
        if not is_unreadable(document.reference):
            groups["all", document.annotations].append(number)
            groups["all", "all"].append(number)
    table: dict[tuple[str, str], Mapping[str, float]] = {}
    for key, numbers in sorted(groups.items()):
        word_counts = np.array([predicted[n].counts for n in numbers], float)
        counts = WordCounts(*word_counts.sum(axis=0))
        texts = [documents[n].article or documents[n].reference for n in numbers]
        tp, fp, fn, _ = resampled_sums(sums_by_cluster(word_counts, texts)).T
        with np.errstate(invalid="ignore"):
            low, high = spread(2 * tp / (2 * tp + fp + fn))[:2]
        shares = {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1, "f1_low": low}
        shares |= {"f1_high": high, "share": counts.prevalence, "flagged": counts.flagged_share}
        row = {"documents": len(numbers), **{name: 100 * share for name, share in shares.items()}}
        row["ece"] = calibration_error(*_words([predicted[n] for n in numbers]))
        if key[1] == REAL:
            overlaps = [_overlap(documents[n], predicted[n]) for n in numbers]
            row["iou"], row["rho"] = (float(np.mean(values)) for values in zip(*overlaps, strict=True))
        table[key] = row
    return table


def _words(predicted: Sequence[Prediction]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    return np.concatenate([p.probabilities for p in predicted]), np.concatenate([p.hallucinated for p in predicted])


def _overlap(document: LabelledAnswer, prediction: Prediction) -> tuple[float, float]:
    """IoU and rho of an answer."""
    hard, flagged = ([(span.start, span.end) for span in spans] for spans in (document.spans, prediction.spans))
    soft = document.spans if document.soft is None else document.soft
    votes, scores = ([(span.start, span.end, span.probability) for span in spans] for spans in (soft, prediction.spans))
    return iou(hard, flagged), rho(votes, scores, len(document.answer))


def bins(probabilities: NDArray[np.float64], hallucinated: NDArray[np.bool_]) -> list[tuple[float, float, int]]:
    """The mean probability of the words in each of ten bins of equal width, the share of them that is hallucinated, and
    their number; from low to high, without empty bins."""
    number = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    counts = np.bincount(number, minlength=BINS)
    sums = np.bincount(number, probabilities, BINS), np.bincount(number, hallucinated, BINS)
    return [(float(p / n), float(h / n), int(n)) for p, h, n in zip(*sums, counts, strict=True) if n]


def calibration_error(probabilities: NDArray[np.float64], hallucinated: NDArray[np.bool_]) -> float:
    """Expected calibration error in ten bins of equal width (Guo et al. 2017, equation 3); ``nan`` without words."""
    off = sum(number * abs(mean - share) for mean, share, number in bins(probabilities, hallucinated))
    return off / len(probabilities) if len(probabilities) else float("nan")


def draw(curves: Mapping[str, list[tuple[float, float, int]]], path: Path) -> None:
    """Draw a reliability diagram of each named list of bins, in the format that the path's ending names. The same figures
    give the same bytes."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "lm-eval-grounded", "svg.fonttype": "none", "font.size": 11})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.6, 5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="as it says")
    for (name, curve), style in zip(curves.items(), ("o-", "s--", "^-."), strict=False):
        axes.plot([mean for mean, _, _ in curve], [share for _, share, _ in curve], style, label=name)
    axes.set(xlabel="probability that the detector gives a word", ylabel="share of these words that is hallucinated")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", frameon=False)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror")
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--data", help="collections, as mushroom,mfava-gold (default: what the tasks read)")
    parser.add_argument("--plot", type=Path, help="draw the reliability of the probabilities (.svg, .png)")
    options = parser.parse_args(arguments)
    documents = labelled_answers(options.mirror, options.data and options.data.split(","))
    predicted = list(predictions(documents, options.weights))
    figures = summary(documents, predicted)
    for key, row in figures.items():
        print(_line(" ".join(key), row))
    gold = [row["f1"] for (language, kind), row in figures.items() if kind == "gold" and language != "all"]
    if gold:
        print(f"mean F1 of {len(gold)} gold languages: {fmean(gold):.1f}")
    if options.plot:
        names = {"real": "real answers, marked by people", "gold": "inserted errors, marked by people"}
        kinds = np.array([document.annotations for document in documents])
        numbers = {label: np.flatnonzero(kinds == kind) for kind, label in names.items()}
        curves = {label: bins(*_words([predicted[n] for n in of_kind])) for label, of_kind in numbers.items()}
        draw(curves, options.plot)


def _line(name: str, row: Mapping[str, float]) -> str:
    """A row of the README's tables."""
    cells = f"{row['precision']:.1f} | {row['recall']:.1f}"
    cells += f" | **{row['f1']:.1f}** ({row['f1_low']:.1f} – {row['f1_high']:.1f})"
    cells += f" | {row['share']:.1f} | {row['flagged']:.1f}"
    cells += f" | {row['iou']:.3f} | {row['rho']:.3f}" if "iou" in row else ""
    return f"| {name} | {row['documents']} | {cells} | {row['ece']:.3f} |"


if __name__ == "__main__":
    main()
