"""The documents of a report: which are shown, and what a reader sees of each.

A page shows a sample that holds what goes wrong more often than it happens. The kinds of
:data:`~lm_eval_tasks.results.report.documents.document.KINDS` take turns, and documents of no kind have a turn too. Within
a kind, documents come in the order of a digest of what they ask; the most hallucinated come by their share, largest first.
So the sample depends on the documents and the answers alone: neither on the order of the files nor on chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.statistics.paired_difference import Floats
from lm_eval_tasks.results.report.documents.document import KINDS, Document
from lm_eval_tasks.results.report.documents.readers import TaskReader, reader_of
from lm_eval_tasks.runs import Answer, Answers, Run, TaskRun, digest_of

_TURNS = ("hallucinated", "wrong", "disagree", "invalid", "abstained", "")  # the last is of the documents of no kind
_TOP = 0.1  # of a task's answers are called its most hallucinated
_KINDS, _LABEL, _SHARE = "kinds", "stance", "share"
_NAMES = (*KINDS,)


class TaskDocuments(NamedTuple):
    """The documents of one task: how many a model was asked, and of each kind; those on the page; and the models whose
    answers were not logged."""

    task: str
    benchmark: str
    language: str
    total: int
    kinds: Mapping[str, int]
    shown: tuple[Document, ...]
    missing: tuple[str, ...] = ()


def chosen(
    contents: Sequence[bytes], kinds: Sequence[frozenset[str]], shares: Sequence[float], number: int | None
) -> list[int]:
    """The places of at most `number` documents, in the order of their turns; of all, as they stand, for ``None``.

    Args:
        contents: digests of what they ask.
        kinds: of the answers to each.
        shares: the largest share of flagged words of an answer to each; ``nan`` where no detector read any.
    """
    if number is None:
        return list(range(len(contents)))
    queues = []  # of each kind, the first last
    for kind in _TURNS:
        places = [at for at, each in enumerate(kinds) if (kind in each if kind else not each)]
        places.sort(key=contents.__getitem__, reverse=True)
        if kind == "hallucinated":
            places.sort(key=shares.__getitem__)
        queues.append(places)
    found: dict[int, None] = {}
    while len(found) < min(number, len(contents)):
        for queue in queues:
            while queue and queue[-1] in found:
                queue.pop()
            if queue and len(found) < number:
                found[queue.pop()] = None
    return list(found)


def most_hallucinated(shares: Floats) -> float:
    """The share from which on an answer is among the most hallucinated: the top tenth of those with a flagged word; ``nan``
    where none has."""
    flagged = np.sort(shares[shares > 0])
    return float(flagged[-ceil(_TOP * len(flagged))]) if len(flagged) else np.nan


def derive_documents(task: TaskRun) -> Callable[[Answer, str, bool], dict[str, Any]]:
    """What the choice of documents needs of each answer, as it is read (:class:`lm_eval_tasks.runs.Answers`)."""
    reader = reader_of(task)

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        counts = first if reader.filter is None else name == reader.filter
        return _derived(reader, answer) if counts else {}

    return derive


def _derived(reader: TaskReader, answer: Answer) -> dict[str, Any]:
    judged = reader.judge(answer)
    return {_KINDS: _bits(judged.kinds), _LABEL: digest_of(judged.label), _SHARE: judged.share}


@cache
def _bits(kinds: frozenset[str]) -> int:
    return sum(1 << _NAMES.index(kind) for kind in kinds)


@cache
def _kinds(bits: int) -> frozenset[str]:
    return frozenset(kind for place, kind in enumerate(_NAMES) if bits >> place & 1)


def read_documents(runs: Mapping[str, Run], read: Callable[[TaskRun], Answers]) -> list[AskedDocuments]:
    """The documents of all tasks of runs (label to run), task by task. Answers are `read` with what
    :func:`derive_documents` keeps of them.

    Raises:
        CorruptSource: a samples file is damaged in the middle.
    """
    names = dict.fromkeys(name for run in runs.values() for name in run.tasks)
    of_tasks = ({label: run.tasks[name] for label, run in runs.items() if name in run.tasks} for name in names)
    return [AskedDocuments(tasks, read) for tasks in of_tasks]


class AskedDocuments:
    """The documents of one task, which models (label to task) were asked."""

    def __init__(self, tasks: Mapping[str, TaskRun], read: Callable[[TaskRun], Answers]) -> None:
        self._tasks = tasks
        self._answers = {model: read(task) for model, task in tasks.items() if task.samples is not None}
        contents = np.concatenate([np.empty(0, "S16"), *(each.contents for each in self._answers.values())])
        _, first, which = np.unique(contents, return_index=True, return_inverse=True)
        came = np.argsort(first)  # documents in the order in which they come first
        self._contents = contents[first[came]]
        shape = len(self._answers), len(came)  # models, documents
        kept, self._rows = np.full((3, *shape), np.nan), np.full(shape, -1)
        ends = np.cumsum([len(answers) for answers in self._answers.values()])[:-1]
        for number, (model, at) in enumerate(zip(self._answers, np.split(np.argsort(came)[which], ends), strict=False)):
            kept[:, number, at] = self._columns(model)
            self._rows[number, at] = np.arange(len(at))
        kinds, labels, shares = kept
        self._share = np.fmax.reduce(shares, axis=0, initial=np.nan)
        self._bits = np.nan_to_num(kinds).astype(np.int64)
        self._bits[shares >= most_hallucinated(shares)] |= _bits(frozenset({"hallucinated"}))
        highest, lowest = (each.reduce(labels, axis=0, initial=np.nan) for each in (np.fmax, np.fmin))
        disagree = np.where(highest != lowest, _bits(frozenset({"disagree"})), 0)
        self._of_documents = np.bitwise_or.reduce(self._bits, axis=0) | disagree

    def _columns(self, model: str) -> tuple[Floats, ...]:
        """What :func:`derive_documents` keeps, of every answer of a model."""
        answers, reader = self._answers[model], reader_of(self._tasks[model])
        found = {name: np.full(len(answers), np.nan) for name in (_KINDS, _LABEL, _SHARE)}
        for readings in answers.readings.values():
            for name in found.keys() & readings.derived.keys():
                found[name] = np.fmax(found[name], readings.derived[name].numbers)
        unread = np.flatnonzero(np.isnan(found[_KINDS])).tolist()  # by the filter that counts: the file was cut
        for place, answer in zip(unread, answers.select(unread), strict=True):
            for name, value in _derived(reader, answer).items():
                found[name][place] = np.nan if value is None else value
        return tuple(found.values())

    def shown(self, number: int | None) -> TaskDocuments:
        """At most `number` documents; ``None`` for all.

        Raises:
            CorruptSource: a samples file has changed since it was read.
        """
        task = next(iter(self._tasks.values()))
        kinds = [*map(_kinds, self._of_documents.tolist())]
        counts = Counter(kind for of_document in kinds for kind in of_document)
        reader, documents = reader_of(task), []
        for document in chosen(self._contents.tolist(), kinds, self._share.tolist(), number):
            rows = zip(self._answers, self._rows[:, document].tolist(), self._bits[:, document].tolist(), strict=True)
            asked = [(model, row, _kinds(bits)) for model, row, bits in rows if row >= 0]
            laid_out = reader.lay_out({model: self._answers[model][row] for model, row, _ in asked})
            judged = zip(laid_out.answers, asked, strict=True)
            answers = tuple(answer._replace(kinds=of_answer) for answer, (_, _, of_answer) in judged)
            documents.append(laid_out._replace(answers=answers, kinds=kinds[document]))
        return TaskDocuments(
            task.task,
            task.benchmark,
            task.language,
            len(kinds),
            {kind: counts[kind] for kind in KINDS},
            tuple(documents),
            tuple(model for model in self._tasks if model not in self._answers),
        )
