"""The tasks of Mu-SHROOM: ``mushroom_<language>`` and their group."""

from __future__ import annotations

from lm_eval_tasks.definition.schema import DEFINED_MEAN, Benchmark, Group, Metric, Task
from lm_eval_tasks.detection.detection_base import detection_base
from lm_eval_tasks.mushroom.dataset import LANGUAGES

_BASE = detection_base(
    "_mushroom_base",
    """\
What all Mu-SHROOM tasks share: a Wikipedia page or a context, an answer that a model wrote on its own, and the answer with
tags around its errors as what the model should say.""",
    documents="lm_eval_tasks.mushroom.dataset.load_task",
    dataset_path="Helsinki-NLP/mu-shroom",
    process_results="custom_metrics.scores.character_labels.process_results",
    reply="copied_answer",
    metrics=(
        Metric(
            "iou",
            DEFINED_MEAN,
            True,
            "all answers",
            definition="overlap of the characters that people and the detector mark",
            unit="score",
            label="IoU",
            title="Agrees with people on what is hallucinated",
            sentence="The characters that it flags and those that people marked overlap by {value} on average, as "
            "intersection over union",
            counted="answers",
            headline=True,
            prominence=2,
        ),
        Metric(
            "rho",
            DEFINED_MEAN,
            True,
            "all answers",
            definition="rank correlation of the detector's probabilities with the annotators' votes, over characters",
            unit="correlation",
            title="Ranks characters as people do",
            sentence="Its probabilities rank characters as the annotators' votes do with a correlation of {value} on "
            "average",
            counted="answers",
            headline=True,
        ),
    ),
)
_TASKS = tuple(Task(f"mushroom_{language}", _BASE, {"language": language}) for language in LANGUAGES)

BENCHMARK = Benchmark(
    version=2.0,
    tasks=_TASKS,
    groups=(Group("mushroom", _TASKS),),
    languages={code: language.name for code, language in LANGUAGES.items()},
    title="Mu-SHROOM",
    questions={"mushroom": "Does it find what people marked as hallucinated in closed-book answers?"},
    task_type="token-classification",
    detection="mushroom",
    labelled="lm_eval_tasks.mushroom.dataset.LABELLED",
)
