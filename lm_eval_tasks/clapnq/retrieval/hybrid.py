"""Fusion of two rankings by reciprocal rank (Cormack, Clarke and Büttcher 2009, equation 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import Question, Ranking, Retriever, hybrid_names, open_retriever

CONSTANT = 1
"""The constant of the fusion, which damps the first ranks. The usual 60 was chosen for many systems and many relevant
documents; with two systems and one gold passage it lets a good rank in the weaker ranking outweigh the first rank in the
better one: README.md has the figures.
"""
DEPTH = 20  # number of passages of each ranking that are fused


def fuse(first: Sequence[str], second: Sequence[str]) -> Ranking:
    """The passages of two rankings, sorted by the sum of ``1 / (CONSTANT + rank)``. Equal sums keep the order of the first
    ranking, so pass the better one first.
    """
    scores: dict[str, float] = {}
    for ranking in (first, second):
        for rank, passage in enumerate(dict.fromkeys(ranking), 1):
            scores[passage] = scores.get(passage, 0.0) + 1 / (CONSTANT + rank)
    return sorted(scores.items(), key=lambda scored: -scored[1])


class Hybrid:
    """The fusion of any two retrievers; of equal sums, the first retriever's passages come first."""

    name = "hybrid"

    def __init__(self, first: Retriever, second: Retriever, passages: int) -> None:
        self._halves = (first, second)
        self._passages = passages  # number of passages in the corpus, possibly less than the depth

    def describe(self) -> dict[str, Any]:
        """Descriptions of both retrievers, the constant and the depth."""
        described = [half.describe() for half in self._halves]
        return {"retriever": self.name, "halves": described, "constant": CONSTANT, "depth": DEPTH}

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """The fusion of both rankings down to the depth; for a larger `k`, the rest of the first ranking follows, then that
        of the second."""
        depth = max(k, min(DEPTH, self._passages))
        by_half = ([[id for id, _ in ranking] for ranking in half.search(questions, depth)] for half in self._halves)
        rankings = []
        for first, second in zip(*by_half, strict=True):
            fused = fuse(first[:DEPTH], second[:DEPTH])
            ranked = dict(fused)
            rest = [id for id in dict.fromkeys(first + second) if id not in ranked]
            rankings.append((fused + [(id, 1 / (CONSTANT + DEPTH + place)) for place, id in enumerate(rest, 1)])[:k])
        return rankings


def hybrid(corpus: Corpus, options: Mapping[str, Any]) -> Hybrid:
    first, second = (open_retriever(name, corpus, options) for name in hybrid_names(options))
    return Hybrid(first, second, len(corpus))
