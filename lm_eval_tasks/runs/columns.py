"""The answers in a samples file, in columns: numbers for every document, and each text where it stands in the file.

A run of 100,000 documents is a gigabyte of prompts and answers. :func:`read_answers` parses each row once and keeps of a
document its name, digests of what was asked, and the values of the metrics: a few hundred bytes. :class:`Answers` reads an
answer again from its place in the file when it is asked for.
"""

from __future__ import annotations

import json
import math
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from lm_eval_tasks.data.samples import read_placed_rows, read_row_at
from lm_eval_tasks.runs.answers import (
    Answer,
    answer_of,
    cluster_of,
    content_of,
    filter_of,
    key_of,
    reading_of,
    response_of,
)

__all__ = ["Answers", "Column", "Derive", "Readings", "digest_of", "read_answers"]

Derive = Callable[[Answer, str, bool], Mapping[str, Any]]
"""What else to keep: gets an answer with one filter's reading, without its prompt and key; the filter; and whether it is
the document's first row."""

_DIGEST = 16  # bytes
_BLOCK = 1024  # values that are packed together
_ROWS = 128  # rows whose values are put into columns together
_NOWHERE = -1
_PLAIN = {float, type(None)}  # types of what most columns hold


@dataclass(frozen=True)
class Column:
    """A value for every document.

    Attributes:
        numbers: (documents,) floats; ``nan`` where the value is ``None``, is absent or is no number.
        others: in order, the documents whose value is something else.
        _packed: those values.
        _slots: where in them each document's value is.
    """

    numbers: NDArray[np.float64]
    others: NDArray[np.int64]
    _packed: _Packed
    _slots: NDArray[np.int64]

    def __getitem__(self, document: int) -> Any:
        """A document's value as the file has it; whole numbers and booleans as floats."""
        if len(self.others):
            at = int(np.searchsorted(self.others, document))
            if at < len(self.others) and self.others[at] == document:
                return self._packed[int(self._slots[at])]
        number = float(self.numbers[document])
        return None if number != number else number

    @property
    def known(self) -> NDArray[np.bool_]:
        """(documents,): whether a document has a value."""
        found = ~np.isnan(self.numbers)
        found[self.others] = True
        return np.asarray(found)

    def other_values(self) -> Iterator[tuple[int, Any]]:
        """The documents of :attr:`others` with their values."""
        for document, slot in zip(self.others.tolist(), self._slots.tolist(), strict=True):
            yield document, self._packed[slot]

    def values(self) -> Iterator[Any]:
        """All documents' values, in order."""
        others = self.other_values()
        place, other = next(others, (_NOWHERE, None))
        for document, number in enumerate(self.numbers.tolist()):
            if document == place:
                yield other
                place, other = next(others, (_NOWHERE, None))
            else:
                yield None if number != number else number


@dataclass(frozen=True)
class Readings:
    """What a filter made of the answers.

    Attributes:
        places: (documents,) bytes at which the rows begin; negative for a document that the filter has not read.
        columns: metric to the values, in the order of the file.
        derived: what was asked to be kept beside.
    """

    places: NDArray[np.int64]
    columns: Mapping[str, Column]
    derived: Mapping[str, Column]

    @property
    def present(self) -> NDArray[np.bool_]:
        """(documents,): whether the filter has read the answer."""
        return np.asarray(self.places >= 0)


