"""The example that fine-tunes a T5 on exported CLAPnq, from the export to the evaluation of what it made."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, command, figures_of, results_of, run
from tests.logged_runs import lines as rows
from tests.miniature import MINIATURE, MINIATURE_FOLDER
from tests.shared_once import SharedOnce
from tests.tiny_models import needed

EXAMPLE = ROOT / "examples" / "clapnq_t5.py"
SAMPLE = MINIATURE_FOLDER / "PrimeQA" / "clapnq_passages" / "passages.tsv"
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
    core.train_from_iterator([*SAMPLE.read_text("utf-8").splitlines(), 'unanswerable "unanswerable". user:'], trainer)
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
            long = rows(folder / "dev.jsonl")[0]
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
    asked = [sample["arguments"]["gen_args_0"]["arg_0"] for sample in rows(samples)]
    assert asked == [row["prompt"] for row in rows(trained / "dev.jsonl")]  # what it learned to read


@pytest.mark.slow("trains a model twice, once with a kill in the middle")
def test_a_killed_run_goes_on_where_it_was(trained: Path, tmp_path: Path) -> None:
    for split, number in (("train", 6), ("dev", 3)):
        few = rows(trained / f"{split}.jsonl")[:number]
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
