"""A model's answers with the output of every filter and the values of every metric: one by one, and in columns.

A run of 100,000 documents is a gigabyte of prompts and answers. :func:`read_answers` parses each row of a samples file once
and keeps a document's name, digests of its content, and the values of the metrics: a few hundred bytes.
:class:`Answers` reads an answer again from its place in the file when it is needed.

Of a prompt, :func:`asked_alike` compares the messages of a chat, whichever template rendered them. The harness logs the
prompt of a local model as one text, rendered by the model's chat template, and that of an API as messages, which the server
renders. A template adds marks and the names of roles, and may add a system prompt of its own or the date; words that stand
in its source are therefore no difference between two prompts.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_eval_tasks.data.samples import NO_SAMPLE, parse_sample, read_row_at, read_rows_with_offsets
from lm_eval_tasks.definition.schema import OF_DETECTION

_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
_NOT_ASKED = frozenset((*OF_DETECTION, "passage"))  # columns that say how answers are tagged, and what hangs together
_OF_ROW = "doc_id doc target arguments resps filtered_resps filter doc_hash prompt_hash target_hash".split()
_DIGEST = 16  # bytes


class FilteredAnswer(NamedTuple):
    """An answer as a filter read it, and its values of the metrics: ``None`` where the document is not in the denominator.
    Corrected rates have a mapping, :class:`lm_eval_tasks.detection.calibrated.TaggedAnswer`."""

    answer: Any  # output of the filter: a label, a text, JSON with spans
    values: Mapping[str, Any]


class Answer(NamedTuple):
    """A model's answer to one document."""

    key: str  # name of its question: ``query_id`` or ``id`` of the document, with its subset; else its content
    content: str  # :func:`content_of` the document: equal where models were asked the same about the same passages
    doc: Mapping[str, Any]
    prompt: str  # as it was sent, of messages their texts; empty where the file does not hold it
    prompt_hash: str  # SHA-256
    response: str  # as the model gave it, ``""`` where there is none; the most likely option of several
    readings: Mapping[str, FilteredAnswer]  # by filter
    target: str = ""  # as the harness logged it: a text, or the number of an option
    options: Sequence[tuple[str, float]] = ()  # texts whose log-likelihood was asked, with it; of other tasks empty
    turns: Turns = ()  # the messages of a prompt that was logged as such


Derive = Callable[[Answer, str, bool], Mapping[str, Any]]
"""A function for further values to keep. Its arguments are an answer with one filter's reading, without its prompt and key;
the filter; and whether it is the document's first row."""


@dataclass(frozen=True)
class Column:
    """A value for every document."""

    numbers: NDArray[np.float64]  # (documents,); nan where the value is None, is absent or is no number
    codes: NDArray[np.int32]  # (documents,) the place of a value that is something else, else -1; empty without any
    others: Sequence[Any]  # what else there is, each once: 200 runs of a task have few

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Column:
        """Make the column of all documents' values."""
        if {*map(type, values)} <= {float, type(None)}:  # as in most columns
            return cls(np.array(values, dtype=float), _NO_CODES, ())
        numbers, codes = np.array([_number(value) for value in values]), np.full(len(values), -1, dtype=np.int32)
        others: list[Any] = []
        by_identity: dict[int, int] = {}
        by_text: dict[str, int] = {}
        for document in np.flatnonzero(np.isnan(numbers)).tolist():
            if (value := values[document]) is not None:
                if (code := by_identity.get(id(value))) is None:
                    code = by_identity[id(value)] = by_text.setdefault(json.dumps(value), len(others))
                    others += [value][: code == len(others)]
                codes[document] = code
        return cls(numbers, codes, others) if others else cls(numbers, _NO_CODES, ())

    @property
    def non_numeric(self) -> dict[int, Any]:
        """Document to its value, where that is no number; in order."""
        documents = np.flatnonzero(self.codes >= 0)
        return {at: self.others[of] for at, of in zip(documents.tolist(), self.codes[documents].tolist(), strict=True)}

    @property
    def has_value(self) -> NDArray[np.bool_]:
        """(documents,) whether a document has a value."""
        defined = ~np.isnan(self.numbers)
        return np.asarray(defined | (self.codes >= 0) if len(self.codes) else defined)

    def values(self) -> list[Any]:
        """The values of all documents, in order, as in the file, except that integers and booleans are floats."""
        values = [None if number != number else number for number in self.numbers.tolist()]
        for document, value in self.non_numeric.items():
            values[document] = value
        return values

    def only(self, documents: Sequence[int] | NDArray[np.int64]) -> Column:
        """The values of some documents."""
        return Column(self.numbers[documents], self.codes[documents] if len(self.codes) else self.codes, self.others)


