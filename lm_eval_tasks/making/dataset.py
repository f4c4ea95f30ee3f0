"""Documents of the steps, from rows of the user's own files."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from custom_metrics.reading.spans import CATEGORIES, span_of
from custom_metrics.reading.tagged_text import render
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.data.tables import read_json_lines, text_of
from lm_eval_tasks.definition import Documents, TaskLoader, choice, positive, refuse_misspelt
from lm_eval_tasks.making import steps
from lm_eval_tasks.making.steps import LANGUAGES, PARTS

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Row = dict[str, Any]
TEXTS = ("title", "url", "question", "reference", "answer", "model")
CHAT, TEXT = "chat", "text"


def load(
    step: str,
    language: str | None = None,
    articles: str | None = None,
    min_characters: int = 1,
    categories: str | Sequence[str] | None = None,
    source_language: str | None = None,
    parts: str | Sequence[str] | None = None,
    translation_prompt: str = CHAT,
    translation_prefix: str = "",
    **ignored: Any,
) -> Documents:
    """Load the documents of a step.

    Args:
        step: a key of :data:`lm_eval_tasks.making.steps.STEPS`.
        language: ISO 639 code, a key of :data:`LANGUAGES`, of the data to generate.
        articles: a JSON lines file. Rows of another language are left out; of a translation, rows of this language are.
        min_characters: of a reference; rows with a shorter one are left out. The paper has 2,000, of whole articles.
        categories: kinds of errors to insert, some of ``custom_metrics.reading.spans.CATEGORIES``; default all.
        source_language: of a translation: take rows of this language only.
        parts: of a translation: some of ``question``, ``reference`` and ``answer``; default all that a row has.
        translation_prompt: ``"chat"``, or ``"text"``: the text alone, for translation models.
        translation_prefix: with ``"text"``: a prefix of the text, such as ``<2de>`` and a space.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id``, ``row`` (the id of the row it is from), ``step``, ``language``,
        ``language_name``, ``title``, ``url``, ``model``, ``question``, ``reference``, ``answer``, ``spans`` (``start``,
        ``end``, ``category``); of inserted errors also ``passage`` (the answer with its tags) and ``categories``; of a
        translation also ``part``, ``parts``, ``text`` (with tags), ``tagged``, ``source_language``, ``source_name``,
        ``chat`` and ``translation_prefix``, and only the first part has the row's own texts.
    """
    choice("step", step, steps.STEPS, "making")
    task = steps.task_name(step)
    refuse_misspelt(ignored, load_task.user_options, task)
    positive("min_characters", min_characters, task)
    choice("translation_prompt", translation_prompt, (CHAT, TEXT), task)
    if not isinstance(articles, str) or not articles:
        raise UsageError(
            f"{task}: name a file of articles, JSON lines with title, text, url and language: --metadata "
            """'{"articles": "FILE", "language": "de"}' (a pattern such as mfava_* names the tasks that make data, too; """
            "the task mfava is the evaluation in all languages, mfava_detection_gold the detection)"
        )
    if language is None:
        wanted = """--metadata '{"articles": "FILE", "language": "de"}'"""
        raise UsageError(f"{task}: name the language of the data: {wanted}")
    choice("language", language, LANGUAGES, task)
    kinds = _selection("categories", categories, CATEGORIES, task)
    chosen = _selection("parts", parts, PARTS, task)
    path = Path(articles).expanduser()
    seen: Counter[str] = Counter()
    common = {"step": step, "language": language, "language_name": LANGUAGES[language]}
    documents: list[Row] = []
    for row in read_rows(path, language):
        reason = _unfit(row, step, language, min_characters, source_language)
        if reason:
            seen[f"rows left out, {reason}"] += 1
            continue
        row_documents = [row]
        if step == steps.SILVER:
            if not row["answer"]:
                seen["rows without an answer, whose own text is the passage"] += 1
                row |= {"answer": row["reference"], "spans": []}
            row_documents = [{**row, "passage": render(row["answer"], row["spans"]), "categories": kinds}]
        elif step == steps.TRANSLATE:
            row_documents = _part_documents(row, chosen, translation_prompt == CHAT, translation_prefix)
        for document in row_documents:
            spans = [{"start": span.start, "end": span.end, "category": span.category} for span in document["spans"]]
            documents.append({"row": row["id"], **document, "spans": spans, **common})
    left_out = "; ".join(f"{reason}: {number}" for reason, number in seen.items())
    if not documents:
        raise UsageError(f"{task}: {path} holds nothing to work on ({left_out or 'it is empty'})")
    log.info("%s: %d documents from %s%s", task, len(documents), path, f"; {left_out}" if left_out else "")
    options: dict[str, Any] = {"step": step, "language": language, "min_characters": min_characters}
    options |= {"categories": kinds} if step == steps.SILVER else {}
    options |= {"parts": chosen, "translation_prompt": translation_prompt} if step == steps.TRANSLATE else {}
    files, kept = [provenance.local_file("articles", path)], {"documents": len(documents)}
    record = provenance.Record("articles", local_files=files, options=options, kept=kept, left_out=dict(seen))
    return {"evaluation": provenance.documents_of(documents, record)}


load_task = TaskLoader(load, lambda options: [], of_task=("step",))


def _selection(name: str, given: str | Sequence[str] | None, allowed: Sequence[str], task: str) -> list[str]:
    """The chosen ones of the allowed values, in that order, from a list or from ``a+b``; default all."""
    if given is None:
        return list(allowed)
    values = [value.strip() for value in given.split("+")] if isinstance(given, str) else list(given)
    for value in values:
        choice(name, value, allowed, task)
    return [value for value in allowed if value in values]


def read_rows(path: Path, language: str) -> Iterator[Row]:
    """The rows of a JSON lines file: ``id``, ``language``, ``spans``, and the texts :data:`TEXTS`, which may be empty.
    ``reference`` may be called ``text``. The line number stands in for a missing ``id``, `language` for a missing one. A
    CorruptSource, with the line, where a field is of another kind, or spans do not fit their answer."""
    if not path.is_file():
        raise MissingSource(
            f'{path.resolve()}: no such file (--metadata \'{{"articles": "FILE"}}\', JSON lines with title, text, url)'
        )
    ids: set[str] = set()
    for number, row in read_json_lines(path):
        row = {"reference": row.get("text"), **{name: value for name, value in row.items() if value is not None}}
        try:
            texts = {name: text_of(row, name, needed=False) for name in TEXTS}
            own, spans = text_of(row, "language", needed=False), sorted(map(span_of, row.get("spans") or ()))
        except (TypeError, ValueError) as error:
            raise CorruptSource(f"{path}, line {number}: {error}") from error
        if any(not s.start < s.end <= len(texts["answer"]) or s.category not in CATEGORIES for s in spans):
            raise CorruptSource(f"{path}, line {number}: spans that do not fit the answer")
        id = str(row.get("id") or number)
        if id in ids:
            raise UsageError(f"{path}, line {number}: an earlier row has the id {id!r}, too; an id names one row")
        ids.add(id)
        stripped = {name: text if name == "answer" else text.strip() for name, text in texts.items()}
        yield {**stripped, "id": id, "language": own or language, "spans": spans}


def _unfit(row: Row, step: str, language: str, shortest: int, source: str | None) -> str | None:
    """The reason why a step cannot use a row; ``None`` where it can."""
    if step == steps.TRANSLATE:
        if row["language"] == language:
            return "in the language itself"
        if row["language"] not in LANGUAGES or (source is not None and row["language"] != source):
            return "of another language"
        return None if row["answer"] or row["question"] or row["reference"] else "without a text"
    if row["language"] != language:
        return "of another language"
    if not row["reference"]:
        return "without a text"
    if len(row["reference"]) < shortest:
        return "of a text that is too short"
    return "without a question" if step == steps.ANSWERS and not row["question"] else None


def _part_documents(row: Row, chosen: Sequence[str], chat: bool, prefix: str) -> list[Row]:
    """One document for each text of a row; only the first has the row's other fields."""
    parts = [part for part in chosen if row[part]]
    empty = {name: "" for name, value in row.items() if isinstance(value, str)}
    return [
        {
            **(row if part == parts[0] else {**empty, "spans": []}),
            "id": f"{row['id']}/{part}",
            "part": part,
            "text": render(row[part], row["spans"]) if part == "answer" else row[part],
            "tagged": part == "answer" and bool(row["spans"]),
            "parts": parts,
            "source_language": row["language"],
            "source_name": LANGUAGES[row["language"]],
            "chat": chat,
            "translation_prefix": prefix,
        }
        for part in parts
    ]
