"""Prompts that read well both as plain text and as chat turns: what divides their parts stands in the former only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lm_eval.api.task import ConfigurableTask

__all__ = ["PromptedTask"]


class PromptedTask(ConfigurableTask):  # type: ignore[misc]
    """A task as YAML makes it, but plain text ends with the cue that stands before an answer (``target_delimiter``), and
    chat turns have no white space at their ends. Cached requests of other documents are refused.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config={key: value for key, value in config.items() if key != "class"})

    def build_all_requests(self, **options: Any) -> None:
        """The requests, as the harness builds them or takes them from its cache.

        Raises:
            ValueError: the cached ones are of other documents: the cache knows a task by its name, not by its options.
        """
        super().build_all_requests(**options)
        for request in self._instances or ():
            if request.doc != self.eval_docs[request.doc_id]:
                raise ValueError(
                    f"{self.config.task}: the cached requests are of other documents than --metadata says now; run with "
                    f"--cache_requests refresh"
                )

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., str] | None = None,
        gen_prefix: str | None = None,
    ) -> Any:
        """The prompt, as the harness makes it but for the ends of its parts."""
        in_turns = partial(_trimmed, chat_template) if apply_chat_template and chat_template is not None else None
        prompt = super().fewshot_context(
            doc,
            num_fewshot,
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=in_turns,
            gen_prefix=gen_prefix,
        )
        return prompt if in_turns else prompt + str(self.config.target_delimiter).rstrip()


def _trimmed(chat_template: Callable[..., Any], messages: list[dict[str, Any]], **how: Any) -> Any:
    return chat_template([{**message, "content": message["content"].strip()} for message in messages], **how)