@dataclass(frozen=True)
class Answers(Sequence[Answer]):
    """What a model said to the documents of a task, in their order. An answer that is asked for is read again.

    Attributes:
        path: of the samples file.
        contents: (documents,) digests, of 16 bytes: :attr:`Answer.content`.
        prompts: (documents,) digests of :attr:`Answer.prompt_hash`; empty where there is none.
        responses: (documents,) :func:`digest_of` :attr:`Answer.response`.
        readings: filter to what it made of the answers.
        keys: :attr:`Answer.key` of each document.
        articles: that each document is about, its key where it names none; ``None`` where no document does.
        passages: :func:`~lm_eval_tasks.runs.answers.cluster_of` each document; ``None`` where all are empty.
        ids: document to its ``id``, where that is not its key.
    """

    path: Path
    contents: NDArray[np.bytes_]
    prompts: NDArray[np.bytes_]
    responses: NDArray[np.float64]
    readings: Mapping[str, Readings]
    keys: Sequence[str]
    articles: Sequence[str] | None
    passages: Sequence[str] | None
    ids: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.contents)

    @overload
    def __getitem__(self, at: int) -> Answer: ...
    @overload
    def __getitem__(self, at: slice) -> list[Answer]: ...
    def __getitem__(self, at: int | slice) -> Answer | list[Answer]:
        chosen = range(len(self))[at]
        return [*self.select(chosen)] if isinstance(chosen, range) else next(self.select([chosen]))

    def __iter__(self) -> Iterator[Answer]:
        return self.select(range(len(self)))

    def select(self, documents: Iterable[int]) -> Iterator[Answer]:
        """The answers to documents, read again.

        Raises:
            CorruptSource: the file has changed.
        """
        with self.path.open("rb") as stream:
            for document in documents:
                places = (int(readings.places[document]) for readings in self.readings.values())
                rows = [read_row_at(stream, place) for place in sorted(places) if place >= 0]
                answer = answer_of(rows[0])
                yield answer._replace(readings={filter_of(row): reading_of(row) for row in rows})

    def content(self, document: int) -> str:
        """:attr:`Answer.content` of a document."""
        return bytes(self.contents[document]).ljust(_DIGEST, b"\0").hex()


def read_answers(path: Path, derive: Derive | None = None) -> Answers:
    """The answers of a samples file.

    A document that comes twice counts once: ranks of a distributed run are padded so. A last line that was cut is left out,
    and the log says so.

    Args:
        path: of the file.
        derive: called once for each document and filter. Its values are kept in :attr:`Readings.derived`.

    Raises:
        CorruptSource: a line in the middle is no sample.
    """
    numbers: dict[int, int] = {}  # doc_id to the number of the document, as they come
    contents, prompts, responses = bytearray(), bytearray(), array("d")
    keys: list[str] = []
    articles: dict[int, str] = {}
    passages: dict[int, str] = {}
    ids: dict[int, str] = {}
    growing: dict[str, _Growing] = {}
    for place, row in read_placed_rows(path):
        number = numbers.setdefault(row["doc_id"], len(numbers))
        first = number == len(keys)
        if first:
            doc = row["doc"]
            content = content_of(doc)
            key = key_of(doc) or content
            contents += bytes.fromhex(content)
            prompts += _digest(str(row.get("prompt_hash") or ""))
            responses.append(digest_of(response_of(row)))
            keys.append(key)
            if passage := cluster_of(doc):
                passages[number] = passage
            if "article" in doc:
                articles[number] = str(doc["article"])
            if (identity := str(doc.get("id", key))) != key:
                ids[number] = identity
        name = filter_of(row)
        readings = growing.get(name)
        if readings is None:
            readings = growing[name] = _Growing()
        if readings.is_new(number):
            reading = reading_of(row)
            answer = Answer("", "", row["doc"], "", "", response_of(row), {name: reading})
            readings.put(number, place, reading.values, derive(answer, name, first) if derive is not None else {})
    order = sorted(range(len(numbers)), key=[*numbers].__getitem__)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return Answers(
        path,
        np.frombuffer(bytes(contents), dtype=f"S{_DIGEST}")[order],
        np.frombuffer(bytes(prompts), dtype=f"S{_DIGEST}")[order],
        np.array(responses)[order],
        {name: readings.grown(ranks) for name, readings in growing.items()},
        _Texts(keys[number] for number in order),
        _Texts(articles.get(number, keys[number]) for number in order) if articles else None,
        _Texts(passages.get(number, "") for number in order) if passages else None,
        {int(ranks[number]): identity for number, identity in ids.items()},
    )


@lru_cache(maxsize=128)  # models repeat themselves
def digest_of(text: str) -> float:
    """A number that equal texts share, and next to no others (48 bits): to keep in a column in place of a text."""
    return float(int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest(), "little"))


def _digest(text: str) -> bytes:
    """16 bytes; zeros of an empty text."""
    if not text:
        return bytes(_DIGEST)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


