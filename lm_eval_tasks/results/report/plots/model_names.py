"""Names of models in plots: shorter, and on lines that fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["numbered", "readable", "short_names", "wrapped"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_BREAKS = re.compile(r"(?<=[-_/ .:,])")
_ELLIPSIS = "…"


def readable(name: str) -> str:
    """A name without characters that no XML file may hold; each is U+FFFD."""
    return _CONTROL.sub("\ufffd", name)


def numbered(names: Iterable[str]) -> dict[str, int]:
    """Name to its place in a report, from 0, which decides its colour there."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Name to a shorter one, where the names stay different: without the organisation before ``/``."""
    plain = [readable(name) for name in names]
    without = [name.rpartition("/")[2] or name for name in plain]
    if len({*without}) == len({*names}):
        return dict(zip(names, without, strict=True))
    return dict(zip(names, plain, strict=True))


def wrapped(name: str, width: int = 22, lines: int = 2) -> str:
    """A name on so many lines of at most so many characters, broken at ``-``, ``_``, ``/`` and spaces where it can be, with
    an ellipsis in the middle of what is longer. Unreadable characters are as of :func:`readable`."""
    name = readable(name)
    if len(name) > width * lines:
        kept = width * lines - 1
        name = f"{name[: kept - kept // 2]}{_ELLIPSIS}{name[len(name) - kept // 2 :]}"
    found = [""]
    for part in _BREAKS.split(name):
        if len(found[-1]) + len(part) > width and len(found) < lines and found[-1]:
            found.append("")
        found[-1] += part
    broken = [line[at : at + width] for line in found for at in range(0, len(line), width)]
    if len(broken) > lines:  # breaks at signs took more room than there is
        broken = [name[at : at + width] for at in range(0, len(name), width)]
    return "\n".join(broken)
