"""A scorer for Inspect: how likely an answer holds anything that its passages do not support.

Needs ``inspect-ai``. ``Task(dataset, solver=generate(), scorer=unsupported())``; a sample's metadata has the passages.
"""

from __future__ import annotations

import math
from typing import Any

from inspect_ai.scorer import NOANSWER, Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from custom_metrics.scores.unsupported import evidence, is_unsupported, unsupported_probability
from detector_plugin import load_detector
from detector_plugin.detector import describe
from lm_eval_grounded.answers import abstains, detect
from lm_eval_tasks.detection.language_tags import guess


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator, unused-ignore]  # Any where it is not installed
def unsupported(
    passages: str = "passages", language: str | None = None, detector: str = "lexical", **options: Any
) -> Scorer:
    """Score 1 for an answer with anything unsupported, 0 for one without, as a detector reads it.

    `passages` is the key of the sample's metadata that holds a text or a list of texts; without one, the sample's input is
    read. An answer that declines scores 0; one without text is no answer. `options` are the detector's.
    """

    loaded = load_detector(detector, **options)

    async def score(state: TaskState, target: Target) -> Score:
        answer, given = state.output.completion, state.metadata.get(passages) or state.input_text
        if not answer.strip():
            return Score(value=NOANSWER, answer=answer, explanation="The answer is empty.")
        code = language or guess(answer, given if isinstance(given, str) else "\n".join(given)).code
        if abstains(answer):
            return Score(value=0, answer=answer, explanation="The answer declines.", metadata={"abstains": True})
        spans = detect(given, answer, language=code, detector=loaded, question=state.input_text)
        if spans is None:
            return Score(value=NOANSWER, answer=answer, explanation=f"The detector {detector} cannot read the answer.")
        against = evidence(answer, spans, code)
        probability = unsupported_probability(against, describe(loaded))
        found = {"probability": None if math.isnan(probability) else probability, "spans": [*map(list, spans)]}
        return Score(
            value=int(is_unsupported(against, describe(loaded))),
            answer=answer,
            explanation="; ".join(answer[span.start : span.end] for span in spans) or "Nothing is flagged.",
            metadata=found,
        )

    return score
