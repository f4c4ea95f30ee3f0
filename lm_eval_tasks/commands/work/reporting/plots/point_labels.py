"""Labels beside points, at places where they cover nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Box", "arranged", "place"]

_AROUND = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
"""Directions, of which the first free one is taken: aslant first, where no bounds are drawn."""

_RINGS = (1.0, 2.2, 3.6)
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

    def holds(self, other: Box) -> bool:
        """Whether the other lies inside."""
        return (
            abs(self.x - other.x) <= self.half_width - other.half_width
            and abs(self.y - other.y) <= self.half_height - other.half_height
        )


def arranged(
    points: Sequence[Box],
    sizes: Sequence[tuple[float, float]],
    frame: Box,
    marks: Sequence[Box] = (),
    room: float = _ROOM,
) -> list[Box | None]:
    """A place beside each point for its label, so that no label meets a point or another label.

    Args:
        points: the marks to be labelled.
        sizes: half of width and height of each label.
        frame: labels stay inside.
        marks: all that must not be covered; default the points.
        room: between a mark and its label.

    Returns:
        For each point the label's box, ``None`` where none is free.
    """
    taken = [*(marks or points)]
    found: list[Box | None] = []
    for point, (width, height) in zip(points, sizes, strict=True):
        free = (
            box
            for box in _beside(point, width, height, room)
            if frame.holds(box) and not any(box.meets(other) for other in taken)
        )
        box = next(free, None)
        found.append(box)
        if box is not None:
            taken.append(box)
    return found


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
    """Write labels beside points. Points at one place get one label; what fits nowhere is left out.

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
    labels = [
        axes.annotate(
            _joined([texts[number] for number in numbers]),
            points[numbers[0]],
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=size,
            ha="center",
            va="center",
            annotation_clip=False,
        )
        for numbers in together.values()
    ]
    extents = [label.get_window_extent(renderer) for label in labels]
    sizes = [(extent.width / 2, extent.height / 2) for extent in extents]
    inside = axes.get_window_extent(renderer)
    frame = Box((inside.x0 + inside.x1) / 2, (inside.y0 + inside.y1) / 2, inside.width / 2, inside.height / 2)
    beside = [marks[numbers[0]] for numbers in together.values()]
    places = arranged(beside, sizes, frame, marks, _ROOM * unit)
    left_out = []
    for label, mark, box, numbers in zip(labels, beside, places, together.values(), strict=True):
        if box is None:
            label.remove()
            left_out += [texts[number] for number in numbers]
        else:
            label.set_position(((box.x - mark.x) / unit, (box.y - mark.y) / unit))
    return left_out


def _joined(texts: Sequence[str]) -> str:
    unique = [*dict.fromkeys(texts)]
    more = len(unique) - _MOST
    return ", ".join([*unique[:_MOST], *([f"+{more}"] if more > 0 else [])])
