"""The languages of mFAVA, and the documents of its estimation tasks: questions about a Wikipedia article, asked without it,
and the article to judge by.

The public files differ from language to language: the reference in five columns or in one, with or without the article's
address, one question or two, numbered or not. One reader serves all, and counts what it left out.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from custom_metrics.usage import shipped_rows
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import DEFAULT_DETECTOR
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.samples import documents_of_samples
from lm_eval_tasks.data.tables import read_csv
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, in_turn
from lm_eval_tasks.detection.calibrated import settings_of

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

REPOSITORY = "WorldHellow/mHallucinations-LLM"
SPLIT = "test"  # as in the copies on the hub
GOLD_FILE = "datasets/hallucination_detection/gold-languages/combined_gold_languages.json"
"""Published on the hub too, as `WueNLP/mHallucination_Detection`; only the GitHub copy is pinned by a checksum."""


@dataclass(frozen=True)
class Language:
    """A language of mFAVA. Files are paths in the repository, empty where there is none: the silver annotations of the gold
    languages are in the gold file, and Japanese ones are not public."""

    code: str  # ISO 639
    name: str  # English, as the public files have it
    in_paper: bool  # one of the paper's 30; Persian is in the repository alone
    gold: bool  # people annotated answers in it
    silver_file: str
    queries_file: str
    articles: int  # in the paper's evaluation set (Table 9); 0 where it has none

    @property
    def silver(self) -> bool:
        """Whether silver annotations are public."""
        return self.gold or bool(self.silver_file)


LANGUAGES = {
    row["code"]: Language(
        row["code"],
        row["language"],
        row["in_paper"] == "yes",
        row["gold"] == "yes",
        row["silver_file"] and f"datasets/{row['silver_file']}",
        row["queries_file"] and f"datasets/{row['queries_file']}",
        int(row["articles"] or 0),
    )
    for row in shipped_rows("lm_eval_tasks.mfava", "languages.tsv")
}
"""Code to language, in the order of the paper's Table 7, Persian last."""

COLUMNS = ("id", "language", "article", "subset", "query", "reference")  # required in a document
EMPTY = "questions that are empty in the file"
SUBSETS = 5  # the paper splits the articles in five, one random seed each, and reports the spread


def load(
    language: str,
    detector: str = DEFAULT_DETECTOR,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    calibration_annotations: str | None = None,
    mirror: str | None = None,
    samples: str | None = None,
    **ignored: Any,
) -> Documents:
    """Load the questions of a language.

    Args:
        language: ISO 639 code, a key of :data:`LANGUAGES`.
        detector, detector_args, calibration, calibration_annotations: the detector that tags the answers, and what corrects
            the rates; see :func:`lm_eval_tasks.detection.calibrated.settings_of` also for errors.
        samples: a samples file (or a folder of them) of an earlier run: its documents, not those of the public file.

    Returns:
        ``{"evaluation": documents}``, the five subsets in turn, so that ``--limit`` sees all. Columns: ``id``,
        ``language``, ``article`` (number of the row), ``subset`` (0 to 4), ``title``, ``category``, ``url``, ``query``,
        ``reference`` (the article's summary), and the settings for filter and metrics: ``detector``, ``detector_args``,
        ``calibration``, ``calibration_annotations``.
    """
    task = f"mfava_{language}"
    load_task.check(task, ignored, language=(language, LANGUAGES))
    settings = settings_of(task, detector, detector_args, calibration, calibration_annotations, ignored)
    rows, record = (
        _documents(language, sources.mirror_folder(mirror))
        if samples is None
        else documents_of_samples(Path(samples), task, COLUMNS)
    )
    return {"evaluation": provenance.documents_of([{**row, **settings} for row in rows], record)}


def _files(options: Options) -> Places:
    return [(REPOSITORY, LANGUAGES[options["language"]].queries_file)]


load_task = TaskLoader(load, _files, of_task=("language",))


# --------------------------------------------------------------------------------------------------------- public files

_QUERY = re.compile(r"query[_ ]?(\d+)")
_REFERENCE = re.compile(r"references?(?:[_ ]?(\d+))?")
_NUMBERED = re.compile(r"\s*(\d{1,2})\s*[.)、．:]\s*")


