"""The harness task of all steps, which logs the number of rows generated and of parts left out, by reason."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from lm_eval_tasks.harness.task import GroundedTask
from lm_eval_tasks.making import steps

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class MakingTask(GroundedTask):
    """A task whose replies are generated data. ``lm-eval-grounded make collect`` writes its samples to files."""

    def apply_filters(self) -> Any:
        """Apply the filters, and log how much of the replies is kept."""
        filtered = super().apply_filters()
        made, reasons = 0, Counter[str]()
        for request in self._instances or ():
            for response in request.resps:
                parsed = steps.parse_reply(response, request.doc)
                made += len(parsed.rows)
                reasons += parsed.reasons
        left_out = "; ".join(f"{reason}: {number}" for reason, number in reasons.most_common()) or "nothing"
        log.info(
            "%s: %d made of %d replies; left out: %s", self.config.task, made, len(self._instances or ()), left_out
        )
        return filtered