_NO_CODES = np.empty(0, dtype=np.int32)


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:  # of 400 digits
        return math.nan


@dataclass(frozen=True)
class FilteredAnswers:
    """The answers of a task as a filter read them."""

    places: NDArray[np.int64]  # (documents,) bytes at which the rows begin; negative where the filter has no row
    columns: Mapping[str, Column]  # metric to its values, in the order of the file
    derived: Mapping[str, Column]  # further values, of :data:`Derive`

    @property
    def present(self) -> NDArray[np.bool_]:
        """(documents,) whether the filter has read the answer."""
        return np.asarray(self.places >= 0)

    def only(self, documents: Sequence[int]) -> FilteredAnswers:
        """Those of some documents."""
        columns = [{name: of.only(documents) for name, of in each.items()} for each in (self.columns, self.derived)]
        return FilteredAnswers(self.places[documents], *columns)


@dataclass(frozen=True, eq=False)
class Answers:
    """A model's answers to the documents of a task, in their order. An answer that is needed is read again."""

    path: Path  # of the samples file
    contents: NDArray[np.bytes_]  # (documents,) digests, of 16 bytes: :attr:`Answer.content`
    prompts: NDArray[np.bytes_]  # (documents,) digests of :attr:`Answer.prompt_hash`; empty where there is none
    responses: NDArray[np.float64]  # (documents,) :func:`digest_of` :attr:`Answer.response`; nan of a log-likelihood
    readings: Mapping[str, FilteredAnswers]  # by filter
    keys: Sequence[str]  # :attr:`Answer.key` of each document
    articles: Sequence[str] | None  # of each document, its key where it names none; None where no document does
    passages: Sequence[str] | None  # :func:`cluster_of` each document; None where all are empty
    ids: Sequence[str] | None  # ``id`` of each document, its key where it has none; None where all are keys

    def __len__(self) -> int:
        return len(self.contents)

    def __getitem__(self, index: int) -> Answer:
        return next(self.select([range(len(self))[index]]))

    def __iter__(self) -> Iterator[Answer]:
        return self.select(range(len(self)))

    def select(self, documents: Iterable[int]) -> Iterator[Answer]:
        """Read the answers to some documents again; a CorruptSource where the file has changed."""
        with self.path.open("rb") as stream:
            for document in documents:
                places = (int(readings.places[document]) for readings in self.readings.values())
                rows = [read_row_at(stream, place) for place in sorted(places) if place >= 0]
                options = _options_of(rows[0])
                prompt = next((request[0] for request in _requests_of(rows[0])), None)
                turns = turns_of(prompt)
                text = "\n\n".join(text for _, text in turns) if turns else prompt
                likeliest, _ = max(options, key=lambda option: option[1], default=("", 0.0))
                yield Answer(
                    key=self.keys[document],
                    content=self.content(document),
                    doc=rows[0]["doc"],
                    prompt=text if isinstance(text, str) else "",
                    prompt_hash=str(rows[0].get("prompt_hash") or ""),
                    response=likeliest if len(options) > 1 else _response_of(rows[0]),
                    readings={str(row.get("filter", "none")): _filtered_answer(row) for row in rows},
                    target=str(rows[0].get("target", "")),
                    options=options,
                    turns=turns,
                )

    def only(self, documents: Sequence[int]) -> Answers:
        """The answers to some documents, in this order."""
        arrays = {name: getattr(self, name)[documents] for name in ("contents", "prompts", "responses")}
        names = {name: getattr(self, name) for name in ("keys", "articles", "passages", "ids")}
        arrays |= {name: of and [of[old] for old in documents] for name, of in names.items()}
        return Answers(self.path, readings={name: of.only(documents) for name, of in self.readings.items()}, **arrays)

    def content(self, document: int) -> str:
        return bytes(self.contents[document]).ljust(_DIGEST, b"\0").hex()


