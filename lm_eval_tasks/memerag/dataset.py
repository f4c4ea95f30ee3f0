"""Documents of MEMERAG: answers that models wrote from passages, whose sentences people judged supported or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.reading.spans import NOT_SUPPORTED, SUPPORTED, Span, as_columns
from custom_metrics.reading.tagged_text import render
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import quote
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.tables import read_rows, text_of
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, documents
from lm_eval_tasks.detection.labelled_answers import TestSet
from lm_eval_tasks.memerag import LANGUAGES

REPOSITORY = "amazon-science/MEMERAG"
FOLDERS = {"one": "data/memerag", "majority": "data/memerag_ext_w_majority_vote"}
"""Who judged a sentence, as the option ``annotators`` names it, to the folder of the files: one person, or five, of whom
most agree."""

HARD_TO_TELL = "Challenging to determine"


class JudgedAnswer(NamedTuple):
    id: str  # of the question
    question: str
    passages: list[str]
    answer: str  # its sentences, one after another
    sentences: list[tuple[Span, str]]  # place in the answer, and label


def load(language: str, annotators: str = "one", mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the answers of a language (:data:`LANGUAGES`), for a detector; `annotators` is a key of :data:`FOLDERS`.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id`` (of the question), ``language``, ``annotators``, ``passage`` (the
        question, by which bounds are clustered), ``query``, ``reference`` (the passages, with blank lines between them),
        ``answer``, ``sentences`` (``start``, ``end`` in characters of the answer, ``label``), ``spans`` (those that are not
        supported), ``target`` (the answer, these tagged).
    """
    return _load(f"memerag_{language}", language, annotators, mirror, ignored, _answer)


def load_sentences(language: str, annotators: str = "one", mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the judged sentences of a language, for a judge. Arguments and errors are those of :func:`load`.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id`` (question/number of the sentence), ``language``, ``annotators``,
        ``passage`` (the question), ``label``, and as quoted lines ``quoted``: ``question``, ``passages`` (a list),
        ``answer``, ``sentence``.
    """
    return _load(f"memerag_judge_{language}", language, annotators, mirror, ignored, _sentences)


def file_of(language: str, annotators: str) -> str:
    return f"{FOLDERS[annotators]}/{language}.jsonl"


def _files(options: Options) -> Places:
    return [(REPOSITORY, file_of(options["language"], options.get("annotators", "one")))]


load_task = TaskLoader(load, _files, of_task=("language",), logged_elsewhere=("reference", "target"))

load_judge_task = TaskLoader(load_sentences, _files, of_task=("language",), logged_elsewhere=("quoted",))


def _load(
    task: str,
    language: str,
    annotators: str,
    mirror: str | None,
    ignored: Mapping[str, Any],
    documents_of: Callable[[JudgedAnswer], Iterator[dict[str, Any]]],
) -> Documents:
    load_task.check(task, ignored, language=(language, LANGUAGES), annotators=(annotators, FOLDERS))
    counts: Counter[str] = Counter()
    with sources.recording() as read:
        path = sources.locate(REPOSITORY, file_of(language, annotators), mirror)
    answers = list(judged_answers(path, counts))
    options = {"language": language, "annotators": annotators}
    rows = [{**row, **options, "passage": f"{language}/{each.id}"} for each in answers for row in documents_of(each)]
    kept = {"answers": len(answers), **Counter(label for each in answers for _, label in each.sentences)}
    return documents(task, rows, read, f"{len(answers)} answers", counts, kept=kept, options=options)


def _answer(row: JudgedAnswer) -> Iterator[dict[str, Any]]:
    wrong = [span for span, label in row.sentences if label == NOT_SUPPORTED]
    yield {
        "id": row.id,
        "query": row.question,
        "reference": "\n\n".join(row.passages),
        "answer": row.answer,
        "sentences": [{"start": s.start, "end": s.end, "label": label} for s, label in row.sentences],
        "spans": as_columns(wrong),
        "target": render(row.answer, wrong),
    }


def _sentences(row: JudgedAnswer) -> Iterator[dict[str, Any]]:
    quoted = {"question": quote(row.question), "passages": [*map(quote, row.passages)], "answer": quote(row.answer)}
    for number, (span, label) in enumerate(row.sentences):
        if label in (SUPPORTED, NOT_SUPPORTED):
            sentence = quote(row.answer[span.start : span.end])
            yield {"id": f"{row.id}/{number}", "label": label, "quoted": {**quoted, "sentence": sentence}}


def judged_answers(path: Path, counts: Counter[str]) -> Iterator[JudgedAnswer]:
    """The answers of a public file. What is left out is counted; a line that is no judged answer is a CorruptSource. A
    file has an answer as its sentences alone, and here it is these one after another, so each is found in it: with the
    white space that they end in, else with a space between them."""
    for document in read_rows(path, _judged_answer, "no judged answer of MEMERAG"):
        others = Counter(label for _, label in document.sentences if label not in (SUPPORTED, NOT_SUPPORTED))
        counts["sentences left out, as hard to tell"] += others[HARD_TO_TELL]
        counts["sentences left out, with another label"] += others.total() - others[HARD_TO_TELL]
        if others.total() < len(document.sentences):
            yield document
        else:
            counts["answers left out, without a sentence that was judged"] += 1


def _judged_answer(row: Mapping[str, Any]) -> JudgedAnswer:
    answer, end = "", 0
    sentences = []
    for sentence in row["answer"]:
        text = text_of(sentence, "sentence")
        if not text.strip():
            continue
        answer += "" if not answer or answer[-1].isspace() or text[0].isspace() else " "
        start = len(answer) + len(text) - len(text.lstrip())
        end = start + len(text.strip())
        answer += text
        sentences.append((Span(start, end), text_of(sentence, "factuality").strip()))
    passages = [text for passage in row["context"] if (text := text_of(passage, "text").strip())]
    return JudgedAnswer(text_of(row, "query_id"), text_of(row, "query"), passages, answer[:end], sentences)


# ----------------------------------------------------------------------------------------------- MEMERAG in training data
#
# Its authors ask nobody to train on it. It is known by its name, and by its content: ``contamination.tsv`` holds digests of
# the answers, and of the questions with their first passage, of the German and Spanish files. Files of other languages are
# compared where they are in the mirror in force or in the cache. A digest says nothing of its text.

_ASKS = "MEMERAG asks not to be trained on, so that it can measure (CC BY-NC 4.0, https://github.com/amazon-science/MEMERAG)"


def refuse_name(name: str) -> None:
    """Refuse training data that calls itself MEMERAG, by a UsageError."""
    if Path(name).name.lower().startswith("memerag") or f"{REPOSITORY}/".lower() in name.lower():
        raise UsageError(f"--data {name}: {_ASKS}; `lm-eval-grounded calibrate` reads runs of memerag_<language>")


def _texts(folder: Path | None) -> Iterator[tuple[str, str, str]]:
    for name in (file_of(language, annotators) for language in LANGUAGES for annotators in FOLDERS):
        path = sources.local_copy(sources.source_file(REPOSITORY, name), folder)
        with suppress(sources.CorruptSource, OSError):  # a damaged file
            for row in judged_answers(path, Counter()) if path else ():
                yield row.question, (row.passages or [""])[0].partition("\n")[0], row.answer


TEST_SET = TestSet(
    "lm_eval_tasks.memerag", _texts, "MEMERAG's, or to its questions from its passages", f"{_ASKS}; leave them out"
)
