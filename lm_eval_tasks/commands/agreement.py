"""How far raters agree: people, or a judge model.

Compares what raters said of the same items: ratings (share of equal ones, Cohen's kappa, quadratic-weighted kappa,
Kendall's tau-b), or mFAVA's tags (kappa of words). With more than two files: every pair, and their mean.

Examples:
  lm-eval-grounded agreement people.csv judge.jsonl --column faithfulness
  lm-eval-grounded agreement anna.jsonl ben.jsonl --kind tags
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, on_one_line, shorten
from lm_eval_tasks.commands import say

if TYPE_CHECKING:
    from custom_metrics.reading.spans import Span
    from custom_metrics.statistics.agreement import Statistic
    from custom_metrics.statistics.figures import Figure


KINDS = {"ratings": "rating", "tags": "annotated"}
"""Kinds of files, with the default column of the ratings."""

Key = tuple[str, str]  # id and aspect of an item; the aspect is empty where there is none
Row = tuple[str, dict[str, Any]]  # its place, for messages, and its values by column
Ratings = dict[Key, Any]  # a number, a label or a `Tagged`; None where it is missing or unread

_LARGEST_SCALE = 101  # 0 to 100; more different ratings are measurements or free texts
_LONGEST = 60  # characters of a name in the table
_ALL = "all aspects"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    files = ".jsonl, .jsonl.gz, .json, .csv or .tsv, or a samples file of `lm_eval --log_samples`; one for each rater"
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help=files)
    parser.add_argument("--kind", choices=tuple(KINDS), default="ratings", help="default: ratings")
    parser.add_argument("--id", metavar="NAME", help="column that says which item a row is of (default: id)")
    column = "column of ratings (default: rating) or tagged texts (default: annotated): one for all or each file"
    parser.add_argument("--column", nargs="+", default=[], metavar="NAME", help=column)
    text = "column of the text that was tagged (default: the first rater's, without tags)"
    parser.add_argument("--text", metavar="NAME", help=text)
    parser.add_argument(
        "--language", help="of the tagged texts; decides what a word is (default: the column `language`)"
    )


def run(arguments: argparse.Namespace) -> int:
    comparison = compare(
        arguments.files, arguments.kind, arguments.column, arguments.id, arguments.text, arguments.language
    )
    say(render_table(comparison))
    return 0


class Tagged(NamedTuple):
    """A tagged text, or the spans of a text that an annotator marked; with the original text and its language, if known."""

    tagged: str
    text: str | None
    language: str
    spans: tuple[Span, ...] | None = None


class Result(NamedTuple):
    """The agreement of two raters on an aspect or in a language; or the unweighted mean over pairs, which has no bounds."""

    raters: str  # both names, or ``mean of N pairs``
    group: str  # the aspect, or ``all aspects`` together; or the language; ``-`` where there is none
    counts: Mapping[str, int]  # compared ``items``, or ``documents`` and ``words``; others: ``unread``, ``dropped``
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
        files: one for each rater, in any format of :class:`LogFile`; also samples of the harness (the filtered answer is
            the rating), and files of marks.
        kind: a key of :data:`KINDS`.
        columns: of the rating or the tagged text: one for all files or one for each.
        id_column: default ``id``. Tagged texts without ids are joined by row.
        text_column: of the text that was tagged, to which both raters' tags are aligned; default: the first rater's text
            without its tags.
        language: of the tagged texts, a code or an English name; default: the column ``language``.

    Raises:
        OSError, UsageError, CorruptSource: a file cannot be used, or no two raters judged the same item.
    """
    if kind == "ratings" and (text_column or language):
        raise UsageError("--text and --language are for tagged texts; did you mean --kind tags?")
    if len(files) < 2:
        raise UsageError("agreement is between raters: name two files or more (or one twice, with two columns)")
    columns = [*columns] or [KINDS[kind]]
    if len(columns) not in (1, len(files)):
        raise UsageError(f"--column: {len(columns)} columns for {len(files)} files; name one, or one for each file")
    columns = columns if len(columns) > 1 else columns * len(files)
    both = [f"{path}:{column}" for path, column in zip(files, columns, strict=True)]
    names = next((each for each in ([path.name for path in files], columns, both) if len({*each}) == len(files)), None)
    if names is None:
        raise UsageError(f"one column of one file is named twice: {', '.join(both)}; for two columns --column A B")
    notes: list[str] = []
    raters: dict[str, Ratings] = {}
    for name, path, column in zip(map(on_one_line, names), files, columns, strict=True):
        ratings = raters[name] = {}
        for place, (where, row) in enumerate(rows := _read_rows(path, column, id_column or "id"), 1):
            if kind == "tags" and not id_column:
                row.setdefault("id", f"row {place}")
            key = _id(where, row, id_column), str(row.get("aspect") or "").strip() if kind == "ratings" else ""
            rating: Any = _rating(where, row.get(column)) if kind == "ratings" else None
            if kind == "tags":
                rating = _tagged(where, row, column, text_column, language)
            if rating is not None and ratings.get(key) not in (None, rating):
                raise UsageError(f"{where}: {_item(key)} is there a second time and differs")
            ratings[key] = rating if rating is not None else ratings.get(key)
        if repeated := len(rows) - len(ratings):
            notes.append(f"{name}: {repeated} rows repeat an item; they count once.")
    results = _compare_tags(raters, text_column, notes) if kind == "tags" else _compare_ratings(raters, notes)
    return Comparison(kind, (*results, *_means(results)), tuple(dict.fromkeys(notes)))


