"""The plugin in the harness: registration, the base task, figures beside its table, warnings about a run."""

from __future__ import annotations

__all__ = ["WEIGHTLESS"]

WEIGHTLESS = ("grounded-baseline", "replay", "hallucination-detector")
"""Models of ours, as in ``--model``. Their answers follow from documents and files, not from a prompt, and they name their
results themselves."""
