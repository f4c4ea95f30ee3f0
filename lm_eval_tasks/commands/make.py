"""Make files of the data that a model made: questions, answers, inserted errors, translations.

The steps are harness tasks: `lm_eval --tasks mfava_make_queries --metadata '{"articles": "FILE", "language": "de"}'
--log_samples`, then mfava_make_answers, mfava_make_silver and mfava_translate.

`collect` reads their samples, checks every reply, and writes JSON lines: articles of the next step (the option
articles), or training data. `mirror` writes such files in the layout of mFAVA's public ones, for the option mirror.

Examples:
  lm-eval-grounded make collect results/MODEL -o questions.jsonl
  lm-eval-grounded make mirror texts.jsonl -o mirror
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.abstention.folding import fold
from custom_metrics.reading.tagged_text import render
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.commands import add_output, say

Row = dict[str, Any]
_WHO = "lm-eval-grounded make"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("collect", "mirror"))
    parser.add_argument("places", nargs="+", type=Path, metavar="PATH", help="samples, or collected files (mirror)")
    add_output(parser, "PATH", "the file (collect) or the folder (mirror)", required=True)
    parser.add_argument("--faithful", action="store_true", help="collect: each text before its errors, too")


def run(arguments: argparse.Namespace) -> int:
    if arguments.what == "mirror":
        tasks, unusable = write_mirror(arguments.places, arguments.output)
        for task, number in tasks.items():
            say(f"{task}: {number}")
        left_out = dict(unusable)
    else:
        collected = collect(arguments.places, arguments.output, arguments.faithful)
        rows = ", ".join(f"{number} {language}" for language, number in collected.rows.items())
        say(f"{collected.step}: {rows} of {collected.replies} replies")
        left_out = collected.left_out
    for reason, number in left_out.items():
        say(f"left out, {reason}: {number}")
    say(arguments.output)
    return 0


class Collected(NamedTuple):
    step: str
    rows: dict[str, int]  # number of rows that were written, by language
    replies: int  # number of replies that were read
    left_out: dict[str, int]  # number of rows, or parts of replies, that were left out, by reason


def collect(places: Sequence[Path], output: Path, faithful: bool = False) -> Collected:
    """Write the data that models generated, as JSON lines, and its provenance (``<output>.provenance.json``).

    A row has ``id``, ``title``, ``url``, ``article`` (address, or else title), ``language``, ``question``,
    ``reference``, and from the step ``answers`` on ``answer``, ``spans`` (``[start, end, category]``, in characters of
    the answer) and ``model``. Of the samples in `places` the newest file of each task counts; its folder has the model's
    name. With `faithful`, each text before its inserted errors is a row as well.
    """
    from lm_eval_tasks.data import provenance
    from lm_eval_tasks.data.samples import read_samples, samples_files
    from lm_eval_tasks.data.sources import CorruptSource
    from lm_eval_tasks.making import steps

    files = [pair for place in places for tasks in samples_files(place).values() for pair in tasks.items()]
    names = {name for task, _ in files if (name := steps.step_of(task))}
    if len(names) != 1:
        text = " and ".join(sorted(names)) if names else f"none ({', '.join(sorted({task for task, _ in files}))})"
        raise UsageError(f"{_WHO} collect: the samples are of {text}; name those of one step")
    (step,) = names
    reasons: Counter[str] = Counter()
    rows: list[Row] = []
    replies = 0
    used = [file for task, file in files if steps.step_of(task) == step]
    for file in used:
        samples = list(read_samples(file))
        replies += len(samples)
        make_rows = _translated_rows if step == steps.TRANSLATE else partial(_made_rows, faithful=faithful)
        try:
            rows += make_rows(samples, file.parent.name, reasons)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptSource(f"{file}: not the samples of a making task ({error!r})") from error
    rows = list(_without_duplicates(rows, reasons))
    if not rows:
        left_out = "; ".join(f"{reason}: {number}" for reason, number in reasons.items())
        raise UsageError(f"{_WHO} collect: nothing of {replies} replies can be kept ({left_out})")
    collected = Collected(step, dict(Counter(row["language"] for row in rows)), replies, dict(reasons))
    files_used = [provenance.local_file("samples", file) for file in used]
    provenance.write_with_sidecar(output, rows, {"local_files": files_used, "collected": collected._asdict()})
    return collected


def _made_rows(samples: Sequence[Row], model: str, reasons: Counter[str], faithful: bool) -> Iterator[Row]:
    from lm_eval_tasks.making import steps

    for sample in samples:
        doc = sample["doc"]
        parsed = steps.parse_reply(sample["resps"][0][0], doc)
        reasons += parsed.reasons
        for number, fields in enumerate(parsed.rows, 1):
            if doc["step"] == steps.QUERIES:
                yield {"id": f"{doc['row']}/{number}", **_shared_fields(doc), **fields}
                continue
            row = {"id": doc["row"], **_shared_fields(doc), **fields, "model": model}
            yield row
            if faithful and doc["step"] == steps.SILVER:
                yield {**row, "id": f"{row['id']}/faithful", **_answer_fields(doc)}


def _translated_rows(samples: Sequence[Row], model: str, reasons: Counter[str]) -> Iterator[Row]:
    """Rows of translated texts; a row that lacks a text is left out."""
    from lm_eval_tasks.making import steps

    translated: dict[str, dict[str, Row]] = {}  # row to part to its translation
    firsts: dict[str, Row] = {}  # row to the document with its other fields
    for sample in samples:
        doc = sample["doc"]
        parsed = steps.parse_reply(sample["resps"][0][0], doc)
        reasons += parsed.reasons
        texts = translated.setdefault(doc["row"], {})
        texts.update((doc["part"], row) for row in parsed.rows)
        if doc["part"] == doc["parts"][0]:
            firsts[doc["row"]] = doc
    for id, texts in translated.items():
        first = firsts.get(id)
        if first is None or texts.keys() != {*first["parts"]}:
            reasons["a part of the text is missing"] += 1
            continue
        fields = _shared_fields(first) | {part: row["text"] for part, row in texts.items()}
        if first["answer"]:
            made = {"answer": fields["answer"], "spans": texts["answer"]["spans"]} if "answer" in texts else {}
            fields |= _answer_fields(first) | made
        origin = {"translated_from": first["source_language"], "translator": model}
        yield {"id": f"{id}/{first['language']}", **fields, **origin}


def _shared_fields(doc: Mapping[str, Any]) -> Row:
    fields = {name: str(doc[name]) for name in ("title", "url", "language", "question", "reference")}
    return {**fields, "article": fields["url"] or fields["title"]}


def _answer_fields(doc: Mapping[str, Any]) -> Row:
    spans = [[span["start"], span["end"], span["category"]] for span in doc["spans"]]
    return {"answer": doc["answer"], "spans": spans, "model": doc["model"]}


def _without_duplicates(rows: Sequence[Row], reasons: Counter[str]) -> Iterator[Row]:
    """Rows without those that repeat the text of an earlier one; a repeated id gets the model's name and a number."""
    seen: set[tuple[str, ...]] = set()
    ids: set[str] = set()
    for row in rows:
        key = (row["language"], fold(row["question"]), fold(row.get("answer", "")))
        if key in seen:
            reasons["a double of another row"] += 1
            continue
        seen.add(key)
        id = row["id"] if row["id"] not in ids else f"{row['id']}/{row.get('model', '')}/{len(ids)}"
        ids.add(id)
        yield {**row, "id": id}


