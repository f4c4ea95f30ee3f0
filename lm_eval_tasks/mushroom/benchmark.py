"""The tasks of Mu-SHROOM: ``mushroom_<language>`` and their group."""

from __future__ import annotations

from lm_eval_tasks.definition.schema import DEFINED_MEAN, Benchmark, Group, Metric, Task
from lm_eval_tasks.detection.detection_base import detection_base
from lm_eval_tasks.mushroom.dataset import LANGUAGES

__all__ = ["BENCHMARK"]

_BASE = detection_base(
    "_mushroom_base",
    """\
What all Mu-SHROOM tasks share: a Wikipedia page, an answer that a model wrote on its own, and the answer with tags around
its errors as what the model should say.""",
    documents="lm_eval_tasks.mushroom.dataset.load_task",
    dataset_path="Helsinki-NLP/mu-shroom",
    process_results="custom_metrics.scores.character_labels.process_results",
    reply="copied_answer",
    metrics=tuple(Metric(name, DEFINED_MEAN, True, "all answers") for name in ("iou", "rho")),
)
_TASKS = tuple(Task(f"mushroom_{language}", _BASE, {"language": language}) for language in LANGUAGES)

BENCHMARK = Benchmark(
    version=1.2,
    tasks=_TASKS,
    groups=(Group("mushroom", _TASKS),),
    languages={code: language.name for code, language in LANGUAGES.items()},
)
