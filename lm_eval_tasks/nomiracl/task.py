"""The harness task of ``nomiracl_<lang>*``."""

from __future__ import annotations

from lm_eval_tasks.harness.task import GroundedTask

__all__ = ["NomiraclTask"]


class NomiraclTask(GroundedTask):
    """A task whose samples hold the ten passages once, in the prompt; the harness would write them twice."""

    LOGGED_ELSEWHERE = ("passages", "titles")
