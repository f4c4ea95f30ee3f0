"""Agreement of raters, people or a judge model: ``lm-eval-grounded agreement``.

Two kinds of files: *ratings* of items, and *tags* of hallucinated spans in texts, compared word by word, as in the mFAVA
paper's Figure 2.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, covered
from custom_metrics.reading.tagged_text import parse
from custom_metrics.reading.words import words
from custom_metrics.statistics.agreement import (
    any_label,
    cohen_kappa,
    contingency_table,
    equal_share,
    estimate,
    kendall_tau_b,
    quadratic_weights,
)
from custom_metrics.statistics.figures import UNDEFINED, Figure
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.usage.printable import printable
from lm_eval_tasks.mfava.annotations import AnnotationReport, annotate
from lm_eval_tasks.results.agreement.reading import Row, parse_id, parse_rating, parse_tagged, quoted, read_rows

__all__ = ["KINDS", "Comparison", "Result", "compare", "render_table"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

KINDS = {"ratings": "rating", "tags": "annotated"}
"""Kinds of files, with the default column of the ratings."""


Key: TypeAlias = tuple[str, str]  # id and aspect of an item; the aspect is empty where there is none
Table: TypeAlias = "np.ndarray[Any, Any]"

_LARGEST_SCALE = 101  # 0 to 100; more different ratings are measurements or free texts
_ALL = "all aspects"
_LABELS = (None, *CATEGORIES, HALLUCINATION)  # of a word of a tagged text


class Rater(NamedTuple):
    """A rater with a rating of each item: a number, a label or a `Tagged`; ``None`` where it is missing or unread."""

    name: str
    ratings: Mapping[Key, Any]


class Pair(NamedTuple):
    """Two raters and the items that both rated."""

    first: Rater
    second: Rater
    items: list[Key]

    @property
    def name(self) -> str:
        return f"{self.first.name}, {self.second.name}"


@dataclass(frozen=True)
class Result:
    """The agreement of two raters on an aspect or in a language; or the unweighted mean over pairs, which has no bounds.

    Counts are ``items`` rated by both, and ``unread`` by one of them; or ``documents`` and their ``words``, and the
    documents that could not be compared: ``unread`` (no tagged text), ``dropped`` (a copy of another text).
    """

    raters: str  # both names, or ``mean of N pairs``
    group: str  # the aspect, or ``all aspects`` together; or the language; ``-`` where there is none
    counts: Mapping[str, int]
    estimates: Mapping[str, Figure]  # by name of the statistic


class Comparison(NamedTuple):
    """The results in the order of the pairs, then their means; and notes on them."""

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
    """Compare all pairs of raters on the items that both have rated.

    Args:
        files: one for each rater: ``.jsonl``, ``.jsonl.gz``, ``.json`` (a list), ``.csv`` or ``.tsv`` (with a header). In a
            samples file of the harness, the filtered answer is the rating of the document's ``id`` and ``aspect``. Files of
            marks (:mod:`lm_eval_tasks.results.marks.lines`) are tags as they are.
        kind: a key of :data:`KINDS`.
        columns: of the rating or the tagged text: one for all files or one for each.
        id_column: default ``id``. Tagged texts without ids are joined by row.
        text_column: of the text that was tagged, to which both raters' tags are aligned; default: the first rater's text
            without its tags.
        language: of the tagged texts, a code or an English name; default: the column ``language``.

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
    names = _rater_names(files, columns)
    identity = id_column or "id"
    tables = [read_rows(path, column, identity) for path, column in zip(files, columns, strict=True)]
    if kind == "tags" and id_column is None and not any("id" in row for rows in tables for _, row in rows):
        tables = _number_rows(names, tables)
    notes: list[str] = []
    raters = []
    for name, rows, column in zip(names, tables, columns, strict=True):
        ratings: dict[Key, Any] = {}
        repeated = 0
        for where, row in rows:
            if kind == "tags":
                key = parse_id(where, row, identity), ""
                rating: Any = parse_tagged(where, row, column, text_column, language)
            else:
                key = parse_id(where, row, identity), str(row.get("aspect") or "").strip()
                rating = parse_rating(where, row.get(column))
            repeated += key in ratings
            if ratings.get(key) is None:  # a readable rating wins over an unread one
                ratings[key] = rating
            elif rating not in (None, ratings[key]):
                both = f"{quoted(ratings[key])} before, {quoted(rating)} here"
                raise ValueError(f"{where}: {_item_name(key)} stands here a second time and differs ({both})")
        if repeated:
            notes.append(f"{name}: {repeated} rows say again what was said before; they count once.")
        raters.append(Rater(name, ratings))
    pairs = _pair_raters(raters, notes)
    results = _compare_tags(pairs, text_column, notes) if kind == "tags" else _compare_ratings(pairs, raters, notes)
    return Comparison(kind, (*results, *_means(results)), tuple(dict.fromkeys(notes)))


