"""Options as one text, ``name=value,name=value``, with the types that their values look like.

The harness reads ``--model_args`` so. Its versions differ in a few values, such as ``none`` and quoted text; ours are read
on each as 0.4.13 reads them.
"""

from __future__ import annotations

from typing import Any

_WORDS = {"true": True, "false": False, "none": None}


def assignments(text: str) -> dict[str, Any]:
    """The options of a text by name. What has no ``=`` is the name of an empty text."""
    pairs = (part.partition("=") for part in text.strip().split(",") if part)
    return {name: _typed(value.strip()) for name, _, value in pairs}


def _typed(text: str) -> Any:
    """True, False, None, a number, the text between quotation marks, or the text."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float) if text.lstrip("+-").isdigit() else (float,):
        try:
            return number(text)
        except ValueError:
            continue
    return text
