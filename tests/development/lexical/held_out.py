"""Held-out figures of the lexical detector: with weights that saw neither an answer's language nor its model's family.

``python -m tests.development.lexical --mirror DIR -o TRAINED`` trains such weights. ``python -m
tests.development.lexical.held_out --mirror DIR --weights TRAINED/weights`` prints the figures as rows of the READMEs'
tables. Without ``--weights`` it reads the weights that ship, which saw answers of the model's family in other languages.
``--plot FILE`` draws a reliability diagram of the probabilities. ``--without ar,ur`` trains without several languages (of
one script, say) and reads these; with ``--translations`` by weights that learned from translations of an answer's text,
and by weights that did not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import Span, covered
from custom_metrics.reading.words import words
from custom_metrics.scores.character_labels import iou, rho
from custom_metrics.scores.detection import WordCounts, count_words
from custom_metrics.statistics.intervals import resampled_sums, spread, sums_by_cluster
from detector_plugin import lexical
from detector_plugin.labelled import REAL, LabelledAnswer, is_unreadable, text_groups
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.detection.labelled_answers import labelled_answers, readable
from tests.development.lexical.training import train, weights_name

HALVINGS = 3
"""Of the texts, where figures with and without translations in training are compared."""

BINS = 10


class Prediction(NamedTuple):
    """The detector's prediction for an answer, and the annotators' labels."""

    counts: WordCounts  # of words, flagged above the threshold
    flagged: list[Span]  # above the threshold, with probabilities
    spans: list[Span]  # those of largest expected overlap, with probabilities
    probabilities: NDArray[np.float64]  # (words,)
    hallucinated: NDArray[np.bool_]  # (words,) by the annotators


def predictions(documents: Sequence[LabelledAnswer], folder: Path | None = None) -> Iterator[Prediction]:
    """Predict each answer with weights trained without its language and, for a real one, without its model's family:
    those of a `folder`, as ``python -m tests.development.lexical -o`` writes it. Those that ship saw the family in other
    languages.
    """
    folder = lexical.WEIGHTS if folder is None else folder
    pair_of = cache(_pair)
    for document in documents:
        path = folder / weights_name(document.language, document.family)
        if not path.is_file():
            path = folder / weights_name(document.language)
        yield _predict(document, *pair_of(path))


def _pair(weights: Path) -> tuple[lexical.LexicalDetector, lexical.LexicalDetector]:
    return lexical.LexicalDetector(weights=weights), lexical.LexicalDetector(weights=weights, spans="iou")


def _predict(
    document: LabelledAnswer, by_word: lexical.LexicalDetector, by_overlap: lexical.LexicalDetector
) -> Prediction:
    """Predict an answer with two detectors of the same weights, the second of which marks for overlap."""
    (probabilities,) = by_word.probabilities(
        [document.reference], [document.answer], [document.language], [document.question]
    )
    flagged = by_word.marked(document.answer, document.language, probabilities)
    places = words(document.answer, document.language)
    return Prediction(
        count_words(document.answer, document.language, document.spans, flagged),
        flagged,
        by_overlap.marked(document.answer, document.language, probabilities),
        probabilities,
        np.array([category is not None for category in covered(places, document.spans)], np.bool_),
    )


def summary(
    documents: Sequence[LabelledAnswer], predicted: Sequence[Prediction]
) -> dict[tuple[str, str], Mapping[str, float]]:
    """Figures by language and kind of annotation, and under ``("all", kind)`` and ``("all", "all")``.

    Of words, in percent, counts summed over answers: precision, recall and F1 with 95 % bounds (bootstrap over texts),
    the share that is hallucinated, the share that is flagged; the expected calibration error; of real answers IoU and rho.
    Answers whose reference is unreadable (marks of a translation model) are in their language's row alone.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for number, document in enumerate(documents):
        keys = [(document.language, document.annotations)]
        if not is_unreadable(document.reference):
            keys += [("all", document.annotations), ("all", "all")]
        for key in keys:
            groups.setdefault(key, []).append(number)
    table: dict[tuple[str, str], Mapping[str, float]] = {}
    for key, numbers in sorted(groups.items()):
        word_counts = np.array([predicted[n].counts for n in numbers], float)
        counts = WordCounts(*word_counts.sum(axis=0))
        texts = [documents[n].article or documents[n].reference for n in numbers]
        tp, fp, fn, _ = resampled_sums(sums_by_cluster(word_counts, texts)).T
        with np.errstate(invalid="ignore"):
            low, high = spread(2 * tp / (2 * tp + fp + fn))[:2]
        row = {
            "documents": len(numbers),
            "precision": 100 * counts.precision,
            "recall": 100 * counts.recall,
            "f1": 100 * counts.f1,
            "f1_low": 100 * low,
            "f1_high": 100 * high,
            "share": 100 * counts.prevalence,
            "flagged": 100 * counts.flagged_share,
            "ece": calibration_error(*_words([predicted[n] for n in numbers])),
        }
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


# ------------------------------------------------------------------------------------------------------- reliability


class Bin(NamedTuple):
    """Words whose probabilities are alike."""

    probability: float  # their mean
    share: float  # of them that is hallucinated
    words: int


def bins(probabilities: NDArray[np.float64], hallucinated: NDArray[np.bool_]) -> list[Bin]:
    """Words in ten bins of equal width, from low to high; empty bins are left out."""
    number = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    words = np.bincount(number, minlength=BINS)
    sums = np.bincount(number, probabilities, BINS), np.bincount(number, hallucinated, BINS)
    return [Bin(float(p / n), float(h / n), int(n)) for p, h, n in zip(*sums, words, strict=True) if n]


