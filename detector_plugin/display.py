"""One answer with its hallucinated spans marked: in a terminal's colours, or as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered
from custom_metrics.usage.printable import printable

__all__ = ["as_ansi", "as_html"]

# Colours of the terminal's own palette, readable on dark and light backgrounds; underlined for those who see no colour.
_ANSI = dict(zip((*CATEGORIES, HALLUCINATION), (31, 35, 33, 91, 36, 34, 31), strict=True))
_CSS = dict(
    zip(
        (*CATEGORIES, HALLUCINATION),
        ("#ffd6d6", "#ecd9ff", "#ffe4c2", "#ffc9de", "#d3ecff", "#dcdfff", "#ffd6d6"),
        strict=True,
    )
)


def _segments(text: str, spans: Sequence[Span]) -> list[tuple[str, str | None]]:
    """The text cut where a span begins or ends, each part with its category."""
    edges = sorted({0, len(text), *(min(at, len(text)) for span in spans for at in span[:2])})
    places = [(start, end) for start, end in pairwise(edges) if start < end]
    return [(text[start:end], kind) for (start, end), kind in zip(places, covered(places, spans), strict=True)]


def as_ansi(text: str, spans: Sequence[Span]) -> str:
    """The text with escape sequences for a terminal, and a line that says what the colours mean."""
    parts = []
    for part, kind in _segments(text, spans):
        shown = printable(part)
        parts.append(shown if kind is None else f"\x1b[4;{_ANSI.get(kind, 31)}m{shown}\x1b[0m")
    kinds = dict.fromkeys(span.category for span in spans)
    legend = "  ".join(f"\x1b[4;{_ANSI.get(kind, 31)}m{printable(kind)}\x1b[0m" for kind in kinds)
    return "".join(parts) + (f"\n\n{legend}" if legend else "")


def as_html(text: str, spans: Sequence[Span], language: str | None, title: str, caption: str) -> str:
    """An HTML page without scripts and without content from elsewhere. Text and names are escaped."""
    body = "".join(
        escape(part)
        if kind is None
        else f'<mark title="{escape(kind)}" style="background:{_CSS.get(kind, "#ffd6d6")}">{escape(part)}</mark>'
        for part, kind in _segments(text, spans)
    )
    kinds = dict.fromkeys(span.category for span in spans)
    legend = " ".join(f'<mark style="background:{_CSS.get(kind, "#ffd6d6")}">{escape(kind)}</mark>' for kind in kinds)
    lang = f' lang="{escape(language)}"' if language else ""
    return f"""<!doctype html>
<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title>
<style>
body {{ max-width: 46rem; margin: 2.5rem auto; padding: 0 1rem; font: 1.05rem/1.7 system-ui, sans-serif; color: #1c1c1c; }}
h1 {{ font-size: 1.15rem; }} p.caption {{ color: #555; font-size: .9rem; }}
div.answer {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
mark {{ padding: .1em .05em; border-bottom: 2px solid #b3261e; color: inherit; }} p.legend mark {{ padding: .1em .4em; }}
</style></head>
<body><h1>{escape(title)}</h1>
<div class="answer" dir="auto"{lang}>{body}</div>
<p class="legend">{legend}</p>
<p class="caption">{escape(caption)}</p>
</body></html>
"""
