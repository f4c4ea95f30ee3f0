"""The plugin in the harness: registration, the base task, figures beside its table, warnings about a run."""

from __future__ import annotations

WEIGHTLESS = ("grounded-baseline", "replay", "hallucination-detector")
"""Models of ours, as in ``--model``. Their answers follow from documents and files, not from a prompt, and they name their
results themselves."""


class Unanswered(str):
    """A missing response: that of ``replay`` with ``missing=skip``, as the harness wants one response a request.

    :class:`lm_eval_tasks.harness.task.GroundedTask` leaves the document out before anything is scored: it is in no
    denominator, in no sample, and not in the number of documents. A task of another package reads an empty answer.
    """

    __slots__ = ()
