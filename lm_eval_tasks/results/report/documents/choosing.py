"""Which documents a page shows: a sample that holds what goes wrong more often than it happens.

The kinds of :data:`~lm_eval_tasks.results.report.documents.document.KINDS` take turns, and documents of no kind
have a turn too. Within a kind, documents come in the order of a digest of what they ask; the most hallucinated come by
their share, largest first. So the sample depends on the documents and the answers alone: neither on the order of the files
nor on chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from custom_metrics.statistics.paired_difference import Floats

__all__ = ["TURNS", "Candidate", "chosen", "most_hallucinated"]

TURNS = ("hallucinated", "wrong", "disagree", "invalid", "abstained", "")
"""The kinds in the order of their turns; the last is of the documents of no kind."""

_TOP = 0.1  # of a task's answers are called its most hallucinated


@dataclass(frozen=True)
class Candidate:
    """A document that may be shown.

    Attributes:
        content: digest of what it asks; its order is that of the digest.
        kinds: of the answers to it.
        share: the largest share of flagged words of an answer to it; ``None`` where no detector read one.
    """

    content: str | bytes
    kinds: frozenset[str]
    share: float | None = None


def chosen(candidates: Sequence[Candidate], number: int | None) -> list[int]:
    """The places of at most `number` candidates, in the order of their turns; of all, as they stand, for ``None``."""
    if number is None:
        return list(range(len(candidates)))
    number = min(number, len(candidates))
    queues = [_queue(candidates, kind) for kind in TURNS]
    found: dict[int, None] = {}
    while len(found) < number:
        for queue in queues:
            while queue and queue[-1] in found:
                queue.pop()
            if queue and len(found) < number:
                found[queue.pop()] = None
    return list(found)


def _queue(candidates: Sequence[Candidate], kind: str) -> list[int]:
    """The places of the candidates of a kind, the first last."""
    places = [at for at, each in enumerate(candidates) if (kind in each.kinds if kind else not each.kinds)]
    if kind == "hallucinated":
        return sorted(places, key=lambda at: (candidates[at].share or 0.0, candidates[at].content))
    return sorted(places, key=lambda at: candidates[at].content, reverse=True)


def most_hallucinated(shares: Sequence[float | None] | Floats) -> float | None:
    """The share from which on an answer is among the most hallucinated: the top tenth of those with a flagged word.

    ``None`` where no answer has a flagged word.
    """
    known = np.array(shares, dtype=float)
    flagged = np.sort(known[known > 0])
    return float(flagged[-ceil(_TOP * len(flagged))]) if len(flagged) else None
