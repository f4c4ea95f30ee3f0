"""The tasks of CLAPnq: ``clapnq_gold*`` (the gold passage) and ``clapnq_rag*`` (a retriever's), each under three prompts.

The prompts are written by hand (``_prompt_*``), as are the judge's tasks (``judge/``).
"""

from __future__ import annotations

from lm_eval_tasks.clapnq.retrieval import RETRIEVERS
from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Base, Benchmark, Metric, Task

__all__ = ["BENCHMARK"]

_PROMPTS = {"": "_prompt_flan", "_gpt": "_prompt_gpt", "_llama": "_prompt_llama"}

_ANSWERABLE = "answerable questions"
_REFERENCED = "answerable questions with a gold answer"
_IN_CORPUS = "answerable questions whose gold passage is in the corpus"
_OF_ANSWERS = (
    Metric("rougeL", DEFINED_MEAN, True, _REFERENCED),
    Metric("recall", DEFINED_MEAN, True, _REFERENCED),
    Metric("rougeLp", DEFINED_MEAN, True, _ANSWERABLE),
    Metric("k_precision", DEFINED_MEAN, True, "answers that do not abstain and hold a letter or digit"),
    Metric("unanswerable_accuracy", DEFINED_SHARE, True, "unanswerable questions"),
    Metric("answerable_abstention_rate", DEFINED_SHARE, False, _ANSWERABLE),
    Metric("length", DEFINED_MEAN, None, _ANSWERABLE),  # near that of the references: neither more nor less is better
)
_OF_RETRIEVAL = (
    Metric("gold_retrieved", DEFINED_SHARE, True, _IN_CORPUS),
    Metric("ndcg@10", DEFINED_MEAN, True, _IN_CORPUS),
    Metric("recall@10", DEFINED_MEAN, True, _IN_CORPUS),
)


def _base(file: str, says: str, process_results: str, metrics: tuple[Metric, ...]) -> Base:
    return Base(
        file,
        says,
        task="lm_eval_tasks.clapnq.task.ClapnqTask",
        documents="lm_eval_tasks.clapnq.dataset.load_task",
        dataset_path="PrimeQA/clapnq",
        filters={"answer": ("final_answer", "take_first")},
        process_results=f"custom_metrics.scores.grounding.{process_results}",
        metrics=metrics,
    )


_GOLD = _base("_gold_base", "What the tasks with the gold passage share.", "process_results", _OF_ANSWERS)
_RAG = _base(
    "_rag_base",
    "What the tasks with retrieval share.",
    "process_results_with_retrieval",
    (*_OF_ANSWERS, *_OF_RETRIEVAL),
)


def _gold(prompt: str) -> Task:
    name = f"clapnq_gold{prompt}"
    return Task(name, _GOLD, {"name": name}, folder="gold", include=(_GOLD.file, _PROMPTS[prompt]))


def _rag(retriever: str, prompt: str) -> Task:
    name = f"clapnq_rag{'' if retriever == 'bm25' else f'_{retriever}'}{prompt}"  # BM25 goes without saying
    options = {"name": name, "retriever": retriever}
    return Task(name, _RAG, options, folder="rag", include=(_RAG.file, _PROMPTS[prompt]))


BENCHMARK = Benchmark(
    version=1.7,
    tasks=(
        *map(_gold, _PROMPTS),
        *(_rag(retriever, prompt) for prompt in _PROMPTS for retriever in RETRIEVERS),
    ),
    languages={"en": "English"},
)
