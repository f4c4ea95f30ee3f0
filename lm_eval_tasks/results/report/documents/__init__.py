"""The documents of a report: which are shown, and what a reader sees of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.statistics.paired_difference import Floats
from lm_eval_tasks.results.report.documents.choosing import Candidate, chosen, most_hallucinated
from lm_eval_tasks.results.report.documents.document import KINDS, Document
from lm_eval_tasks.results.report.documents.readers import TaskReader, reader_of
from lm_eval_tasks.runs import Answer, Answers, Run, TaskRun, digest_of

__all__ = ["KINDS", "AskedDocuments", "Document", "TaskDocuments", "derive_documents", "read_documents"]


@dataclass(frozen=True)
class TaskDocuments:
    """The documents of one task.

    Attributes:
        task, benchmark, language: of it.
        total: documents that a model was asked.
        kinds: of the documents in all, kind to number.
        shown: those on the page.
        missing: models whose answers were not logged.
    """

    task: str
    benchmark: str
    language: str
    total: int
    kinds: Mapping[str, int]
    shown: tuple[Document, ...]
    missing: tuple[str, ...] = ()


def derive_documents(task: TaskRun) -> Callable[[Answer, str, bool], dict[str, Any]]:
    """What the choice of documents needs of each answer, as it is read (:class:`lm_eval_tasks.runs.Answers`)."""
    reader = reader_of(task)

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        counts = first if reader.filter is None else name == reader.filter
        return _derived(reader, answer) if counts else {}

    return derive


def _derived(reader: TaskReader, answer: Answer) -> dict[str, Any]:
    return {
        _KINDS: _bits(reader.kinds(answer)),
        _LABEL: digest_of(reader.label(answer)),
        _SHARE: reader.share(answer),
    }


_KINDS, _LABEL, _SHARE = "kinds", "stance", "share"
_NAMES = (*KINDS,)


@cache
def _bits(kinds: frozenset[str]) -> int:
    return sum(1 << _NAMES.index(kind) for kind in kinds)


@cache
def _kinds(bits: int) -> frozenset[str]:
    return frozenset(kind for place, kind in enumerate(_NAMES) if bits >> place & 1)


def read_documents(runs: Mapping[str, Run], read: Callable[[TaskRun], Answers]) -> list[AskedDocuments]:
    """The documents of all tasks, task by task.

    Args:
        runs: label to run, in the order of the page.
        read: the answers of a task, with what :func:`derive_documents` keeps of them.

    Raises:
        CorruptSource: a samples file is damaged in the middle.
    """
    names = dict.fromkeys(name for run in runs.values() for name in run.tasks)
    of_tasks = ({label: run.tasks[name] for label, run in runs.items() if name in run.tasks} for name in names)
    return [AskedDocuments(tasks, read) for tasks in of_tasks]


class AskedDocuments:
    """The documents of one task, which models were asked.

    Args:
        tasks: of the runs, by label.
        read: as of :func:`read_documents`.
    """

    def __init__(self, tasks: Mapping[str, TaskRun], read: Callable[[TaskRun], Answers]) -> None:
        self._tasks = tasks
        self._first = next(iter(tasks.values()))
        self._reader = reader_of(self._first)
        self._answers = {model: read(task) for model, task in tasks.items() if task.samples is not None}
        contents = np.concatenate([np.empty(0, "S16"), *(each.contents for each in self._answers.values())])
        _, first, which = np.unique(contents, return_index=True, return_inverse=True)
        came = np.argsort(first)  # documents in the order in which they come first
        ranks = np.empty_like(came)
        ranks[came] = np.arange(len(came))
        self._contents: NDArray[np.bytes_] = contents[first[came]]
        ends = np.cumsum([len(each) for each in self._answers.values()])
        self._places = dict(zip(self._answers, np.split(ranks[which], ends[:-1]), strict=True)) if len(ends) else {}
        self._derive()

    def _derive(self) -> None:
        total = len(self._contents)
        self._of_models: dict[str, NDArray[np.int64]] = {}  # (answers,) bits of kinds
        shares, stances = {}, {}
        for model, answers in self._answers.items():
            self._of_models[model], stances[model], shares[model] = self._columns(self._tasks[model], answers)
        least = most_hallucinated(np.concatenate([np.empty(0), *shares.values()]))
        self._bits, self._share = np.zeros(total, dtype=np.int64), np.full(total, np.nan)
        stance, disagree = np.full(total, np.nan), np.zeros(total, dtype=bool)
        for model, places in self._places.items():
            if least is not None:
                self._of_models[model][shares[model] >= least] |= _bits(frozenset({"hallucinated"}))
            self._bits[places] |= self._of_models[model]
            self._share[places] = np.fmax(self._share[places], shares[model])
            disagree[places] |= ~np.isnan(stance[places]) & (stance[places] != stances[model])
            stance[places] = stances[model]
        self._bits[disagree] |= _bits(frozenset({"disagree"}))

    def _columns(self, task: TaskRun, answers: Answers) -> tuple[NDArray[np.int64], Floats, Floats]:
        found = {name: np.full(len(answers), np.nan) for name in (_KINDS, _LABEL, _SHARE)}
        reader = reader_of(task)
        for readings in answers.readings.values():
            for name, values in found.items():
                if name in readings.derived:
                    found[name] = np.fmax(values, readings.derived[name].numbers)
        unread = np.flatnonzero(np.isnan(found[_KINDS])).tolist()  # by the filter that counts: the file was cut
        for document, answer in zip(unread, answers.select(unread), strict=True):
            for name, value in _derived(reader, answer).items():
                found[name][document] = np.nan if value is None else value
        return found[_KINDS].astype(np.int64), found[_LABEL], found[_SHARE]

    def shown(self, number: int | None) -> TaskDocuments:
        """At most `number` documents; ``None`` for all.

        Raises:
            CorruptSource: a samples file has changed since it was read.
        """
        kinds = [_kinds(bits) for bits in self._bits.tolist()]
        shares = (share if share > 0 else None for share in self._share.tolist())
        candidates = [*map(Candidate, self._contents.tolist(), kinds, shares)]
        counts = Counter(kind for of_document in kinds for kind in of_document)
        first = self._first
        return TaskDocuments(
            first.task,
            first.benchmark,
            first.language,
            len(kinds),
            {kind: counts[kind] for kind in KINDS},
            tuple(self._laid_out(at, kinds[at]) for at in chosen(candidates, number)),
            tuple(model for model in self._tasks if model not in self._answers),
        )

    def _laid_out(self, document: int, kinds: frozenset[str]) -> Document:
        found = {model: np.flatnonzero(places == document) for model, places in self._places.items()}
        places = {model: int(at[-1]) for model, at in found.items() if len(at)}
        laid_out = self._reader.lay_out({model: self._answers[model][at] for model, at in places.items()})
        answers = (
            replace(answer, kinds=_kinds(int(self._of_models[answer.model][places[answer.model]])))
            for answer in laid_out.answers
        )
        return replace(laid_out, answers=tuple(answers), kinds=kinds)
