"""Annotated answers: a reference, an answer, and the spans that people (gold) or GPT-4 (silver) marked as hallucinated.

They are the documents of the detection tasks, and the labelled answers ``mfava-gold`` and ``mfava-silver``.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

from custom_metrics.reading.spans import Span, as_columns, from_columns
from custom_metrics.reading.tagged_text import align, render, tag_counts
from custom_metrics.reading.tagged_text import parse as parse  # a promised name
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import TRANSLATED, UNREADABLE, LabelledAnswer, is_unreadable
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.tables import text_of
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, documents
from lm_eval_tasks.detection.labelled_answers import Collection
from lm_eval_tasks.mfava.dataset import GOLD_FILE, LANGUAGES, REPOSITORY, SPLIT, Language

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

ANNOTATIONS = ("gold", "silver")


def load(language: str, annotations: str = "gold", mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the answers of a language, a key of :data:`LANGUAGES`, with annotations of a kind of :data:`ANNOTATIONS`.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id``, ``language``, ``annotations``, ``passage`` (the same for rows of one
        text, which several people marked, and for its translations), ``reference``, ``answer``, ``spans`` (``start``,
        ``end``, ``category``, in characters of the answer), ``target`` (the answer, tagged).
    """
    task = f"mfava_detection_{language}_{annotations}"
    annotated = [code for code, entry in LANGUAGES.items() if (entry.gold if annotations == "gold" else entry.silver)]
    load_task.check(task, ignored, annotations=(annotations, ANNOTATIONS), language=(language, annotated))
    return _documents(language, annotations, sources.mirror_folder(mirror))


def _files(options: Options) -> Places:
    return [(REPOSITORY, file_of(LANGUAGES[options.get("language", "")]))]


load_task = TaskLoader(load, _files, of_task=("language", "annotations"), logged_elsewhere=("reference", "target"))


@lru_cache(maxsize=64)  # the binary and the category task of a language share their documents
def _documents(language: str, annotations: str, mirror: Path | None = None) -> Documents:
    task = f"mfava_detection_{language}_{annotations}"
    report = AnnotationReport()
    rows: list[dict[str, Any]] = []
    with sources.recording() as read:
        path = sources.locate(REPOSITORY, file_of(LANGUAGES[language]), mirror)
    records = [*_rows(language, path)]
    passages = passages_of([row["references"] for _, row in records], parallel=not LANGUAGES[language].gold)
    for (number, row), passage in zip(records, passages, strict=True):
        spans = annotate(row[f"{annotations}_annotations"], row["generated_text"], report)
        if spans is None:
            continue
        rows.append(
            {
                "id": f"{language}_{annotations}_{number}",
                "language": language,
                "annotations": annotations,
                "passage": passage,
                "reference": row["references"],
                "answer": row["generated_text"],
                "spans": as_columns(spans),
                "target": render(row["generated_text"], spans),
            }
        )
    if not rows:
        raise UsageError(
            f"{task}: the file has no annotated answer in {LANGUAGES[language].name} (a mirror may hold a part of the "
            f"public languages: name the tasks of those, e.g. --tasks mfava_detection_de_{annotations})"
        )
    lost = len(records) - len(rows)
    unreadable = sum(is_unreadable(row["reference"]) for row in rows)
    if unreadable:
        log.warning(
            "%s: %d of %d references are mostly unreadable (%r for what a translation model could not write): no "
            "detector that goes by them can be right",
            *(task, unreadable, len(rows), UNREADABLE),
        )
    return documents(
        task,
        rows,
        read,
        f"{len(rows)} documents ({report})",
        {"annotated text is that of another document": lost},
        kept={"answers": len(rows)},
        split=SPLIT,
        options={"language": language, "annotations": annotations},
        not_comparable=[] if LANGUAGES[language].in_paper else [f"the paper has no {LANGUAGES[language].name}"],
    )


def file_of(language: Language) -> str:
    return GOLD_FILE if language.gold else language.silver_file


