"""The answers of a log: each record's texts, found by the fields that were chosen, as a document of the run."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from custom_metrics.reading.no_answer import is_service_failure
from custom_metrics.reading.response import final_answer
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, without_surrogates
from custom_metrics.usage.secrets import blank
from detector_plugin.filters import as_text
from lm_eval_tasks.detection.language_tags import code_of, guess
from lm_eval_tasks.results.logs.fields import NUMBERS, Expressions, Fields, choose_fields
from lm_eval_tasks.results.logs.files import records_of
from lm_eval_tasks.results.logs.traces import Line, joined

LONGEST_TEXT = 4 << 20
"""Bytes of an answer with its passages that is read; a longer one is left out."""
UNKNOWN = "und"
"""The language of an answer whose language is neither named nor to be guessed (BCP 47)."""

_CODE_OF = lru_cache(maxsize=1024)(code_of)
_SHOWN = 400  # characters of a text that an example is made of
_PLACES = 3  # that are shown of each reason
_FIRST = 100  # records that the tool of a log is chosen by

Answer: TypeAlias = tuple[int, dict[str, Any], str]
"""Number of the record, document, answer."""


class LeftOut(Counter[str]):
    """Reason to the number of records that cannot be used. ``str()`` has the first places, too: a small file can unpack to
    a hundred million empty records."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, place: str) -> None:
        self[reason] += 1
        if self[reason] <= _PLACES:
            self._places[reason].append(place)

    def __str__(self) -> str:
        shown = []
        for reason, number in self.items():
            more = f" and {number - _PLACES} more" if number > _PLACES else ""
            shown.append(f"{reason}: {number} ({', '.join(self._places[reason])}{more})")
        return "; ".join(shown) or "there is none"


@dataclass(frozen=True)
class Log:
    """A log whose fields were chosen; `name` stands for it in messages, `option` has these as ``--fields`` does."""

    path: Path
    name: str
    fields: Fields
    option: str
    labels: frozenset[str]  # names of those of the first records
    skips: bool = False  # whether answers without passages are left out; else they are unsupported

    @property
    def description(self) -> str:
        """The fields, and the first answer that they give, without secrets and in printable characters."""
        quote = '"' if "'" in self.option else "'"
        said = f"{self.name}: fields of {self.fields.tool}: --fields {quote}{self.option}{quote}"
        for number, doc, answer in self.answers(UNKNOWN, LeftOut()):
            texts = {"question": doc["query"], "answer": answer, "passages": doc["reference"]}
            shown = "; ".join(f"{role}: {excerpt(blank(text[:_SHOWN]))}" for role, text in texts.items() if text)
            return f"{said}\n  {self.path.name}:{number}: {shown}"
        return said

    def answers(self, language: str | None, left_out: LeftOut) -> Iterator[Answer]:
        """Each record that can be used; the others are added to `left_out`. `language` is that of answers that name none,
        else it is guessed."""
        for number, values in joined(self._lines()):
            try:
                yield number, *document_of(values, language, self.skips)
            except ValueError as error:
                left_out.add(str(error), f"{self.path.name}:{number}")

    def _lines(self) -> Iterator[Line]:
        for number, value in records_of(self.path, self.name):
            yield number, {"left_out": value} if isinstance(value, str) else self.fields.read(value)


def open_log(path: Path, name: str, given: Expressions, skips: bool = False) -> Log:
    """Choose the fields of a log (:func:`lm_eval_tasks.results.logs.fields.choose_fields`) by its first records.
    UsageError where it has no records, or where no fields fit."""
    records, left_out = list[Mapping[str, Any]](), LeftOut()
    for number, value in records_of(path, name):
        if isinstance(value, str):
            left_out.add(value, f"{path.name}:{number}")
            continue
        records.append(value)
        if len(records) == _FIRST:
            break
    if not records:
        raise UsageError(f"{name}: no line can be used: {left_out}")
    fields = choose_fields(name, records, given)
    labels = frozenset(label for record in records for label in fields.read(record).get("label", ()))
    return Log(path, name, fields, fields.as_option(records), labels, skips)


def document_of(values: Mapping[str, Any], language: str | None, skips: bool) -> tuple[dict[str, Any], str]:
    """The document of a record's values (:meth:`Fields.read`), and the answer, without reasoning, as tasks read it.
    ValueError says why it cannot be used, in words that hold for others, too."""
    answer, question = (without_surrogates(values.get(role, "")) for role in ("answer", "question"))
    answer, reference = final_answer(answer), without_surrogates(as_text(values.get("passages", [])))
    reasons = {
        str(values.get("left_out")): "left_out" in values,
        "no answer": not answer.strip(),
        "the message of a service that failed": is_service_failure(answer, question),
        "no passages and no reference": skips and not reference.strip(),
        f"longer than {LONGEST_TEXT >> 20} MB": len(answer) + len(reference) > LONGEST_TEXT,
    }
    if reason := next((reason for reason, holds in reasons.items() if holds), None):
        raise ValueError(reason)
    tag, model = (each.strip() if isinstance(each := values.get(role), str) else "" for role in ("language", "model"))
    try:
        code = _CODE_OF(tag) if tag else language
    except UsageError:
        raise ValueError("language is not a BCP 47 tag") from None
    if (conversation := values.get("conversation")) is not None:
        conversation = without_surrogates(str(conversation))
    of = question.strip() or reference or answer if conversation is None else f"conversation {conversation}"
    name = values.get("id")
    if isinstance(name, str):  # which names the answer on pages and in files
        name = without_surrogates(name) if blank(name) == name else _digest(name)
    doc = {
        **{"language": code or guess(answer, reference).code or UNKNOWN, "guessed": code is None},
        **{"article": _digest(of), "query": question, "reference": reference, "model": without_surrogates(model)},
        **{"query_id": name if type(name) in (str, int) else None, **{role: values.get(role) for role in NUMBERS}},
        **{"conversation": conversation, "labels": values.get("label")},
    }
    return {role: value for role, value in doc.items() if value is not None}, answer


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
