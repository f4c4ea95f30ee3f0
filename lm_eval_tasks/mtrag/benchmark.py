"""The tasks of MTRAG's ratings: ``mtrag_ratings`` for detectors, ``mtrag_ratings_judge`` for judges."""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.definition.schema import Base, Benchmark, Metric, Task
from lm_eval_tasks.detection import UNREAD, detection_base
from lm_eval_tasks.mtrag import QUALITIES

_DATA, _KINDS, _TASK = "IBM/mt-rag-benchmark", "custom_metrics.scores.ratings", "lm_eval_tasks.mtrag.task"
_FAITHFUL = "answers that do not abstain"
_SHOWN: dict[str, Any] = {"counted": "answers", "headline": True}
_DOUBTED = {4: "doubt", 3: "doubt strongly"}


def _auc(below: int, doubted: str) -> Metric:
    return Metric(
        *(f"auc_below_{below}", f"{_KINDS}.auc_below_{below}", True, _FAITHFUL),
        f"probability that an answer whose median rating of faithfulness is below {below} gets a worse score than another",
        unit="score",
        label=f"AUC of answers below {below}",
        title=f"Finds answers whose faithfulness people {doubted}",
        sentence=f"It ranks an answer whose faithfulness people {doubted} below another one with probability "
        f"{{value}} (0.5 is a guess); one rater, held against the others, with {{auc_below_{below}_rater}}",
        prominence=int(below == 4),
        **_SHOWN,
    )


_METRICS = (
    *(_auc(below, doubted) for below, doubted in _DOUBTED.items()),
    *(
        Metric(
            *(f"rho_{quality}", f"{_KINDS}.rank_correlation", True, "all answers" if number else _FAITHFUL),
            f"rank correlation of the scores with people's median rating of {quality}",
            unit="correlation",
            title=f"Agrees with people on {quality}",
            sentence=f"Its scores and people's ratings of {quality} have a rank correlation of {{value}}; those of one "
            f"rater and of the others have {{rho_{quality}_rater}}",
            **_SHOWN,
        )
        for number, quality in enumerate(QUALITIES)
    ),
)

_DETECTION = detection_base(
    "_mtrag_ratings_base",
    "Passages, and an answer that a model wrote from them and people rated; the score is the share of words without a tag.",
    documents="lm_eval_tasks.mtrag.dataset.load_task",
    dataset_path=_DATA,
    process_results=f"{_TASK}.process_results",
    reply="copied_answer",
    metrics=_METRICS,
    task=f"{_TASK}.RatingsTask",
    of_words=False,
)
_JUDGE = Base(
    "_mtrag_ratings_judge_base",
    "The prompts of clapnq_judge, of the answers that people rated.",
    task=f"{_TASK}.RatingsTask",
    documents="lm_eval_tasks.mtrag.dataset.load_judge_task",
    dataset_path=_DATA,
    filters={"rating": ("judge_rating", "take_first")},
    process_results=f"{_TASK}.process_rating",
    metrics=(*_METRICS, UNREAD),
    include=("../clapnq/judge/_prompt_judge",),
)

BENCHMARK = Benchmark(
    version=1.0,
    tasks=(Task("mtrag_ratings", _DETECTION, {}), Task("mtrag_ratings_judge", _JUDGE, {})),
    languages={"en": "English"},
    title="MTRAG's ratings",
    questions={
        "mtrag_ratings": "Does it doubt the RAG answers that people doubt?",
        "mtrag_ratings_judge": "Does it rate RAG answers as people do?",
    },
    detection="mtrag_ratings",
    not_learned="lm_eval_tasks.mtrag.dataset.TEST_SET",
)
