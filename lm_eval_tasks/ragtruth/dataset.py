"""Documents of RAGTruth: what a model wrote from passages, a record or an article, and the spans of it that
people marked as unsupported; and the scores of a detector on them."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.reading.spans import HALLUCINATION, Span, as_columns, span_of
from custom_metrics.reading.tagged_text import LOST, merged, render
from custom_metrics.scores import detection
from custom_metrics.scores.ratings import SCALE
from custom_metrics.scores.unsupported import evidence
from custom_metrics.statistics.figures import CountsOfCluster, FloatWithCounts
from custom_metrics.usage.printable import quote, without_surrogates
from detector_plugin.detector import DEFAULT_DETECTOR
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.tables import read_rows, text_of
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, choice, documents
from lm_eval_tasks.detection.labelled_answers import TestSet
from lm_eval_tasks.ragtruth import PARTS

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

AUTHORS, FAITHJUDGE = "ParticleMedia/RAGTruth", "vectara/FaithJudge"
RESPONSES, SOURCES = "dataset/response.jsonl", "dataset/source_info.jsonl"
ANSWERS = 900
"""Test answers of each part. FaithJudge's file of question answering has fewer; of the authors' some are left out."""

FILES = {"authors": AUTHORS, "faithjudge": FAITHJUDGE}

RELABELLED = (
    "RAGTruth's labels miss much: RAGTruth++ marked 408 of its answers anew, and found 865 spans where RAGTruth has 86. A "
    "flag outside of the labels may be right, so precision is a lower bound"
)
NOT_FOR_RECORDS = (
    f"the reference is a JSON record, of which word overlap says nothing: the answers that detector {DEFAULT_DETECTOR} "
    f"suspects are wrong no more often than the others (AUC .39 to .57). Take another one"
)
ASKED = {"summary": "Summarize the article.", "data2txt": "Describe the business in this record."}
"""What a judge is told was asked, where the source has no question."""

OVERLAPPING = "answers with labels that overlap, made disjoint"


class MarkedAnswer(NamedTuple):
    """An answer of a public file, whatever its form."""

    source: str  # id of what it was written from
    model: str
    question: str
    reference: str
    answer: str
    labels: list[Span]  # as the file has them


def load(part: str, files: str | None = None, mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the test answers of a part of RAGTruth.

    Args:
        part: a key of :data:`PARTS`.
        files: ``"authors"``, the two files of the corpus, or ``"faithjudge"``, the file of the part that FaithJudge
            publishes. The default is the authors', and FaithJudge's where the mirror in force has that alone.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id`` (source/model), ``language`` (``en``), ``part``, ``model`` (that
        answered), ``passage`` (the source, by which bounds are clustered), ``query`` (empty where nothing was asked),
        ``reference`` (passages, article, or record as JSON), ``answer``, ``spans`` (``start``, ``end``, ``category``; in
        characters of the answer), ``soft_labels`` (the same, each with ``prob`` 1), ``target`` (the answer, tagged).
    """
    return _load(f"ragtruth_{part}", part, files, mirror, ignored, _document)


