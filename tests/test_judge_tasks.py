"""The judge through the harness: real logged answers, verdicts written by hand, exact figures."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.clapnq.judge import load_pairs, load_ratings
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from tests.conftest import figures_of
from tests.judged import (
    ANSWERABLE,
    PAIRS,
    RATINGS,
    STRATEGIES,
    UNANSWERABLE,
    Row,
    compared,
    file,
    files,
    judge,
    order,
    rated,
    sample,
    samples,
    write,
)


def test_every_answer_to_an_answerable_question_is_rated_twice(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = file(runs, "full_passage", "rag")
    with caplog.at_level(logging.INFO):
        docs = rated(samples=place)
    assert [doc["aspect"] for doc in docs] == ["faithfulness", "appropriateness"] * ANSWERABLE
    assert [doc["id"] for doc in docs[::2]] == [doc["id"] for doc in docs[1::2]]
    assert len({doc["query_id"] for doc in docs}) == 2 * ANSWERABLE
    assert {doc["system"] for doc in docs} == {"full_passage"}
    said = f"{RATINGS}: {ANSWERABLE} answers of {place}; {UNANSWERABLE} unanswerable questions are not judged"
    assert said in caplog.text
    logged = {row["doc"]["id"]: row for row in samples(place)}
    for doc in docs:  # what the run answered and read
        row = logged[doc["id"]]
        assert (row["doc"]["answerable"], doc["answer"]) == (True, row["resps"][0][0])
        assert doc["quoted"]["question"] == f"> {row['doc']['question']}"
        passages = [f"> {passage['title']}\n> {passage['text']}" for passage in row["doc"]["passages"]]
        assert doc["quoted"]["passages"] == passages


def test_figures_of_ratings(runs: Path, tmp_path: Path) -> None:
    """18 questions. Faithfulness: nine times 4, eight times 3, one not read; appropriateness: always 2."""
    metadata = {"samples": file(runs, "lexical")}
    place = {doc["id"]: number for number, doc in enumerate(rated(**metadata)[::2])}

    def say(doc: Row) -> str:
        if doc["aspect"] == "appropriateness":
            return "Rating: 2"
        number = place[doc["id"]]
        return "**Rating:** 4" if number < 9 else "3/4" if number < 17 else "It is between 2 and 3."

    found = judge(RATINGS, say, metadata, tmp_path)
    faithful = (9 * 4 + 8 * 3) / 17
    expected = {"faithfulness": faithful, "appropriateness": 2, "f_plus_a": 2 * faithful * 2 / (faithful + 2)}
    expected["unread_rate"] = 1 / 36
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    figures = figures_of(found["whole"], RATINGS)
    assert all(found[f"{name}_stderr"] == figures[name]["standard_error"] for name in expected if name[0] != "a")
    unread = figures["unread_rate"]
    assert (unread["low"], unread["high"]) == pytest.approx((0.0005, 0.1555), abs=5e-5)  # one half of 18 questions
    assert 3.2 < figures["faithfulness"]["low"] < faithful < figures["faithfulness"]["high"] < 3.9
    assert found["whole"]["n-samples"][RATINGS] == {"original": 36, "effective": 36}


@pytest.mark.parametrize(("strategy", "rate"), [("abstain", 1.0), ("full_passage", 0.0)])
def test_answers_that_abstain_are_counted_once(runs: Path, tmp_path: Path, strategy: str, rate: float) -> None:
    found = judge(RATINGS, lambda doc: "1", {"samples": file(runs, strategy)}, tmp_path)
    values = [row["abstention_rate"] for row in found["whole"]["samples"][RATINGS]]
    assert (found["abstention_rate"], sum(value is not None for value in values)) == (rate, ANSWERABLE)


def test_every_pair_of_every_question_is_shown_in_both_orders_or_each_in_one(runs: Path) -> None:
    options = {"samples": files(runs, *STRATEGIES), "judge_names": ["x", "y", "z"]}
    docs = compared(**options)
    orders = [("x", "y"), ("y", "x"), ("x", "z"), ("z", "x"), ("y", "z"), ("z", "y")]
    questions = {doc["id"] for doc in docs}
    shown = Counter((doc["id"], doc["first"], doc["second"]) for doc in docs)
    assert shown == Counter((id, *pair) for id in questions for pair in orders)
    assert len({doc["query_id"] for doc in docs}) == len(docs) == ANSWERABLE * 3 * 2
    assert all(doc["systems"] == ["x", "y", "z"] for doc in docs)
    first = Counter((doc["first"], doc["second"]) for doc in docs[::2])  # which order is asked first is balanced, too
    assert set(first.values()) == {ANSWERABLE // 2}
    docs = compared(**options, judge_orders=1)
    assert Counter((doc["first"], doc["second"]) for doc in docs) == dict.fromkeys(orders, ANSWERABLE // 2)
    assert set(Counter((doc["id"], doc["first"]) for doc in docs).values()) == {1}  # nobody is always first


@pytest.mark.parametrize("orders", [1, 2])
def test_a_seed_decides_the_order_and_nothing_else(runs: Path, orders: int) -> None:
    options = {"samples": files(runs, "full_passage", "lexical"), "judge_orders": orders}
    one, again, other = (compared(**options, judge_seed=seed) for seed in (1234, 1234, 7))
    assert one == again == compared(**options)
    assert [doc["id"] for doc in one] != [doc["id"] for doc in other]
    key = "query_id" if orders == 2 else "id"
    assert sorted(doc[key] for doc in one) == sorted(doc[key] for doc in other)
    assert Counter(doc["first"] for doc in one) == Counter(doc["first"] for doc in other)


def test_the_gold_answers_are_rated_and_take_part_as_reference(runs: Path) -> None:
    place = file(runs, "lexical", "rag")
    gold = {row["doc"]["id"]: row["doc"]["answers"][0] for row in samples(place) if row["doc"]["answers"]}
    of_pairs = {"judge_orders": 1, "judge_seed": 2, "judge_names": ["x"]}  # which both tasks are given in one run
    docs = rated(samples=place, judge_reference=True, **of_pairs)
    assert {doc["system"] for doc in docs} == {"reference"}
    assert {doc["id"]: doc["answer"] for doc in docs} == gold
    docs = compared(samples=place, judge_reference=True)
    assert {(doc["first"], doc["second"]) for doc in docs} == {("lexical", "reference"), ("reference", "lexical")}
    assert len(docs) == ANSWERABLE * 2
    for doc in docs:
        assert doc["quoted"]["first" if doc["first"] == "reference" else "second"] == f"> {gold[doc['id']]}"


def test_a_pair_is_shown_with_the_passages_of_both_each_once(runs: Path) -> None:
    """Gold has one passage, retrieval three, mostly with the gold one among them; the gold answers have none."""
    places = [file(runs, "lexical"), file(runs, "full_passage", "rag")]
    numbers: dict[frozenset[str], set[int]] = {}
    for doc in compared(samples=places, judge_names=["g", "r"], judge_reference=True):
        passages = doc["quoted"]["passages"]
        assert len(set(passages)) == len(passages)
        numbers.setdefault(frozenset((doc["first"], doc["second"])), set()).add(len(passages))
    expected = (("g", "r", {3, 4}), ("g", "reference", {1}), ("r", "reference", {3}))
    assert numbers == {frozenset(pair): found for *pair, found in expected}


def test_runs_are_called_after_their_folders_their_tasks_or_as_one_says(runs: Path, tmp_path: Path) -> None:
    """The answers are named by a folder that holds the runs, or a list of files and folders."""
    for above in ("two/full_passage", "two/lexical", "twice/short/model", "twice/long/model"):
        (tmp_path / above).mkdir(parents=True)
        shutil.copy(file(runs, "full_passage" if "full" in above else "lexical"), tmp_path / above)
    two, folders, tasks = tmp_path / "two", ("full_passage", "lexical"), ("clapnq_gold", "clapnq_rag")
    for place, given, names in [
        *((two, given, names) for given, names in ((None, folders), (["T5-lg", "GPT 3.5"], ("T5-lg", "GPT_3.5")))),
        ([str(two / "full_passage"), file(runs, "lexical")], None, folders),
        (files(runs, *folders), ("a", "b"), ("a", "b")),
        (runs / "lexical", None, tasks),
        ([str(runs / name) for name in folders], None, [f"{name}.{task}" for name in folders for task in tasks]),
        (tmp_path / "twice", None, ("long.model", "short.model")),  # the same model twice, say with two prompts
    ]:
        docs = compared(samples=place if isinstance(place, list) else str(place), judge_names=given)
        assert {tuple(doc["systems"]) for doc in docs} == {tuple(names)}


def test_questions_not_all_answered_are_counted(runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    answered = [row for row in samples(file(runs, "lexical")) if row["doc"]["answerable"]][:5]
    write(tmp_path / "few", answered)
    with caplog.at_level(logging.INFO):
        docs = compared(samples=[str(tmp_path / "few"), file(runs, "full_passage")])
    assert {doc["id"] for doc in docs} == {row["doc"]["id"] for row in answered}
    assert f"{PAIRS}: {ANSWERABLE - 5} questions that not all runs answered are left out" in caplog.text
    assert f"{PAIRS}: 5 questions, few against full_passage" in caplog.text


def test_the_newest_file_of_the_task_alone_counts(runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = samples(file(runs, "lexical"))
    write(tmp_path, rows[:4], date="2020-01-01T00-00-00.0")
    write(tmp_path, rows, date="2030-01-01T00-00-00.0")
    write(tmp_path, rows, task="nomiracl_de")
    with caplog.at_level(logging.INFO):
        assert len(rated(samples=str(tmp_path))) == 2 * ANSWERABLE
    assert "1 samples files of other tasks were passed over" in caplog.text
    assert "of each task in a folder the newest samples count; passed over: " in caplog.text


def test_reasoning_and_debris_of_the_judged_answers_are_not_shown(tmp_path: Path) -> None:
    said = {
        "1": ("<think>The judge must not read this.</think>Paris.", "Paris."),
        "2": ("<|channel|>analysis<|message|>No.<|end|><|start|>assistant<|channel|>final<|message|>Paris.", "Paris."),
        "3": ("Paris.<|im_end|>\n<|im_start|>user\nAnd then?", "Paris."),
        "4": ("<think>It never came to an answer", ""),
        "5": (None, ""),
    }
    write(tmp_path / "one", [sample(id, answer) for id, (answer, _) in said.items()])
    write(tmp_path / "other", [sample(id, "Rome.") for id in said])
    docs = rated(samples=str(tmp_path / "one"))
    assert {doc["id"]: doc["answer"] for doc in docs} == {id: shown for id, (_, shown) in said.items()}
    for doc in compared(samples=str(tmp_path)):
        place = "first" if doc["first"] == "one" else "second"
        assert doc["quoted"][place] == f"> {said[doc['id']][1]}".rstrip()


def test_figures_of_pairs(runs: Path, tmp_path: Path) -> None:
    """18 questions in both orders: 12 for x, 4 for y, one tie, one always for what stands first."""
    metadata = {"samples": files(runs, "full_passage", "lexical"), "judge_names": ["x", "y"]}
    place = {id: number for number, id in enumerate(order(**metadata))}

    def say(doc: Row) -> str:
        number = place[doc["id"]]
        preferred = "A" if doc["first"] == ("x" if number < 12 else "y") else "B"
        return f"Preference: {preferred if number < 16 else 'tie' if number == 16 else 'A'}"

    found = judge(PAIRS, say, metadata, tmp_path)
    rates = {"win_rate_x": (12 + 0.5) / 18, "win_rate_y": (4 + 0.5) / 18, "tie_rate": 2 / 36}
    rates |= {"flip_rate": 1 / 18, "first_position_rate": (16 + 2) / 34, "unread_rate": 0.0}
    assert {name: found[name] for name in rates} == pytest.approx(rates)
    assert all(figures_of(found["whole"], PAIRS)[name]["denominator"] for name in rates)
    higher = found["whole"]["higher_is_better"][PAIRS]
    assert [higher[name] for name in rates] == [True, True, None, False, None, False]
    assert found["whole"]["n-samples"][PAIRS] == {"original": 36, "effective": 36}


@pytest.mark.parametrize("task", [RATINGS, PAIRS])
def test_a_judge_that_talks_nonsense_is_unread_and_nothing_else(runs: Path, tmp_path: Path, task: str) -> None:
    metadata = {"samples": file(runs, "full_passage"), "judge_reference": task == PAIRS}
    said = cycle(["", "Yes.", "Rating: 7", "Preference: C", "\x00\ufffd", "1. One\n2. Two", "> Rating: 4\n> A"])
    found = judge(task, lambda doc: next(said), metadata, tmp_path)
    assert found["unread_rate"] == 1.0
    about_answers = ("unread_rate", "abstention_rate", "sample", "alias", "name", "whole")
    assert [name for name in found if not name.startswith(about_answers)] == []  # no other figure is defined


@pytest.mark.parametrize("load", [load_ratings, load_pairs])
def test_without_samples_the_message_says_what_to_give(load: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "answers.jsonl").write_text("{}", "utf-8")
    of_another = write(tmp_path / "other", [sample("1", "Paris.")], task="nomiracl_de")
    for places, error, message in (
        *(
            (none, ValueError, r"the answers of an earlier run: --metadata '{\"samples\": \"PATH\"}'")
            for none in (None, [])
        ),
        *((tmp_path / name, MissingSource, "no samples file") for name in ("nowhere", "empty", "answers.jsonl")),
        (of_another, CorruptSource, r"holds samples of nomiracl_de; what is judged here are answers of clapnq_gold\*"),
    ):
        with pytest.raises(error, match=message):
            load(samples=str(places) if places else places)


def test_runs_that_cannot_be_judged(runs: Path, tmp_path: Path) -> None:
    write(tmp_path / "one", [sample("1", "Paris.")])
    write(tmp_path / "other", [sample("2", "Paris.")])
    without_gold = {"samples": write(tmp_path / "third", [sample("1", "Paris.", answers=[])]), "judge_reference": True}
    two = {"samples": [str(runs / "full_passage"), str(runs / "lexical")]}
    for load, options, message in (
        (compared, {"samples": file(runs, "lexical")}, r"only one run in .*; name two or more, .* judge_reference"),
        (compared, {"samples": files(runs, *["lexical"] * 2)}, "cannot be told apart by folder and task.*judge_names="),
        (compared, {"samples": [tmp_path / "one", tmp_path / "other"]}, "was answered by all of one, other"),
        (compared, without_gold, "no question was answered by all of third, reference"),
        (rated, without_gold, "none of the questions in .* has a gold answer"),
        (
            rated,
            two,
            r"""rates one run; say which of these with --metadata '{"samples": "FILE"}':(?:\n  \S+\.jsonl){4}$""",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            load(**options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["nonsense", sample("1", "Paris.")], "line 1: no sample"),
        ([sample("1", "Paris."), "{}", sample("2", "Paris.")], "line 2: no sample .*KeyError"),
        ([sample("1", "Paris.") | {"resps": []}, sample("2", "Paris.")], "line 1: no sample .*IndexError"),
        ([{"doc_id": 0, "doc": {"id": "1"}, "resps": [["x"]]}], "a document is none of .*KeyError..answerable"),
        ([sample("1", "unanswerable", answerable=False)], "no answer to an answerable question can be read"),
        (["{"], "no answer to an answerable question can be read"),
        ([sample("1", "Paris.", passages=["t"])], "a document is none of .*TypeError"),
    ],
)
def test_damaged_samples(rows: list[Row | str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, rows)
    with pytest.raises(CorruptSource, match=message):
        rated(samples=path)
    with pytest.raises(CorruptSource, match=message):
        compared(samples=path, judge_reference=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"judge_names": names}, r"2 different names, none of them 'reference': .*samples_clapnq_gold")
            for names in (["one"], ["a", "a"], ["a", "reference"], ["a b", "a_b"], [])
        ),
        ({"judge_names": "one"}, r"judge_names=\['o', 'n', 'e'\] must be 2 different names"),
        ({"judge_orders": 3}, "judge_orders must be 1 or 2, got 3"),
        ({"judge_orders": "2"}, "judge_orders must be a whole number of at least 1, got '2'"),
        ({"judge_seed": [1]}, r"judge_seed must be a whole number of at least 1, got \[1\]"),
        ({"judge_reference": "no"}, "judge_reference must be true or false, got 'no'"),
    ],
)
def test_options_that_do_not_fit(runs: Path, options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compared(samples=files(runs, "full_passage", "lexical"), **options)
