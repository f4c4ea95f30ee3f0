"""Errors of public files, and of other files that somebody else wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from custom_metrics.usage.plain_errors import PlainError

__all__ = ["CorruptSource", "MissingSource"]


class MissingSource(PlainError, FileNotFoundError):
    """A public file that is neither in the mirror nor in a cache, and cannot be (or may not be) downloaded.

    Attributes:
        files: the ``SourceFile`` of each, where they are known to be several.
    """

    files: Sequence[Any] = ()


class CorruptSource(PlainError, ValueError):
    """A public file whose content is not what it should be: a wrong checksum, a cut archive, a broken row."""
