"""The tasks of RAGTruth (``ragtruth_qa``, ``ragtruth_summary``, ``ragtruth_data2txt`` a group) and ``faithbench``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lm_eval_tasks.definition.schema import Benchmark, Group, Metric, Task
from lm_eval_tasks.detection.detection_base import IOU, RHO, detection_base
from lm_eval_tasks.ragtruth.dataset import PARTS

_COUNTED, _ANSWERS = "custom_metrics.scores.detection", "all answers"
_HEADLINE: dict[str, Any] = {"unit": "score", "counted": "answers", "headline": True}

_BASE = detection_base(
    "_ragtruth_base",
    """\
What all RAGTruth tasks share: passages, an article or a record, an answer that a model wrote from it, and the answer with
tags around what people marked as unsupported.""",
    documents="lm_eval_tasks.ragtruth.dataset.load_task",
    dataset_path="ParticleMedia/RAGTruth",
    process_results="lm_eval_tasks.ragtruth.dataset.process_results",
    reply="copied_answer",
    metrics=(
        Metric(
            *("span_f1", f"{_COUNTED}.f1", True, f"{_ANSWERS}; counted in characters"),
            definition="harmonic mean of precision and recall of the marked characters",
            label="span F1",
            title="Finds the unsupported characters",
            sentence="Its F1 on the characters that people marked is {value}",
            **_HEADLINE,
        ),
        Metric(
            *("example_f1", f"{_COUNTED}.f1", True, _ANSWERS),
            definition="harmonic mean of precision and recall of the answers with a marked span; any span flags one",
            label="example F1",
            title="Finds answers with something unsupported",
            sentence="By any flag, its F1 on the answers with something unsupported is {value}",
            prominence=2,
            **_HEADLINE,
        ),
        Metric(
            *("answer_auc", "custom_metrics.scores.sentences.auc", True, _ANSWERS),
            definition="probability that an answer with a marked span has more evidence against it than one without",
            label="AUC of answers",
            title="Ranks answers with something unsupported first",
            sentence="It ranks an answer with something unsupported above another one with probability {value} (0.5 is a "
            "guess)",
            **_HEADLINE,
        ),
        replace(IOU, title="Agrees with people on what is unsupported", prominence=0),
        RHO,
        Metric(
            *("example_precision", f"{_COUNTED}.precision", True, _ANSWERS),
            definition="share of the flagged answers that have a marked span",
            unit="score",
        ),
        Metric(
            *("example_recall", f"{_COUNTED}.recall", True, _ANSWERS),
            definition="share of the answers with a marked span that are flagged",
            unit="score",
        ),
    ),
)
_FAITHBENCH = replace(
    _BASE,
    file="_faithbench_base",
    documents="lm_eval_tasks.ragtruth.dataset.load_faithbench_task",
    dataset_path="vectara/FaithBench",
)
_TASKS = tuple(Task(f"ragtruth_{part}", _BASE, {"part": part}) for part in PARTS)
_QUESTION = (
    "Does it find what people marked as unsupported in RAG answers and summaries? (RAGTruth's labels miss much: "
    "RAGTruth++ found 865 spans in 408 of its answers, where RAGTruth has 86.)"
)

BENCHMARK = Benchmark(
    version=1.0,
    tasks=(*_TASKS, Task("faithbench", _FAITHBENCH, {})),
    groups=(Group("ragtruth", _TASKS),),
    languages={"en": "English"},
    title="RAGTruth",
    questions={"ragtruth": _QUESTION, "faithbench": _QUESTION},
    task_type="token-classification",
    detection="ragtruth",
    not_learned="lm_eval_tasks.ragtruth.dataset.TEST_SET",
)