# ---------------------------------------------------------------------------------------------------------- rows of files


def _read_rows(path: Path, column: str, id_column: str) -> list[Row]:
    """The rows of a file. Samples of the harness and marks become rows with the names of the columns."""
    from custom_metrics.reading.spans import span_of
    from lm_eval_tasks.data.sources import CorruptSource
    from lm_eval_tasks.results.logs.records import LogFile

    rows = []
    for record in LogFile(path, str(path)).records():
        assert record is not None  # only of a file that grows
        where, row = f"{path}, line {record.number}", record.value
        if record.problem:
            raise CorruptSource(f"{where}: {record.problem}")
        doc, answers = row.get("doc"), row.get("filtered_resps")
        if isinstance(doc, dict) and isinstance(answers, list) and answers:
            answer = answers[0]
            row = {**doc, id_column: doc.get(id_column, doc.get("id")), column: answer}
            if "first" in doc and "second" in doc:  # a comparison: each order is an item, and the rating is a system
                systems = {"A": doc["first"], "B": doc["second"]}
                row |= {id_column: doc.get("query_id"), column: systems.get(str(answer), answer)}
        elif column not in row and "spans" in row and isinstance(row.get("answer"), str):  # of a file of marks
            try:
                spans = None if row["spans"] is None else tuple(map(span_of, row["spans"]))
            except (TypeError, ValueError) as error:
                raise CorruptSource(f"{where}: {error}") from error
            marks = None if spans is None else Tagged("", row["answer"], str(row.get("language") or ""), spans)
            row = {**row, id_column: f"{row.get('id')} of run {row.get('run')}", column: marks}
        rows.append((where, row))
    if not rows:
        raise CorruptSource(f"{path} has no rows")
    if not any(column in row for _, row in rows):
        names = dict.fromkeys(name for _, row in rows for name in row)
        raise UsageError(
            f"{path} has no column {column!r}; it has {shorten([*map(excerpt, names)], 12)} (--column NAME)"
        )
    return rows


def _id(where: str, row: Mapping[str, Any], column: str | None) -> str:
    value = row.get(column or "id")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas writes whole numbers of a column with gaps
    if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
        return str(value).strip()
    raise UsageError(
        f"{where}: the id in {column or 'id'!r} must be a text or a number, got {excerpt(value)}; the columns are "
        f"{shorten([*map(excerpt, row)], 12)} (--id NAME)"
    )


def _rating(where: str, value: Any) -> float | str | None:
    """A rating as a finite number, else as a label; ``None`` if it is missing or says so."""
    from lm_eval_tasks.data.sources import CorruptSource

    if value is not None and not isinstance(value, (str, int, float)):
        raise CorruptSource(f"{where}: a rating is a number or a label, got {excerpt(value)}")
    label = "" if value is None else str(value).strip()
    if label.lower() in ("", "nan", "unread"):
        return None
    try:
        number = float(label)
    except ValueError:
        return label
    return number if math.isfinite(number) and "_" not in label else label  # Python reads 1_0 as 10


