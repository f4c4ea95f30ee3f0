"""CLAPnq's scores of answers and rankings in exact numbers, and those of `rouge_score`."""

from __future__ import annotations

import math
import unicodedata
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from custom_metrics.scores.aggregations import defined_mean, defined_share
from custom_metrics.scores.grounding import (
    k_precision,
    process_results,
    process_results_with_retrieval,
    refuse_other_scripts,
    retrieval_figures,
    retrieval_quality,
    rouge1,
    rouge_l,
    score_answer,
)
from custom_metrics.statistics.figures import FloatWithCounts
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import plain
from lm_eval_tasks.clapnq.dataset import load

SCORER = RougeScorer(["rouge1", "rougeL"], use_stemmer=False)
NAN = math.nan

NFD = partial(unicodedata.normalize, "NFD")


def reference(target: str, prediction: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    scores = SCORER.score(target, prediction)
    return tuple(scores["rouge1"]), tuple(scores["rougeL"])


WORDS = st.text(alphabet="ab cdAB.,-'é1 2\n", max_size=120) | st.text(max_size=60)


@settings(max_examples=2 * settings.default.max_examples)
@given(WORDS, WORDS)
def test_rouge_has_the_values_of_rouge_score(target: str, prediction: str) -> None:
    assert (tuple(rouge1([target], prediction)), tuple(rouge_l(target, prediction))) == reference(target, prediction)


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "gain", "found"),
    [
        (["a", "b", "c"], ["a"], 1, 1.0, 1.0),
        (["b", "a", "c"], ["a"], 1, 0.0, 1.0),
        (["b", "a", "c"], ["a"], 3, 1 / math.log2(3), 1.0),
        (["a", "x", "b"], ["a", "b"], 3, (1 + 0.5) / (1 + 1 / math.log2(3)), 1.0),
        (["a"], ["a", "b", "c"], 1, 1.0, 1 / 3),
        ([], ["a"], 10, 0.0, 0.0),
        (["a"], [], 10, NAN, NAN),
        ([*"abcdefghijk"], ["j"], 10, 1 / math.log2(11), 1.0),  # a cutoff is the last rank that counts
        ([*"abcdefghijk"], ["k"], 10, 0.0, 0.0),
        ([*"abcdefghijk"], ["d"], 3, 0.0, 1.0),
        (["b", "a", "a"], ["a", "a"], 3, 1 / math.log2(3), 1.0),
    ],
)
def test_quality_of_a_ranking(ranked: list[str], relevant: list[str], k: int, gain: float, found: float) -> None:
    quality = retrieval_quality(ranked, relevant)
    assert list(quality) == ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "recall@10"]
    assert (quality[f"ndcg@{k}"], quality["recall@10"]) == pytest.approx((gain, found), nan_ok=True)


@pytest.mark.parametrize(
    ("answer", "references", "groundings", "scores"),
    [
        # the long reference is found with more precision and less recall, and has the better F-measure
        ("a b c d", ["a x", "a b c d e f g h", " "], ["b c", "x"], (2 / 3, 0.5, 2 / 3, 7)),
        ("a b c d", ["a", "a b c d e f"], ["x"], (0.8, 2 / 3, 0.0, 7)),  # precision 1/4, recall 1; 1 and 2/3
        ("a b c d", ["a b", "a b c d e f"], ["x"], (0.8, 2 / 3, 0.0, 7)),  # precision 1/2, recall 1: F 2/3
        ("a b c d", ["a b c d e f g h i j k l", "a b c"], ["x"], (6 / 7, 1.0, 0.0, 7)),  # F 1/2 and 6/7
        ("a", ["", " "], [], (None, None, None, 1)),
        ("", ["x"], ["x"], (0.0, 0.0, 0.0, 0)),
    ],
)
def test_recall_is_of_the_reference_with_the_best_f_measure(
    answer: str, references: list[str], groundings: list[str], scores: tuple[float | None, ...]
) -> None:
    found = score_answer(answer, references, groundings)
    assert found == pytest.approx(dict(zip(("rougeL", "recall", "rougeLp", "length"), scores, strict=True)))


DOC: dict[str, Any] = {"answerable": True, "answers": ["a b"], "groundings": ["a b c"]}
DOC |= {"gold_ids": ["p1"], "retrieved_ids": ["p2", "p1"], "gold_ranks": [2]}
UNANSWERABLE = {"answerable": False, "answers": []}


