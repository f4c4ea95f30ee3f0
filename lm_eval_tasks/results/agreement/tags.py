"""Tags of hallucinated spans in texts, compared word by word as in the mFAVA paper's Figure 2."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered
from custom_metrics.reading.tagged_text import parse
from custom_metrics.reading.words import words
from custom_metrics.statistics.agreement import any_label, cohen_kappa, contingency_table
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.mfava.detection import AnnotationReport, annotate
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.results.agreement.raters import Key, Pair, named, quoted
from lm_eval_tasks.results.agreement.results import Result, Table, estimates_of

__all__ = ["LABELS", "Tagged", "compare_tags", "tagged_of"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LABELS = (None, *CATEGORIES, HALLUCINATION)
"""What a word of a tagged text can be."""

_CODES = {"english": "en", **{language.name.lower(): code for code, language in LANGUAGES.items()}}


class Tagged(NamedTuple):
    """A tagged text, and what its row says of the text that was tagged."""

    tagged: str
    text: str | None
    language: str | None

    def __repr__(self) -> str:  # what messages show of it
        return repr(self.tagged)


def compare_tags(pairs: Iterable[Pair], text_column: str | None, notes: list[str]) -> list[Result]:
    """Each pair in each language, word by word."""
    statistics = {"binary kappa": lambda tables: cohen_kappa(any_label(tables)), "category kappa": cohen_kappa}
    results = []
    for pair in pairs:
        tables: dict[str, list[Table]] = defaultdict(list)
        texts: dict[str, list[str]] = defaultdict(list)  # of each table: documents of one text are drawn together
        counts: dict[str, dict[str, int]] = {}
        reports = AnnotationReport(), AnnotationReport()
        for key in pair.items:
            first, second = pair.first.ratings[key], pair.second.ratings[key]
            language = _language(key, pair)
            count = counts.setdefault(language, dict.fromkeys(("documents", "words", "unread", "dropped"), 0))
            if first is None or second is None:
                count["unread"] += 1
                continue
            text = next((one.text for one in (first, second) if one.text is not None), None)
            if text is None:
                if text_column:
                    raise ValueError(f"{pair.name}: {named(key)} has no {text_column!r} in either")
                text = parse(first.tagged)[0]
            spans = [annotate(one.tagged, text, report) for one, report in zip((first, second), reports, strict=True)]
            if spans[0] is None or spans[1] is None:
                count["dropped"] += 1
                continue
            tables[language].append(_word_table(text, language, spans[0], spans[1]))
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
            estimates = estimates_of(tables[language], statistics, len(LABELS), texts[language])
            results.append(Result(pair.name, language or "-", count, estimates))
    return results


def _word_table(text: str, language: str, first: Sequence[Span], second: Sequence[Span]) -> Table:
    places = words(text, language)
    labels = ([LABELS.index(label) for label in covered(places, spans)] for spans in (first, second))
    return contingency_table(list(zip(*labels, strict=True)), len(LABELS))


def _language(key: Key, pair: Pair) -> str:
    """The language that the rows of both raters name; empty where they name none."""
    languages = {one.ratings[key].language for one in pair[:2] if one.ratings[key] is not None} - {None}
    if len(languages) > 1:
        raise ValueError(
            f"{pair.name}: {named(key)} is of two languages, {' and '.join(sorted(languages))}; are these the same "
            "documents (--id NAME says which column holds the ids)?"
        )
    return str(*languages)


def tagged_of(
    where: str, row: Mapping[str, Any], column: str, text_column: str | None, language: str | None
) -> Tagged | None:
    """The tagged text of a row; ``None`` where there is none."""
    tagged = _text(where, row, column)
    if tagged is None or not tagged.strip():
        return None
    text = _text(where, row, text_column) if text_column else None
    spoken = language or _text(where, row, "language")
    return Tagged(tagged, text, _code(where, spoken) if spoken else None)


def _text(where: str, row: Mapping[str, Any], column: str) -> str | None:
    value = row.get(column)
    if value is not None and not isinstance(value, str):
        raise CorruptSource(f"{where}: {column!r} is no text but {quoted(value)}")
    return value


def _code(where: str, language: str) -> str:
    """ISO 639 code of a language, named by it or in English."""
    name = language.strip().lower()
    code = _CODES.get(name, name)
    if not re.fullmatch("[a-z]{2,3}", code):
        raise ValueError(f"{where}: unknown language {quoted(language)}; known are ISO 639 codes and mFAVA's languages")
    return code
