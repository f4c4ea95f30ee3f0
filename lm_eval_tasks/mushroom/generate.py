"""Write the task and group YAMLs of Mu-SHROOM: ``python -m lm_eval_tasks.mushroom.generate``.

One tiny YAML a task and the base they include, with the prompt of mFAVA's detection tasks; a test holds the files on disk
against this script.
"""

from __future__ import annotations

from pathlib import Path

from detector_plugin.prompt import template_text
from lm_eval_tasks.generated import write_files
from lm_eval_tasks.mfava.generate import SCORES, detection_metrics, metric
from lm_eval_tasks.mushroom.languages import LANGUAGES

AGREEMENT = ("iou", "rho")
VERSION = "metadata:\n  version: 1.1\n"


def base() -> str:
    """The base of ``mushroom_<language>``."""
    prompt = "".join(f"  {line}\n" if line else "\n" for line in template_text().rstrip("\n").split("\n"))
    text = f"""\
# Written by generate.py. What all Mu-SHROOM tasks share: a Wikipedia page, an answer that a model wrote on its own, and the
# answer with tags around its errors as what the model should say. The prompt is detector_plugin/detection_prompt.jinja.
class: !function lm_eval_tasks.mfava.task.DetectionTask
custom_dataset: !function lm_eval_tasks.mushroom.dataset.load_task
dataset_path: Helsinki-NLP/mu-shroom
test_split: evaluation
output_type: generate_until
doc_to_text: |-
{prompt}doc_to_target: target
target_delimiter: "\\n"
generation_kwargs:
  until: []
  do_sample: false
  max_gen_toks: 2048
num_fewshot: 0
filter_list:
  - name: tags
    filter:
      - function: copied_answer
      - function: take_first
process_results: !function custom_metrics.character_labels.process_results
metric_list:
"""
    text += "".join(metric(name, "defined_mean", True, "all answers") for name in AGREEMENT)
    return text + detection_metrics() + VERSION


def task_yaml(language: str) -> str:
    """The YAML of one task."""
    return f'include: _mushroom_base\ntask: mushroom_{language}\ndataset_kwargs:\n  task_language: "{language}"\n'


def group_yaml() -> str:
    """The YAML of the group: averages in which each language counts the same."""
    text = "group: mushroom\ntask:\n" + "".join(f"  - mushroom_{language}\n" for language in LANGUAGES)
    text += "aggregate_metric_list:\n"
    for name in (*AGREEMENT, *SCORES, "altered_rate", "lost_rate"):
        text += f"  - metric: {name}\n    aggregation: mean\n    weight_by_size: false\n    filter_list: [tags]\n"
    return text + VERSION


def yamls() -> dict[str, str]:
    """Every generated file: its path below this folder to its content."""
    tasks = {f"mushroom_{language}.yaml": task_yaml(language) for language in LANGUAGES}
    return {"_mushroom_base": base(), "_mushroom.yaml": group_yaml(), **tasks}


if __name__ == "__main__":
    write_files(Path(__file__).parent, yamls())
