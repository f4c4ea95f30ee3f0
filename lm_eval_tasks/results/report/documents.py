"""The answers of a report's runs, read once for all parts of the page; and the documents that a report shows.

The sample of documents has more errors than the run. The kinds of :data:`~lm_eval_tasks.results.report.readers.KINDS` take
turns, and documents of no kind have a turn too. Within a kind, a digest of the content orders the documents; the most
hallucinated come in the order of their share, largest first. So the sample depends on the documents and the answers alone,
not on the order of the files or on chance. Documents where people's marks differ most from ours stand first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from math import ceil, nan
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_tasks.results.doubts import derive_signs
from lm_eval_tasks.results.report.readers import KINDS, Document, TaskReader, reader_of
from lm_eval_tasks.runs import Answer, Answers, Run, TaskRun
from lm_eval_tasks.runs.answers import Derive, digest_of
from lm_eval_tasks.runs.kept import read_kept

_TURNS = (*"differ marked hallucinated wrong disagree invalid abstained".split(), "")  # the last: documents of no kind
_TOP = 0.1  # share of a task's flagged answers that are its most hallucinated
_COLUMNS = "of_kinds", "stance", "share"  # derived of each answer
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
    queues = []  # places by kind
    for kind in _TURNS:
        places = [place for place, own_kinds in enumerate(kinds) if (kind in own_kinds if kind else not own_kinds)]
        places.sort(key=contents.__getitem__)
        if kind == "hallucinated":
            places.sort(key=lambda place: -shares[place])
        queues.append(iter(places))
    picked: dict[int, None] = {}
    while len(picked) < min(number, len(contents)):
        for queue in queues:
            place = next((place for place in queue if place not in picked), None)
            if place is not None and len(picked) < number:
                picked[place] = None
    return list(picked)


def most_hallucinated(shares: Iterable[float]) -> float:
    """The least share of flagged words of the most hallucinated answers: the top tenth of those with a flagged word;
    ``nan`` where none has."""
    flagged = sorted(share for share in shares if share > 0)
    return flagged[-ceil(_TOP * len(flagged))] if flagged else nan


def derive_documents(task: TaskRun) -> Derive:
    """A function that gives what the choice of documents needs."""
    reader = reader_of(task)

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        counts = first if reader.filter is None else name == reader.filter
        return _derived(reader, answer) if counts else {}

    return derive


def _derived(reader: TaskReader, answer: Answer) -> dict[str, Any]:
    judged = reader.judge_beside_people(answer)
    values = " ".join(sorted(judged.kinds)), digest_of(judged.label), judged.share
    return dict(zip(_COLUMNS, values, strict=True))


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
        self._rows: dict[bytes, dict[str, int]] = {}  # content to the places of its answers, by model
        for model, answers in self._answers.items():
            for row, content in enumerate(answers.contents.tolist()):
                self._rows.setdefault(content, {})[model] = row
        judged = {model: self._judged(model) for model in self._answers}
        self._most = most_hallucinated(
            share or 0.0 for of_model in judged.values() for _, _, share in of_model.values()
        )
        self._kinds: list[frozenset[str]] = []  # of each document
        self._shares: list[float] = []
        for rows in self._rows.values():
            names, stances, shares = zip(*(judged[model][row] for model, row in rows.items()), strict=True)
            share = max(each or 0.0 for each in shares)
            more = ["hallucinated"] * (share >= self._most) + ["disagree"] * (len({*stances}) > 1)
            self._kinds.append(frozenset((*more, *" ".join(names).split())))
            self._shares.append(share)

    def _judged(self, model: str) -> dict[int, tuple[Any, ...]]:
        """The values of :func:`derive_documents` for a model's answers, by their places."""
        answers, reader = self._answers[model], reader_of(self._tasks[model])
        judged: dict[int, tuple[Any, ...]] = {}
        for derived in (readings.derived for readings in answers.readings.values()):
            if _COLUMNS[0] in derived:
                rows = zip(*(derived[name].values() for name in _COLUMNS), strict=True)
                judged |= {place: row for place, row in enumerate(rows) if row[0] is not None}
        unread = [place for place in range(len(answers)) if place not in judged]  # the filter that counts was cut
        for place, answer in zip(unread, answers.select(unread), strict=True):
            judged[place] = (*_derived(reader, answer).values(),)
        return judged

    def sample(self, number: int | None) -> TaskDocuments:
        """Lay out at most `number` documents, and fifty that people marked; ``None`` for all. A samples file that has
        changed since is a CorruptSource."""
        task, contents, documents = next(iter(self._tasks.values())), [*self._rows], list[Document]()
        chosen, reader = choose(contents, self._kinds, self._shares, number), reader_of(task)
        if number:
            chosen += [place for place, kinds in enumerate(self._kinds) if "marked" in kinds][:_MARKED]
        for place in dict.fromkeys(chosen):
            rows = self._rows[contents[place]]
            document = reader.lay_out({model: self._answers[model][row] for model, row in rows.items()})
            flagged = {
                answer.model: {"hallucinated"} for answer in document.answers if (answer.share or 0) >= self._most
            }
            answers = (each._replace(kinds=each.kinds | flagged.get(each.model, set())) for each in document.answers)
            documents.append(document._replace(answers=tuple(answers), kinds=self._kinds[place]))
        documents.sort(key=lambda document: -max(answer.differs or 0.0 for answer in document.answers))
        counts, missing = Counter(chain(*self._kinds)), [model for model in self._tasks if model not in self._answers]
        where, by_kind = (task.task, task.benchmark, task.language), {kind: counts[kind] for kind in KINDS}
        return TaskDocuments(*where, len(contents), by_kind, tuple(documents), tuple(missing))


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
