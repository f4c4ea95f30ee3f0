"""What the model should say."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["UNANSWERABLE", "target_of"]

UNANSWERABLE = "unanswerable"
"""What the prompt asks for where the passages do not answer; the target of unanswerable questions."""


def target_of(answerable: bool, answers: Sequence[str]) -> str:
    """The first gold answer; ``"unanswerable"`` where the question is, or where there is no answer to it."""
    return answers[0] if answerable and answers else UNANSWERABLE
