"""The tasks of Capitals: ``capitals_<language>`` and their group."""

from __future__ import annotations

from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Base, Benchmark, Group, Metric, Task

LANGUAGES = {"de": "German", "no": "Norwegian"}

_BASE = Base(
    "_capitals_base",
    "What all tasks of Capitals share: a question, and a passage that answers it.",
    task="lm_eval_tasks.harness.task.GroundedTask",
    documents="dataset.load_task",
    dataset_path="atlas/capitals",
    prompt={
        "doc_to_text": "{{ reference }}\n\n{{ question }}",
        "doc_to_target": "capital",
        "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 32},
        "num_fewshot": 0,
    },
    filters={"answer": ("final_answer", "take_first")},
    process_results="dataset.process_results",
    metrics=(
        Metric(
            "correct",
            DEFINED_SHARE,
            True,
            "all questions",
            definition="share of answers that hold the capital",
            label="correct answers",
            title="Knows the capital",
            sentence="It names the capital of {value} of the countries, in {words} words on average",
            headline=True,
            traded_against="words",
        ),
        Metric(
            "words",
            DEFINED_MEAN,
            False,
            "questions with a correct answer",
            definition="words of a correct answer",
            unit="words",
            title="Words of an answer",
            sentence="A correct answer has {value} words",
            counted="answers",
        ),
    ),
)
_TASKS = tuple(Task(f"capitals_{language}", _BASE, {"language": language}) for language in LANGUAGES)

BENCHMARK = Benchmark(
    version=1.0,
    tasks=_TASKS,
    groups=(Group("capitals", _TASKS),),
    languages=LANGUAGES,
    title="Capitals of the World",
    questions={"capitals": "Does it know its geography?"},
)