def read_answers(path: Path, derive: Derive | None = None, cluster: str | None = None) -> Answers:
    """The answers of a samples file.

    A document that occurs twice counts once, as distributed runs repeat some. A last line that was cut is left out, and the
    log says so.

    `derive` is called once for each document and filter. Its values are kept in :attr:`FilteredAnswers.derived`. `cluster`
    is for tasks that are in no table of ours: the column that says which documents hang together, empty where none does.
    All columns of their documents are content.

    Raises:
        CorruptSource: a line in the middle is no sample.
    """
    documents: dict[int, tuple[_Document, bytes, float]] = {}  # by doc_id
    by_filter: dict[str, dict[int, _Read]] = {}  # by doc_id
    read_line = partial(_read_line, derive=derive, cluster=cluster)
    for place, (number, doc, document, prompt, row) in read_rows_with_offsets(path, read_line):
        if is_first := number not in documents:
            documents[number] = document, prompt, row.digest
        rows = by_filter.setdefault(row.filter, {})
        if number not in rows:
            if (derived := row.derived[is_first].get(document)) is None:
                derived = row.derive(derive, doc, is_first) if derive else {}
                row.derived[is_first][document] = derived
            rows[number] = place, row.reading.values, derived
    order = sorted(documents)
    named, prompts, responses = zip(*map(documents.__getitem__, order), strict=True) if order else [()] * 3
    return Answers(
        path=path,
        prompts=np.frombuffer(shared(b"".join(prompts)), dtype=f"S{_DIGEST}"),
        responses=np.array(responses, dtype=float),
        readings={name: _readings(rows, order) for name, rows in by_filter.items()},
        **_names(named),
    )


_Read = tuple[int, Mapping[str, Any], Mapping[str, Any]]  # the byte at which a row begins, its values, and derived ones
_NO_ROW: _Read = -1, {}, {}


def _readings(rows: Mapping[int, _Read], order: Sequence[int]) -> FilteredAnswers:
    """The rows of documents in the given order, with empty ones for documents that have none."""
    places, values, derived = zip(*[rows.get(document, _NO_ROW) for document in order], strict=True)
    return FilteredAnswers(np.array(places, dtype=np.int64), _columns(values), _columns(derived))


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """The columns of rows, many of which are one object."""
    distinct = {id(row): row for row in rows}
    code_of = dict(zip(distinct, range(len(distinct)), strict=True))
    codes = np.array([code_of[id(row)] for row in rows])
    names = dict.fromkeys(chain(*distinct.values()))
    return {name: Column.from_values([row.get(name) for row in distinct.values()]).only(codes) for name in names}


# ------------------------------------------------------------------ what runs have in common, which is read once

_Same = TypeVar("_Same", bound=Hashable)


@lru_cache(maxsize=64)
def shared(values: _Same) -> _Same:
    """The values; equal ones of several runs are one object."""
    return values


@dataclass(eq=False, slots=True)
class _Document:
    """What is kept of a document."""

    content: bytes
    key: str
    article: str | None
    passage: str
    id: str
    hashes: bytes = b""  # of the row that was read last, as they stand there
    prompt: bytes = b""  # digest of its prompt's


