"""The prompts of the steps: the files ``prompts/<step>.jinja``."""

from __future__ import annotations

import re
from importlib import resources

__all__ = ["prompt_of"]

_COMMENT = re.compile(r"\A\{#.*?-#\}\s*", re.DOTALL)


def prompt_of(step: str) -> str:
    """The Jinja template of a step, without the comment that says where it comes from."""
    text = resources.files("lm_eval_tasks.making").joinpath(f"prompts/{step}.jinja").read_text("utf-8")
    return _COMMENT.sub("", text).rstrip("\n")
