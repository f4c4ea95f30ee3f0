"""Documents of the Mu-SHROOM tasks: a question, a model's answer, the spans that people marked as hallucinated, and the
reference to judge it by: its Wikipedia page, or a context that was written for it."""

from __future__ import annotations

import logging
import math
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.reading.spans import Span, as_columns, from_columns
from custom_metrics.reading.tagged_text import merged, render
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin.labelled import REAL, LabelledAnswer
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.atomic import digests_of
from lm_eval_tasks.data.tables import read_json_lines, text_of
from lm_eval_tasks.definition import metadata
from lm_eval_tasks.definition.loading import Options, Places, TaskLoader, in_turn
from lm_eval_tasks.detection.labelled_answers import Collection
from lm_eval_tasks.mushroom.references import WebPage, decoded, open_pages, read_contexts

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

REPOSITORY = "Helsinki-NLP/mu-shroom"
CONTEXTS = "nlp-ucsc/semeval-2025-task3"
SPLITS = ("test", "validation")
BOTH, RANKED = "both", "test"
PAGE, CONTEXT = "page", "context"
NO_REFERENCE = {
    PAGE: "answers left out, whose page is not in the archive",
    CONTEXT: "answers left out, whose context is not there",
}
UNUSED = "contexts of no annotated answer, not used"
BLANK = "answers left out, empty or only white space"


@dataclass(frozen=True)
class Language:
    """A language of Mu-SHROOM."""

    code: str  # ISO 639, as in the files' names
    name: str  # English
    references: tuple[str, ...]  # ``page`` where its pages are public, ``context``; the default first
    splits: tuple[str, ...]

    @property
    def pages_file(self) -> str:
        """Path of the archive of its pages."""
        return f"data/url-pages/{self.code}.tar.gz"

    def answers_file(self, split: str) -> str:
        """Path of the answers of a split; ``extra`` files name the page and the annotators too."""
        if split == "test":
            return f"splits/test_labeled/v1/mushroom.{self.code}-tst.v1.extra.jsonl"
        return f"splits/val/v2/mushroom.{self.code}-val.v2.extra.jsonl"

    def contexts_folder(self, split: str) -> str:
        """Path of the contexts of a split in the repository :data:`CONTEXTS`: a folder of files."""
        part = "tst.v1" if split == "test" else "val.v2"
        return f"data/context/{self.code}-{part}_perplexity-sonar-pro/"


LANGUAGES = {
    row["code"]: Language(
        row["code"], row["language"], tuple(row["references"].split()), SPLITS[: 1 + (row["validation"] == "yes")]
    )
    for row in shipped_rows("lm_eval_tasks.mushroom", "languages.tsv")
}
"""Code to language."""


def load(
    language: str, split: str = BOTH, reference: str | None = None, mirror: str | None = None, **ignored: Any
) -> dict[str, Dataset]:
    """Load the annotated answers of a language that have their reference.

    Args:
        language: ISO 639 code, a key of :data:`LANGUAGES`.
        split: ``"test"``, ``"validation"`` or ``"both"``; of both the answers take turns, so that ``--limit`` sees both.
        reference: ``"page"``, the Wikipedia page that annotators had; ``"context"``, a text that a search-backed model
            wrote for the question. The default is the page where those of all answers are public and small, else the
            context.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id``, ``language``, ``split``, ``model`` (id of the one that answered),
        ``query``, ``answer``, ``reference`` (the text of the page or the context), ``url`` (of the page, percent-decoded),
        ``passage`` (the page's :func:`subject`, which its versions in other languages share), ``title``, ``spans`` (hard
        labels: ``start``, ``end``, ``category``), ``soft_labels`` (``start``, ``end``, ``prob``), ``target`` (the answer,
        hard labels tagged). Labels are in characters of the answer.
    """
    task = f"mushroom_{language}"
    entry = LANGUAGES[metadata.choice("language", language, LANGUAGES, task)]
    metadata.choice("split", split, (*SPLITS, BOTH), task)
    if split not in (*entry.splits, BOTH):
        raise UsageError(f"{task}: no {split} answers in {entry.name} are public, only {' and '.join(entry.splits)}")
    kind = metadata.choice("reference", reference or entry.references[0], NO_REFERENCE, task)
    if kind not in entry.references:
        raise UsageError(
            f"{task}: the public repository has annotated answers in {entry.name}, but not their Wikipedia pages; "
            f"leave reference={kind} out of --metadata, or make it {entry.references[0]}"
        )
    metadata.refuse_misspelt(ignored, load_task.user_options, task)
    folder = sources.mirror_folder(mirror)
    log.debug("%s: files from %s", task, folder or "GitHub")
    return {"evaluation": _documents(language, split, kind, str(folder) if folder else None)}


