"""What the weightless models share: they answer documents, not prompts, and know no likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from lm_eval.api.model import LM

__all__ = ["DocumentAnswerer"]


class DocumentAnswerer(LM):  # type: ignore[misc]
    """A harness model whose answer follows from the document of a request.

    The prompt is not read, so chat templates and few-shot examples change nothing; tasks that need likelihoods are
    refused.
    """

    tokenizer_name = ""  # part of the harness's key for cached requests

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns one after another: what a person would read."""
        return "\n\n".join(turn["content"] for turn in chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return None

    def loglikelihood(self, requests: Sequence[Any]) -> NoReturn:
        raise ValueError(f"{type(self).__name__} has no likelihoods; it runs on generation tasks only")

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> NoReturn:
        self.loglikelihood(requests)
