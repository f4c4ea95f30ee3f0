"""Fusion of two rankings by reciprocal rank (Cormack, Clarke and Büttcher 2009, equation 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import Question, Ranking, Retriever, halves, open_retriever

CONSTANT = 1
"""The constant of the fusion, which damps the first ranks. The usual 60 was chosen for many systems and many relevant
documents; with two systems and one gold passage it lets a good rank of the weaker half outweigh the better half's first:
README.md has the figures.
"""
DEPTH = 20  # how far down each ranking is read


def fuse(first: Sequence[str], second: Sequence[str]) -> Ranking:
    """Passages of two rankings, by the sum of ``1 / (CONSTANT + rank)``. Equal sums come in the order of the first ranking,
    so name the better one first.
    """
    scores: dict[str, float] = {}
    for ranking in (first, second):
        for rank, passage in enumerate(dict.fromkeys(ranking), 1):
            scores[passage] = scores.get(passage, 0.0) + 1 / (CONSTANT + rank)
    return sorted(scores.items(), key=lambda scored: -scored[1])


class Hybrid:
    """The fusion of any two retrievers; of equal ranks, the first one's counts."""

    name = "hybrid"

    def __init__(self, first: Retriever, second: Retriever, passages: int) -> None:
        self._halves = (first, second)
        self._passages = passages  # in the corpus, which may hold fewer than the depth

    def describe(self) -> dict[str, Any]:
        """Its halves, the constant and the depth."""
        described = [half.describe() for half in self._halves]
        return {"retriever": self.name, "halves": described, "constant": CONSTANT, "depth": DEPTH}

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """What the two say down to the depth; below it, where more is asked for, what the first has left, then the
        second."""
        depth = max(k, min(DEPTH, self._passages))
        by_half = ([[id for id, _ in found] for found in half.search(questions, depth)] for half in self._halves)
        rankings = []
        for first, second in zip(*by_half, strict=True):
            fused = fuse(first[:DEPTH], second[:DEPTH])
            ranked = dict(fused)
            left = [id for id in dict.fromkeys(first + second) if id not in ranked]
            rankings.append((fused + [(id, 1 / (CONSTANT + DEPTH + place)) for place, id in enumerate(left, 1)])[:k])
        return rankings


def hybrid(corpus: Corpus, options: Mapping[str, Any]) -> Hybrid:
    """The hybrid that the options name."""
    first, second = (open_retriever(name, corpus, options) for name in halves(options))
    return Hybrid(first, second, len(corpus))