def _files(options: Options) -> Places:
    entry = LANGUAGES[options["language"]]
    split, reference = options.get("split", BOTH), options.get("reference") or entry.references[0]
    splits = [name for name in entry.splits if split in (name, BOTH)]
    if not splits or reference not in entry.references:
        return []
    places = [(REPOSITORY, entry.pages_file)] if reference == PAGE else []
    for name in splits:
        places += [(CONTEXTS, entry.contexts_folder(name))] if reference == CONTEXT else []
        places.append((REPOSITORY, entry.answers_file(name)))
    return places


load_task = TaskLoader(load, _files, of_task=("language",), logged_elsewhere=("reference", "target"))
"""The documents of a task, as the harness's ``custom_dataset``; see :func:`load`."""


@lru_cache(maxsize=64)
def _documents(language: str, split: str, reference: str, mirror: str | None) -> Dataset:
    task = f"mushroom_{language}"
    entry = LANGUAGES[language]
    counts: Counter[str] = Counter()
    splits = entry.splits if split == BOTH else (split,)
    references: dict[str, WebPage] = {}
    by_split = []
    with sources.recording() as read:
        if reference == PAGE:
            references, left_out = open_pages(sources.locate(REPOSITORY, entry.pages_file, mirror))
            counts += left_out
        for name in splits:
            if reference == CONTEXT:
                folder = sources.locate(CONTEXTS, entry.contexts_folder(name), mirror)
                checksum = sources.source_file(CONTEXTS, entry.contexts_folder(name)).checksum
                references = read_contexts(folder, digests_of(folder).matches(checksum), counts)
            answers = sources.locate(REPOSITORY, entry.answers_file(name), mirror)
            by_split.append(_answers(answers, language, name, references, counts, reference))
            if reference == CONTEXT and (unused := references.keys() - {row["id"] for row in by_split[-1]}):
                counts[UNUSED] += len(unused)
    rows = in_turn(by_split)
    absent = counts.pop(NO_REFERENCE[reference], 0)  # where a split's pages were never published that is most of them
    kept = f"{len(rows)} answers of split {split} with their {reference}"
    log.info("%s: %s; %s: %d", task, kept, NO_REFERENCE[reference], absent)
    if counts:
        log.warning("%s: %s", task, "; ".join(f"{reason}: {number}" for reason, number in counts.items()))
    if not rows:
        raise UsageError(
            f"{task}: none of the {absent} answers of split {split} has its {reference} in {read[0].path} (of some "
            f"languages only the validation answers' pages are public; reference=context or split=both take what there is)"
        )
    reasons = [] if splits == (RANKED,) else [f"{' and '.join(splits)} answers, where the shared task ranked {RANKED}"]
    if absent:
        reasons.append(f"{len(rows)} of {len(rows) + absent} answers: the {reference} of the others is not there")
    record = provenance.Record.from_files(
        read,
        not_comparable=reasons,
        kept={name: len(answers) for name, answers in zip(splits, by_split, strict=True)},
        left_out={**counts, NO_REFERENCE[reference]: absent},
        split=" and ".join(splits),
        options={"language": language, "split": split, "reference": reference},
    )
    return provenance.documents_of(rows, record)


def _answers(
    path: Path, language: str, split: str, references: Mapping[str, WebPage], counts: Counter[str], kind: str = PAGE
) -> list[dict[str, Any]]:
    """The documents of a file, with the reference of their page's address or, of the kind ``context``, of their id. Rows
    that are left out, and repairs, are counted in `counts`."""
    rows = []
    for number, row in read_json_lines(path, counts):
        try:
            answer = text_of(row, "model_output_text")
            repairs: Counter[str] = Counter()
            spans = hard_spans(row.get("hard_labels"), len(answer), repairs)
            soft = soft_labels(row.get("soft_labels"), len(answer), repairs)
            document = {
                "id": str(row["id"]) if isinstance(row.get("id"), int) else text_of(row, "id"),
                "language": language,
                "split": split,
                "model": text_of(row, "model_id", needed=False),
                "query": text_of(row, "model_input"),
                "answer": answer,
            }
            url = decoded(text_of(row, "wikipedia_url", needed=False))
        except (KeyError, TypeError, ValueError) as error:
            raise sources.CorruptSource(
                f"{path}, line {number}: no annotated answer of Mu-SHROOM: {error!r}"
            ) from error
        reference = references.get(url if kind == PAGE else document["id"])
        if not answer.strip():
            counts[BLANK] += 1
        elif reference is None:
            counts[NO_REFERENCE[kind]] += 1
        else:
            counts.update(repairs)
            rows.append(
                {
                    **document,
                    "reference": reference.text,
                    "url": url,
                    "passage": reference.item or subject(url) or document["query"],
                    "title": reference.title or title_of(url),
                    "spans": as_columns(spans),
                    "soft_labels": soft,
                    "target": render(answer, spans),
                }
            )
    return rows


