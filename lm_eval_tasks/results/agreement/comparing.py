"""Pairs of raters, compared on the items that both have judged: ratings of items, or tags of hallucinated spans word by
word, as in the mFAVA paper's Figure 2."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from lm_eval_tasks.mfava.detection import AnnotationReport, annotate
from lm_eval_tasks.results.agreement.reading import quoted

__all__ = ["Key", "Pair", "Rater", "Result", "compare_ratings", "compare_tags", "means", "named"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Key: TypeAlias = tuple[str, str]  # id and aspect of an item; the aspect is empty where there is none
Table: TypeAlias = "np.ndarray[Any, Any]"

_LARGEST_SCALE = 101  # 0 to 100; more different ratings are measurements or free texts
_ALL = "all aspects"
_LABELS = (None, *CATEGORIES, HALLUCINATION)  # what a word of a tagged text can be


class Rater(NamedTuple):
    """A rater's rating of each item: a number, a label or a `Tagged`; ``None`` where it is missing or unread."""

    name: str
    ratings: Mapping[Key, Any]


class Pair(NamedTuple):
    """Two raters and the items that both judged."""

    first: Rater
    second: Rater
    items: list[Key]

    @property
    def name(self) -> str:
        return f"{self.first.name}, {self.second.name}"


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
    estimates: Mapping[str, Figure]


def named(key: Key) -> str:
    """An item in a message: its id, and its aspect where it has one."""
    return quoted(key[0]) + (f" ({quoted(key[1])})" if key[1] else "")


def compare_ratings(pairs: Iterable[Pair], raters: Sequence[Rater], notes: list[str]) -> list[Result]:
    """Each pair on each aspect, and on all of them together where there are several."""
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
            by_id: dict[str, list[tuple[int, int]]] = defaultdict(list)  # the aspects of one answer are no two answers
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
            both = pair.first.ratings[key], pair.second.ratings[key]
            languages = {each.language for each in both if each is not None} - {None}
            if len(languages) > 1:
                raise ValueError(
                    f"{pair.name}: {named(key)} is of two languages, {' and '.join(sorted(languages))}; are these the "
                    "same documents (--id NAME says which column holds the ids)?"
                )
            language = str(*languages)
            count = counts.setdefault(language, dict.fromkeys(("documents", "words", "unread", "dropped"), 0))
            if None in both:
                count["unread"] += 1
                continue
            text = next((each.text for each in both if each.text is not None), None)
            if text is None and text_column:
                raise ValueError(f"{pair.name}: {named(key)} has no {text_column!r} in either")
            text = parse(both[0].tagged)[0] if text is None else text
            spans = [annotate(each.tagged, text, report) for each, report in zip(both, reports, strict=True)]
            if spans[0] is None or spans[1] is None:
                count["dropped"] += 1
                continue
            places = words(text, language)
            labels = ([_LABELS.index(label) for label in covered(places, found or ())] for found in spans)
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
    """Each statistic of stacked tables, with its bounds; undefined where it makes no sense for these labels."""
    return {name: estimate(tables, statistic) if statistic else UNDEFINED for name, statistic in statistics.items()}


def means(results: Iterable[Result]) -> list[Result]:
    """The plain mean over pairs, for each aspect or language that several pairs share; ``nan`` where one of them is."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.group].append(result)
    found = []
    for group, pairs in groups.items():
        if len(pairs) > 1:
            estimates = {
                name: Figure(fmean(pair.estimates[name].value for pair in pairs)) for name in pairs[0].estimates
            }
            found.append(Result(f"mean of {len(pairs)} pairs", group, {}, estimates))
    return found
