"""The base of all detection tasks: the prompt, how a reply is read, and the metrics over tagged words.

Used by the tables of mFAVA (``mfava_detection_*``) and Mu-SHROOM.
"""

from __future__ import annotations

from detector_plugin.prompt import template_text
from lm_eval_tasks.definition.schema import DEFINED_SHARE, Base, Metric, Step

__all__ = ["detection_base"]

_METRICS = (
    *(
        Metric(score, f"custom_metrics.scores.detection.{score}", True, "all answers; counted in words")
        for score in ("f1", "precision", "recall")
    ),
    *(Metric(share, DEFINED_SHARE, False, "all answers") for share in ("altered_rate", "lost_rate")),
)


def detection_base(
    file: str,
    says: str,
    documents: str,
    dataset_path: str,
    process_results: str,
    reply: Step = "final_answer",
    metrics: tuple[Metric, ...] = (),
    task: str = "lm_eval_tasks.harness.task.GroundedTask",
) -> Base:
    """The base of detection tasks.

    Args:
        file, says, documents, dataset_path, process_results, task: see :class:`lm_eval_tasks.definition.schema.Base`.
        reply: the filter that finds the tagged answer in a model's reply.
        metrics: those that come before the ones over words.
    """
    return Base(
        file=file,
        says=f"{says}\nThe prompt is detector_plugin/detection_prompt.jinja.",
        task=task,
        documents=documents,
        dataset_path=dataset_path,
        prompt={
            "doc_to_text": template_text().rstrip("\n"),
            "doc_to_target": "target",
            "target_delimiter": "\n",
            "generation_kwargs": {"until": [], "do_sample": False, "max_gen_toks": 2048},
            "num_fewshot": 0,
        },
        filters={"tags": (reply, "take_first")},
        process_results=process_results,
        metrics=(*metrics, *_METRICS),
    )