def calibration_error(probabilities: NDArray[np.float64], hallucinated: NDArray[np.bool_]) -> float:
    """Expected calibration error in ten bins of equal width (Guo et al. 2017, equation 3); ``nan`` without words."""
    off = sum(bin.words * abs(bin.probability - bin.share) for bin in bins(probabilities, hallucinated))
    return off / len(probabilities) if len(probabilities) else float("nan")


def draw(curves: Mapping[str, list[Bin]], path: Path) -> None:
    """Draw a reliability diagram of each named list of bins, in the format that the path's ending names."""
    import matplotlib

    matplotlib.use("agg")
    # The same figures give the same bytes.
    matplotlib.rcParams.update({"svg.hashsalt": "lm-eval-grounded", "svg.fonttype": "none", "font.size": 11})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.6, 5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="as it says")
    for (name, curve), style in zip(curves.items(), ("o-", "s--", "^-."), strict=False):
        axes.plot([bin.probability for bin in curve], [bin.share for bin in curve], style, label=name)
    axes.set(
        xlabel="probability that the detector gives a word",
        ylabel="share of these words that is hallucinated",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", frameon=False)
    with whole_file(path) as partial:
        figure.savefig(partial, format=path.suffix.removeprefix("."), metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)


# ------------------------------------------------------------------------------------------------------- command line


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, draw the diagram."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", help="collections, as mushroom-page,mushroom-context (default: what the tasks read)")
    parser.add_argument("--plot", type=Path, help="draw the reliability of the probabilities (.svg, .png)")
    parser.add_argument("--without", help="languages, as ar,ur: train without any of them, and read these only")
    parser.add_argument(
        "--translations",
        action="store_true",
        help="with --without: are figures too good where translations were learned from? Trains six times, "
        "without half of the texts each",
    )
    options = parser.parse_args(arguments)
    if options.translations and not options.without:
        parser.error("--translations goes with --without")
    documents = labelled_answers(options.mirror, options.data and options.data.split(","))
    if options.without:
        languages = set(options.without.split(","))
        unseen = [document for document in documents if document.language not in languages]
        documents = [document for document in documents if document.language in languages]
        if options.translations:
            _print_translations(documents, readable(unseen))
            return
        predicted = _fit_predict(documents, readable(unseen))
    else:
        predicted = list(predictions(documents, options.weights))
    figures = summary(documents, predicted)
    for key, row in figures.items():
        sys.stdout.write(f"{_line(' '.join(key), row)}\n")
    gold = [row["f1"] for (language, kind), row in figures.items() if kind == "gold" and language != "all"]
    if gold:
        sys.stdout.write(f"mean F1 of {len(gold)} gold languages: {fmean(gold):.1f}\n")
    if options.plot:
        names = {"real": "real answers, marked by people", "gold": "inserted errors, marked by people"}
        kinds = np.array([document.annotations for document in documents])
        curves = {
            label: bins(*_words([predicted[n] for n in np.flatnonzero(kinds == kind)])) for kind, label in names.items()
        }
        draw(curves, options.plot)


def _line(name: str, row: Mapping[str, float]) -> str:
    """A row of the README's tables."""
    words = f"{row['precision']:.1f} | {row['recall']:.1f}"
    words += f" | **{row['f1']:.1f}** ({row['f1_low']:.1f} – {row['f1_high']:.1f})"
    words += f" | {row['share']:.1f} | {row['flagged']:.1f}"
    overlap = f" | {row['iou']:.3f} | {row['rho']:.3f}" if "iou" in row else ""
    return f"| {name} | {row['documents']} | {words}{overlap} | {row['ece']:.3f} |"


def _print_translations(documents: Sequence[LabelledAnswer], training: Sequence[LabelledAnswer]) -> None:
    """Print the figures of answers whose text has a translation in `training`, with and without training on it.

    Each half of the texts is left out of one training, so that both learn from as many. The choice of the halves moves F1
    by a point: :data:`HALVINGS` of them are summed.
    """
    texts = [text for text in text_groups([*documents, *training]) if {*map(id, text)} & {*map(id, training)}]
    by_name: dict[str, list[tuple[LabelledAnswer, Prediction]]] = {}
    for halving in range(HALVINGS):
        half = {id(doc): number >> halving & 1 for number, text in enumerate(texts) for doc in text}
        tested = [doc for doc in documents if id(doc) in half]
        by_left_out = [_fit_predict(tested, [doc for doc in training if half[id(doc)] != out]) for out in (0, 1)]
        for at, doc in enumerate(tested):
            own = half[id(doc)]
            by_name.setdefault("translations learned from", []).append((doc, by_left_out[1 - own][at]))
            by_name.setdefault("no translation learned from", []).append((doc, by_left_out[own][at]))
    for name, pairs in by_name.items():
        for key, row in summary(*zip(*pairs, strict=True)).items():
            if key[0] != "all":
                sys.stdout.write(f"{_line(f'{name}: ' + ' '.join(key), row)}\n")


def _fit_predict(documents: Sequence[LabelledAnswer], training: Sequence[LabelledAnswer]) -> list[Prediction]:
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "lexical.safetensors"
        weights.write_bytes(train(training))
        pair = _pair(weights)
    return [_predict(document, *pair) for document in documents]


if __name__ == "__main__":
    main()
