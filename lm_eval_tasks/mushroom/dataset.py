"""Documents of the Mu-SHROOM tasks: a question, a model's answer, the spans that people marked as hallucinated, and the
Wikipedia page to judge it by."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import merged, render
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.tables import read_json_lines, shipped_rows
from lm_eval_tasks.definition import metadata
from lm_eval_tasks.definition.loading import Options, Places, TaskLoader
from lm_eval_tasks.mushroom.html_text import WebPage, decoded
from lm_eval_tasks.mushroom.pages import open_pages

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

REPOSITORY = "Helsinki-NLP/mu-shroom"
SPLITS = ("test", "validation")
BOTH, RANKED = "both", "test"
NO_PAGE = "answers left out, whose page is not in the archive"
BLANK = "answers left out, empty or only white space"


@dataclass(frozen=True)
class Language:
    """A language of Mu-SHROOM whose Wikipedia pages are in the public repository."""

    code: str  # ISO 639, as in the files' names
    name: str  # English

    @property
    def pages_file(self) -> str:
        """Path of the archive of its pages."""
        return f"data/url-pages/{self.code}.tar.gz"

    def answers_file(self, split: str) -> str:
        """Path of the answers of a split; ``extra`` files name the page and the annotators too."""
        if split == "test":
            return f"splits/test_labeled/v1/mushroom.{self.code}-tst.v1.extra.jsonl"
        return f"splits/val/v2/mushroom.{self.code}-val.v2.extra.jsonl"


_ROWS = shipped_rows("lm_eval_tasks.mushroom", "languages.tsv")

LANGUAGES = {row["code"]: Language(row["code"], row["language"]) for row in _ROWS if row["pages"] == "yes"}
"""Code to language, those with pages."""

WITHOUT_PAGES = {row["code"]: row["language"] for row in _ROWS if row["pages"] == "no"}
"""Code to name of languages whose answers are annotated, but whose pages are not in the repository."""


def load(language: str, split: str = BOTH, mirror: str | None = None, **ignored: Any) -> dict[str, Dataset]:
    """Load the annotated answers of a language that have their page.

    Args:
        language: ISO 639 code, a key of :data:`LANGUAGES`.
        split: ``"test"``, ``"validation"`` or ``"both"``; of both the answers take turns, so that ``--limit`` sees both.
        mirror: folder with copies of the public files, see :mod:`lm_eval_tasks.data.sources`.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id``, ``language``, ``split``, ``model`` (id of the one that answered),
        ``query``, ``answer``, ``reference`` (the page's text), ``url`` (of the page, percent-decoded), ``passage`` (the
        page's subject in all languages: its Wikidata item), ``title``, ``spans``
        (hard labels: ``start``, ``end``, ``category``), ``soft_labels`` (``start``, ``end``, ``prob``), ``target`` (the
        answer, hard labels tagged). Labels are in characters of the answer.

    Raises:
        ValueError: an unknown language or split, a language without pages, or none of its answers has its page.
        MissingSource, CorruptSource: a file cannot be found, or is damaged.
    """
    task = f"mushroom_{language}"
    if language in WITHOUT_PAGES:
        raise UsageError(
            f"{task}: the public repository has annotated answers in {WITHOUT_PAGES[language]}, but not their Wikipedia "
            f"pages, without which a detector has nothing to go by; languages with pages: {', '.join(LANGUAGES)}"
        )
    metadata.choice("language", language, LANGUAGES, task)
    metadata.choice("split", split, (*SPLITS, BOTH), task)
    metadata.refuse_misspelt(ignored, load_task.user_options, task)
    folder = sources.mirror_folder(mirror)
    log.info("%s: files from %s", task, folder or "GitHub")
    return {"evaluation": _documents(language, split, str(folder) if folder else None)}


def _files(options: Options) -> Places:
    entry = LANGUAGES[options["language"]]
    split = options.get("split", BOTH)
    answers = [entry.answers_file(name) for name in SPLITS if split in (name, BOTH)]
    return [(REPOSITORY, name) for name in (entry.pages_file, *answers)] if answers else []


load_task = TaskLoader(load, _files, of_task=("language",), logged_elsewhere=("reference", "target"))
"""The documents of a task, as the harness's ``custom_dataset``; see :func:`load`."""


@lru_cache(maxsize=32)
def _documents(language: str, split: str, mirror: str | None) -> Dataset:
    task = f"mushroom_{language}"
    entry = LANGUAGES[language]
    counts: Counter[str] = Counter()
    splits = SPLITS if split == BOTH else (split,)
    with sources.recording() as read:
        archive = sources.locate(REPOSITORY, entry.pages_file, mirror)
        pages, left_out = open_pages(archive)
        by_split = [
            _answers(sources.locate(REPOSITORY, entry.answers_file(name), mirror), language, name, pages, counts)
            for name in splits
        ]
    rows = [row for turn in zip_longest(*by_split) for row in turn if row is not None]
    without_page = counts.pop(NO_PAGE, 0)  # where a split's pages were never published that is most of them
    log.info("%s: %d answers of split %s with their page; %s: %d", task, len(rows), split, NO_PAGE, without_page)
    if left_out or counts:
        log.warning("%s: %s", task, "; ".join(f"{reason}: {number}" for reason, number in (left_out + counts).items()))
    if not rows:
        raise UsageError(
            f"{task}: none of the {without_page} answers of split {split} has its page among the {len(pages)} of {archive} "
            f"(of some languages the repository has the pages of the validation answers only: --metadata split=both takes "
            f"what there is)"
        )
    reasons = [] if splits == (RANKED,) else [f"{' and '.join(splits)} answers, where the shared task ranked {RANKED}"]
    if without_page:
        reasons.append(
            f"{len(rows)} of {len(rows) + without_page} answers: the page of the others is not in the archive"
        )
    record = provenance.Record.from_files(
        read,
        not_comparable=reasons,
        kept={name: len(answers) for name, answers in zip(splits, by_split, strict=True)},
        left_out={**left_out, **counts, NO_PAGE: without_page},
        split=" and ".join(splits),
        options={"language": language, "split": split},
    )
    return provenance.documents_of(rows, record)


def _answers(
    path: Path, language: str, split: str, pages: Mapping[str, WebPage], counts: Counter[str]
) -> list[dict[str, Any]]:
    """The documents of a file. Rows that are left out, and repairs, are counted in `counts`."""
    rows = []
    for number, row in read_json_lines(path, counts):
        try:
            answer = _text(row, "model_output_text")
            repairs: Counter[str] = Counter()
            spans = hard_spans(row.get("hard_labels"), len(answer), repairs)
            soft = soft_labels(row.get("soft_labels"), len(answer), repairs)
            document = {
                "id": str(row["id"]) if isinstance(row.get("id"), int) else _text(row, "id"),
                "language": language,
                "split": split,
                "model": _text(row, "model_id", needed=False),
                "query": _text(row, "model_input"),
                "answer": answer,
            }
            url = decoded(_text(row, "wikipedia_url", needed=False))
        except ValueError as error:
            raise sources.CorruptSource(f"{path}, line {number}: no annotated answer of Mu-SHROOM: {error}") from error
        if not answer.strip():
            counts[BLANK] += 1
        elif url not in pages:
            counts[NO_PAGE] += 1
        else:
            counts.update(repairs)
            rows.append(
                {
                    **document,
                    "reference": pages[url].text,
                    "url": url,
                    "passage": pages[url].item or url,
                    "title": pages[url].title,
                    "spans": [{"start": s.start, "end": s.end, "category": s.category} for s in spans],
                    "soft_labels": soft,
                    "target": render(answer, spans),
                }
            )
    return rows


def _text(row: Mapping[str, Any], column: str, needed: bool = True) -> str:
    """A column's text; half a surrogate pair, which no table can hold, becomes a question mark of the same length."""
    value = row.get(column)
    if not isinstance(value, str) and (needed or value is not None):
        raise ValueError(f"{column!r} is {type(value).__name__}, not a text")
    return (value or "").encode("utf-8", "replace").decode("utf-8")


# ----------------------------------------------------------------------------------------------------- annotators' labels
#
# *Hard labels* are spans that more than half of the annotators marked; *soft labels* are spans with the share of annotators
# that did. Both are checked and repaired; repairs are counted. A value that is not a label is an error.

BEYOND = "labels that reach beyond the answer, cut there"
REVERSED = "labels that end where they start or before, left out"
OVERLAPPING = "answers with labels that overlap, made disjoint"


def hard_spans(labels: Any, length: int, repairs: Counter[str]) -> list[Span]:
    """Hard labels (``[[start, end], ...]``, else a ValueError) of an answer of that length as disjoint spans in order."""
    spans = []
    for label in _listed(labels, "hard_labels"):
        if not isinstance(label, list) or len(label) != 2:
            raise ValueError(f"hard_labels hold {str(label)[:80]}, not [start, end]")
        if place := _cut_to_answer(label[0], label[1], length, repairs):
            spans.append(Span(*place))
    if _overlap((span.start, span.end) for span in spans):
        repairs[OVERLAPPING] += 1
    return merged(spans)


def soft_labels(labels: Any, length: int, repairs: Counter[str]) -> list[dict[str, Any]]:
    """Soft labels (``{"start", "end", "prob"}``) of an answer of that length as disjoint ones, in order.

    Where some overlap, the last one in the file holds, as in the shared task's scorer.

    Raises:
        ValueError: it is no such list, or a probability is not in [0, 1].
    """
    disjoint: list[tuple[int, int, float]] = []
    for label in _listed(labels, "soft_labels"):
        if not isinstance(label, dict) or not {"start", "end", "prob"} <= label.keys():
            raise ValueError(f"soft_labels hold {str(label)[:80]}, no start, end and prob")
        probability = label["prob"]
        if isinstance(probability, bool) or not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
            raise ValueError(f"a soft label's prob is {probability!r}, no number from 0 to 1")
        if place := _cut_to_answer(label["start"], label["end"], length, repairs):
            disjoint.append((*place, float(probability)))
    if _overlap((start, end) for start, end, _ in disjoint):
        repairs[OVERLAPPING] += 1
        disjoint = _without_overlap(disjoint, length)
    return [{"start": start, "end": end, "prob": probability} for start, end, probability in sorted(disjoint)]


def _listed(labels: Any, name: str) -> list[Any]:
    if not isinstance(labels, list):
        raise ValueError(f"{name} is {type(labels).__name__}, not a list")
    return labels


def _cut_to_answer(start: Any, end: Any, length: int, repairs: Counter[str]) -> tuple[int, int] | None:
    """Start and end of a label, cut to the answer; ``None`` where nothing of it is left."""
    for at in (start, end):
        if isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at) or at != int(at):
            raise ValueError(f"a label starts or ends at {at!r}, which is no place")
    if start >= end:
        repairs[REVERSED] += 1
        return None
    if start < 0 or end > length:
        repairs[BEYOND] += 1
    place = max(0, int(start)), min(length, int(end))
    return place if place[0] < place[1] else None


def _overlap(places: Iterable[tuple[int, int]]) -> bool:
    return any(start < end for (_, end), (start, _) in pairwise(sorted(places)))


def _without_overlap(labels: list[tuple[int, int, float]], length: int) -> list[tuple[int, int, float]]:
    """Labels made disjoint: on each character the last one holds."""
    characters: list[float | None] = [None] * length
    for start, end, probability in labels:
        characters[start:end] = [probability] * (end - start)
    runs = ((value, [at for at, _ in run]) for value, run in groupby(enumerate(characters), key=lambda pair: pair[1]))
    return [(places[0], places[-1] + 1, value) for value, places in runs if value is not None]
