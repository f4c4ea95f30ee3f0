"""The data of plots: what hand-made runs give is a golden file, and exact rows of real ones; which plots there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lm_eval_tasks.results.report.drawing import COLOURS, Plot
from lm_eval_tasks.results.report.plots import plots_of
from lm_eval_tasks.runs import Run, TaskRun
from tests.golden import golden
from tests.made_runs import figure, run, share, task


def by_name(runs: Sequence[Run]) -> dict[str, Plot]:
    return {plot.name: plot for plot in plots_of(runs)}


def of_tasks(*tasks: TaskRun) -> dict[str, Plot]:
    return by_name([run("m", tasks)])


def mfava(code: str, **figures: Any) -> TaskRun:
    return task(f"mfava_{code}", figures, code)


RATES = {"robust": {"hallucination_rate": share(10, 40), "error_rate": share(0, 40)}}
ANSWERS = {"unanswerable_accuracy": share(1, 9), "answerable_abstention_rate": share(1, 9), "length": figure(9)}
RATINGS = {"f_plus_a": figure(3, 2, 4), "faithfulness": figure(3.5, 3, 4), "appropriateness": figure(2.6, 2, 3)}


@pytest.mark.parametrize(
    ("tasks", "names"),
    [
        ([], []),
        ([task("clapnq_gold", {})], []),  # nothing is defined
        ([task("clapnq_gold", {"rougeL": figure(0.5)})], ["clapnq_gold_intervals"]),
        ([task("clapnq_rag_bge", ANSWERS)], ["clapnq_rag_bge_trade_off", "clapnq_rag_bge_intervals"]),
        ([task("nomiracl_de_role", RATES, "de")], ["nomiracl_role_trade_off", "nomiracl_role_intervals"]),
        ([task("mfava_de", {"detected_rate": figure(0.1)}, "de")], ["mfava_intervals"]),
        ([task("mushroom_de", {"iou": figure(0.1)}, "de")], ["mushroom_intervals"]),
        ([task("clapnq_judge", RATINGS)], ["clapnq_judge_intervals"]),
        ([task("clapnq_judge_pairs", {"win_rate_a": figure(1)})], ["clapnq_judge_pairs_intervals"]),
        ([task("hellaswag", {"acc": figure(1)})], []),
    ],
)
def test_a_family_has_its_metrics_with_bounds_and_what_is_traded_against_each_other(
    tasks: list[TaskRun], names: list[str]
) -> None:
    assert [*of_tasks(*tasks)] == names


PREFERRED = {"tie_rate": share(1, 4), "win_rate_a": figure(0.5, 0.4, 0.6, 9), "win_rate_b": figure(0)}
JUDGED = {"local_files": [{"option": "samples", "name": "a.jsonl", "system": "llama"}]}

ONE = [
    *(task("nomiracl_de", RATES, "de"), task("nomiracl_ar", RATES, "ar")),
    task("nomiracl_sw", {"robust": {"error_rate": share(1, 20)}}, "sw"),
    mfava("sd", detected_rate=figure(0.3, 0.2, 0.4, 50), rogan_gladen_rate=figure(0.1, 0, 0.5)),
    mfava("de", rogan_gladen_rate=figure(0.4, 0, 0.8), response_words=figure(91)),
    task("clapnq_gold", ANSWERS),
    task("clapnq_judge", RATINGS, provenance=JUDGED),
    task("clapnq_judge_pairs", PREFERRED),
]
OTHER = [task("nomiracl_de", RATES, "de"), mfava("yue", rogan_gladen_rate=figure(0.2)), mfava("de")]


@pytest.mark.parametrize(
    ("name", "models"), [("plots.txt", ["one", "other"]), ("plots_many.txt", ["one", "other", "third"])]
)
def test_the_data_of_every_plot(name: str, models: list[str]) -> None:
    """Of few models by language, of many their means; with undefined figures, figures without bounds, and those that are
    not measurable, and a language that one model lacks."""
    lines = []
    tasks = {"one": ONE, "other": OTHER, "third": OTHER}
    for plot in plots_of([run(model, tasks[model]) for model in models]):
        lines += [f"## {plot.name}: {plot.title}", plot.caption, " | ".join(plot.columns)]
        lines += [" | ".join(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row) for row in plot.rows]
        assert {len(row) for row in plot.rows} == {len(plot.columns)}
    text = "\n".join([*lines, ""])
    assert text == golden(name, text)


@pytest.mark.one_python("what a picture holds")
def test_a_model_has_the_same_colour_in_every_plot() -> None:
    """Also where it is the only one of a plot: a reader looks for the colour of the first screen."""
    pytest.importorskip("matplotlib")
    plots = by_name([run("m/first", ONE[:2]), run("m/second", [task("clapnq_gold", ANSWERS)])])
    colours = {name: {colour for colour in COLOURS if colour in plot.svg()} for name, plot in plots.items()}
    families = [*enumerate(("nomiracl", "clapnq_gold"))]
    assert colours == {f"{of}_{kind}": {COLOURS[look]} for look, of in families for kind in ("trade_off", "intervals")}


def test_what_is_not_measurable_has_a_line_and_no_mark() -> None:
    pytest.importorskip("matplotlib")
    wide: dict[str, Any] = {"detected_rate": figure(0.1, 0.05, 0.2), "rogan_gladen_rate": figure(0.0, 0.0, 1.0)}
    (plot,) = of_tasks(*(mfava(code, **wide) for code in ("de", "fr", "it", "es"))).values()
    rows = {row[1]: row[2:] for row in plot.rows}
    assert rows["de"] == (0.1, 0.05, 0.2, 100, "not measurable", 0.0, 1.0, 100)
    assert rows["mean"][-4:] == ("not measurable", 0.0, 1.0, 400)
    for axes, drawn in zip(plot.draw().axes, (5, 0), strict=True):
        (marks,) = (line for line in axes.lines if line.get_linestyle() == "None")
        assert np.count_nonzero(~np.isnan(marks.get_xdata())) == drawn
        assert len(axes.collections[0].get_segments()) == 5
