"""Texts longer than a model reads: overlapping windows over the reference and over the answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

__all__ = ["SMALLEST_ROOM", "Window", "cuts", "number_of_windows", "windows"]

SMALLEST_ROOM = 16
"""Tokens of reference and answer that a window must hold at the least."""
_OVERLAP = 4  # windows share a quarter of their tokens with the next


class Window(NamedTuple):
    """Tokens that are read at once, counted from the start of reference and answer.

    Attributes:
        reference: first and end of the reference's tokens.
        answer: first and end of the answer's tokens.
        decided: the part of `answer` that this window decides; where two windows overlap, each decides the half of the
            overlap it has more context for.
    """

    reference: tuple[int, int]
    answer: tuple[int, int]
    decided: tuple[int, int]


def windows(reference: int, answer: int, room: int) -> Iterator[Window]:
    """All windows of one document, so that every token of the answer meets every token of the reference.

    Where both are long, each has half of the room.

    Args:
        reference: number of its tokens.
        answer: number of its tokens.
        room: tokens a window may hold of both together; at least `SMALLEST_ROOM`.
    """
    reference_cuts, answer_parts = cuts(reference, answer, room)
    for part, core in answer_parts:
        for cut in reference_cuts:
            yield Window(cut, part, core)


def cuts(
    reference: int, answer: int, room: int
) -> tuple[list[tuple[int, int]], list[tuple[tuple[int, int], tuple[int, int]]]]:
    """The windows' parts of the reference; and of the answer, each with the part of it that it decides."""
    reference_cuts, answer_cuts = _both(reference, answer, room)
    middles = [(this[1] + following[0]) // 2 for this, following in pairwise(answer_cuts)]
    decided = zip([0, *middles], [*middles, answer], strict=True)
    return reference_cuts, list(zip(answer_cuts, decided, strict=True))


def number_of_windows(reference: int, answer: int, room: int) -> int:
    """The number of windows that :func:`windows` yields."""
    reference_cuts, answer_cuts = _both(reference, answer, room)
    return len(reference_cuts) * len(answer_cuts)


def _both(reference: int, answer: int, room: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    size = min(answer, max(room // 2, room - reference))
    return _cuts(reference, room - size), _cuts(answer, size)


def _cuts(length: int, size: int) -> list[tuple[int, int]]:
    """As few windows of a size as overlap by a quarter, at even distances; one where all fits."""
    if length <= size:
        return [(0, length)]
    overlap = size // _OVERLAP
    number = -(-(length - overlap) // (size - overlap))
    starts = [index * (length - size) // (number - 1) for index in range(number)]
    return [(start, start + size) for start in starts]
