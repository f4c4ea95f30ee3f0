"""Headlines: numbers of real runs with their bounds, what is said of them, and doubts beside the number they concern."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import Z95
from custom_metrics.statistics.units import is_measurable, without_point
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.mushroom.dataset import LANGUAGES as MUSHROOM
from lm_eval_tasks.results.report.doubts import Doubt
from lm_eval_tasks.results.report.families import families
from lm_eval_tasks.results.report.headlines import Headline, headlines, metrics_beside
from lm_eval_tasks.results.report.numbers import bounds, shown, with_bounds
from lm_eval_tasks.runs import TaskRun, read_runs
from tests.golden import golden
from tests.made_runs import figure, run, share, task

CALIBRATION = {
    "annotations": "real",
    "detector_version": "1",
    "recall": 0.8,
    "false_positive_rate": 0.2,
    "prevalence": 0.5,
}
TAGGED = {"not_comparable": [], "calibration": CALIBRATION, "detector": {"name": "lexical", "version": "1"}}


def only(found: list[Headline], metric: str) -> Headline:
    (headline,) = [one for one in found if one.metric == metric]
    return headline


def doubts(found: Headline) -> dict[str, str]:
    return {doubt.kind: doubt.text for doubt in found.doubts}


def of(tasks: list[TaskRun], metric: str) -> Headline:
    return only(headlines([run("m", tasks)]), metric)


# ------------------------------------------------------------------------------------------------------------ real runs


def test_the_mean_of_a_whole_group_is_the_harness_s(two_models: Path) -> None:
    lexical = read_runs([two_models])[1]
    one = only(headlines([lexical]), "hallucination_rate")

    assert one.is_whole
    assert one.filter == "robust"
    assert one.figure.value == pytest.approx(lexical.group_results["nomiracl"]["hallucination_rate,robust"])
    assert [*one.languages] == [lexical.tasks[name].language for name in lexical.groups["nomiracl"]]
    assert one.languages["zh"] == lexical.tasks["nomiracl_zh"].figure("hallucination_rate", "robust")


def test_samples_alone_have_no_numbers(two_models: Path, tmp_path: Path) -> None:
    (samples,) = (two_models / "baseline-lexical").glob("samples_clapnq_gold_*.jsonl")
    shutil.copy(samples, tmp_path)
    one = only(headlines(read_runs([tmp_path])), "rougeL")

    assert one.says == "The RougeL is undefined: there is no results file beside the samples."
    assert doubts(one) == {
        "not_comparable": "the results do not say what it was measured on",
        "undefined": "there is no results file beside the samples",
    }


def test_a_broken_run_is_said_where_answers_show_it(two_models: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(two_models / "baseline-answer", tmp_path / "broken"))
    (samples,) = folder.glob("samples_mfava_de_*.jsonl")
    lines = samples.read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row["resps"] = [["<|im_start|>"]]
    samples.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    one = only(headlines(read_runs([folder])), "rogan_gladen_rate")

    assert doubts(one)["broken"].startswith("the run looks broken (9 of 9 answers are no answers (9 empty), in 1 of 2")


# -------------------------------------------------------------------------------------------------------- hand-made runs

ANSWERS = {"rougeL": figure(0.4, 0.3, 0.5), "length": figure(200, 150, 250)}


def rates(rate: float, low: float, high: float, detected: float = 0.5, n: int = 100) -> dict[str, Any]:
    return {"rogan_gladen_rate": figure(rate, low, high, n), "detected_rate": figure(detected, 0, 1, n)}


def nomiracl(hallucination: tuple[int, int], error: tuple[int, int]) -> TaskRun:
    figures = {"hallucination_rate": share(*hallucination), "error_rate": share(*error)}
    return task("nomiracl_de", {"robust": figures}, "de")


STRICT, ROBUST = {"hallucination_rate": share(10, 100)}, {"hallucination_rate": share(30, 100)}
UNLIKE_CALIBRATION = {**TAGGED, "calibration": {"annotations": "gold", "detector_version": "0"}}
ABOVE_1 = {"estimated_rate": figure(1.2, 1.0, 1.4), "detected_rate": figure(0.9, 0.8, 1.0)}
DECLINES = {"unanswerable_accuracy": share(9, 9), "answerable_abstention_rate": share(9, 9)}

DOUBTS = {
    "none": ("rougeL", task("clapnq_gold", ANSWERS)),
    "few questions": ("rougeL", task("clapnq_gold", {"rougeL": figure(0.4, 0.1, 0.7, n=9)})),
    "no bounds": ("rougeL", task("clapnq_gold", {"rougeL": figure(0.4)})),
    "no figures": ("rougeL", task("clapnq_gold", {}, results={"rougeL,answer": 0.4})),
    "undefined": ("rougeL", task("clapnq_gold", {"length": figure(3, 1, 4)})),
    "not comparable": (
        "length",
        task("clapnq_gold", ANSWERS, provenance={"not_comparable": ["half of the corpus", "--limit 9"]}),
    ),
    "unknown": ("rougeL", task("clapnq_gold", ANSWERS, provenance={})),
    "invalid, and read otherwise": (
        "hallucination_rate",
        task("nomiracl_de", {"strict": STRICT, "robust": {**ROBUST, "invalid_rate": share(42, 200)}}, "de"),
    ),
    # one of the two says all: a run that declines, or claims, whatever it is asked
    "declines everything": ("hallucination_rate", nomiracl(hallucination=(0, 30), error=(20, 20))),
    "claims everything": ("error_rate", nomiracl(hallucination=(30, 30), error=(0, 20))),
    "declines all but one": ("hallucination_rate", nomiracl(hallucination=(0, 30), error=(19, 20))),
    "declines all of few": ("error_rate", nomiracl(hallucination=(0, 5), error=(4, 4))),
    "declines everything in CLAPnq": ("unanswerable_accuracy", task("clapnq_gold", DECLINES)),
    "corrected": ("rogan_gladen_rate", task("mfava_de", rates(0.5, 0.4, 0.6), "de", TAGGED)),
    "cut off at 0": ("rogan_gladen_rate", task("mfava_de", rates(0.0, 0.0, 0.2, detected=0.15), "de", TAGGED)),
    "cut off at 1": ("rogan_gladen_rate", task("mfava_de", rates(1.0, 0.9, 1.0, detected=0.9), "de", TAGGED)),
    "above 1, another version": ("estimated_rate", task("mfava_de", ABOVE_1, "de", UNLIKE_CALIBRATION)),
    "abstains": (
        "rogan_gladen_rate",
        task("mfava_de", {**rates(0.5, 0.4, 0.6), "abstention_rate": share(30, 100)}, "de", TAGGED),
    ),
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
                half = dict.fromkeys((name, *metrics_beside(metric)), figure(0.5, 0.4, 0.6, n=40))
                one = only(headlines([run("m", [task(f"{folder.name}_task", half)])]), name)
                lines.append(f"{folder.name}, {name}: {one.measured.heading}. {one.says}\n")
    text = "".join(lines)
    assert text == golden("sentences.txt", text)


def test_a_doubt_of_a_mean_says_in_which_languages_it_holds() -> None:
    pooled = {**TAGGED, "calibration": {**CALIBRATION, "annotations": "pooled"}}
    tasks = [
        task("mfava_de", rates(0.4, 0.3, 0.5, n=9), "de", TAGGED),
        task("mfava_fr", rates(0.4, 0.3, 0.5, n=5), "fr", pooled),
        task("mfava_it", rates(0.4, 0.3, 0.5, n=7), "it", pooled),
        task("mfava_es", rates(0.4, 0.3, 0.5, n=8), "es", {**pooled, "not_comparable": ["--limit"]}),
        task("mfava_pl", rates(0.4, 0.3, 0.5, n=50), "pl", pooled),
    ]
    one = of(tasks, "rogan_gladen_rate")

    assert (one.figure.value, one.figure.low) == pytest.approx((0.4, 0.4 - 0.1 / math.sqrt(5)))
    assert one.says.endswith("mean over 5 of 30 languages: de, fr, it, es, pl).")
    assert one.doubts == (
        Doubt("few", "fewer than ten questions (in 4 of 5 languages: de 9; fr 5; it 7; 1 more)"),
        Doubt(
            "calibration",
            "its correction rests on real answers in other languages, as none are annotated in this one (pooled) (in 4 of "
            "5 languages: fr, it, es, 1 more)",
        ),
        Doubt("not_comparable", "not comparable with published figures (--limit, in 1 of 5 languages: es)"),
    )


def test_a_language_without_a_rate_is_said_and_not_counted_as_0() -> None:
    tasks = [
        task("nomiracl_de", {"robust": {"error_rate": share(10, 20)}}, "de"),
        task("nomiracl_sw", {"robust": {}}, "sw"),
    ]
    one = of(tasks, "error_rate")

    assert one.figure.value == 0.5
    assert one.says.endswith(
        "(10 of 20 questions; 95 % bounds 29.9 to 70.1 %; mean over 1 of 18 languages: de, undefined in sw)."
    )
    assert doubts(one)["undefined"].endswith("(in 1 of 2 languages: sw)")
    undefined = of(tasks, "hallucination_rate")
    assert undefined.text == "undefined"
    assert (
        undefined.says
        == "The mean over 2 languages of hallucination rate is undefined: no document is in its denominator."
    )


def test_without_a_correction_the_detected_rate_is_the_headline() -> None:
    tasks = [task("mfava_la", {"detected_rate": figure(0.3, 0.2, 0.4)}, "la", {"not_comparable": []})]
    assert [one.metric for one in headlines([run("m", tasks)])] == ["detected_rate"]


def test_prompts_are_families_of_their_own_and_a_further_language_does_not_change_the_group() -> None:
    tasks = [task(f"mfava_{code}", rates(0.4, 0.3, 0.5), code) for code in LANGUAGES]
    tasks += [task("nomiracl_de", {}, "de"), task("nomiracl_de_role", {}, "de"), task("nomiracl_fr_role", {}, "fr")]
    found = {family.name: [*family.tasks] for family in families(run("m", tasks))}

    assert found == {
        "mfava": [code for code in LANGUAGES if code != "fa"],
        "mfava_fa": ["fa"],
        "nomiracl": ["de"],
        "nomiracl_role": ["de", "fr"],
    }


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


def test_a_detector_s_headlines() -> None:
    tasks = [
        task(
            "mushroom_de",
            {
                **{"iou": figure(0.45, 0.4, 0.5), "rho": figure(0.3, 0.2, 0.4), "f1": figure(0.5, 0.4, 0.6)},
                **{"precision": figure(0.4, 0.3, 0.5), "recall": figure(0.7, 0.6, 0.8), "lost_rate": share(30, 100)},
            },
            "de",
        )
    ]
    found = headlines([run("m", tasks)])

    assert [one.metric for one in found] == ["iou", "rho", "f1"]
    assert {doubt.kind for one in found for doubt in one.doubts} == {"invalid"}


def test_comparisons_of_a_judge_name_the_systems() -> None:
    tasks = [task("clapnq_judge_pairs", {"win_rate_{value} {0}": figure(0.6, 0.5, 0.7)})]
    (one,) = headlines([run("m", tasks)])

    assert one.says == (
        "The judge prefers the answers of {value} {0} in 60.0 % of the comparisons (100 questions; 95 % bounds 50.0 to "
        "70.0 %)."
    )


def test_numbers() -> None:
    """Percent for shares, three decimals for scores, two for ratings, none for lengths."""
    values = {"error_rate": 0.2083, "rougeL_missed": 0.30049, "length": 190.6, "faithfulness": 3.456, "f1": math.nan}
    texts = [shown(value, metric_of(metric).unit) for metric, value in values.items()]
    assert texts == ["20.8 %", "0.300", "191", "3.46", "undefined"]
    assert bounds(Figure(0.5), "share") == ""


@pytest.mark.parametrize(
    ("metric", "low", "high", "shown_as"),
    [
        ("rogan_gladen_rate", 0.0, 1.0, "not measurable (0 to 100 %)"),
        ("error_rate", 0.2, 0.7, "25.0 % [20.0 to 70.0 %]"),  # half is not more than half
        ("error_rate", 0.199, 0.7, "not measurable (20 to 70 %)"),
        ("estimated_rate", 0.2, 1.3, "not measurable (20 to 130 %)"),  # it can exceed 1, its scale does not
        ("rougeL", 0.1, 0.7, "not measurable (0.100 to 0.700)"),
        ("rho", -0.4, 0.5, "0.250 [-0.400 to 0.500]"),  # from -1 to 1
        ("rho", -0.6, 0.5, "not measurable (-0.600 to 0.500)"),
        ("faithfulness", 1.5, 3.0, "0.25 [1.50 to 3.00]"),  # from 1 to 4
        ("faithfulness", 1.4, 3.0, "not measurable (1.40 to 3.00)"),
        ("length", 1.0, 900.0, "0 [1 to 900]"),  # no end, no half
        ("hallucinated_words", 0.0, 90.0, "0 [0 to 90]"),
        ("error_rate", math.nan, math.nan, "25.0 %"),
    ],
)
def test_where_bounds_span_more_than_half_there_is_no_point(
    metric: str, low: float, high: float, shown_as: str
) -> None:
    figure, unit = Figure(0.25, low, high, 0.1, 7), metric_of(metric).unit
    assert with_bounds(figure, unit) == shown_as
    drawn = without_point(figure, unit)
    assert is_measurable(figure, unit) is (not math.isnan(drawn.value)) is ("not measurable" not in shown_as)
    assert (drawn.low, drawn.high, drawn.n) == pytest.approx((low, high, 7), nan_ok=True)


def test_a_sentence_says_bounds_where_a_number_beside_it_is_not_measurable() -> None:
    figures = {"f1": figure(0.5, 0.4, 0.6), "precision": figure(0.4, 0.3, 0.5), "recall": figure(0.7, 0.2, 0.9)}
    assert only(headlines([run("m", [task("mushroom_de", figures, "de")])]), "f1").says.startswith(
        "It finds 0.200 to 0.900 of the hallucinated words, and 0.400 of what it flags"
    )
