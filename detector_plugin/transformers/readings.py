"""Windows of one document combined: the reading of each token of its answer, and the spans that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import Span
from detector_plugin.transformers.forms import Encoded
from detector_plugin.transformers.windows import Window, number_of_windows

__all__ = ["Document", "Reading", "spans_of"]


class Document:
    """One answer on its way: its tokens, and the most favourable reading of each so far."""

    def __init__(self, index: int, encoded: Encoded, classes: int, room: int) -> None:
        self.index = index
        self.encoded = encoded
        self.room = room
        self.left = number_of_windows(len(encoded.reference), len(encoded.answer), room)
        self.best = np.zeros((len(encoded.answer), classes), np.float32)
        self.borne_out = np.full(len(encoded.answer), -1, np.float32)
        self.failed = False  # a window of it can never be read

    def length(self, window: Window) -> int:
        (first, end), (start, stop), _ = window
        return len(self.encoded.fixed) + end - first + stop - start

    def tokens(self, window: Window) -> NDArray[np.int64]:
        """Places of the window's tokens, in order."""
        (first, end), (start, stop), _ = window
        encoded = self.encoded
        return np.sort(np.concatenate([encoded.fixed, encoded.reference[first:end], encoded.answer[start:stop]]))

    def take(
        self,
        window: Window,
        row: NDArray[np.int64],
        probabilities: NDArray[np.float32],
        categories: Sequence[str | None],
    ) -> None:
        """For each token that the window decides, keep the reading in which it is most likely borne out.

        Args:
            window: what was read.
            row: places of its tokens, as :meth:`tokens` gave them.
            probabilities: of each of these tokens' classes.
            categories: of the classes; ``None`` for borne out.
        """
        first, end = window.decided
        probabilities = probabilities[np.searchsorted(row, self.encoded.answer[first:end])]
        borne_out = probabilities[:, [category is None for category in categories]].sum(1)
        better = borne_out > self.borne_out[first:end]
        self.borne_out[first:end][better] = borne_out[better]
        self.best[first:end][better] = probabilities[better]
        self.left -= 1


class Reading(NamedTuple):
    """One window of a document, to be read.

    Attributes:
        document: on its way.
        window: of it.
        row: places of the window's tokens in the document, in order.
    """

    document: Document
    window: Window
    row: NDArray[np.int64]

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.document.encoded.ids[self.row]

    @property
    def types(self) -> NDArray[np.int64]:
        """0 for tokens of the first text, 1 for those of the second."""
        return self.document.encoded.types[self.row]


def spans_of(
    answer: str,
    offsets: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    categories: Sequence[str | None],
    threshold: float,
) -> list[Span]:
    """Spans of neighbouring tokens of one category, without white space at their ends.

    A span's probability is the mean of its tokens', each weighed by its characters, to four decimals.

    Args:
        answer: the text.
        offsets: first and end character of each token, in order.
        probabilities: of each token's classes.
        categories: of the classes; ``None`` for borne out. Classes may share one.
        threshold: a token is flagged where the categories together have this probability.
    """
    kinds = sorted({category for category in categories if category is not None})
    by_kind = np.stack([probabilities[:, [category == kind for category in categories]].sum(1) for kind in kinds], 1)
    spans: list[Span] = []
    weights: list[float] = []  # of each span: the sum of its characters' probabilities, and how many they are
    sizes: list[int] = []
    flagged = by_kind.sum(1)
    for place in np.flatnonzero(flagged >= threshold):
        start, end = (int(at) for at in offsets[place])
        start += len(answer[start:end]) - len(answer[start:end].lstrip())
        end = start + len(answer[start:end].rstrip())
        last = spans[-1] if spans else None
        if last:
            start = max(start, last.end)  # several tokens of one character
        if start >= end:
            continue
        kind = kinds[int(by_kind[place].argmax())]
        if last and last.category == kind and not answer[last.end : start].strip():
            spans[-1] = last._replace(end=end)
        else:
            spans.append(Span(start, end, kind))
            weights.append(0.0)
            sizes.append(0)
        weights[-1] += float(flagged[place]) * (end - start)
        sizes[-1] += end - start
    return [
        span._replace(probability=min(1.0, round(weight / size, 4)))
        for span, weight, size in zip(spans, weights, sizes, strict=True)
    ]
