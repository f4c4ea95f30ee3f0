"""Do bounds from a few marked answers hold? ``python -m tests.benchmarks.marks [MIRROR]``, or ``make check-marks``.

Of each language of the mirror that has annotated answers, some are drawn as `mark` draws them, 1,000 times, their
annotations taken for marks and joined with what a detector expects of all. The truth is the share over all. `lexical`
reads each language by weights that never saw it. Two more detectors guess, and say the opposite of the truth.

Models that make up 1 to 12 % of their words are simulated: of the real answers of all languages, whose lengths are spread
wider, most lose their marks. Two halves of them are two models that answered the same questions. A difference is about
questions like these: in each round the run's questions, too, are drawn, with replacement, and the truth is that of all.

Bounds are to hold 93 % of the time or more, and not more than 99.9 % but where rates are under 5 %. What does not in 1,000
rounds, which leave 0.8 points to chance, is drawn 10,000 times. The command fails where bounds do not hold then.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from custom_metrics.hallucination import Estimates, estimate
from custom_metrics.statistics.marked import Draws, MarkedMean, marked_difference, marked_mean
from custom_metrics.statistics.random_effects import expected_errors
from lm_eval_tasks.detection.marked import expected_share
from lm_eval_tasks.results.marks.draw import Draw, ranking

ROUNDS, MORE_ROUNDS = 1_000, 10_000
NUMBERS = (25, 50, 100)
SMALL_RUN, OF_SMALL_RUN = 50, (25, 35)
LOW_RATES = ((0.01, 0.01), (0.01, 0.03), (0.02, 0.06), (0.06, 0.12), (0.12, 0.12))
"""Shares of words that two simulated models make up."""
LEAST, MOST, LOW = 0.93, 0.999, 0.05
"""How often bounds are to hold; at most only from this rate on."""
_SEED = 24
_ALL = "all"
_READ = ("words", "marked", "expected")

Floats = NDArray[np.float64]


class Answers(NamedTuple):
    """The annotated answers of a language. Arrays are (answers,), of `counts` (answers, 4)."""

    words: Floats
    marked: Floats  # share of an answer's words
    expected: Floats  # share that the detector expects
    texts: list[str]  # what it is held against
    models: list[str]
    counts: NDArray[np.int64]  # words: true and false positives, false and true negatives


class Held(NamedTuple):
    """How often the bounds of all rounds hold the truth, and their mean width."""

    share: float
    width: float
    rate: float  # of the words; of two models the mean

    @classmethod
    def of(cls, bounds: list[tuple[float, float]], truth: float | list[float], rate: float) -> Held:
        low, high = np.transpose(bounds)
        return cls(float(np.mean((low <= truth) & (truth <= high))), float(np.mean(high - low)), rate)

    @property
    def meets(self) -> bool:
        """Whether they hold as often as they are to."""
        return self.share >= LEAST and (self.share <= MOST or self.rate < LOW)

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} %, {self.width:.3f}"


def annotated_answers(mirror: str, names: Sequence[str] = ("mushroom", "mfava-gold")) -> dict[tuple[str, str], Answers]:
    """(language, kind) to the answers, read by held-out weights."""
    from lm_eval_tasks.detection.labelled_answers import labelled_answers, readable
    from tests.development.lexical.held_out import predictions

    documents = readable(labelled_answers(mirror, names))
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


def drawn_answers(chances: Floats, number: int, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Which answers are drawn, with which probability, and that of leaving them out."""
    places, thresholds = ranking(chances, seed)
    drawn, draw = np.array(places[:number]), Draw(seed, (), (), thresholds[:number])
    included, left_out = np.transpose([draw.inclusion(chance, number) for chance in chances[drawn].tolist()])
    return drawn, included, left_out


def rounds(chances: Floats, number: int, times: int) -> Iterator[tuple[NDArray[np.int64], Floats, Floats]]:
    """Which answers are drawn in each of so many rounds, with which probability, and that of leaving them out."""
    for seed in range(times):
        yield drawn_answers(chances, number, seed)


