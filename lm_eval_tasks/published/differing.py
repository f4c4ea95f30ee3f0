"""In what a run was measured otherwise than a published figure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.published.rows import PublishedRow
from lm_eval_tasks.runs import TaskRun

__all__ = ["answered_otherwise", "differs"]

_PROMPT = re.compile(r"_(role|repeat|explanation|gpt|llama)$")
_USUAL_PROMPT = {"nomiracl": "vanilla", "clapnq": "FLAN-T5's"}
_PROMPTS = {"gpt": "GPT's", "llama": "Llama's"}
_OF_RETRIEVAL = re.compile(r"(ndcg|recall)@\d+|gold_retrieved")
_SUBSETS = ("relevant", "non_relevant")
_LACKING = re.compile(r"\d+ of \d+ (?P<subset>relevant|non-relevant) questions")


def differs(row: PublishedRow, run: TaskRun) -> list[str]:
    """In what the number of a run is another one than the published: documents, prompt, passages, detector, counting.

    Empty where both numbers measure the same, so that their difference says something about the two models. How the answers
    were made is not part of it: :func:`answered_otherwise`.

    Args:
        row: of :func:`lm_eval_tasks.published.rows_for`, for a task of the run's.
        run: a task of a run.
    """
    source = row.source
    if not run.provenance:
        return ["the results do not say what they were measured on: they have no provenance"]
    found = _other_documents(row, run)
    split = str(run.provenance.get("split") or "")
    if row.split and split != row.split and not any(split and split in reason for reason in found):
        found.append(f"split {split or 'unknown'}, this figure is of split {row.split}")
    generation = not _OF_RETRIEVAL.fullmatch(row.metric)
    if generation:
        found += _prompted_otherwise(row, run)
        found += _given_otherwise(row, run)
    if source.detector and source.of != "detector" and run.detector.get("name") != source.detector:
        found.append(f"detector {run.detector.get('name') or 'unknown'}, theirs is {source.detector}")
    if row.metric in source.counting:
        found.append(source.counting[row.metric])
    return list(dict.fromkeys(found))


def _other_documents(row: PublishedRow, run: TaskRun) -> list[str]:
    """What the run says of its documents, without what is about the subset that a metric does not count."""
    counted = row.source.subset.get(row.metric, "")
    options = run.provenance.get("options")
    asked = str(options.get("subset") or "") if isinstance(options, Mapping) else ""
    alone = [f"the {asked.replace('_', '-')} questions alone"] if asked in _SUBSETS and not counted else []
    lacking = (_LACKING.fullmatch(reason) for reason in run.not_comparable)
    return alone + [
        reason
        for reason, lacks in zip(run.not_comparable, lacking, strict=True)
        if not (counted and lacks and lacks["subset"] != counted)
    ]


def answered_otherwise(row: PublishedRow, run: TaskRun, model: str = "") -> list[str]:
    """What is known to differ in how answers were made, which counts to a model as it was used: the difference is computed,
    and this is said beside it.

    Args:
        row, run: as of :func:`differs`.
        model: the kind of the run's model, as ``lm_eval --model`` has it. How the answers of ``replay`` were made is not
            known.
    """
    said = []
    sampled = _is_sampled(run.settings.generation)
    if row.source.sampled is not None and model not in WEIGHTLESS and sampled != row.source.sampled:
        theirs = f"theirs {'was sampled' if row.source.sampled else 'was greedy'} ({row.source.decoding})"
        said.append(f"decoding is {'sampled' if sampled else 'greedy'}, {theirs}")
    if row.source.of == "model" and run.settings.system_instruction:
        said.append("this run has a system instruction")
    return said


def _is_sampled(generation: Mapping[str, Any]) -> bool:
    return bool(generation.get("do_sample")) and generation.get("temperature") != 0


def _prompted_otherwise(row: PublishedRow, run: TaskRun) -> list[str]:
    if row.model in row.source.any_prompt or row.num_fewshot is None:
        return []
    found = []
    theirs, ours = _prompt_of(row.task), _prompt_of(run.task)
    if theirs != ours:
        found.append(f"prompt {ours}, theirs for this model is {theirs}")
    if row.num_fewshot != run.settings.shots:
        found.append(f"{run.settings.shots} shots, theirs are {row.num_fewshot}")
    return found


def _prompt_of(task: str) -> str:
    match = _PROMPT.search(task)
    return _PROMPTS.get(match[1], match[1]) if match else _USUAL_PROMPT.get(task.partition("_")[0], "")


def _given_otherwise(row: PublishedRow, run: TaskRun) -> list[str]:
    """Of tasks with retrieval: who chose how many passages."""
    if row.source.passages_given is None:
        return []
    options = run.provenance.get("options")
    known: Mapping[str, Any] = options if isinstance(options, Mapping) else {}
    theirs, ours = _retriever_of(row.task), str(known.get("retriever") or _retriever_of(run.task))
    found = [f"retriever {ours}, theirs is {theirs}"] if ours != theirs else []
    given = known.get("top_k")
    if given is not None and given != row.source.passages_given:
        found.append(f"top {given} passages, theirs are {row.source.passages_given}")
    return found


def _retriever_of(task: str) -> str:
    return _PROMPT.sub("", task).removeprefix("clapnq_rag").lstrip("_") or "bm25"
