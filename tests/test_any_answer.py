"""No answer whatever ends a run: arbitrary text and JSON through every filter, metric and detector without a model."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from custom_metrics import relevance
from custom_metrics.abstention import is_abstention
from custom_metrics.filters import Abstention, CopiedAnswer, FinalAnswer, JudgePreference, JudgeRating, NomiraclLabel
from custom_metrics.scores import detection, grounding, judging
from detector_plugin.filters import HallucinationSpans
from detector_plugin.lexical import LexicalDetector
from lm_eval_tasks.clapnq import hallucination
from lm_eval_tasks.clapnq.dataset import load_task as load_clapnq
from lm_eval_tasks.mfava import annotations as annotated
from lm_eval_tasks.mfava import dataset as wild
from lm_eval_tasks.mfava import task as estimation
from lm_eval_tasks.mushroom.dataset import load as load_mushroom
from lm_eval_tasks.nomiracl.dataset import load as load_nomiracl
from tests.conftest import results_of
from tests.growth import LINEAR, exponent
from tests.logged_runs import in_this_process, lines
from tests.miniature import MINIATURE

anything = st.text(st.characters(exclude_categories=()), max_size=300)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything | st.just("answer"), inner, max_size=4),
    max_leaves=12,
)
HOSTILE = [
    *("", " \t\n", '{"answer": ' + "1" * 5000 + "}", '{"answer": {"answer": ' * 400),
    *("[" * 20_000, '{"answer": "\\ud800"}'),
    "half \ud800 a pair",
    "\ud83d\ude00",  # two halves that belong together
    *("\x00\x1b[2J\x07", "<entity>" * 600, "</invented>" * 600, "< " * 1000, "```json\n" * 400, "Rating: " + "9" * 500),
    *("<think>" * 3000, "哈" * 1000, "a" * 100_000, "\u202e\u2066\ufeff\U000e0041", "{{ 7 * 7 }} {% for x in y %}"),
]
answers = st.one_of(
    anything,
    json_values.map(json.dumps),
    json_values.map(lambda value: json.dumps({"answer": value})),
    st.lists(
        st.sampled_from(["<entity>", "</entity>", "<x>", "Rating: 3", "\n", '"', "{", "}", "I don't know", "\x1b["])
    ).map(" ".join),
)


@lru_cache(maxsize=1)
def documents() -> dict[str, dict[str, Any]]:
    return {
        "nomiracl": load_nomiracl("de", mirror=MINIATURE)["evaluation"][1],
        "clapnq": load_clapnq(task_name="clapnq_rag", task_retriever="bm25", mirror=MINIATURE)["evaluation"][0],
        "tagged": load_clapnq(task_name="clapnq_gold", mirror=MINIATURE, detector="lexical")["evaluation"][0],
        "wild": wild.load("ja", mirror=MINIATURE)["evaluation"][0],
        "real": load_mushroom("hi", mirror=MINIATURE)["evaluation"][0],
        "annotated": annotated.load("de", mirror=MINIATURE)["evaluation"][0],
    }


def filtered(kind: type[Any], answer: Any, doc: dict[str, Any], **arguments: Any) -> str:
    ((value,),) = kind(**arguments).apply([[answer]], [doc])
    assert isinstance(value, str)
    return value


def read_by_everything(answer: Any) -> None:
    docs = documents()
    for parser in ("strict", "robust"):
        label = filtered(NomiraclLabel, answer, docs["nomiracl"], parser=parser)
        assert label in (relevance.ANSWER, relevance.NO_ANSWER, relevance.INVALID)
        assert relevance.process_results(docs["nomiracl"], [label]).keys()
    final = filtered(FinalAnswer, answer, docs["clapnq"])
    filtered(Abstention, answer, docs["clapnq"])
    assert grounding.process_results_with_retrieval(docs["clapnq"], [final])["length"] == len(final)
    tagged = filtered(HallucinationSpans, final, docs["tagged"], reference="groundings", question="question")
    share = hallucination.process_results(docs["tagged"], json.loads(tagged))["hallucinated_share"]
    assert share is None or (0 <= share <= 1 and share.counts.flagged <= share.counts.words <= len(final.split()))
    tagged = filtered(HallucinationSpans, final, docs["wild"])
    tagged.encode("utf-8")  # it goes into a file
    spans = json.loads(tagged)["spans"]
    assert all(0 <= start < end <= len(json.loads(tagged)["answer"]) for start, end, *_ in spans)
    values = estimation.process_results(docs["wild"], [tagged])
    assert values["hallucinated_words"] <= values["response_words"]
    for process in (detection.process_results, detection.process_category_results):
        assert process(docs["annotated"], [final])["lost_rate"] in (0, 1)
    copied = filtered(CopiedAnswer, answer, docs["real"])
    assert 0 <= detection.process_character_results(docs["real"], [copied])["iou"] <= 1
    rating = filtered(JudgeRating, answer, {})
    assert rating in ("1", "2", "3", "4", "unread")
    assert judging.process_rating({"id": "1", "aspect": "faithfulness", "answer": final}, [rating])
    assert filtered(JudgePreference, answer, {}) in ("A", "B", "tie", "unread")
    assert isinstance(is_abstention(answer), bool)


@pytest.mark.parametrize("answer", [*HOSTILE, None, 7, ["x"]], ids=range(len(HOSTILE) + 3))
def test_hostile_answers_are_read(answer: Any) -> None:
    read_by_everything(answer)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answers)
def test_any_answer_is_read(answer: str) -> None:
    read_by_everything(answer)


@pytest.mark.parametrize("unit", ["a", "ก", "1", "a-", "a-\n"])
def test_the_lexical_detector_reads_a_long_word_in_linear_time(unit: str) -> None:
    detector = LexicalDetector()
    read = lambda answer: detector.detect(["A short reference."], [answer], ["en"])  # noqa: E731
    assert exponent(read, lambda size: unit * (size // len(unit)), 1000) < LINEAR


@pytest.mark.parametrize(
    "wrapping",
    [
        "{}",
        "\x1b[31m{}\x1b[0m",
        "\x9b31m{}\x9b0m",  # of an eight-bit terminal
        '{{"reasoning": "None of the passages is about it.", "answer": "{}"}}',
        '```json\n{{"answer": "{}"}}\n```',
        '\x1b[32m{{"answer": "{}"}}\x1b[0m',
        "<think>Let me see.</think>\n{}",
    ],
)
@pytest.mark.parametrize(
    ("said", "abstains"), [("I don't know", True), ("The passages do not say.", True), ("It was built in 1880.", False)]
)
def test_all_benchmarks_read_an_answer_alike_in_every_wrapping(said: str, abstains: bool, wrapping: str) -> None:
    answer, docs = wrapping.format(said), documents()
    label = filtered(NomiraclLabel, answer, docs["nomiracl"], parser="robust")
    assert label == (relevance.NO_ANSWER if abstains else relevance.ANSWER)
    final = filtered(FinalAnswer, answer, docs["clapnq"])
    assert final == said
    assert grounding.process_results(docs["clapnq"], [final])["answerable_abstention_rate"] == abstains
    assert (filtered(Abstention, answer, docs["clapnq"]) == "unanswerable") is abstains
    tagged = filtered(HallucinationSpans, filtered(FinalAnswer, answer, docs["wild"]), docs["wild"])
    assert estimation.process_results(docs["wild"], [tagged])["abstention_rate"] == abstains


def test_half_a_character_in_an_answer_costs_no_sample(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Through the harness's own writer, which lost the samples from there on, and ended with 0."""
    task, docs = "nomiracl_de", load_nomiracl("de", mirror=MINIATURE)["evaluation"]
    rows = [{"id": doc["query_id"], "response": f"half \ud800 {number}"} for number, doc in enumerate(docs)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with caplog.at_level(logging.WARNING):
        in_this_process([task], "replay", f"path={tmp_path / 'a.jsonl'}", tmp_path / "out")
    assert f"{task}: {len(rows)} answers held halves of surrogate pairs" in caplog.text
    assert results_of(tmp_path / "out")["n-samples"][task]["effective"] == len(rows)
    samples = lines(next((tmp_path / "out").rglob("samples_*.jsonl")))
    assert len({sample["doc_id"] for sample in samples}) == len(rows)
    assert all("half \ufffd " in sample["resps"][0][0] for sample in samples)
