"""The harness task of MTRAG-UN: a conversation as chat turns, or as a transcript in plain text."""

from __future__ import annotations

from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.harness.task import GroundedTask


class ConversationTask(GroundedTask):
    """A task whose documents have a ``conversation``.

    With ``--apply_chat_template`` its turns are the turns of the chat, behind the system turn with the instruction and the
    passages: what the task's template or the model's API makes of a chat. Without, they are lines of one prompt.
    """

    is_generated = True

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **how: Any) -> Any:
        """The harness's prompt, in a chat with the turns of the conversation in place of the one user turn."""
        if num_fewshot:
            raise UsageError(f"{self.config.task}: num_fewshot {num_fewshot}: there are no examples; leave it out")
        template = how.pop("chat_template", None) if how.get("apply_chat_template") else None
        if template is None:
            return super().fewshot_context(doc, num_fewshot, **how)

        def with_turns(messages: list[dict[str, Any]], **more: Any) -> Any:
            before, behind = ([turn for turn in messages if turn["role"] == role] for role in ("system", "assistant"))
            before = [{**turn, "content": turn["content"].strip()} for turn in before]
            return template([*before, *map(dict, doc["conversation"]), *behind], **more)

        return super().fewshot_context(doc, num_fewshot, chat_template=with_turns, **how)