def write_mirror(places: Sequence[Path], folder: Path) -> tuple[dict[str, int], Counter[str]]:
    """Write rows in the layout of mFAVA's public files, so that its tasks read them: ``--metadata '{"mirror": "FOLDER"}'``.

    Questions become the articles of ``mfava_<language>``; answers with spans become the silver annotations of
    ``mfava_detection_<language>_silver``. Files that are in the folder are replaced. Returns the number of rows by task;
    and of rows that fit no task, by reason.
    """
    from lm_eval_tasks.data import whole_file
    from lm_eval_tasks.making.dataset import read_rows
    from lm_eval_tasks.mfava.dataset import GOLD_FILE, LANGUAGES, REPOSITORY

    left_out: Counter[str] = Counter()
    queries: dict[str, dict[str, tuple[Row, list[str]]]] = {}  # file to reference to (row, questions)
    annotated: dict[str, list[Row]] = {}  # file to its documents
    tasks: Counter[str] = Counter()
    for place in places:
        for row in read_rows(place, ""):
            language = LANGUAGES.get(row["language"])
            if language is None or not row["reference"]:
                left_out["rows in a language that mFAVA has not, or without a reference"] += 1
                continue
            if row["question"]:
                _, questions = queries.setdefault(language.queries_file, {}).setdefault(row["reference"], (row, []))
                if row["question"] not in questions:
                    questions.append(row["question"])
                    tasks[f"mfava_{language.code}"] += 1
            if row["answer"] and language.silver:
                document = {"references": row["reference"], "generated_text": row["answer"]}
                document["silver_annotations"] = render(row["answer"], row["spans"])
                if language.gold:  # one file holds both kinds of annotations; nobody has marked these
                    document |= {"gold_annotations": "", "language": language.name}
                annotated.setdefault(GOLD_FILE if language.gold else language.silver_file, []).append(document)
                tasks[f"mfava_detection_{language.code}_silver"] += 1
            elif row["answer"]:
                left_out["answers in a language without a silver file (mFAVA has no Japanese one)"] += 1
    if not tasks:
        raise UsageError(
            f"{_WHO} mirror: no row has a language of mFAVA and a question or an answer ({dict(left_out)})"
        )
    below = folder / "github" / REPOSITORY
    for name, articles in queries.items():
        with whole_file(below / name) as unfinished:
            _write_questions(unfinished, [*articles.values()])
    for name, documents in annotated.items():
        with whole_file(below / name) as unfinished:
            unfinished.write_text(json.dumps(documents, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return dict(tasks), left_out


def _write_questions(path: Path, articles: Sequence[tuple[Row, list[str]]]) -> None:
    most = max(len(questions) for _, questions in articles)
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["title", "category", "url", "references", *(f"query_{n}" for n in range(1, most + 1))])
        for row, questions in articles:
            empty = [""] * (most - len(questions))
            table.writerow([row["title"], "", row["url"], row["reference"], *questions, *empty])
