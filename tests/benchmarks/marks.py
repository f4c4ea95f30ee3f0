"""Do bounds from a few marked answers hold? ``python -m tests.benchmarks.marks [MIRROR]``, or ``make check-marks``.

Of each language of the mirror that has annotated answers, some are drawn by their words 1,000 times, their annotations
taken for marks and joined with what a detector expects of all. The truth is the share over all. `lexical` reads each
language by weights that never saw it. Two more detectors guess, and say the opposite of the truth.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.hallucination import estimate
from custom_metrics.statistics.marked import Draws, marked_difference, marked_mean
from custom_metrics.statistics.random_effects import expected_errors
from lm_eval_tasks.detection.marked import expected_share

ROUNDS = 1000
NUMBERS = (25, 50, 100)
_SEED = 24

Floats = NDArray[np.float64]


class Answers(NamedTuple):
    """The annotated answers of a language. Arrays are (answers,), of `counts` (answers, 4)."""

    words: Floats
    marked: Floats  # share of an answer's words
    expected: Floats  # share that the detector expects
    texts: list[str]  # what it is held against
    models: list[str]
    counts: NDArray[np.int64]  # words: true and false positives, false and true negatives


def held(bounds: list[tuple[float, float]], truth: float) -> str:
    """How often the bounds of all rounds hold the truth, and their mean width."""
    low, high = np.transpose(bounds)
    return f"{100 * np.mean((low <= truth) & (truth <= high)):.1f} %, {np.mean(high - low):.3f}"


def annotated_answers(mirror: str) -> dict[tuple[str, str], Answers]:
    """(language, kind) to the answers, read by held-out weights."""
    from lm_eval_tasks.detection.labelled_answers import labelled_answers, readable
    from lm_eval_tasks.mfava.held_out import predictions

    documents = readable(labelled_answers(mirror, ["mushroom", "mfava-gold"]))
    rows = defaultdict(list)
    for document, prediction in zip(documents, predictions(documents), strict=True):
        marks = prediction.hallucinated
        if len(marks):
            text = document.article or document.reference
            expected = expected_share(document.answer, prediction.flagged, document.language)
            row = (len(marks), marks.mean(), expected, text, document.model, prediction.counts)
            rows[document.language, document.annotations].append(row)
    return {
        key: Answers(*(np.array(part, float) for part in parts[:3]), *map(list, parts[3:5]), np.array(parts[5]))
        for key, of_language in sorted(rows.items())
        for parts in [list(zip(*of_language, strict=True))]
    }


def rounds(chances: Floats, number: int, seed: int = _SEED) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Which answers are drawn in each round, and how often."""
    rng = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        yield np.unique(rng.choice(len(chances), number, p=chances), return_counts=True)


def of_rates(answers: Answers, expected: Floats, number: int) -> tuple[str, str]:
    """Bounds of draws of this size: of marks joined with what is expected, and of marks alone."""
    share = answers.words / answers.words.sum()
    of_all = float(share @ expected)
    joined, alone = [], []
    for drawn, times in rounds(share, number):
        draws = Draws.of(times, clusters=[answers.texts[place] for place in drawn])
        mean = marked_mean(draws, answers.marked[drawn], expected[drawn], of_all)
        joined.append(mean.figure[1:3])
        alone.append(mean.alone[1:3])
    truth = float(share @ answers.marked)
    return held(joined, truth), held(alone, truth)


def of_difference(answers: Answers, number: int) -> str:
    """Bounds of the difference of two models that answered the same questions: here two halves of the answers."""
    half = len(answers.words) // 2
    order = np.random.default_rng(_SEED).permutation(len(answers.words))
    sides = order[:half], order[half : 2 * half]
    shares = [answers.words[side] / answers.words[side].sum() for side in sides]
    chances = (shares[0] + shares[1]) / 2
    bounds = []
    for drawn, times in rounds(chances, number):
        means = []
        for share, side in zip(shares, sides, strict=True):
            draws, places = Draws.of(times, share[drawn] / chances[drawn]), side[drawn]
            of_all = float(share @ answers.expected[side])
            means.append(marked_mean(draws, answers.marked[places], answers.expected[places], of_all))
        bounds.append(marked_difference((draws, *means))[3:5])
    return held(bounds, float(shares[0] @ answers.marked[sides[0]] - shares[1] @ answers.marked[sides[1]]))


def rogan_gladen_width(answers: Mapping[tuple[str, str], Answers], language: str, kind: str) -> float:
    """Width of the rate that is corrected by errors in all other languages; ``nan`` where there are too few."""
    own = answers[language, kind]
    others = {
        code: {model: each.counts[np.array(each.models) == model] for model in dict.fromkeys(each.models)}
        for (code, other_kind), each in answers.items()
        if other_kind == kind and code != language
    }
    flagged = own.counts[:, :2].sum(axis=1)
    figure = estimate(np.stack([flagged, own.words], axis=1), expected_errors(others)).rogan_gladen
    return figure.high - figure.low


def table(header: str, rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table in Markdown."""
    columns = header.split("; ")
    yield f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def main() -> None:
    answers = annotated_answers(sys.argv[1] if len(sys.argv) > 1 else "../shared/hub")
    rates: list[list[object]] = []
    others: list[list[object]] = []
    for (language, kind), each in answers.items():
        guesses, opposite = np.random.default_rng(_SEED).random(len(each.words)), 1 - each.marked
        truth, says = (each.words @ shares / each.words.sum() for shares in (each.marked, each.expected))
        width = rogan_gladen_width(answers, language, kind)
        rates.append([f"{language} {kind}", len(each.words), f"{truth:.2f}", f"{says:.2f}", f"{width:.2f}"])
        for number in NUMBERS:
            joined, alone = of_rates(each, each.expected, number)
            rates[-1].append(joined)
            more = [of_rates(each, reading, number)[0] for reading in (guesses, opposite)]
            others.append([f"{language} {kind}", number, joined, alone, *more, of_difference(each, number)])
            print(*others[-1], sep="; ", file=sys.stderr, flush=True)
    header = "answers; number; truth; the detector expects; Rogan-Gladen's width"
    print(*table(f"{header}; {'; '.join(f'{number} marks: held, width' for number in NUMBERS)}", rates), sep="\n")
    print()
    header = (
        "answers; marks; held, width; marks alone; a guessing detector; one that says the opposite; difference of two"
    )
    print(*table(header, others), sep="\n")


if __name__ == "__main__":
    main()
