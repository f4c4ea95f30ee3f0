"""Documents without an answer that are left out of the scores: ``replay`` with ``missing=skip``.

The harness wants one response a request. A model gives :class:`Unanswered` for such a document, and
:class:`lm_eval_tasks.harness.task.GroundedTask` leaves the document out before anything is scored: it is in no
denominator, in no sample, and not in the number of documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["LEFT_OUT", "UNTAGGED", "Unanswered", "unanswered"]

LEFT_OUT = "documents_left_out"
"""Key of a task's metadata in the results: how many documents were left out, by reason."""

UNTAGGED = "answers that the detector cannot read"
"""The reason that belongs to the scoring, not to the answers: another detector may read them."""


class Unanswered(str):
    """Stands for a missing response. A task of another package, which does not know it, reads an empty answer."""

    __slots__ = ()


def unanswered(requests: Iterable[Any]) -> frozenset[int]:
    """Ids of the documents of which a request was not answered."""
    return frozenset(
        request.doc_id for request in requests if any(isinstance(given, Unanswered) for given in request.resps)
    )
