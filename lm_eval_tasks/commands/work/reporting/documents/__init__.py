"""The documents of a report: which are shown, and what a reader sees of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType

from lm_eval_tasks.commands.work.reporting.documents import clapnq, detection, mfava, nomiracl, other
from lm_eval_tasks.commands.work.reporting.documents.choosing import Candidate, chosen, most_hallucinated
from lm_eval_tasks.commands.work.reporting.documents.document import KINDS, Document
from lm_eval_tasks.runs import Answer, Run, TaskRun

__all__ = ["KINDS", "Document", "TaskDocuments", "read_documents"]


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


@dataclass
class _Asked:
    """A document with the answers to it, by model."""

    answers: dict[str, Answer] = field(default_factory=dict)
    kinds: dict[str, frozenset[str]] = field(default_factory=dict)
    shares: dict[str, float | None] = field(default_factory=dict)

    @property
    def all_kinds(self) -> frozenset[str]:
        return frozenset().union(*self.kinds.values())


def read_documents(runs: Mapping[str, Run], number: int | None) -> Iterator[TaskDocuments]:
    """The documents of all tasks, task by task; the answers of one task are in memory at a time.

    Args:
        runs: label to run, in the order of the page.
        number: how many documents to show of each task; ``None`` for all.

    Raises:
        CorruptSource: a samples file is damaged in the middle.
    """
    for name in dict.fromkeys(name for run in runs.values() for name in run.tasks):
        yield _of_task(name, {label: run.tasks[name] for label, run in runs.items() if name in run.tasks}, number)


def _of_task(name: str, tasks: Mapping[str, TaskRun], number: int | None) -> TaskDocuments:
    first = next(iter(tasks.values()))
    reader = _reader(first)
    asked: dict[str, _Asked] = {}
    missing = []
    for model, task in tasks.items():
        if task.samples is None:
            missing.append(model)
            continue
        for answer in task.answers():
            document = asked.setdefault(answer.content, _Asked())
            document.answers[model] = answer
            document.kinds[model] = reader.kinds(task, answer)
            document.shares[model] = reader.share(answer) if hasattr(reader, "share") else None
    _mark_most_hallucinated(asked.values())
    of_task = {content: _marked(reader, tasks, document) for content, document in asked.items()}
    contents = list(asked)
    candidates = [
        Candidate(content, of_task[content], max((s for s in asked[content].shares.values() if s), default=None))
        for content in contents
    ]
    places = chosen(candidates, number)
    shown = tuple(_laid_out(reader, first, asked[contents[at]], of_task[contents[at]]) for at in places)
    counts = Counter(kind for kinds in of_task.values() for kind in kinds)
    return TaskDocuments(
        name, first.benchmark, first.language, len(asked), {kind: counts[kind] for kind in KINDS}, shown, tuple(missing)
    )


def _reader(task: TaskRun) -> ModuleType:
    """The module that lays out documents of a task."""
    metrics = {metric.name for metric in task.metrics}
    if task.benchmark == "nomiracl":
        return nomiracl
    if task.benchmark == "clapnq" and "unanswerable_accuracy" in metrics:
        return clapnq
    if {"f1", "lost_rate"} <= metrics:
        return detection
    if task.benchmark == "mfava":
        return mfava
    return other


def _mark_most_hallucinated(asked: Iterable[_Asked]) -> None:
    documents = list(asked)
    least = most_hallucinated([share for document in documents for share in document.shares.values()])
    if least is None:
        return
    for document in documents:
        for model, share in document.shares.items():
            if share and share >= least:
                document.kinds[model] |= {"hallucinated"}


def _marked(reader: ModuleType, tasks: Mapping[str, TaskRun], document: _Asked) -> frozenset[str]:
    """The kinds of a document: those of its answers, and whether models disagree."""
    label: Callable[[TaskRun, Answer], str] = reader.label
    labels = {label(tasks[model], answer) for model, answer in document.answers.items()}
    return document.all_kinds | ({"disagree"} if len(labels) > 1 else frozenset())


def _laid_out(reader: ModuleType, task: TaskRun, document: _Asked, kinds: frozenset[str]) -> Document:
    laid_out: Document = reader.lay_out(task, document.answers)
    answers = tuple(replace(answer, kinds=document.kinds[answer.model]) for answer in laid_out.answers)
    return replace(laid_out, answers=answers, kinds=kinds)
