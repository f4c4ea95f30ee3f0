"""The answers of a report's runs, read once for all parts of the page; and the documents that a report shows.

The sample of documents has more errors than the run. The kinds of :data:`~lm_eval_tasks.results.report.readers.KINDS` take
turns, and documents of no kind have a turn too. Within a kind, a digest of the content orders the documents; the most
hallucinated come in the order of their share, largest first. So the sample depends on the documents and the answers alone,
not on the order of the files or on chance. Documents where people's marks differ most from ours stand first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.statistics.paired_difference import Floats
from lm_eval_tasks.results.doubts import derive_signs
from lm_eval_tasks.results.report.readers import KINDS, Document, TaskReader, reader_of
from lm_eval_tasks.runs import Answer, Answers, Run, TaskRun
from lm_eval_tasks.runs.answers import Derive, digest_of
from lm_eval_tasks.runs.kept import read_kept

_TURNS = (*"differ marked hallucinated wrong disagree invalid abstained".split(), "")  # the last: documents of no kind
_TOP = 0.1  # share of a task's flagged answers that are its most hallucinated
_COLUMNS = _KINDS, _STANCE, _SHARE, _DIFFERS = "kinds", "stance", "share", "differs"
_NAMES = (*KINDS,)
_EXAMPLES = 5
_MARKED = 50  # documents that people marked, which are shown beside the others
_QUESTION = 80  # characters of a question of an example


class TaskDocuments(NamedTuple):
    """The documents of one task: their number, in total and by kind; the chosen ones; and models without logged answers."""

    task: str
    benchmark: str
    language: str
    total: int
    kinds: Mapping[str, int]
    documents: tuple[Document, ...]
    missing: tuple[str, ...] = ()


def choose(
    contents: Sequence[bytes], kinds: Sequence[frozenset[str]], shares: Sequence[float], number: int | None
) -> list[int]:
    """Choose at most `number` documents: their places, in the order of their turns. ``None``: all, in the given order.

    Args:
        contents: digests of the documents' contents.
        kinds: of the answers to each.
        shares: the largest share of flagged words in an answer to each; ``nan`` where no detector read any.
    """
    if number is None:
        return list(range(len(contents)))
    queues = []  # places by kind, the next one last
    for kind in _TURNS:
        places = [index for index, own_kinds in enumerate(kinds) if (kind in own_kinds if kind else not own_kinds)]
        places.sort(key=contents.__getitem__, reverse=True)
        if kind == "hallucinated":
            places.sort(key=shares.__getitem__)
        queues.append(places)
    picked: dict[int, None] = {}
    while len(picked) < min(number, len(contents)):
        for queue in queues:
            while queue and queue[-1] in picked:
                queue.pop()
            if queue and len(picked) < number:
                picked[queue.pop()] = None
    return list(picked)


def most_hallucinated(shares: Floats) -> float:
    """The least share of flagged words of the most hallucinated answers: the top tenth of those with a flagged word;
    ``nan`` where none has."""
    flagged = np.sort(shares[shares > 0])
    return float(flagged[-ceil(_TOP * len(flagged))]) if len(flagged) else np.nan


def derive_documents(task: TaskRun) -> Derive:
    """A function that gives what the choice of documents needs."""
    reader = reader_of(task)

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        counts = first if reader.filter is None else name == reader.filter
        return _derived(reader, answer) if counts else {}

    return derive


def _derived(reader: TaskReader, answer: Answer) -> dict[str, Any]:
    judged = reader.judge_beside_people(answer)
    values = _bits_of(judged.kinds), digest_of(judged.label), judged.share, judged.differs
    return dict(zip(_COLUMNS, values, strict=True))


@cache
def _bits_of(kinds: frozenset[str]) -> int:
    return sum(1 << _NAMES.index(kind) for kind in kinds)


@cache
def _kinds_of(bits: int) -> frozenset[str]:
    return frozenset(kind for bit, kind in enumerate(_NAMES) if bits >> bit & 1)


def read_documents(runs: Mapping[str, Run], read_answers: Callable[[TaskRun], Answers]) -> list[DocumentSampler]:
    """Read the documents of all tasks of runs (label to run), task by task. `read_answers` gives answers with the
    values of :func:`derive_documents`."""
    names = dict.fromkeys(name for run in runs.values() for name in run.tasks)
    of_tasks = ({label: run.tasks[name] for label, run in runs.items() if name in run.tasks} for name in names)
    return [DocumentSampler(tasks, read_answers) for tasks in of_tasks]


class DocumentSampler:
    """A sampler of the documents of one task, with the answers of all models (label to task)."""

    def __init__(self, tasks: Mapping[str, TaskRun], read_answers: Callable[[TaskRun], Answers]) -> None:
        self._tasks = tasks
        self._answers = {model: read_answers(task) for model, task in tasks.items() if task.samples is not None}
        contents = np.concatenate([np.empty(0, "S16"), *(each.contents for each in self._answers.values())])
        _, first, inverse = np.unique(contents, return_index=True, return_inverse=True)
        order = np.argsort(first)  # documents in the order in which they come first
        self._contents = contents[first[order]]
        shape = len(self._answers), len(order)  # models, documents
        derived, self._rows = np.full((len(_COLUMNS), *shape), np.nan), np.full(shape, -1)
        ends = np.cumsum([len(answers) for answers in self._answers.values()])[:-1]
        places = np.split(np.argsort(order)[inverse], ends)
        for number, (model, documents) in enumerate(zip(self._answers, places, strict=False)):
            derived[:, number, documents] = self._columns(model)
            self._rows[number, documents] = np.arange(len(documents))
        kinds, labels, shares, differs = derived
        self._share, self._differs = (np.fmax.reduce(each, axis=0, initial=np.nan) for each in (shares, differs))
        self._bits = np.nan_to_num(kinds).astype(np.int64)
        self._bits[shares >= most_hallucinated(shares)] |= _bits_of(frozenset({"hallucinated"}))
        highest, lowest = (each.reduce(labels, axis=0, initial=np.nan) for each in (np.fmax, np.fmin))
        disagree = np.where(highest != lowest, _bits_of(frozenset({"disagree"})), 0)
        self._of_documents = np.bitwise_or.reduce(self._bits, axis=0) | disagree

    def _columns(self, model: str) -> tuple[Floats, ...]:
        """(answers,) values of :func:`derive_documents` for a model."""
        answers, reader = self._answers[model], reader_of(self._tasks[model])
        columns = {name: np.full(len(answers), np.nan) for name in _COLUMNS}
        for readings in answers.readings.values():
            for name in columns.keys() & readings.derived.keys():
                columns[name] = np.fmax(columns[name], readings.derived[name].numbers)
        unread = np.flatnonzero(np.isnan(columns[_KINDS])).tolist()  # by the filter that counts: the file was cut
        for index, answer in zip(unread, answers.select(unread), strict=True):
            for name, value in _derived(reader, answer).items():
                columns[name][index] = np.nan if value is None else value
        return tuple(columns.values())

    def sample(self, number: int | None) -> TaskDocuments:
        """Lay out at most `number` documents, and fifty that people marked; ``None`` for all. A samples file that has
        changed since is a CorruptSource."""
        task = next(iter(self._tasks.values()))
        kinds = [*map(_kinds_of, self._of_documents.tolist())]
        counts = Counter(kind for document_kinds in kinds for kind in document_kinds)
        reader, documents = reader_of(task), []
        chosen = choose(self._contents.tolist(), kinds, self._share.tolist(), number)
        if number:
            marked = [place for place, own_kinds in enumerate(kinds) if "marked" in own_kinds]
            chosen = [*dict.fromkeys([*chosen, *marked[:_MARKED]])]
        for document in sorted(chosen, key=lambda place: -np.nan_to_num(self._differs[place])):
            rows = zip(self._answers, self._rows[:, document].tolist(), self._bits[:, document].tolist(), strict=True)
            answered = {model: (row, _kinds_of(bits)) for model, row, bits in rows if row >= 0}
            laid_out = reader.lay_out({model: self._answers[model][row] for model, (row, _) in answered.items()})
            answers = tuple(answer._replace(kinds=answered[answer.model][1]) for answer in laid_out.answers)
            documents.append(laid_out._replace(answers=answers, kinds=kinds[document]))
        where, by_kind = (task.task, task.benchmark, task.language), {kind: counts[kind] for kind in KINDS}
        missing = (model for model in self._tasks if model not in self._answers)
        return TaskDocuments(*where, len(kinds), by_kind, tuple(documents), tuple(missing))


def examples(tasks: Collection[str], documents: Sequence[TaskDocuments]) -> list[tuple[str, str, str]]:
    """Up to five documents in which a model made something up, from as many of the tasks as possible, English ones first:
    id on the page, beginning of the question, and language.

    Documents that another model got right come first, and of flagged answers those with most flagged words. A wrong answer
    that declines makes nothing up.
    """
    candidates = []
    for order, task in enumerate(documents):
        for number, document in enumerate(task.documents, 1):
            kinds = [answer.kinds for answer in document.answers]
            flagged = max((answer.share or 0.0 for answer in document.answers), default=0.0)
            if task.task in tasks and (flagged or any("wrong" in own and "abstained" not in own for own in kinds)):
                rank = ("disagree" not in document.kinds, task.language != "en", -flagged, number, order)
                question = " ".join("".join(piece.text for piece in document.question.pieces).split())
                text = question if len(question) <= _QUESTION else f"{question[:_QUESTION].rstrip()}…"
                candidates.append((rank, task.task, (f"{task.task}-{number}", text, document.language)))
    ranked = [(task, example) for _, task, example in sorted(candidates)]
    first = dict(reversed(ranked))
    ranked.sort(key=lambda pair: pair[1] is not first[pair[0]])
    return [example for _, example in ranked[:_EXAMPLES]]


# ---------------------------------------------------------------------------------------------- all answers, read once


ReadAnswers = Callable[[TaskRun], Answers]


def read_task(task: TaskRun) -> Answers:
    """Read the answers of a task, with the derived values for signs of a broken run and for the choice of documents.
    Errors are those of :meth:`lm_eval_tasks.runs.TaskRun.answers`, here and in all that reads answers."""
    of_documents, of_signs = derive_documents(task), derive_signs(task)
    said = task.task, task.benchmark, task.language, task.table is None, task.filters, task.metrics
    key = *said, str(task.config.get("output_type"))
    return task.answers(_DERIVES.setdefault(key, lambda *row: {**of_signs(*row), **of_documents(*row)}))


_DERIVES: dict[Hashable, Derive] = {}
"""By all of a task that it depends on: what one run's rows gave, another's give, too."""


def caching_reader(kept: Path | None = None) -> ReadAnswers:
    """A cached :func:`read_task`, which keeps some hundred bytes a document; with a folder, on disk, too
    (:mod:`lm_eval_tasks.runs.kept`)."""
    known: dict[Path | None, Answers] = {}

    def read(task: TaskRun) -> Answers:
        if task.samples not in known:
            known[task.samples] = read_kept(kept, task, read_task) if kept else read_task(task)
        return known[task.samples]

    return read