def of_rates(
    answers: Answers, expected: Floats, number: int, times: int = ROUNDS
) -> tuple[Held, Held] | tuple[str, str]:
    """Bounds of draws of this size: of marks joined with what is expected, and of marks alone; of all answers there are
    none to speak of."""
    if number >= len(answers.words):
        return _ALL, _ALL
    share = answers.words / answers.words.sum()
    joined, alone = [], []
    for round_of in rounds(share, number, times):
        mean = of_draw(answers, expected, round_of)
        joined.append(mean.figure[1:3])
        alone.append(mean.alone[1:3])
    truth = float(share @ answers.marked)
    found = Held.of(joined, truth, truth), Held.of(alone, truth, truth)
    if times == ROUNDS and not all(each.meets for each in found):
        return of_rates(answers, expected, number, MORE_ROUNDS)
    return found


def of_draw(answers: Answers, expected: Floats, drawn_of: tuple[NDArray[np.int64], Floats, Floats]) -> MarkedMean:
    """The rate by the marks of a draw, joined with what is expected of all answers."""
    drawn, included, left_out = drawn_of
    share = answers.words / answers.words.sum()
    texts = [answers.texts[place] for place in drawn]
    draws = Draws.of(share[drawn] / included, texts, left_out)
    return marked_mean(draws, answers.marked[drawn], expected[drawn], float(share @ expected))


def of_small_runs(answers: Answers, number: int, times: int = ROUNDS) -> Held:
    """Bounds of the rate of a run of fifty answers, another one in each round, of which half and more are marked."""
    bounds, truths = [], []
    for seed in range(times):
        run = np.random.default_rng((_SEED, seed)).choice(len(answers.words), SMALL_RUN, replace=False)
        words, marked, expected = (getattr(answers, name)[run] for name in _READ)
        share = words / words.sum()
        drawn, included, left_out = drawn_answers(share, number, seed)
        texts = [answers.texts[place] for place in run[drawn]]
        draws = Draws.of(share[drawn] / included, texts, left_out)
        bounds.append(marked_mean(draws, marked[drawn], expected[drawn], float(share @ expected)).bounds())
        truths.append(float(share @ marked))
    held = Held.of(bounds, truths, float(np.mean(truths)))
    return held if held.meets or times != ROUNDS else of_small_runs(answers, number, MORE_ROUNDS)


def halves(answers: Answers) -> tuple[Answers, Answers]:
    """Two models that answered the same questions."""
    half = len(answers.words) // 2
    order = np.random.default_rng(_SEED).permutation(len(answers.words))
    first, second = (
        Answers(*(part[side] for part in answers[:3]), [], [], answers.counts[side])
        for side in (order[:half], order[half : 2 * half])
    )
    return first, second


def means_of(
    models: tuple[Answers, Answers], number: int, seed: int, of_questions: bool
) -> tuple[Draws, MarkedMean, MarkedMean]:
    """The rates of two models, by a draw for both."""
    shares = [each.words / each.words.sum() for each in models]
    drawn, included, left_out = drawn_answers((shares[0] + shares[1]) / 2, min(number, len(shares[0])), seed)
    draws = [Draws.of(share[drawn] / included, None, left_out) for share in shares]
    first, second = (
        marked_mean(
            draw, each.marked[drawn], each.expected[drawn], float(share @ each.expected), of_questions=of_questions
        )
        for draw, share, each in zip(draws, shares, models, strict=True)
    )
    return draws[0], first, second


def of_pair(
    models: tuple[Answers, Answers], number: int, times: int = ROUNDS
) -> tuple[Held | str, Held | str, Held, Held]:
    """Bounds of both rates of a run, by draws for both, and of their difference over all questions; and of the difference
    by Student's t."""
    size = len(models[0].words)
    bounds: list[list[tuple[float, float]]] = [[], [], [], []]
    for seed in range(times):
        asked = np.random.default_rng((_SEED, seed)).integers(size, size=size)
        first, second = (each._replace(**{name: getattr(each, name)[asked] for name in _READ}) for each in models)
        draws, *means = means_of((first, second), number, seed, True)
        result = marked_difference((draws, *means))
        residuals, drawn = np.ravel(means[0].residuals - means[1].residuals), len(draws.weights)
        half = t.ppf(0.975, drawn - 1) * float(np.sqrt(residuals @ residuals / drawn / (drawn - 1)))
        by_t = result.difference - half, result.difference + half
        rates = [mean.bounds() for mean in means_of(models, number, seed, False)[1:]]
        for each, (low, high) in zip(bounds, [*rates, result[3:5], by_t], strict=True):
            each.append((low, high))
    truths = [float(each.words @ each.marked / each.words.sum()) for each in models]
    difference, mean = truths[0] - truths[1], (truths[0] + truths[1]) / 2
    targets = [(truths[0], truths[0]), (truths[1], truths[1]), (difference, mean), (difference, mean)]
    first_rate, second_rate, mover, student = (Held.of(b, *target) for b, target in zip(bounds, targets, strict=True))
    of_run = (_ALL, _ALL) if number >= size else (first_rate, second_rate)
    if times == ROUNDS and not all(each.meets for each in (*of_run, mover) if isinstance(each, Held)):
        return of_pair(models, number, MORE_ROUNDS)
    return *of_run, mover, student


