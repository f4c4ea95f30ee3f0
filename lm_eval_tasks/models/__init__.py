"""Harness models without a language model: reference points (`baseline`), stored answers (`replay`), and `detector`."""

from __future__ import annotations

__all__ = ["WEIGHTLESS"]

WEIGHTLESS = ("grounded-baseline", "replay", "hallucination-detector")
"""These models, as in ``--model``. Their answers follow from documents and files, not from a prompt."""
