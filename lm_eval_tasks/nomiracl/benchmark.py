"""The tasks of NoMIRACL: ``nomiracl_<language>``, the same under the paper's other three prompts and with fewer questions,
and a group for each."""

from __future__ import annotations

from lm_eval_tasks.definition.schema import Base, Benchmark, Group, Metric, Task, balanced_error, by_labels
from lm_eval_tasks.nomiracl import LANGUAGES

PROMPTS = ("vanilla", "role", "repeat", "explanation")

_BASE = Base(
    "_nomiracl_base",
    """\
What all NoMIRACL tasks share, with the vanilla prompt. A YAML of your own can include it: README.md, "Your own prompt".""",
    task="lm_eval_tasks.harness.task.GroundedTask",
    documents="lm_eval_tasks.nomiracl.dataset.load_task",
    dataset_path="miracl/nomiracl",
    include=("_nomiracl_vanilla",),
    filters={
        parser: ({"function": "nomiracl_label", "parser": parser}, "take_first") for parser in ("strict", "robust")
    },
    process_results="custom_metrics.relevance.process_results",
    metrics=(
        balanced_error(("hallucination_rate", "error_rate"), "robust"),
        Metric(
            "hallucination_rate",
            "defined_share",
            False,
            "non-relevant questions whose answer can be read",
            definition="share that says the passages answer: FP / (FP + TN)",
            title="Answers although no passage does",
            sentence="It claims to see an answer in {value} of the cases where no passage holds one",
            headline=True,
            filter="robust",
            traded_against="error_rate",
        ),
        Metric(
            "error_rate",
            "defined_share",
            False,
            "relevant questions whose answer can be read",
            definition="share that says they do not: FN / (FN + TP)",
            title="Misses an answer that is there",
            sentence="It says that it does not know in {value} of the cases where a passage holds the answer",
            headline=True,
            filter="robust",
        ),
        Metric("accuracy", "defined_share", True, "all questions", definition="share that is right", filter="robust"),
        Metric(
            "invalid_rate",
            "defined_share",
            False,
            "all questions",
            definition="share that cannot be read",
            filter="robust",
        ),
    ),
)


def suffix(prompt: str) -> str:
    """The suffix of a prompt in the names of tasks and groups; empty for vanilla."""
    return "" if prompt == "vanilla" else f"_{prompt}"


def _group(prompt: str) -> Group:
    include = () if prompt == "vanilla" else (f"_nomiracl_{prompt}",)  # which includes the base
    tasks = tuple(
        Task(f"nomiracl_{language}{suffix(prompt)}", _BASE, {"language": language}, folder=prompt, include=include)
        for language in LANGUAGES
    )
    return Group(f"nomiracl{suffix(prompt)}", tasks, folder=prompt)


LITE_LANGUAGES = ("ar", "de", "en", "es", "fr", "ja", "sw", "yo", "zh")  # whose released answers it was tried on
LITE_DOCUMENTS = 50  # questions of each subset in ``nomiracl_lite_<language>``

_LITE = Group(
    "nomiracl_lite",
    tuple(
        Task(f"nomiracl_lite_{code}", _BASE, {"language": code, "documents": str(LITE_DOCUMENTS)}, folder="lite")
        for code in LITE_LANGUAGES
    ),
    folder="lite",
)
_GROUPS = (*map(_group, PROMPTS), _LITE)

BENCHMARK = Benchmark(
    version=2.0,
    tasks=tuple(task for group in _GROUPS for task in group.tasks),
    groups=_GROUPS,
    languages={code: folder.capitalize() for code, folder in LANGUAGES.items()},
    title="NoMIRACL",
    questions={"nomiracl": "Does it know when the passages do not answer?"},
    more_metrics=by_labels(_BASE.metrics),
)