@pytest.mark.parametrize(
    ("doc", "answer", "values"),
    [
        ({}, "a b x", {"rougeL": 0.8, "recall": 1.0, "rougeLp": 2 / 3, "k_precision": 2 / 3, "length": 5.0}),
        ({}, "a b x", {"unanswerable_accuracy": None, "answerable_abstention_rate": 0.0}),
        ({}, "I do not know.", {"k_precision": None, "answerable_abstention_rate": 1.0}),
        ({}, "Das weiß ich leider nicht.", {"answerable_abstention_rate": 0.0}),  # the task's answers are English
        ({}, None, {"length": 0.0}),
        ({"answers": []}, "a", {"rougeL": None}),
        (UNANSWERABLE, "a b x", dict.fromkeys(("rougeL", "recall", "rougeLp", "length", "answerable_abstention_rate"))),
        (UNANSWERABLE, "a b x", {"unanswerable_accuracy": 0.0, "k_precision": 2 / 3}),
        (UNANSWERABLE, "I do not know.", {"unanswerable_accuracy": 1.0}),
        (UNANSWERABLE, None, {"unanswerable_accuracy": 0.0}),
    ],
)
def test_values_of_an_answer(doc: dict[str, Any], answer: str | None, values: dict[str, float | None]) -> None:
    found = process_results({**DOC, **doc}, [answer])
    assert {name: found[name] for name in values} == pytest.approx(values)
    assert list(found)[:2] == ["rougeL", "unanswerable_accuracy"]  # a document's own score first
    if answer == "a b x":
        answerable = not doc
        assert found["balanced_error"] == {"answerable": answerable, "wrong": not answerable}


def test_values_of_retrieval() -> None:
    found = process_results_with_retrieval(DOC, ["a"])
    assert found["ndcg@10"] == pytest.approx(1 / math.log2(3))
    assert found["recall@10"] == found["gold_retrieved"] == 1.0
    assert found["ndcg@10"].counts == retrieval_quality(["p2", "p1"], ["p1"])
    assert process_results_with_retrieval({**DOC, "gold_ranks": []}, ["a"])["gold_retrieved"] == 0.0
    for doc, grounded in (({**DOC, "gold_ids": []}, pytest.approx(0.5)), ({**DOC, "answerable": False}, None)):
        values = process_results_with_retrieval(doc, ["a"])
        assert [values[name] for name in ("ndcg@10", "recall@10", "gold_retrieved")] == [None] * 3
        assert values["rougeLp"] == grounded


def test_figures_are_split_by_whether_the_gold_passage_was_given() -> None:
    quality = [retrieval_quality(["p1"], ["p1"]), retrieval_quality(["p2", "p1"], ["p1"])]
    values: dict[str, list[Any]] = {
        "ndcg@10": [FloatWithCounts(1.0, quality[0]), None, FloatWithCounts(0.6, quality[1])],
        "gold_retrieved": [1.0, None, 0.0],
        "rougeL": [0.25, 0.5, 0.75],
        "length": [10, 20, 30],
        "answerable_abstention_rate": [0.0, 1.0, 1.0],
    }
    values |= {"recall": values["rougeL"], "rougeLp": values["rougeL"]}
    found = {name: (figure[:5], documents) for name, figure, documents in retrieval_figures(values)}
    in_corpus = "answerable questions whose gold passage is in the corpus"
    given = "answerable questions whose gold passage is among the passages given"
    missed = "answerable questions whose gold passage is not"
    for name, kind, of, documents in (
        ("ndcg@1", defined_mean, [1.0, 0.0], in_corpus),
        ("ndcg@3", defined_mean, [1.0, quality[1]["ndcg@3"]], in_corpus),
        ("rougeL_retrieved", defined_mean, [0.25], given),
        ("length_missed", defined_mean, [30], missed),
        ("answerable_abstention_rate_missed", defined_share, [1.0], missed),  # with Wilson's bounds
    ):
        assert found[name] == (pytest.approx(kind.figure_of(of)[:5], nan_ok=True), documents)
    split = ("rougeL", "recall", "rougeLp", "length", "answerable_abstention_rate")
    assert list(found)[2:] == ["ndcg@5", *(f"{metric}_{part}" for part in ("retrieved", "missed") for metric in split)]
    assert all(math.isnan(figure.value) for _, figure, _ in retrieval_figures({}))


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
        ("one two", [], 0.0),  # no passage was given: none of the answer is from there
        (" \n", ["one"], NAN),
        ("。？！", ["one"], NAN),
        ("naïve", ["na ve"], 1.0),
    ],
)
def test_the_share_of_tokens_in_the_passages(answer: str, groundings: list[str], share: float) -> None:
    assert k_precision(answer, groundings, "en") == pytest.approx(share, nan_ok=True, abs=0)
    if not math.isnan(share):
        assert k_precision(answer, groundings, "en") == published(answer, groundings)
    if answer.isascii():
        assert k_precision(answer, groundings) == pytest.approx(share, nan_ok=True, abs=0)


