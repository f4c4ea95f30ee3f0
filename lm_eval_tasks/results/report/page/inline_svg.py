"""Plots as part of a page: an SVG element with nothing in it that the page's policy refuses.

The page allows no ``style`` attributes, so their declarations become presentation attributes. Elements and attributes that
are not in the lists here are dropped: no script, no link, no image, nothing that loads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["inline_svg"]

_SVG = "http://www.w3.org/2000/svg"
_LINKS = ("href", "{http://www.w3.org/1999/xlink}href")
_ELEMENTS = frozenset(
    "svg g defs path line rect circle ellipse polyline polygon text tspan title desc clipPath use symbol".split()
)
_ATTRIBUTES = frozenset(
    "id class d x y x1 y1 x2 y2 cx cy r rx ry dx dy width height viewBox preserveAspectRatio transform points "
    "clipPathUnits role aria-hidden aria-label aria-labelledby lang".split()
)
_PRESENTATION = frozenset(
    "fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-dasharray "
    "stroke-dashoffset stroke-miterlimit opacity clip-path clip-rule font-family font-size font-style font-weight "
    "text-anchor dominant-baseline color visibility unicode-bidi direction".split()
)
_FONT = re.compile(r"(?P<before>.*?)(?P<size>\d+(?:\.\d+)?(?:px|pt))(?:/\S+)?\s+(?P<family>.+)", re.DOTALL)
_PIXELS = 1.45  # of the page for a point of the plot, whose letters have 9
_LOADS = re.compile(r"url\((?!#)|javascript:|expression", re.IGNORECASE)


def inline_svg(document: str, name: str) -> Markup:
    """An SVG document as markup of a page.

    Args:
        document: of a plot.
        name: of the plot, for messages.

    Raises:
        ValueError: it is no SVG document.
    """
    from lxml import etree
    from markupsafe import Markup

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        root = etree.fromstring(document.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"the plot {name} is no SVG document: {error}") from error
    if root.tag not in (f"{{{_SVG}}}svg", "svg"):
        raise ValueError(f"the plot {name} is no SVG document, but <{root.tag}>")
    for element in list(root.iter()):
        if not _is_known(element) and element.getparent() is not None:
            element.getparent().remove(element)
    for element in root.iter():
        _rewrite(element)
    _set_size(root)
    root.set("class", "plot")
    etree.cleanup_namespaces(root)
    return Markup(etree.tostring(root, encoding="unicode", with_tail=False))  # noqa: S704 - listed elements alone


def _set_size(root: Any) -> None:
    """The width at which letters of all plots have the size of the page's; the height follows from it."""
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    box = root.get("viewBox", "").split()
    if len(box) == 4:
        root.set("width", f"{_PIXELS * float(box[2]):.0f}")


def _is_known(element: Any) -> bool:
    if not isinstance(element.tag, str):  # an entity
        return False
    name = element.tag.removeprefix(f"{{{_SVG}}}")  # of another namespace, the name keeps it
    return name in _ELEMENTS


def _rewrite(element: Any) -> None:
    """Leave the attributes that are in the lists, and those that ``style`` declares."""
    given = {**element.attrib, **dict(_declarations(element.get("style", "")))}
    element.attrib.clear()
    for key, value in given.items():
        if key in _LINKS:
            if value.startswith("#"):
                element.set("href", value)
        elif key in _ATTRIBUTES | _PRESENTATION and not _LOADS.search(value):
            element.set(key, value)


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    """The declarations of a ``style`` attribute as presentation attributes; the shorthand ``font`` as its parts."""
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        font = _FONT.fullmatch(value) if name == "font" else None
        if font:
            yield "font-size", font["size"]
            yield "font-family", font["family"]
            for word in font["before"].split():
                if word.isdigit() or word == "bold":
                    yield "font-weight", word
                elif word in ("italic", "oblique"):
                    yield "font-style", word
        elif name in _PRESENTATION and value:
            yield name, value
