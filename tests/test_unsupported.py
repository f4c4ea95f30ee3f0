"""Whether an answer holds anything unsupported: the evidence of its flagged words, and the curve that judges it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from custom_metrics.reading.spans import HALLUCINATION, NOT_SUPPORTED, SUPPORTED, Span, probabilities
from custom_metrics.reading.words import words
from custom_metrics.scores.unsupported import (
    CURVES,
    SENTENCE_CURVES,
    Curves,
    evidence,
    evidence_of_parts,
    is_unsupported,
    unsupported_probability,
)
from detector_plugin.baselines import FlagAll
from detector_plugin.detector import describe
from detector_plugin.lexical import LexicalDetector
from detector_plugin.sentences import sentence_bounds
from lm_eval_tasks.memerag import dataset as memerag
from lm_eval_tasks.ragtruth import dataset

SHIPPED = describe(LexicalDetector())
CURVE = CURVES[SHIPPED["name"], SHIPPED["version"]]
"""A new version of the weights wants a curve of its own."""
ANSWER = "The bridge opened in 1932 and cost two million."


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (None, 0.0),
        ([], 0.0),
        ([(21, 25, HALLUCINATION, 0.5)], math.sqrt(-math.log(0.5))),  # 1932: one word
        ([(34, 47, HALLUCINATION, 0.5)], math.sqrt(-2 * math.log(0.5))),  # two words in a span count twice
        ([(21, 25, HALLUCINATION, 0.5), (34, 47, HALLUCINATION, 0.9)], math.sqrt(-math.log(0.5) - 2 * math.log(0.1))),
        ([(0, 47, HALLUCINATION, 1.0)], math.sqrt(-9 * math.log(1e-4))),  # a span that is sure stays finite
    ],
)
def test_the_evidence_sums_the_flagged_words(spans: list[Span] | None, expected: float) -> None:
    assert evidence(ANSWER, spans, "en") == pytest.approx(expected)


def test_an_answer_is_flagged_from_a_half_on_and_without_a_curve_by_any_word() -> None:
    half = -CURVE[0] / CURVE[1]
    assert unsupported_probability(half, SHIPPED) == pytest.approx(0.5)
    assert [is_unsupported(half + by, SHIPPED) for by in (-0.01, 0.01)] == [False, True]
    for other in (describe(LexicalDetector(threshold=0.9)), describe(FlagAll())):  # flags other words: another curve
        assert math.isnan(unsupported_probability(half, other))
        assert [is_unsupported(against, other) for against in (0.0, 0.01)] == [False, True]


class Judged(NamedTuple):
    """Evidence against texts, and whether people found something unsupported in them."""

    against: NDArray[np.float64]
    wrong: NDArray[np.bool_]

    @property
    def auc(self) -> float:
        from sklearn.metrics import roc_auc_score

        return round(float(roc_auc_score(self.wrong, self.against)), 2)

    def fit(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression(C=1e9, tol=1e-8).fit(self.against[:, None], self.wrong)
        return pytest.approx((fitted.intercept_[0], fitted.coef_[0, 0]), abs=2e-3)


def by_part(answer: str, spans: Any, language: str, parts: Any) -> list[float]:
    places = words(answer, language)
    return evidence_of_parts(places, probabilities(places, spans), [each[:2] for each in parts])


def judged(references: Any, answers: Any, language: str, questions: Any, parts: Any) -> tuple[Judged, Judged]:
    """Of answers and of their sentences. `parts` are those of each answer: start, end, and whether it is unsupported."""
    found = LexicalDetector().detect(references, answers, [language] * len(answers), questions)
    rows = [*zip(answers, found, parts, strict=True)]
    of_answers = [(evidence(answer, spans, language), any(each[2] for each in of)) for answer, spans, of in rows]
    by_parts = [(by_part(answer, spans, language, of), of) for answer, spans, of in rows]
    of_sentences = [(against, wrong) for found, of in by_parts for against, (*_, wrong) in zip(found, of, strict=True)]
    answered, sentences = (Judged(*map(np.array, zip(*of, strict=True))) for of in (of_answers, of_sentences))
    return answered, sentences


@pytest.fixture(scope="module")
def by_language(hub: str) -> dict[str, tuple[Judged, Judged]]:
    documents = {code: memerag.load(code, mirror=hub)["evaluation"] for code in ("de", "es")}
    parts = {
        code: [
            [
                (each["start"], each["end"], each["label"] == NOT_SUPPORTED)
                for each in doc["sentences"]
                if each["label"] in (SUPPORTED, NOT_SUPPORTED)
            ]
            for doc in docs
        ]
        for code, docs in documents.items()
    }
    return {code: judged(d["reference"], d["answer"], code, d["query"], parts[code]) for code, d in documents.items()}


@pytest.mark.parametrize(
    ("of", "curves", "number", "auc"),
    [(0, CURVES, 499, {"de": 0.70, "es": 0.69}), (1, SENTENCE_CURVES, 1013, {"de": 0.67, "es": 0.64})],
    ids=["answers", "sentences"],
)
def test_the_curve_is_the_fit_to_memerag(
    of: int, curves: Curves, number: int, auc: dict[str, float], by_language: dict[str, tuple[Judged, Judged]]
) -> None:
    """In each language, the order is as good as the evidence says; the other one's fit changes no order."""
    both = Judged(*map(np.concatenate, zip(*(each[of] for each in by_language.values()), strict=True)))
    assert len(both.wrong) == number
    assert curves[SHIPPED["name"], SHIPPED["version"]] == both.fit()
    assert {code: each[of].auc for code, each in by_language.items()} == auc