def _rater_names(files: Sequence[Path], columns: Sequence[str]) -> list[str]:
    """Short, distinct names of the raters: of files, of columns, or of both."""
    both = [f"{path}:{column}" for path, column in zip(files, columns, strict=True)]
    for names in ([path.name for path in files], columns, both):
        if len({*names}) == len(files):
            return [_short(name) for name in names]
    raise ValueError(f"one column of one file is named twice: {', '.join(both)}; for two columns --column A B")


def _number_rows(names: Sequence[str], tables: Sequence[list[Row]]) -> list[list[Row]]:
    """Number the rows of files without ids. The files must have equally many, or equal numbers would mean nothing."""
    if len({len(rows) for rows in tables}) > 1:
        lengths = ", ".join(f"{name} {len(rows)}" for name, rows in zip(names, tables, strict=True))
        raise ValueError(
            f"no file has ids, and their rows are not equally many ({lengths}); --id NAME says where ids are"
        )
    log.info("no file has a column `id`: rows with the same number are taken for the same document")
    return [[(where, {**row, "id": f"row {number}"}) for number, (where, row) in enumerate(rows, 1)] for rows in tables]


def _pair_raters(raters: Sequence[Rater], notes: list[str]) -> list[Pair]:
    """All pairs of raters with common items. Items that only one of them rated are counted in the notes."""
    pairs = []
    for first, second in combinations(raters, 2):
        pair = Pair(first, second, [key for key in first.ratings if key in second.ratings])
        unshared = [(rater.name, len(rater.ratings) - len(pair.items)) for rater in (first, second)]
        if any(number for _, number in unshared):
            numbers = ", ".join(f"{number} in {name} alone" for name, number in unshared)
            notes.append(f"{pair.name}: {len(pair.items)} in both; {numbers}.")
        if pair.items:
            pairs.append(pair)
    if not pairs:
        some = "; ".join(f"{rater.name} has {', '.join(map(_item_name, [*rater.ratings][:2]))}" for rater in raters[:2])
        raise ValueError(f"no item was judged by two raters: {some} (--id NAME says which column holds the ids)")
    return pairs


def _item_name(key: Key) -> str:
    """An item in a message: its id, and its aspect where it has one."""
    return quoted(key[0]) + (f" ({quoted(key[1])})" if key[1] else "")


def _compare_ratings(pairs: Iterable[Pair], raters: Sequence[Rater], notes: list[str]) -> list[Result]:
    """Compare each pair on each aspect, and if there are several, on all together."""
    ratings = dict.fromkeys(rating for rater in raters for rating in rater.ratings.values() if rating is not None)
    if len(ratings) > _LARGEST_SCALE:
        some = ", ".join(map(quoted, [*ratings][:3]))
        raise ValueError(
            f"{len(ratings)} different ratings ({some}, ...) are no scale; --column NAME says where they are"
        )
    statistics: dict[str, Callable[[Table], Table] | None] = {"exact": equal_share, "kappa": cohen_kappa}
    if labels := [rating for rating in ratings if isinstance(rating, str)]:
        scale = sorted(ratings, key=str)
        statistics |= {"weighted kappa": None, "tau-b": None}
        where = next(rater.name for rater in raters if labels[0] in rater.ratings.values())
        notes.append(f"No order (so no weighted kappa, no tau-b): {quoted(labels[0])} in {where} is no number.")
    else:
        scale = sorted(ratings)
        weights = quadratic_weights(scale)
        statistics |= {"weighted kappa": lambda tables: cohen_kappa(tables, weights), "tau-b": kendall_tau_b}
    numbers = {rating: number for number, rating in enumerate(scale)}
    results = []
    for pair in pairs:
        aspects = sorted({aspect for _, aspect in pair.items})
        for group in [*aspects, _ALL] if len(aspects) > 1 else aspects:
            items = [key for key in pair.items if group in (_ALL, key[1])]
            by_id: dict[str, list[tuple[int, int]]] = defaultdict(list)  # aspects of one answer are one cluster
            for key in items:
                both = pair.first.ratings[key], pair.second.ratings[key]
                if None not in both:
                    by_id[key[0]].append((numbers[both[0]], numbers[both[1]]))
            rated = sum(map(len, by_id.values()))
            tables = [contingency_table(both, len(scale)) for both in by_id.values()]
            stacked = np.array(tables) if tables else np.zeros((1, len(scale), len(scale)))
            counts = {"items": rated, "unread": len(items) - rated}
            results.append(Result(pair.name, group or "-", counts, _estimates(stacked, statistics)))
    return results


