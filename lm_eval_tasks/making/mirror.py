"""A mirror of data of one's own: rows in the layout of mFAVA's public files, which its tasks read."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from custom_metrics.reading.tagged_text import render
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.making.articles import read_rows
from lm_eval_tasks.mfava.languages import GOLD_FILE, LANGUAGES, REPOSITORY

__all__ = ["write_mirror"]

Row = dict[str, Any]


def write_mirror(places: Sequence[Path], folder: Path) -> tuple[dict[str, int], Counter[str]]:
    """Write rows in the layout of mFAVA's public files, so that its tasks read them: ``--metadata mirror=<folder>``.

    Questions become the articles of ``mfava_<language>``; answers with spans become the silver annotations of
    ``mfava_detection_<language>_silver``.

    Args:
        places: files of :func:`collect`, each row with its ``language``.
        folder: of the mirror; files in it are replaced.

    Returns:
        How many rows each task gets; how many rows no task can get, by reason.

    Raises:
        UsageError: no row is left.
    """
    left_out: Counter[str] = Counter()
    questions: dict[str, dict[str, Row]] = {}
    annotated: dict[str, list[Row]] = {}
    tasks: Counter[str] = Counter()
    for place in places:
        for row in read_rows(place, "", left_out):
            known = LANGUAGES.get(row["language"])
            if known is None or not row["reference"]:
                left_out["rows in a language that mFAVA has not, or without a reference"] += 1
                continue
            if row["question"]:
                article = questions.setdefault(known.code, {}).setdefault(row["reference"], {**row, "asked": []})
                if row["question"] not in article["asked"]:
                    article["asked"].append(row["question"])
                    tasks[f"mfava_{known.code}"] += 1
            if row["answer"] and known.silver:
                annotated.setdefault(known.code, []).append(row)
                tasks[f"mfava_detection_{known.code}_silver"] += 1
            elif row["answer"]:
                left_out["answers in a language without a silver file (mFAVA has no Japanese one)"] += 1
    if not tasks:
        raise UsageError(
            f"lm-eval-grounded make mirror: no row has a language of mFAVA and a question or an answer ({dict(left_out)})"
        )
    below = folder / "github" / REPOSITORY
    for code, articles in questions.items():
        with whole_file(below / LANGUAGES[code].queries_file) as partial:
            _write_questions(partial, [*articles.values()])
    files: dict[str, list[Row]] = {}
    for code, rows in annotated.items():
        name = GOLD_FILE if LANGUAGES[code].gold else LANGUAGES[code].silver_file
        files.setdefault(name, []).extend(rows)
    for name, rows in files.items():
        with whole_file(below / name) as partial:
            _write_annotated(partial, rows)
    return dict(tasks), left_out


def _write_questions(path: Path, articles: Sequence[Row]) -> None:
    most = max(len(article["asked"]) for article in articles)
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["title", "category", "url", "references", *(f"query_{n}" for n in range(1, most + 1))])
        for article in articles:
            asked = [*article["asked"], *[""] * (most - len(article["asked"]))]
            table.writerow([article["title"], "", article["url"], article["reference"], *asked])


def _write_annotated(path: Path, rows: Sequence[Row]) -> None:
    """The languages with gold annotations have one file for both kinds; nobody has marked these, so gold is empty."""
    documents = []
    for row in rows:
        language = LANGUAGES[row["language"]]
        tagged = render(row["answer"], row["spans"])
        document = {"references": row["reference"], "generated_text": row["answer"], "silver_annotations": tagged}
        if language.gold:
            document |= {"gold_annotations": "", "language": language.name}
        documents.append(document)
    path.write_text(json.dumps(documents, ensure_ascii=False, indent=1) + "\n", "utf-8")
