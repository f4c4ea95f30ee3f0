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

__all__ = [
    "KINDS",
    "AskedDocuments",
    "Candidate",
    "Document",
    "TaskDocuments",
    "chosen",
    "derive_documents",
    "most_hallucinated",
    "read_documents",
]

_TURNS = ("hallucinated", "wrong", "disagree", "invalid", "abstained", "")  # the last is of the documents of no kind
_TOP = 0.1  # of a task's answers are called its most hallucinated
_KINDS, _LABEL, _SHARE = "kinds", "stance", "share"
_NAMES = (*KINDS,)


class TaskDocuments(NamedTuple):
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


class Candidate(NamedTuple):
    """A document that may be shown.

    Attributes:
        content: digest of what it asks; its order is that of the digest.
        kinds: of the answers to it.
        share: the largest share of flagged words of an answer to it; ``nan`` where no detector read one.
    """

    content: str | bytes
    kinds: frozenset[str]
    share: float


def chosen(candidates: Sequence[Candidate], number: int | None) -> list[int]:
    """The places of at most `number` candidates, in the order of their turns; of all, as they stand, for ``None``."""
    if number is None:
        return list(range(len(candidates)))
    queues = []  # of each kind, the first last
    for kind in _TURNS:
        places = [at for at, each in enumerate(candidates) if (kind in each.kinds if kind else not each.kinds)]
        places.sort(key=lambda at: candidates[at].content, reverse=True)
        if kind == "hallucinated":
            places.sort(key=lambda at: candidates[at].share)
        queues.append(places)
    found: dict[int, None] = {}
    while len(found) < min(number, len(candidates)):
        for queue in queues:
            while queue and queue[-1] in found:
                queue.pop()
            if queue and len(found) < number:
                found[queue.pop()] = None
    return list(found)


def most_hallucinated(shares: Floats) -> float | None:
    """The share from which on an answer is among the most hallucinated: the top tenth of those with a flagged word.

    ``None`` where no answer has a flagged word.
    """
    flagged = np.sort(shares[shares > 0])
    return float(flagged[-ceil(_TOP * len(flagged))]) if len(flagged) else None


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
        self._answers = {model: read(task) for model, task in tasks.items() if task.samples is not None}
        contents = np.concatenate([np.empty(0, "S16"), *(each.contents for each in self._answers.values())])
        _, first, which = np.unique(contents, return_index=True, return_inverse=True)
        came = np.argsort(first)  # documents in the order in which they come first
        self._contents = contents[first[came]]
        ends = np.cumsum([0, *(len(each) for each in self._answers.values())])[1:-1]
        places = np.split(np.argsort(came)[which], ends) if self._answers else []
        self._places = dict(zip(self._answers, places, strict=True))  # of each answer, its document
        columns = {model: self._columns(model) for model in self._answers}
        least = most_hallucinated(np.concatenate([np.empty(0), *(share for *_, share in columns.values())]))
        self._of_models = {}  # of each answer, the bits of its kinds
        self._bits, self._share = np.zeros(len(came), dtype=np.int64), np.full(len(came), np.nan)
        label, disagree = np.full(len(came), np.nan), np.zeros(len(came), dtype=bool)
        for model, (kinds, labels, shares) in columns.items():
            at, bits = self._places[model], kinds.astype(np.int64)
            if least is not None:
                bits[shares >= least] |= _bits(frozenset({"hallucinated"}))
            self._of_models[model] = bits
            self._bits[at] |= bits
            self._share[at] = np.fmax(self._share[at], shares)
            disagree[at] |= ~np.isnan(label[at]) & (label[at] != labels)
            label[at] = labels
        self._bits[disagree] |= _bits(frozenset({"disagree"}))

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
        kinds = [*map(_kinds, self._bits.tolist())]
        candidates = [*map(Candidate, self._contents.tolist(), kinds, self._share.tolist())]
        counts = Counter(kind for of_document in kinds for kind in of_document)
        reader, documents = reader_of(task), []
        for document in chosen(candidates, number):
            answers, of_answers = {}, {}
            for model, places in self._places.items():
                for place in np.flatnonzero(places == document)[-1:].tolist():
                    answers[model] = self._answers[model][place]
                    of_answers[model] = _kinds(int(self._of_models[model][place]))
            laid_out = reader.lay_out(answers)
            judged = tuple(answer._replace(kinds=of_answers[answer.model]) for answer in laid_out.answers)
            documents.append(laid_out._replace(answers=judged, kinds=kinds[document]))
        return TaskDocuments(
            task.task,
            task.benchmark,
            task.language,
            len(kinds),
            {kind: counts[kind] for kind in KINDS},
            tuple(documents),
            tuple(model for model in self._tasks if model not in self._answers),
        )
