"""Which files the loaders of NoMIRACL, mFAVA and Mu-SHROOM need for which options, and what they log of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import provenance
from lm_eval_tasks.harness.autoload import task_folder
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.mushroom import dataset as mushroom
from lm_eval_tasks.nomiracl import dataset as nomiracl

RELEVANT = ["topics/{}.relevant.tsv", "qrels/{}.relevant.tsv"]
NON_RELEVANT = ["topics/{}.non_relevant.tsv", "qrels/{}.non_relevant.tsv"]


@pytest.mark.parametrize(
    ("options", "split", "names"),
    [
        ({}, "test", [*RELEVANT, *NON_RELEVANT]),
        ({"split": "dev"}, "dev", [*RELEVANT, *NON_RELEVANT]),
        ({"subset": "relevant"}, "test", RELEVANT),
        ({"subset": "non_relevant"}, "test", [RELEVANT[0], *NON_RELEVANT]),  # the relevant sample is drawn first
        ({"subset": "non_relevant", "max_samples": "all"}, "test", NON_RELEVANT),
        ({"subset": "non_relevant", "max_samples": None, "split": "dev"}, "dev", NON_RELEVANT),
        ({"subset": "non_relevant", "max_samples": 9}, "test", [RELEVANT[0], *NON_RELEVANT]),
    ],
)
def test_files_of_nomiracl(options: dict[str, Any], split: str, names: list[str]) -> None:
    assert nomiracl.load_task.files({"task_language": "de", **options}) == [
        ("miracl/nomiracl", f"data/german/{name.format(split)}") for name in (*names, "corpus.jsonl.gz")
    ]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["test", "validation"]),
        ({"split": "both"}, ["test", "validation"]),
        ({"split": "test"}, ["test"]),
        ({"split": "validation"}, ["validation"]),
        ({"split": "other"}, []),
    ],
)
def test_files_of_mushroom(options: dict[str, Any], names: list[str]) -> None:
    found = mushroom.load_task.files({"task_language": "de", **options})
    known = mushroom.LANGUAGES["de"]
    of_splits = [known.answers_file(name) for name in mushroom.SPLITS if name in names]
    assert len(of_splits) == len(names)
    assert found == [(mushroom.REPOSITORY, name) for name in (known.pages_file, *of_splits) if names]


def test_files_of_mfava() -> None:
    (found,) = mfava.load_task.files({"task_language": "de"})
    assert found == (mfava.REPOSITORY, mfava.LANGUAGES["de"].queries_file)


def messages(caplog: pytest.LogCaptureFixture, load: Callable[[], Any]) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "lm_eval"):
        load()
    return [record.getMessage() for record in caplog.records]


def test_nomiracl_says_what_it_reads(caplog: pytest.LogCaptureFixture) -> None:
    said = messages(caplog, lambda: nomiracl.load("de", mirror="sample"))
    assert said[0].startswith(
        "nomiracl_de: split test, subset both, max_samples 250, seed 42, passages cut at 370 words, files from /"
    )
    said = messages(caplog, lambda: nomiracl.load("de", "dev", "relevant", "all", 7, 9, mirror="sample"))
    assert said[0] == (
        "nomiracl_de: the questions are sampled with seed 7, not the paper's 42. (A model argument named `seed` arrives "
        "here too; `--metadata seed=42` keeps the paper's sample.)"
    )
    assert said[1].startswith(
        "nomiracl_de: split dev, subset relevant, max_samples all, seed 7, passages cut at 9 words, files from /"
    )


def test_nomiracls_record_says_with_which_options_it_was_read() -> None:
    documents = nomiracl.load("de", mirror="sample")["test"]
    record = provenance.of_dataset(documents)
    assert record["options"] == {
        **{"language": "de", "split": "test", "subset": "both", "max_samples": 250, "seed": 42},
        **{"max_passage_tokens": 370, "passage_tokenizer": None},
    }
    assert sum(record["kept"].values()) == len(documents)
    assert record["split"] == "test"
    assert record["corpus"]["passages"] >= 10
    some = provenance.of_dataset(nomiracl.load("de", max_samples=2, seed=7, mirror="sample")["test"])
    assert some["kept"] == {"relevant": 2, "non_relevant": 2}


def test_mfava_says_what_it_reads(caplog: pytest.LogCaptureFixture) -> None:
    found: dict[str, Any] = {}
    said = messages(caplog, lambda: found.update(mfava.load("de", mirror="sample")))
    number = len(found["evaluation"])
    assert said[-1].startswith(f"mfava_de: {number} questions from /")
    assert "'detector': 'lexical'" in said[-1]
    record = provenance.of_dataset(found["evaluation"])
    assert record["kept"]["questions"] == number
    assert record["options"]["language"] == "de"
    assert {*found["evaluation"].column_names} >= {"id", "article", "subset", "query", "reference", "detector"}


def test_mushroom_says_what_it_reads(caplog: pytest.LogCaptureFixture) -> None:
    mushroom._documents.cache_clear()
    found: dict[str, Any] = {}
    said = messages(caplog, lambda: found.update(mushroom.load("de", mirror="sample")))
    assert said[0].startswith("mushroom_de: files from /")
    documents = found["evaluation"]
    assert any(
        f"mushroom_de: {len(documents)} answers of split both with their page; answers left out, whose" in m
        for m in said
    )
    record = provenance.of_dataset(documents)
    assert record["split"] == " and ".join(mushroom.SPLITS)
    assert sum(record["kept"].values()) == len(documents)
    assert record["options"] == {"language": "de", "split": "both"}
    ranked = provenance.of_dataset(mushroom.load("de", "test", mirror="sample")["evaluation"])
    assert [*ranked["kept"]] == ["test"]


@pytest.mark.parametrize(
    ("load", "options", "says"),
    [
        (nomiracl.load, {"language": "xx"}, "nomiracl_xx: unknown language 'xx'; known are ar, "),
        (nomiracl.load, {"split": "train"}, "nomiracl_de: unknown split 'train'; known are dev, test"),
        (
            nomiracl.load,
            {"subset": "some"},
            "nomiracl_de: unknown subset 'some'; known are both, non_relevant, relevant",
        ),
        (nomiracl.load, {"max_samples": 0}, "nomiracl_de: max_samples must be a whole number of at least 1, got 0"),
        (
            nomiracl.load,
            {"max_passage_tokens": 0},
            "nomiracl_de: max_passage_tokens must be a whole number of at least 1, got 0",
        ),
        (nomiracl.load, {"seed": True}, "nomiracl_de: seed must be a whole number, got True"),
        (nomiracl.load, {"seed": "7"}, "nomiracl_de: seed must be a whole number, got '7'"),
        (nomiracl.load, {"splitt": "dev"}, "nomiracl_de: --metadata key 'splitt' is not known; did you mean 'split'"),
        (mfava.load, {"language": "xx"}, "mfava_xx: unknown language 'xx'; known are ar, "),
        (mfava.load, {"detektor": "x"}, "mfava_de: --metadata key 'detektor' is not known; did you mean 'detector'"),
        (mushroom.load, {"language": "xx"}, "mushroom_xx: unknown language 'xx'; known are "),
        (mushroom.load, {"split": "train"}, "mushroom_de: unknown split 'train'; known are both, test, validation"),
        (mushroom.load, {"splitt": "test"}, "mushroom_de: --metadata key 'splitt' is not known; did you mean 'split'"),
    ],
)
def test_an_option_that_is_not_known_is_named_with_its_task(
    load: Callable[..., Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError) as refused:
        load(**{"language": "de", "mirror": "sample", **options})
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(("limit", "sampled"), [(None, False), (1000, False), (2, True)])
def test_a_sample_of_all_questions_is_none(limit: int | None, sampled: bool) -> None:
    sample = str(Path(task_folder()) / "sample")
    chosen, judged, fewer = nomiracl._chosen("de", "test", "both", limit, 42, sample, Counter())
    assert fewer is sampled
    assert chosen.keys() == judged.keys() == {"relevant", "non_relevant"}
    assert all(len(questions) == 2 for questions in chosen.values()) is sampled
