"""Headlines: numbers of real runs with their bounds, what is said of them, and doubts beside the number they concern."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.statistics.figures import Figure, is_measurable, without_point
from custom_metrics.statistics.intervals import Z95
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.mfava.dataset import LANGUAGES
from lm_eval_tasks.mushroom.dataset import LANGUAGES as MUSHROOM
from lm_eval_tasks.results.board import Cell, Column, families
from lm_eval_tasks.results.formats import with_bounds
from lm_eval_tasks.results.report.headlines import headlines, metrics_in_sentence
from lm_eval_tasks.runs import TaskRun, read_runs
from tests.golden import golden
from tests.made_runs import figure, run, share, task
from tests.report_runs import changed

MEASURED = {"recall": 0.8, "false_positive_rate": 0.2, "prevalence": 0.5}
CALIBRATION = {"annotations": "real", "detector_version": "1", **MEASURED}
TAGGED = {"not_comparable": [], "calibration": CALIBRATION, "detector": {"name": "lexical", "version": "1"}}


def only(found: list[Column], metric: str) -> Cell:
    (cell,) = [cell for column in found if column.metric.name == metric for cell in column.cells.values()]
    return cell


def doubts(found: Cell) -> dict[str, str]:
    return {doubt.kind: doubt.text for doubt in found.reasons}


def of(tasks: list[TaskRun], metric: str) -> Cell:
    return only(headlines([run("m", tasks)]), metric)


def test_a_broken_run_is_said_where_answers_show_it(two_models: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(two_models / "baseline-answer", tmp_path / "broken"))
    changed(folder, lambda path, _, row: {**row, "resps": [["<|im_start|>"]]} if "mfava_de" in path.name else row)
    one = only(headlines(read_runs([folder])), "rogan_gladen_rate")

    assert doubts(one)["broken"].startswith("the run looks broken (9 of 9 answers are no answers (9 empty), in 1 of 2")


ANSWERS = {"rougeL": figure(0.4, 0.3, 0.5), "length": figure(200, 150, 250)}


def rates(rate: float, low: float, high: float, detected: float = 0.5, n: int = 100) -> dict[str, Any]:
    return {"rogan_gladen_rate": figure(rate, low, high, n), "detected_rate": figure(detected, 0, 1, n)}


def nomiracl(hallucination: tuple[int, int], error: tuple[int, int]) -> TaskRun:
    figures = {"hallucination_rate": share(*hallucination), "error_rate": share(*error)}
    return task("nomiracl_de", {"robust": figures}, "de")


OF_HALF = {"not_comparable": ["half of the corpus", "--limit 9"]}
STRICT, ROBUST = {"hallucination_rate": share(10, 100)}, {"hallucination_rate": share(30, 100)}
OTHERWISE = {"strict": STRICT, "robust": {**ROBUST, "invalid_rate": share(42, 200)}}
ABSTAINS = {**rates(0.5, 0.4, 0.6), "abstention_rate": share(30, 100)}
UNLIKE_CALIBRATION = {**TAGGED, "calibration": {"annotations": "gold", "detector_version": "0"}}
ABOVE_1 = {"estimated_rate": figure(1.2, 1.0, 1.4), "detected_rate": figure(0.9, 0.8, 1.0)}
DECLINES = {"unanswerable_accuracy": share(9, 9), "answerable_abstention_rate": share(9, 9)}

DOUBTS = {
    "none": ("rougeL", task("clapnq_gold", ANSWERS)),
    "few questions": ("rougeL", task("clapnq_gold", {"rougeL": figure(0.4, 0.1, 0.7, n=9)})),
    "no bounds": ("rougeL", task("clapnq_gold", {"rougeL": figure(0.4)})),
    "no figures": ("rougeL", task("clapnq_gold", {}, results={"rougeL,answer": 0.4})),
    "undefined": ("rougeL", task("clapnq_gold", {"length": figure(3, 1, 4)})),
    "not comparable": ("length", task("clapnq_gold", ANSWERS, provenance=OF_HALF)),
    "unknown": ("rougeL", task("clapnq_gold", ANSWERS, provenance={})),
    "invalid, and read otherwise": ("hallucination_rate", task("nomiracl_de", OTHERWISE, "de")),
    # one of the two says all: a run that declines, or claims, whatever it is asked
    "declines everything": ("hallucination_rate", nomiracl(hallucination=(0, 30), error=(20, 20))),
    "claims everything": ("error_rate", nomiracl(hallucination=(30, 30), error=(0, 20))),
    "declines all but one": ("hallucination_rate", nomiracl(hallucination=(0, 30), error=(19, 20))),
    "declines all of four": ("error_rate", nomiracl(hallucination=(0, 2), error=(2, 2))),
    "declines all of three, which says nothing": ("error_rate", nomiracl(hallucination=(0, 2), error=(1, 1))),
    "declines everything in CLAPnq": ("unanswerable_accuracy", task("clapnq_gold", DECLINES)),
    "corrected": ("rogan_gladen_rate", task("mfava_de", rates(0.5, 0.4, 0.6), "de", TAGGED)),
    "cut off at 0": ("rogan_gladen_rate", task("mfava_de", rates(0.0, 0.0, 0.2, detected=0.15), "de", TAGGED)),
    "cut off at 1": ("rogan_gladen_rate", task("mfava_de", rates(1.0, 0.9, 1.0, detected=0.9), "de", TAGGED)),
    "above 1, another version": ("estimated_rate", task("mfava_de", ABOVE_1, "de", UNLIKE_CALIBRATION)),
    "abstains": ("rogan_gladen_rate", task("mfava_de", ABSTAINS, "de", TAGGED)),
    "unread": ("f_plus_a", task("clapnq_judge", {"f_plus_a": figure(3, 2.5, 3.5), "unread_rate": share(30, 100)})),
}


def test_doubts_of_one_task() -> None:
    lines = []
    for case, (metric, of_task) in DOUBTS.items():
        found = doubts(of([of_task], metric))
        lines += [f"## {case}", *(f"{kind}: {text}" for kind, text in found.items()), ""]
    text = "\n".join(lines)
    assert text == golden("doubts.txt", text)


def test_the_sentence_of_every_metric() -> None:
    """With every number of a sentence at a half, of 40 documents."""
    lines = []
    for folder in catalogue.folders():
        for metric in catalogue.benchmark_of(folder).metrics.values():
            if metric.sentence:
                name = f"{metric.name}someone" if metric.name.endswith("_") else metric.name
                half = dict.fromkeys((name, *metrics_in_sentence(metric)), figure(0.5, 0.4, 0.6, n=40))
                columns = headlines([run("m", [task(f"{folder.name}_task", half)])])
                (heading,) = [column.metric.heading for column in columns if column.metric.name == name]
                lines.append(f"{folder.name}, {name}: {heading}. {only(columns, name).explanation}\n")
    text = "".join(lines)
    assert text == golden("sentences.txt", text)


POOLED = {**TAGGED, "calibration": {**CALIBRATION, "annotations": "pooled"}}
FIVE = [
    task("mfava_de", rates(0.4, 0.3, 0.5, n=9), "de", TAGGED),
    task("mfava_fr", rates(0.4, 0.3, 0.5, n=5), "fr", POOLED),
    task("mfava_it", rates(0.4, 0.3, 0.5, n=7), "it", POOLED),
    task("mfava_es", rates(0.4, 0.3, 0.5, n=8), "es", {**POOLED, "not_comparable": ["--limit"]}),
    task("mfava_pl", rates(0.4, 0.3, 0.5, n=50), "pl", POOLED),
]
OF_ROBUST = {"robust": {"error_rate": share(10, 20)}}
ONE_OF_TWO = [task("nomiracl_de", OF_ROBUST, "de"), task("nomiracl_sw", {"robust": {}}, "sw")]
WIDE = {"f1": figure(0.5, 0.4, 0.6), "precision": figure(0.4, 0.3, 0.5), "recall": figure(0.7, 0.2, 0.9)}
SAID = {
    "a mean over some languages": ("rogan_gladen_rate", FIVE),
    "undefined in one of two, and not counted as 0": ("error_rate", ONE_OF_TWO),
    "undefined in both": ("hallucination_rate", ONE_OF_TWO),
    "a number beside it is not measurable": ("f1", [task("mushroom_de", {**WIDE, "lost_rate": share(30, 100)}, "de")]),
    "a system's name is no place": (
        *("win_rate_{value} {0}", [task("clapnq_judge_pairs", {"win_rate_{value} {0}": figure(0.6, 0.5, 0.7)})]),
    ),
}


def test_what_is_said_of_means_and_names() -> None:
    lines = []
    for case, (metric, tasks) in SAID.items():
        one = of(tasks, metric)
        text = with_bounds(one.figure, metric_of(metric).unit)
        lines += [f"## {case}", text, one.explanation, *(f"{doubt.kind}: {doubt.text}" for doubt in one.reasons), ""]
    text = "\n".join(lines)
    assert text == golden("said.txt", text)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([(8, 10), (440, 459)], "87.9 % of the cases where no passage holds one (469 questions; "),  # 448 are 95.5 %
        ([(5, 10), (10, 20)], "50.0 % of the cases where no passage holds one (15 of 30 questions of all languages"),
        ([(8, 10)], "80.0 % of the cases where no passage holds one (8 of 10 questions; "),
    ],
)
def test_a_count_stands_only_beside_the_share_that_it_gives(wrong: list[tuple[int, int]], says: str) -> None:
    rates = ({"robust": {"hallucination_rate": share(*counts)}} for counts in wrong)
    tasks = [task(f"nomiracl_{code}", rate, code) for code, rate in zip(("de", "sw"), rates, strict=False)]
    assert f" in {says}" in of(tasks, "hallucination_rate").explanation


def test_which_metrics_have_a_headline() -> None:
    detected = task("mfava_la", {"detected_rate": figure(0.3, 0.2, 0.4)}, "la", {"not_comparable": []})
    assert [one.metric.name for one in headlines([run("m", [detected])])] == ["detected_rate"]  # nothing corrects it
    assert [one.metric.name for one in headlines([run("m", [task("mushroom_de", WIDE, "de")])])] == ["iou", "rho", "f1"]


def test_prompts_are_families_of_their_own_and_a_further_language_does_not_change_the_group() -> None:
    tasks = [task(f"mfava_{code}", rates(0.4, 0.3, 0.5), code) for code in LANGUAGES]
    tasks += [task("nomiracl_de", {}, "de"), task("nomiracl_de_role", {}, "de"), task("nomiracl_fr_role", {}, "fr")]
    found = {family.name: [*family.tasks] for family in families(run("m", tasks))}

    nomiracl = {"nomiracl": ["de"], "nomiracl_role": ["de", "fr"]}
    assert found == {"mfava": [code for code in LANGUAGES if code != "fa"], "mfava_fa": ["fa"], **nomiracl}


def test_the_mean_over_parallel_languages_has_the_groups_standard_error() -> None:
    found = {"f1": figure(0.5, 0.4, 0.6)}
    tasks = [task(f"mushroom_{code}", {"tags": found}, code) for code in MUSHROOM]
    width = 2 * Z95 * 0.04
    for results, expected in (
        ({"f1,tags": 0.5, "f1_stderr,tags": 0.04}, width),
        ({"f1,tags": 0.6, "f1_stderr,tags": 0.04}, 0.2 / math.sqrt(len(MUSHROOM))),  # of other languages
        ({"f1,tags": 0.5, "f1_stderr,tags": "N/A"}, 0.2 / math.sqrt(len(MUSHROOM))),
    ):
        (family,) = families(replace(run("m", tasks), group_results={"mushroom": results}))
        mean = family.mean("f1")
        assert (mean.value, mean.high - mean.low) == pytest.approx((0.5, expected))


@pytest.mark.parametrize(
    ("metric", "low", "high", "shown_as"),
    [
        ("rogan_gladen_rate", 0.0, 1.0, "not measurable (0 to 100 %)"),
        ("error_rate", 0.2, 0.7, "25.0 % [20.0 to 70.0 %, n = 7]"),  # half is not more than half
        ("error_rate", 0.199, 0.7, "not measurable (20 to 70 %)"),
        ("estimated_rate", 0.2, 1.3, "not measurable (20 to 130 %)"),  # it can exceed 1, its scale does not
        ("rho", -0.4, 0.5, "0.250 [-0.400 to 0.500, n = 7]"),  # from -1 to 1
        ("rho", -0.6, 0.5, "not measurable (-0.600 to 0.500)"),
        ("faithfulness", 1.4, 3.0, "not measurable (1.40 to 3.00)"),  # from 1 to 4
        ("length", 1.0, 900.0, "0 [1 to 900, n = 7]"),  # no end, no half
        ("error_rate", math.nan, math.nan, "25.0 % [n = 7]"),
    ],
)
def test_where_bounds_span_over_half_there_is_no_point(metric: str, low: float, high: float, shown_as: str) -> None:
    figure, unit = Figure(0.25, low, high, 0.1, 7), metric_of(metric).unit
    assert with_bounds(figure, unit) == shown_as
    drawn = without_point(figure, unit)
    assert is_measurable(figure, unit) is (not math.isnan(drawn.value)) is ("not measurable" not in shown_as)
    assert (drawn.low, drawn.high, drawn.n) == pytest.approx((low, high, 7), nan_ok=True)
