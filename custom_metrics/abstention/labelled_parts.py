"""Labelled fields of an answer: ``**Final answer:** No``, ``{"answerable": false}``, ``<answer>no</answer>``,
``\\boxed{No}``, ``1. No``.

This module parses the form alone, in any language; :mod:`custom_metrics.abstention` decides which values are verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_EACH_END = 3000  # characters at the front, and as many at the end
_LONGEST_LABEL, _MOST_WORDS = 40, 4
_MARKUP = re.compile(r"[*_`#~|•$]+|^\s*>+")
_FORM = re.compile(r"[:：=→?？|]|->|\\boxed|^\W*\d{1,2}[\].):]|^#", re.MULTILINE)
_JSON = re.compile(
    r"[\"'](?P<label>[^\"'\n]{1,40})[\"']\s{0,9}:\s{0,9}"
    r"(?:\"(?P<value>[^\"\n]{0,400})\"|'(?P<single>[^'\n]{0,400})'|(?P<bare>[^\s,{}\[\]\"']{1,20})|(?P<empty>\[\s{0,9}\]))"
)
_ELEMENT = re.compile(r"<(?P<label>[\w-]{1,30})>(?P<value>[^<>]{0,400})</(?P=label)>")
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textit|mbox) ?\{([^{}\\]{0,200})\}")
_BOXED = re.compile(r"\\(?:boxed|fbox) ?\{([^{}]{0,200})\}")
_NUMBERED = re.compile(
    r"\s*(?P<label>(?:[^\W\d]{1,20} ?)?[\[(]?(?P<number>\d{1,2})[\])]?"
    r"(?: ?(?:[-–—,&+]|to|and) ?[\[(]?\d{1,2}[\])]?){0,9})(?:[.):：]|(?<=\]))\s*(?P<value>.*)"
)
_LISTED = re.compile(r"\s*(?:[*\-•]\s|[(\[]?\w{1,2}[)\].])")  # choices, steps: no one value of the label above
_LABELLED = re.compile(
    r"\s*(?P<label>[^\s:：=→?？.。][^:：=→?？.。]{0,39}?)\s*(?P<mark>[:：=?？]|→|[-=]+>)+\s*(?P<value>.*)"
)
# The first and the last cell of a table's row.
_ROW = re.compile(r"\|(?P<label>[^|]{1,80})\|(?:[^|]{0,400}\|){0,8}(?P<value>[^|]{0,400})\|")
NOTHING = "null"


class Field(NamedTuple):
    """A label and its value."""

    label: str
    value: str
    numbered: bool = False  # it is one of a list, about one of the passages


def fields(text: str) -> list[Field]:
    """The labels of an answer and their values, in their order; none where the text is prose."""
    text = text if len(text) <= 2 * MAX_EACH_END else text[:MAX_EACH_END] + "\n" + text[-MAX_EACH_END:]
    if text[:1] in "{[<`":  # fields of JSON, also of a broken one, or of XML elements
        matches = [match.groups() for pattern in (_JSON, _ELEMENT) for match in pattern.finditer(text)]
        pairs = [(label, next((v for v in values[:3] if v is not None), "None")) for label, *values in matches]
        if pairs:
            return [Field(label, NOTHING if value in ("None", "NULL") else value) for label, value in pairs]
    return list(_fields_of_lines(text)) if _FORM.search(text) else []


def _fields_of_lines(text: str) -> Iterator[Field]:
    text = _LATEX.sub(r" \1 ", text)
    boxed = _BOXED.findall(text)
    if boxed:
        yield Field("", boxed[-1])
        return
    pending_label = None  # a heading or a label with nothing behind it: the next line is what stands under it
    for line in text.splitlines():
        plain = _MARKUP.sub(" ", line).strip()
        if cells := _ROW.fullmatch(line.strip()):
            yield Field(cells["label"].strip(), cells["value"].strip())
            continue
        if not plain:
            continue
        if pending_label is not None and not _LISTED.match(line):
            yield Field(pending_label, plain)
            pending_label = None
            continue
        pending_label = None
        if numbered := _NUMBERED.match(plain):
            yield Field(numbered["label"], numbered["value"], True)
            continue
        labelled = _LABELLED.match(plain)
        if labelled and _is_label(labelled["label"], 2 if labelled["mark"] in "?？" else _MOST_WORDS):
            if labelled["value"].strip():
                yield Field(labelled["label"], labelled["value"])
            else:
                pending_label = labelled["label"]
        elif line.lstrip().startswith("#") and _is_label(plain, _MOST_WORDS):
            pending_label = plain


def _is_label(text: str, max_words: int) -> bool:
    return len(text) <= _LONGEST_LABEL and len(text.split()) <= max_words