@lru_cache(maxsize=32)
def _documents(language: str, mirror: Path | None) -> tuple[list[dict[str, Any]], provenance.Record]:
    entry = LANGUAGES[language]
    with sources.recording() as read:
        path = sources.locate(REPOSITORY, entry.queries_file, mirror)
    counts: Counter[str] = Counter()
    articles, total = read_articles(path, counts)
    # Of all articles of the file, as the paper split them, whether or not a question of theirs is left.
    subset_of = np.repeat(range(SUBSETS), [len(block) for block in np.array_split(np.arange(total), SUBSETS)]).tolist()
    subsets: list[list[dict[str, Any]]] = [[] for _ in range(SUBSETS)]
    for article in articles:
        subset = subset_of[article["row"]]
        subsets[subset] += [
            {
                "id": f"{language}_{article['row']}_{number}",
                "language": language,
                "article": article["row"],
                "subset": subset,
                **{column: article[column] for column in ("title", "category", "url")},
                "query": query,
                "reference": article["reference"],
            }
            for number, query in article["queries"]
        ]
    rows = in_turn(subsets)
    left_out = dict(counts)
    counts.pop(EMPTY, 0)  # GPT-4 often gave one question instead of two
    if counts:
        log.warning("mfava_%s: %s", language, "; ".join(f"{reason}: {number}" for reason, number in counts.items()))
    if not rows:
        raise UsageError(f"mfava_{language}: {path} holds no article with a reference and a question ({dict(counts)})")
    published = f"; the paper's Table 9 has {entry.articles}" if entry.articles else ""
    record = provenance.Record.from_files(
        read,
        explanations={entry.queries_file: f"the file is not the published one: it has {total} articles{published}"},
        not_comparable=[] if entry.in_paper else [f"the paper has no {entry.name}"],
        kept={"questions": len(rows), "articles": len(articles)},
        left_out=left_out,
        split=SPLIT,
        options={"language": language},
    )
    return rows, record


def read_articles(path: Path, left_out: Counter[str]) -> tuple[list[dict[str, Any]], int]:
    """Articles with their questions, from a public CSV file of any of its forms, and how many rows the file has. Rows
    that are left out are counted. A CorruptSource where it has no column of references or of questions, or is cut.

    An article has a reference and a question: ``row`` (number in the file), ``title``, ``category``, ``url``,
    ``reference``, ``queries`` (pairs of 1 or 2 and a question).
    """
    articles = []
    header, *rows = read_csv(path)
    if not any(map(_QUERY.fullmatch, header)) or not any(map(_REFERENCE.fullmatch, header)):
        raise sources.CorruptSource(f"{path}: the header has no columns of references and queries: {list(header)}")
    for number, row in enumerate(rows):
        reference = "\n".join(
            text.strip() for key, text in row.items() if _REFERENCE.fullmatch(key) and text and text.strip()
        )
        if not reference:
            left_out["articles left out, without a reference"] += 1
            continue
        queries = _queries(row, left_out)
        if not queries:
            left_out["articles left out, without a question"] += 1
            continue
        articles.append(
            {
                "row": number,
                "title": row.get("article title") or row.get("title") or "",
                "category": row.get("category") or "",
                "url": row.get("url") or "",
                "reference": reference,
                "queries": queries,
            }
        )
    return articles, len(rows)


def _queries(row: Mapping[str, str], left_out: Counter[str]) -> list[tuple[int, str]]:
    texts = {int(match[1]): row[key] or "" for key in row if (match := _QUERY.fullmatch(key))}
    numbers = {at: int(match[1]) for at, text in texts.items() if (match := _NUMBERED.match(text))}
    # "1. FC Köln ..." may open a question: a number counts as numbering where every question of the row has its own.
    numbered = bool(numbers) and all(numbers.get(at) == at for at, text in texts.items() if text.strip())
    queries = []
    for at, text in sorted(texts.items()):
        text = (_NUMBERED.sub("", text, count=1) if numbered else text).strip()
        if text:
            queries.append((at, text))
        else:
            left_out[EMPTY] += 1
    return queries
