"""Reliability of a detector's probabilities: in bins of probability, the share of words that is hallucinated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_tasks.data.atomic import whole_file

__all__ = ["Bin", "bins", "calibration_error", "draw"]

NUMBER = 10


class Bin(NamedTuple):
    """Words whose probabilities are alike.

    Attributes:
        probability: their mean.
        share: of them that is hallucinated.
        words: how many.
    """

    probability: float
    share: float
    words: int


def bins(probabilities: NDArray[np.float64], hallucinated: NDArray[np.bool_]) -> list[Bin]:
    """Words in ten bins of equal width, from low to high; empty bins are left out."""
    number = np.minimum((probabilities * NUMBER).astype(int), NUMBER - 1)
    words = np.bincount(number, minlength=NUMBER)
    sums = np.bincount(number, probabilities, NUMBER), np.bincount(number, hallucinated, NUMBER)
    return [Bin(float(p / n), float(h / n), int(n)) for p, h, n in zip(*sums, words, strict=True) if n]


def calibration_error(probabilities: NDArray[np.float64], hallucinated: NDArray[np.bool_]) -> float:
    """Expected calibration error in ten bins of equal width (Guo et al. 2017, equation 3); ``nan`` without words."""
    found = bins(probabilities, hallucinated)
    words = sum(one.words for one in found)
    return sum(one.words * abs(one.probability - one.share) for one in found) / words if words else float("nan")


def draw(curves: Mapping[str, list[Bin]], path: Path) -> None:
    """A reliability diagram, as a picture in the format that the path's ending names.

    Args:
        curves: bins by what their words are of.
        path: of the picture.

    Raises:
        ModuleNotFoundError: matplotlib (``lm-eval-grounded[report]``) is not installed.
    """
    import matplotlib

    matplotlib.use("agg")
    # The same figures give the same bytes.
    matplotlib.rcParams.update({"svg.hashsalt": "lm-eval-grounded", "svg.fonttype": "none", "font.size": 11})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.6, 5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="as it says")
    for (name, curve), style in zip(curves.items(), ("o-", "s--", "^-."), strict=False):
        axes.plot([one.probability for one in curve], [one.share for one in curve], style, label=name)
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
