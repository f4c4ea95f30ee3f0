"""Write the task and group YAMLs of mFAVA: ``python -m lm_eval_tasks.mfava.generate``.

One tiny YAML a task and one a group, and the bases they include, whose metrics and prompt would be long to write by hand; a
test holds the files on disk against this script.
"""

from __future__ import annotations

from pathlib import Path

from detector_plugin.prompt import template_text
from lm_eval_tasks.generated import write_files
from lm_eval_tasks.mfava.estimation import RATES
from lm_eval_tasks.mfava.languages import LANGUAGES

VERSION = "metadata:\n  version: 1.2\n"
SHARES = ("abstention_rate", "repetition_rate")
SCORES = ("f1", "precision", "recall")
FAITHFUL = ("altered_rate", "lost_rate")
_ESTIMATION = "lm_eval_tasks.mfava.estimation"
_DETECTION = "custom_metrics.detection"
_WORDS = "answers with a word that the detector has read; counted in words"


def metric(name: str, aggregation: str, higher_is_better: bool | None, denominator: str) -> str:
    """An entry of a metric list.

    Args:
        name: of the metric.
        aggregation: its name, or ``!function`` and where it is.
        higher_is_better: ``None`` where neither is better: the harness's table then has no arrow.
        denominator: the documents that count, for ``figures`` in the results file.
    """
    better = "null" if higher_is_better is None else str(higher_is_better).lower()
    return (
        f"  - metric: {name}\n    aggregation: {aggregation}\n    higher_is_better: {better}\n"
        f"    denominator: {denominator}\n"
    )


def detection_metrics() -> str:
    """What all detection tasks measure."""
    text = "".join(
        metric(score, f"!function {_DETECTION}.{score}", True, "all answers; counted in words") for score in SCORES
    )
    return text + "".join(metric(share, "defined_share", False, "all answers") for share in FAITHFUL)


def estimation_base() -> str:
    """The base of ``mfava_<language>``."""
    text = """\
# Written by generate.py. What all estimation tasks share: the question alone, an answer of up to 1024 tokens, sampled.
# Which figures of the paper's Table 8 fit which family of models: README.md.
class: !function lm_eval_tasks.mfava.task.EstimationTask
custom_dataset: !function lm_eval_tasks.mfava.dataset.load_task
dataset_path: WueNLP/mHallucination_Evaluation
test_split: evaluation
output_type: generate_until
doc_to_text: "{{ query }}"
doc_to_target: ""
target_delimiter: ""
generation_kwargs:
  until: []
  do_sample: true
  temperature: 1.0
  max_gen_toks: 1024
num_fewshot: 0
filter_list:
  - name: answer
    filter:
      - function: final_answer
      - function: hallucination_spans
      - function: take_first
process_results: !function lm_eval_tasks.mfava.estimation.process_results
metric_list:
"""
    text += "".join(metric(rate, f"!function {_ESTIMATION}.{rate}", False, _WORDS) for rate in RATES)
    text += metric("response_words", "defined_mean", None, "all answers")
    text += metric("hallucinated_words", "defined_mean", False, "answers that the detector has read")
    text += "".join(metric(share, "defined_share", False, "all answers") for share in SHARES)
    return text + VERSION


def detection_base(category: bool) -> str:
    """The base of ``mfava_detection_<language>_<annotations>``, and of its ``_category`` variant."""
    prompt = "".join(f"  {line}\n" if line else "\n" for line in template_text().rstrip("\n").split("\n"))
    reader = "process_category_results" if category else "process_results"
    what = "hallucinated words by category, macro-averaged" if category else "hallucinated words"
    task = "CategoryTask" if category else "DetectionTask"
    text = f"""\
# Written by generate.py. What the detection tasks share ({what}): a reference, an answer, and the answer with tags
# around its errors as what the model should say. The prompt is detector_plugin/detection_prompt.jinja.
class: !function lm_eval_tasks.mfava.task.{task}
custom_dataset: !function lm_eval_tasks.mfava.detection.load_task
dataset_path: WueNLP/mHallucination_Detection
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
      - function: final_answer
      - function: take_first
process_results: !function {_DETECTION}.{reader}
metric_list:
"""
    return text + detection_metrics() + VERSION


def estimation_yaml(language: str) -> str:
    """The YAML of one estimation task."""
    return f'include: ../_mfava_base\ntask: mfava_{language}\ndataset_kwargs:\n  task_language: "{language}"\n'


def detection_yaml(language: str, kind: str, suffix: str) -> str:
    """The YAML of one detection task."""
    return (
        f"include: ../_mfava_detection{suffix}_base\n"
        f"task: mfava_detection_{language}_{kind}{suffix}\n"
        f'dataset_kwargs:\n  task_language: "{language}"\n  task_annotations: {kind}\n'
    )


def group_yaml(group: str, tasks: list[str], metrics: tuple[str, ...]) -> str:
    """The YAML of a group: averages in which each language counts the same."""
    text = f"group: {group}\ntask:\n" + "".join(f"  - {task}\n" for task in tasks) + "aggregate_metric_list:\n"
    for name in metrics:
        text += f"  - metric: {name}\n    aggregation: mean\n    weight_by_size: false\n"
        text += f"    filter_list: [{'tags' if 'detection' in group else 'answer'}]\n"
    return text + VERSION


def yamls() -> dict[str, str]:
    """Every generated file: its path below this folder to its content."""
    contents = {
        "_mfava_base": estimation_base(),
        "_mfava_detection_base": detection_base(category=False),
        "_mfava_detection_category_base": detection_base(category=True),
    }
    for language in LANGUAGES:
        contents[f"wild/mfava_{language}.yaml"] = estimation_yaml(language)
    in_paper = [f"mfava_{code}" for code, language in LANGUAGES.items() if language.in_paper]
    averaged = (*RATES, "response_words", "hallucinated_words", *SHARES)
    contents["wild/_mfava.yaml"] = group_yaml("mfava", in_paper, averaged)
    for suffix, folder in (("", "binary"), ("_category", "category")):
        for kind in ("gold", "silver"):
            with_them = [code for code, known in LANGUAGES.items() if (known.gold if kind == "gold" else known.silver)]
            for language in with_them:
                name = f"mfava_detection_{language}_{kind}{suffix}"
                contents[f"{folder}/{name}.yaml"] = detection_yaml(language, kind, suffix)
            tasks = [f"mfava_detection_{language}_{kind}{suffix}" for language in with_them]
            group = f"mfava_detection_{kind}{suffix}"
            contents[f"{folder}/_{group}.yaml"] = group_yaml(group, tasks, (*SCORES, *FAITHFUL))
    return contents


if __name__ == "__main__":
    write_files(Path(__file__).parent, yamls())
