"""The plugin in the harness: registration, the base task, figures beside its table, warnings about a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WEIGHTLESS = ("grounded-baseline", "replay", "hallucination-detector")
"""Our models without weights, as in ``--model``. They answer from documents and files, not from a prompt, and name their
results themselves."""

unfit: list[Exception] = []
"""Why the installed harness cannot run our tasks, or Python does not find them whole; empty where all is well."""


class Unanswered(str):
    """A missing response of ``replay`` with ``missing=skip``: the harness requires one response a request.

    :class:`lm_eval_tasks.harness.task.GroundedTask` leaves the document out before anything is scored: it is in no
    denominator, in no sample, and not in the number of documents. A task of another package reads an empty answer.
    """

    __slots__ = ()


def filtered(request: Any, filter_name: str) -> Any:
    """The filtered answer of a request. 0.5 makes lists of one, where 0.4 has the answer."""
    answers = request.filtered_resps[filter_name]
    return answers[0] if isinstance(answers, list) and len(answers) == 1 else answers


def flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A metric or a step of a filter as a YAML has it. 0.5 gathers its options in ``kwargs``."""
    return {**{key: value for key, value in entry.items() if key != "kwargs"}, **(entry.get("kwargs") or {})}
