"""Fusion of two rankings by reciprocal rank (Cormack, Clarke and Büttcher 2009, equation 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.retrieval.loading import open_retriever
from lm_eval_tasks.clapnq.retrieval.retriever import Question, Ranking, Retriever

if TYPE_CHECKING:
    from lm_eval_tasks.clapnq.corpus import Corpus

__all__ = ["Hybrid", "fuse", "halves", "hybrid"]

CONSTANT = 1
"""The constant of the fusion, which damps the first ranks. The usual 60 was chosen for many systems and many relevant
documents; with two systems and one gold passage it lets a good rank of the weaker half outweigh the better half's first:
README.md has the figures.
"""
DEPTH = 20  # how far down each ranking is read


def fuse(first: Sequence[str], second: Sequence[str], constant: int = CONSTANT) -> Ranking:
    """Passages of two rankings, by the sum of ``1 / (constant + rank)``. Equal sums come in the order of the first ranking,
    so name the better one first.
    """
    scores: dict[str, float] = {}
    for ranking in (first, second):
        for rank, passage in enumerate(dict.fromkeys(ranking), 1):
            scores[passage] = scores.get(passage, 0.0) + 1 / (constant + rank)
    return sorted(scores.items(), key=lambda scored: -scored[1])


def halves(options: Mapping[str, Any]) -> list[str]:
    """The two retrievers that a hybrid fuses.

    Raises:
        ValueError: two different ones are not what the option names.
    """
    names = str(options.get("hybrid") or "minilm+bm25").split("+")
    if len(names) != 2 or len(set(names)) != 2 or "hybrid" in names:
        raise UsageError(f"clapnq: hybrid names two retrievers, as in minilm+bm25, got {'+'.join(names)!r}")
    return names


class Hybrid:
    """The fusion of any two retrievers; of equal ranks, the first one's counts."""

    name = "hybrid"

    def __init__(self, first: Retriever, second: Retriever, passages: int) -> None:
        self._halves = (first, second)
        self._passages = passages  # in the corpus, which may hold fewer than the depth

    def describe(self) -> dict[str, Any]:
        """Its halves, the constant and the depth."""
        halves = [half.describe() for half in self._halves]
        return {"retriever": self.name, "halves": halves, "constant": CONSTANT, "depth": DEPTH}

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """For each question the ids of the k best passages with their fused scores, best first.

        Raises:
            ValueError: k is larger than the corpus.
        """
        depth = max(k, min(DEPTH, self._passages))
        first, second = (half.search(questions, depth) for half in self._halves)
        return [_fused(one, other)[:k] for one, other in zip(first, second, strict=True)]


def hybrid(corpus: Corpus, options: Mapping[str, Any]) -> Hybrid:
    """The hybrid that the options name."""
    first, second = (open_retriever(name, corpus, options) for name in halves(options))
    return Hybrid(first, second, len(corpus))


def _fused(first: Ranking, second: Ranking) -> Ranking:
    """What the two say down to the depth; below it, where more is asked for, what the first has left, then the second."""
    one, other = [id for id, _ in first], [id for id, _ in second]
    fused = fuse(one[:DEPTH], other[:DEPTH])
    left = list(dict.fromkeys(one + other) - dict(fused).keys())
    left.sort(key=(one + other).index)
    return fused + [(id, 1 / (CONSTANT + DEPTH + place)) for place, id in enumerate(left, 1)]
