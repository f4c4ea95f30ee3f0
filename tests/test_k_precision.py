"""K-Precision: the share of an answer's tokens that are in the passages given, to the digit as `rouge_score` has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from custom_metrics.scores.aggregations import defined_mean
from custom_metrics.scores.grounding import k_precision, process_results, process_results_with_retrieval, rouge1
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.benchmark import BENCHMARK
from lm_eval_tasks.clapnq.dataset import load
from lm_eval_tasks.models.baseline import GroundedBaseline
from tests.conftest import figures_of

Harness = Callable[..., dict[str, Any]]
SCORER = RougeScorer(["rouge1"], use_stemmer=False)
NAN = math.nan


def published(answer: str, groundings: list[str]) -> float:
    """What `rouge_score` says of the passages joined."""
    return float(SCORER.score(target="\n".join(groundings), prediction=answer)["rouge1"].precision)


@pytest.mark.parametrize(
    ("answer", "groundings", "share"),
    [
        ("the moon pulls the water", ["Moon the moon pulls the water of the sea"], 1.0),
        ("the moon pulls the cheese", ["Moon the moon pulls the water of the sea"], 4 / 5),
        ("water water water water", ["water", "more Water!"], 2 / 4),  # as often as the passages together hold it
        ("Sea, sun; and SAND.", ["sun", "sea"], 2 / 4),
        ("one two", ["three", "four"], 0.0),
        ("one two", [], 0.0),  # no passage was given: none of the answer is from there
        ("one two", ["", " "], 0.0),
        ("", ["one"], NAN),
        (" \n", ["one"], NAN),
        ("。？！", ["one"], NAN),
        ("naïve", ["na ve"], 1.0),
    ],
)
def test_the_share_of_tokens_in_the_passages(answer: str, groundings: list[str], share: float) -> None:
    assert k_precision(answer, groundings) == pytest.approx(share, nan_ok=True, abs=0)
    if not math.isnan(share):
        assert k_precision(answer, groundings) == published(answer, groundings)


@pytest.mark.parametrize(
    ("answer", "groundings", "language", "share"),
    [
        ("Башня построена в 1889 году.", ["В 1889 году была построена башня"], "ru", 5 / 5),
        ("Башня построена в 1890 году.", ["В 1889 году была построена башня"], None, 4 / 5),
        ("Das Boot, у реки Нева", ["у реки"], None, 2 / 5),  # Latin letters are fewer
        ("東京は日本の首都です。", ["日本の首都は東京です。"], "ja", 1.0),
        ("東京は日本の首都です。", ["日本の首都は京都です。"], None, 5 / 6),
        ("北京是中国的首都。", ["中国的首都是上海"], None, 4 / 5),
        ("北京是中国的首都。", ["中国的首都是上海"], "zh", 4 / 5),
        ("서울은 한국의 수도입니다", ["한국의 수도입니다: 서울"], "ko", 2 / 3),
        ("القاهرة عاصمة مصر", ["مصر، عاصمة"], "ar", 2 / 3),
        ("दिल्ली भारत की राजधानी है।", ["भारत की राजधानी"], "hi", 3 / 5),
        ("ÉÀ", ["éà"], None, 1.0),
        ("ÉÀ", ["éà"], "en", NAN),  # rouge_score's tokens are ASCII
        ("東京", ["東京"], "en", NAN),
        ("1889.", ["1889"], "ru", 1.0),
        ("。", ["。"], "ja", NAN),
        ("Башня", [], "ru", 0.0),
    ],
)
def test_where_rouge_score_has_no_tokens_the_words_of_the_language_count(
    answer: str, groundings: list[str], language: str | None, share: float
) -> None:
    assert k_precision(answer, groundings, language) == pytest.approx(share, nan_ok=True)


@pytest.mark.parametrize("language", ["th", None])
def test_a_script_without_spaces_and_segmenter_is_refused(language: str | None) -> None:
    with pytest.raises(UsageError, match=f"none to be found in language {language!r}: its script has no spaces"):
        k_precision("กรุงเทพเป็นเมืองหลวง", ["กรุงเทพ"], language)
    with pytest.raises(TypeError, match="groundings is one text"):
        k_precision("one", "one two")


@pytest.mark.one_python("figures of the public data; the code is tested by the cases above")
@pytest.mark.parametrize("retriever", [None, "bm25"])
def test_on_every_dev_question_it_is_what_rouge_score_says(hub: str, retriever: str | None) -> None:
    documents = load(retriever=retriever, mirror=hub)["evaluation"]
    assert len(documents) == 600
    read = process_results if retriever is None else process_results_with_retrieval
    counted = abstaining = 0
    for strategy in ("abstain", "answer", "full_passage", "lexical"):
        baseline = GroundedBaseline(strategy)
        for doc in documents:
            answer = baseline.answer(doc)
            value = read(doc, [answer])["k_precision"]
            if value is None:
                abstaining += 1
                continue
            counted += 1
            assert value == published(answer, doc["groundings"])
            if strategy == "full_passage":
                assert value == 1.0
    assert (counted, abstaining) == ((1498, 902) if retriever is None else (1688, 712))


def test_people_stay_with_the_passage(hub: str) -> None:
    """The README's figure: the first gold answer of every answerable dev question, with its bounds."""
    documents = load(mirror=hub)["evaluation"]
    values = [process_results(doc, [doc["target"]])["k_precision"] for doc in documents]
    assert values.count(None) == 300  # "unanswerable" to the others
    assert defined_mean.figure(values)[:3] == pytest.approx((0.9740, 0.9662, 0.9804), abs=5e-5)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4))