@lru_cache(maxsize=64)
def _names(documents: Sequence[_Document]) -> dict[str, Any]:
    """The parts of :class:`Answers` that are the documents' own."""
    names = [(of.content, of.key, of.key if of.article is None else of.article, of.passage, of.id) for of in documents]
    contents, keys, articles, passages, ids = map(shared, zip(*names, strict=True)) if names else [()] * 5
    return {
        "contents": np.frombuffer(b"".join(contents), dtype=f"S{_DIGEST}"),
        "keys": keys,
        "articles": articles if any(of.article is not None for of in documents) else None,
        "passages": passages if any(passages) else None,
        "ids": None if ids == keys else ids,
    }


class _Row:
    """A row without its document and prompt."""

    def __init__(self, row: Mapping[str, Any], reading: FilteredAnswer) -> None:
        self.filter = str(row.get("filter", "none"))
        self.response = _response_of(row)
        self.digest = digest_of(self.response) if isinstance(row["resps"][0][0], (str, type(None))) else math.nan
        self.reading = reading
        self.derived: tuple[dict[_Document, Mapping[str, Any]], ...] = {}, {}  # of further rows, and of first ones

    def derive(self, derive: Derive, doc: bytes, is_first: bool) -> Mapping[str, Any]:
        answer = Answer("", "", _parse_document(doc), "", "", self.response, {self.filter: self.reading})
        return _mapping(*derive(answer, self.filter, is_first).items())


_HEAD = b'{"doc_id": '
_ENDS = b', "doc": {', b'}, "target": ', b', "arguments": {', b'}, "resps": [', b', "doc_hash": "'
_HASHES = re.compile(rb', "doc_hash": "\w{64}", "prompt_hash": "(\w{64})", "target_hash": "\w{64}", ')
"""Where parts of a row begin or end, as the harness writes it. Inside a string the quotes of these keys would be escaped;
inside another object, the parts would not parse."""


def _read_line(line: bytes, derive: Derive | None, cluster: str | None) -> tuple[int, bytes, _Document, bytes, _Row]:
    """A row: the number of its document; the document, as JSON, and what is kept of it; the digest of its prompt; and the
    rest. Where their ends are found, the prompt, most of the row, is not parsed, and a document, or an equal answer, once
    for all runs and filters."""
    try:
        start = line.index(_ENDS[0], len(_HEAD))
        target = line.index(_ENDS[1], start)
        resps = line.rindex(_ENDS[3], line.index(_ENDS[2], target))
        hashes = line.rindex(_ENDS[4], resps)
        if line.startswith(_HEAD):
            doc = line[start + 9 : target + 1]
            document = _document(doc, cluster)
            if not (document.hashes and line.startswith(document.hashes, hashes)):
                match = _HASHES.match(line, hashes)
                document.hashes, document.prompt = (match[0], _digest(match[1].decode())) if match else (b"", b"")
            if document.hashes:
                row = _row(derive, line[resps + 1 : hashes], line[hashes + len(document.hashes) :])
                return int(line[len(_HEAD) : start]), doc, document, document.prompt, row
    except NO_SAMPLE:
        pass
    sample = parse_sample(line)
    doc = json.dumps(sample["doc"], ensure_ascii=False).encode()
    prompt, row = _digest(str(sample.get("prompt_hash") or "")), _Row(sample, _filtered_answer(sample))
    return sample["doc_id"], doc, _document(doc, cluster), prompt, row


_KNOWN: dict[tuple[bytes, str | None], _Document] = {}  # half a kilobyte each
_MOST_KNOWN = 200_000


def _document(text: bytes, cluster: str | None) -> _Document:
    """What is kept of a document, by a digest of its JSON."""
    known = hashlib.blake2b(text, digest_size=_DIGEST).digest(), cluster
    if (document := _KNOWN.get(known)) is None:
        if len(_KNOWN) == _MOST_KNOWN:
            _KNOWN.clear()
            _row.cache_clear()  # whose derived values are of these
        doc = _parse_document(text)
        content = content_of(doc, _NOT_ASKED if cluster is None else ())
        key = key_of(doc) or content
        article = str(doc["article"]) if "article" in doc else None
        passage = cluster_of(doc) if cluster is None else str(doc.get(cluster, ""))
        document = _KNOWN[known] = _Document(bytes.fromhex(content), key, article, passage, str(doc.get("id", key)))
    return document


