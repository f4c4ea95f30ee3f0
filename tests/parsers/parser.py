"""What a property test knows of a parser, and how it is fed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.parsers.texts import pieces

Growing = Callable[[int], Any]


@dataclass(frozen=True)
class Parser:
    """A parser of foreign text.

    Attributes:
        read: feeds it an input and checks what came out.
        inputs: what it is fed.
        refuses: the errors that its documentation names.
        growing: name to an input of about n characters, on which a careless parser takes longer than n allows.
        costly: an input takes milliseconds, so that fewer are tried by default.
    """

    read: Callable[[Any], None]
    inputs: st.SearchStrategy[Any]
    refuses: tuple[type[Exception], ...] = ()
    growing: Mapping[str, Growing] = field(default_factory=dict)
    costly: bool = False


def times(joined: str) -> dict[str, Growing]:
    """Inputs that repeat one of some pieces, which are written as in :mod:`tests.parsers.texts`."""
    return {piece: lambda n, piece=piece: piece * (n // len(piece) + 1) for piece in pieces(joined)}  # type: ignore[misc]


def in_bytes(growing: Mapping[str, Growing]) -> dict[str, Growing]:
    return {name: lambda n, make=make: make(n).encode() for name, make in growing.items()}  # type: ignore[misc]


def from_file(content: bytes, name: str, read: Callable[[Path], Any]) -> Any:
    """What is read from a file of some content."""
    path = _FOLDER / str(os.getpid()) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return read(path)


_MEMORY = Path("/dev/shm")
_FOLDER = (_MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())) / "lm-eval-grounded-fuzz"