@pytest.fixture(scope="module")
def ragtruth(hub: str) -> Callable[[str], tuple[Judged, Judged]]:
    """A task's test answers, which took no part in the fits."""

    @cache
    def read(part: str) -> tuple[Judged, Judged]:
        docs = dataset.load(part, mirror=hub)["evaluation"]
        parts = [
            [
                (start, end, any(mark["start"] < end and mark["end"] > start for mark in marks))
                for start, end in sentence_bounds(answer, "en")
            ]
            for answer, marks in zip(docs["answer"], docs["spans"], strict=True)
        ]
        return judged(docs["reference"], docs["answer"], "en", docs["query"], parts)

    return read


@pytest.mark.parametrize(
    ("part", "of", "number", "auc", "f1", "f1_of_any"),
    [
        ("qa", 0, 817, 0.81, 0.63, 0.54),
        ("qa", 1, 5600, 0.80, 0.40, 0.34),
        pytest.param("data2txt", 0, 900, 0.48, 0.78, 0.78, marks=pytest.mark.slow("900 answers")),
        pytest.param("data2txt", 1, 8209, 0.68, 0.29, 0.26, marks=pytest.mark.slow("900 answers")),
    ],
)
def test_ragtruth_which_took_no_part_in_the_fit(
    part: str, of: int, number: int, auc: float, f1: float, f1_of_any: float, ragtruth: Callable[[str], Any]
) -> None:
    """Question answering: a better verdict than any flagged word. Data to text: no better than chance on answers, as word
    overlap says nothing about a JSON record. A sentence is unsupported where any character of it is marked."""
    from sklearn.metrics import f1_score

    read = ragtruth(part)[of]
    assert len(read.wrong) == number
    assert read.auc == auc
    curves = (CURVES, SENTENCE_CURVES)[of]
    flagged = [unsupported_probability(each, SHIPPED, curves) >= 0.5 for each in read.against]
    assert round(f1_score(read.wrong, flagged), 2) == f1
    assert round(f1_score(read.wrong, read.against > 0), 2) == f1_of_any


def test_probabilities_of_sentences_are_too_high_where_errors_are_rare(ragtruth: Callable[[str], Any]) -> None:
    of_sentences = ragtruth("qa")[1]
    said = np.mean([unsupported_probability(each, SHIPPED, SENTENCE_CURVES) for each in of_sentences.against])
    assert (round(float(said), 2), round(float(np.mean(of_sentences.wrong)), 2)) == (0.32, 0.10)


def test_the_words_of_a_sentence_count_in_it_alone() -> None:
    answer, spans = "Es ist hier. Da war es gut.", [Span(7, 15, HALLUCINATION, 0.5)]  # across the end of a sentence
    both = by_part(answer, spans, "de", sentence_bounds(answer, "de"))
    assert both == pytest.approx([math.sqrt(-math.log(0.5))] * 2)
    assert math.hypot(*both) == pytest.approx(evidence(answer, spans, "de"))
