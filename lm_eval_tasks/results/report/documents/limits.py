"""How much of a text a page shows, in characters. What is left out is counted and said."""

from __future__ import annotations

__all__ = ["ANSWER_LENGTH", "PAGE_LENGTH", "PASSAGE_LENGTH", "QUESTION_LENGTH"]

QUESTION_LENGTH = 2_000
ANSWER_LENGTH = 8_000
PASSAGE_LENGTH = 4_000
PAGE_LENGTH = 12_000