def title_of(url: str) -> str:
    """The title of a page, by its percent-decoded address."""
    return url.rpartition("/wiki/")[2].replace("_", " ")


def subject(url: str) -> str:
    """The subject of a page, by its percent-decoded address: its Wikidata item, where ``subjects.tsv`` has it, else its
    title without capitals, accents and what is in brackets. Languages of one script share it for most names."""
    title = title_of(url)
    if item := _items().get((url.partition("://")[2].partition(".")[0], title)):
        return item
    letters = unicodedata.normalize("NFKD", title.partition(" (")[0]).casefold()
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@lru_cache(maxsize=1)
def _items() -> dict[tuple[str, str], str]:
    """Language and title of a page to its Wikidata item."""
    rows = shipped_rows("lm_eval_tasks.mushroom", "subjects.tsv")
    return {(code, title): row["item"] for row in rows for code, title in row.items() if title and code != "item"}


# ----------------------------------------------------------------------------------------------------- annotators' labels
#
# *Hard labels* are spans that more than half of the annotators marked; *soft labels* are spans with the share of annotators
# that did. Both are checked and repaired; repairs are counted. A value that is not a label is an error.

BEYOND = "labels that reach beyond the answer, cut there"
REVERSED = "labels that end where they start or before, left out"
OVERLAPPING = "answers with labels that overlap, made disjoint"


def hard_spans(labels: Any, length: int, repairs: Counter[str]) -> list[Span]:
    """Hard labels (``[[start, end], ...]``, else a TypeError or ValueError) of an answer of that length as disjoint spans
    in order."""
    places = [_cut_to_answer(start, end, length, repairs) for start, end in labels]
    spans = [Span(*place) for place in places if place]
    if any(first.end > second.start for first, second in pairwise(sorted(spans))):
        repairs[OVERLAPPING] += 1
    return merged(spans)


def soft_labels(labels: Any, length: int, repairs: Counter[str]) -> list[dict[str, Any]]:
    """Soft labels (``{"start", "end", "prob"}``, else a KeyError, TypeError or ValueError) of an answer of that length as
    disjoint ones, in order. Where some overlap, the last one in the file holds, as in the shared task's scorer.
    """
    shares: list[tuple[int, float] | None] = [None] * length  # of each character: the last label, and its share
    overlapping = False
    for number, label in enumerate(labels):
        probability = label["prob"]
        if isinstance(probability, bool) or not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
            raise ValueError(f"a soft label's prob is {probability!r}, no number from 0 to 1")
        if place := _cut_to_answer(label["start"], label["end"], length, repairs):
            start, end = place
            overlapping = overlapping or any(shares[start:end])
            shares[start:end] = [(number, float(probability))] * (end - start)
    if overlapping:
        repairs[OVERLAPPING] += 1
    runs = ((value, [at for at, _ in run]) for value, run in groupby(enumerate(shares), key=lambda pair: pair[1]))
    return [{"start": at[0], "end": at[-1] + 1, "prob": value[1]} for value, at in runs if value]


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


# --------------------------------------------------------------------------------------------------------- labelled answers

_FAMILIES = [(row["part"], row["family"]) for row in shipped_rows("lm_eval_tasks.mushroom", "families.tsv")]


def _family(model: str) -> str:
    """The family of a model's id: models trained from one base model, which give similar answers.

    It is that of the first row of ``families.tsv`` whose part is in the model's name, else the name.
    """
    name = model.rsplit("/", 1)[-1].lower()
    return next((family for pattern, family in _FAMILIES if pattern in name), name)


def _labelled_answers(code: str, mirror: str | None, reference: str | None = None) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=REAL,
            spans=tuple(from_columns(row["spans"])),
            question=row["query"],
            family=_family(row["model"]),
            model=row["model"],
            soft=tuple(Span(s["start"], s["end"], probability=s["prob"]) for s in row["soft_labels"]),
            article=row["url"],
            group=row["passage"],
        )
        for row in load(code, reference=reference, mirror=mirror)["evaluation"]
    ]


_OURS = "Mu-SHROOM (Vázquez et al. 2025), contexts of nlp-ucsc/semeval-2025-task3", "CC BY 4.0, contexts Apache-2.0"
LABELLED = {"mushroom": Collection(tuple(LANGUAGES), _labelled_answers, *_OURS)}
for _kind in (CONTEXT, PAGE):
    _codes = tuple(code for code, language in LANGUAGES.items() if _kind in language.references)
    LABELLED[f"mushroom-{_kind}"] = Collection(
        _codes, partial(_labelled_answers, reference=_kind), *_OURS, by_default=False
    )
