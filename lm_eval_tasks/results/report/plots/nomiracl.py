"""NoMIRACL: hallucination rate against error rate, a point for each model and language, with bounds."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_tasks.results.report.plots import scatter
from lm_eval_tasks.results.report.plots.entries import Colours, Named, by_language, columns_of, not_drawn, rows_of
from lm_eval_tasks.results.report.plots.plot import Plot

__all__ = ["RATES", "rates"]

RATES = ("hallucination_rate", "error_rate")
_AXES = (scatter.Axis("hallucination rate (%)", 100), scatter.Axis("error rate (%)", 100))


def rates(families: Sequence[Named], colours: Colours) -> Plot:
    """The plot of a family of tasks."""
    entries = by_language(families, RATES)
    family = families[0][1]
    return Plot(
        name=f"{family.name}_rates",
        title=f"Hallucination rate against error rate ({family.name})",
        caption=(
            "Each point is a model in a language. To the right: it claims to see an answer where no passage holds one. "
            "Upwards: it says that it does not know where a passage holds the answer. Near the lower left corner is best. "
            f"Lines are 95 % bounds. Answers are read by the filter {family.any.headline_filter}. "
            "In a crowd, some have no label." + not_drawn(entries)
        ),
        columns=("model", "language", *columns_of(*RATES)),
        rows=rows_of(entries),
        draw=lambda: scatter.draw(scatter.panels_by_model(entries, *_AXES, colours), same_limits=True),
    )
