"""What a judge cannot be given: samples of other tasks, damaged ones, names and options that do not fit."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.clapnq.judge.dataset import load_pairs, load_ratings
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from tests.judged import (
    Row,
    compared,
    file,
    files,
    rated,
    sample,
    write,
)


@pytest.mark.parametrize("load", [load_ratings, load_pairs])
@pytest.mark.parametrize("places", [None, "", []])
def test_without_samples_the_message_says_what_to_give(load: Callable[..., Any], places: Any) -> None:
    with pytest.raises(
        ValueError, match=r"judges the answers of an earlier run: --metadata samples=PATH.*--log_samples"
    ):
        load(samples=places)


@pytest.mark.parametrize("load", [load_ratings, load_pairs])
def test_a_place_without_samples(load: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match=r"nowhere does not exist \(--metadata samples=PATH"):
        load(samples=str(tmp_path / "nowhere"))
    with pytest.raises(
        MissingSource, match=r"no samples file \(samples_<task>_<date>\.jsonl, as `lm_eval --log_samples`"
    ):
        load(samples=str(tmp_path))
    (tmp_path / "answers.jsonl").write_text("{}", "utf-8")
    with pytest.raises(MissingSource, match=r"answers\.jsonl: no samples file"):
        load(samples=str(tmp_path / "answers.jsonl"))


@pytest.mark.parametrize("load", [load_ratings, load_pairs])
@pytest.mark.parametrize("task", ["nomiracl_de", "mfava_de", "clapnq_judge", "clapnq_judge_pairs"])
def test_samples_of_another_task(load: Callable[..., Any], task: str, tmp_path: Path) -> None:
    write(tmp_path, [sample("1", "Paris.")], task=task)
    with pytest.raises(
        CorruptSource, match=rf"holds samples of {task}; what is judged here are answers of clapnq_gold\*"
    ):
        load(samples=str(tmp_path))


@pytest.mark.parametrize("same_folder_name", [False, True])
def test_several_runs_are_too_many_for_ratings(runs: Path, tmp_path: Path, same_folder_name: bool) -> None:
    for number, strategy in enumerate(("full_passage", "lexical")):
        folder = tmp_path / str(number) / ("model" if same_folder_name else strategy)
        shutil.copytree(runs / strategy, folder)
    with pytest.raises(ValueError, match="rates one run; say which of these with --metadata samples=FILE") as caught:
        rated(samples=str(tmp_path))
    assert len(re.findall(r"\n  \S+samples_clapnq_(?:gold|rag)_\S+\.jsonl", str(caught.value))) == 4


def test_one_run_is_too_few_for_pairs(runs: Path) -> None:
    with pytest.raises(ValueError, match=r"only one run in .*; name two or more, .* or add judge_reference=true"):
        compared(samples=file(runs, "lexical"))


def test_the_same_file_twice(runs: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be told apart by folder and task .*judge_names="):
        compared(samples=files(runs, "lexical", "lexical"))


def test_no_question_in_common(tmp_path: Path) -> None:
    write(tmp_path / "one", [sample("1", "Paris.")])
    write(tmp_path / "other", [sample("2", "Paris.")])
    with pytest.raises(ValueError, match="no question was answered by all of one, other"):
        compared(samples=str(tmp_path))


def test_no_gold_answers(tmp_path: Path) -> None:
    path = write(tmp_path / "one", [sample("1", "Paris.", answers=[])])
    with pytest.raises(ValueError, match=r"none of the questions in .* has a gold answer"):
        rated(samples=path, judge_reference=True)
    with pytest.raises(ValueError, match="no question was answered by all of one, reference"):
        compared(samples=path, judge_reference=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["nonsense", sample("1", "Paris.")], "line 1: no sample"),
        ([sample("1", "Paris."), "{}", sample("2", "Paris.")], "line 2: no sample .*KeyError"),
        ([sample("1", "Paris.") | {"resps": []}, sample("2", "Paris.")], "line 1: no sample .*IndexError"),
        ([{"doc_id": 0, "doc": {"id": "1"}, "resps": [["x"]]}], "a document has no question, answerable, passages"),
        ([sample("1", "unanswerable", answerable=False)], "no answer to an answerable question can be read"),
        ([], "no answer to an answerable question can be read"),
        (["{"], "no answer to an answerable question can be read"),
    ],
)
def test_damaged_samples(rows: list[Row | str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, rows)
    with pytest.raises(CorruptSource, match=message):
        rated(samples=path)
    with pytest.raises(CorruptSource, match=message):
        compared(samples=path, judge_reference=True)


@pytest.mark.parametrize(
    "names", [["one"], ["a", "a"], ["a", "b", "c"], ["a", "reference"], ["a b", "a_b"], [], ["a", "a_stderr"]]
)
def test_names_that_do_not_fit(runs: Path, names: list[str]) -> None:
    with pytest.raises(
        ValueError, match=r"must be 2 different names, none of them 'reference' or ending in .*samples_clapnq_gold"
    ):
        compared(samples=files(runs, "full_passage", "lexical"), judge_names=names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge_orders": 3}, "judge_orders must be 1 or 2, got 3"),
        ({"judge_orders": 0}, "judge_orders must be a whole number of at least 1, got 0"),
        ({"judge_orders": "2"}, "judge_orders must be a whole number of at least 1, got '2'"),
        ({"judge_orders": True}, "judge_orders must be a whole number of at least 1, got True"),
        ({"judge_seed": [1]}, r"judge_seed must be a whole number of at least 1, got \[1\]"),
        ({"judge_reference": "no"}, "judge_reference must be true or false, got 'no'"),
        ({"judge_names": "one"}, r"judge_names must be a list, as in judge_names=\['one','other'\], got 'one'"),
    ],
)
def test_options_that_do_not_fit(runs: Path, options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compared(samples=files(runs, "full_passage", "lexical"), **options)


GOOD: Row = {
    **{"id": "1", "question": "why", "answerable": True, "answers": ["so"]},
    "passages": [{"title": "T", "text": "t"}],
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"passages": [{"text": "t"}]},
        {"passages": ["t"]},
        {"passages": None},
        {"passages": [{"title": None, "text": "t"}]},
        {"answers": None},
        {"answers": [{"text": "so"}]},
        {"question": 7},
        {"answerable": "false"},
        {"answerable": None},
    ],
)
def test_documents_written_by_hand_are_checked(wrong: Row, tmp_path: Path) -> None:
    path = tmp_path / "samples_clapnq_gold_2026-01-01T00-00-00.jsonl"
    rows = [{"doc_id": 0, "doc": {**GOOD, **wrong}, "resps": [["x"]]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(CorruptSource, match="document '1' is no CLAPnq document"):
        rated(samples=str(path))


def test_two_documents_of_one_id_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples_clapnq_gold_2026-01-01T00-00-00.jsonl"
    rows = [{"doc_id": number, "doc": GOOD, "resps": [["x"]]} for number in (0, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(CorruptSource, match="two documents have the id '1'"):
        rated(samples=str(path))
