"""Labels beside points, at places where they cover nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["place"]

_AROUND = ((1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def place(axes: Any, points: Sequence[tuple[float, float]], texts: Sequence[str], size: float = 7) -> list[str]:
    """Write labels beside points so that none covers another label or a point, each beside its own point.

    Points at one place get one label. A label that fits nowhere is left out.

    Args:
        axes: whose limits are set.
        points: in data coordinates.
        texts: one a point.
        size: of the font.

    Returns:
        The texts that were left out.
    """
    canvas = axes.figure
    canvas.draw_without_rendering()
    renderer = canvas.canvas.get_renderer()
    scale = canvas.dpi / 72
    pixels = axes.transData.transform(points) if len(points) else []
    together: dict[tuple[int, int], list[int]] = {}
    for number, (x, y) in enumerate(pixels):
        together.setdefault((round(x / (2 * scale)), round(y / (2 * scale))), []).append(number)
    taken = [_box(x, y, 3.2 * scale, 3.2 * scale) for x, y in pixels]
    frame = axes.get_window_extent(renderer)
    left_out = []
    for numbers in together.values():
        text = _joined([texts[number] for number in numbers])
        x, y = pixels[numbers[0]]
        label = axes.annotate(
            text,
            points[numbers[0]],
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=size,
            ha="center",
            va="center",
            annotation_clip=False,
        )
        extent = label.get_window_extent(renderer)
        half_width, half_height = extent.width / 2, extent.height / 2
        for ring in (1.0, 2.2, 3.6):
            free = next(
                (
                    (dx, dy)
                    for sx, sy in _AROUND
                    if (
                        box := _box(
                            x + (dx := sx * (half_width + 3.5 * scale * ring)),
                            y + (dy := sy * (half_height + 2.5 * scale * ring)),
                            half_width,
                            half_height,
                        )
                    )
                    and frame.x0 - 6 * scale <= box[0]
                    and box[1] <= frame.x1 + 12 * scale
                    and frame.y0 - 2 * scale <= box[2]
                    and box[3] <= frame.y1 + 8 * scale
                    and not any(_overlap(box, other) for other in taken)
                ),
                None,
            )
            if free:
                label.set_position((free[0] / scale, free[1] / scale))
                taken.append(_box(x + free[0], y + free[1], half_width, half_height))
                break
        else:
            label.remove()
            left_out += [texts[number] for number in numbers]
    return left_out


def _joined(texts: Sequence[str], most: int = 4) -> str:
    """Texts of points at one place, in lines of two."""
    unique = [*dict.fromkeys(texts)]
    shown = unique[:most] + ([f"+{len(unique) - most}"] if len(unique) > most else [])
    return " ".join(shown)


Box = tuple[float, float, float, float]


def _box(x: float, y: float, half_width: float, half_height: float) -> Box:
    return x - half_width, x + half_width, y - half_height, y + half_height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
