"""One warning a task where a run looks broken: what it counts, what it says, and that it says no more than that."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from custom_metrics.broken_run import Answered, Labels, Signs, signs_of, warning
from custom_metrics.harness import filters
from custom_metrics.relevance import nomiracl_label, robust_label
from lm_eval_tasks.harness import run_warnings as outcome
from lm_eval_tasks.nomiracl.dataset import load

Harness = Callable[..., dict[str, Any]]

QUESTION = "Welche Stadt ist die Hauptstadt Deutschlands?"
TEMPLATE = "a missing --apply_chat_template"
ROOM = "too few max_gen_toks"
REASONING = "a reasoning block that never ended"
GOOD = ["Yes, answer is present.", "I don't know", "Yes, answer is present in [3]."]


def said(responses: list[Any], labelled: bool = True) -> str | None:
    answers = [Answered(each, QUESTION, (), "de") for each in responses]
    if labelled:
        labels = [Labels(nomiracl_label(each), robust_label(each, "de", QUESTION)) for each in responses]
        answers = [answer._replace(labels=of) for answer, of in zip(answers, labels, strict=True)]
    return warning("t", signs_of(answers))


@pytest.mark.parametrize(
    ("responses", "labelled", "facts", "causes"),
    [
        (
            ["Please answer the question."] * 3 + GOOD * 3,
            True,
            "3 of 12 answers are Invalid (3 asking back)",
            [TEMPLATE],
        ),
        (["</p>"] * 4 + GOOD * 5, True, "4 of 19 answers are Invalid (4 markup alone)", [TEMPLATE]),
        (["[11] Bonn: Am Rhein."] * 3 + GOOD * 2, True, "(3 repeating the prompt or going on with it)", [TEMPLATE]),
        (["", None, " "] + GOOD * 2, True, "3 of 9 answers are Invalid (3 empty)", [ROOM]),
        (["<think>Hm"] * 3 + GOOD * 2, True, "(3 in a reasoning block that never ended)", [REASONING]),
        (["<think>Hm", "", "the the the the"] * 2 + GOOD, True, "2 empty, 2 in a loop", [REASONING, ROOM, TEMPLATE]),
        ([""] * 2 + GOOD * 4, True, "2 of 14 answers are empty or loop (2 empty)", [ROOM]),
        (["Berlin", "Bonn", "Köln", *GOOD], True, "strict and robust differ on 3 of 6 answers", [TEMPLATE]),
        (
            ["Ich weiß es nicht."] * 12,
            True,
            "strict and robust differ on 12 of 12 answers",
            ["all 12 answers are equal"],
        ),
        ([QUESTION] * 3 + GOOD * 2, False, "3 of 9 answers are no answers (3 repeating the prompt", [TEMPLATE]),
        (
            ["Berlin ist groß. " + "Und dann ging er in die Stadt. " * 9] * 2 + GOOD * 4,
            False,
            "(2 in a loop)",
            [TEMPLATE],
        ),
    ],
)
def test_what_looks_broken_is_said_with_its_usual_reason(
    responses: list[Any], labelled: bool, facts: str, causes: list[str]
) -> None:
    message = said(responses, labelled)
    assert message is not None
    assert message.startswith("t: ")
    assert "\n" not in message
    assert facts in message
    for cause in causes:
        assert cause in message


@pytest.mark.parametrize(
    ("responses", "labelled"),
    [
        ([], True),
        (GOOD * 20, True),
        (GOOD * 20, False),
        (["Please answer the question."] * 2 + GOOD * 3, True),  # 2 of 11
        (["Please answer the question."] + GOOD * 2 + ["No"], True),
        ([""] + GOOD * 3, True),  # 1 of 10 is no more than a tenth
        (["I don't know"] * 9, True),  # equal, but few
        (["Berlin", *GOOD], True),  # 1 of 4 apart
        (["Berlin ist die Hauptstadt.", "Sie liegt an der Spree.", "Das weiß ich nicht."], False),
    ],
)
def test_what_does_not_look_broken_is_not_spoken_of(responses: list[Any], labelled: bool) -> None:
    assert said(responses, labelled) is None


def test_equal_answers_are_a_fact_and_not_a_fault() -> None:
    assert said(["I don't know"] * 60) == "t: all 60 answers are equal."
    assert said(["unanswerable"] * 10, labelled=False) == "t: all 10 answers are equal."


def test_the_limits_are_those_of_the_module() -> None:
    def of(invalid: int, loops: int, apart: int, total: int = 60) -> str | None:
        return warning("t", Signs(total, Counter(loop=loops, other=invalid - loops), invalid, total, True, apart))

    assert of(12, 6, 20) is None
    for over in ((13, 0, 0), (7, 7, 0), (0, 0, 21)):
        assert of(*over) is not None


BROKEN = {
    # answer: hallucination_rate, error_rate, invalid_rate under `robust`
    "我不知道": (0.0, 1.0, 0.0),
    "qzx vkbj wpfgh trmdk jxq": (None, None, 1.0),
}


@pytest.mark.parametrize(("answer", "rates"), BROKEN.items())
def test_broken_answers_do_not_look_good(
    answer: str,
    rates: tuple[float | None, float | None, float],
    hub: str,
    harness: Harness,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    docs = load("de", mirror=hub)["evaluation"]
    path = tmp_path / "answers.jsonl"
    lines = [{"query_id": doc["query_id"], "subset": doc["subset"], "response": answer} for doc in docs]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    with caplog.at_level(logging.WARNING):
        results = harness(["nomiracl_de"], "replay", f"path={path}", metadata={"mirror": hub}, bootstrap_iters=0)
    found = results["results"]["nomiracl_de"]
    hallucination, error, invalid = rates
    assert found["invalid_rate,robust"] == invalid
    for metric, rate in (("hallucination_rate", hallucination), ("error_rate", error)):
        value = found.get(f"{metric},robust")
        assert value == rate or (rate is None and (value is None or value != value))
    warned = [record.getMessage() for record in caplog.records if "answers are equal" in record.getMessage()]
    assert len(warned) == 1  # one a task, not one a filter
    assert f"all {len(docs)} answers are equal" in warned[0]
    assert ("this run looks broken" in warned[0]) is (invalid == 1.0)


def test_clapnq_and_mfava_are_looked_at_and_detection_is_not(caplog: pytest.LogCaptureFixture) -> None:
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.harness.autoload import task_folder

    expected = {"nomiracl_de": True, "clapnq_gold": True, "clapnq_rag": True, "mfava_de": True}
    expected |= {"mfava_detection_de_gold": False, "mushroom_de": False}
    manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata={"mirror": "sample"})
    for name, task in manager.load(list(expected))["tasks"].items():
        task.build_all_requests(limit=4, rank=0, world_size=1)
        for request in task.instances:
            request.resps.append("")
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            task.apply_filters()
        warned = [record.getMessage() for record in caplog.records if "this run looks broken" in record.getMessage()]
        assert len(warned) == expected[name], name
        if warned:
            number = len(task.instances)
            assert warned[0].startswith(f"{name}: this run looks broken: {number} of {number} answers are ")


def test_answers_are_not_labelled_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The filters' labels are those that are counted."""
    read: list[Any] = []
    monkeypatch.setattr(filters, "robust_label", lambda response, *_: read.append(response) or "Invalid")
    monkeypatch.setattr(outcome, "signs_of", lambda answers: counted.extend(answers) or signs_of(answers))
    counted: list[Answered] = []
    harness(["nomiracl_de"], "grounded-baseline", "strategy=abstain", metadata={"mirror": "sample"}, limit=4)
    assert len(read) == 4
    assert [answer.labels for answer in counted] == [Labels("I don't know", "Invalid")] * 4


@pytest.mark.parametrize("parser", ["strict", "robust"])
def test_a_task_with_one_parser_is_looked_at_with_both(parser: str, caplog: pytest.LogCaptureFixture) -> None:
    listed = {"name": "one", "filter": [{"function": "nomiracl_label", "parser": parser}, {"function": "take_first"}]}
    label = {"strict": "Invalid", "robust": "Yes, answer is present"}[parser]
    requests = [
        SimpleNamespace(doc={"query": QUESTION, "language": "de"}, resps=[city, city], filtered_resps={"one": label})
        for city in ("Berlin", "Bonn", "Köln")
    ]
    outcome.warn_broken("t", [listed], requests, generated=False)
    assert "t: strict and robust differ on 6 of 6 answers" in caplog.text


def test_answers_that_are_neither_labels_nor_own_words_are_not_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    requests = [SimpleNamespace(doc={}, resps=[""], filtered_resps={"tags": ""})] * 20
    outcome.warn_broken("t", [{"name": "tags", "filter": [{"function": "take_first"}]}], requests, generated=False)
    assert not caplog.text