@lru_cache(maxsize=4096)
def _parse_document(text: bytes) -> Any:
    return parse_sample(b'{"doc_id": 0, "resps": [[null]], "doc": %s}' % text)["doc"]


@lru_cache(maxsize=8192)
def _row(derive: Derive | None, text: bytes, values: bytes) -> _Row:
    """A row; of each `derive` its own, for the values that it derived."""
    row = parse_sample(b'{"doc_id": 0, "doc": {}%s}' % text)
    return _Row(row, FilteredAnswer(_filtered_answer(row).answer, _values(tuple(row["metrics"]), values)))


@lru_cache(maxsize=4096)
def _values(metrics: tuple[str, ...], text: bytes) -> Mapping[str, Any]:
    values = parse_sample(b'{"doc_id": 0, "doc": {}, "resps": [[null]], %s' % text)
    return {name: values[name] for name in metrics}


@lru_cache(maxsize=4096)
def _mapping(*items: tuple[str, Any]) -> Mapping[str, Any]:
    return dict(items)


def _response_of(row: Mapping[str, Any]) -> str:
    response = row["resps"][0][0]
    return response if isinstance(response, str) else ""


def _requests_of(row: Mapping[str, Any]) -> list[list[Any]]:
    """The arguments of each request, the prompt first, of ``{"gen_args_0": {"arg_0": prompt, ...}}``; early versions wrote
    ``[[prompt, ...]]``."""
    requests = row.get("arguments")
    values = requests.values() if isinstance(requests, Mapping) else requests if isinstance(requests, list) else ()
    return [[*(each.values() if isinstance(each, Mapping) else each)] for each in values if each]


