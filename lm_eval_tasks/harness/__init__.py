"""The plugin in the harness: registration, the base task, figures beside its table, warnings about a run."""

from __future__ import annotations

WEIGHTLESS = ("grounded-baseline", "replay", "hallucination-detector")
"""Our models without weights, as in ``--model``. They answer from documents and files, not from a prompt, and name their
results themselves."""


class Unanswered(str):
    """A missing response of ``replay`` with ``missing=skip``: the harness requires one response a request.

    :class:`lm_eval_tasks.harness.task.GroundedTask` leaves the document out before anything is scored: it is in no
    denominator, in no sample, and not in the number of documents. A task of another package reads an empty answer.
    """

    __slots__ = ()
