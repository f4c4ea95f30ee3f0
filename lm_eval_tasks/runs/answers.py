"""What a model said to one document, with what every filter and metric made of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from lm_eval_tasks.definition.metadata import OF_DETECTION

__all__ = [
    "Answer",
    "Reading",
    "answer_of",
    "cluster_of",
    "content_of",
    "differing_columns",
    "filter_of",
    "key_of",
    "reading_of",
    "response_of",
]

_IDS = ("query_id", "id")
_APART = ("subset",)  # where one question stands in two subsets
_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
_NOT_ASKED = frozenset((*OF_DETECTION, "passage"))  # columns that say how answers are tagged, and what hangs together


class Reading(NamedTuple):
    """What a filter made of an answer, and the values of the metrics for it.

    Attributes:
        answer: as the filter left it: a label, a text, JSON with spans.
        values: metric to the document's value; ``None`` where the document is not in the denominator. Rates that are
            corrected have a mapping, :class:`lm_eval_tasks.mfava.estimation.TaggedAnswer`.
    """

    answer: Any
    values: Mapping[str, Any]


class Answer(NamedTuple):
    """What a model said to one document.

    Attributes:
        key: what its question is called: ``query_id`` or ``id`` of the document, with its subset; else its content.
        content: digest of the document without the columns that say how answers are tagged. Equal digests mean that two
            models were asked the same about the same passages.
        doc: the document.
        prompt: as it was sent; empty where the file does not hold it.
        prompt_hash: SHA-256 of the prompt.
        response: as the model gave it, ``""`` where there is none.
        readings: filter to reading.
    """

    key: str
    content: str
    doc: Mapping[str, Any]
    prompt: str
    prompt_hash: str
    response: str
    readings: Mapping[str, Reading]


def answer_of(row: Mapping[str, Any]) -> Answer:
    """The answer in a row of a samples file, with the reading of the row's filter."""
    doc = row["doc"]
    content = content_of(doc)
    return Answer(
        key=key_of(doc) or content,
        content=content,
        doc=doc,
        prompt=_prompt(row.get("arguments")),
        prompt_hash=str(row.get("prompt_hash") or ""),
        response=response_of(row),
        readings={filter_of(row): reading_of(row)},
    )


def filter_of(row: Mapping[str, Any]) -> str:
    """The filter that a row of a samples file is of."""
    return str(row.get("filter", "none"))


def response_of(row: Mapping[str, Any]) -> str:
    response = row["resps"][0][0]
    return response if isinstance(response, str) else ""


def reading_of(row: Mapping[str, Any]) -> Reading:
    """What the filter of a row made of the answer."""
    filtered = row.get("filtered_resps")
    metrics = row.get("metrics")
    return Reading(
        answer=filtered[0] if isinstance(filtered, list) and filtered else None,
        values={name: row.get(name) for name in metrics if isinstance(name, str)} if isinstance(metrics, list) else {},
    )


def _prompt(arguments: Any) -> str:
    """The prompt in the harness's form of a request's arguments: ``{"gen_args_0": {"arg_0": prompt, ...}}``."""
    first = next(iter(arguments.values()), None) if isinstance(arguments, Mapping) else None
    prompt = first.get("arg_0") if isinstance(first, Mapping) else None
    return prompt if isinstance(prompt, str) else ""


def key_of(doc: Mapping[str, Any]) -> str:
    """What a document's question is called; empty where it has no name."""
    name = next((doc[column] for column in _IDS if isinstance(doc.get(column), (str, int))), None)
    if name is None:
        return ""
    apart = (doc[column] for column in _APART if isinstance(doc.get(column), str))
    return "/".join([*apart, str(name)])


def cluster_of(doc: Mapping[str, Any]) -> str:
    """What an annotated answer hangs together with: its passage; in samples of earlier versions the page, or the text that
    several people marked. Empty for a document of another kind.
    """
    if "spans" not in doc:
        return ""
    return str(doc.get("passage") or doc.get("url") or doc.get("answer") or "")


def content_of(doc: Mapping[str, Any]) -> str:
    """Digest of what a document asks: 16 bytes of SHA-256 over its columns, without those of the detector and passage."""
    asked = {column: value for column, value in doc.items() if column not in _NOT_ASKED}
    text = _ENCODE(asked)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def differing_columns(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The columns in which two documents differ, without those of the detector and passage, in order."""
    columns = {*first, *second} - _NOT_ASKED
    return sorted(column for column in columns if first.get(column) != second.get(column))
