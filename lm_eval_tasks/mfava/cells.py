"""Do the estimates hold on real answers? Each model's answers in a language are estimated as if nobody had annotated them.

A *cell* is what one model answered in one language. It is corrected by a calibration that has seen neither the language
nor the model, and the rates are held against what people marked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from custom_metrics.hallucination import Estimates, estimate
from custom_metrics.paired_rates import RATES
from custom_metrics.statistics.random_effects import FEWEST_LANGUAGES, predicted
from detector_plugin.calibration import Calibration

FEWEST = 15  # answers, to be a cell


class Cell(NamedTuple):
    """A model's answers in a language."""

    language: str
    model: str
    answers: int
    truth: float  # share of their words that people marked
    rates: Estimates  # by a calibration that saw neither language nor model
    mean_of_others: float  # hallucinated share in the other languages: what one would say without any detector


def cells(calibration: Calibration) -> list[Cell]:
    """The cells of a calibration's real answers that have 15 answers or more.

    There are none if fewer than three languages have real answers: without one of two, a single language is left, which
    says nothing of others.
    """
    real = {
        language: {
            model: kinds["real"].documents[np.array(kinds["real"].models) == model]
            for model in sorted(set(kinds["real"].models))
        }
        for language, kinds in sorted(calibration.languages.items())
        if "real" in kinds and kinds["real"].documents is not None
    }
    found = []
    for language, models in real.items():
        for model, own in models.items():
            others = {
                other: rest
                for other, by_model in real.items()
                if other != language and (rest := {name: by_model[name] for name in by_model.keys() - {model}})
            }
            if len(own) < FEWEST or len(others) < FEWEST_LANGUAGES:
                continue
            wild = np.stack([own[:, 0] + own[:, 1], own.sum(axis=1)], axis=1)
            shares = [_share(np.concatenate([*by_model.values()])) for by_model in others.values()]
            found.append(Cell(language, model, len(own), _share(own), estimate(wild, predicted(others)), fmean(shares)))
    return found


def _share(documents: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
    """Share of the words that are hallucinated."""
    return float((documents[:, 0] + documents[:, 2]).sum() / documents.sum())


def table(found: Sequence[Cell]) -> str:
    """The cells as a table to read; below it how far each rate is off, how wide its bounds are, how often they hold."""
    lines = [f"{'':4}{'model':40}{'answers':>8}{'truth':>7}  detected  estimated            Rogan-Gladen"]
    for cell in found:
        _, estimated, rogan_gladen = cell.rates
        lines.append(
            f"{cell.language:4}{cell.model[:39]:40}{cell.answers:>8}{cell.truth:>7.2f}{cell.rates.detected.value:>10.2f}"
            + "".join(f"{rate.value:>7.2f} [{rate.low:.2f}, {rate.high:.2f}]" for rate in (estimated, rogan_gladen))
        )
    lines.append(f"{'':28}{'bias':>8}{'off by':>8}{'width':>8}{'held':>8}")
    for number, name in enumerate(RATES):
        rates = [(cell.rates[number], cell.truth) for cell in found if not math.isnan(cell.rates[number].value)]
        off = [rate.value - truth for rate, truth in rates]
        width = fmean(rate.high - rate.low for rate, _ in rates)
        held = sum(rate.low <= truth <= rate.high for rate, truth in rates)
        lines.append(f"{name:28}{fmean(off):>+8.2f}{fmean(map(abs, off)):>8.2f}{width:>8.2f}{held:>5} of {len(found)}")
    nothing = [cell.mean_of_others - cell.truth for cell in found]
    lines.append(f"{'mean of other languages':28}{fmean(nothing):>+8.2f}{fmean(map(abs, nothing)):>8.2f}")
    return "\n".join(lines)
