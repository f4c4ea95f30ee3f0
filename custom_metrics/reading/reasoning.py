"""A model's reasoning, by the marks of ``reasoning.tsv``: what stands behind it, and whether it ever ended.

A thought that a prompt or an output opened, and nothing closed, is *unfinished*: there is no answer. The same holds for an
output without marks that begins as models think aloud ("Okay, so the user asks ...") and stops inside a sentence.
"""

from __future__ import annotations

import re
from collections import deque
from functools import cache, lru_cache
from typing import NamedTuple

from custom_metrics.usage import shipped_rows

_END = 200  # characters
_SENTENCE_ENDS = tuple(".!?:。！？।۔؟…)]}\"'”’»*`_>")
# The last line of a thought that came to its end: what prompts of ours want to hear.
_CONCLUSION = re.compile(
    r"(?:\A|[\n:])\W*(?:yes, answer is present|i don['’]t know|unanswerable|yes|no)\W*\Z", re.IGNORECASE
)
_SPECIAL = ("<|", "[THINK]")  # tokens that backends leave out when they decode


class _Marks(NamedTuple):
    openings: re.Pattern[str]  # of an output, at its beginning or anywhere
    closings: re.Pattern[str]  # those that count alone
    blocks: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]  # opening and closing of those that do not
    spoken: re.Pattern[str]
    of_prompt: re.Pattern[str]  # an opening with which a prompt ends


@cache
def _marks() -> _Marks:
    rows = shipped_rows("custom_metrics.reading", "reasoning.tsv")
    alone = [row for row in rows if row["alone"] == "yes"]

    def opening(row: dict[str, str]) -> str:
        return rf"\A\s*(?:{row['opening']})" if row["where"] == "start" else row["opening"]

    def any_of(patterns: list[str]) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in patterns if pattern), re.IGNORECASE)

    blocks = [row for row in rows if row["alone"] == "no" and row["where"] != "spoken"]
    prompts = [row["opening"] for row in rows if row["where"] != "spoken" and row["opening"]]
    return _Marks(
        openings=any_of([opening(row) for row in alone if row["opening"]]),
        closings=any_of([row["closing"] for row in alone]),
        blocks=tuple((any_of([opening(row)]), any_of([row["closing"]])) for row in blocks),
        spoken=re.compile(
            rf"\s*(?:{'|'.join(row['opening'] for row in rows if row['where'] == 'spoken')})", re.IGNORECASE
        ),
        of_prompt=re.compile(rf"(?:{'|'.join(prompts)})\s*\Z", re.IGNORECASE),
    )


@lru_cache(maxsize=256)  # models repeat themselves
def after_reasoning(text: str) -> str:
    """A model's output without its reasoning; empty where that never ends. Text without reasoning comes back unchanged."""
    marks = _marks()
    for opening, closing in marks.blocks:
        text = _without_blocks(text, opening, closing)
    last = deque(marks.closings.finditer(text), maxlen=1)
    if last:
        text = text[last[0].end() :]
    elif marks.spoken.match(text) and _stops_inside(text):
        return ""
    opened = marks.openings.search(text)
    return text[: opened.start()] if opened else text


def _without_blocks(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    kept, start = [], 0
    while opened := opening.search(text, start):
        kept.append(text[start : opened.start()])
        closed = closing.search(text, opened.end())
        if not closed:
            return "".join(kept)
        start = closed.end()
    return "".join([*kept, text[start:]]) if start else text


def _stops_inside(text: str) -> bool:
    """Whether a text ends in the middle of a sentence."""
    text = text.rstrip()
    return not text.endswith(_SENTENCE_ENDS) and not _CONCLUSION.search(text[-_END:])


def with_opening(prompt: object, response: str) -> str:
    """A response behind the mark with which its prompt opened a thought, if it never closes that; else the response alone.

    So every later reader sees that the thought is unfinished. A mark that is a special token may have been closed by one,
    which backends leave out: then only a response that stops inside a sentence counts.
    """
    end = prompt[-_END:] if isinstance(prompt, str) else ""
    opened = _marks().of_prompt.search(end)
    if not opened or _marks().closings.search(response) or not response.strip():
        return response
    if opened[0].startswith(_SPECIAL) and not _stops_inside(response):
        return response
    return opened[0] + response