def test_it_is_what_rouge_score_says_of_any_text(answer: str, groundings: list[str]) -> None:
    value = k_precision(answer, groundings, "en")
    if math.isnan(value):
        assert published(answer, groundings) == 0.0  # rouge_score's 0/0
    else:
        assert value == published(answer, groundings)
    assert rouge1(groundings, answer) == rouge1(["\n".join(groundings)], answer)


@pytest.mark.parametrize("answerable", [True, False])
@pytest.mark.parametrize(
    ("answer", "value"),
    [("It is a b.", 2 / 4), ("unanswerable", None), ("I don't know.", None), ("", None), (None, None), ("...", None)],
)
def test_it_is_over_answers_that_do_not_abstain_to_either_kind_of_question(
    answerable: bool, answer: str | None, value: float | None
) -> None:
    doc = {"answerable": answerable, "answers": ["a b"] if answerable else [], "groundings": ["a", "b"]}
    values = process_results(doc, [answer])
    assert values["k_precision"] == value


@pytest.mark.parametrize("task", ["clapnq_gold", "clapnq_gold_gpt", "clapnq_rag", "clapnq_rag_llama"])
def test_a_run_has_its_mean_with_bootstrap_bounds(harness: Harness, task: str) -> None:
    got = harness([task], "grounded-baseline", "strategy=answer", metadata={"mirror": "sample"})
    result = {key.removesuffix(",answer"): value for key, value in got["results"][task].items()}
    values = [sample["k_precision"] for sample in got["samples"][task]]
    assert len(values) == 32
    assert result["k_precision"] == pytest.approx(math.fsum(values) / len(values), abs=1e-15)
    figure = figures_of(got, task)["k_precision"]
    expected = defined_mean.figure(values)
    assert (figure["low"], figure["high"]) == (expected.low, expected.high)
    assert figure["low"] <= result["k_precision"] <= figure["high"]
    assert result["k_precision_stderr"] == figure["standard_error"]
    assert got["versions"][task] == BENCHMARK.version
    abstaining = harness([task], "grounded-baseline", "strategy=abstain", metadata={"mirror": "sample"})
    assert "k_precision,answer" not in abstaining["results"][task]
