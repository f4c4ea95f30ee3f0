"""The harness task of ``nomiracl_<lang>*``."""

from __future__ import annotations

from lm_eval_tasks.task import GroundedTask

__all__ = ["NomiraclTask"]


class NomiraclTask(GroundedTask):
    """A task as YAML makes it. Each of its samples would hold the ten passages twice: the prompt has them."""

    LOGGED_ELSEWHERE = ("passages", "titles")