@pytest.mark.parametrize(
    ("answer", "groundings", "language", "share"),
    [
        ("Башня построена в 1889 году.", ["В 1889 году была построена башня"], "ru", 5 / 5),
        ("Башня построена в 1890 году.", ["В 1889 году была построена башня"], None, 4 / 5),
        ("Das Boot, у реки Нева", ["у реки"], None, 2 / 5),  # Latin letters are fewer
        ("東京は日本の首都です。", ["日本の首都は東京です。"], "ja", 1.0),
        ("東京は日本の首都です。", ["日本の首都は京都です。"], None, 5 / 6),
        ("北京是中国的首都。", ["中国的首都是上海"], None, 4 / 5),
        ("서울은 한국의 수도입니다", ["한국의 수도입니다: 서울"], "ko", 2 / 3),
        ("القاهرة عاصمة مصر", ["مصر، عاصمة"], "ar", 2 / 3),
        ("दिल्ली भारत की राजधानी है।", ["भारत की राजधानी"], "hi", 3 / 5),
        ("ÉÀ", ["éà"], None, 1.0),
        ("ÉÀ", ["éà"], "en", NAN),  # rouge_score's tokens are ASCII
        ("1889.", ["1889"], "ru", 1.0),
        ("。", ["。"], "ja", NAN),
        ("bốn", ["bẩn"], "vi", 0.0),  # four, dirty: as runs of ASCII letters both are "b n"
        ("GRÖSSE", ["Größe"], "de", 1.0),
        ("Ngọn hải đăng", [NFD("Ngọn hải đăng")], "vi", 1.0),
        ("서울은", [NFD("서울은")], "ko", 1.0),  # jamo
        ("क़लम", ["क\u093cलम"], "hi", 1.0),  # the nukta apart
        ("क्\u200dष", ["क्ष"], "hi", 1.0),
        ("می\u200cخواهم", ["میخواهم"], "fa", 1.0),
        ("۱۸۸۷ १८८७ ๑๘๘๗", ["1887 1887 1887"], None, 1.0),
        ("ﻣﺼﺮ", ["مصر"], "ar", 1.0),  # presentation forms
        ("مِصْر", ["مصر"], "ar", 1.0),
        ("שָׁלוֹם", ["שלום"], "he", 1.0),
        ("İZMİR ISPARTA", ["izmir ısparta"], "tr", 1.0),
        ("ＡＢＣ ４２", ["abc 42"], "ja", 1.0),
        ("Windows™", ["Windows"], "de", 1.0),
        ("recon\u00adstruction of\ufb01cial", ["reconstruction official"], "en", 1.0),
        ("Tokyo is the capital (東京)", ["tokyo is the capital"], None, 4 / 5),
    ],
)
def test_where_rouge_score_has_no_tokens_the_words_of_the_language_count(
    answer: str, groundings: list[str], language: str | None, share: float
) -> None:
    assert k_precision(answer, groundings, language) == pytest.approx(share, nan_ok=True)


THAI = "สวัสดีชาวโลก"


@pytest.mark.parametrize(
    ("text", "others"),
    [(THAI, 10), ("ฉันชอบ Bangkok", 5), ("Moscow (Москва)", 6), ("東京都は日本の首都です", 11)],
)
def test_rouge_of_another_script_is_refused(text: str, others: int) -> None:
    with pytest.raises(UsageError, match=f"{others} of .* in another script"):
        refuse_other_scripts(["", text])


@pytest.mark.parametrize("text", ["", "1887", "—", "Tokyo (東京)", "Ngọn hải đăng", "Příliš žluťoučký kůň"])
def test_rouge_of_latin_script_is_not(text: str) -> None:
    refuse_other_scripts([text])
    assert score_answer(THAI, ["the sea"], [])["rougeL"] == 0.0  # a task scores it: an answer in another script


@pytest.mark.parametrize("language", ["th", None])
def test_a_script_without_spaces_and_segmenter_is_refused(language: str | None) -> None:
    with pytest.raises(UsageError, match=f"none to be found in language {language!r}: its script has no spaces"):
        k_precision("กรุงเทพเป็นเมืองหลวง", ["กรุงเทพ"], language)
    with pytest.raises(TypeError, match="groundings is one text"):
        k_precision("one", "one two")


def test_people_stay_with_the_passage(hub: str) -> None:
    """The README's figure: the first gold answer of every answerable dev question, with its bounds."""
    documents = load(mirror=hub)["evaluation"]
    values = [process_results(doc, [doc["target"]])["k_precision"] for doc in documents]
    assert values.count(None) == 300  # "unanswerable" to the others
    assert defined_mean.figure_of(values)[:3] == pytest.approx((0.9740, 0.9662, 0.9804), abs=5e-5)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4))
def test_it_is_what_rouge_score_says_of_any_text(answer: str, groundings: list[str]) -> None:
    answer, groundings = plain(answer), [plain(grounding) for grounding in groundings]
    value = k_precision(answer, groundings, "en")
    if math.isnan(value):
        assert published(answer, groundings) == 0.0  # rouge_score's 0/0
    else:
        assert value == published(answer, groundings)
    assert rouge1(groundings, answer) == rouge1(["\n".join(groundings)], answer)


@pytest.mark.parametrize("answer", ["", "null", "Error: 500 Internal Server Error", "<html></html>", "the " * 5])
@pytest.mark.parametrize("answerable", [True, False])
def test_an_unreadable_answer_is_wrong_on_every_question(answer: str, answerable: bool) -> None:
    doc = {**DOC, "answerable": answerable, "question": "When?"}
    values = process_results(doc, [answer])
    assert values["balanced_error"] == {"answerable": answerable, "wrong": True}
    assert values["unanswerable_accuracy"] == (None if answerable else 0.0)
    assert (values["answerable_abstention_rate"], values["k_precision"]) == (None, None)
