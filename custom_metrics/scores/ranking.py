"""Ranking metrics for binary relevance: nDCG and recall at a cut-off."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

__all__ = ["ndcg", "recall"]


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """nDCG@k with gain 1 for a relevant passage and discount ``1 / log2(rank + 1)`` (Järvelin and Kekäläinen 2002).

    Args:
        ranked: passage ids, best first; one that comes again counts where it came first.
        relevant: ids that are relevant.
        k: cut-off, at least 1.

    Returns:
        In [0, 1]; ``nan`` where nothing is relevant.
    """
    if not relevant:
        return math.nan
    relevant = set(relevant)
    ranked = list(dict.fromkeys(ranked))
    gained = sum(1 / math.log2(rank + 1) for rank, passage in enumerate(ranked[:k], 1) if passage in relevant)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))
    return gained / ideal


def recall(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Share of the relevant passages among the first k; ``nan`` where nothing is relevant."""
    if not relevant:
        return math.nan
    return len({*list(dict.fromkeys(ranked))[:k]} & set(relevant)) / len(set(relevant))
