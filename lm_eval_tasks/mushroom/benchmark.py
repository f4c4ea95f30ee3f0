"""The tasks of Mu-SHROOM: ``mushroom_<language>`` and their group."""

from __future__ import annotations

from lm_eval_tasks.definition.schema import Benchmark, Group, Task
from lm_eval_tasks.detection import IOU, RHO, detection_base
from lm_eval_tasks.mushroom.dataset import LANGUAGES

_BASE = detection_base(
    "_mushroom_base",
    """\
What all Mu-SHROOM tasks share: a context, an answer that a model wrote on its own, and the answer with
tags around its errors as what the model should say.""",
    documents="lm_eval_tasks.mushroom.dataset.load_task",
    dataset_path="Helsinki-NLP/mu-shroom",
    process_results="custom_metrics.scores.detection.process_character_results",
    reply="copied_answer",
    metrics=(IOU, RHO),
)
_TASKS = tuple(Task(f"mushroom_{language}", _BASE, {"language": language}) for language in LANGUAGES)

BENCHMARK = Benchmark(
    version=3.1,
    tasks=_TASKS,
    groups=(Group("mushroom", _TASKS),),
    languages={code: language.name for code, language in LANGUAGES.items()},
    title="Mu-SHROOM",
    questions={"mushroom": "Does it find what people marked as hallucinated in closed-book answers?"},
    detection="mushroom",
    labelled="lm_eval_tasks.mushroom.dataset.LABELLED",
)
