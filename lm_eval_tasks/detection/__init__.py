"""Detectors in tasks: their settings, the calibration in force, labelled answers; and here the base of all detection tasks,
of mFAVA, Mu-SHROOM, MEMERAG, RAGTruth and MTRAG: how a reply is read, and the metrics over tagged words. The prompt is
``_tagging_base``.
"""

from __future__ import annotations

from dataclasses import replace

from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SCORE, DEFINED_SHARE, Base, Metric, Step

_WORDS = "all answers; counted in words"
_F1 = Metric(
    "f1",
    "custom_metrics.scores.detection.f1",
    True,
    _WORDS,
    definition="harmonic mean of precision and recall of the hallucinated words",
    unit="score",
    label="F1",
    title="Finds hallucinated words",
    sentence="It finds {recall} of the hallucinated words, and {precision} of what it flags is hallucinated: F1 is {value}",
    counted="answers",
)
IOU = Metric(
    "iou",
    DEFINED_SCORE,
    True,
    "all answers",
    definition="overlap of the characters that people and the detector mark",
    unit="score",
    label="IoU",
    title="Agrees with people on what is hallucinated",
    sentence="The characters that it flags and those that people marked overlap by {value} on average, as intersection "
    "over union",
    counted="answers",
    headline=True,
    prominence=2,
)
RHO = Metric(
    "rho",
    DEFINED_MEAN,
    True,
    "all answers",
    definition="rank correlation of the detector's probabilities with the annotators' votes, over characters",
    unit="correlation",
    title="Ranks characters as people do",
    sentence="Its probabilities rank characters as the annotators' votes do with a correlation of {value} on average",
    counted="answers",
    headline=True,
)
"""Metrics over characters that several tables have (:mod:`custom_metrics.scores.character_labels`)."""
UNREAD = Metric("unread_rate", DEFINED_SHARE, False, "all replies of the judge", "share of replies that say no rating")
_COUNTED_IN_WORDS = {
    "precision": "share of the flagged words that are hallucinated",
    "recall": "share of the hallucinated words that are flagged",
}
_SHARES_OF_REPLIES = {
    "altered_rate": "share of replies with other characters than the answer, white space aside",
    "lost_rate": "share of replies that are not the answer with tags; they flag no word, and count as wrong",
}
_OF_WORDS = tuple(
    Metric(name, f"custom_metrics.scores.detection.{name}", True, _WORDS, definition=text, unit="score")
    for name, text in _COUNTED_IN_WORDS.items()
)
_OF_REPLIES = tuple(
    Metric(name, DEFINED_SHARE, False, "all answers", definition=text) for name, text in _SHARES_OF_REPLIES.items()
)


def detection_base(
    file: str,
    comment: str,
    documents: str,
    dataset_path: str,
    process_results: str,
    reply: Step = "final_answer",
    metrics: tuple[Metric, ...] = (),
    task: str = "lm_eval_tasks.harness.task.GroundedTask",
    of_words: bool = True,
) -> Base:
    """The base of detection tasks; arguments are those of :class:`lm_eval_tasks.definition.schema.Base`, but for
    `reply`, the filter that finds the tagged answer in a model's reply. `metrics` come before the ones over words, and
    are the headlines in their place. Without `of_words`, people marked no words: there is no target, and none are
    counted."""
    return Base(
        file=file,
        comment=comment,
        task=task,
        documents=documents,
        dataset_path=dataset_path,
        include=("../detection/_tagging_base",),
        prompt={} if of_words else {"doc_to_target": ""},
        filters={"tags": (reply, "take_first")},
        process_results=process_results,
        metrics=(*metrics, *((replace(_F1, headline=not metrics), *_OF_WORDS) if of_words else ()), *_OF_REPLIES),
    )
