"""Do bounds from a few labelled answers hold? ``python -m tests.benchmarks.labels [SHARED]``, part of ``make check-marks``.

NoMIRACL's authors released the answers of eleven models in nine languages. A simulated person labels some of them:

- as our robust label, where ours is the released parser's strict one;
- as our robust label, with some of all answers labelled otherwise, or of those alone whose label is in doubt.

Answers are drawn as `mark --kind labels` draws them. Cells are a language and a model; a row has all of them. *Held* is how
often the bounds had the share that all answers have by the person's labels: over all cells, and in the cell where that was
least often, of which 1,000 more draws are made. Bounds are to hold 93 % of the time in every cell. The command fails where
they do not.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, nomiracl_label, robust_label
from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.intervals import wilson
from lm_eval_tasks.detection.marked import KINDS, LABEL_FIELDS, MarkedLabels
from lm_eval_tasks.results.marks.draw import Draw, label_chances, ranking
from tests.benchmarks.marks import table
from tests.development.released_sample import released_answers

NUMBERS = (25, 50, 100)
ROUNDS, MORE_ROUNDS = 20, 1_000
LEAST = 0.93
METRICS = [KINDS[f"marked_{name}"] for name in ("balanced_error", "hallucination_rate", "error_rate")]
CASES = {"strict against robust": 0.0, "none wrong": 0.0, "1 % wrong": 0.01, "3 % wrong": 0.03, "5 % wrong": 0.05}
IN_DOUBT = "20 % of the doubtful wrong"
_SEED = 36

Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """A model's answers to both kinds of questions. Arrays are (answers,)."""

    answerable: NDArray[np.bool_]
    strict: NDArray[np.int64]
    robust: NDArray[np.int64]
    doubtful: NDArray[np.bool_]


def cells(shared: Path) -> dict[tuple[str, str], Cell]:
    """(language, model) to its answers."""
    rows = defaultdict(list)
    order = [ANSWER, NO_ANSWER, INVALID]
    for row in released_answers(shared):
        strict, robust = nomiracl_label(row["response"]), robust_label(row["response"], row["language"])
        doubtful = strict != robust or robust == INVALID
        answerable = row["subset"] == "relevant"
        rows[row["language"], row["model"]].append((answerable, order.index(strict), order.index(robust), doubtful))
    found = {}
    for key, of_cell in rows.items():
        answerable, strict, robust, doubtful = np.array(of_cell, int).T
        found[key] = Cell(answerable > 0, strict, robust, doubtful > 0)
    return found


def labelled(cell: Cell, case: str, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Our labels, and the person's."""
    if case == "strict against robust":
        return cell.strict, cell.robust
    share = np.where(cell.doubtful, 0.2, 0.0) if case == IN_DOUBT else CASES[case]
    wrong = rng.random(len(cell.robust)) < share
    return cell.robust, np.where(wrong, np.where(cell.robust == 0, 1, 0), cell.robust)


def rows_of(cell: Cell, ours: NDArray[np.int64], person: NDArray[np.int64], times: Floats, chances: Floats) -> Rows:
    """The rows of a run with the labels of drawn answers."""
    columns = [cell.answerable, ours, times, 1 / chances, person == 0, person == 1, cell.doubtful]
    values = np.column_stack(columns).astype(float)
    values[times == 0, 4:6] = np.nan
    assert values.shape[1] == len(LABEL_FIELDS)
    return Rows(values)


def alone(metric: MarkedLabels, rows: Rows) -> float:
    """The width of Wilson's bounds of the marks alone, of equal draws of each part."""
    drawn = rows.values[rows.values[:, 2] > 0]
    widths = []
    for answerable, numerator, denominator in metric.parts:
        part = drawn[drawn[:, 0] == answerable]
        labels = np.column_stack([part[:, 4:6], 1 - part[:, 4:6].sum(axis=1)])
        number = float(part[:, 2] @ (labels @ denominator))
        low, high = wilson(float(part[:, 2] @ (labels @ numerator)), number) if number else (0.0, 1.0)
        widths.append(high - low)
    return float(np.sqrt(np.sum(np.square(widths))) / len(widths))


def drawn_figures(
    cell: Cell,
    ours: NDArray[np.int64],
    person: NDArray[np.int64],
    number: int,
    metrics: Sequence[MarkedLabels],
    rng: np.random.Generator,
) -> Iterator[tuple[str, Figure, float]]:
    """The figures of one draw, and the widths of the marks alone."""
    chances = label_chances(cell.answerable, cell.doubtful)
    places, thresholds = ranking(chances, int(rng.integers(2**32)))
    times = np.isin(np.arange(len(ours)), places[:number]).astype(float)
    draw = Draw(0, (), (), thresholds)
    included = np.array([draw.inclusion(chance, number)[0] for chance in chances.tolist()])
    rows = rows_of(cell, ours, person, times, included)
    for metric in metrics:
        yield metric.name, metric.figure(rows), alone(metric, rows)


def truths(cell: Cell, person: NDArray[np.int64]) -> Mapping[str, float]:
    """The shares by the person's labels of all answers."""
    every = rows_of(cell, person, person, np.ones(len(person)), np.ones(len(person)))
    return {metric.name: metric.figure(every).value for metric in METRICS}


def held(
    cell: Cell, case: str, number: int, rounds: int, seed: int, metrics: Sequence[MarkedLabels] = METRICS
) -> dict[str, Floats]:
    """Of each metric (rounds, 3): whether its bounds held, their width, and that of the marks alone."""
    rng = np.random.default_rng([_SEED, seed])
    ours, person = labelled(cell, case, rng)
    truth, found = truths(cell, person), defaultdict(list)
    for _ in range(rounds):
        for name, figure, width in drawn_figures(cell, ours, person, number, metrics, rng):
            if np.isnan(truth[name]) or np.isnan(figure.value):
                continue
            is_held = figure.low - 1e-9 <= truth[name] <= figure.high + 1e-9
            found[name].append((is_held, figure.high - figure.low, width))
    return {name: np.array(each, float) for name, each in found.items()}


def main() -> None:
    released = cells(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared"))
    names, lines, missed = [" ".join(key) for key in released], [], []
    for case in (*CASES, IN_DOUBT):
        for number in NUMBERS:
            found = [held(cell, case, number, ROUNDS, seed) for seed, cell in enumerate(released.values())]
            for metric in METRICS:
                shares = [of_cell[metric.name][:, 0].mean() if metric.name in of_cell else 1.0 for of_cell in found]
                every = np.concatenate([of_cell[metric.name] for of_cell in found if metric.name in of_cell])
                worst = int(np.argmin(shares))
                again = held([*released.values()][worst], case, number, MORE_ROUNDS, worst, [metric])[metric.name]
                of_worst = again[:, 0].mean()
                share, width, by_marks = every.mean(axis=0)
                row = [case, number, metric.name.removeprefix("marked_"), f"{100 * share:.1f} %"]
                row += [f"{100 * of_worst:.1f} % ({names[worst]})", f"{width:.3f}", f"{by_marks:.3f}"]
                print(*row, sep="; ", file=sys.stderr, flush=True)
                missed += [" ".join(map(str, row))] if min(share, of_worst) < LEAST else []
                lines.append(row)
    header = "labels; draws; rate; held; held in the worst cell; width; width of the marks alone"
    print(*table(header, lines), sep="\n")
    if missed:
        sys.exit(f"bounds that hold less than {LEAST:.0%} of the time: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
