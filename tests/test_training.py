"""Detectors trained on tiny models made here: a recipe to its end, what it leaves behind, and what goes wrong."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("peft")

import torch
import transformers
import yaml

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION
from detector_plugin import calibration as calibrations
from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import load_detector
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.inputs import Encoder
from detector_plugin.transformers.training.data import GIVEN_UP, IGNORED, examples_of, read
from detector_plugin.transformers.training.measuring import measure
from lm_eval_tasks.cli import main
from lm_eval_tasks.detection.calibrated import calibration_of
from lm_eval_tasks.detection.labelled_answers import read_labelled_lines
from tests.labelled_facts import facts, write_lines
from tests.miniature import MINIATURE
from tests.tiny_models import KINDS, write_base

pytestmark = pytest.mark.xdist_group("training")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny matrices: on a busy machine threads that wait for each other take most of the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A BERT, a ModernBERT and a Llama of random weights."""
    folder = tmp_path_factory.mktemp("bases")
    return {kind: write_base(folder / kind, kind) for kind in KINDS}


def train(base: Path, data: Path | str, output: Path, options: str) -> int:
    """Run the command in this process."""
    command = ["train", "--base", str(base), "--data", str(data), "-o", str(output)]
    return main([*command, "--mirror", MINIATURE, "--disable_tqdm", "true", *options.split()])


def sees_what_follows(detector: TransformersDetector) -> bool:
    """Whether an answer's first token is read otherwise where its last one is another."""
    answers = ["Der Mond ist alt und rot", "Der Mond ist alt und blau"]
    one, other = detector.token_probabilities(["Der Mond"] * 2, answers, ["de"] * 2)
    return bool(np.abs(one.best[0] - other.best[0]).max() > 1e-6)


QUICK = "--max_length 128 --num_train_epochs 1 --form auto"
BY_HEART = "--held_out 0 --num_train_epochs 60 --learning_rate 1e-2 --max_length 128 --form auto --save_strategy no"


@pytest.mark.parametrize(
    ("kind", "attention", "labels"),
    [
        *(("llama", "bidirectional", "binary"), ("llama", "causal", "category")),
        *(("bert", "bidirectional", "category"), ("modernbert", "bidirectional", "binary")),
    ],
)
@pytest.mark.slow("trains four models")
def test_twenty_documents_are_learned_by_heart(
    tmp_path: Path, bases: dict[str, Path], kind: str, attention: str, labels: str
) -> None:
    """That labels, offsets and masks are right, in training as in detection: any slip would show as an error."""
    data = write_lines(tmp_path / "facts.jsonl", facts())
    options = f"{BY_HEART} --per_device_train_batch_size 5 --attention {attention} --labels {labels}"
    assert train(bases[kind], data, tmp_path / "d", options) == 0
    detector = TransformersDetector(str(tmp_path / "d"))
    assert detector.form == ("paper" if kind == "llama" else "pair")
    assert sees_what_follows(detector) == (attention == "bidirectional")
    documents = read_labelled_lines(data, Counter())
    (row,) = measure(detector, documents, "")
    assert row.total.f1 > 0.95
    assert row.iou > 0.95  # to the character
    if labels == "category":
        columns = ([getattr(document, name) for document in documents] for name in ("reference", "answer", "language"))
        spans = detector.detect(*columns)
        same = [found[0].category == d.spans[0].category for found, d in zip(spans, documents, strict=True) if found]
        assert sum(same) >= 19


class Made(NamedTuple):
    folder: Path
    printed: str
    data: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, bases: dict[str, Path]) -> Made:
    """A BERT trained on three languages of which one is left out whole, measured and calibrated."""
    folder = tmp_path_factory.mktemp("made")
    rows = [
        {**row, "answer": row["answer"] + f" ({language})", "reference": f"{language} {row['reference']}"}
        for seed, language in enumerate(("de", "fi", "it"))
        for row in facts(20, language, "real" if language == "it" else "gold", seed)
    ]
    for row in rows:
        row.update(model="org/one", article="", soft=[[*row["spans"][0][:2], 0.75]])
    data = write_lines(folder / "own.jsonl", rows)
    printed = io.StringIO()
    options = "--languages de,fi --without it --synthetic 6 --calibrate"
    torch.set_num_threads(1)
    options += " --num_train_epochs 4 --learning_rate 3e-3"
    with contextlib.redirect_stdout(printed):
        assert train(bases["bert"], f"{data},mushroom", folder / "d", options) == 0
    return Made(folder / "d", printed.getvalue(), data)