def load_judge(part: str, files: str | None = None, mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the test answers of a part for a judge of whole answers. Arguments are those of :func:`load`.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id``, ``language``, ``part``, ``model``, ``passage`` as there, ``aspect``
        (``faithfulness``), ``marked`` (whether people marked a span), and as quoted lines ``quoted``: ``question``,
        ``passages`` (the source), ``answer``.
    """
    return _load(f"ragtruth_judge_{part}", part, files, mirror, ignored, _judged)


def _load(
    task: str, part: str, files: str | None, mirror: str | None, ignored: Mapping[str, Any], document_of: DocumentOf
) -> Documents:
    choice("part", part, PARTS, task)
    form = files or _form_of(part, mirror)
    load_task.check(task, ignored, files=(form, FILES))
    log.warning("%s: %s", task, RELABELLED)
    if (
        part == "data2txt"
        and document_of is _document
        and ignored.get("detector", DEFAULT_DETECTOR) == DEFAULT_DETECTOR
        and not _PROMPTED & {*ignored}
    ):
        log.warning("%s: %s", task, NOT_FOR_RECORDS)
    reader = read_faithjudge if form == "faithjudge" else read_authors
    counts: Counter[str] = Counter()
    with sources.recording() as read:
        paths = [sources.locate(*place, mirror) for place in _places(part, form)]
    answers = [answer for answer in reader(paths, counts, part) if _is_usable(answer, counts)]
    rows = [document_of(answer, part, counts) for answer in answers]
    marked = sum(bool(row.get("spans", row.get("marked"))) for row in rows)
    return documents(
        task,
        rows,
        read,
        f"{len(rows)} answers",
        counts,
        not_comparable=[f"{len(rows)} of the {ANSWERS} test answers (files={form})"] if len(rows) < ANSWERS else [],
        kept={"answers": len(rows), "with a marked span": marked, "labels": sum(len(each.labels) for each in answers)},
        split="test",
        options={"part": part, "files": form},
    )


_PROMPTED = {"pretrained", "model", "path"}  # arguments of models that are no detector

DocumentOf = Callable[[MarkedAnswer, str, Counter[str]], dict[str, Any]]


def _places(part: str, form: str) -> list[tuple[str, str]]:
    if form == "faithjudge":
        return [(FAITHJUDGE, f"eval_data/ragtruth_{part}.jsonl")]
    return [(AUTHORS, RESPONSES), (AUTHORS, SOURCES)]


def _form_of(part: str, mirror: str | None) -> str:
    folder = sources.mirror_folder(mirror)

    def has(form: str) -> bool:
        return all(sources.local_copy(sources.source_file(*place), folder) for place in _places(part, form))

    return "faithjudge" if has("faithjudge") and not has("authors") else "authors"


def _files(options: Options) -> Places:
    part = options["part"]
    return _places(part, options.get("files") or _form_of(part, options.get("mirror"))) if part in PARTS else []


load_task = TaskLoader(load, _files, of_task=("part",), logged_elsewhere=("reference", "target"))
load_judge_task = TaskLoader(load_judge, _files, of_task=("part",), logged_elsewhere=("quoted",))


def _is_usable(answer: MarkedAnswer, counts: Counter[str]) -> bool:
    usable = bool(answer.answer.strip() and answer.reference.strip())
    counts["answers left out, empty or without a reference"] += not usable
    return usable


def _shared(answer: MarkedAnswer, part: str) -> dict[str, Any]:
    named = {"id": f"{answer.source}/{answer.model}", "language": "en", "part": part, "model": answer.model}
    return {**named, "passage": f"{part}/{answer.source}"}


def _judged(answer: MarkedAnswer, part: str, counts: Counter[str]) -> dict[str, Any]:
    asked = quote(answer.question or ASKED[part])
    quoted = {"question": asked, "passages": [quote(answer.reference)], "answer": quote(answer.answer)}
    marked = bool(disjoint(answer.labels, counts))
    return {**_shared(answer, part), "aspect": "faithfulness", "marked": marked, "quoted": quoted}


def _document(answer: MarkedAnswer, part: str, counts: Counter[str]) -> dict[str, Any]:
    spans = disjoint(answer.labels, counts)
    return {
        **_shared(answer, part),
        "query": answer.question,
        "reference": answer.reference,
        "answer": answer.answer,
        "spans": as_columns(spans),
        "soft_labels": [{"start": span.start, "end": span.end, "prob": 1.0} for span in spans],
        "target": render(answer.answer, spans),
    }


def disjoint(labels: Sequence[Span], counts: Counter[str]) -> list[Span]:
    """Labels in order that do not overlap. Answers where some did are counted."""
    spans = merged(labels)
    counts[OVERLAPPING] += sum(s.end - s.start for s in spans) < sum(s.end - s.start for s in labels)
    return spans


# ------------------------------------------------------------------------------------------------------------ public files


_WRONG = "no marked answer"


def read_authors(paths: Sequence[Path], counts: Counter[str], part: str) -> Iterator[MarkedAnswer]:
    """The test answers of a part in the authors' files, responses and sources. As in the authors' evaluation, answers
    that refuse to answer by mistake or are cut off are left out, and counted. A line that is neither is a CorruptSource."""
    known = {}

    def note_source(row: Mapping[str, Any]) -> None:
        if text_of(row, "task_type") == PARTS[part]:
            known[str(row["source_id"])] = _source(row["source_info"])

    def answer_of(row: Mapping[str, Any]) -> MarkedAnswer | None:
        source, quality = str(row["source_id"]), text_of(row, "quality")
        if text_of(row, "split") != "test" or source not in known:
            return None
        if quality == "good":
            return _marked_answer(source, known[source], row)
        counts[f"answers left out, {quality.replace('_', ' ')}"] += 1
        return None

    for _ in read_rows(paths[1], note_source, _WRONG):
        pass
    yield from filter(None, read_rows(paths[0], answer_of, _WRONG))


def read_faithjudge(paths: Sequence[Path], counts: Counter[str], part: str) -> Iterator[MarkedAnswer]:
    """The answers of FaithJudge's file of a part, which has those of one source in a line; errors are those of
    :func:`read_authors`."""

    def answers_of(row: Mapping[str, Any]) -> list[MarkedAnswer]:
        told = _source(row["source"])
        return [_marked_answer(str(row["source_id"]), told, each) for each in row["responses"]]

    for answers in read_rows(paths[0], answers_of, _WRONG):
        yield from answers


def _marked_answer(source: str, told: tuple[str, str], row: Mapping[str, Any]) -> MarkedAnswer:
    labels = [span_of([label["start"], label["end"], HALLUCINATION]) for label in row["labels"]]
    return MarkedAnswer(source, text_of(row, "model"), *told, text_of(row, "response"), labels)


def _source(told: Any) -> tuple[str, str]:
    """Question and reference of a source: an article, a question with its passages, or a record."""
    if isinstance(told, str):
        return "", without_surrogates(told).strip()
    if "passages" in told:
        return text_of(told, "question").strip(), text_of(told, "passages").strip()
    return "", without_surrogates(json.dumps(told, ensure_ascii=False))


# ----------------------------------------------------------------------------------------------------------------- scores
#
# Those of Mu-SHROOM, and those that the field reports on RAGTruth, of whole answers and of characters.

EXAMPLE = ("example_f1", "example_precision", "example_recall")


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a RAGTruth task.

    Returns:
        ``example_f1``, ``example_precision``, ``example_recall``: whether the answer has a marked and a flagged span, as
        ``[tp, fp, fn, tn]`` of one answer; ``span_f1``: the same of its characters; ``answer_auc``: the evidence of all
        flagged words (:func:`custom_metrics.scores.unsupported.evidence`) with whether people marked any; and the values
        of :func:`custom_metrics.scores.detection.process_character_results`. A lost text is wrong: it flags nothing, or all
        of an answer in which people marked nothing.
    """
    gold, predicted, kind = detection.annotated_and_predicted(doc, results)
    if kind == LOST and not gold:
        predicted = [Span(0, len(doc["answer"]))]
    marked, flagged = ({at for span in spans for at in range(*span[:2])} for spans in (gold, predicted))
    both = len(marked & flagged)
    characters = [both, len(flagged) - both, len(marked) - both, len(doc["answer"]) - len(marked | flagged)]
    against = evidence(doc["answer"], predicted, doc["language"])
    return {
        **_of_answer(bool(gold), bool(predicted), against, doc),
        "span_f1": CountsOfCluster(characters, doc["passage"]),
        **detection.process_character_results(doc, results),
    }


def process_rating(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a judge's rating of an answer, ``"1"`` to ``"4"`` or ``"unread"``.

    Returns:
        ``example_f1``, ``example_precision``, ``example_recall`` and ``answer_auc`` as of :func:`process_results`: any
        rating but 4 flags an answer, and the evidence is what is lacking to 4; and ``unread_rate``. An unread rating is
        wrong.
    """
    rating = float(results[0]) if str(results[0]).isdecimal() else None
    worst = 0.0 if doc["marked"] else float(SCALE[1])
    against = worst if rating is None else SCALE[1] - rating
    unread = FloatWithCounts(rating is None, cluster=doc["passage"])
    return {**_of_answer(doc["marked"], against > 0, against, doc), "unread_rate": unread}


def _of_answer(marked: bool, flagged: bool, against: float, doc: Mapping[str, Any]) -> dict[str, Any]:
    example = [int((marked, flagged) == cell) for cell in ((True, True), (False, True), (True, False), (False, False))]
    return {
        **dict.fromkeys(EXAMPLE, CountsOfCluster(example, doc["passage"])),
        "answer_auc": CountsOfCluster([[against, float(marked)]], doc["passage"]),
    }


# ---------------------------------------------------------------------------------------- the test set in training data
#
# RAGTruth has answers to train on: its split "train". The test answers are known by digests of their first letters, and of
# what they were written from. Answers of one model often begin alike, so many letters are compared. ``contamination.tsv``
# has the digests of question answering and data to text; summaries are compared where the files are there.


def _texts(folder: Path | None) -> Iterator[tuple[str, str, str]]:
    for part in PARTS:
        for form, read in (("authors", read_authors), ("faithjudge", read_faithjudge)):
            paths = [sources.local_copy(sources.source_file(*place), folder) for place in _places(part, form)]
            with suppress(sources.CorruptSource, OSError):  # a damaged file
                for row in read([path for path in paths if path], Counter(), part) if all(paths) else ():
                    yield row.question, row.reference.partition("\n")[0], row.answer


TEST_SET = TestSet(
    "lm_eval_tasks.ragtruth",
    _texts,
    "of RAGTruth's test set, or about its sources",
    'Leave them out; the split "train" of the authors\' files is for training',
    letters=400,
)
