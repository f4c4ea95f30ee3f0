"""The data of plots: what hand-made runs give is a golden file, and exact rows of real ones; which plots there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from custom_metrics.statistics.intervals import wilson
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.results.report.plots import Plot, plots_of
from lm_eval_tasks.results.report.plots.correlations import web_shares
from lm_eval_tasks.results.report.plots.drawing import COLOURS
from lm_eval_tasks.runs import Run, TaskRun, read_runs
from tests.golden import golden
from tests.made_runs import figure, run, share, task


def by_name(runs: Sequence[Run]) -> dict[str, Plot]:
    return {plot.name: plot for plot in plots_of(runs)}


def of_tasks(*tasks: TaskRun) -> dict[str, Plot]:
    return by_name([run("m", tasks)])


def mfava(code: str, annotations: str = "real", **figures: Any) -> TaskRun:
    return task(f"mfava_{code}", figures, code, {"calibration": {"annotations": annotations}})


@pytest.mark.parametrize(
    ("tasks", "names"),
    [
        ([], []),
        ([task("clapnq_gold", {})], ["clapnq_length", "clapnq_caution"]),
        ([task("clapnq_rag_bge", {})], ["clapnq_length", "clapnq_caution", "clapnq_retrieval"]),
        ([task("nomiracl_de_role", {}, "de")], ["nomiracl_role_rates", "nomiracl_role_languages"]),
        ([task("mfava_de", {}, "de")], ["mfava_rates", "mfava_languages"]),  # a correlation needs languages
        ([task("mushroom_de", {}, "de")], ["mushroom_detectors"]),
        ([task("mfava_detection_de_gold", {}, "de")], []),
        ([task("clapnq_judge", {"f_plus_a": 1, "faithfulness": 1, "appropriateness": 1})], ["clapnq_judge_ratings"]),
        ([task("clapnq_judge_pairs", {"win_rate_a": figure(1)})], ["clapnq_judge_pairs_wins"]),
        ([task("hellaswag", {"acc": figure(1)})], []),
    ],
)
def test_a_plot_is_there_where_its_tasks_are(tasks: list[TaskRun], names: list[str]) -> None:
    assert [*of_tasks(*tasks)] == names


HALF = {"robust": {"hallucination_rate": share(10, 40), "error_rate": share(0, 40)}}
ONE = [
    *(task("nomiracl_de", HALF, "de"), task("nomiracl_ar", HALF, "ar")),
    task("nomiracl_sw", {"robust": {"error_rate": share(1, 20)}}, "sw"),
    mfava("sd", "pooled", detected_rate=figure(0.3, 0.2, 0.4, 50), rogan_gladen_rate=figure(0.1, 0, 0.5)),
    mfava("eu", rogan_gladen_rate=figure(0.2, 0, 0.5), response_words=figure(99), hallucinated_words=figure(8, 7, 9)),
    mfava("fi", rogan_gladen_rate=figure(0.3, 0, 0.5), response_words=figure(96), hallucinated_words=figure(9, 8, 9)),
    mfava("de", rogan_gladen_rate=figure(0.4, 0, 0.5), response_words=figure(91), hallucinated_words=figure(6, 5, 9)),
    task("clapnq_gold", {"rougeL": figure(0.5), "length": figure(9)}),
    task(
        "clapnq_rag",
        {
            **{"rougeL_retrieved": figure(0.4, 0.3, 0.5, 60), "rougeL_missed": figure(0.1, 0.0, 0.2, 40)},
            **{"answerable_abstention_rate_retrieved": share(6, 60), "gold_retrieved": share(60, 100)},
        },
    ),
    task(
        "clapnq_judge",
        {"f_plus_a": figure(3, 2, 4), "faithfulness": figure(3.5, 3, 4), "appropriateness": figure(2.6, 2, 3)},
        provenance={"local_files": [{"option": "samples", "name": "a.jsonl", "system": "llama"}]},
    ),
    task("clapnq_judge_pairs", {"tie_rate": share(1, 4), "win_rate_a": figure(0.5, 0.4, 0.6, 9)}),
]
OTHER = [task("nomiracl_de", HALF, "de"), mfava("yue", rogan_gladen_rate=figure(0.2)), mfava("de")]


def test_the_data_of_every_plot() -> None:
    """Undefined figures, a language that one model lacks, those without bounds, and correlations that say nothing too."""
    lines = []
    for plot in plots_of([run("one", ONE), run("other", OTHER)]):
        lines += [f"## {plot.name}: {plot.title}", plot.caption, " | ".join(plot.columns)]
        lines += [" | ".join(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row) for row in plot.rows]
        assert {len(row) for row in plot.rows} == {len(plot.columns)}
    text = "\n".join([*lines, ""])
    assert text == golden("plots.txt", text)


@pytest.mark.one_python("what a picture holds")
def test_a_model_has_the_same_colour_in_every_plot() -> None:
    """Also where it is the only one of a plot: a reader looks for the colour of the first screen."""
    pytest.importorskip("matplotlib")
    metrics = ("rougeL", "length", "unanswerable_accuracy", "answerable_abstention_rate")
    gold = task("clapnq_gold", dict.fromkeys(metrics, figure(0.5, 0.4, 0.6)))
    plots = by_name([run("m/first", ONE[:2]), run("m/second", [gold])])
    colours = {name: {colour for colour in COLOURS if colour in plot.svg()} for name, plot in plots.items()}
    assert (colours["nomiracl_rates"], colours["clapnq_length"]) == ({COLOURS[0]}, {COLOURS[1]})
    assert colours["clapnq_caution"] == {COLOURS[1]}


def test_rates_of_the_sample(two_models: Path) -> None:
    plots = by_name(read_runs([two_models]))
    plot = plots["nomiracl_rates"]
    rows = {row[:2]: row[2:] for row in plot.rows}

    assert [*plots] == [
        *("nomiracl_rates", "nomiracl_languages"),
        *("mfava_rates", "mfava_languages", "mfava_resources", "mfava_length", "mfava_words"),
        *("clapnq_length", "clapnq_caution", "clapnq_retrieval"),
    ]
    assert len(rows) == 2 * (18 + 1)
    assert rows["lm-eval-grounded/baseline-lexical", "de"] == (0, *wilson(0, 4), 4, "not measurable", *wilson(1, 4), 4)
    assert "Not drawn, because its bounds span more than half of the scale: de of lm-eval-grounded/" in plot.caption
    assert plot.caption.endswith(" and 1 more.")
    assert rows["lm-eval-grounded/baseline-lexical", "mean"][0:8:4] == pytest.approx((15 / 72, 12 / 72))
    assert rows["lm-eval-grounded/baseline-lexical", "mean"][3:8:4] == (72, 72)


def test_what_is_not_measurable_has_a_line_and_no_mark() -> None:
    pytest.importorskip("matplotlib")
    wide: dict[str, Any] = {"detected_rate": figure(0.1, 0.05, 0.2), "rogan_gladen_rate": figure(0.0, 0.0, 1.0)}
    plots = of_tasks(*(mfava(code, **wide) for code in ("de", "fr", "it", "es")))
    rows = {row[1]: row[4:] for row in plots["mfava_rates"].rows}
    assert rows["de"] == (0.1, 0.05, 0.2, 100, None, None, None, 0, "not measurable", 0.0, 1.0, 100)
    assert rows["mean"][-4:] == ("not measurable", 0.0, 1.0, 400)
    assert plots["mfava_languages"].svg().count(">?<") == 5
    (axes,) = plots["mfava_rates"].draw().axes
    marks = [len(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "None"]
    assert marks == [5, 0, 0]  # detected, estimated, Rogan-Gladen
    # nor is it a point of a correlation
    assert "(n = 0)" in plots["mfava_resources"].caption


def test_correlations_are_with_the_logarithm_of_the_share_of_the_web() -> None:
    assert {*LANGUAGES} - {*web_shares()} == {"yue"}
    logarithms = [math.log(web_shares()[code]) for code in ("sd", "eu", "fi", "de")]
    pearson = np.corrcoef(logarithms, [0.1, 0.2, 0.3, 0.4])[0, 1]
    assert f"r = {pearson:.2f} (p < 0.001)" in of_tasks(*ONE)["mfava_resources"].caption
    same = of_tasks(*(mfava(code, rogan_gladen_rate=figure(0.1)) for code in ("sd", "de", "fi")))
    assert "correlation undefined, one of the two is the same everywhere (n = 3)" in same["mfava_resources"].caption


def test_detectors_beside_the_teams() -> None:
    figures = {"iou": figure(0.6, 0.5, 0.7)}
    plot = of_tasks(task("mushroom_de", figures, "de", {"split": "test", "not_comparable": []}))["mushroom_detectors"]
    teams = [row.value for row in rows_for("mushroom_de", "iou")]
    iou, rho = plot.rows

    assert iou[:8] == ("iou", "de", "German", "m", 0.6, 0.5, 0.7, 100)
    assert iou[8:] == (len(teams), max(teams), sum(team > 0.6 for team in teams))
    assert len(teams) > 20
    assert (rho[4], rho[-1]) == (None, None)
    assert {*teams} <= {*plot.draw().axes[0].lines[0].get_xdata()}  # as ticks
    other = of_tasks(task("mushroom_de", figures, "de", {"split": "test", "not_comparable": ["a part"]}))
    assert other["mushroom_detectors"].caption.endswith("Measured otherwise than the teams: a part.")
    assert other["mushroom_detectors"].rows[0][-1] is None  # and so it has no place among them
