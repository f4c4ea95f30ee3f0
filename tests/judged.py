"""Runs whose answers are judged, and a judge whose verdicts are written by hand: what the tests of the judge share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.clapnq.judge import load_pairs, load_ratings
from tests.conftest import evaluate
from tests.logged_runs import in_this_process, lines, write_samples
from tests.shared_once import SharedOnce

RATINGS, PAIRS = "clapnq_judge", "clapnq_judge_pairs"
STRATEGIES = ("abstain", "full_passage", "lexical")
ANSWERABLE, UNANSWERABLE = 18, 14  # of the bundled sample's dev questions

Row = dict[str, Any]


@pytest.fixture(scope="session")
def runs(shared_once: SharedOnce) -> Path:
    """Three baselines on both settings, logged as the harness logs; a folder each."""

    def make(folder: Path) -> None:
        for strategy in STRATEGIES:
            tasks = ["clapnq_gold", "clapnq_rag"]
            in_this_process(tasks, "grounded-baseline", f"strategy={strategy}", folder / strategy)
            for path in sorted((folder / strategy).glob("*/*")):
                path.rename(folder / strategy / path.name)

    return shared_once("judged_runs", make)


def file(runs: Path, strategy: str, setting: str = "gold") -> str:
    (path,) = (runs / strategy).glob(f"samples_clapnq_{setting}_*.jsonl")
    return str(path)


def files(runs: Path, *strategies: str, setting: str = "gold") -> list[str]:
    return [file(runs, strategy, setting) for strategy in strategies]


def samples(path: str) -> list[Row]:
    return lines(Path(path))


def sample(id: str, answer: str | None, question: str = "where", passage: str = "Paris is there.", **more: Any) -> Row:
    doc = {"id": id, "question": question, "answerable": True, "answers": ["Paris."]}
    doc["passages"] = [{"id": "p", "title": passage, "text": passage}]
    return {"doc_id": int(id), "doc": {**doc, **more}, "resps": [[answer]], "filter": "answer"}


def write(folder: Path, rows: Sequence[Row | str], task: str = "clapnq_gold", **date: str) -> str:
    content = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    return str(write_samples(folder, content, task, **date))


def rated(**options: Any) -> list[Row]:
    return list(load_ratings(**options)["evaluation"])


def compared(**options: Any) -> list[Row]:
    return list(load_pairs(**options)["evaluation"])


def judge(task: str, say: Callable[[Row], str], metadata: Row, folder: Path, **options: Any) -> Row:
    """The figures of a judge that says this of each document."""
    docs = rated(**metadata) if task == RATINGS else compared(**metadata)
    verdicts = folder / "verdicts.jsonl"
    with verdicts.open("w", encoding="utf-8") as stream:
        for doc in docs:
            stream.write(json.dumps({"id": doc["query_id"], "task": task, "response": say(doc)}) + "\n")
    results = evaluate([task], "replay", f"path={verdicts}", metadata=metadata, **options)
    return {name.partition(",")[0]: value for name, value in results["results"][task].items()} | {"whole": results}


def order(**options: Any) -> list[str]:
    """The questions of a comparison, in the order in which they are asked."""
    return list(dict.fromkeys(doc["id"] for doc in compared(**options)))
