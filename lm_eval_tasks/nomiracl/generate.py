"""Write the task and group YAMLs of NoMIRACL: ``python -m lm_eval_tasks.nomiracl.generate``.

One tiny YAML a task (18 languages, 4 prompts) and one a group; a test holds the files on disk against this script.
"""

from __future__ import annotations

from pathlib import Path

from lm_eval_tasks.generated import write_files
from lm_eval_tasks.nomiracl.dataset import LANGUAGES

PROMPTS = ("vanilla", "role", "repeat", "explanation")

MACRO_AVERAGED = (
    "hallucination_rate",
    "error_rate",
    "accuracy",
    "invalid_rate",
)
"""Averaged over languages without weights."""


def suffix(prompt: str) -> str:
    """What a prompt adds to the names of tasks and groups: nothing for vanilla."""
    return "" if prompt == "vanilla" else f"_{prompt}"


def task_yaml(language: str, prompt: str) -> str:
    """The YAML of one task."""
    base = "_nomiracl_base" if prompt == "vanilla" else f"_nomiracl_{prompt}"
    lines = (
        f"include: ../{base}",
        f"task: nomiracl_{language}{suffix(prompt)}",
        "dataset_kwargs:",
        f'  task_language: "{language}"',
    )
    return "\n".join(lines) + "\n"


def group_yaml(prompt: str) -> str:
    """The YAML of the group of all languages under one prompt."""
    lines = [f"group: nomiracl{suffix(prompt)}", "task:"]
    lines += [f"  - nomiracl_{language}{suffix(prompt)}" for language in LANGUAGES]
    lines += ["aggregate_metric_list:"]
    for metric in MACRO_AVERAGED:
        lines += [f"  - metric: {metric}", "    aggregation: mean", "    weight_by_size: false"]
        lines += ["    filter_list: [strict, robust]"]
    return "\n".join([*lines, "metadata:", "  version: 1.2", ""])


def yamls() -> dict[str, str]:
    """Every generated file: its path below this folder to its content."""
    contents = {}
    for prompt in PROMPTS:
        contents[f"{prompt}/_nomiracl{suffix(prompt)}.yaml"] = group_yaml(prompt)
        for language in LANGUAGES:
            contents[f"{prompt}/nomiracl_{language}{suffix(prompt)}.yaml"] = task_yaml(language, prompt)
    return contents


if __name__ == "__main__":
    write_files(Path(__file__).parent, yamls())
