"""The part of a model's output that is its answer: without reasoning, special tokens, invented turns, a JSON object.

Reasoning is known by the marks of ``reasoning.tsv``. A thought that a prompt or an output opened, and nothing closed, is
*unfinished*: there is no answer. So is one that thinks aloud without marks and stops inside a sentence.
"""

from __future__ import annotations

import json
import re
from collections import deque
from functools import cache, lru_cache
from typing import Any, NamedTuple

from custom_metrics.usage import shipped_rows
from custom_metrics.usage.printable import without_surrogates

# An answer that the model marks as such: the last such element, if only white space follows.
_HANDED_IN = re.compile(
    r"<(?P<tag>answer|final|final_answer|output|response|result|verdict|solution|conclusion)>(?P<inside>[^<]{0,20000})</(?P=tag)>\s*\Z",
    re.IGNORECASE,
)
# The start of a turn that is not the model's: what follows was invented.
_NEXT_TURN = re.compile(
    r"<\|im_start\|>\s*(?:user|system)|<\|start_header_id\|>\s*(?:user|system)|<\|user\|>|<start_of_turn>\s*user|<\|turn>\s*user|"
    r"\[INST\]|<\|(?:im_end|eot_id|end|endoftext|end_of_text|return|eom_id)\|>\s*\S|"
    r"\n[^\S\n]*\n(?:user|human|### ?(?:user|human|instruction)):\s"
    r"|\nQUESTION:[^\S\n]*\n",
    re.IGNORECASE,
)
# Tokens that no text holds, removed everywhere; and those that are also HTML or ordinary brackets, at the ends only.
_TOKENS = re.compile(
    r"<\|[a-zA-Z_]{1,30}\|>|<\uff5c[^<>\n]{1,40}\uff5c>|<end_of_turn>|<start_of_turn>|<turn\|>|<\|turn>|<</?SYS>>"
)
_EDGE_TOKEN = re.compile(r"</?s>|<eos>|<bos>|<pad>|\[/?INST\]|\[(?:BEGIN|END) FINAL RESPONSE\]")
_LEAD = re.compile(r"(?:\s+|<\|[a-zA-Z_]{1,30}\|>|</?s>)*")
_SPACE = re.compile(r"\s+")
# Colours, cursor movements and titles that a terminal would take out (ECMA-48), and the eight-bit form of their start.
_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[78=>]|\x1b"
)
_FENCED = re.compile(r"```[A-Za-z0-9]{0,20}[^\S\n]*\n(?P<inside>.*)\n[^\S\n]*```", re.DOTALL)
_ANSWER_KEYS = ("answer", "final_answer", "output", "response", "result")
_LONGEST_OBJECT = 20_000  # characters
_ROLE = re.compile(r"^\s*(?:(?:assistant|### ?(?:assistant|response))\s*(?::|\n|$)|model\s*\n)\s*", re.IGNORECASE)


def final_answer(response: str | None) -> str:
    """A model's answer without its reasoning, the debris of chat templates and terminal codes.

    Where the whole answer is a JSON object (also one in a code fence) with a text under ``answer``, ``final_answer``,
    ``output``, ``response`` or ``result``, that text is the answer. A response without any of these comes back
    unchanged, to the last space (lengths count it). Where something was removed, white space at the ends goes too.
    ``None``, anything else that is no text, and a reasoning block that never ends become ``""``.
    """
    if not isinstance(response, str):
        return ""
    text = _TERMINAL.sub("", response) if "\x1b" in response or "\x9b" in response else response
    text = after_reasoning(text)
    lead = _LEAD.match(text)
    start = lead.end() if lead else 0
    if text.startswith("[INST]", start) and (closing := text.find("[/INST]", start)) >= 0:  # a repeated instruction
        start = closing + len("[/INST]")
    turn = _NEXT_TURN.search(text, start)
    text = text[start : turn.start() if turn else None]
    text = _ROLE.sub("", _without_edge_tokens(_TOKENS.sub("", text))).strip()
    # what stands in a last <answer>, where that ends the text
    opening = text.rfind("<", 0, max(0, text.rfind("</"))) if text.endswith(">") else -1
    element = _HANDED_IN.match(text, opening) if opening >= 0 else None
    text = _unwrapped(element["inside"].strip() if element and element["inside"].strip() else text)
    return response if text == response.strip() else text


def _unwrapped(text: str) -> str:
    """The text under a key like ``answer``, where the whole text is a JSON object that has one."""
    if text[:1] not in ("{", "`") or len(text) > _LONGEST_OBJECT:
        return text
    fenced = _FENCED.fullmatch(text)
    try:
        fields: Any = json.loads(fenced["inside"] if fenced else text)
    except (ValueError, RecursionError):  # no JSON, a number of 5,000 digits, a thousand brackets
        return text
    if isinstance(fields, dict):
        by_key = {str(key).lower(): value for key, value in reversed(fields.items())}
        for key in _ANSWER_KEYS:
            value = by_key.get(key)
            if isinstance(value, list) and len(value) == 1:
                (value,) = value
            if isinstance(value, str):
                return without_surrogates(value.strip())  # the escapes of JSON can bring them in here
    return text


def _without_edge_tokens(text: str) -> str:
    start, end = 0, len(text)
    while start < end and (token := _EDGE_TOKEN.match(text, start) or _SPACE.match(text, start)):
        start = token.end()
    while start < end:
        if text[end - 1].isspace():
            end -= 1
            continue
        opening = max(text.rfind("<", start, end), text.rfind("[", start, end))
        if opening < 0 or not _EDGE_TOKEN.fullmatch(text, opening, end):
            break
        end = opening
    return text[start:end]


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
    spoken = [row["opening"] for row in rows if row["where"] == "spoken"]
    prompts = [row["opening"] for row in rows if row["where"] != "spoken" and row["opening"]]
    return _Marks(
        openings=any_of([opening(row) for row in alone if row["opening"]]),
        closings=any_of([row["closing"] for row in alone]),
        blocks=tuple((any_of([opening(row)]), any_of([row["closing"]])) for row in blocks),
        spoken=re.compile(rf"\s*(?:{'|'.join(spoken)})", re.IGNORECASE),
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
