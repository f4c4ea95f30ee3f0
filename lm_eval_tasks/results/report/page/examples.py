"""Three documents that show what a headline of the first screen counts: the way from a number to what a model wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from lm_eval_tasks.results.report.documents import Document, TaskDocuments

__all__ = ["Example", "examples"]

_NUMBER = 3
_CHARACTERS = 80


class Example(NamedTuple):
    """A link to a document.

    Attributes:
        anchor: its id on the page.
        question: its beginning.
        language: of it.
    """

    anchor: str
    question: str
    language: str


def examples(tasks: Collection[str], documents: Sequence[TaskDocuments]) -> list[Example]:
    """Up to three documents in which a model made something up, of as many tasks as can be, English ones first.

    Those that another model got right come first. A wrong answer that declines makes nothing up, and is none.

    Args:
        tasks: the names of the tasks that the headline is about.
        documents: those on the page.
    """
    ranked = sorted(
        (
            (rank, number, task, document)
            for task in documents
            if task.task in tasks
            for rank, number, document in _made_up(task)
        ),
        key=lambda found: (found[0], found[2].language != "en", found[1]),
    )
    first = {found[2].task: found for found in reversed(ranked)}
    of_tasks = [found for found in ranked if found is first[found[2].task]]
    others = [found for found in ranked if found is not first[found[2].task]]
    return [
        Example(f"{task.task}-{number}", _beginning(document), document.language)
        for _, number, task, document in (*of_tasks, *others)[:_NUMBER]
    ]


def _made_up(task: TaskDocuments) -> list[tuple[int, int, Document]]:
    """Rank (0 before 1), place on the page from 1, and document."""
    found = []
    for number, document in enumerate(task.shown, 1):
        kinds = [answer.kinds for answer in document.answers]
        if any("hallucinated" in one or ("wrong" in one and "abstained" not in one) for one in kinds):
            found.append((int("disagree" not in document.kinds), number, document))
    return found


def _beginning(document: Document) -> str:
    text = " ".join("".join(piece.text for piece in document.question.pieces).split())
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS].rstrip()}…"
