"""Drawing with matplotlib: the style of all plots, and a figure as SVG or PNG.
It is imported where something is drawn."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lm_eval_tasks.results.report.plots.model_names import readable

__all__ = [
    "COLOURS",
    "INK",
    "MARKERS",
    "as_svg",
    "figure",
    "handle",
    "legend",
    "legend_height",
    "look",
    "segments",
    "tick_handle",
    "write_png",
]

INK = "#010203"
"""Stands for the colour of text and axes. In SVG it becomes ``currentColor``, so that a page decides."""

COLOURS = ("#0072b2", "#d55e00", "#008f68", "#c0609a", "#8c6d1f", "#6f6fc4", "#7a7a7a", "#b0413e")
"""Of series: after Okabe and Ito (2008), changed until each has a contrast of 3 to white and to near black."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
"""Of series: their shape tells them apart where their colour does not."""

_STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and selected
    "text.parse_math": False,  # a dollar sign in a model's name is one
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.7,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": False,
}
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"


@contextmanager
def _styled(name: str) -> Iterator[None]:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "plots need matplotlib: pip install 'lm-eval-grounded[report]'", name=error.name
        ) from error
    # The same figures give the same bytes, and no two plots of a page the same ids.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has a font for it
        yield


def figure(width: float, height: float) -> Any:
    """An empty figure of so many inches, without pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def look(series: int, is_mean: bool = False) -> Mapping[str, Any]:
    """The marker of a series; that of a mean is large and hollow."""
    colour = COLOURS[series % len(COLOURS)]
    return {
        "marker": MARKERS[series % len(MARKERS)],
        "markersize": 11 if is_mean else 5,
        "color": colour,
        "markerfacecolor": "none" if is_mean else colour,
        "markeredgecolor": colour,
        "markeredgewidth": 1.8 if is_mean else 0.5,
    }


def handle(series: int, is_mean: bool = False, line: float = 0) -> Any:
    """The marker of a series for a legend, with a line of this width through it."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="-" if line else "none", linewidth=line, **look(series, is_mean))


def tick_handle() -> Any:
    """A short tick for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", marker="|", markersize=7, color=INK, alpha=0.5)


def segments(axes: Any, ends: Sequence[tuple[tuple[float, float], tuple[float, float]]], **style: Any) -> None:
    """Straight lines of one style, as one path: a file of hundreds stays small."""
    if not ends:
        return
    nowhere = float("nan")
    x = [part for (x0, _), (x1, _) in ends for part in (x0, x1, nowhere)]
    y = [part for (_, y0), (_, y1) in ends for part in (y0, y1, nowhere)]
    axes.plot(x, y, solid_capstyle="butt", marker="none", zorder=2, **style)


def legend(made: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """A legend above the axes, in as many columns as there is room for; none without names."""
    if names:
        columns = _legend_columns(names, made.get_figwidth())
        made.legend(handles, names, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.4)


def legend_height(names: Sequence[str], width: float) -> float:
    """The height that a legend takes in a figure of this width, in inches."""
    return 0.1 + 0.2 * -(-len(names) // _legend_columns(names, width)) if names else 0.0


def _legend_columns(names: Sequence[str], width: float) -> int:
    widest = 0.6 + 0.078 * max(map(len, names))
    return max(1, min(len(names), int(width / widest)))


def as_svg(draw: Callable[[], Any], name: str, title: str, description: str) -> str:
    """What `draw` makes as an ``<svg>`` element with a name and a description.

    Args:
        draw: returns a figure.
        name: before every id.
        title, description: of the picture, as plain text.
    """
    from lxml import etree

    stream = io.BytesIO()
    with _styled(name):
        draw().savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, huge_tree=True)
    root = etree.fromstring(stream.getvalue(), parser)
    for gone in [*root.iter(f"{_SVG}metadata", f"{_SVG}style")]:  # the style would be that of the whole page
        gone.getparent().remove(gone)
    _rename_ids(root, name)
    for element in root.iter():
        for key in ("style", "fill", "stroke"):
            if INK in element.get(key, ""):
                element.set(key, element.get(key).replace(INK, "currentColor"))
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    root.set("style", "stroke-linejoin:round;stroke-linecap:butt")
    for place, (tag, words) in enumerate((("title", title), ("desc", description))):
        said = etree.Element(f"{_SVG}{tag}", id=f"{name}-{tag}")
        said.text = readable(words)
        root.insert(place, said)
    text: str = etree.tostring(root, encoding="unicode")
    return re.sub(r"\n\s*", "\n", text)


def write_png(draw: Callable[[], Any], path: Path, resolution: int = 200) -> None:
    """Write what `draw` makes as PNG on white, at so many dots an inch."""
    with _styled(path.stem):
        draw().savefig(path, format="png", dpi=resolution, facecolor="white")


def _rename_ids(root: Any, name: str) -> None:
    """Ids that something refers to begin with the plot's name; the others go."""
    used = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == _XLINK:
                used.add(value.removeprefix("#"))
                element.set(key, f"#{name}-{value.removeprefix('#')}")
            elif "url(#" in value:
                used.update(re.findall(r"url\(#([^)]+)\)", value))
                element.set(key, value.replace("url(#", f"url(#{name}-"))
    for element in root.iter():
        if (known := element.get("id")) in used:
            element.set("id", f"{name}-{known}")
        elif known is not None:
            del element.attrib["id"]
