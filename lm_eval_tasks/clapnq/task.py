"""The harness tasks of CLAPnq: ``clapnq_gold*`` and ``clapnq_rag*``, with the paper's shots and a detector over the answers
where one is named; ``clapnq_judge`` and ``clapnq_judge_pairs``."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from custom_metrics.scores import judging
from custom_metrics.scores.grounding import retrieval_figures
from custom_metrics.statistics.figures import Figure
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.dataset import questions_by_kind
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.provenance import public_file
from lm_eval_tasks.harness import ContextSampler
from lm_eval_tasks.harness.detector_task import FILTER, DetectingTask
from lm_eval_tasks.harness.task import GroundedTask

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Document = Mapping[str, Any]


class PromptedTask(GroundedTask):
    """A task whose plain-text prompt ends with the cue before an answer (``target_delimiter``), and whose chat turns are
    stripped."""

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **how: Any) -> Any:
        template = how.pop("chat_template", None) if how.get("apply_chat_template") else None
        if template is None:
            return super().fewshot_context(doc, num_fewshot, **how) + str(self.config.target_delimiter).rstrip()

        def in_turns(messages: list[dict[str, Any]], **more: Any) -> Any:
            return template([{**message, "content": message["content"].strip()} for message in messages], **more)

        return super().fewshot_context(doc, num_fewshot, chat_template=in_turns, **how)


# ------------------------------------------------------------------------------ the paper's few-shot settings (section 4.2)


def choose_shots(answerable: Sequence[Document], unanswerable: Sequence[Document]) -> list[dict[str, Any]]:
    """The two few-shot examples of every question, the answerable one first; a UsageError without an answerable question
    that has an answer, or an unanswerable one. The paper does not name them. The first rule that fits decides:

    1. the first answerable question whose passage is also an unanswerable question's;
    2. the first whose article is also an unanswerable question's, which then gets the passage of the answerable one (in
       Natural Questions, a question without an answer has none in the whole article);
    3. the first question of each kind, on the passage of the answerable one.
    """
    with_answer = [row for row in answerable if row["answers"]]
    if not with_answer or not unanswerable:
        raise UsageError("clapnq: the train files hold no answerable question with an answer, or no unanswerable one")
    rules: Mapping[str, Callable[[Document], Any]] = {
        "the same passage": lambda row: row["passages"][0],
        "the same article": lambda row: row["passages"][0]["title"],
        "another article": lambda row: None,
    }
    row, partner, rule = next(
        (row, other, rule)
        for rule, key in rules.items()
        for row in with_answer
        for other in unanswerable
        if key(other) == key(row)
    )
    log.info("clapnq: the shots are train questions %s and %s (%s)", row["id"], partner["id"], rule)
    return [dict(row), {**partner, **{column: row[column] for column in ("passages", "groundings")}}]


class PaperShots(ContextSampler):  # type: ignore[misc]
    """The harness's sampler over the two examples. It reads the train files when the first shot is drawn."""

    def __init__(self, load_shots: Callable[[], list[dict[str, Any]]], task: str) -> None:
        super().__init__([])
        self._shots = cache(load_shots)
        self._task = task

    def sample(
        self, n: int, eval_doc: Document | None = None, df: Sequence[Document] | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """The first n examples: 1 is the paper's 1/0, 2 its 1/1, any other number an error."""
        if n not in (1, 2):
            raise UsageError(
                f"{self._task}: --num_fewshot {n}: the settings are 1 (the paper's 1/0: an answerable example) and 2 (its "
                f"1/1: an unanswerable question for the same passage as well)"
            )
        return self._shots()[:n]


# ----------------------------------------------------------------------------------------------------- answering, judging


class ClapnqTask(DetectingTask, PromptedTask):
    """A task with these additions:

    - prompts read well as plain text and as chat (:class:`PromptedTask`);
    - ``--num_fewshot 1`` and ``2`` are the paper's examples, read from the train files when they are needed;
    - plain text with shots stops at the blank line between them, where a base model would continue with the next one;
    - the option ``detector`` runs a detector over the answers against their passages (:class:`DetectingTask`); only then
      the task has the detector's filter and the metrics of :mod:`lm_eval_tasks.clapnq.hallucination`.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        options = {**(config.get("metadata") or {}), **(config.get("dataset_kwargs") or {})}
        super().__init__(config if options.get("detector") is None else _with_detector(config, options))
        self._shot_files: list[dict[str, Any]] = []
        self.sampler = PaperShots(self._shots, self.config.task)

    def _shots(self) -> list[dict[str, Any]]:
        options = self.config.metadata or {}
        if options.get("split") == "train":
            raise UsageError(
                f"{self.config.task}: the shots are of the train split, which cannot be evaluated with them"
            )
        with sources.recording() as located_files:
            shots = choose_shots(*questions_by_kind("train", options.get("mirror")))
        self._shot_files = [public_file(located) for located in located_files]
        return shots

    def fewshot_docs(self) -> list[dict[str, Any]]:
        """An empty list for the harness's own samplers."""
        return []

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """The request, in plain text with the delimiter of the shots as a further stop sequence."""
        made = super().construct_requests(doc, ctx, **kwargs)
        if self.config.num_fewshot and not kwargs.get("apply_chat_template"):
            for request in made if isinstance(made, list) else [made]:
                context, generation = request.arguments
                until = [*generation["until"], self.config.fewshot_delimiter]
                request.arguments = (context, {**generation, "until": until})
        return made

    def process_results(self, doc: dict[str, Any], results: Any) -> Any:
        if not self.tags_answers:
            return super().process_results(doc, results)
        from lm_eval_tasks.clapnq import hallucination

        tagged = json.loads(results[0])
        return {**super().process_results(doc, [tagged["answer"]]), **hallucination.process_results(doc, tagged)}

    def provenance(self) -> dict[str, Any]:
        record = super().provenance()
        if self._shot_files:
            record["files"] = [*record.get("files", ()), *self._shot_files]
        return record

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        """With retrieval: answer quality by what was retrieved, and nDCG at other cutoffs."""
        yield from super().finer_figures(values)
        if "ndcg@10" in values:
            yield from retrieval_figures(values)


def _with_detector(config: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the detector's filter after ``final_answer``, and its metrics."""
    from lm_eval_tasks.clapnq import hallucination

    tagging = {"function": FILTER, "reference": "groundings", "question": "question"}
    filter_list = []
    for pipeline in config["filter_list"]:
        steps = list(pipeline["filter"])
        after = [at for at, step in enumerate(steps, 1) if step["function"] == "final_answer"]
        steps.insert(max(after, default=0), tagging)
        filter_list.append({**pipeline, "filter": steps})
    added = hallucination.metric_list(with_corrected=hallucination.is_named(options.get("calibration")))
    return {**config, "filter_list": filter_list, "metric_list": [*config["metric_list"], *added]}


class PairsTask(PromptedTask):
    """A task with ``win_rate_<system>`` before the YAML's metrics. Only the samples have the names of the systems."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        systems = self.eval_docs[0]["systems"]
        self.add_metrics({f"win_rate_{system}": judging.win_rate for system in systems})

    def denominator_of(self, metric: str) -> str:
        if metric.startswith("win_rate_"):
            return "questions with a comparison of this system that could be read"
        return super().denominator_of(metric)
