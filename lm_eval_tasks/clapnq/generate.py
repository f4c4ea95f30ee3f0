"""Write the task YAMLs of CLAPnq: ``python -m lm_eval_tasks.clapnq.generate``.

The metric lists, which YAML cannot share between bases, and one tiny YAML for each setting, retriever and prompt; a test
holds the files on disk against this script. The prompts are written by hand: ``_prompt_*``.
"""

from __future__ import annotations

from pathlib import Path

from lm_eval_tasks.clapnq.retrieval import RETRIEVERS
from lm_eval_tasks.generated import write_files

PROMPTS = {"": "flan", "_gpt": "gpt", "_llama": "llama"}
_ANSWERABLE = "answerable questions"
_IN_CORPUS = "answerable questions whose gold passage is in the corpus"
_REFERENCED = "answerable questions with a gold answer"
METRICS = (
    ("rougeL", "defined_mean", "true", _REFERENCED),
    ("recall", "defined_mean", "true", _REFERENCED),
    ("rougeLp", "defined_mean", "true", _ANSWERABLE),
    ("k_precision", "defined_mean", "true", "answers that do not abstain and hold a letter or digit"),
    ("unanswerable_accuracy", "defined_share", "true", "unanswerable questions"),
    ("answerable_abstention_rate", "defined_share", "false", _ANSWERABLE),
    ("length", "defined_mean", "null", _ANSWERABLE),  # near that of the references: neither more nor less is better
)
OF_RETRIEVAL = (
    ("gold_retrieved", "defined_share", "true", _IN_CORPUS),
    ("ndcg@10", "defined_mean", "true", _IN_CORPUS),
    ("recall@10", "defined_mean", "true", _IN_CORPUS),
)
"""Metric, aggregation, whether higher is better, and the documents that count: the rows of the table, in their order."""


def metric(name: str, aggregation: str, better: str, denominator: str) -> str:
    """An entry of a metric list."""
    return (
        f"  - metric: {name}\n    aggregation: {aggregation}\n    higher_is_better: {better}\n"
        f"    denominator: {denominator}\n"
    )


def base(retrieval: bool) -> str:
    """What all tasks of the gold setting share, or all with retrieval."""
    reader = "process_results_with_retrieval" if retrieval else "process_results"
    text = f"""\
# Written by generate.py. What the tasks {"with retrieval" if retrieval else "with the gold passage"} share.
class: !function lm_eval_tasks.clapnq.task.ClapnqTask
custom_dataset: !function lm_eval_tasks.clapnq.dataset.load_task
dataset_path: PrimeQA/clapnq
test_split: evaluation
output_type: generate_until
filter_list:
  - name: answer
    filter:
      - function: final_answer
      - function: take_first
process_results: !function custom_metrics.grounding.{reader}
metric_list:
"""
    text += "".join(metric(*entry) for entry in (*METRICS, *(OF_RETRIEVAL if retrieval else ())))
    return text + "metadata:\n  version: 1.3\n"


def task_name(retriever: str | None, prompt: str) -> str:
    """``clapnq_gold``, or ``clapnq_rag`` with the retriever (BM25 goes without saying), and the prompt."""
    if retriever is None:
        return f"clapnq_gold{prompt}"
    return f"clapnq_rag{'' if retriever == 'bm25' else f'_{retriever}'}{prompt}"


def task_names() -> frozenset[str]:
    """Every task whose answers are to questions of CLAPnq."""
    return frozenset(task_name(retriever, prompt) for prompt in PROMPTS for retriever in (None, *RETRIEVERS))


def task_yaml(retriever: str | None, prompt: str) -> str:
    """The YAML of one task."""
    name = task_name(retriever, prompt)
    setting = "gold" if retriever is None else "rag"
    text = f"include: [../_{setting}_base, ../_prompt_{PROMPTS[prompt]}]\ntask: {name}\n"
    text += f"dataset_kwargs:\n  task_name: {name}\n"
    return text + ("" if retriever is None else f"  task_retriever: {retriever}\n")


def yamls() -> dict[str, str]:
    """Every generated file: its path below this folder to its content."""
    contents = {"_gold_base": base(retrieval=False), "_rag_base": base(retrieval=True)}
    for prompt in PROMPTS:
        for retriever in (None, *RETRIEVERS):
            folder = "gold" if retriever is None else "rag"
            contents[f"{folder}/{task_name(retriever, prompt)}.yaml"] = task_yaml(retriever, prompt)
    return contents


if __name__ == "__main__":
    write_files(Path(__file__).parent, yamls())
