"""The harness task of ``clapnq_judge_pairs``: its metrics are named after the systems, which only the samples know."""

from __future__ import annotations

from typing import Any

from custom_metrics import judging
from lm_eval_tasks.clapnq.prompting import PromptedTask

__all__ = ["PairsTask"]


class PairsTask(PromptedTask):
    """A task as YAML makes it, with ``win_rate_<system>`` and its bounds for every system."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        for system in self.eval_docs[0]["systems"]:
            for ending, aggregation in (
                ("", judging.win_rate),
                ("_ci_low", judging.win_rate_low),
                ("_ci_high", judging.win_rate_high),
            ):
                name = f"win_rate_{system}{ending}"
                self._metric_fn_list[name] = None
                self._metric_fn_kwargs[name] = {}
                self._aggregation_list[name] = aggregation
                self._higher_is_better[name] = True
