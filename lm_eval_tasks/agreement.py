"""How far raters agree, people or a judge model: the command ``lm-eval-grounded agreement``.

Two kinds of files: *ratings* of items, and *tags* of hallucinated spans in texts. Tags are compared word by word, as in the
mFAVA paper's Figure 2.
"""

from __future__ import annotations

import csv
import json
import logging
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from custom_metrics.agreement import (
    Estimate,
    any_label,
    cohen_kappa,
    contingency_table,
    equal_share,
    estimate,
    kendall_tau_b,
    quadratic_weights,
)
from custom_metrics.spans import CATEGORIES, HALLUCINATION, Span, covered
from custom_metrics.words import words
from detector_plugin.display import printable
from lm_eval_tasks.mfava.annotations import AnnotationReport, annotate, parse
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.sources import CorruptSource
from lm_eval_tasks.tables import read_lines

__all__ = ["KINDS", "Comparison", "Result", "compare", "table"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

KINDS = {"ratings": "rating", "tags": "annotated"}
"""Kinds of files, and the column that holds what the rater said where none is named."""

LABELS = (None, *CATEGORIES, HALLUCINATION)
"""What a word of a tagged text can be."""

_LARGEST_SCALE = 101  # 0 to 100; more different ratings are measurements or free texts
_CODES = {"english": "en", **{language.name.lower(): code for code, language in LANGUAGES.items()}}
_ALL = "all aspects"

Key: TypeAlias = tuple[str, str]  # id and aspect of an item; the aspect is empty where there is none
Row: TypeAlias = tuple[str, dict[str, Any]]  # where it stands, for messages; values by column
Table: TypeAlias = "np.ndarray[Any, Any]"
Statistics: TypeAlias = Mapping[str, Callable[[Table], Table] | None]  # None: makes no sense for these labels


@dataclass(frozen=True)
class Result:
    """Two raters compared on an aspect or in a language; or the plain mean of such pairs, which has no bounds.

    Attributes:
        raters: both names, or ``mean of N pairs``.
        group: the aspect, or ``all aspects`` together; or the language; ``-`` where there is none.
        counts: ``items`` rated by both, and ``unread`` by one of them; or ``documents`` and their ``words``, and the
            documents that could not be compared: ``unread`` (no tagged text), ``dropped`` (a copy of something else).
        estimates: by name of the statistic.
    """

    raters: str
    group: str
    counts: Mapping[str, int]
    estimates: Mapping[str, Estimate]


@dataclass(frozen=True)
class Comparison:
    """Results in the order of the pairs, then the means; and what a reader of them must know."""

    kind: str
    results: tuple[Result, ...]
    notes: tuple[str, ...]


class _Tagged(NamedTuple):
    """A tagged text, and what its row says of the text that was tagged."""

    tagged: str
    text: str | None
    language: str | None


class _Rater(NamedTuple):
    """What a rater said of each item: a number, a label or a `_Tagged`; ``None`` where that is missing or unread."""

    name: str
    said: Mapping[Key, Any]


class _Pair(NamedTuple):
    first: _Rater
    second: _Rater
    items: list[Key]  # of both

    @property
    def name(self) -> str:
        return f"{self.first.name}, {self.second.name}"


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
    names = _names(files, columns)
    rows = [_rows(path, column, id_column or "id") for path, column in zip(files, columns, strict=True)]
    if kind == "tags" and id_column is None and not any("id" in row for each in rows for _, row in each):
        rows = _numbered(names, rows)

    def said(where: str, row: dict[str, Any], column: str) -> tuple[Key, Any]:
        identity = _id(where, row, id_column or "id")
        if kind == "tags":
            return (identity, ""), _tagged(where, row, column, text_column, language)
        return (identity, str(row.get("aspect") or "").strip()), _rating(where, row.get(column))

    notes: list[str] = []
    raters = [
        _Rater(name, _once(name, [(where, *said(where, row, column)) for where, row in each], notes))
        for name, each, column in zip(names, rows, columns, strict=True)
    ]
    pairs = _pairs(raters, notes)
    results = _compare_tags(pairs, text_column, notes) if kind == "tags" else _compare_ratings(pairs, raters, notes)
    return Comparison(kind, (*results, *_means(results)), tuple(dict.fromkeys(notes)))


def table(comparison: Comparison) -> str:
    """A comparison as a table to read, notes below; ``-`` where a statistic is not defined."""
    first = comparison.results[0]
    lines = [["raters", "language" if comparison.kind == "tags" else "aspect", *first.counts, *first.estimates]]
    lines += [
        [
            _shown(result.raters),
            _shown(result.group),
            *(str(result.counts.get(name, "")) for name in first.counts),
            *map(_in_digits, result.estimates.values()),
        ]
        for result in comparison.results
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [str.ljust, str.ljust, *[str.rjust] * len(first.counts), *[str.ljust] * len(first.estimates)]
    rows = ["  ".join(f(cell, w) for f, cell, w in zip(aligned, line, widths, strict=True)).rstrip() for line in lines]
    clusters = "documents" if comparison.kind == "tags" else "ids"
    return "\n".join([*rows, "", *comparison.notes, f"In brackets: 95 % bounds, from a bootstrap over {clusters}."])


# ------------------------------------------------------------------------------------------------------------ comparing


def _pairs(raters: Sequence[_Rater], notes: list[str]) -> list[_Pair]:
    """Every two raters that judged the same items; of the items that one of them did not judge, how many."""
    pairs = []
    for first, second in combinations(raters, 2):
        pair = _Pair(first, second, [key for key in first.said if key in second.said])
        alone = [f"{len(one.said) - len(pair.items)} in {one.name} alone" for one in pair[:2]]
        if any(len(one.said) > len(pair.items) for one in (first, second)):
            notes.append(f"{pair.name}: {len(pair.items)} in both; {', '.join(alone)}.")
        if pair.items:
            pairs.append(pair)
    if not pairs:
        some = "; ".join(f"{one.name} has {', '.join(map(_named, [*one.said][:2]))}" for one in raters[:2])
        raise ValueError(f"no item was judged by two raters: {some} (--id NAME says which column holds the ids)")
    return pairs


def _compare_ratings(pairs: Iterable[_Pair], raters: Sequence[_Rater], notes: list[str]) -> list[Result]:
    ratings = dict.fromkeys(one for rater in raters for one in rater.said.values() if one is not None)
    if len(ratings) > _LARGEST_SCALE:
        some = ", ".join(map(_quoted, [*ratings][:3]))
        raise ValueError(
            f"{len(ratings)} different ratings ({some}, ...) are no scale; --column NAME says where they are"
        )
    labels = [rating for rating in ratings if isinstance(rating, str)]
    statistics: dict[str, Callable[[Table], Table] | None] = {"exact": equal_share, "kappa": cohen_kappa}
    if labels:
        scale = sorted(ratings, key=str)
        statistics |= {"weighted kappa": None, "tau-b": None}
        where = next(rater.name for rater in raters if labels[0] in rater.said.values())
        notes.append(f"No order (so no weighted kappa, no tau-b): {_quoted(labels[0])} in {where} is no number.")
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
            by_id: dict[str, list[tuple[int, int]]] = defaultdict(list)  # the aspects of one answer are no two answers
            for key in items:
                both = pair.first.said[key], pair.second.said[key]
                if None not in both:
                    by_id[key[0]].append((numbers[both[0]], numbers[both[1]]))
            rated = sum(map(len, by_id.values()))
            tables = [contingency_table(both, len(scale)) for both in by_id.values()]
            counts = {"items": rated, "unread": len(items) - rated}
            results.append(Result(pair.name, group or "-", counts, _estimates(tables, statistics, len(scale))))
    return results


def _compare_tags(pairs: Iterable[_Pair], text_column: str | None, notes: list[str]) -> list[Result]:
    statistics = {"binary kappa": lambda tables: cohen_kappa(any_label(tables)), "category kappa": cohen_kappa}
    results = []
    for pair in pairs:
        tables: dict[str, list[Table]] = defaultdict(list)
        counts: dict[str, dict[str, int]] = {}
        reports = AnnotationReport(), AnnotationReport()
        for key in pair.items:
            first, second = pair.first.said[key], pair.second.said[key]
            language = _language(key, pair)
            count = counts.setdefault(language, dict.fromkeys(("documents", "words", "unread", "dropped"), 0))
            if first is None or second is None:
                count["unread"] += 1
                continue
            text = next((one.text for one in (first, second) if one.text is not None), None)
            if text is None:
                if text_column:
                    raise ValueError(f"{pair.name}: {_named(key)} has no {text_column!r} in either")
                text = parse(first.tagged)[0]
            spans = [annotate(one.tagged, text, report) for one, report in zip((first, second), reports, strict=True)]
            if spans[0] is None or spans[1] is None:
                count["dropped"] += 1
                continue
            tables[language].append(_word_table(text, language, spans[0], spans[1]))
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
            estimates = _estimates(tables[language], statistics, len(LABELS))
            results.append(Result(pair.name, language or "-", count, estimates))
    return results


def _word_table(text: str, language: str, first: Sequence[Span], second: Sequence[Span]) -> Table:
    places = words(text, language)
    labels = ([LABELS.index(label) for label in covered(places, spans)] for spans in (first, second))
    return contingency_table(list(zip(*labels, strict=True)), len(LABELS))


def _language(key: Key, pair: _Pair) -> str:
    """The language that the rows of both raters name; empty where they name none."""
    named = {one.said[key].language for one in pair[:2] if one.said[key] is not None} - {None}
    if len(named) > 1:
        raise ValueError(
            f"{pair.name}: {_named(key)} is of two languages, {' and '.join(sorted(named))}; are these the same documents "
            "(--id NAME says which column holds the ids)?"
        )
    return str(*named)


def _estimates(tables: Sequence[Table], statistics: Statistics, labels: int) -> dict[str, Estimate]:
    stacked = np.array(tables) if tables else np.zeros((1, labels, labels))
    unknown = Estimate(math.nan, math.nan, math.nan)
    return {name: estimate(stacked, statistic) if statistic else unknown for name, statistic in statistics.items()}


def _means(results: Iterable[Result]) -> list[Result]:
    """Of each aspect or language that several pairs were compared on, the plain mean; ``nan`` where one of them is."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.group].append(result)
    return [
        Result(
            f"mean of {len(pairs)} pairs",
            group,
            {},
            {
                name: Estimate(float(np.mean([pair.estimates[name].value for pair in pairs])), math.nan, math.nan)
                for name in pairs[0].estimates
            },
        )
        for group, pairs in groups.items()
        if len(pairs) > 1
    ]


# -------------------------------------------------------------------------------------------------------------- reading


def _rows(path: Path, column: str, id_column: str) -> list[Row]:
    """The rows of a file, what a sample of the harness holds under the names of the columns."""
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        read = _json_lines(path)
    elif name.endswith(".json"):
        read = _json(path)
    elif name.endswith((".csv", ".tsv")):
        read = _delimited(path, "," if name.endswith(".csv") else "\t")
    else:
        raise ValueError(f"{path}: which format? The name of a file must end in .jsonl, .jsonl.gz, .json, .csv or .tsv")
    rows = []
    for where, row in read:
        doc, answers = row.get("doc"), row.get("filtered_resps")
        if isinstance(doc, dict) and isinstance(answers, list) and answers:
            row = {**doc, id_column: doc.get(id_column, doc.get("id")), column: answers[0]}
            if "first" in doc and "second" in doc:  # of a comparison: each order is an item, and a system is preferred
                shown = {"A": doc["first"], "B": doc["second"]}
                row |= {id_column: doc.get("query_id"), column: shown.get(answers[0], answers[0])}
        rows.append((f"{path}, {where}", row))
    if not rows:
        raise CorruptSource(f"{path} has no rows")
    if not any(column in row for _, row in rows):
        raise ValueError(f"{path} has no column {column!r}; it has {_columns(rows)} (--column NAME)")
    return rows


def _json_lines(path: Path) -> Iterator[Row]:
    for number, line in read_lines(path):
        line = line.removeprefix("\ufeff").strip()
        if line:
            yield f"line {number}", _object(path, f"line {number}", _loads(path, f"line {number}", line))


def _json(path: Path) -> Iterator[Row]:
    try:
        content = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorruptSource(f"{path} is no UTF-8 text: {error}") from error
    values = _loads(path, "whole file", content)
    if not isinstance(values, list):
        raise CorruptSource(f"{path}: expected a list of objects, found {type(values).__name__}")
    for number, value in enumerate(values, 1):
        yield f"row {number}", _object(path, f"row {number}", value)


def _loads(path: Path, where: str, content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError of another kind
        raise CorruptSource(f"{path}, {where}: no JSON ({error})") from error


def _object(path: Path, where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CorruptSource(f"{path}, {where}: expected a JSON object, found {type(value).__name__}")
    return value


def _delimited(path: Path, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(min(sys.maxsize, 1 << 30))  # answers are longer than the default allows
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream, delimiter=delimiter, strict=True)  # strict: a quote that never ends is an error
        try:
            for row in reader:
                if None in row or None in row.values():
                    raise CorruptSource(f"{path}, line {reader.line_num}: not as many fields as the header has")
                yield f"line {reader.line_num}", row
        except (csv.Error, UnicodeDecodeError) as error:
            raise CorruptSource(f"{path}, line {reader.line_num}: {error}") from error


def _numbered(names: Sequence[str], tables: Sequence[list[Row]]) -> list[list[Row]]:
    """Files without ids, their rows numbered.

    Raises:
        ValueError: they are not equally long, so that rows of one number need not be the same document.
    """
    if len({len(rows) for rows in tables}) > 1:
        lengths = ", ".join(f"{name} {len(rows)}" for name, rows in zip(names, tables, strict=True))
        raise ValueError(
            f"no file has ids, and their rows are not equally many ({lengths}); --id NAME says where ids are"
        )
    log.info("no file has a column `id`: rows with the same number are taken for the same document")
    return [[(where, {**row, "id": f"row {number}"}) for number, (where, row) in enumerate(rows, 1)] for rows in tables]


def _once(name: str, said: Iterable[tuple[str, Key, Any]], notes: list[str]) -> dict[Key, Any]:
    """What was said of each item; what is unread gives way to what is not.

    Raises:
        ValueError: two different things were said.
    """
    found: dict[Key, Any] = {}
    repeated = 0
    for where, key, value in said:
        repeated += key in found
        if found.get(key) is None:
            found[key] = value
        elif value not in (None, found[key]):
            both = f"{_quoted(found[key])} before, {_quoted(value)} here"
            raise ValueError(f"{where}: {_named(key)} stands here a second time and differs ({both})")
    if repeated:
        notes.append(f"{name}: {repeated} rows say again what was said before; they count once.")
    return found


def _id(where: str, row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas writes whole numbers of a column with gaps
    if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
        return str(value).strip()
    raise ValueError(
        f"{where}: the id in {column!r} must be a text or a number, found {_quoted(value)}; the columns are "
        f"{_columns([(where, row)])} (--id NAME)"
    )


def _rating(where: str, value: Any) -> float | str | None:
    """A finite number, else a label; ``None`` for what says that there is none."""
    if value is None:
        return None
    if not isinstance(value, (str, int, float)):
        raise CorruptSource(f"{where}: a rating is a number or a label, found {_quoted(value)}")
    label = str(value).strip()
    if label.lower() in ("", "nan", "unread"):
        return None
    try:
        number = float(label)
    except ValueError:
        return label
    return number if math.isfinite(number) and "_" not in label else label  # Python reads 1_0 as 10


def _tagged(
    where: str, row: Mapping[str, Any], column: str, text_column: str | None, language: str | None
) -> _Tagged | None:
    tagged = _text(where, row, column)
    if tagged is None or not tagged.strip():
        return None
    text = _text(where, row, text_column) if text_column else None
    named = language or _text(where, row, "language")
    return _Tagged(tagged, text, _code(where, named) if named else None)


def _text(where: str, row: Mapping[str, Any], column: str) -> str | None:
    value = row.get(column)
    if value is not None and not isinstance(value, str):
        raise CorruptSource(f"{where}: {column!r} is no text but {_quoted(value)}")
    return value


def _code(where: str, language: str) -> str:
    """ISO 639 code of a language, named by it or in English."""
    name = language.strip().lower()
    code = _CODES.get(name, name)
    if not re.fullmatch("[a-z]{2,3}", code):
        raise ValueError(
            f"{where}: unknown language {_quoted(language)}; known are ISO 639 codes and mFAVA's languages"
        )
    return code


# -------------------------------------------------------------------------------------------------------------- showing


def _names(files: Sequence[Path], columns: Sequence[str]) -> list[str]:
    """Short names that tell the raters apart.

    Raises:
        ValueError: one column of one file is named twice: it agrees with itself.
    """
    candidates = [path.name for path in files], list(columns), [f"{p}:{c}" for p, c in zip(files, columns, strict=True)]
    for names in candidates:
        if len({*names}) == len(files):
            return [_shown(name) for name in names]
    raise ValueError(
        f"one column of one file is named twice: {', '.join(candidates[-1])}; for two columns --column A B"
    )


def _columns(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    names = dict.fromkeys(name for _, row in rows for name in row)
    return ", ".join(map(_quoted, [*names][:12])) + (", ..." if len(names) > 12 else "")


def _named(key: Key) -> str:
    return _quoted(key[0]) + (f" ({_quoted(key[1])})" if key[1] else "")


def _quoted(value: Any) -> str:
    """A value in a message: short, and without what could act on a terminal."""
    value = value.tagged if isinstance(value, _Tagged) else value
    quoted = f"{value:g}" if isinstance(value, float) else repr(value)
    return quoted if len(quoted) <= 60 else f"{quoted[:57]}..."


def _shown(text: str) -> str:
    text = " ".join(printable(text).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _in_digits(figure: Estimate) -> str:
    if math.isnan(figure.value):
        return "-"
    return f"{figure.value:.3f}" + ("" if math.isnan(figure.low) else f" [{figure.low:.3f}, {figure.high:.3f}]")
