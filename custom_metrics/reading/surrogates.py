"""Halves of surrogate pairs: JSON can bring them into a text, and no file can hold them.

A JSON text may say ``"\\ud800"``, half a character of UTF-16. Python keeps it; writing it as UTF-8 raises, and the harness
then loses the rest of a task's samples.
"""

from __future__ import annotations

import re

__all__ = ["SURROGATE", "without_surrogates"]

SURROGATE = re.compile("[\ud800-\udfff]")
"""One half of a pair."""


def without_surrogates(text: str) -> str:
    """The text with matching halves joined to one character, and each lone half replaced by U+FFFD."""
    if text.isascii() or not SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
