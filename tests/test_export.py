"""The command export: training prompts are those of the tasks to the letter, and the gold passage has a random place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.export import export_clapnq
from lm_eval_tasks.data.provenance import sidecar_of
from lm_eval_tasks.data.sources import CorruptSource
from tests.logged_runs import lines as rows

Harness = Callable[..., dict[str, Any]]
SAMPLE = Path(__file__).parents[1] / "lm_eval_tasks" / "sample"


def exported(path: Path, **options: Any) -> list[dict[str, Any]]:
    export_clapnq(path, **{"mirror": "sample", **options})
    return rows(path)


@pytest.mark.parametrize("prompt", ["flan", "gpt", "llama"])
@pytest.mark.parametrize("setting", ["gold", "rag"])
def test_training_prompts_are_the_tasks_prompts(setting: str, prompt: str, harness: Harness, tmp_path: Path) -> None:
    """What the harness sends to a model in an evaluation of the same questions, as text and as chat."""
    task = f"clapnq_{setting}" + {"flan": "", "gpt": "_gpt", "llama": "_llama"}[prompt]
    results = harness(
        [task],
        "grounded-baseline",
        "strategy=abstain",
        metadata={"mirror": "sample"},
        log_samples=True,
        bootstrap_iters=0,
    )
    sent = {sample["doc"]["id"]: sample for sample in results["samples"][task]}
    found = exported(tmp_path / "dev.jsonl", split="dev", setting=setting, prompt=prompt)
    assert len(found) == len(sent) == 32
    for row in found:
        sample = sent[row["id"].removesuffix(f"/{setting}")]
        assert row["prompt"] == sample["arguments"][0][0]
        assert row["completion"] == f" {sample['target']}"
        assert row["answerable"] is sample["doc"]["answerable"]
        *asked, answer = row["messages"]
        assert answer == {"role": "assistant", "content": sample["target"]}
        assert [turn["role"] for turn in asked] == (["user"] if prompt == "flan" else ["system", "user"])
        said = "\n\n".join(turn["content"] for turn in asked)
        assert row["prompt"].startswith(said)
        assert row["prompt"][len(said) :] in ("", "\nagent:", "\n[answer]:")  # the cue is in plain text only


def passages(row: dict[str, Any]) -> list[str]:
    text, _, _ = row["prompt"].partition(" Please answer a question about this article.")
    return text.split("\n\n")


def test_the_gold_passage_is_among_the_others_at_a_random_place(tmp_path: Path) -> None:
    options = {"split": "dev", "columns": ["prompt"]}
    gold = {row["id"].split("/")[0]: passages(row)[0] for row in exported(tmp_path / "gold.jsonl", **options)}
    rag = {row["id"].split("/")[0]: row for row in exported(tmp_path / "rag.jsonl", setting="rag", **options)}
    mixed = exported(tmp_path / "mixed.jsonl", setting="rag-gold", **options)
    places: Counter[int] = Counter()
    for row in mixed:
        question = row["id"].removesuffix("/rag-gold")
        given, retrieved = passages(row), passages(rag[question])
        assert len(given) == len(retrieved) == 3
        if row["answerable"]:
            places[given.index(gold[question])] += 1
            others = [passage for passage in retrieved if passage != gold[question]][:2]
            assert [passage for passage in given if passage != gold[question]] == others  # in the order of retrieval
        else:  # has no gold passage
            assert given == retrieved
    assert sum(places.values()) == 18
    assert set(places) == {0, 1, 2}
    again = exported(tmp_path / "again.jsonl", setting="rag-gold", **options)
    other = exported(tmp_path / "other.jsonl", setting="rag-gold", seed=5, **options)
    assert again == mixed
    assert {row["id"] for row in other} == {row["id"] for row in mixed}
    assert other != mixed


def test_a_run_file_gives_the_passages_that_it_names(tmp_path: Path) -> None:
    """Any retriever of ours: here the ranking of BM25, written to a file and read back."""
    run = tmp_path / "bm25.run"
    assert main(["retrieve", "--retriever", "bm25", "--split", "train", "--mirror", "sample", "-o", str(run)]) == 0
    arguments = ["--setting", "rag", "--retriever", "run", "--run", str(run), "--mirror", "sample"]
    assert main(["export", "clapnq", *arguments, "-o", str(tmp_path / "run.jsonl")]) == 0
    assert rows(tmp_path / "run.jsonl") == exported(tmp_path / "bm25.jsonl", setting="rag")
    said = json.loads(sidecar_of(tmp_path / "run.jsonl").read_text("utf-8"))
    assert [(file["option"], file["name"]) for file in said["local_files"]] == [("run", "bm25.run")]


def copy_of_sample(folder: Path) -> Path:
    """A mirror with the train split, in which a gold passage is in no corpus and an answerable question has no answer."""
    for name in ("PrimeQA/clapnq", "PrimeQA/clapnq_passages", "github/primeqa/clapnq/retrieval/train"):
        for file in (SAMPLE / name).iterdir():
            target = folder / name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    path = folder / "PrimeQA/clapnq/clapnq_train_answerable.jsonl"
    first, second, *others = rows(path)
    first["output"] = [{**first["output"][0], "answer": " "}]
    second["passages"] = [{**second["passages"][0], "text": "A text of its own."}]
    path.write_text("".join(json.dumps(row) + "\n" for row in (first, second, *others)), "utf-8")
    gold = folder / "github/primeqa/clapnq/retrieval/train/question_train_answerable.tsv"
    lines = gold.read_text("utf-8").splitlines(keepends=True)
    gold.write_text("".join(line for line in lines if not line.startswith(second["id"])), "utf-8")
    return folder


def test_what_has_no_answer_is_left_out_and_where_the_gold_passage_was_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = copy_of_sample(tmp_path / "mirror")
    output = tmp_path / "train.jsonl"
    arguments = ["--setting", "rag-gold", "--mirror", str(mirror), "-o", str(output)]
    assert main(["export", "clapnq", *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "9 answerable questions, 6 unanswerable questions",
        "gold passage among the 3 retrieved: 8",
        "gold passage not among the 3 retrieved: 2",
        "gold passage not in the corpus, taken from the annotations: 1",
        "left out, answerable, without a gold answer: 1",
        str(output),
        str(sidecar_of(output)),
    ]
    found = rows(output)
    assert len(found) == 15
    assert sum("A text of its own." in row["prompt"] for row in found) == 1
    said = json.loads(sidecar_of(output).read_text("utf-8"))
    assert said["export"]["left_out"] == {"answerable, without a gold answer": 1}
    assert said["retrieval"]["retriever"] == "bm25"
    assert said["options"] == {"split": "train", "retriever": "bm25", "top_k": 3}
    assert [file["path"] for file in said["files"]][:2] == [
        f"clapnq_train_{kind}.jsonl" for kind in ("answerable", "unanswerable")
    ]
    assert str(tmp_path) not in sidecar_of(output).read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"split": "test"}, "unknown split 'test'; known are dev, train, validation"),
        ({"columns": ["prompts"]}, "unknown column 'prompts'"),
        ({"setting": "rag", "retriever": "bm52"}, "unknown retriever 'bm52'"),
        ({"retriever": "bm25"}, "the setting gold has no retriever"),
        ({"setting": "rag", "options": {"run": "x.run"}}, "option run is for run, not for bm25"),
        ({"setting": "rag", "top_k": 61}, "top_k=61 is larger than the corpus"),
        ({"setting": "rag", "top_k": 0}, "top_k must be a whole number of at least 1"),
    ],
)
def test_a_bad_option_is_refused_and_nothing_is_written(options: dict[str, Any], error: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=error):
        export_clapnq(tmp_path / "x.jsonl", mirror="sample", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_leaves_the_earlier_export(tmp_path: Path) -> None:
    output = tmp_path / "train.jsonl"
    exported(output)
    before = output.read_bytes(), sidecar_of(output).read_bytes()
    mirror = copy_of_sample(tmp_path / "mirror")
    with (mirror / "PrimeQA/clapnq/clapnq_train_answerable.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "cut')
    with pytest.raises(CorruptSource, match="line 11: no JSON"):
        export_clapnq(output, mirror=str(mirror))
    assert (output.read_bytes(), sidecar_of(output).read_bytes()) == before


@pytest.mark.parametrize("columns", [["messages"], ["prompt", "completion"]])
def test_columns_are_chosen(columns: list[str], tmp_path: Path) -> None:
    """TRL reads a row with both forms as either; it must be given one."""
    found = exported(tmp_path / "x.jsonl", columns=columns)
    assert {tuple(row) for row in found} == {("id", "answerable", *columns)}
