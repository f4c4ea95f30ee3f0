"""Texts to fuzz with: pieces of each parser's grammar in any order, whole, cut, and mixed with arbitrary text.

Pieces are written as one string, with a broken bar between them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION

# Every code point, halves of surrogate pairs too.
anything = st.text(st.characters(exclude_categories=()), max_size=12)


def pieces(joined: str) -> list[str]:
    """The pieces of a string, between broken bars."""
    return joined.split("¦")


# What Unicode, regular expressions and JSON treat apart.
ODD = pieces("\x00¦\x1b¦\x85¦\u2028¦\u200b¦\u00ad¦\u0130¦\ufb03¦\ud800¦\udc00¦\U0001f600¦e\u0301")
WORDS = pieces("die Katze¦Berlin¦1879¦3.5¦猫は¦東京¦ไม่¦لا¦नहीं¦a¦ ¦\n¦\t¦. ¦؟¦。¦,")


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual four times of five. (``usual | usual | rare`` is what hypothesis makes ``usual | rare`` of.)"""
    return st.integers(0, 4).flatmap(lambda drawn: usual if drawn else rare)


def of(known: Sequence[str], most: int = 16) -> st.SearchStrategy[str]:
    """Texts made of pieces of a grammar, whole and cut."""
    begun = [piece[:end] for piece in known for end in {len(piece) // 2, len(piece) - 1} if end > 0]
    piece = mostly(st.sampled_from([*known, *WORDS, *ODD]), st.sampled_from(begun or [""]) | anything)
    return st.lists(piece, max_size=most).map("".join)


_TAG_NAMES = [*CATEGORIES, HALLUCINATION, *"ENTITY entty contridictory unverified delete mark b emphasis".split()]
TAGS = [
    *(f"<{name}>" for name in _TAG_NAMES),
    *(f"</{name}>" for name in _TAG_NAMES),
    *pieces("<entity probability=\"0.5\">¦<entity probability='2'>¦<entity probability=nan>¦< entity >¦<entity/>"),
    *pieces("<¦>¦</¦&lt;¦&amp;lt;¦<3"),
]
tagged = of(TAGS)

REASONING = pieces("<think>¦</think>¦◁think▷¦◁/think▷¦[THINK]¦[/THINK]¦<thought>¦</reasoning>")
TEMPLATE = [
    *pieces("<|channel|>final<|message|>¦<|channel|>¦<|im_start|>user¦<|im_end|>¦<|start_header_id|>"),
    *pieces("[INST]¦[/INST]¦<s>¦</s>¦<</SYS>>¦<start_of_turn>user¦<\uff5cend\uff5c>"),
    *pieces("\n\nUser: ¦\n\n### Instruction:\n¦\nQUESTION:\n¦assistant\n¦model\n¦\x1b[31m¦\x1b]0;title\x07¦\x9b2J"),
]
WRAPPING = pieces('{"answer": "¦"}¦{"answer": ["¦"]}¦```json\n¦\n```¦{"Answer": ¦null¦}¦"\\ud800"¦[[[[¦"')
PHRASES = [
    *pieces("Yes, answer is present¦I don't know¦I don’t know¦answer is not present¦[3]¦Context 1: ¦[1] ¦unanswerable"),
    *pieces("The context does not mention¦I cannot say ¦Please answer the question¦no¦Nein¦Yes. ¦不知道¦わかりません"),
    *pieces("Ich weiß es nicht¦Die Dokumente enthalten keine Angaben dazu"),
]
PROMPT = [
    *pieces("QUESTION: ¦CONTEXTS:\n¦OUTPUT:¦[1] Berlin: Berlin is a city.\n¦[11] Paris: The capital.\n"),
    *pieces("Remember to read the contexts carefully.¦## Answer:¦agent: ¦<div>¦&nbsp;¦\\frac{1}{2}¦ha¦the "),
    *pieces("def f(x):\n    return x\n¦import os\n¦qzx vkbj wpfgh ¦#$%&¦ф"),
]
answer = of([*REASONING, *TEMPLATE, *WRAPPING, *PHRASES, *PROMPT])

verdict = of(
    [
        *pieces("Rating: ¦Score¦**Rating**¦Preference: ¦preferred answer is ¦> ¦(1-4)¦: ¦| Rating | ¦\n"),
        *pieces('3¦4/4¦2 out of 4¦3.5¦2-3¦three¦A¦B¦tie¦a draw¦Answer A¦\\boxed{2}¦{"rating": 3}'),
        *REASONING,
    ]
)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=6,
)
places = st.integers(-2, 12) | st.floats() | st.none() | st.booleans() | anything


def like(example: Any) -> st.SearchStrategy[Any]:
    """JSON like an example, which may hold strategies: here and there a part is missing, or is something else.

    A list of the example says what a list may hold, in any number.
    """
    if isinstance(example, st.SearchStrategy):
        usual = example
    elif isinstance(example, dict):
        fields = {name: like(value) for name, value in example.items()}
        usual = mostly(st.fixed_dictionaries(fields), st.fixed_dictionaries({}, optional={**fields, "x": json_values}))
    elif isinstance(example, list):
        usual = st.lists(st.one_of([like(value) for value in example]), max_size=3)
    else:
        usual = st.just(example)
    return mostly(usual, json_values)


def cut(contents: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Files that end early, or hold a byte more."""
    place = st.tuples(contents, st.integers(0, 2000), st.binary(max_size=1))
    return place.map(lambda drawn: drawn[0][: drawn[1]] + drawn[2])


def lines(record: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """JSON lines, some of them cut or none at all."""
    written = record.map(json.dumps)
    ended = st.tuples(written, st.integers(0, 200)).map(lambda drawn: drawn[0][: drawn[1]])
    odd = st.sampled_from(["", " ", "[]", "null", "[" * 30, '{"a": NaN}', "1e999", "\r", '{"query_id": 1'])
    return st.lists(mostly(written, ended | odd | anything), max_size=5).map(
        lambda found: "\n".join(found).encode("utf-8", "surrogatepass")
    )


def table(cells: Sequence[str], columns: int, separator: str) -> st.SearchStrategy[bytes]:
    """Delimited tables with rows too short, too long and quoted without an end."""
    cell = st.sampled_from([*cells, *ODD[:6], '"', '""', '"a\n', "", "\r"]) | anything
    sized = mostly(st.lists(cell, min_size=columns, max_size=columns), st.lists(cell, max_size=columns + 2))
    ends = mostly(st.just("\n"), st.sampled_from(["\r\n", ""]))
    row = st.tuples(sized.map(separator.join), ends).map("".join)
    return st.lists(row, max_size=6).map(lambda rows: "".join(rows).encode("utf-8", "surrogatepass"))
