"""The answer that a model should give."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["UNANSWERABLE", "target_of"]

UNANSWERABLE = "unanswerable"
"""The word that the prompt asks for where the passages do not answer: the target of unanswerable questions."""


def target_of(answerable: bool, answers: Sequence[str]) -> str:
    """The first gold answer; ``"unanswerable"`` for an unanswerable question, and for one without an answer."""
    return answers[0] if answerable and answers else UNANSWERABLE