def _options_of(row: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The texts whose log-likelihood was asked, with it; empty where an answer is a text, or a whole document was asked."""
    try:  # the harness writes a number as a text
        pairs = zip(_requests_of(row), row["resps"], strict=True)
        options = [(request[1], float(responses[0][0])) for request, responses in pairs]
    except (TypeError, ValueError, LookupError):
        return []
    return options if all(isinstance(text, str) for text, _ in options) else []


def _filtered_answer(row: Mapping[str, Any]) -> FilteredAnswer:
    filtered = row.get("filtered_resps")
    # early versions do not name them
    metrics = row["metrics"] if "metrics" in row else [name for name in row if name not in _OF_ROW]
    return FilteredAnswer(
        answer=filtered[0] if isinstance(filtered, list) and filtered else None,
        values={name: row.get(name) for name in metrics if isinstance(name, str)} if isinstance(metrics, list) else {},
    )


def key_of(doc: Mapping[str, Any]) -> str:
    """The name of a document's question; empty where it has none. Of an answer of a log without an id of its own it is a
    digest of question and passages: the line on which it stands says nothing."""
    if _is_logged(doc) and "query_id" not in doc:
        return content_of(doc)
    names = (doc[column] for column in ("query_id", "id") if isinstance(doc.get(column), (str, int)))
    name = next(names, None)
    if name is None:
        return ""
    subset = doc.get("subset")  # a question can be in two subsets
    return f"{subset}/{name}" if isinstance(subset, str) else str(name)


def _is_logged(doc: Mapping[str, Any]) -> bool:
    """Whether a document is of a log (``lm-eval-grounded detect LOG``), which says whether its language was guessed. What
    was asked is its question and reference; the rest is of the answer and its place."""
    return "guessed" in doc and "query" in doc and "reference" in doc


def cluster_of(doc: Mapping[str, Any]) -> str:
    """The cluster of a document: its passage; empty where it has none."""
    return str(doc.get("passage") or "")


def content_of(doc: Mapping[str, Any], without: Container[str] = _NOT_ASKED) -> str:
    """Digest of a document's content: 16 bytes of SHA-256 over its columns, without those of the detector and passage."""
    asked = ("query", "reference") if _is_logged(doc) else doc
    content = {column: doc[column] for column in asked if column not in without}
    return hashlib.sha256(_ENCODE(content).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def differing_columns(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The columns in which two documents differ, without those of the detector and passage, in order."""
    columns = {*first, *second} - _NOT_ASKED
    if _is_logged(first) and _is_logged(second):
        columns = {"query", "reference"}
    return sorted(column for column in columns if first.get(column) != second.get(column))


@lru_cache(maxsize=128)  # models repeat themselves
def digest_of(text: str) -> float:
    """A 48-bit digest of a text as a float, to store in a column in place of the text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return float(int.from_bytes(digest, "little"))


def _digest(text: str) -> bytes:
    """16 bytes, zeros of an empty text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
    return digest if text else bytes(_DIGEST)


Turns = Sequence[tuple[str, str]]
"""Role and text of each message."""

_MARK = re.compile(r"<[^<>\s]{1,40}>")  # special tokens, which a template's source has as variables: bos_token
_WORD = re.compile(r"\w+")
_ROLES = frozenset("agent assistant human model system user".split())  # also of a chat as a transcript
_DATES = frozenset(name.casefold() for names in (calendar.month_name, calendar.month_abbr) for name in names)


class Asked(NamedTuple):
    """A prompt, and the chat template that rendered it."""

    prompt: str  # empty where it was not logged
    turns: Turns  # empty where it was logged as a text
    template: str | None = None  # its source; empty where that is not known, None without a template


def turns_of(logged: Any) -> Turns:
    """The messages of a prompt as the harness logs it: those of an API are JSON, alone or as the only part of a tuple, or a
    list of objects. Empty for any other prompt."""
    if isinstance(logged, list) and len(logged) == 1 and isinstance(logged[0], str):
        (logged,) = logged
    if isinstance(logged, str) and logged.startswith("[{"):
        try:
            logged = json.loads(logged)
        except (ValueError, RecursionError):
            return ()
    is_chat = isinstance(logged, list) and all(isinstance(each, Mapping) and "role" in each for each in logged)
    return [(str(each["role"]), _text_of(each.get("content"))) for each in logged] if is_chat else ()


def _text_of(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def asked_alike(first: Asked, second: Asked) -> bool:
    """Whether two prompts ask the same.

    Two lists of messages do if roles and texts are equal, and two texts without a chat template if they are equal. Others
    do if each has all words of the other, but for those that its template may add: in any order, as templates place system
    prompts differently. A prompt that was not logged is like that of another template only, of which nothing is known."""
    if not (first.prompt and second.prompt):
        return first.template != second.template
    if first.template is None and second.template is None and bool(first.turns) == bool(second.turns):
        turns = [[(role, text.strip()) for role, text in each.turns] for each in (first, second)]
        return turns[0] == turns[1] if first.turns else first.prompt == second.prompt
    own, other = (Counter(_WORD.findall(_MARK.sub(" ", each.prompt).casefold())) for each in (first, second))
    return _may_add(first.template, own - other) and _may_add(second.template, other - own)


def _may_add(template: str | None, words: Iterable[str]) -> bool:
    """Whether a chat template may have put words into a prompt; any where its source is not known."""
    if template == "":
        return True
    has_date, in_source = _words_of(template or "")
    return all(word in in_source or (has_date and (word.isdigit() or word in _DATES)) for word in words)


@lru_cache(maxsize=16)
def _words_of(template: str) -> tuple[bool, frozenset[str]]:
    """Whether a template prints the date, and the words of its source, with names of roles."""
    return "date" in template or "strftime" in template, _ROLES | {*_WORD.findall(template.casefold())}
