"""Scores of a detector on answers whose spans people marked: those of Mu-SHROOM, and those that the field reports on
RAGTruth, of whole answers and of characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from custom_metrics.scores import character_labels, detection
from custom_metrics.scores.unsupported import evidence
from custom_metrics.statistics.figures import CountsOfCluster

EXAMPLE = ("example_f1", "example_precision", "example_recall")


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Per-document values of a RAGTruth task.

    Returns:
        ``example_f1``, ``example_precision``, ``example_recall``: whether the answer has a marked and a flagged span, as
        ``[tp, fp, fn, tn]`` of one answer; ``span_f1``: the same of its characters; ``answer_auc``: the evidence of all
        flagged words (:func:`custom_metrics.scores.unsupported.evidence`) with whether people marked any; and the values
        of :func:`custom_metrics.scores.character_labels.process_results`.
    """
    gold, predicted, _ = detection.annotated_and_predicted(doc, results)
    marked, flagged = ({at for span in spans for at in range(*span[:2])} for spans in (gold, predicted))
    pair = bool(gold), bool(predicted)
    example = [int(pair == cell) for cell in ((True, True), (False, True), (True, False), (False, False))]
    both = len(marked & flagged)
    characters = [both, len(flagged) - both, len(marked) - both, len(doc["answer"]) - len(marked | flagged)]
    against = evidence(doc["answer"], predicted, doc["language"])
    return {
        **dict.fromkeys(EXAMPLE, CountsOfCluster(example, doc["passage"])),
        "span_f1": CountsOfCluster(characters, doc["passage"]),
        "answer_auc": CountsOfCluster([[against, float(bool(gold))]], doc["passage"]),
        **character_labels.process_results(doc, results),
    }
