"""Held-out check of the estimates on real answers: each model's answers in a language, as if nobody had annotated them.

A *cell* is the answers of one model in one language. It is corrected by a calibration that has seen neither the language
nor the model, and its rates are compared with what people marked.
`python -m tests.benchmarks.cells CALIBRATION` (a file, or a detector whose ships) prints the table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from custom_metrics.hallucination import RATES, Estimates, estimate
from custom_metrics.statistics.random_effects import FEWEST_LANGUAGES, expected_errors
from detector_plugin.calibration import Calibration, load

FEWEST = 15  # answers, to be a cell


class Cell(NamedTuple):
    language: str
    model: str
    answers: int
    truth: float  # share of their words that people marked
    rates: Estimates  # by a calibration that saw neither language nor model
    mean_of_others: float  # hallucinated share in the other languages: the baseline without a detector


def cells(calibration: Calibration) -> list[Cell]:
    """The cells of a calibration's real answers that have 15 answers or more.

    There are none if fewer than three languages have real answers: with one of two left out, a single language remains,
    from which nothing can be expected in others.
    """
    real = {
        language: {
            model: kinds["real"].documents[np.array(kinds["real"].models) == model]
            for model in sorted(set(kinds["real"].models))
        }
        for language, kinds in sorted(calibration.languages.items())
        if "real" in kinds and kinds["real"].documents is not None
    }
    results = []
    for language, models in real.items():
        for model, own in models.items():
            training = {
                code: other_models
                for code, by_model in real.items()
                if code != language and (other_models := {name: by_model[name] for name in by_model.keys() - {model}})
            }
            if len(own) < FEWEST or len(training) < FEWEST_LANGUAGES:
                continue
            counts = np.stack([own[:, 0] + own[:, 1], own.sum(axis=1)], axis=1)
            shares = [_share(np.concatenate([*by_model.values()])) for by_model in training.values()]
            rates = estimate(counts, expected_errors(training))
            results.append(Cell(language, model, len(own), _share(own), rates, fmean(shares)))
    return results


def _share(documents: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
    return float((documents[:, 0] + documents[:, 2]).sum() / documents.sum())


def table(cells: Sequence[Cell]) -> str:
    """The cells as a table in plain text, and below it each rate's bias, mean absolute error, width and coverage."""
    lines = [f"{'':4}{'model':40}{'answers':>8}{'truth':>7}  detected  estimated            Rogan-Gladen"]
    for cell in cells:
        _, estimated, rogan_gladen = cell.rates
        lines.append(
            f"{cell.language:4}{cell.model[:39]:40}{cell.answers:>8}{cell.truth:>7.2f}{cell.rates.detected.value:>10.2f}"
            + "".join(f"{rate.value:>7.2f} [{rate.low:.2f}, {rate.high:.2f}]" for rate in (estimated, rogan_gladen))
        )
    lines.append(f"{'':28}{'bias':>8}{'off by':>8}{'width':>8}{'held':>8}")
    for number, name in enumerate(RATES):
        rates = [(cell.rates[number], cell.truth) for cell in cells if not math.isnan(cell.rates[number].value)]
        err = [rate.value - truth for rate, truth in rates]
        width = fmean(rate.high - rate.low for rate, _ in rates)
        hits = sum(rate.low <= truth <= rate.high for rate, truth in rates)
        lines.append(f"{name:28}{fmean(err):>+8.2f}{fmean(map(abs, err)):>8.2f}{width:>8.2f}{hits:>5} of {len(cells)}")
    baseline = [cell.mean_of_others - cell.truth for cell in cells]
    lines.append(f"{'mean of other languages':28}{fmean(baseline):>+8.2f}{fmean(map(abs, baseline)):>8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(cells(load(sys.argv[1]))))