class _Texts(Sequence[str]):
    """Short texts in one piece of memory: a string of Python's own takes fifty bytes more."""

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self._bytes = b"".join(encoded)
        self._ends = np.cumsum([0, *map(len, encoded)])

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        chosen = range(len(self))[at]
        if isinstance(chosen, range):
            return [self[number] for number in chosen]
        return self._bytes[self._ends[chosen] : self._ends[chosen + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self._ends[1:].tolist():
            yield self._bytes[start:end].decode("utf-8", "surrogatepass")
            start = end


class _Packed:
    """JSON values, packed in blocks."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._open: list[Any] = []
        self._unpacked: tuple[int, list[Any]] = (_NOWHERE, [])

    def append(self, value: Any) -> None:
        self._open.append(value)
        if len(self._open) == _BLOCK:
            self._blocks.append(zlib.compress(json.dumps(self._open).encode(), 1))
            self._open = []

    def __getitem__(self, at: int) -> Any:
        block, place = divmod(at, _BLOCK)
        if block == len(self._blocks):
            return self._open[place]
        if self._unpacked[0] != block:
            self._unpacked = block, json.loads(zlib.decompress(self._blocks[block]))
        return self._unpacked[1][place]


class _GrowingColumn:
    """The values of rows as they come."""

    def __init__(self) -> None:
        self._numbers = array("d")
        self._others = array("q")  # rows
        self._packed = _Packed()

    def put(self, row: int, values: Sequence[Any]) -> None:
        """The values of a row and those that follow it, behind all that have come before."""
        numbers = self._numbers
        numbers.extend([math.nan] * (row - len(numbers)))
        if {*map(type, values)} <= _PLAIN:
            numbers.extend([math.nan if value is None else value for value in values])
            return
        for at, value in enumerate(values, row):
            number = math.nan
            with suppress(OverflowError):  # of 400 digits
                number = float(value) if isinstance(value, (int, float)) else math.nan
            if value is not None and number != number:
                self._others.append(at)
                self._packed.append(value)
            numbers.append(number)

    def grown(self, documents: NDArray[np.int64], number: int) -> Column:
        """The column of `number` documents, of which the rows are."""
        self._numbers.extend([math.nan] * (len(documents) - len(self._numbers)))
        numbers = np.full(number, np.nan)
        numbers[documents] = np.frombuffer(self._numbers, dtype=np.float64)
        others = documents[np.array(self._others, dtype=np.int64)]
        slots = np.argsort(others)
        return Column(numbers, others[slots], self._packed, slots)


class _Growing:
    """The readings of a filter, row by row as they come."""

    def __init__(self) -> None:
        self._places, self._documents = array("q"), array("q")
        self._seen = bytearray()
        self._columns: tuple[dict[str, _GrowingColumn], ...] = ({}, {})
        self._open: tuple[list[Mapping[str, Any]], ...] = ([], [])  # rows whose values are in no column yet

    def is_new(self, document: int) -> bool:
        return document >= len(self._seen) or not self._seen[document]

    def put(self, document: int, place: int, values: Mapping[str, Any], derived: Mapping[str, Any]) -> None:
        if document >= len(self._seen):
            self._seen.extend(bytes(document + 1 - len(self._seen)))
        self._seen[document] = True
        self._places.append(place)
        self._documents.append(document)
        for rows, row in zip(self._open, (values, derived), strict=True):
            rows.append(row)
        if len(self._open[0]) == _ROWS:
            self._close()

    def _close(self) -> None:
        """Put the open rows into their columns."""
        for columns, rows in zip(self._columns, self._open, strict=True):
            first = len(self._places) - len(rows)
            for name in dict.fromkeys(chain.from_iterable(rows)):
                columns.setdefault(name, _GrowingColumn()).put(first, [row.get(name) for row in rows])
            rows.clear()

    def grown(self, ranks: NDArray[np.int64]) -> Readings:
        """The readings of all documents; `ranks` are their places in the order of the documents."""
        self._close()
        documents = ranks[np.array(self._documents, dtype=np.int64)]
        places = np.full(len(ranks), _NOWHERE)
        places[documents] = np.frombuffer(self._places, dtype=np.int64)
        columns, derived = (
            {name: column.grown(documents, len(ranks)) for name, column in each.items()} for each in self._columns
        )
        return Readings(places, columns, derived)