def test_the_folder_has_all_that_a_detector_needs(made: Made, tmp_path: Path) -> None:
    assert sorted(path.name for path in made.folder.iterdir()) == [
        *("README.md", "calibration.json", "config.json", "detector.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json", "training.json"),
    ]
    stored = json.loads((made.folder / "detector.json").read_text("utf-8"))
    detector: Any = load_detector(str(made.folder))
    assert (detector.threshold, detector.form, detector.max_length) == (stored["threshold"], "lettucedetect-v2", 1024)
    assert detector.categories == [None, HALLUCINATION]
    assert "threshold" not in detector.version
    assert "threshold=0.99" in load_detector(str(made.folder), threshold=0.99).version
    high = "threshold: 'high' is not a number"
    for content, why in (({"threshold": "high"}, high), ({"form": "pears"}, "'pears' is none of")):
        folder = shutil.copytree(made.folder, tmp_path / why)
        (folder / "detector.json").write_text(json.dumps(content), "utf-8")
        with pytest.raises(UnusableDetector, match=why):
            load_detector(str(folder))
    # Plain transformers load it, too.
    model = transformers.AutoModelForTokenClassification.from_pretrained(made.folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(made.folder)
    assert model.config.id2label == {0: "supported", 1: HALLUCINATION}
    (reading,) = detector.token_probabilities(["Der Mond ist alt."], ["Der Mond ist neu."], ["de"], ["Wie ist er?"])
    prompt = "User request: Wie ist er?\n\nDer Mond ist alt."
    theirs = tokenizer(prompt, "Der Mond ist neu.", return_tensors="pt")
    assert theirs["input_ids"][0].tolist() == reading.pieces[0].encoded.ids.tolist()
    with torch.no_grad():
        p = model(**theirs).logits.softmax(-1)[0].numpy()
    np.testing.assert_allclose(p[reading.pieces[0].encoded.answer], reading.best, atol=1e-5)


def test_the_card_says_what_went_in_and_how_good_it_is(made: Made, bases: dict[str, Path]) -> None:
    _, front, text = (made.folder / "README.md").read_text("utf-8").split("---\n", 2)
    head = yaml.safe_load(front)
    assert (head["pipeline_tag"], head["language"]) == ("token-classification", ["de", "fi"])
    licences = "apache-2.0; own.jsonl: unknown; mushroom: as its dataset card says, contexts Apache-2.0"
    assert head["license_name"] == load_detector(str(made.folder)).licence == f"{bases['bert']}: {licences}"
    for line in (
        "| left out | it | real | 23 |",  # of the file 20, of Mu-SHROOM 3
        "| own.jsonl | 60 | own | unknown |",
        "| mushroom | 9 | Mu-SHROOM (Vázquez et al. 2025)",
    ):
        assert line in text
    used = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    assert (used["recipe"], used["source"]) == ("encoder", "LettuceDetect, docs/EUROBERT.md and arXiv 2502.17125")
    assert used["values"]["trainer"].items() >= {"learning_rate": "3e-3", "seed": 42}.items()
    assert used["not_used"] == {GIVEN_UP: 6}  # of de and fi, about the same two pages
    record = json.loads((made.folder / "training.json").read_text("utf-8"))
    assert record["documents"] == used["documents"]
    made_of = {"learn": 32, "choose": 4, "measure": 4, "left_out": 23, "made_up": 6, "learned_from_cut": 0}
    assert used["documents"] == made_of
    assert record["texts"] == {"learn": 32, "choose": 4, "measure": 4, "left_out": 22}  # Mu-SHROOM asks two pages
    assert record["held_out"][0].keys() == {"part", "language", "annotations", "documents", "tp", "fp", "fn", "tn"}
    assert [round(entry["epoch"]) for entry in record["curve"] if "eval_f1" in entry] == [1, 2, 3, 4]
    assert "| left out | it | real | 23 |" in made.printed


def test_a_calibration_beside_the_detector_corrects_rates(made: Made, harness: Callable[..., dict[str, Any]]) -> None:
    found = calibrations.by_identity(calibration_of(str(made.folder), {}, None))
    detector = load_detector(str(made.folder))
    assert dict(found.detector) == {"name": str(made.folder), "version": detector.version, "licence": detector.licence}
    italian = found.languages["it"]["real"]
    assert italian.documents is not None
    assert len(italian.documents) == 23
    documents = [d for d in read_labelled_lines(made.data, Counter()) if d.language == "it"]
    (row,) = measure(detector, documents, "")
    assert row.counts.tolist() == italian.documents[:20].tolist()
    metadata = {"mirror": MINIATURE, "detector": str(made.folder)}
    results = harness(["mfava_de", "mfava_it"], "grounded-baseline", "strategy=lexical", metadata=metadata)
    for task, is_calibrated in (("mfava_de", False), ("mfava_it", True)):  # there are two German answers: too few
        provenance = results["configs"][task]["metadata"]["provenance"]
        assert provenance["detector"]["version"] == detector.version
        figures = results["configs"][task]["metadata"]["figures"]["answer"]
        assert ("estimated_rate" in figures) is is_calibrated  # of nine answers it is not measurable
        assert "detected_rate,answer" in results["results"][task]


def test_nothing_is_trained_over(made: Made, bases: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert train(bases["bert"], made.data, made.folder, QUICK) == 2
    assert "holds files already (README.md); name another folder with -o" in capsys.readouterr().err


@pytest.mark.slow("trains an adapter with each of two seeds")
def test_the_papers_recipe_leaves_an_adapter_by_seed(tmp_path: Path, bases: dict[str, Path]) -> None:
    data = write_lines(tmp_path / "facts.jsonl", facts())
    options = "--recipe paper-multi --labels category --quantization none --bf16 false --max_length 128"
    options += " --learning_rate 1e-2 --per_device_train_batch_size 4 --gradient_accumulation_steps 1 --seed"
    readings = []
    for seed in ("42", "47"):
        folder = tmp_path / seed
        assert train(bases["llama"], data, folder, f"{options} {seed}") == 0
        assert sorted(path.name for path in folder.iterdir()) == [
            *("README.md", "adapter_config.json", "adapter_model.safetensors", "detector.json"),
            *("tokenizer.json", "tokenizer_config.json", "training.json"),
        ]
        adapter = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        assert (adapter["r"], adapter["lora_alpha"], adapter["lora_dropout"]) == (32, 32, 0.05)
        assert {*adapter["target_modules"]} == {f"{name}_proj" for name in "q k v o gate up down".split()}
        detector = TransformersDetector(str(folder))
        assert detector.categories == [None, *CATEGORIES]
        assert sees_what_follows(detector)
        (reading,) = detector.token_probabilities(["Der Mond ist alt."], ["Der Mond ist neu."], ["de"])
        readings.append(reading.best)
        encoded = reading.pieces[0].encoded
        plain = transformers.AutoModelForTokenClassification.from_pretrained(folder, num_labels=7).eval()
        both_ways = torch.zeros(1, 1, len(encoded.ids), len(encoded.ids))
        with torch.no_grad():
            logits = plain(input_ids=torch.tensor(encoded.ids[None]), attention_mask=both_ways).logits
        np.testing.assert_allclose(logits.softmax(-1)[0].numpy()[encoded.answer], reading.best, atol=1e-5)
    assert np.abs(readings[0] - readings[1]).max() > 1e-3


Attempt = Callable[..., tuple[Path, str]]
WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")


@pytest.fixture
def attempt(tmp_path: Path, bases: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> Attempt:
    """Trains the BERT on some rows: the detector's folder, and what the command says on standard error."""

    def tried(options: str, rows: list[dict[str, Any]] | None = None, status: int = 2) -> tuple[Path, str]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        data = write_lines(tmp_path / f"{folder.name}.jsonl", rows or facts(6))
        assert train(bases["bert"], data, folder, options) == status
        return folder, capsys.readouterr().err

    return tried


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--learning_rat 1", "no option --learning_rat of train, of the recipe or of transformers' Trainer; did you"),
        ("--held_out -1", "--held_out is a share of the texts, from 0 to 0.9, got -1"),
        ("--synthetic -3", "--synthetic -3: a number of documents, from 0 on"),
        ("--labels hf_AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH", "argument --labels: invalid choice: '<secret>'"),
        ("--output_dir elsewhere", "--output_dir: the folder of the new detector is named with -o"),
        ("--attention causal", "--attention causal is for decoders"),
        ("--quantization 4bit", "--quantization 4bit needs --adapter lora"),
        ("--max_length 20", "reference and answer need more room"),
        ("--report_to no-such", "transformers' Trainer cannot start: ValueError: no-such is not supp"),
        ("--calibrate --held_out 0", "--calibrate: nothing is held out or left out to be measured"),
        ("--without de", "is left to learn from without de"),
        ("--base org/no-such-model", "base model org/no-such-model"),
        pytest.param("--adapter lora --quantization 4bit", "it cannot be loaded: ", marks=WITHOUT_GPU),
    ],
)
def test_what_cannot_be_done_is_said(attempt: Attempt, options: str, why: str) -> None:
    _, error = attempt(f"--form lettucedetect {options}")
    assert why in error
    assert "Traceback" not in error


def test_documents_that_are_too_long_are_cut_and_counted(
    tmp_path: Path, bases: dict[str, Path], attempt: Attempt, caplog: pytest.LogCaptureFixture
) -> None:
    rows = facts(6)
    rows[0]["reference"] += " Der Turm ist alt." * 50
    rows[1]["answer"] += " Der Turm ist alt." * 50
    tokenizer = transformers.AutoTokenizer.from_pretrained(bases["bert"])
    documents = read_labelled_lines(write_lines(tmp_path / "long.jsonl", rows), Counter())
    far = replace(documents[1], answer="Der Mond ist rot.", reference="Der Turm war alt. " * 60 + "Der Mond ist rot.")
    encoder, recipe = Encoder(tokenizer, "pair", 128), read("encoder")
    (example,) = examples_of([far], encoder, 128, recipe).all
    assert len(example.ids) <= 128
    assert tokenizer.decode(example.ids).count("Der Mond ist rot.") == 2  # the end of the reference, and the answer
    assert examples_of(documents, encoder, 128, recipe).cut == 2
    several = examples_of([documents[1]], encoder, 128, recipe).all
    offsets = encoder.encode(documents[1].reference, documents[1].answer, "", "de").offsets
    in_words = sum(bool(documents[1].answer[start:end].strip()) for start, end in offsets)
    assert len(several) > 1
    assert sum(int((example.labels != IGNORED).sum()) for example in several) == in_words  # each token once
    caplog.set_level(logging.INFO, "lm_eval")
    attempt(f"--held_out 0 {QUICK}", rows, status=0)
    assert re.search(r"\d+ examples of 6 answers to learn from \(2 longer than 128 tokens, cut\)", caplog.text)


def test_a_class_that_never_occurs(attempt: Attempt, caplog: pytest.LogCaptureFixture) -> None:
    attempt(f"{QUICK} --labels category --held_out 0", status=0)
    assert "never in the labelled answers, so that the detector will not find it: unverifiable, subj" in caplog.text
    _, error = attempt(QUICK, [{**row, "spans": []} for row in facts(6)])
    assert "no token of the labelled answers is hallucinated: there is nothing to tell apart" in error


def test_a_loss_that_is_no_number_ends_the_training(attempt: Attempt) -> None:
    folder, said = attempt(f"{QUICK} --num_train_epochs 9 --learning_rate 1e30")
    assert re.search(r"the loss is nan at step \d+ \(learning rate .* Try a smaller --learning_rate", said)
    assert not (folder / "model.safetensors").exists()


@pytest.mark.slow("trains a tiny model with smaller and smaller batches")
def test_memory_that_runs_out_makes_batches_smaller(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU here to run out of memory: the model says so from three inputs at once on."""
    forward = transformers.BertForTokenClassification.forward

    def small_forward(self: Any, input_ids: Any = None, **inputs: Any) -> Any:
        if len(input_ids) > most and self.training:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")
        return forward(self, input_ids=input_ids, **inputs)

    monkeypatch.setattr(transformers.BertForTokenClassification, "forward", small_forward)
    most = 2
    attempt(f"--held_out 0 {QUICK}", status=0)
    most = 0
    _, error = attempt(f"--held_out 0 {QUICK}")
    assert "the training ended at step 0: RuntimeError: No executable batch size found" in error
    assert "Is there memory for an example of 128 tokens" in error
