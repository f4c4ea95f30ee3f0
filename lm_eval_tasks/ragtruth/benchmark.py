"""The tasks of RAGTruth: ``ragtruth_<part>`` for detectors, ``ragtruth_judge_<part>`` for judges, and their groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lm_eval_tasks.definition.schema import Base, Benchmark, Group, Metric, Task
from lm_eval_tasks.detection import IOU, RHO, UNREAD, detection_base
from lm_eval_tasks.ragtruth import PARTS

_COUNTED, _ANSWERS = "custom_metrics.scores.detection", "all answers"
_HEADLINE: dict[str, Any] = {"unit": "score", "counted": "answers", "headline": True}
_SHARES = {
    "precision": "share of the flagged answers that have a marked span",
    "recall": "share of the answers with a marked span that are flagged",
}

_OF_ANSWERS = (
    Metric(
        *("example_f1", f"{_COUNTED}.f1", True, _ANSWERS),
        definition="harmonic mean of precision and recall of the answers with a marked span; any flag counts",
        label="example F1",
        title="Finds answers with something unsupported",
        sentence="By any flag, its F1 on the answers with something unsupported is {value}",
        prominence=2,
        **_HEADLINE,
    ),
    Metric(
        *("answer_auc", "custom_metrics.scores.ratings.auc", True, _ANSWERS),
        definition="probability that an answer with a marked span has more evidence against it than one without",
        label="AUC of answers",
        title="Ranks answers with something unsupported first",
        sentence="It ranks an answer with something unsupported above another one with probability {value} (0.5 is a "
        "guess)",
        **_HEADLINE,
    ),
    *(
        Metric(f"example_{name}", f"{_COUNTED}.{name}", True, _ANSWERS, definition, unit="score")
        for name, definition in _SHARES.items()
    ),
)

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
        *_OF_ANSWERS[:2],
        replace(IOU, title="Agrees with people on what is unsupported", prominence=0),
        RHO,
        *_OF_ANSWERS[2:],
    ),
)
_JUDGE = Base(
    "_ragtruth_judge_base",
    "A judge of whole answers: clapnq_judge's prompt of faithfulness. Any rating but 4 flags an answer.",
    task="lm_eval_tasks.harness.task.GroundedTask",
    documents="lm_eval_tasks.ragtruth.dataset.load_judge_task",
    dataset_path="ParticleMedia/RAGTruth",
    filters={"rating": ("judge_rating", "take_first")},
    process_results="lm_eval_tasks.ragtruth.dataset.process_rating",
    metrics=(*_OF_ANSWERS, UNREAD),
    include=("../clapnq/judge/_prompt_judge",),
)
_TASKS = tuple(Task(f"ragtruth_{part}", _BASE, {"part": part}) for part in PARTS)
_JUDGES = tuple(Task(f"ragtruth_judge_{part}", _JUDGE, {"part": part}, "judge") for part in PARTS)
_QUESTION = (
    "Does it find what people marked as unsupported in RAG answers and summaries? (RAGTruth's labels miss much: "
    "RAGTruth++ found 865 spans in 408 of its answers, where RAGTruth has 86.)"
)

BENCHMARK = Benchmark(
    version=1.1,
    tasks=(*_TASKS, *_JUDGES),
    groups=(Group("ragtruth", _TASKS), Group("ragtruth_judge", _JUDGES, "judge")),
    languages={"en": "English"},
    title="RAGTruth",
    questions={
        "ragtruth": _QUESTION,
        "ragtruth_judge": "Does it find RAG answers and summaries in which people marked something as unsupported?",
    },
    detection="ragtruth",
    not_learned="lm_eval_tasks.ragtruth.dataset.TEST_SET",
)
