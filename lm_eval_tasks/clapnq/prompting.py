"""Prompts that read well as plain text and as chat turns. Separators between their parts are in plain text only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lm_eval_tasks.harness.task import GroundedTask

__all__ = ["PromptedTask"]


class PromptedTask(GroundedTask):
    """A task whose plain-text prompt ends with the cue before an answer (``target_delimiter``), and whose chat turns have
    no white space at their ends.
    """

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
