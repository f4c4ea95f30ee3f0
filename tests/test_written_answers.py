"""Answers as today's models write them, as a person reads them: under labels, in objects, with caveats, with reasoning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.abstention import is_abstention, labelled_verdict
from custom_metrics.abstention.labelled_parts import Field, fields
from custom_metrics.reading.response import final_answer
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, robust_label
from lm_eval_tasks.nomiracl.dataset import load
from tests.growth import exponent

LABELLED = [
    ("Answer: No", "en", NO_ANSWER),
    ("**Final answer:** No", "en", NO_ANSWER),
    ("Respuesta: No", "es", NO_ANSWER),
    ("答案：否", "zh", NO_ANSWER),
    ("Jibu: Hapana", "sw", NO_ANSWER),
    ("उत्तर: नहीं", "hi", NO_ANSWER),
    ("<answer>no</answer>", "en", NO_ANSWER),
    ("Let me see.\n<answer>no</answer>", "en", NO_ANSWER),
    ('{"answerable": false}', "en", NO_ANSWER),
    ('{"verdict": "no", "confidence": 0.92}', "en", NO_ANSWER),
    ('{"beantwortbar": false}', "de", NO_ANSWER),
    ('{"unanswerable": true}', "en", NO_ANSWER),
    ('{"unanswerable": false}', "en", ANSWER),
    ('{"answer": null}', "en", NO_ANSWER),
    ('{"answer": "no", "why', "en", NO_ANSWER),  # cut
    ('{"answerable": true, "supporting_context": 4}', "en", ANSWER),
    ("<answerable>false</answerable><why>x</why>", "en", NO_ANSWER),
    ("\\boxed{No}", "en", NO_ANSWER),
    ("The answer is: $\\boxed{\\text{I don't know}}$", "en", NO_ANSWER),
    ("Result -> NO", "en", NO_ANSWER),
    ("Answer present: ❌", "en", NO_ANSWER),
    ("Answer present: ✅", "en", ANSWER),
    ("### Verdict\n\nAbsent.", "en", NO_ANSWER),
    ("False", "en", NO_ANSWER),
    ("True", "en", ANSWER),
    ("Falsch", "de", NO_ANSWER),
    ("Verdict: Yes", "en", ANSWER),
    ("Relevant contexts: none", "en", NO_ANSWER),
    ("1. No\n2. No", "en", NO_ANSWER),
    ("1. No\n2. Yes\n3. No", "en", ANSWER),
    ("[1] No\n[2] No", "en", NO_ANSWER),
    ("Context 1: No, no se menciona.\nContext 2: Sí, se menciona.", "es", ANSWER),
    ("I don&#39;t know", "en", NO_ANSWER),
    ("I do n't know", "en", NO_ANSWER),
    # the same forms around what is no verdict
    ("Name: Nobel", "en", ANSWER),
    ("Answer: Nobody knows that film better than Kore-eda.", "en", ANSWER),
    ("Answer: No, Lisbon is not the capital of Spain.", "en", ANSWER),
    ("The band is called: No Doubt", "en", ANSWER),
    ('{"answer": "Paris"}', "en", ANSWER),
]
TOPICS = [
    ("The contexts are irrelevant to the question.", "en"),
    ("All ten contexts are about other towers.", "en"),
    ("Die Kontexte behandeln andere Themen.", "de"),
    ("none of these seem to help", "en"),
    ("the completion date never comes up", "en"),
    ("这十段文字讲的是别的电影。", "zh"),
    ("いずれも別の城についての文章です。", "ja"),
    ("Gbogbo àwọn àyọkà náà ń sọ nípa ìlú mìíràn.", "yo"),
    ("From the contexts I can only tell that construction began in 1887.", "en"),
    ("The provided contexts focus on other towers.", "en"),
    ("Solo se dice que nació en Rosario; de su muerte no se habla.", "es"),
    ("Từ ngữ cảnh chỉ biết rằng việc xây dựng bắt đầu năm 1911.", "vi"),
]
CAVEATS = [
    ("The passages do not mention the date directly; however, passage 2 says it was finished in March 1889.", "en"),
    ("Contexts 1 to 9 do not mention it. Only context 10 does: 1889.", "en"),
    ("The tower was completed in 1889 (context 4). The exact day is not mentioned.", "en"),
    ("I don't know the exact day, but context 3 says 1889.", "en"),
    ("Although not explicitly stated, it can be inferred from Context 8: the capital was moved to Dodoma.", "en"),
    ("Unlike the other passages, which don't help, Context 7 names the director: Agnès Varda.", "en"),
    ("While most of the contexts are about other rivers, context 6 states that it is 2,140 km long.", "en"),
    ("None of the members were injured in the crash, context 5 reports.", "en"),
    ("There is no information on his youth. He died in Vienna in 1827, according to context 2.", "en"),
    ("Tarehe kamili haijatajwa, lakini muktadha wa 3 unasema ilikuwa mwaka 1961.", "sw"),
    ("A pontos nap nincs megadva, de a 4. szöveg szerint 1896-ban adták át.", "hu"),
    ("সঠিক তারিখ উল্লেখ নেই, তবে ৪ নম্বর প্রসঙ্গে বলা আছে এটি ১৯৭১ সালে ঘটে।", "bn"),
    ("ไม่ได้ระบุวันที่แน่นอน แต่บริบทที่ 3 บอกว่าเกิดขึ้นในปี พ.ศ. 2475", "th"),
]
REASONING = [
    (
        'To say "Yes, answer is present", a context must give the date. None does. Therefore my answer is "I don\'t know".',
        NO_ANSWER,
    ),
    (
        "First I thought it was not there, I don't know. But wait, context 3 says 1889! Yes, answer is present.",
        ANSWER,
    ),
    ("Yes, answer is present... wait, no", NO_ANSWER),
    ("Yes, answer is present... wait, no. Context 5 is about the other one. I don't know.", NO_ANSWER),
    ('We should say "I don\'t know" if no context answers. Context 9 does. So: Yes, answer is present.', ANSWER),
    ("I don't know - hold on, the last passage does give the distance. Yes, answer is present.", ANSWER),
    ("If any context had named him I'd reply \"Yes, answer is present\", but that isn't the case here.", NO_ANSWER),
    ("<scratchpad>1: no. 2: Yes, answer is present?</scratchpad>\nI don't know", NO_ANSWER),
    ("<analysis>Neither states the year.</analysis>\nYes, answer is present", ANSWER),
    ("analysisNone has the year, I don't know.assistantfinalYes, answer is present", ANSWER),
    ("analysisWe need to see whether any context", INVALID),
    ("<scratchpad>Context 1: no", INVALID),
    # the instruction again is no verdict
    ('If no context answers it, say "I don\'t know", otherwise say "Yes, answer is present".', INVALID),
    ('Please answer "Yes, answer is present" if the answer is present, and "I don\'t', INVALID),
    # without a turn, the first of both holds, as in the released answers
    ("Yes, answer is present\n\nI don't know", ANSWER),
    ("Possible answers:\n1. Yes, answer is present\n2. I don't know", ANSWER),
]


@pytest.mark.parametrize(("text", "language", "label"), LABELLED)
def test_a_bare_verdict_is_read_whatever_stands_around_it(text: str, language: str, label: str) -> None:
    assert robust_label(text, language) == label


@pytest.mark.parametrize(("text", "language"), TOPICS)
def test_another_topic_and_only_what_was_not_asked_abstain(text: str, language: str) -> None:
    assert robust_label(text, language) == NO_ANSWER
    assert is_abstention(text, language)


@pytest.mark.parametrize(("text", "language"), CAVEATS)
def test_an_answer_after_a_caveat_is_an_answer(text: str, language: str) -> None:
    assert robust_label(text, language) == ANSWER
    assert not is_abstention(text, language)


@pytest.mark.parametrize(("text", "label"), REASONING)
def test_the_last_verdict_holds_and_the_rule_quoted_is_none(text: str, label: str) -> None:
    assert robust_label(text, "en") == label


@pytest.mark.parametrize(
    ("text", "abstains", "alone"),
    [
        # as a part of a long answer, and where the question has one answer
        (
            "The passage gives two of the three reasons: high taxes and poor harvests. The third is not given.",
            False,
            True,
        ),
        ("Plants make light into energy. I can't tell from the text how the dark reactions proceed.", False, True),
        (
            "The text explains that the wall was built against raiders and as a border. It does not say its cost.",
            False,
            True,
        ),
        ("The document names the cast (Reed, Marsh and Okafor) but gives no cast for the sequel.", False, False),
        ("While the passage does not define it, it describes its use: the captain raises both arms.", False, False),
        ("The passage only covers the Belgian Revolution, so the French causes can't be listed.", True, True),
        ("The passages discuss the tower's height. They do not say who built it.", True, True),
        ("No.", False, False),  # to a question that asks for yes or no
        ('{"answer": null}', True, True),
        ("> ⚠️ **Not enough information**", True, True),
        ("About the tower: its height: unknown.", True, True),  # behind the last colon
    ],
)
def test_a_part_of_a_long_answer_is_an_answer(text: str, abstains: bool, alone: bool) -> None:
    assert is_abstention(final_answer(text), "en") is abstains
    assert is_abstention(final_answer(text), "en", partial=False) is alone


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Answer: No", [Field("Answer", "No")]),
        ("## Verdict\nNo", [Field("Verdict", "No")]),
        ("Verdict:\n- Paris\n- Rome", []),  # choices
        ("1. No\n(2) Yes", [Field("1", "No", True), Field("(2", "Yes", True)]),
        ('{"a": [], "b": "x"}', [Field("a", "null"), Field("b", "x")]),
        ("Paris is old.", []),
        ("a b c d e: no", []),  # no label of five words
    ],
)
def test_labels_are_read_by_their_form(text: str, found: list[Field]) -> None:
    assert fields(text) == found


@pytest.mark.parametrize("text", ["", "Paris", "Capital: Paris", "1. Paris\n2. Rome", "{", '{"a": 1}'])
def test_where_no_verdict_is_there_is_none(text: str) -> None:
    assert labelled_verdict(text, "en") is None
    assert labelled_verdict(f"Answer: the answer can be found\n{text}", "en") is True


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize(
    "unit", ["a: ", '"a": ', "<a>", "\\boxed{", "1. no\n", "\\text{", "# a\n", "&#39;", " n't", "(1) "]
)
def test_hostile_forms_are_read_in_linear_time(unit: str) -> None:
    robust_label("Answer: no", "en")
    assert exponent(lambda text: robust_label(text, "en"), lambda size: "{" + unit * (size // len(unit)), 4_000) < 1.5


def test_a_run_of_a_bare_verdict_hallucinates_nowhere(harness: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    docs = load("en", mirror="sample")["evaluation"]
    rows = [{"query_id": doc["query_id"], "subset": doc["subset"], "response": "**Final answer:** No"} for doc in docs]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    results = harness(["nomiracl_en"], "replay", f"path={tmp_path / 'a.jsonl'}", metadata={"mirror": "sample"})
    found = results["results"]["nomiracl_en"]
    rates = [found[f"{rate},robust"] for rate in ("hallucination_rate", "error_rate", "invalid_rate")]
    assert rates == [0.0, 1.0, 0.0]
