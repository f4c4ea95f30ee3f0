"""CLAPnq: is a long answer complete, cohesive and taken from its passage, and does it abstain when it must?

As settled against the paper's "Full Passage" row (Rosenthal et al. 2025, Table 5): ROUGE without stemming; per question
the reference with the best F-measure of that ROUGE type; recall is the ROUGE-1 recall of that reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.abstention import is_abstention
from custom_metrics.ranking import ndcg, recall
from custom_metrics.rouge import rouge1, rouge1_of_all, rouge_l, tokens

__all__ = [
    "BOUNDED",
    "BY_RETRIEVAL",
    "CUTOFFS",
    "FOUND",
    "MEANS",
    "SHARES",
    "k_precision",
    "process_results",
    "process_results_with_retrieval",
    "retrieval_quality",
    "score_answer",
]

CUTOFFS = (1, 3, 5, 10)

MEANS = ("rougeL", "recall", "rougeLp", "k_precision")
SHARES = ("unanswerable_accuracy", "answerable_abstention_rate")
BOUNDED = (*MEANS, *SHARES)
BY_RETRIEVAL = ("rougeL", "recall", "rougeLp", "length", "answerable_abstention_rate")
FOUND = ("_retrieved", "_missed")


def score_answer(answer: str, references: Sequence[str], groundings: Sequence[str]) -> dict[str, float]:
    """Quality of one answer to an answerable question.

    Args:
        answer: the model's answer.
        references: gold answers; empty ones do not count.
        groundings: the texts the answer may be taken from: the gold passage, or each of the retrieved passages.

    Returns:
        ``rougeL`` (F-measure), ``recall`` (of ROUGE-1) and ``rougeLp`` (ROUGE-L F-measure against the grounding text it
        is nearest to) in [0, 1], ``length`` in characters. ``nan`` for what has no reference or no grounding text.
    """
    references = [reference for reference in references if reference.strip()]
    best_l = max((rouge_l(reference, answer).fmeasure for reference in references), default=math.nan)
    best_1 = max((rouge1(reference, answer) for reference in references), key=lambda s: s.fmeasure, default=None)
    return {
        "rougeL": best_l,
        "recall": math.nan if best_1 is None else best_1.recall,
        "rougeLp": max((rouge_l(grounding, answer).fmeasure for grounding in groundings), default=math.nan),
        "length": float(len(answer)),
    }


def k_precision(answer: str, groundings: Sequence[str]) -> float:
    """K-Precision: the share of an answer's tokens that are in the passages given (Adlakha et al. 2024, "Evaluating
    Correctness and Faithfulness of Instruction-Following Models for Question Answering").

    It is counted as ROUGE-1 precision against all passages together: a token counts as often as the passages hold it.

    Args:
        answer: the model's answer.
        groundings: the texts that it was given; without any, none of its tokens is in them.

    Returns:
        A share in [0, 1]; ``nan`` for an answer without a token (ASCII letters and digits, as ``rouge_score`` has them).
    """
    return rouge1_of_all(groundings, answer).precision if tokens(answer) else math.nan


def retrieval_quality(ranked: Sequence[str], relevant: Sequence[str]) -> dict[str, float]:
    """``ndcg@1|3|5|10`` and ``recall@10`` of a ranking; ``nan`` where nothing is relevant."""
    wanted = set(relevant)
    return {**{f"ndcg@{k}": ndcg(ranked, wanted, k) for k in CUTOFFS}, "recall@10": recall(ranked, wanted, 10)}


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
    """Per-document values of the CLAPnq metrics.

    Args:
        doc: a document of ``lm_eval_tasks.clapnq.dataset``.
        results: one answer.

    Returns:
        Every metric for every document, ``nan`` where the document is not in the denominator: answer quality,
        ``answerable_abstention_rate`` over answerable questions, ``unanswerable_accuracy`` over the others,
        ``k_precision`` over the answers to either that do not abstain and have a token. The values stand a second and
        third time as ``*_ci_low`` and ``*_ci_high``, whose aggregations are the bounds.
    """
    answer = results[0] if isinstance(results[0], str) else ""
    abstained = float(is_abstention(answer, "en"))
    if doc["answerable"]:
        values = score_answer(answer, doc["answers"], doc["groundings"])
        values |= {"unanswerable_accuracy": math.nan, "answerable_abstention_rate": abstained}
    else:
        values = dict.fromkeys(("rougeL", "recall", "rougeLp", "length", "answerable_abstention_rate"), math.nan)
        values["unanswerable_accuracy"] = abstained
    values["k_precision"] = math.nan if abstained else k_precision(answer, doc["groundings"])
    for metric in BOUNDED:
        values[f"{metric}_ci_low"] = values[f"{metric}_ci_high"] = values[metric]
    return values


def process_results_with_retrieval(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
    """As :func:`process_results`, with the quality of the retrieval, and answer quality by what retrieval found.

    Returns:
        Over answerable questions whose gold passage is in the corpus: ``ndcg@k``, ``recall@10``, ``gold_retrieved`` (was a
        gold passage among those given?), and every metric in ``BY_RETRIEVAL`` as ``<metric>_retrieved`` where it was,
        ``<metric>_missed`` where it was not; ``nan`` elsewhere. Bounds as in :func:`process_results`.
    """
    values = process_results(doc, results)
    relevant = doc["gold_ids"] if doc["answerable"] else ()
    values |= retrieval_quality(doc["retrieved_ids"], relevant)
    values["gold_retrieved"] = float(bool(doc["gold_ranks"])) if relevant else math.nan
    for metric in BY_RETRIEVAL:
        value = values[metric]
        values[f"{metric}_retrieved"] = value if values["gold_retrieved"] == 1 else math.nan
        values[f"{metric}_missed"] = value if values["gold_retrieved"] == 0 else math.nan
    for metric in (f"{bounded}{found}" for bounded in BY_RETRIEVAL if bounded in BOUNDED for found in FOUND):
        values[f"{metric}_ci_low"] = values[f"{metric}_ci_high"] = values[metric]
    return values
