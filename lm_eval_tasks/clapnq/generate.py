"""Write the task YAMLs of CLAPnq: ``python -m lm_eval_tasks.clapnq.generate``.

The metric lists, which YAML cannot share between bases, and one tiny YAML for each setting, retriever and prompt; a test
holds the files on disk against this script. The prompts are written by hand: ``_prompt_*``.
"""

from __future__ import annotations

from pathlib import Path

from custom_metrics.grounding import BOUNDED, BY_RETRIEVAL, CUTOFFS, FOUND, MEANS, SHARES
from lm_eval_tasks.clapnq.retrieval import RETRIEVERS
from lm_eval_tasks.generated import write_files

PROMPTS = {"": "flan", "_gpt": "gpt", "_llama": "llama"}
_BETTER = {"answerable_abstention_rate": "false", "length": "null"}  # the less, the better; near the references


def metric(name: str, kind: str, aggregation: str = "defined_mean") -> str:
    """A line of a metric list."""
    better = _BETTER.get(kind, "true")
    return f"  - {{metric: {name}, aggregation: {aggregation}, higher_is_better: {better}}}\n"


def with_bounds(name: str, kind: str) -> str:
    """A metric and, where its kind has them, its bounds: Wilson for shares of questions, bootstrap for means."""
    lines = metric(name, kind)
    if kind in BOUNDED:
        interval = "wilson" if kind in SHARES else "bootstrap"
        lines += "".join(metric(f"{name}_ci_{end}", kind, f"{interval}_{end}") for end in ("low", "high"))
    return lines


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
    text += "".join(with_bounds(name, name) for name in (*MEANS, "length", *SHARES))
    if retrieval:
        text += "".join(metric(f"ndcg@{k}", "ndcg") for k in CUTOFFS) + metric("recall@10", "ndcg")
        text += metric("gold_retrieved", "ndcg")
        text += "".join(with_bounds(f"{name}{found}", name) for found in FOUND for name in BY_RETRIEVAL)
    return text + "metadata:\n  version: 1.2\n"


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
