"""Mutants that no test can or need kill, and why: ``explained.tsv``, one a line.

A line is found by its module, its function and the text of the changed line before and after, not by a number: other
lines may come and go. A line of the module ``*`` is about a part of a line, wherever it stands.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("explained.tsv")
EVERY = "*"
COLUMNS = ("module", "function", "removed", "added", "why")


class Change(NamedTuple):
    """What a mutant changed: the lines that went, and those that came, without their indent."""

    module: str
    function: str
    removed: str
    added: str


def explanations(table: Path = TABLE) -> dict[Change, str]:
    """The table: change to reason.

    Raises:
        ValueError: a line has no reason, or stands there twice.
    """
    found: dict[Change, str] = {}
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            change = Change(*(row[column] for column in COLUMNS[:4]))
            if not (row["why"] or "").strip():
                raise ValueError(f"{table.name}: no reason for {change}")
            if change in found:
                raise ValueError(f"{table.name}: twice {change}")
            found[change] = row["why"]
    return found


def explanation_of(change: Change, known: Mapping[Change, str]) -> Change | None:
    """The line of the table that explains a change: its own, or one of every module (``*``) that says which part of a line
    was replaced by what; ``None`` where there is none."""
    if change in known:
        return change
    return next((line for line in known if line.module == EVERY and _replaces(line, change)), None)


def _replaces(line: Change, change: Change) -> bool:
    parts = change.removed.split(line.removed)
    return any(
        line.removed.join(parts[:at]) + line.added + line.removed.join(parts[at:]) == change.added
        for at in range(1, len(parts))
    )


def change_of(mutant: str, module: str) -> Change:
    """What a mutant of mutmut changed."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    function, owner = orig_function_and_class_names_from_key(mutant)
    removed, added = _lines(get_diff_for_mutant(mutant, path=Path(module)))
    return Change(module, f"{owner}.{function}" if owner else function, removed, added)


@cache
def _lines(diff: str) -> tuple[str, str]:
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    return tuple(  # type: ignore[return-value]
        " ⏎ ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