def _compare_tags(pairs: Iterable[Pair], text_column: str | None, notes: list[str]) -> list[Result]:
    statistics = {"binary kappa": lambda tables: cohen_kappa(any_label(tables)), "category kappa": cohen_kappa}
    results = []
    for pair in pairs:
        tables: dict[str, list[Table]] = defaultdict(list)
        texts: dict[str, list[str]] = defaultdict(list)  # of each table: documents of one text are one cluster
        counts: dict[str, dict[str, int]] = {}
        reports = AnnotationReport(), AnnotationReport()
        for key in pair.items:
            both = pair.first.ratings[key], pair.second.ratings[key]
            languages = {tagged.language for tagged in both if tagged is not None} - {None}
            if len(languages) > 1:
                raise ValueError(
                    f"{pair.name}: {_item_name(key)} is of two languages, {' and '.join(sorted(languages))}; are these the "
                    "same documents (--id NAME says which column holds the ids)?"
                )
            language = str(*languages)
            count = counts.setdefault(language, dict.fromkeys(("documents", "words", "unread", "dropped"), 0))
            if None in both:
                count["unread"] += 1
                continue
            text = next((tagged.text for tagged in both if tagged.text is not None), None)
            if text is None and text_column:
                raise ValueError(f"{pair.name}: {_item_name(key)} has no {text_column!r} in either")
            text = parse(both[0].tagged)[0] if text is None else text
            spans = [
                annotate(tagged.tagged, text, report) if tagged.spans is None else tagged.spans
                for tagged, report in zip(both, reports, strict=True)
            ]
            if spans[0] is None or spans[1] is None:
                count["dropped"] += 1
                continue
            places = words(text, language)
            labels = ([_LABELS.index(label) for label in covered(places, labelled or ())] for labelled in spans)
            tables[language].append(contingency_table(list(zip(*labels, strict=True)), len(_LABELS)))
            texts[language].append(text)
            count["documents"] += 1
            count["words"] += int(tables[language][-1].sum())
        for rater, report in zip(pair[:2], reports, strict=True):
            log.info("%s: %s", rater.name, report)
        for language, count in counts.items():
            if count["dropped"]:
                notes.append("Dropped: one of the tagged texts has next to nothing in common with the text.")
            if not language and count["documents"]:
                notes.append(
                    "Words are what white space parts: neither --language nor a column `language` names a language."
                )
            stacked = np.zeros((1, len(_LABELS), len(_LABELS)))
            if tables[language]:
                stacked = sums_by_cluster(np.array(tables[language]), texts[language])
            results.append(Result(pair.name, language or "-", count, _estimates(stacked, statistics)))
    return results


def _estimates(tables: Table, statistics: Mapping[str, Callable[[Table], Table] | None]) -> dict[str, Figure]:
    """The statistics of stacked tables, with bounds; undefined where they make no sense for these labels."""
    return {name: estimate(tables, statistic) if statistic else UNDEFINED for name, statistic in statistics.items()}


def _means(results: Iterable[Result]) -> list[Result]:
    """The unweighted mean over pairs, for each aspect or language of several pairs; ``nan`` if one of them is."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.group].append(result)
    means = []
    for group, pairs in groups.items():
        if len(pairs) > 1:
            estimates = {
                name: Figure(fmean(pair.estimates[name].value for pair in pairs)) for name in pairs[0].estimates
            }
            means.append(Result(f"mean of {len(pairs)} pairs", group, {}, estimates))
    return means


def render_table(comparison: Comparison) -> str:
    """A comparison as a text table with notes below; ``-`` where a statistic is not defined."""
    first = comparison.results[0]
    lines = [["raters", "language" if comparison.kind == "tags" else "aspect", *first.counts, *first.estimates]]
    for result in comparison.results:
        counts = [str(result.counts.get(name, "")) for name in first.counts]
        lines.append([_short(result.raters), _short(result.group), *counts, *map(_format, result.estimates.values())])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [str.ljust, str.ljust, *[str.rjust] * len(first.counts), *[str.ljust] * len(first.estimates)]
    rows = ["  ".join(f(cell, w) for f, cell, w in zip(aligned, line, widths, strict=True)).rstrip() for line in lines]
    clusters = "texts" if comparison.kind == "tags" else "ids"
    return "\n".join([*rows, "", *comparison.notes, f"In brackets: 95 % bounds, from a bootstrap over {clusters}."])


def _short(text: str) -> str:
    """A name for a table: on one line, shortened, and without terminal control characters."""
    text = " ".join(printable(text).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _format(figure: Figure) -> str:
    if math.isnan(figure.value):
        return "-"
    return f"{figure.value:.3f}" + ("" if math.isnan(figure.low) else f" [{figure.low:.3f}, {figure.high:.3f}]")
