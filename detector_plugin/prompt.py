"""The prompt that asks a language model for tags, in the manner of FAVA (Mishra et al. 2024): one text for tasks and
detector."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources
from typing import Any

__all__ = ["PROMPT_VERSION", "detection_prompt", "template_text"]


def template_text() -> str:
    """The Jinja template, with the fields ``reference`` and ``answer``; the detection tasks' YAML holds the same."""
    return resources.files("detector_plugin").joinpath("detection_prompt.jinja").read_text("utf-8")


PROMPT_VERSION = f"prompt {hashlib.sha256(template_text().encode()).hexdigest()[:8]}"
"""Version of a detector that is a prompted model. It changes with the prompt, because the errors do."""


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(keep_trailing_newline=False).from_string(template_text())


def detection_prompt(reference: str, answer: str) -> str:
    """The prompt for one answer. Reference and answer are values of the template; Jinja code in them is not run."""
    return str(_template().render(reference=reference, answer=answer))