def _rows(language: str, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    entry = LANGUAGES[language]
    columns = ["references", "generated_text", "silver_annotations"]
    columns += ["gold_annotations", "language"] if entry.gold else []
    for number, row in enumerate(_records(path)):
        try:
            texts = {column: text_of(row, column) for column in columns}
        except (AttributeError, ValueError) as error:
            raise sources.CorruptSource(f"{path}, document {number}: {error}") from error
        if not entry.gold or texts["language"].strip().lower() in (entry.name.lower(), entry.code):
            yield number, texts


@lru_cache(maxsize=1)  # the gold file holds five languages, twice annotated
def _records(path: Path) -> list[Any]:
    try:
        return list(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise sources.CorruptSource(f"{path} is cut or damaged: {error}; delete it and fetch it again") from error


@dataclass
class AnnotationReport:
    """Counts from reading the annotations of some documents."""

    repaired: Counter[str] = field(default_factory=Counter)  # of the tags
    kinds: Counter[str] = field(default_factory=Counter)  # documents by kind of alignment
    tags: Counter[str] = field(default_factory=Counter)  # opening tags as the paper counted them (Table 2)
    carried: int = 0  # spans that were carried over to the documents' texts

    def __str__(self) -> str:
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.kinds.most_common())
        aligned = 1 - self.kinds["lost"] / self.kinds.total() if self.kinds else float("nan")
        repaired = ", ".join(f"{number} {repair}" for repair, number in self.repaired.most_common()) or "nothing"
        return (
            f"annotated texts: {kinds}; {aligned:.2%} aligned; {sum(self.tags.values())} opening tags as the "
            f"paper counts them, {self.carried} spans; repaired: {repaired}"
        )


def annotate(annotated: str | None, text: str, report: AnnotationReport) -> list[Span] | None:
    """Spans of a tagged copy of a text, in characters of the text; ``None`` where the two have almost nothing in common.
    Repairs, and how the copy fits, are counted in `report`."""
    copy, spans = parse(annotated, report.repaired)
    alignment = align(copy, spans, text)
    report.kinds[alignment.kind] += 1
    report.tags.update(tag_counts(annotated))
    if alignment.kind == "lost":
        return None
    report.carried += len(alignment.spans)
    return alignment.spans


# ------------------------------------------------------------------------------------------------------------- passages
#
# Answers about one passage depend on each other. A silver file has the 309 texts in the same order in every language, and
# a passage is named by its place there. The gold file has most of them in each of its languages, in another order, and
# several rows of one text that several people marked: ``passages.tsv`` (tests/development/mfava_passages.py makes it)
# maps the text of a row to its place in the silver files.

SILVER_ROWS = 309  # rows of a public silver file. A file of another length has texts of its own.


def passages_of(references: Sequence[str], parallel: bool) -> list[str]:
    """The passage of each row of a file: a place in the silver files, or a digest of the reference. `parallel` rows stand
    in their places, as in a silver file."""
    first: dict[str, int] = {}
    places = [first.setdefault(reference, place) for place, reference in enumerate(references)]
    if parallel and len(references) == SILVER_ROWS:
        return [str(place) for place in places]
    by_digest = _table()
    return [by_digest.get(digest := digest_of(reference), digest) for reference in references]


def is_unplaced(passage: str) -> bool:
    """Whether a passage is a text of the gold file whose place in the silver files is not known."""
    return _table().get(passage) == passage


def digest_of(reference: str) -> str:
    return hashlib.sha256(reference.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, str]:
    text = resources.files(__package__).joinpath("passages.tsv").read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines()[1:])


# ------------------------------------------------------------------------------------------------------ labelled answers


def _labelled_answers(kind: str, code: str, mirror: str | None) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=kind,
            spans=tuple(from_columns(row["spans"])),
            group=TRANSLATED if is_unplaced(row["passage"]) else f"mfava {row['passage']}",
        )
        for row in load(code, kind, mirror)["evaluation"]
    ]


LABELLED = {
    f"mfava-{kind}": Collection(
        tuple(code for code, language in LANGUAGES.items() if (language.gold if kind == "gold" else language.silver)),
        partial(_labelled_answers, kind),
        "mFAVA (Islam et al. 2025)",
        "Creative Commons, version not stated",
    )
    for kind in ("gold", "silver")
}
