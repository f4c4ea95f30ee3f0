"""Runs whose answers people mark: samples files written by hand, and files of marks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.words import words
from custom_metrics.statistics.marked import Draws, MarkedMean, marked_mean
from lm_eval_tasks.detection.marked import expected_share
from lm_eval_tasks.runs import TaskRun, read_runs
from tests.logged_runs import write_samples

Row = dict[str, Any]
DECLINES = "I do not know."


def mfava_row(number: int, answer: str, spans: Sequence[Any] | None = (), **doc: Any) -> Row:
    """A sample of an answer with a detector's spans; ``None``: no detector has read it."""
    filtered = answer
    if spans is not None:
        detector = {"name": "lexical", "version": "1", "licence": ""}
        filtered = json.dumps({"answer": answer, "spans": [*spans], "detector": detector})
    columns = {"language": "de", "article": number // 2, "query": f"Frage {number}?", "reference": f"Artikel {number}."}
    return _row(number, {"id": f"de_{number // 2}_{number % 2 + 1}", **columns, **doc}, answer, filtered)


def clapnq_row(number: int, answer: str, **doc: Any) -> Row:
    passages = [{"id": "", "title": f"Title {number}", "text": "A passage."}, {"id": "", "title": "", "text": "More."}]
    columns = {"question": f"question {number}", "answerable": number % 2 == 0, "answers": [], "passages": passages}
    return _row(number, {"id": f"q{number}", **columns, **doc}, answer, answer)


def _row(number: int, doc: Mapping[str, Any], answer: str, filtered: str) -> Row:
    row = {"doc_id": number, "doc": doc, "resps": [[answer]], "filtered_resps": [filtered], "filter": "answer"}
    return {**row, "prompt_hash": f"hash {number}", "metrics": []}


def logged_run(folder: Path, rows: Sequence[Row], task: str = "mfava_de") -> Path:
    """A folder with a samples file of the rows."""
    write_samples(folder, "".join(json.dumps(row) + "\n" for row in rows), task)
    return folder


def task_answers(folder: Path, rows: Sequence[Row], task: str = "mfava_de", kind: str = "spans") -> Any:
    """The answers of such a run, for a kind of marks."""
    from lm_eval_tasks.results.marks.draw import TaskAnswers

    (run,) = read_runs([logged_run(folder, rows, task)])
    return TaskAnswers.of(run.model, run.tasks[task], kind)


def first_word(line: Mapping[str, Any]) -> Row:
    """What an annotator who marks the first word of every answer says."""
    start, end = words(line["answer"], line["language"])[0]
    return {"spans": [[start, end, "hallucination"]], "cannot_tell": False}


def annotated(
    folder: Path,
    runs: Sequence[Path],
    say: Callable[[Mapping[str, Any]], Mapping[str, Any]] = first_word,
    kind: str = "spans",
    number: int = 7,
    task: str = "mfava_de",
    annotator: str = "anna",
) -> Path:
    """A file of what an annotator says of all drawn answers of runs."""
    from lm_eval_tasks.results.marks.draw import TaskAnswers, draw
    from lm_eval_tasks.results.marks.page import page_content

    answers = [TaskAnswers.of(run.model, run.tasks[task], kind) for run in read_runs(runs)]
    content = page_content(answers, draw(answers, number, seed=1))
    rest = {"annotator": annotator, "note": "", "seconds": 30.0, "suggested": False, "cannot_tell": False}
    rows = [{**item["line"], **rest, **say(item["line"])} for item in content["items"]]
    folder.mkdir(exist_ok=True)
    path = folder / f"{kind}_{annotator}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def left_out(rows: Sequence[Row]) -> NDArray[np.float64]:
    """The probability that the draw of a file's lines leaves the answer of each out; 0 where all were drawn."""
    threshold = rows[0]["draw"]["thresholds"][-1]
    return np.exp([-math.inf if threshold is None else -threshold * row["chance"] for row in rows])


def rate_by_hand(task: TaskRun, rows: Sequence[Row]) -> MarkedMean:
    """The rate of answers whose first word was marked, by the lines of a marks file; answers that decline count nothing."""
    language, articles = rows[0]["language"], [row["article"] for row in rows]
    tagged = {answer.doc["id"]: json.loads(answer.readings["answer"].answer) for answer in task.answers()}
    counted = {name: each for name, each in tagged.items() if each["answer"] != DECLINES}
    numbers = {name: len(words(each["answer"], language)) for name, each in counted.items()}
    expected = {name: expected_share(each["answer"], each["spans"], language) for name, each in counted.items()}
    weights = np.array([numbers[row["id"]] for row in rows]) / (1 - left_out(rows))
    return marked_mean(
        Draws.of(weights, None if None in articles else articles, left_out(rows)),
        [1 / numbers[row["id"]] for row in rows],
        [expected[row["id"]] for row in rows],
        sum(expected[name] * numbers[name] for name in counted) / sum(numbers.values()),
    )
