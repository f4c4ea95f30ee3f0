"""The harness task of ``clapnq_gold*`` and ``clapnq_rag*``: a task as YAML makes it, with the paper's shots."""

from __future__ import annotations

import json
from typing import Any

from lm_eval_tasks.clapnq.dataset import train_questions
from lm_eval_tasks.clapnq.prompting import PromptedTask
from lm_eval_tasks.clapnq.shots import PaperShots, choose

__all__ = ["ClapnqTask"]


class ClapnqTask(PromptedTask):
    """Differs from what YAML alone gives in that

    - prompts read well as plain text and as chat (:class:`PromptedTask`);
    - ``--num_fewshot 1`` and ``2`` are the paper's examples, read from the train files when they are asked for;
    - plain text with shots stops at the blank line that divides them, where a base model would go on with the next one;
    - the results say what retrieved the passages: ``configs.<task>.metadata.retrieval``.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.sampler = PaperShots(self._shots, self.config.task)

    def _shots(self) -> list[dict[str, Any]]:
        options = self.config.metadata or {}
        if options.get("split") == "train":
            raise ValueError(
                f"{self.config.task}: the shots are of the train split, which cannot be evaluated with them"
            )
        return choose(*train_questions(options.get("mirror"), self.config.task))

    def fewshot_docs(self) -> list[dict[str, Any]]:
        """None for the harness's own samplers."""
        return []

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """The request, with the division of the shots as a further stop in plain text."""
        chat = kwargs.get("apply_chat_template", False)
        request = super().construct_requests(doc, ctx, **kwargs)
        if self.config.num_fewshot and not chat:
            context, generation = request.arguments
            until = [*generation["until"], self.config.fewshot_delimiter]
            request.arguments = (context, {**generation, "until": until})
        return request

    def dump_config(self) -> dict[str, Any]:
        """The task's configuration for the results file, with what retrieved its passages."""
        config: dict[str, Any] = dict(super().dump_config())
        first = next(iter(self.eval_docs))
        if "retriever" in first:
            config["metadata"] = {**(config.get("metadata") or {}), "retrieval": json.loads(first["retriever"])}
        return config
