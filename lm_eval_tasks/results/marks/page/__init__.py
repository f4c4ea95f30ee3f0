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

INSTRUCTIONS = {
    "spans": """
        Read the question and the answer. Look up in the reference what the answer says, and mark what is **made up**:
        what the reference does not say, or says otherwise.

        - **Mark as little as is wrong**: the name, the number, the phrase. If a whole sentence is made up, mark all of it.
        - **What the reference does not speak of counts as made up**, even if you know that it is true.
        - Other words for what the reference says are not made up, nor is what follows from it at once.
        - Do not mark bad style, repetitions or greetings, nor where the answer says that it does not know.
        - If nothing is made up, choose "Nothing made up". If you cannot decide, choose "Cannot tell".
        - Do not skip answers: their order was drawn. You may stop after any of them.
    """,
    "ratings": """
        Read the question, the reference and the answer. Then rate the answer from 1 (no) to 4 (yes), by each of the
        questions below it and each by itself.

        - Only the reference counts, not what you know.
        - Choose the highest value whose sentence is true. If you cannot decide, choose "Cannot tell".
        - Do not skip answers: their order was drawn. You may stop after any of them.
    """,
    "preferences": """
        Read the question and the reference, then both answers. Which one would you rather have been given?

        - The better answer says what the reference says, answers the question completely, and is no longer than it need be.
        - Something made up weighs more than bad style.
        - The order of the two was drawn: it means nothing. A tie is possible, but say so sparingly.
        - Do not skip questions: their order was drawn, too. You may stop after any of them.
    """,
}
"""What annotators are told of each kind, in Markdown."""

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
            file's name begins), ``direction`` (of texts without letters), ``categories`` (of marks; empty: one kind),
            ``suggest`` (whether the detector's spans are shown first), ``instructions`` (Markdown's headings, lists,
            paragraphs, bold; empty: ours), and ``items``: each a ``line`` (the saved one, without what people say) and
            ``suggested`` spans.

    Returns:
        a page that loads nothing. The detector's spans are in it only if they are suggested.

    Raises:
        ValueError: there is nothing to mark, or the format or the kind is unknown.
    """
    from markupsafe import Markup, escape

    kind, items = content["kind"], content["items"]
    if content["format"] != 1 or kind not in INSTRUCTIONS:
        raise ValueError(f"no page can be made of format {content['format']!r} and kind {kind!r}")
    if not items:
        raise ValueError("there are no answers to mark")
    suggest = bool(content["suggest"]) and kind == "spans"
    aspects = _ASPECTS if kind == "ratings" else []
    of_items = [
        {
            "line": item["line"],
            "suggested": [_span(span, content["categories"]) for span in item["suggested"] if suggest],
        }
        for item in items
    ]
    texts = {**content, "suggest": suggest, "aspects": aspects, "items": of_items}
    written = json.dumps(texts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    environment = environment_of(__name__, "marking", cleaned)
    environment.filters["bold"] = lambda text: Markup(_BOLD.sub(r"<strong>\1</strong>", str(escape(cleaned(text)))))  # noqa: S704
    html: str = environment.get_template("marking.html.jinja").render(
        content=Markup(_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", written)),  # noqa: S704 - escaped for a script
        kind=kind,
        title=content["title"],
        categories=content["categories"],
        aspects=aspects,
        instructions=[*_blocks(content["instructions"].strip() or INSTRUCTIONS[kind])],
    )
    return html


def _span(span: list[Any], categories: list[str]) -> list[Any]:
    """A span of a detector with a category that the page offers."""
    start, end, category = span[:3]
    return [start, end, category if category in categories else next(iter(categories), HALLUCINATION)]


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Headings, items and paragraphs of plain text or Markdown: the name of an element, and the texts of those that follow
    each other."""
    blocks: list[tuple[str, str]] = []
    continues = False
    for line in map(str.strip, text.splitlines()):
        element = "h3" if line.startswith("#") else "li" if line.startswith(("- ", "* ")) else "p"
        if continues and element == "p" and line:
            blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]} {line}")
        elif line:
            blocks.append((element, _SIGN.sub("", line)))
        continues = bool(line) and element != "h3"
    for element, group in groupby(blocks, lambda block: block[0]):
        yield element, [content for _, content in group]
