"""Mutants that no test can or need kill, and why: ``explained.tsv``, one a line.

A line is found by its module, its function and the text of the changed line before and after, not by a number: other
lines may come and go.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("explained.tsv")
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
