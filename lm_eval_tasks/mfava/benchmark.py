"""The tasks of mFAVA: ``mfava_<language>`` (estimation), ``mfava_detection_<language>_<annotations>``, and their groups."""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Base, Benchmark, Group, Metric, Task
from lm_eval_tasks.detection import detection_base
from lm_eval_tasks.detection.marked import MARKED_RATE, NEEDS, REMEDY
from lm_eval_tasks.mfava.dataset import LANGUAGES


def _rate(name: str, **text: Any) -> Metric:
    """A rate of hallucinated words, from the answers that a detector has read."""
    return Metric(
        name,
        f"lm_eval_tasks.mfava.task.{name}",
        False,
        "answers with a word that the detector has read; counted in words",
        counted="answers",
        headline=True,
        of_detector=True,
        **text,
    )


_ESTIMATION = Base(
    "_mfava_base",
    """\
What all estimation tasks share: the question alone, an answer of up to 1024 tokens, sampled.
Which figures of the paper's Table 8 fit which family of models: README.md.""",
    task="lm_eval_tasks.mfava.task.EstimationTask",
    documents="lm_eval_tasks.mfava.dataset.load_task",
    dataset_path="WueNLP/mHallucination_Evaluation",
    prompt={
        "doc_to_text": "{{ query }}",
        "doc_to_target": "",
        "target_delimiter": "",
        "generation_kwargs": {"until": [], "do_sample": True, "temperature": 1.0, "max_gen_toks": 1024},
        "num_fewshot": 0,
    },
    filters={"answer": ("final_answer", "hallucination_spans", "take_first")},
    process_results="lm_eval_tasks.mfava.task.process_results",
    metrics=(
        _rate(
            "detected_rate",
            definition="share of words that the detector flags: H / N",
            title="Words that a detector flags",
            wins="has fewer of its words flagged than",
            sentence="The detector flags {value} of the words that it writes; nothing corrects this for the detector's "
            "errors",
            fallback_for="estimated_rate",
            is_raw=True,
        ),
        _rate(
            "estimated_rate",
            definition="P·H / (R·N), the paper's Equation 1, with the detector's precision and recall",
            title="Words that are made up, estimated",
            sentence="About {value} of the words that it writes are made up, by the mFAVA paper's Equation 1; the detector "
            "flagged {detected_rate}",
            fallback_for="rogan_gladen_rate",
            needs=NEEDS,
            remedy=REMEDY,
        ),
        _rate(
            "rogan_gladen_rate",
            definition="(H/N - FPR) / (TPR - FPR): the estimate that holds where answers are less, or more, hallucinated "
            "than the calibration texts",
            label="Rogan-Gladen rate",
            title="Words that are made up, corrected",
            sentence="About {value} of the words that it writes are made up, as corrected for the detector's errors "
            "(Rogan-Gladen); the detector flagged {detected_rate}",
            fallback_for="marked_rate",
            needs=NEEDS,
            remedy=REMEDY,
        ),
        Metric("response_words", DEFINED_MEAN, None, "all answers", definition="words of an answer", unit="words"),
        Metric(
            "hallucinated_words",
            DEFINED_MEAN,
            False,
            "answers that the detector has read",
            definition="flagged words of an answer",
            unit="words",
            of_detector=True,
        ),
        Metric("abstention_rate", DEFINED_SHARE, False, "all answers", definition="share that abstains"),
        Metric("repetition_rate", DEFINED_SHARE, False, "all answers", definition="share that runs in circles"),
    ),
)

_BINARY = detection_base(
    "_mfava_detection_base",
    """\
What the detection tasks share (hallucinated words): a reference, an answer, and the answer with tags around its errors as
what the model should say.""",
    documents="lm_eval_tasks.mfava.annotations.load_task",
    dataset_path="WueNLP/mHallucination_Detection",
    process_results="custom_metrics.scores.detection.process_results",
)
_CATEGORY = detection_base(
    "_mfava_detection_category_base",
    """\
What the detection tasks share (hallucinated words by category, macro-averaged): a reference, an answer, and the answer with
tags around its errors as what the model should say.""",
    documents="lm_eval_tasks.mfava.annotations.load_task",
    dataset_path="WueNLP/mHallucination_Detection",
    process_results="custom_metrics.scores.detection.process_category_results",
    task="lm_eval_tasks.mfava.task.CategoryTask",
)


def _detection(annotations: str, category: bool) -> Group:
    suffix = "_category" if category else ""
    tasks = tuple(
        Task(
            f"mfava_detection_{code}_{annotations}{suffix}",
            _CATEGORY if category else _BINARY,
            {"language": code, "annotations": annotations},
            folder="category" if category else "binary",
        )
        for code, language in LANGUAGES.items()
        if (language.gold if annotations == "gold" else language.silver)
    )
    return Group(f"mfava_detection_{annotations}{suffix}", tasks, tasks[0].folder)


_WILD = {code: Task(f"mfava_{code}", _ESTIMATION, {"language": code}, folder="wild") for code in LANGUAGES}
_IN_PAPER = tuple(task for code, task in _WILD.items() if LANGUAGES[code].in_paper)
_DETECTION = tuple(_detection(kind, category) for category in (False, True) for kind in ("gold", "silver"))

BENCHMARK = Benchmark(
    version=1.8,
    tasks=(*_WILD.values(), *(task for group in _DETECTION for task in group.tasks)),
    groups=(Group("mfava", _IN_PAPER, folder="wild"), *_DETECTION),
    languages={code: language.name for code, language in LANGUAGES.items()},
    title="mFAVA",
    questions={
        "mfava": "How much of what it says without a source is made up?",
        "mfava_detection": "Does it find errors that were inserted into texts?",
    },
    detection="mfava_detection",
    more_metrics=(MARKED_RATE,),
    labelled="lm_eval_tasks.mfava.annotations.LABELLED",
)
