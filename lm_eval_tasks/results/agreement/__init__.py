"""The work of ``lm-eval-grounded agreement``: how far raters agree, people or a judge model.

Two kinds of files: *ratings* of items, and *tags* of hallucinated spans in texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval_tasks.results.agreement.raters import Key, Rater, names_of, pairs_of, ratings_by_item
from lm_eval_tasks.results.agreement.ratings import compare_ratings, rating_of
from lm_eval_tasks.results.agreement.results import Comparison, Result, means, table
from lm_eval_tasks.results.agreement.rows import id_of, numbered, rows_of
from lm_eval_tasks.results.agreement.tags import compare_tags, tagged_of

__all__ = ["KINDS", "Comparison", "Result", "compare", "table"]

KINDS = {"ratings": "rating", "tags": "annotated"}
"""Kinds of files, and the column that holds what the rater said where none is named."""


def compare(
    files: Sequence[Path],
    kind: str = "ratings",
    columns: Sequence[str] = (),
    id_column: str | None = None,
    text_column: str | None = None,
    language: str | None = None,
) -> Comparison:
    """Compare every two of some raters on what both have judged.

    Args:
        files: one for each rater: ``.jsonl``, ``.jsonl.gz``, ``.json`` (a list), ``.csv`` or ``.tsv`` (with a header). In a
            samples file of the harness, the filtered answer is what was said of the document's ``id`` and ``aspect``.
        kind: a key of :data:`KINDS`.
        columns: what holds the rating or the tagged text: one for all files or one for each.
        id_column: default ``id``. Tagged texts without ids are joined by row.
        text_column: the text that was tagged, onto which both raters' tags are carried; without it, that is the first
            rater's text without its tags.
        language: of the tagged texts, a code or an English name; default: what the column ``language`` says.

    Raises:
        OSError: a file cannot be read.
        CorruptSource, ValueError: its content cannot be used, or no two raters judged the same item.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; known are {', '.join(KINDS)}")
    if kind == "ratings" and (text_column or language):
        raise ValueError("--text and --language are for tagged texts; did you mean --kind tags?")
    if len(files) < 2:
        raise ValueError("agreement is between raters: name two files or more (or one twice, with two columns)")
    columns = columns or [KINDS[kind]]
    if len(columns) not in (1, len(files)):
        raise ValueError(
            f"--column names {len(columns)} columns for {len(files)} files; name one, or one for each file"
        )
    columns = columns if len(columns) > 1 else [*columns] * len(files)
    names = names_of(files, columns)
    rows = [rows_of(path, column, id_column or "id") for path, column in zip(files, columns, strict=True)]
    if kind == "tags" and id_column is None and not any("id" in row for each in rows for _, row in each):
        rows = numbered(names, rows)

    def rating(where: str, row: dict[str, Any], column: str) -> tuple[str, Key, Any]:
        identity = id_of(where, row, id_column or "id")
        if kind == "tags":
            return where, (identity, ""), tagged_of(where, row, column, text_column, language)
        return where, (identity, str(row.get("aspect") or "").strip()), rating_of(where, row.get(column))

    notes: list[str] = []
    raters = [
        Rater(name, ratings_by_item(name, (rating(where, row, column) for where, row in each), notes))
        for name, each, column in zip(names, rows, columns, strict=True)
    ]
    pairs = pairs_of(raters, notes)
    results = compare_tags(pairs, text_column, notes) if kind == "tags" else compare_ratings(pairs, raters, notes)
    return Comparison(kind, (*results, *means(results)), tuple(dict.fromkeys(notes)))