def _tagged(
    where: str, row: Mapping[str, Any], column: str, text_column: str | None, language: str | None
) -> Tagged | None:
    """The tagged text of a row; ``None`` where there is none."""
    from lm_eval_tasks.data.sources import CorruptSource
    from lm_eval_tasks.mfava.dataset import LANGUAGES

    if isinstance(marks := row.get(column), Tagged):
        return marks._replace(language=language or marks.language)
    texts = {name: row.get(name) for name in (column, text_column, "language") if name is not None}
    texts |= {"language": language} if language else {}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise CorruptSource(f"{where}: {name!r} must be a text, got {excerpt(value)}")
    if not (tagged := texts[column] or "").strip():
        return None
    code = (texts["language"] or "").strip().lower()
    names = {"english": "en", **{language.name.lower(): each for each, language in LANGUAGES.items()}}
    if (code := names.get(code, code)) and not re.fullmatch("[a-z]{2,3}", code):
        known = "known are ISO 639 codes and mFAVA's languages"
        raise UsageError(f"{where}: unknown language {excerpt(texts['language'])}; {known}")
    return Tagged(tagged, texts[text_column] if text_column else None, code)


# ------------------------------------------------------------------------------------------------------- pairs of raters


Judged = tuple[Sequence[str], str, Sequence[tuple[int, int]], Mapping[str, int]]
"""An item that two raters judged: the aspects, or the language, whose results it counts in; its cluster, as items of one
depend on each other; the labels of its units by both raters; and what to count."""

Judge = Callable[[str, Key, Any, Any], Judged]
"""Of the names of two raters, an item, and what each of them said of it."""


def _results(
    raters: Mapping[str, Ratings],
    judge: Judge,
    statistics: Mapping[str, Statistic | None],
    labels: int,
    notes: list[str],
) -> list[Result]:
    """A result for each pair of raters with common items, and each group of these. Items that only one of them rated are
    counted in the notes."""
    import numpy as np

    from custom_metrics.statistics import agreement
    from custom_metrics.statistics.figures import UNDEFINED

    results = []
    for (first, ours), (second, theirs) in combinations(raters.items(), 2):
        pair, shared = f"{first}, {second}", [key for key in ours if key in theirs]
        if len(ours) + len(theirs) > 2 * len(shared):
            alone = f"{len(ours) - len(shared)} in {first} alone, {len(theirs) - len(shared)} in {second} alone"
            notes.append(f"{pair}: {len(shared)} in both; {alone}.")
        clusters: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for key in shared:
            in_groups, cluster, of_units, numbers = judge(pair, key, ours[key], theirs[key])
            for group in in_groups:
                counts[group].update(numbers)
                if of_units:
                    clusters[group][cluster] += of_units
        groups = sorted(counts, key=lambda group: (group == _ALL, group))
        for group in groups[:1] if groups[1:] == [_ALL] else groups:
            tables = [agreement.contingency_table(pairs, labels) for pairs in clusters[group].values()]
            stacked = np.array(tables) if tables else np.zeros((1, labels, labels))
            figures = {name: agreement.estimate(stacked, of) if of else UNDEFINED for name, of in statistics.items()}
            results.append(Result(pair, group or "-", counts[group], figures))
    if not results:
        some = "; ".join(f"{name} has {', '.join(map(_item, [*each][:2]))}" for name, each in [*raters.items()][:2])
        raise UsageError(f"no item was judged by two raters: {some} (--id NAME names the column of the ids)")
    return results


def _item(key: Key) -> str:
    """An item in a message: its id, and its aspect where it has one."""
    return excerpt(key[0]) + (f" ({excerpt(key[1])})" if key[1] else "")


def _compare_ratings(raters: Mapping[str, Ratings], notes: list[str]) -> list[Result]:
    from custom_metrics.statistics import agreement

    ratings = dict.fromkeys(
        rating for of_rater in raters.values() for rating in of_rater.values() if rating is not None
    )
    if len(ratings) > _LARGEST_SCALE:
        some = shorten([f"{rating:g}" if isinstance(rating, float) else repr(rating) for rating in ratings])
        raise UsageError(f"{len(ratings)} different ratings ({excerpt(some)}) are no scale; --column NAME has them")
    labels = [rating for rating in ratings if isinstance(rating, str)]
    scale = sorted(ratings, key=str) if labels else sorted(ratings)
    statistics: dict[str, Statistic | None] = {"exact": agreement.equal_share, "kappa": agreement.cohen_kappa}
    statistics |= {"weighted kappa": None, "tau-b": None}
    if labels:
        name = next(name for name, of_rater in raters.items() if labels[0] in of_rater.values())
        notes.append(f"No order (so no weighted kappa, no tau-b): {excerpt(labels[0])} in {name} is not a number.")
    else:
        weighted = partial(agreement.cohen_kappa, weights=agreement.quadratic_weights(scale))
        statistics |= {"weighted kappa": weighted, "tau-b": agreement.kendall_tau_b}
    places = {rating: place for place, rating in enumerate(scale)}

    def judge(_: str, key: Key, first: Any, second: Any) -> Judged:
        read = [] if first is None or second is None else [(places[first], places[second])]
        return (key[1], _ALL), key[0], read, {"items": len(read), "unread": 1 - len(read)}

    return _results(raters, judge, statistics, len(scale), notes)


