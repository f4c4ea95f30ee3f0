"""The data of plots: exact rows of real and of hand-made runs, which plots there are, and what their captions say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from custom_metrics.statistics.intervals import wilson
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.results.report.plots import Plot, plots_of
from lm_eval_tasks.results.report.plots.correlations import web_shares
from lm_eval_tasks.results.report.plots.drawing import COLOURS
from lm_eval_tasks.runs import Run, TaskRun, read_runs
from tests.made_runs import figure, run, share, task

RATES = ("hallucination_rate", "error_rate")
CAUTION = ("unanswerable_accuracy", "answerable_abstention_rate")


def by_name(runs: list[Run]) -> dict[str, Plot]:
    return {plot.name: plot for plot in plots_of(runs)}


def of_tasks(*tasks: TaskRun) -> dict[str, Plot]:
    return by_name([run("m", tasks)])


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
    assert [*by_name([run("m", tasks)])] == names


def test_a_model_has_the_same_colour_in_every_plot() -> None:
    """Also where it is the only one of a plot: a reader looks for the colour of the first screen."""
    pytest.importorskip("matplotlib")
    answered = {metric: figure(0.5, 0.4, 0.6) for metric in ("rougeL", "length", *CAUTION)}
    rate = {"robust": {name: figure(0.5, 0.4, 0.6) for name in RATES}}
    rates = [task(f"nomiracl_{code}", rate, code) for code in ("de", "fr")]
    plots = by_name([run("m/first", rates), run("m/second", [task("clapnq_gold", answered)])])
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
    assert all(len(row) == len(plot.columns) for row in plot.rows)
    assert plot.columns[:4] == ("model", "language", "hallucination_rate", "hallucination_rate_low")
    assert rows["lm-eval-grounded/baseline-lexical", "de"] == (0, *wilson(0, 4), 4, "not measurable", *wilson(1, 4), 4)
    assert "Not drawn, because its bounds span more than half of the scale: de of lm-eval-grounded/" in plot.caption
    assert plot.caption.endswith(" and 1 more.")
    assert rows["lm-eval-grounded/baseline-lexical", "mean"][0:8:4] == pytest.approx((15 / 72, 12 / 72))
    assert rows["lm-eval-grounded/baseline-lexical", "mean"][3:8:4] == (72, 72)
    assert plot.rows[18][1] == "mean"


def test_a_rate_that_is_not_defined_is_no_number_and_is_said() -> None:
    (plot, _) = plots_of([run("m", [task("nomiracl_sw", {"robust": {"error_rate": share(1, 20)}}, "sw")])])

    assert plot.rows == (("m", "sw", None, None, None, 0, 0.05, *wilson(1, 20), 20),)
    assert plot.caption.endswith("Not drawn, because a rate is undefined: sw of m.")
    (length, _) = plots_of([run("m", [task("clapnq_gold", {"rougeL": figure(0.5), "length": figure(9)})])])
    assert length.rows == (("m", "clapnq_gold", 0.5, None, None, 100, 9, None, None, 100),)  # nor one without bounds


def test_a_language_that_one_model_lacks() -> None:
    rate = {"robust": {"hallucination_rate": share(10, 40), "error_rate": share(0, 4)}}
    runs = [
        run("a", [task("nomiracl_de", rate, "de"), task("nomiracl_ar", rate, "ar")]),
        run("b", [task("nomiracl_de", rate, "de")]),
    ]
    plot = by_name(runs)["nomiracl_languages"]

    assert [row[:5] for row in plot.rows[:6]] == [
        ("hallucination_rate", "ar", "Arabic", "a", 0.25),
        ("hallucination_rate", "ar", "Arabic", "b", None),
        ("hallucination_rate", "de", "German", "a", 0.25),
        ("hallucination_rate", "de", "German", "b", 0.25),
        ("hallucination_rate", "mean", "mean", "a", 0.25),
        ("hallucination_rate", "mean", "mean", "b", 0.25),
    ]


def test_rates_of_mfava_side_by_side() -> None:
    rates = {
        "detected_rate": figure(0.3, 0.2, 0.4, 50),
        "estimated_rate": figure(0.25, 0.1, 0.4, 50),
        "rogan_gladen_rate": figure(0.2, 0, 0.5, 50),
    }
    plot = of_tasks(
        task("mfava_fr", rates, "fr", {"calibration": {"annotations": "pooled"}}),
        task("mfava_de", {"detected_rate": figure(0.1, 0.0, 0.2, 40)}, "de"),
    )["mfava_rates"]
    german, french, mean = plot.rows

    assert german[1:] == ("de", "German", "", 0.1, 0.0, 0.2, 40, *[None, None, None, 0] * 2)
    assert french[1:8] == ("fr", "French", "pooled", 0.3, 0.2, 0.4, 50)
    assert mean[4] == pytest.approx(0.2)
    assert "rest on pooled annotations" in plot.caption


def test_what_is_not_measurable_has_a_line_and_no_mark() -> None:
    pytest.importorskip("matplotlib")
    tasks = [
        task(
            f"mfava_{code}", {"detected_rate": figure(0.1, 0.05, 0.2), "rogan_gladen_rate": figure(0.0, 0.0, 1.0)}, code
        )
        for code in ("de", "fr", "it", "es")
    ]
    plots = by_name([run("m", tasks)])
    rows = {row[1]: row[4:] for row in plots["mfava_rates"].rows}
    assert rows["de"] == (0.1, 0.05, 0.2, 100, None, None, None, 0, "not measurable", 0.0, 1.0, 100)
    assert rows["mean"][-4:] == ("not measurable", 0.0, 1.0, 400)
    assert plots["mfava_languages"].svg().count(">?<") == 5
    (axes,) = plots["mfava_rates"].draw().axes
    marks = [len(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "None"]
    assert marks == [5, 0, 0]  # detected, estimated, Rogan-Gladen
    # nor is it a point of a correlation
    assert "(n = 0)" in plots["mfava_resources"].caption


def test_correlations_with_resources_and_length() -> None:
    tasks = [
        task(
            f"mfava_{code}",
            {"rogan_gladen_rate": figure(0.1 * place, 0, 0.5), "response_words": figure(100.0 - place * place)},
            code,
        )
        for place, code in enumerate(("sd", "eu", "fi", "de"), 1)  # from few pages to many
    ]
    plots = of_tasks(*tasks)
    rows: list[object] = [(row[1], row[3], row[7]) for row in plots["mfava_resources"].rows]
    assert rows == [
        ("de", 5.9575, pytest.approx(0.4)),
        ("eu", 0.0365, pytest.approx(0.2)),
        ("fi", 0.3632, pytest.approx(0.3)),
        ("sd", 0.0022, pytest.approx(0.1)),
    ]
    import numpy as np

    assert {*LANGUAGES} - {*web_shares()} == {"yue"}
    logarithms = [math.log(web_shares()[code]) for code in ("de", "eu", "fi", "sd")]
    pearson = np.corrcoef(logarithms, [0.4, 0.2, 0.3, 0.1])[0, 1]
    assert f"r = {pearson:.2f} (p < 0.001)" in plots["mfava_resources"].caption
    assert "ρ = 1.00 (p = 0.083), n = 4." in plots["mfava_resources"].caption
    assert "m: r = −0.98 (p = 0.016), ρ = −1.00 (p = 0.083), n = 4." in plots["mfava_length"].caption
    columns = ("response_words", "response_words_low", "response_words_high", "response_words_n", "rogan_gladen_rate")
    assert plots["mfava_length"].columns[3:8] == columns


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"sd": 0.1, "de": 0.2}, "correlation undefined, fewer than 3 languages (n = 2)"),
        ({"sd": 0.1, "de": 0.1, "fi": 0.1}, "correlation undefined, one of the two is the same everywhere (n = 3)"),
        ({"sd": 0.1, "yue": 0.2, "fi": 0.3, "de": 0.4}, "n = 3"),  # Common Crawl has no Cantonese
    ],
)
def test_correlations_that_say_nothing(rates: dict[str, float], said: str) -> None:
    tasks = [task(f"mfava_{code}", {"rogan_gladen_rate": figure(rate)}, code) for code, rate in rates.items()]
    assert said in of_tasks(*tasks)["mfava_resources"].caption


def test_retrieved_and_missed() -> None:
    figures = {
        **{"rougeL_retrieved": figure(0.4, 0.3, 0.5, 60), "rougeL_missed": figure(0.1, 0.0, 0.2, 40)},
        **{"answerable_abstention_rate_retrieved": share(6, 60), "gold_retrieved": share(60, 100)},
    }
    (row,) = of_tasks(task("clapnq_rag", figures))["clapnq_retrieval"].rows

    assert row[2:10] == (0.4, 0.3, 0.5, 60, 0.1, 0.0, 0.2, 40)
    assert row[10] == 0.1
    assert row[14:18] == (None, None, None, 0)
    assert row[18] == 0.6


def test_detectors_beside_the_teams() -> None:
    figures = {"iou": figure(0.6, 0.5, 0.7)}
    plot = of_tasks(task("mushroom_de", figures, "de", {"split": "test", "not_comparable": []}))["mushroom_detectors"]
    teams = [row.value for row in rows_for("mushroom_de", "iou")]
    iou, rho = plot.rows

    assert iou[:8] == ("iou", "de", "German", "m", 0.6, 0.5, 0.7, 100)
    assert iou[8:] == (len(teams), max(teams), sum(team > 0.6 for team in teams))
    assert len(teams) > 20
    assert (rho[4], rho[-1]) == (None, None)
    ticks = plot.draw().axes[0].lines[0].get_xdata()
    assert {*teams} <= {*ticks}
    other = of_tasks(task("mushroom_de", figures, "de", {"split": "test", "not_comparable": ["a part"]}))
    assert other["mushroom_detectors"].caption.endswith("Measured otherwise than the teams: a part.")
    assert other["mushroom_detectors"].rows[0][-1] is None  # and so it has no place among them


def test_a_judge_s_ratings_and_comparisons() -> None:
    provenance = {"local_files": [{"option": "samples", "name": "a.jsonl", "system": "llama"}]}
    figures = {"f_plus_a": figure(3, 2, 4), "faithfulness": figure(3.5, 3, 4), "appropriateness": figure(2.6, 2, 3)}
    comparisons = task("clapnq_judge_pairs", {"tie_rate": share(1, 4), "win_rate_a": figure(0.5, 0.4, 0.6, 9)})
    ratings, wins = plots_of([run("judge", [task("clapnq_judge", figures, provenance=provenance), comparisons])])

    assert ratings.rows[0][:6] == ("judge", "llama", 3.5, 3, 4, 100)
    assert wins.rows == (("judge", "a", 0.5, 0.4, 0.6, 9),)
    assert tuple(wins.draw().axes[0].get_yticklabels()[0].get_text().split("\n")) == ("judge", "on a")
