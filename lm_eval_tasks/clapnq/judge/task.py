"""The harness task of ``clapnq_judge_pairs``: its metrics are named after the systems, which only the samples know."""

from __future__ import annotations

from typing import Any

from custom_metrics.scores import judging
from lm_eval_tasks.clapnq.prompting import PromptedTask

__all__ = ["PairsTask"]


class PairsTask(PromptedTask):
    """A task as YAML makes it, with ``win_rate_<system>`` for every system, before the others."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        names = [f"win_rate_{system}" for system in self.eval_docs[0]["systems"]]
        self._metric_fn_list |= dict.fromkeys(names)
        self._metric_fn_kwargs |= {name: {} for name in names}
        listed = dict(self._aggregation_list)
        self._aggregation_list.clear()
        self._aggregation_list |= {**dict.fromkeys(names, judging.win_rate), **listed}
        self._higher_is_better |= dict.fromkeys(names, True)

    def denominator_of(self, metric: str) -> str:
        """The documents that a metric counts, in words."""
        if metric.startswith("win_rate_"):
            return "questions with a comparison of this system that could be read"
        return super().denominator_of(metric)
