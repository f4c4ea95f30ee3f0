"""The page that a person marks answers on: one HTML file that needs no server and no network.

Jinja writes the frame and the instructions. Answers, questions and references are in the page as JSON, and its script only
ever makes text of them. They stay as they are, to the character, because marks are offsets in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from custom_metrics.reading.spans import HALLUCINATION
from lm_eval_tasks.results.report.page import cleaned, environment_of

__all__ = ["INSTRUCTIONS", "marking_page"]

# What could end or hide a script element, and what cannot be in a file or would change how its source is read.
_ESCAPED = re.compile(
    "[<>&\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_BOLD = re.compile(r"\*\*(\S|\S.*?\S)\*\*", re.DOTALL)
_SIGN = re.compile(r"^(#+|[-*] )\s*")  # of a heading or an item
_KINDS = ("spans", "ratings", "preferences")

INSTRUCTIONS = {
    "spans": """
        Mark what is made up in each answer. Made up is what the reference does not bear out, and what contradicts it.

        - **Mark as little as possible**: only the words that would have to change or go for the answer to be borne out.
        - **What the reference does not speak of counts as made up**, even if you know it to be true.
        - What the answer leaves out is not made up. Nor is bad style, or a wrong word order.
        - "I don't know" is not made up, nor is what the answer says about itself.
        - Where nothing is made up, choose "Nothing made up". Where you cannot decide, choose "Cannot tell".
    """,
    "ratings": """
        Rate each answer by every question below it, on its own: do not let one rating decide another.

        - Judge by the reference that is shown, not by what you know.
        - Read the sentence of each value. Choose the highest that is true.
        - Where you cannot decide, choose "Cannot tell".
    """,
    "preferences": """
        Choose the answer that you prefer: for being faithful to the reference, appropriate to the question, and natural.

        - An answer that says what the reference does not bear out is worse, even if it is longer or better written.
        - The order of the two answers means nothing: it was drawn.
        - A tie is possible, but say so sparingly.
        - Where you cannot decide, choose "Cannot tell".
    """,
}
# Those of CLAPnq's human evaluation (Rosenthal et al. 2025, section 5), with a sentence for each value.
_ASPECTS = [
    {
        "name": "faithfulness",
        "question": "Is the answer faithful to the reference?",
        "values": [
            "No: most of it is not in the reference, or contradicts it.",
            "Rather not: something important is not borne out.",
            "Rather yes: only details are not borne out.",
            "Yes: the reference bears out all that it says.",
        ],
    },
    {
        "name": "appropriateness",
        "question": "Is the answer appropriate: useful, concise and complete?",
        "values": [
            "No: it does not answer the question.",
            "Rather not: important parts are missing, or hard to find in it.",
            "Rather yes: a detail is missing, or it is too long.",
            "Yes: it says what was asked, all of it, and no more.",
        ],
    },
]


def marking_page(content: Mapping[str, Any]) -> str:
    """The HTML of a page to mark answers on.

    Args:
        content: ``format`` (1), ``kind`` (``spans``, ``ratings`` or ``preferences``), ``title``, ``file`` (how the saved
            file's name begins), ``language``, ``direction`` (of texts without letters), ``categories`` (of marks; empty: one
            kind), ``suggest`` (whether the detector's spans are shown first), ``instructions`` (plain text, or Markdown's
            headings, lists and bold; empty: ours), ``aspects`` (of ratings: ``name``,
            ``question``, and ``values``, a sentence for each of 1 to 4; empty: the CLAPnq paper's two), and ``items``: each a
            ``line`` (what is known of a line of the saved file) and ``suggested`` spans.

    Returns:
        a page that loads nothing. The detector's spans are in it only if they are suggested.

    Raises:
        ValueError: there is nothing to mark, or the format or the kind is unknown.
    """
    from markupsafe import Markup, escape

    kind, items = content["kind"], content["items"]
    if content["format"] != 1 or kind not in _KINDS:
        raise ValueError(f"no page can be made of format {content['format']!r} and kind {kind!r}")
    if not items:
        raise ValueError("there are no answers to mark")
    spans = [[_span(span, content["categories"]) for span in item.get("suggested", [])] for item in items]
    suggest = bool(content["suggest"]) and kind == "spans"
    texts = {
        **content,
        "suggest": suggest,
        "aspects": content["aspects"] or _ASPECTS if kind == "ratings" else [],
        "items": [
            {"line": item["line"], "suggested": suggested if suggest else []}
            for item, suggested in zip(items, spans, strict=True)
        ],
    }
    written = json.dumps(texts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    environment = environment_of(__name__, "marking", cleaned)
    environment.filters["bold"] = lambda text: Markup(_BOLD.sub(r"<strong>\1</strong>", str(escape(cleaned(text)))))  # noqa: S704
    html: str = environment.get_template("marking.html.jinja").render(
        content=Markup(_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", written)),  # noqa: S704 - escaped for a script
        kind=kind,
        title=content["title"],
        categories=content["categories"],
        aspects=texts["aspects"],
        instructions=[*_blocks(content["instructions"].strip() or INSTRUCTIONS[kind])],
    )
    return html


def _span(span: list[Any], categories: list[str]) -> list[Any]:
    """A span of a detector with a category that the page offers."""
    start, end, category = span[:3]
    return [start, end, category if category in categories else next(iter(categories), HALLUCINATION)]


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Headings, lists and paragraphs of plain text or Markdown, each as its element's name and its lines or items."""
    for blank, lines in groupby((line.strip() for line in text.splitlines()), lambda line: not line):
        for element, block in groupby([] if blank else lines, _element):
            yield element, [_SIGN.sub("", line) for line in block]


def _element(line: str) -> str:
    return "h3" if line.startswith("#") else "li" if line.startswith(("- ", "* ")) else "p"