def thinned(answers: Answers, rate: float, rng: np.random.Generator) -> Answers:
    """A model that makes up this share of its words: answers in random order keep their marks until it is reached.
    Lengths are spread wider, by factors of a log-normal distribution."""
    words = answers.words * rng.lognormal(0, 0.5, len(answers.words))
    order = rng.permutation(len(words))
    reached = np.cumsum(words[order] * answers.marked[order]) / words.sum()
    marked = np.zeros(len(words))
    marked[order[reached <= rate]] = answers.marked[order[reached <= rate]]
    return answers._replace(words=words, marked=marked)


def low_rates(answers: Mapping[tuple[str, str], Answers]) -> Iterator[list[object]]:
    """The rows of models that make up little."""
    real = [each for (_, kind), each in answers.items() if kind == "real"]
    arrays = [np.concatenate(parts) for parts in zip(*((*each[:3], each.counts) for each in real), strict=True)]
    models = halves(Answers(*arrays[:3], [], [], arrays[3]))
    for rates in LOW_RATES:
        rng = np.random.default_rng(_SEED)
        first, second = (thinned(each, rate, rng) for each, rate in zip(models, rates, strict=True))
        for number in NUMBERS:
            yield [f"{rates[0]:.0%} and {rates[1]:.0%}", number, *of_pair((first, second), number)]


def estimates(answers: Mapping[tuple[str, str], Answers], language: str, kind: str) -> Estimates:
    """The rates of a language, as flagged and as corrected by errors in all other languages."""
    own = answers[language, kind]
    others = {
        code: {model: each.counts[np.array(each.models) == model] for model in dict.fromkeys(each.models)}
        for (code, other_kind), each in answers.items()
        if other_kind == kind and code != language
    }
    flagged = own.counts[:, :2].sum(axis=1)
    return estimate(np.stack([flagged, own.words], axis=1), expected_errors(others))


def table(header: str, rows: Iterable[Sequence[object]]) -> Iterator[str]:
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
        corrected = estimates(answers, language, kind).rogan_gladen
        width = corrected.high - corrected.low
        rates.append([f"{language} {kind}", len(each.words), f"{truth:.2f}", f"{says:.2f}", f"{width:.2f}"])
        for number in NUMBERS:
            joined, alone = of_rates(each, each.expected, number)
            rates[-1].append(joined)
            more = [of_rates(each, reading, number)[0] for reading in (guesses, opposite)]
            others.append([f"{language} {kind}", number, joined, alone, *more, of_pair(halves(each), number)[2]])
            print(*others[-1], sep="; ", file=sys.stderr, flush=True)
    small = [[" ".join(key), *(of_small_runs(each, n) for n in OF_SMALL_RUN)] for key, each in answers.items()]
    low = [*low_rates(answers)]
    held = [f"{number} marks: held, width" for number in (*NUMBERS, *OF_SMALL_RUN)]
    for header, rows in (
        (f"answers; number; truth; the detector expects; Rogan-Gladen's width; {'; '.join(held[:3])}", rates),
        (
            "answers; marks; held, width; marks alone; a guessing detector; one that says the opposite; two models",
            others,
        ),
        (f"runs of {SMALL_RUN} answers; {'; '.join(held[3:])}", small),
        ("rates of two models; marks; held, width: the first; the second; their difference; by Student's t", low),
    ):
        print(*table(header, rows), sep="\n", end="\n\n")
    barred = [*rates, *others, *small, *(row[:-1] for row in low)]  # Student's t is there to be compared with
    if missed := [f"{row[0]}: {cell}" for row in barred for cell in row if isinstance(cell, Held) and not cell.meets]:
        sys.exit(f"bounds that do not hold {LEAST:.0%} to {MOST:.1%} of the time: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
