"""Runs for the tests of reports and comparisons: two models on the bundled sample, made once a session; hostile runs, and
one of the size that a report must bear."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.mfava.dataset import LANGUAGES
from tests.changed_runs import change_results
from tests.conftest import command, run
from tests.logged_runs import files_of, lines, only_predicted, replay
from tests.miniature import MINIATURE
from tests.shared_once import SharedOnce

Row = dict[str, Any]

TASKS = ("nomiracl", "clapnq_gold", "clapnq_rag", "mfava_de", "mfava_ar")
MODELS = ("lexical", "answer")


@pytest.fixture(scope="session")
def two_models(shared_once: SharedOnce) -> Path:
    """A folder with the runs of ``baseline-lexical`` and ``baseline-answer``, a folder each. Nobody writes into it."""
    return shared_once("two_models", _make)


@pytest.fixture(scope="session")
def closed_book(shared_once: SharedOnce) -> Path:
    """The run of ``sample/closed-book`` on ``mfava_de`` and ``mfava_zh``: words of its answers are flagged."""
    return files_of(shared_once("mfava in one step", lambda folder: replay(folder / "out")))


@pytest.fixture(scope="session")
def predicted(shared_once: SharedOnce) -> Path:
    """The same answers, logged and not yet tagged. Nobody writes into it."""
    return only_predicted(shared_once)


def _make(folder: Path) -> None:
    for strategy in MODELS:
        done = run(
            [
                *(command("lm_eval"), "--model", "grounded-baseline", "--model_args", f"strategy={strategy}"),
                *(
                    *("--tasks", ",".join(TASKS), "--metadata", f"mirror={MINIATURE}", "--output_path", "."),
                    "--log_samples",
                ),
            ],
            folder,
        )
        (folder / f"baseline-{strategy}" / "printed.txt").write_text(done.stdout, "utf-8")


HOSTILE = {
    "script": "</script><script>window.pwned = 1</script>",
    "style": "</style><style>body { display: none }</style>",
    "handler": '<img src="x" onerror="window.pwned = 1">',
    "svg": "<svg onload=window.pwned=1><script>window.pwned=1</script></svg>",
    "attribute": '" onmouseover="window.pwned = 1" style="position: fixed',
    "quote": "' autofocus onfocus='window.pwned = 1",
    "link": "[click](javascript:window.pwned=1) <a href='javascript:window.pwned=1'>click</a>",
    "comment": "<!-- <!doctype html> --> ]]> <![CDATA[ <?php",
    "closing": "</details></section></main></body></html>",
    "template": "{{ 7 * 7 }} {% include '/etc/passwd' %} {# #} ${7*7} #{7*7}",
    "entity": "&lt;b&gt; &amp;nbsp; &#x3C;script&#x3E;",
    "frame": "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe><base href='https://example.invalid/'>",
    "refresh": '<meta http-equiv="refresh" content="0; url=https://example.invalid/">',
    "controls": "null \x00 bell \x07 escape \x1b[31m delete \x7f c1 \x85\x9b",
    "override": "\u202eright to left\u202d \u2066isolate without an end \u202b embedding without an end",
    "surrogate": "half \ud83d of a pair",
    "noncharacter": "\uffff \ufffe \ufdd0",
    "zalgo": "Z" + "\u0301\u0322\u0489" * 400,
    "long word": "a" * 3_000,
    "megabyte": "word " * 200_000,
    "empty": "",
    "white": " \n\t\u3000",
}
"""Answers that a page must show as text, or as what is left of it."""

ADDRESSES = (
    "javascript:window.pwned=1",
    "data:text/html,<script>parent.pwned=1</script>",
    "https://ok.example/a?b=1&c=2",
)


def changed(folder: Path, change: Callable[[Path, int, Row], Row]) -> None:
    """Rewrite every sample below a folder: `change` gets its file, its document's number, and the row."""
    for path in folder.rglob("samples_*.jsonl"):
        text = "".join(json.dumps(change(path, row["doc_id"], row)) + "\n" for row in lines(path))
        path.write_text(text, "utf-8")


@pytest.fixture(scope="session")
def hostile_runs(two_models: Path, shared_once: SharedOnce) -> Path:
    """The runs of ``two_models`` with :data:`HOSTILE` answers, questions, passages, titles, addresses, and model name."""

    def hostile(results: Row) -> None:
        results["model_name"] = f"evil/{HOSTILE['handler']}"
        for config in results["configs"].values():
            config["metadata"]["command_line"] = shlex.join(["lm_eval", "--model_args", HOSTILE["script"]])

    def make(folder: Path) -> None:
        shutil.copytree(two_models, folder, dirs_exist_ok=True)
        changed(folder, _hostile)
        change_results(folder / "baseline-lexical", hostile)

    return shared_once("hostile_runs", make)


