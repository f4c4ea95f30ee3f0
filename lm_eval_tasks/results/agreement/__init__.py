"""The work of ``lm-eval-grounded agreement``: how far raters agree, people or a judge model.

Two kinds of files: *ratings* of items, and *tags* of hallucinated spans in texts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import Figure
from custom_metrics.usage.printable import printable
from lm_eval_tasks.results.agreement.comparing import (
    Key,
    Pair,
    Rater,
    Result,
    compare_ratings,
    compare_tags,
    means,
    named,
)
from lm_eval_tasks.results.agreement.reading import Row, id_of, quoted, rating_of, rows_of, tagged_of

__all__ = ["KINDS", "Comparison", "Result", "compare", "table"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

KINDS = {"ratings": "rating", "tags": "annotated"}
"""Kinds of files, and the column that holds what the rater said where none is named."""


class Comparison(NamedTuple):
    """Results in the order of the pairs, then the means; and what a reader of them must know."""

    kind: str
    results: tuple[Result, ...]
    notes: tuple[str, ...]


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
    names = _names_of(files, columns)
    identity = id_column or "id"
    tables = [rows_of(path, column, identity) for path, column in zip(files, columns, strict=True)]
    if kind == "tags" and id_column is None and not any("id" in row for rows in tables for _, row in rows):
        tables = _numbered(names, tables)
    notes: list[str] = []
    raters = []
    for name, rows, column in zip(names, tables, columns, strict=True):
        ratings: dict[Key, Any] = {}
        repeated = 0
        for where, row in rows:
            if kind == "tags":
                key = id_of(where, row, identity), ""
                rating: Any = tagged_of(where, row, column, text_column, language)
            else:
                key = id_of(where, row, identity), str(row.get("aspect") or "").strip()
                rating = rating_of(where, row.get(column))
            repeated += key in ratings
            if ratings.get(key) is None:  # a readable rating wins over an unread one
                ratings[key] = rating
            elif rating not in (None, ratings[key]):
                both = f"{quoted(ratings[key])} before, {quoted(rating)} here"
                raise ValueError(f"{where}: {named(key)} stands here a second time and differs ({both})")
        if repeated:
            notes.append(f"{name}: {repeated} rows say again what was said before; they count once.")
        raters.append(Rater(name, ratings))
    pairs = _pairs_of(raters, notes)
    results = compare_tags(pairs, text_column, notes) if kind == "tags" else compare_ratings(pairs, raters, notes)
    return Comparison(kind, (*results, *means(results)), tuple(dict.fromkeys(notes)))


def _names_of(files: Sequence[Path], columns: Sequence[str]) -> list[str]:
    """Short names that tell the raters apart: of files, of columns, or of both."""
    both = [f"{path}:{column}" for path, column in zip(files, columns, strict=True)]
    for names in ([path.name for path in files], columns, both):
        if len({*names}) == len(files):
            return [_shown(name) for name in names]
    raise ValueError(f"one column of one file is named twice: {', '.join(both)}; for two columns --column A B")


def _numbered(names: Sequence[str], tables: Sequence[list[Row]]) -> list[list[Row]]:
    """Files without ids, their rows numbered; of one length, else rows of one number need not be the same document."""
    if len({len(rows) for rows in tables}) > 1:
        lengths = ", ".join(f"{name} {len(rows)}" for name, rows in zip(names, tables, strict=True))
        raise ValueError(
            f"no file has ids, and their rows are not equally many ({lengths}); --id NAME says where ids are"
        )
    log.info("no file has a column `id`: rows with the same number are taken for the same document")
    return [[(where, {**row, "id": f"row {number}"}) for number, (where, row) in enumerate(rows, 1)] for rows in tables]


def _pairs_of(raters: Sequence[Rater], notes: list[str]) -> list[Pair]:
    """Every two raters that judged the same items. The number of items that only one of them judged goes into the notes."""
    pairs = []
    for first, second in combinations(raters, 2):
        pair = Pair(first, second, [key for key in first.ratings if key in second.ratings])
        alone = [(rater.name, len(rater.ratings) - len(pair.items)) for rater in (first, second)]
        if any(number for _, number in alone):
            numbers = ", ".join(f"{number} in {name} alone" for name, number in alone)
            notes.append(f"{pair.name}: {len(pair.items)} in both; {numbers}.")
        if pair.items:
            pairs.append(pair)
    if not pairs:
        some = "; ".join(f"{rater.name} has {', '.join(map(named, [*rater.ratings][:2]))}" for rater in raters[:2])
        raise ValueError(f"no item was judged by two raters: {some} (--id NAME says which column holds the ids)")
    return pairs


def table(comparison: Comparison) -> str:
    """A comparison as a table to read, notes below; ``-`` where a statistic is not defined."""
    first = comparison.results[0]
    lines = [["raters", "language" if comparison.kind == "tags" else "aspect", *first.counts, *first.estimates]]
    for result in comparison.results:
        counts = [str(result.counts.get(name, "")) for name in first.counts]
        lines.append(
            [_shown(result.raters), _shown(result.group), *counts, *map(_in_digits, result.estimates.values())]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [str.ljust, str.ljust, *[str.rjust] * len(first.counts), *[str.ljust] * len(first.estimates)]
    rows = ["  ".join(f(cell, w) for f, cell, w in zip(aligned, line, widths, strict=True)).rstrip() for line in lines]
    clusters = "texts" if comparison.kind == "tags" else "ids"
    return "\n".join([*rows, "", *comparison.notes, f"In brackets: 95 % bounds, from a bootstrap over {clusters}."])


def _shown(text: str) -> str:
    """A name in a table: on one line, short, and without what could act on a terminal."""
    text = " ".join(printable(text).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _in_digits(figure: Figure) -> str:
    if math.isnan(figure.value):
        return "-"
    return f"{figure.value:.3f}" + ("" if math.isnan(figure.low) else f" [{figure.low:.3f}, {figure.high:.3f}]")
