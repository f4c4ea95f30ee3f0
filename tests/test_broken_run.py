"""One warning a task where a run looks broken: what it counts, what it says, and that it says no more than that."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.broken_run import Answered, Labels, Signs, is_repetitive, signs_of, warning
from custom_metrics.reading.no_answer import is_refusal
from custom_metrics.relevance import NO_ANSWER, nomiracl_label, robust_label
from lm_eval_tasks.nomiracl.dataset import load
from tests.conftest import Harness, loaded_tasks
from tests.miniature import MINIATURE

QUESTION = "Welche Stadt ist die Hauptstadt Deutschlands?"
TEMPLATE = "a missing --apply_chat_template, or a model that is not tuned to follow instructions"
ROOM = "too few max_gen_toks, or a stop string that comes at once (--gen_kwargs)"
REASONING = (
    "a thought that never ended: give it room (--gen_kwargs max_gen_toks=4096, and --model_args think_end_token=... of the "
    "model), or turn thinking off (enable_thinking=False)"
)
GOOD = ["Yes, answer is present.", "I don't know", "Yes, answer is present in [3]."]
LOOP = "Die Stadt liegt am Fluss. " * 4
LATE_LOOP = f"Berlin ist eine Stadt im Norden. {'und so weiter ' * 9}"
LATE = "Berlin ist groß. " + "Und dann ging er in die Stadt. " * 9


@pytest.mark.parametrize(
    ("responses", "labelled", "signs"),
    [
        ([], True, Signs(0, Counter(), 0, 0)),
        (GOOD * 2, True, Signs(6, Counter(), 0, 3, True)),
        (["Please answer the question."] * 3 + GOOD, True, Signs(6, Counter(other=3), 3, 4, True)),
        (["[11] Bonn: Am Rhein."] * 3 + GOOD, True, Signs(6, Counter(prompt=3), 3, 4, True)),
        (["", None, " ", *GOOD], True, Signs(6, Counter(empty=3), 3, 5, True)),
        (["null", "429 Too Many Requests", *GOOD], True, Signs(5, Counter(failure=2), 2, 5, True)),
        (["<think>Hm", "", "the the the the"], True, Signs(3, Counter(unfinished=1, empty=1, loop=1), 3, 3, True)),
        (["Berlin", "Bonn", "Köln", *GOOD], True, Signs(6, Counter(), 0, 6, True, 3)),  # in their own words
        # a loop that can be read, and one behind an answer
        ([f"{NO_ANSWER}. " * 4, "我不知道这个问题的答案"], True, Signs(2, Counter(loop=1), 0, 2, True, 1)),
        (["Yes, answer is present", LATE_LOOP], True, Signs(2, Counter(), 0, 2, True, 1)),
        (["Berlin", "", None, "<think>hm"], False, Signs(4, Counter(empty=2, unfinished=1), 3, 3)),
        (["Berlin", LOOP, "Berlin", LATE_LOOP, LATE], False, Signs(5, Counter(loop=3), 3, 4)),
    ],
)
def test_answers_are_counted_by_what_is_wrong_with_them(responses: list[Any], labelled: bool, signs: Signs) -> None:
    answers = [Answered(each, QUESTION, (), "de") for each in responses]
    if labelled:
        labels = [Labels(nomiracl_label(each), robust_label(each, "de", QUESTION)) for each in responses]
        answers = [answer._replace(labels=of) for answer, of in zip(answers, labels, strict=True)]
    assert signs_of(answers) == signs


def test_a_loop_is_read_by_the_words_of_its_language() -> None:
    looping = "我不知道你说的是什么。" + "好的" * 30
    for language, kinds in (("zh", {"loop": 1}), (None, {})):  # without a language there is one word
        assert signs_of([Answered(looping, None, (), language)]).kinds == kinds


@pytest.mark.parametrize(
    ("signs", "says"),
    [
        (Signs(0, Counter(), 0, 0), None),
        (Signs(10, Counter(empty=1), 2, 9), None),  # a fifth, and a tenth, are not more than that
        (
            Signs(11, Counter(failure=3), 3, 9),
            "t: this run looks broken: 3 of 11 answers are no answers (3 the message of a service that failed). Usual "
            "reasons: a service that was down or refused the requests: run it again.",
        ),
        (
            Signs(10, Counter(empty=1, code=2), 3, 9),
            "t: this run looks broken: 3 of 10 answers are no answers (2 code alone, 1 empty). Usual reasons: "
            f"{TEMPLATE}; {ROOM}.",
        ),
        (
            Signs(10, Counter(unfinished=2, other=1), 3, 9, True, 0),
            "t: this run looks broken: 3 of 10 answers are Invalid (2 in an unfinished thought, 1 asking "
            f"back). Usual reasons: {REASONING}; {TEMPLATE}.",
        ),
        (
            Signs(20, Counter(unfinished=1, empty=1, loop=1, code=1), 4, 18),
            "t: this run looks broken: 3 of 20 answers are empty or loop (1 in an unfinished thought, "
            f"1 empty, 1 in a loop). Usual reasons: {REASONING}; {ROOM}; {TEMPLATE}.",
        ),
        (Signs(9, Counter(), 0, 9, True, 3), None),  # a third is not more than a third
        (
            Signs(9, Counter(), 0, 9, True, 4),
            "t: strict and robust differ on 4 of 9 answers: they are not in the prompt's own words. "
            f"Usual reasons: {TEMPLATE}.",
        ),
        (Signs(9, Counter(), 0, 1, True, 0, refusal=1, salad=1), None),
        (Signs(10, Counter(), 0, 1, True, 0), "t: all 10 answers are equal."),
        (
            Signs(10, Counter(), 0, 9, refusal=3, salad=3),
            "t: 3 of 10 answers are refusals by policy, not statements about the passages; 3 of 10 answers are of words "
            "that neither question nor passages hold.",
        ),
        (
            Signs(10, Counter(empty=10), 10, 1, True, 4),
            "t: this run looks broken: 10 of 10 answers are Invalid (10 empty); strict and robust differ on 4 of 10 "
            f"answers: they are not in the prompt's own words; all 10 answers are equal. Usual reasons: {ROOM}; "
            f"{TEMPLATE}.",
        ),
    ],
)
def test_a_warning_says_what_was_seen_and_what_it_usually_means(signs: Signs, says: str | None) -> None:
    assert warning("t", signs) == says


@pytest.mark.parametrize(
    ("answer", "hallucination", "error", "invalid"),
    [("Das weiß ich nicht.", 0.0, 1.0, 0.0), ("</div></div>", None, None, 1.0)],
)
def test_broken_answers_do_not_look_good(
    answer: str,
    hallucination: float | None,
    error: float | None,
    invalid: float,
    hub: str,
    harness: Harness,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    docs, path = load("de", mirror=hub)["evaluation"], tmp_path / "answers.jsonl"
    lines = [{"query_id": doc["query_id"], "subset": doc["subset"], "response": answer} for doc in docs]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    with caplog.at_level(logging.WARNING):
        found = harness(["nomiracl_de"], "replay", f"path={path}", metadata={"mirror": hub}, bootstrap_iters=0)
    results = found["results"]["nomiracl_de"]
    assert results["invalid_rate,robust"] == invalid
    assert (results.get("hallucination_rate,robust"), results.get("error_rate,robust")) == (hallucination, error)
    (warned,) = (message for message in caplog.messages if "answers are equal" in message)  # not one a filter
    assert f"all {len(docs)} answers are equal" in warned
    assert ("this run looks broken" in warned) is (invalid == 1.0)


def test_clapnq_and_mfava_are_looked_at_and_detection_is_not(caplog: pytest.LogCaptureFixture) -> None:
    expected = {"nomiracl_de": True, "clapnq_gold": True, "clapnq_rag": True, "mfava_de": True}
    expected |= {"mfava_detection_de_gold": False, "mushroom_de": False}
    for name, task in loaded_tasks(expected, mirror=MINIATURE).items():
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


@pytest.mark.parametrize(
    ("text", "language", "loops"),
    [
        ("", "de", False),
        ("Der Rhein fließt durch Köln und mündet in die Nordsee.", "de", False),
        ("und so weiter " * 4, "de", True),
        ("sehr " * 12, "de", True),
        ("sehr " * 11, "de", False),
        ("Er ging nach Hause und schlief. " * 3, "de", True),
        ("Er ging nach Hause und schlief. " * 2, "de", False),
        ("Anfang. " + "eins zwei drei vier fünf sechs " * 4, "de", True),
        ("1. Berlin\n2. Köln\n3. Hamburg\n4. Bremen\n5. Mainz\n6. Trier", "de", False),
        ((" ".join(map(str, range(64))) + " ") * 4, "de", True),
        ((" ".join(map(str, range(65))) + " ") * 4, "de", False),  # a longer period is not looked for
        ("Der Fluss war lange hier. " * 3, "de", True),  # 20 letters
        ("Der Fluss war lang hier. " * 3, "de", False),  # 19
        ("哈哈" * 40, "zh", True),
        ("我来到北京清华大学学习物理。后来去了上海。", "zh", False),
    ],
)
def test_is_repetitive(text: str, language: str, loops: bool) -> None:
    assert is_repetitive(text, language) is loops


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but I cannot assist with that request.", True),
        ("I\u2019m sorry, I can\u2019t help with that.", True),
        ("Dabei kann ich Ihnen leider nicht helfen.", True),
        ("Lo siento, pero no puedo ayudar con esa solicitud.", True),
        ("抱歉，我无法协助处理该请求。", True),
        ("申し訳ありませんが、そのご要望にはお応えできません。", True),
        ("I don't know", False),
        ("I'm sorry, but I cannot assist with this question, as no passage is about it.", False),
        ("The passages do not provide an answer.", False),
    ],
)
def test_a_refusal_by_policy_says_nothing_of_the_passages(text: str, refuses: bool) -> None:
    assert is_refusal(text) is refuses
    signs = signs_of([Answered(text, labels=Labels("Invalid", "I don't know"))])
    assert (signs.refusal, signs.invalid) == (int(refuses), 0)


SALAD = "velvet tractor whisper marble pickle saxophone glacier umbrella"


@pytest.mark.parametrize(
    ("text", "is_salad"),
    [
        (SALAD, True),
        (SALAD.title() + ". Yes!", True),
        ("The harbour has the tower since 1850, says the second passage.", False),
        ("Der Turm im Hafen wurde laut Text im Jahr 1850 gebaut.", False),
        ("velvet tractor whisper marble pickle", False),  # five may be a name
    ],
)
def test_words_that_nobody_gave_are_no_answer_to_the_question(text: str, is_salad: bool) -> None:
    question, passages = "Wann wurde der Turm gebaut?", ("Der Turm im Hafen wurde im Jahr 1850 laut dem Text gebaut.",)
    for label, counts in (("Yes, answer is present", (1, {})), ("Invalid", (0, {"salad": 1}))):
        signs = signs_of([Answered(text, question, passages, "de", Labels("Invalid", label))])
        if is_salad:
            assert (signs.salad, signs.kinds) == counts
        assert bool(signs.salad or signs.kinds["salad"]) is is_salad
