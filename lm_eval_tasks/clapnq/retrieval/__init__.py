"""Retrievers of CLAPnq: each ranks the passages of a corpus for a question. One file a retriever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lm_eval_tasks.clapnq.corpus import Corpus

__all__ = ["RETRIEVERS", "Retriever", "open_retriever"]


class Retriever(Protocol):
    """Ranks passages."""

    name: str

    def search(self, questions: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """For each question the ids of the k best passages with their scores, best first."""
        ...


def _bm25(corpus: Corpus) -> Retriever:
    from lm_eval_tasks.clapnq.retrieval.bm25 import BM25

    return BM25(corpus)


RETRIEVERS: dict[str, Callable[[Corpus], Retriever]] = {"bm25": _bm25}


def open_retriever(name: str, corpus: Corpus) -> Retriever:
    """The retriever of that name over a corpus.

    Raises:
        ValueError: there is none; the message lists them.
    """
    if name not in RETRIEVERS:
        raise ValueError(f"clapnq: unknown retriever {name!r}; known are {', '.join(sorted(RETRIEVERS))}")
    return RETRIEVERS[name](corpus)