def _compare_tags(raters: Mapping[str, Ratings], text_column: str | None, notes: list[str]) -> list[Result]:
    from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, covered
    from custom_metrics.reading.tagged_text import parse
    from custom_metrics.reading.words import words
    from custom_metrics.statistics import agreement
    from lm_eval_tasks.mfava.annotations import AnnotationReport, annotate

    of_word = (None, *CATEGORIES, HALLUCINATION)

    def judge(pair: str, key: Key, first: Tagged | None, second: Tagged | None) -> Judged:
        counts = dict.fromkeys(("documents", "words", "unread", "dropped"), 0)
        both = [tagged for tagged in (first, second) if tagged is not None]
        languages = sorted({tagged.language for tagged in both} - {""})
        if len(languages) > 1:
            same = "are these the same documents (--id NAME names the column of the ids)?"
            raise UsageError(f"{pair}: {_item(key)} is in two languages, {' and '.join(languages)}; {same}")
        language = "".join(languages)
        if len(both) < 2:
            return [language], "", [], {**counts, "unread": 1}
        text = next((tagged.text for tagged in both if tagged.text is not None), None)
        if text is None and text_column:
            raise UsageError(f"{pair}: {_item(key)} has no {text_column!r} in either")
        text = parse(both[0].tagged)[0] if text is None else text
        spans = [annotate(each.tagged, text, AnnotationReport()) if each.spans is None else each.spans for each in both]
        if None in spans:
            notes.append("Dropped: one of the tagged texts has almost nothing in common with the text.")
            return [language], "", [], {**counts, "dropped": 1}
        if not language:
            notes.append("White space separates words: neither --language nor a column `language` names a language.")
        places = words(text, language)
        labels = ([of_word.index(label) for label in covered(places, marked or ())] for marked in spans)
        return [language], text, [*zip(*labels, strict=True)], {**counts, "documents": 1, "words": len(places)}

    binary: Statistic = lambda tables: agreement.cohen_kappa(agreement.any_label(tables))  # noqa: E731
    statistics = {"binary kappa": binary, "category kappa": agreement.cohen_kappa}
    return _results(raters, judge, statistics, len(of_word), notes)


def _means(results: Sequence[Result]) -> Iterator[Result]:
    """The unweighted mean over pairs, for each aspect or language of several pairs; ``nan`` if one of them is."""
    from custom_metrics.statistics.figures import Figure

    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.group].append(result)
    for group, pairs in groups.items():
        if len(pairs) > 1:
            names = pairs[0].estimates
            means = {name: Figure(fmean(pair.estimates[name].value for pair in pairs)) for name in names}
            yield Result(f"mean of {len(pairs)} pairs", group, {}, means)


def render_table(comparison: Comparison) -> str:
    """A comparison as a text table with notes below; ``-`` where a statistic is not defined."""
    from lm_eval_tasks.results.compare.tables import shortened
    from lm_eval_tasks.results.formats import Section, number, render_sections, with_range

    first = comparison.results[0]
    header = ("raters", "language" if comparison.kind == "tags" else "aspect", *first.counts, *first.estimates)
    rows = []
    for result in comparison.results:
        names = (shortened(on_one_line(" ".join(text.split())), _LONGEST) for text in (result.raters, result.group))
        counts = (str(result.counts.get(name, "")) for name in first.counts)
        values = (with_range(number(each.value), each.low, each.high) for each in result.estimates.values())
        rows.append((*names, *counts, *values))
    note = f"In brackets: 95 % bounds, from a bootstrap over {'texts' if comparison.kind == 'tags' else 'ids'}."
    return render_sections([Section(header, tuple(rows), (), (*comparison.notes, note))], "text").removesuffix("\n")
