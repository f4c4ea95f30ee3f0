"""The command export, whose prompts are those of the tasks to the letter; and the example that trains a T5 on them."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.export import export_clapnq, export_tasks
from lm_eval_tasks.data.provenance import sidecar_of
from tests.conftest import ROOT, Harness, command, figures_of, results_of, run
from tests.logged_runs import lines
from tests.logged_runs import lines as rows
from tests.miniature import MINIATURE, MINIATURE_FOLDER
from tests.shared_once import SharedOnce
from tests.tiny_models import needed

SAMPLE = MINIATURE_FOLDER


def exported(path: Path, **options: Any) -> list[dict[str, Any]]:
    export_clapnq(path, **{"mirror": MINIATURE, **options})
    return rows(path)


@pytest.mark.parametrize("prompt", ["flan", "gpt", "llama"])
@pytest.mark.parametrize("setting", ["gold", "rag"])
def test_training_prompts_are_the_tasks_prompts(setting: str, prompt: str, harness: Harness, tmp_path: Path) -> None:
    """What the harness sends to a model in an evaluation of the same questions, as text and as chat."""
    task = f"clapnq_{setting}" + {"flan": "", "gpt": "_gpt", "llama": "_llama"}[prompt]
    results = harness([task], "grounded-baseline", "strategy=abstain", metadata={"mirror": MINIATURE})
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
    def written(setting: str, **options: Any) -> dict[str, dict[str, Any]]:
        rows = exported(tmp_path / "x.jsonl", setting=setting, split="dev", columns=["prompt"], **options)
        return {row["id"].split("/")[0]: row for row in rows}

    gold, rag, mixed = written("gold"), written("rag"), written("rag-gold")
    places: Counter[int] = Counter()
    for question, row in mixed.items():
        (right, *_), given, retrieved = (passages(each) for each in (gold[question], row, rag[question]))
        assert len(given) == len(retrieved) == 3
        if row["answerable"]:
            places[given.index(right)] += 1
            others = [passage for passage in retrieved if passage != right][:2]
            assert [passage for passage in given if passage != right] == others  # in the order of retrieval
        else:  # has no gold passage
            assert given == retrieved
    assert (sum(places.values()), set(places)) == (18, {0, 1, 2})
    other = written("rag-gold", seed=5)
    assert written("rag-gold") == mixed != other
    assert other.keys() == mixed.keys()


def test_a_run_file_gives_the_passages_that_it_names(tmp_path: Path) -> None:
    """Any retriever of ours: here the ranking of BM25, written to a file and read back."""
    run = tmp_path / "bm25.run"
    assert main(["retrieve", "--retriever", "bm25", "--split", "train", "--mirror", MINIATURE, "-o", str(run)]) == 0
    arguments = ["--setting", "rag", "--retriever", "run", "--run", str(run), "--mirror", MINIATURE]
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


def test_no_answer_is_left_out_and_gold_places_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, mirror = tmp_path / "train.jsonl", copy_of_sample(tmp_path / "mirror")
    assert main(["export", "clapnq", "--setting", "rag-gold", "--mirror", str(mirror), "-o", str(output)]) == 0
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
    assert (len(found), sum("A text of its own." in row["prompt"] for row in found)) == (15, 1)
    said = json.loads(sidecar_of(output).read_text("utf-8"))
    assert said["export"]["left_out"] == {"answerable, without a gold answer": 1}
    assert said["options"] == {"split": "train", "retriever": "bm25", "top_k": 3}
    questions = ["clapnq_train_answerable.jsonl", "clapnq_train_unanswerable.jsonl"]
    assert [file["path"] for file in said["files"]][:2] == questions
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
    ],
)
def test_a_bad_option_is_refused_and_nothing_is_written(options: dict[str, Any], error: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=error):
        export_clapnq(tmp_path / "x.jsonl", mirror=MINIATURE, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("columns", [["messages"], ["prompt", "completion"]])
def test_columns_are_chosen(columns: list[str], tmp_path: Path) -> None:
    """TRL reads a row with both forms as either; it must be given one."""
    found = exported(tmp_path / "x.jsonl", columns=columns)
    assert {tuple(row) for row in found} == {("id", "answerable", *columns)}


FIRST, SECOND = "2026-01-01T00-00-00.000001", "2026-01-02T00-00-00.000001"
CONFIG = {"dataset_path": "owner/data", "test_split": "test", "metric_list": [{"metric": "accuracy"}]}


def scores(score: Any = 0.5, **more: Any) -> dict[str, Any]:
    return {"alias": "a", "name": "a", "sample_len": 4, "accuracy,none": score, "accuracy_stderr,none": 0.1, **more}


def write(folder: Path, date: str, results: dict[str, Any], **parts: Any) -> Path:
    """A run as the harness leaves it: its results, and samples of each task of which it has a configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [task for task in results if task not in parts.get("groups", {})]
    content = {
        **{"results": results, "group_subtasks": {}, "configs": {task: {**CONFIG, "task": task} for task in tasks}},
        **{"versions": dict.fromkeys(results, 1.0), "config": {}, "model_name": "owner/model", "date": 1.5},
        "higher_is_better": {name: {"accuracy": True} for name in results},
        "n-samples": {task: {"original": 4, "effective": 4} for task in tasks},
        **parts,
    }
    for task in tasks:
        (folder / f"samples_{task}_{date}.jsonl").write_text(json.dumps({"task": task, "date": date}), "utf-8")
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_each_task_and_run_has_its_samples_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for date in (FIRST, SECOND):
        write(tmp_path / "runs" / "model", date, {"clapnq_rag": scores(), "clapnq_rag_bge": scores(0.25)})
    written = export_tasks(tmp_path / "runs", out)
    places = [f"tasks/model/{date}/{task}" for date in (FIRST, SECOND) for task in ("clapnq_rag", "clapnq_rag_bge")]
    assert [path.parent.relative_to(out).as_posix() for path in written] == places
    expected = set()
    for place in places:
        _, _, date, task = place.split("/")
        expected |= {f"{place}/results_{date}.json", f"{place}/samples_{task}_{date}.jsonl"}
        alone = read_json(out / place / f"results_{date}.json")
        for part in ("results", "configs", "versions", "higher_is_better", "n-samples"):
            assert list(alone[part]) == [task]
        assert (alone["model_name"], alone["date"]) == ("owner/model", 1.5)
        assert read_json(out / place / f"samples_{task}_{date}.jsonl") == {"task": task, "date": date}
    assert files(out) == expected
    before = {name: (out / name).read_bytes() for name in expected}
    export_tasks(tmp_path / "runs", out)
    assert {name: (out / name).read_bytes() for name in files(out)} == before


