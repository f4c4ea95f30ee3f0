"""Where a number comes from, as results files say it: files, digests, options, and what differs from the public data."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks import data as digests
from lm_eval_tasks.clapnq.dataset import load as load_clapnq
from lm_eval_tasks.data import digests_of, provenance, sha256_of, sources
from lm_eval_tasks.mfava.annotations import load as load_detection
from lm_eval_tasks.mfava.dataset import load as load_mfava
from lm_eval_tasks.mushroom.dataset import load as load_mushroom
from lm_eval_tasks.nomiracl.dataset import SUBSETS, published_questions
from lm_eval_tasks.nomiracl.dataset import load as load_nomiracl
from tests.conftest import Harness
from tests.miniature import MINIATURE, MINIATURE_FOLDER, SAMPLE


def record_of(loaded: dict[str, Any]) -> dict[str, Any]:
    return provenance.of_dataset(loaded["evaluation"])


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_digests_are_those_of_sha256_and_of_git(tmp_path: Path) -> None:
    file = tmp_path / "hello.txt"
    file.write_bytes(b"hello\n")
    found = digests_of(file)
    assert found == (
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        "ce013625030ba8dba906f756967f9e9ca394464a",  # echo hello | git hash-object --stdin
        6,
    )
    assert found.matches("git:ce013625030ba8dba906f756967f9e9ca394464a")
    assert found.matches("sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03")
    assert not found.matches("git:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03")


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "passages.tsv"
    file.write_bytes(b"one")
    before = digests._hash_file.cache_info().misses
    first = sha256_of(file)
    assert first == digest(file) == sha256_of(file)
    assert digests._hash_file.cache_info().misses == before + 1
    stamp = file.stat()
    time.sleep(0.02)  # the clock of a file system ticks every few milliseconds
    file.write_bytes(b"two")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # same size, same time of change: as `cp -p` does
    assert sha256_of(file) == digest(file) != first


OF_SAMPLE = {"max_samples": 250, "seed": 42, "max_passage_tokens": 370, "passage_tokenizer": None}
ANNOTATIONS = ["clapnq_dev_answerable.jsonl", "clapnq_dev_unanswerable.jsonl"]

OF_NOMIRACL = [f"{kind}/test.{name}.tsv" for kind in ("topics", "qrels") for name in SUBSETS]
OF_MUSHROOM = [f"data/context/de-{part}_perplexity-sonar-pro/" for part in ("tst.v1", "val.v2")]
OF_MUSHROOM += [f"mushroom.de-{part}.extra.jsonl" for part in ("tst.v1", "val.v2")]

# What each loader says of the miniature: files read, documents kept, options in force.
LOADED: dict[str, tuple[Any, ...]] = {
    "nomiracl": (
        *(lambda mirror: load_nomiracl("de", mirror=mirror), [*OF_NOMIRACL, "corpus.jsonl.gz"]),
        *({"relevant": 4, "non_relevant": 4}, {"language": "de", "split": "test", "subset": "both", **OF_SAMPLE}),
    ),
    "clapnq rag": (
        lambda mirror: load_clapnq("bm25", mirror=mirror, bm25_split=True),
        [*ANNOTATIONS, "passages.tsv", "retrieval/dev/question_dev_answerable.tsv"],
        {"answerable": 18, "unanswerable": 14},
        {"split": "validation", "retriever": "bm25", "top_k": 3, "bm25_split": True},
    ),
    "mfava": (
        *(lambda mirror: load_mfava("de", mirror=mirror), ["german/wiki_references_queries_de.csv"]),
        *({"questions": 9, "articles": 5}, {"language": "de"}),
    ),
    "mfava detection": (
        *(lambda mirror: load_detection("de", mirror=mirror), ["combined_gold_languages.json"]),
        *({"answers": 7}, {"language": "de", "annotations": "gold"}),
    ),
    "mushroom": (
        *(lambda mirror: load_mushroom("de", mirror=mirror), OF_MUSHROOM),
        *({"test": 2, "validation": 1}, {"language": "de", "split": "both"}),
    ),
}


@pytest.mark.parametrize(("load", "files", "kept", "options"), LOADED.values(), ids=LOADED)
def test_a_loader_says_what_it_read_also_from_its_caches(
    load: Callable[[str], dict[str, Any]], files: list[str], kept: dict[str, int], options: dict[str, Any]
) -> None:
    record = record_of(load(MINIATURE))
    assert record["read_from"] == "mirror"
    assert record["not_comparable"]  # of the miniature's files none is the published one
    assert record["kept"] == kept
    assert record["options"] == options
    assert len(record["files"]) == len(files)
    root = MINIATURE_FOLDER
    for entry in record["files"]:
        assert any(entry["path"].endswith(name) for name in files)
        file = sources.source_file(entry["repository"], entry["path"])
        assert (entry["host"], entry["revision"]) == (file.host, file.revision)
        local = root / file.mirror_path
        if not file.is_folder:
            assert (entry["sha256"], entry["bytes"]) == (digest(local), local.stat().st_size)
        assert entry["published"] is (False if file.checksum else None)
    assert record_of(load(MINIATURE)) == record  # in this process, and from what lies on disk


TABLE_9, OTHER = "the paper's Table 9 has 984", "its checksum is another"
SILVER = "datasets/hallucination_detection/silver/Finnish/silver_finnish.json"
REAL = [
    (lambda hub: load_nomiracl("en", mirror=hub), []),
    (lambda hub: load_nomiracl("de", mirror=hub), ["193 of 217 non-relevant questions"]),
    (lambda hub: load_nomiracl("en", mirror=hub, seed=7), []),  # all there are: no sample was drawn
    (lambda hub: load_clapnq(mirror=hub), []),
    (lambda hub: load_clapnq("bm25", mirror=hub), ["the corpus holds 5,494 of 178,891 passages"]),
    (lambda hub: load_mfava("de", mirror=hub), ["the file is not the published one: it has 150 articles; " + TABLE_9]),
    (lambda hub: load_detection("fi", "silver", mirror=hub), [f"{SILVER} is not the published file ({OTHER})"]),
    (lambda hub: load_mushroom("de", mirror=hub), ["test and validation answers, where the shared task ranked test"]),
    (lambda hub: load_mushroom("es", "test", mirror=hub), []),
]


@pytest.mark.parametrize(("load", "reasons"), REAL)
def test_what_makes_a_number_another_than_the_published_one(
    hub: str, load: Callable[[str], dict[str, Any]], reasons: list[str]
) -> None:
    record = record_of(load(hub))
    assert record["read_from"] == "mirror"
    assert record["not_comparable"] == reasons
    assert hub not in json.dumps(record)


def test_the_published_questions_are_at_most_the_papers_sample() -> None:
    table = published_questions()
    assert (table["de"], table["bn"]) == ({"relevant": 250, "non_relevant": 217}, {"non_relevant": 250})
    assert all(0 < number <= 250 for subsets in table.values() for number in subsets.values())


def test_a_task_adds_its_prompt_its_detector_and_its_run(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    provenance._LOGGED.clear()
    with caplog.at_level(logging.WARNING, "lm_eval"):
        tasks = ["nomiracl_de", "nomiracl_fr", "mfava_de", "clapnq_rag"]
        got = harness(tasks, "grounded-baseline", "strategy=lexical", metadata=SAMPLE, limit=2)
    said = {task: config["metadata"]["provenance"] for task, config in got["configs"].items()}
    for task, record in said.items():
        assert record == json.loads(json.dumps(record, allow_nan=False))
        first = got["samples"][task][0]
        assert record["prompt"]["first_prompt_sha256"] == first["prompt_hash"]
        assert record["run"] == {"apply_chat_template": False, "limit": 2, "samples": None}
        assert record["versions"]["lm-eval-grounded"] == provenance.version("lm-eval-grounded")
        limited = f"the first 2 of {got['n-samples'][task]['original']} documents (--limit)"
        assert record["not_comparable"][-1] == limited
        assert "/" not in "".join(map(str, record["options"].values()))
    templates = {task: record["prompt"]["template_sha256"] for task, record in said.items()}
    assert templates["nomiracl_de"] == templates["nomiracl_fr"] != templates["mfava_de"]
    assert said["mfava_de"]["detector"]["name"] == "lexical"
    assert len(said["mfava_de"]["calibration"]["sha256"]) == 64
    assert said["clapnq_rag"]["corpus"]["published"] == 178_891
    assert said["clapnq_rag"]["retrieval"]["retriever"] == "bm25"
    warned = [message for message in caplog.messages if "not comparable" in message]
    assert sorted(message.split(":")[0] for message in warned) == sorted(said)  # each text once


def test_public_data_sets_are_named_as_the_hub_knows_them(harness: Harness) -> None:
    tasks = ["nomiracl_de", "clapnq_gold", "mfava_de"]
    got = harness(tasks, "grounded-baseline", "strategy=abstain", metadata={"mirror": MINIATURE})
    measured = ["mfava_detection_de_gold", "mushroom_de"]
    got["configs"] |= harness(measured, "hallucination-detector", "detector=lexical", metadata=SAMPLE)["configs"]
    assert {task: (config["dataset_path"], config["test_split"]) for task, config in got["configs"].items()} == {
        "nomiracl_de": ("miracl/nomiracl", "test"),
        "clapnq_gold": ("PrimeQA/clapnq", "validation"),
        "mfava_de": ("WueNLP/mHallucination_Evaluation", "test"),
        "mfava_detection_de_gold": ("WueNLP/mHallucination_Detection", "test"),
        "mushroom_de": ("Helsinki-NLP/mu-shroom", "test and validation"),
    }


def test_picked_documents_are_said(harness: Harness) -> None:
    got = harness(["nomiracl_de"], "grounded-baseline", metadata=SAMPLE, samples={"nomiracl_de": [1, 3, 5]})
    record = got["configs"]["nomiracl_de"]["metadata"]["provenance"]
    assert record["run"]["samples"] == [1, 3, 5]
    assert record["not_comparable"][-1] == "3 of 8 documents were asked for (--samples)"


def test_what_cannot_be_written_down_costs_no_results(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(provenance, "versions", lambda: 1 / 0)
    got = harness(["nomiracl_de"], "grounded-baseline", "strategy=abstain", metadata={"mirror": MINIATURE})
    assert got["results"]["nomiracl_de"]["hallucination_rate,strict"] == 0
    assert "ZeroDivisionError" in got["configs"]["nomiracl_de"]["metadata"]["provenance"]["failed"]
    assert "could not be written down" in caplog.text


def test_what_is_recorded_is_strict_json_without_places_of_this_machine() -> None:
    here = str(Path.cwd())
    places = [here, Path(here), "a/b", "/no/such/place", "\0/", "/\0"]
    said = {"a": places, 3: (float("nan"), float("inf"), 0.5, None, True)}
    found = provenance.strict_json(said)
    name = Path(here).name
    assert found == {"a": [name, name, "a/b", "/no/such/place", "\0/", "/\0"], "3": [None, None, 0.5, None, True]}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
