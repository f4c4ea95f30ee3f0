"""The interface of CLAPnq's retrievers: what they are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from custom_metrics.usage.plain_errors import UsageError

__all__ = ["Question", "Ranking", "Retriever", "check_depth"]

Ranking = list[tuple[str, float]]
"""Ids of passages with their scores, best first."""


class Question(NamedTuple):
    """A question to search for. A run file knows it by its id."""

    id: str
    text: str


@runtime_checkable
class Retriever(Protocol):
    """Ranks passages."""

    name: str

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """For each question the k best passages; fewer only where a run file holds fewer.

        Raises:
            ValueError: k is larger than the corpus.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What the rankings depend on: parameters, model, revision, file. It goes into the results."""
        ...


def check_depth(k: int, passages: int) -> None:
    """Refuse to look for more passages than there are.

    Raises:
        ValueError: k is larger than the corpus.
    """
    if k > passages:
        raise UsageError(f"clapnq: {k} passages were asked for, but the corpus has only {passages}")
