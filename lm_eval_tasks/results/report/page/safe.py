"""Texts of models and data sets on a page: no character of theirs can hide, or reach beyond the element that it stands in.

Markup is the templates' affair: Jinja escapes every value. What is left are characters that escaping does not touch: null
and other control characters, which HTML forbids; halves of surrogate pairs, which no file can hold; and U+202D and U+202E,
which show a text in another order than it has. They become U+FFFD. Other marks of direction stay, because Arabic and Hebrew
texts need them; every text stands in an element that isolates it.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["cleaned", "direction", "finalized", "language_tag"]

_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?")
_RIGHT_TO_LEFT = frozenset("ar arc ckb dv fa he ks ps sd syr ug ur yi".split())
_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")


def cleaned(text: str) -> str:
    """A text without characters that a page cannot show, each of which becomes U+FFFD; line ends become LF."""
    return _UNSHOWN.sub("\ufffd", _LINE_ENDS.sub("\n", text))


def finalized(value: Any) -> Any:
    """What a template writes for a value: every text cleaned. Jinja calls this for each ``{{ ... }}`` before it escapes.
    Markup, which has the method ``__html__``, is the templates' own."""
    return cleaned(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def language_tag(code: str) -> str:
    """A code as the value of ``lang``; empty where it is no BCP 47 tag."""
    return code if _TAG.fullmatch(code) else ""


def direction(code: str) -> str:
    """The value of ``dir`` for a language: ``rtl`` or ``ltr``."""
    return "rtl" if code.lower().partition("-")[0] in _RIGHT_TO_LEFT else "ltr"