def test_a_group_is_described_by_what_its_tasks_share_and_has_no_samples(tmp_path: Path) -> None:
    results = {"nomiracl_de": scores(), "nomiracl_ru": scores(1.0), "nomiracl": scores(0.75), "all": scores(0.75)}
    subtasks = {"nomiracl": ["nomiracl_de", "nomiracl_ru"], "all": ["nomiracl"]}
    groups = {name: results[name] for name in subtasks}
    write(tmp_path / "model", FIRST, results, groups=groups, group_subtasks=subtasks)
    export_tasks(tmp_path / "model", tmp_path / "out")
    for group in subtasks:
        folder = tmp_path / "out" / "groups" / "model" / FIRST / group
        assert files(folder) == {f"results_{FIRST}.json"}
        alone = read_json(folder / f"results_{FIRST}.json")
        assert alone["results"] == alone["groups"] == {group: results[group]}
        assert alone["configs"] == {group: CONFIG}
    of_tasks = tmp_path / "out" / "tasks" / "model" / FIRST
    assert {path.name for path in of_tasks.iterdir()} == {"nomiracl_de", "nomiracl_ru"}


def test_what_has_no_score_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "model", FIRST, {"mfava_de": {"alias": "a", "bypass,answer": 999, "bypass_stderr,answer": "N/A"}})
    with pytest.raises(FileNotFoundError, match=r"model: no score in its results \(--predict_only\?\)$"):
        export_tasks(tmp_path / "model", tmp_path / "out")
    write(tmp_path / "model", SECOND, {"mfava_de": scores(), "undefined": scores("N/A")})
    (written,) = export_tasks(tmp_path / "model", tmp_path / "out")
    assert written.parent.relative_to(tmp_path / "out").as_posix() == f"tasks/model/{SECOND}/mfava_de"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"results": {"a": {"accuracy,none": NaN}}, "configs": {}, "config": {}}', "it holds NaN, which is no JSON"),
        ('{"results": {"../x": {"m,none": 1}}, "configs": {"../x": {}}, "config": {}}', "no name of a task"),
        ("{", "Expecting property name"),
    ],
)
def test_a_file_that_is_no_results_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    path, out = tmp_path / f"results_{FIRST}.json", tmp_path.with_name(f"{tmp_path.name}-out")
    path.write_text(content, "utf-8")
    assert main(["export", "tasks", str(tmp_path), "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert (error.startswith(f"lm-eval-grounded: {path}"), said in error, out.exists()) == (True, True, False)


def test_what_is_written_lies_beside_results_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path.with_name("out")
    assert main(["export", "tasks", str(tmp_path), "-o", str(out)]) == 2
    assert capsys.readouterr().err == f"lm-eval-grounded: {tmp_path}: no results file (results_<date>.json)\n"
    write(tmp_path / "model", FIRST, {"clapnq_rag": scores()})
    for into in (tmp_path, tmp_path / "model" / "separated"):
        assert main(["export", "tasks", str(tmp_path), "-o", str(into)]) == 2
        said = f"lm-eval-grounded: {into}: lies in {tmp_path}; name a folder beside it (-o)\n"
        assert capsys.readouterr().err == said


EXAMPLE = ROOT / "examples" / "clapnq_t5.py"
PASSAGES = MINIATURE_FOLDER / "PrimeQA" / "clapnq_passages" / "passages.tsv"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Several gain nothing on a model of this size, and lose much where other tests run."""


def write_t5(folder: Path) -> Path:
    """A T5 of random weights with a tokenizer of the sample's passages; the same files every time."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    core = Tokenizer(models.Unigram())
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=1500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    core.train_from_iterator([*PASSAGES.read_text("utf-8").splitlines(), 'unanswerable "unanswerable". user:'], trainer)
    core.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=2048
    )
    torch.manual_seed(0)
    config = transformers.T5Config(
        **{"vocab_size": len(tokenizer), "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2},
        **{"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1, "dropout_rate": 0.0},
        feed_forward_proj="gated-gelu",  # as FLAN-T5
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained(shared_once: SharedOnce) -> Path:
    """Six epochs on the sample's train split and one example with a passage that is too long."""
    needed("torch", "transformers", "accelerate")

    def make(folder: Path) -> None:
        write_t5(folder / "base")
        for split in ("train", "dev"):
            options = ["--split", split, "--mirror", MINIATURE, "-o", f"{split}.jsonl"]
            run([command("lm-eval-grounded"), "export", "clapnq", *options], folder)
        with (folder / "train.jsonl").open("a", encoding="utf-8") as stream:
            long = lines(folder / "dev.jsonl")[0]
            stream.write(json.dumps({**long, "prompt": "Venice " * 500 + long["prompt"]}) + "\n")
        options = ["--base", "base", "-o", "model", "--batch", "8", "--lr", "1e-2"]
        data = ["--train", "train.jsonl", "--dev", "dev.jsonl"]
        done = run([sys.executable, str(EXAMPLE), *data, *options], folder, **ONE_THREAD)
        (folder / "printed.txt").write_text(done.stdout, "utf-8")

    return shared_once("clapnq t5", make)


@pytest.mark.slow("trains a model for six epochs, loads torch three times")
def test_the_example_learns_and_the_harness_evaluates_what_it_made(trained: Path, tmp_path: Path) -> None:
    text = EXAMPLE.read_text("utf-8")
    assert (len(text.splitlines()) < 100, "lm_eval_tasks" in text) == (True, False)
    printed = (trained / "printed.txt").read_text("utf-8")
    assert "train: 17 examples, 1 with a passage that was cut" in printed
    assert "dev: 32 examples, 0 with a passage that was cut" in printed
    after_epochs = epochs(printed)
    (kept,) = (float(loss) for loss in re.findall(r"^model: loss on dev ([\d.]+)$", printed, re.MULTILINE))
    assert len(after_epochs) == 6  # the paper's number, which is the default
    assert kept == pytest.approx(min(after_epochs), abs=1e-3)  # the best epoch; the log rounds
    assert kept < math.log(1500)  # that of guessing among the tokens
    harness = ["--model", "hf", "--model_args", f"pretrained={trained / 'model'}", "--device", "cpu"]
    options = ["--tasks", "clapnq_gold", "--metadata", f"mirror={MINIATURE}", "--batch_size", "8"]
    logging = ["--output_path", "out", "--log_samples", "--gen_kwargs", "max_gen_toks=16"]
    run([command("lm_eval"), *harness, *options, *logging], tmp_path, **ONE_THREAD)
    results = results_of(tmp_path)
    assert results["n-samples"]["clapnq_gold"] == {"original": 32, "effective": 32}
    assert 0 <= figures_of(results, "clapnq_gold")["rougeL"]["value"] <= 1
    (samples,) = tmp_path.rglob("samples_*.jsonl")
    asked = [sample["arguments"]["gen_args_0"]["arg_0"] for sample in lines(samples)]
    assert asked == [row["prompt"] for row in lines(trained / "dev.jsonl")]  # what it learned to read


@pytest.mark.slow("trains a model twice, once with a kill in the middle")
def test_a_killed_run_goes_on_where_it_was(trained: Path, tmp_path: Path) -> None:
    for split, number in (("train", 6), ("dev", 3)):
        few = lines(trained / f"{split}.jsonl")[:number]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in few), "utf-8")

    def starting(output: str) -> list[str]:
        files = ["--train", "train.jsonl", "--dev", "dev.jsonl", "--base", str(trained / "base"), "-o", output]
        return [sys.executable, str(EXAMPLE), *files, "--epochs", "8", "--batch", "3", "--lr", "1e-2"]

    whole = run(starting("whole"), tmp_path, **ONE_THREAD).stdout
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(starting("killed"), cwd=tmp_path, env={**os.environ, **ONE_THREAD}, **quiet)
    try:
        while process.poll() is None and not list(tmp_path.glob("killed/checkpoint-*/trainer_state.json")):
            time.sleep(0.05)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL  # it was not done
    (tmp_path / "killed" / "checkpoint-1000").mkdir()  # one that was being written
    rest = run(starting("killed"), tmp_path, **ONE_THREAD).stdout
    assert 0 < len(epochs(rest)) < len(epochs(whole)) == 8
    assert epochs(rest) == pytest.approx(epochs(whole)[-len(epochs(rest)) :], abs=1e-3)


def epochs(printed: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"'eval_loss': '?([\d.]+)", printed)]
