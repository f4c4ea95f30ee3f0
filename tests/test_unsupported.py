"""Whether an answer holds anything unsupported: the evidence of its flagged words, and the curve that judges it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from custom_metrics.reading.spans import HALLUCINATION, Span
from custom_metrics.scores.unsupported import CURVES, evidence, is_unsupported, unsupported_probability
from detector_plugin.baselines import FlagAll
from detector_plugin.detector import describe
from detector_plugin.lexical import LexicalDetector
from lm_eval_tasks.memerag import dataset as memerag
from lm_eval_tasks.ragtruth import dataset as ragtruth

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


Judged = tuple[NDArray[np.float64], NDArray[np.bool_]]


def judged(references: Any, answers: Any, language: str, questions: Any, wrong: Any) -> Judged:
    found = LexicalDetector().detect(references, answers, [language] * len(answers), questions)
    against = [evidence(answer, spans, language) for answer, spans in zip(answers, found, strict=True)]
    return np.array(against), np.array([bool(each) for each in wrong])


@pytest.fixture(scope="module")
def by_language(hub: str) -> dict[str, Judged]:
    documents = {code: memerag.load(code, mirror=hub)["evaluation"] for code in ("de", "es")}
    return {
        code: judged(docs["reference"], docs["answer"], code, docs["query"], docs["spans"])
        for code, docs in documents.items()
    }


def test_the_curve_is_the_fit_to_memerag(by_language: dict[str, Judged]) -> None:
    """In each language, the order of the answers is as good as the evidence says; the other one's fit changes no order."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    against, wrong = (np.concatenate(parts) for parts in zip(*by_language.values(), strict=True))
    assert len(wrong) == 499
    fit = LogisticRegression(C=1e9, tol=1e-8).fit(against[:, None], wrong)
    assert (fit.intercept_[0], fit.coef_[0, 0]) == pytest.approx(CURVE, abs=2e-3)
    auc = {code: round(float(roc_auc_score(wrong, against)), 2) for code, (against, wrong) in by_language.items()}
    assert auc == {"de": 0.70, "es": 0.69}


@pytest.mark.parametrize(
    ("part", "answers", "auc", "f1", "f1_of_any"),
    [("qa", 817, 0.807, 0.631, 0.542), ("data2txt", 900, 0.483, 0.781, 0.782)],
)
def test_ragtruth_which_took_no_part_in_the_fit(
    hub: str, part: str, answers: int, auc: float, f1: float, f1_of_any: float
) -> None:
    """Question answering: a better verdict than any flagged word. Data to text: no better than chance, as word overlap says
    nothing about a JSON record."""
    from sklearn.metrics import f1_score, roc_auc_score

    docs = ragtruth.load(part, mirror=hub)["evaluation"]
    against, wrong = judged(docs["reference"], docs["answer"], "en", docs["query"], docs["spans"])
    assert len(wrong) == answers
    flagged = [is_unsupported(each, SHIPPED) for each in against]
    found = roc_auc_score(wrong, against), f1_score(wrong, flagged), f1_score(wrong, against > 0)
    assert found == pytest.approx((auc, f1, f1_of_any), abs=3e-3)