def _hostile(path: Path, number: int, row: Row) -> Row:
    texts = list(HOSTILE.values())
    offset = sum(map(ord, path.name.partition("_2")[0]))
    text = texts[(number + offset) % len(texts)]
    other = texts[(number + offset + 1) % (len(texts) - 4)]  # short enough for a prompt
    row["resps"] = [[text]]
    doc = row["doc"]
    if isinstance(row["filtered_resps"][0], str) and row["filtered_resps"][0].startswith("{"):
        found = json.loads(row["filtered_resps"][0])
        wide = {"start": 2, "end": 10**9, "category": '"><script>'}
        spans = [[0, 5, other], wide, [3, -1, "x"], "no span", [None] * 3]
        row["filtered_resps"] = [json.dumps({**found, "answer": text, "spans": spans})]
        row["detected_rate"] = 0.5
    elif "subset" not in doc or "label" not in doc:
        row["filtered_resps"] = [text]
    for column in ("query", "question", "title", "reference"):
        if column in doc:
            doc[column] = other
    if "url" in doc:
        doc["url"] = ADDRESSES[number % len(ADDRESSES)]
    for passage in doc.get("passages") or ():
        passage |= {"title": other, "text": text[:10_000]}
    if doc.get("answers"):
        doc["answers"] = [text[:10_000]]
    arguments = row["arguments"]["gen_args_0"]
    arguments["arg_0"] = arguments["arg_0"].replace("[1] ", f"[1] {other}: {text[:10_000]} ", 1)
    return row


@pytest.fixture(scope="session")
def big_runs(two_models: Path, shared_once: SharedOnce) -> Path:
    """Three models on NoMIRACL's 18 languages, both CLAPnq settings and mFAVA's 30, with texts of the real ones' length."""

    def make(folder: Path) -> None:
        for name in ("one", "two", "three"):
            source = two_models / ("baseline-answer" if name == "two" else "baseline-lexical")
            _enlarged(Path(shutil.copytree(source, folder / name)), name)

    return shared_once("big_runs", make)


PASSAGE, PAGE, ANSWER = 700, 3_000, 900
"""Characters of real texts: of passages on average, of pages in the longer languages (Turkish, Finnish)."""


def _enlarged(folder: Path, name: str) -> None:
    def of_all_languages(results: Row) -> None:
        results["model_name"] = f"maker/model-{name}"
        german = results["configs"]["mfava_de"]
        for code in LANGUAGES:
            results["configs"][f"mfava_{code}"] = {**german, "task": f"mfava_{code}"}
            for part in ("results", "versions", "n-shot", "n-samples"):
                results[part][f"mfava_{code}"] = results[part]["mfava_de"]
        results["group_subtasks"]["mfava"] = [f"mfava_{code}" for code in LANGUAGES]

    change_results(folder, of_all_languages)
    (german_samples,) = folder.glob("samples_mfava_de_*.jsonl")
    arabic = next(folder.glob("samples_mfava_ar_*.jsonl"))
    for code in LANGUAGES:
        if code not in ("ar", "de"):
            source = arabic if code in ("fa", "he", "ur") else german_samples
            shutil.copy(source, folder / german_samples.name.replace("mfava_de", f"mfava_{code}"))
    changed(folder, _long)


def _long(path: Path, number: int, row: Row) -> Row:
    doc = row["doc"]
    if "reference" in doc:
        doc["reference"] = _to(doc["reference"], PAGE)
        found = json.loads(row["filtered_resps"][0])
        answer = _to(found["answer"], ANSWER)
        spans = [[at, at + 12, "entity"] for at in range(20, len(answer) - 20, 150)]
        row["resps"] = [[answer]]
        row["filtered_resps"] = [json.dumps({**found, "answer": answer, "spans": spans}, ensure_ascii=False)]
        row["detected_rate"] = number / 10
    for passage in doc.get("passages") or ():
        passage["text"] = _to(passage["text"], PASSAGE)
    arguments = row["arguments"]["gen_args_0"]
    arguments["arg_0"] = re.sub(r"(?m)^\[.*$", lambda passage: _to(passage[0], PASSAGE), arguments["arg_0"])
    return row


def _to(text: str, length: int) -> str:
    return (text + " ") * (length // (len(text) + 1)) + text if text else text
