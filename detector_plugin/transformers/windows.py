"""Texts longer than a model reads: overlapping windows over the reference and over the answer or each sentence of it, what
the windows say of each token combined, and the spans that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import Span, without_space
from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.forms import Encoded

_SMALLEST_ROOM = 16  # tokens of reference and answer that a window must hold at the least
_OVERLAP = 4  # windows share a quarter of their tokens with the next


def room_for(encoded: Encoded, max_length: int) -> int:
    """Tokens of reference and answer in a window of a document; UnusableDetector where there is too little room."""
    room = max_length - len(encoded.fixed)
    if room < _SMALLEST_ROOM:
        raise UnusableDetector(
            f"of max_length={max_length} tokens, prompt and question take {len(encoded.fixed)}; reference and answer need "
            "more room"
        )
    return room


def window_bounds(
    reference: int, answer: int, room: int
) -> tuple[list[tuple[int, int]], list[tuple[tuple[int, int], tuple[int, int]]]]:
    """The windows' parts of the reference; and of the answer, each with the part of it that it decides. Every part of the
    one is read with every part of the other. Where two parts of the answer overlap, each decides the half of the overlap it
    has more context for. Where both texts are long, each has half of the room.

    Args:
        reference, answer: numbers of tokens.
        room: tokens a window may hold of both together.
    """
    size = min(answer, max(room // 2, room - reference))
    answer_cuts = _even_windows(answer, size)
    middles = [(this[1] + following[0]) // 2 for this, following in pairwise(answer_cuts)]
    decided = zip([0, *middles], [*middles, answer], strict=True)
    return _even_windows(reference, room - size), list(zip(answer_cuts, decided, strict=True))


def _even_windows(length: int, size: int) -> list[tuple[int, int]]:
    """As few windows of a size as overlap by a quarter, at even distances; one where all fits."""
    if length <= size:
        return [(0, length)]
    overlap = size // _OVERLAP
    number = -(-(length - overlap) // (size - overlap))
    return [(start, start + size) for start in (index * (length - size) // (number - 1) for index in range(number))]


class Piece(NamedTuple):
    """A part of an answer that is read against the reference by itself: all of it, or a sentence."""

    start: int  # first and end character of the answer
    end: int
    encoded: Encoded


class Document:
    """One answer on its way, in its pieces. `by_piece`: a model gives classes to inputs, not to their tokens."""

    def __init__(
        self,
        index: int,
        pieces: Sequence[Piece],
        categories: Sequence[str | None],
        max_length: int,
        by_piece: bool = False,
    ) -> None:
        self.index = index
        self.pieces = pieces
        self._bounds = [
            window_bounds(len(encoded.reference), len(encoded.answer), room_for(encoded, max_length))
            for _, _, encoded in pieces
        ]
        # windows to be read
        self.windows_left = sum(len(of_reference) * len(of_answer) for of_reference, of_answer in self._bounds)
        self._first = [0, *accumulate(len(piece.encoded.answer) for piece in pieces)]  # token of each piece
        self.best = np.zeros((self._first[-1], len(categories)), np.float32)  # the most favourable reading so far
        self.failed = False  # whether a window can never be read
        self._by_piece = by_piece
        self._supported = [category is None for category in categories]
        self._best_support = np.full(len(self.best), -1, np.float32)

    def windows(self) -> Iterator[Window]:
        """The windows that are to be read."""
        for (_, _, encoded), first, (of_reference, of_answer) in zip(
            self.pieces, self._first, self._bounds, strict=False
        ):
            for answer_part, (start, end) in of_answer:
                decided = slice(first + start, first + end), encoded.answer[start:end]
                for reference_part in of_reference:
                    yield Window(self, *decided, encoded, encoded.window(reference_part, answer_part))

    def update(self, window: Window, probabilities: NDArray[np.float32]) -> None:
        """For each token that a window decides, keep the reading in which it is most likely borne out. `probabilities` are
        those of the classes of the window's tokens, or of the window as a whole (one row)."""
        decided = window.decided
        rows = np.broadcast_to(probabilities, (len(window.row), len(self._supported)))
        rows = rows[np.searchsorted(window.row, window.answer)]
        support = rows[:, self._supported].sum(1)
        better = support > self._best_support[decided]
        self._best_support[decided][better] = support[better]
        self.best[decided][better] = rows[better]

    def units(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """What was classified, tokens or pieces: (units, 2) first and end characters, (units, classes) probabilities. Of a
        piece longer than a window, the part that is least likely borne out counts."""
        if not self._by_piece:
            offsets = [piece.encoded.offsets + piece.start for piece in self.pieces]
            return np.concatenate(offsets or [np.zeros((0, 2), np.int64)]), self.best
        read = [
            (piece[:2], first + int(self._best_support[first:end].argmin()))
            for piece, first, end in zip(self.pieces, self._first, self._first[1:], strict=False)
            if first < end
        ]
        return np.array([place for place, _ in read]).reshape(-1, 2), self.best[[token for _, token in read]]


class Window(NamedTuple):
    """One window of a document: tokens that are read at once."""

    document: Document
    decided: slice  # of the document's tokens, those that it decides
    answer: NDArray[np.int64]  # places of these in the piece
    encoded: Encoded  # the piece
    row: NDArray[np.int64]  # places of its tokens in the piece, in order

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.encoded.ids[self.row]

    @property
    def types(self) -> NDArray[np.int64]:
        """0 for tokens of the first text, 1 for those of the second."""
        return self.encoded.types[self.row]


def spans_of(
    answer: str,
    offsets: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    categories: Sequence[str | None],
    threshold: float,
    joined: bool = True,
) -> list[Span]:
    """Spans of neighbouring tokens of one category, without white space at their ends; one each where not `joined`.

    A span's probability is the mean of its tokens', each weighed by its characters, to four decimals. A token is flagged
    where the categories of its classes, of which several may share one, together have the threshold's probability.
    """
    kinds = sorted({category for category in categories if category is not None})
    by_kind = np.stack([probabilities[:, [category == kind for category in categories]].sum(1) for kind in kinds], 1)
    spans: list[Span] = []
    weights: list[float] = []  # of each span: the sum of its characters' probabilities, and how many they are
    sizes: list[int] = []
    flagged = by_kind.sum(1)
    for index in np.flatnonzero(flagged >= threshold):
        start, end = without_space(answer, *map(int, offsets[index]))
        last = spans[-1] if spans else None
        if last:
            start = max(start, last.end)  # several tokens of one character
        if start >= end:
            continue
        kind = kinds[int(by_kind[index].argmax())]
        if joined and last and last.category == kind and not answer[last.end : start].strip():
            spans[-1] = last._replace(end=end)
        else:
            spans.append(Span(start, end, kind))
            weights.append(0.0)
            sizes.append(0)
        weights[-1] += float(flagged[index]) * (end - start)
        sizes[-1] += end - start
    return [
        span._replace(probability=min(1.0, round(weight / size, 4)))
        for span, weight, size in zip(spans, weights, sizes, strict=True)
    ]
