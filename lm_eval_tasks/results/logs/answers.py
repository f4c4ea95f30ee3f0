"""The answers of a log: each record's texts, found by the fields that were chosen, as a document of the run.

:func:`open_log` chooses the fields before any answer is read, and describes them; :func:`answers` then reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, shorten, without_surrogates
from custom_metrics.usage.secrets import blank
from detector_plugin.filters import as_text
from lm_eval_tasks.detection.language_tags import code_of, guess
from lm_eval_tasks.results.logs.fields import (
    FIRST,
    NUMBERS,
    Fields,
    Paths,
    choose_fields,
    number_of,
    passages_of,
    text_of,
)
from lm_eval_tasks.results.logs.records import LogFile

LONGEST_TEXT = 4 << 20
"""Bytes of an answer with its passages that is read; a longer one is left out."""
UNKNOWN = "und"
"""The language of an answer whose language is neither named nor to be guessed (BCP 47)."""

_CODE_OF = lru_cache(maxsize=1024)(code_of)

_SHOWN = 400  # characters of a text that an example is made of

LeftOut = dict[str, list[str]]
"""Reason to the places of records that cannot be used."""


@dataclass(frozen=True)
class Log:
    """A log whose fields were chosen; `option` names them as ``--fields`` takes them."""

    file: LogFile
    fields: Fields
    option: str
    labels: tuple[str, ...] = ()  # names of those of the first records

    @property
    def description(self) -> str:
        """The fields, and the first answer that they give, without secrets and in printable characters."""
        said = f"{self.file.name}: fields of {self.fields.tool}: --fields '{self.option}'"
        for number, doc, answer in filter(None, replace(self, file=replace(self.file, wait=None)).answers(UNKNOWN, {})):
            texts = {"question": doc["query"], "answer": answer, "passages": doc["reference"]}
            shown = "; ".join(f"{role}: {excerpt(blank(text[:_SHOWN]))}" for role, text in texts.items() if text)
            return f"{said}\n  {self.file.path.name}:{number}: {shown}"
        return said

    def answers(
        self, language: str | None, left_out: LeftOut, read: Callable[[int], None] | None = None
    ) -> Iterator[tuple[int, dict[str, Any], str] | None]:
        """The number of each record that can be used, its document and its answer; the places of the others are added to
        `left_out`, by reason. ``None`` where a log that is followed has no more for now. `language` is that of answers
        that name none, else it is guessed."""
        fields, seen = (
            Fields(self.fields.tool, self.fields.paths),
            set[int](),
        )  # without the traces of an earlier reading
        for record in self.file.records(read):
            if record is None:
                yield None
                continue
            try:
                if record.problem:
                    raise ValueError(record.problem)
                values = fields.read(record.value)
                if "lent" in values:
                    continue
                answer = document_of(values, language)
                if "trace" in values:  # whose root repeats what a model said in it
                    key = hash((str(values["trace"]), answer[1]))
                    if key in seen:
                        raise ValueError("the same answer of a trace again")
                    seen.add(key)
                yield record.number, *answer
            except (ValueError, RecursionError) as error:
                reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
                left_out.setdefault(reason, []).append(f"{self.file.path.name}:{record.number}")


def open_log(path: Path, name: str, given: Paths, wait: Callable[[], bool] | None = None) -> Log:
    """Choose the fields of a log (:func:`lm_eval_tasks.results.logs.fields.choose_fields`) by its first records. UsageError
    where it has no records, or where no fields fit."""
    file = LogFile(path, name, wait)
    records, left_out = list[Mapping[str, Any]](), LeftOut()
    for record in file.records():
        if (record is None and records) or len(records) == FIRST:
            break
        if record is not None and record.problem:
            left_out.setdefault(record.problem, []).append(f"{path.name}:{record.number}")
        elif record is not None:
            records.append(record.value)
    if not records:
        raise UsageError(f"{name}: no line can be used: {reasons_of(left_out) or 'there is none'}")
    fields = choose_fields(name, records, given)
    read, labels = Fields(fields.tool, fields.paths), dict[str, None]()
    for values in records:
        with suppress(ValueError, RecursionError):  # it is counted when the log is read
            labels |= dict.fromkeys(read.read(values).get("label") or ())
    return Log(file, fields, fields.as_option(records), tuple(labels))


def reasons_of(left_out: LeftOut) -> str:
    """The reasons why records are left out, each with its number and the first places."""
    return "; ".join(f"{reason}: {len(places)} ({shorten(places)})" for reason, places in left_out.items())


def document_of(values: Mapping[str, Any], language: str | None = None) -> tuple[dict[str, Any], str]:
    """The document of a record's values (:meth:`Fields.read`), and the answer; ValueError says why it cannot be used, in
    words that hold for others, too."""
    answer, question = (without_surrogates(text_of(values.get(role), role)) for role in ("answer", "question"))
    reference = without_surrogates(as_text(passages_of(values.get("passages"))))
    if not answer.strip() or not reference.strip():
        raise ValueError("no passages and no reference" if answer.strip() else "no answer")
    if len(answer) + len(reference) > LONGEST_TEXT:
        raise ValueError(f"longer than {LONGEST_TEXT >> 20} MB")
    try:
        code = _CODE_OF(tag) if (tag := text_of(values.get("language"), "language").strip()) else language
    except UsageError:
        raise ValueError("language is not a BCP 47 tag") from None
    conversation = values.get("conversation")
    conversation = None if conversation is None else without_surrogates(str(conversation))
    cluster = question.strip() or reference if conversation is None else f"conversation {conversation}"
    doc = {
        "language": code or guess(answer, reference).code or UNKNOWN,
        "guessed": code is None,
        "article": hashlib.sha256(cluster.encode()).hexdigest()[:16],
        "query": question,
        "reference": reference,
        "model": without_surrogates(text_of(values.get("model"), "model")),
    }
    name = without_surrogates(values["id"]) if isinstance(values.get("id"), str) else values.get("id")
    doc |= {"query_id": name} if type(name) in (str, int) else {}
    doc |= {role: number for role in NUMBERS if role in values and (number := number_of(values[role])) is not None}
    doc |= {"conversation": conversation} if conversation is not None else {}
    return doc | ({"labels": values["label"]} if "label" in values else {}), answer
