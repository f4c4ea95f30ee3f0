"""Labels beside points, at places where they cover nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Box", "Placed", "arranged", "place"]

_AROUND = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
"""Directions, of which the first free one is taken: aslant first, where no bounds are drawn."""

_RINGS = (1.0, 1.8, 2.6)
_ROOM = 4.0  # between a point and its label, in points of print
_MOST = 4  # texts of points at one place


class Box(NamedTuple):
    """A rectangle: its centre, and half of its width and height."""

    x: float
    y: float
    half_width: float
    half_height: float

    def meets(self, other: Box) -> bool:
        """Whether they share more than an edge."""
        return (
            abs(self.x - other.x) < self.half_width + other.half_width
            and abs(self.y - other.y) < self.half_height + other.half_height
        )

    def gap(self, other: Box) -> float:
        """The distance between them; 0 where they meet."""
        return math.hypot(
            max(0.0, abs(self.x - other.x) - self.half_width - other.half_width),
            max(0.0, abs(self.y - other.y) - self.half_height - other.half_height),
        )

    def holds(self, other: Box) -> bool:
        """Whether the other lies inside."""
        return (
            abs(self.x - other.x) <= self.half_width - other.half_width
            and abs(self.y - other.y) <= self.half_height - other.half_height
        )


class Placed(NamedTuple):
    """A label in its place: which of its texts, and its box."""

    text: int
    box: Box


def arranged(
    points: Sequence[Box],
    sizes: Sequence[Sequence[tuple[float, float]]],
    frame: Box,
    marks: Sequence[Box] = (),
    room: float = _ROOM,
) -> list[Placed | None]:
    """A place beside each point for its label: none meets a point or another label, and each is nearest to its own point.

    Args:
        points: the marks to be labelled.
        sizes: half of width and height of each text that a point's label may have, the one to be preferred first.
        frame: labels stay inside.
        marks: all that must not be covered; default the points.
        room: between a mark and its label.

    Returns:
        For each point the label that fits, ``None`` where none does.
    """
    every = [*(marks or points)]
    taken = [*every]
    found: list[Placed | None] = [None] * len(points)
    for choice in range(max(map(len, sizes), default=0)):
        for number, (point, texts) in enumerate(zip(points, sizes, strict=True)):
            if found[number] is not None or choice >= len(texts):
                continue
            for box in _beside(point, *texts[choice], room):
                covers = any(box.meets(other) for other in taken)
                if frame.holds(box) and not covers and _is_nearest(box, point, every):
                    found[number] = Placed(choice, box)
                    taken.append(box)
                    break
    return found


def _is_nearest(box: Box, point: Box, marks: Sequence[Box]) -> bool:
    """Whether no mark at another place is as near, so that nobody takes the label for another's."""
    own = box.gap(point)
    elsewhere = (
        other for other in marks if abs(other.x - point.x) + abs(other.y - point.y) > max(point.half_width, own)
    )
    return all(box.gap(other) > own for other in elsewhere)


def _beside(point: Box, width: float, height: float, room: float) -> Iterator[Box]:
    for ring in _RINGS:
        for x, y in _AROUND:
            dx = x * (width + room * ring)
            dy = y * (height + room * ring * (0.6 if x else 1))
            yield Box(point.x + dx, point.y + dy, width, height)


def place(
    axes: Any,
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    radii: Sequence[float],
    size: float = 7,
) -> list[str]:
    """Write labels beside points. Points at one place share a label; what fits nowhere is left out.

    Args:
        axes: whose limits and place are settled.
        points: in data coordinates.
        texts: one a point; empty for none.
        radii: of the points' marks, in points of print.
        size: of the font.

    Returns:
        The texts that were left out.
    """
    if not points:
        return []
    made = axes.figure
    renderer, unit = made.canvas.get_renderer(), made.dpi / 72
    pixels = axes.transData.transform(points)
    marks = [Box(x, y, radius * unit, radius * unit) for (x, y), radius in zip(pixels, radii, strict=True)]
    together: dict[tuple[int, int], list[int]] = {}
    for number, (x, y) in enumerate(pixels):
        if texts[number]:
            together.setdefault((round(x / unit / 2), round(y / unit / 2)), []).append(number)
    groups = [*together.values()]
    choices = [_texts([texts[number] for number in numbers]) for numbers in groups]
    probe = axes.text(0, 0, "", fontsize=size)

    def half_of(text: str) -> tuple[float, float]:
        probe.set_text(text)
        extent = probe.get_window_extent(renderer)
        return extent.width / 2, extent.height / 2

    sizes = [[half_of(text) for text in texts_of_one] for texts_of_one in choices]
    probe.remove()
    inside = axes.get_window_extent(renderer)
    frame = Box((inside.x0 + inside.x1) / 2, (inside.y0 + inside.y1) / 2, inside.width / 2, inside.height / 2)
    beside = [marks[numbers[0]] for numbers in groups]
    left_out = []
    for numbers, texts_of_one, found in zip(
        groups, choices, arranged(beside, sizes, frame, marks, _ROOM * unit), strict=True
    ):
        if found is None:
            left_out += [texts[number] for number in numbers]
            continue
        mark = marks[numbers[0]]
        axes.annotate(
            texts_of_one[found.text],
            points[numbers[0]],
            xytext=((found.box.x - mark.x) / unit, (found.box.y - mark.y) / unit),
            textcoords="offset points",
            fontsize=size,
            ha="center",
            va="center",
            annotation_clip=False,
        )
    return left_out


def _texts(texts: Sequence[str]) -> list[str]:
    """What to write beside points at one place, long and short: ``ar, de, en, fi, +3`` and ``ar, +6``."""
    unique = [*dict.fromkeys(texts)]
    found = [
        ", ".join([*unique[:most], *([f"+{len(unique) - most}"] if len(unique) > most else [])]) for most in (_MOST, 1)
    ]
    return [*dict.fromkeys(found)]
