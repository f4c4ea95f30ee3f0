"""``lm-eval-grounded compare``: which runs are compared, and what is found."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.results.compare import Comparison, Difference, Incomparable, compare_runs
from lm_eval_tasks.runs import read_runs
from tests.changed_runs import Row, change_results, change_samples, copied_models, few_tasks, written_samples
from tests.logged_runs import copied
from tests.paired import holm_by_statsmodels

FEW = ("nomiracl_de", "clapnq_rag", "mfava_de")


def compared(*places: Path, **options: Any) -> Comparison:
    return compare_runs(read_runs(places), **options)


def the(comparison: Comparison, metric: str, task: str) -> Difference:
    (row,) = comparison.select(metric, task)
    return row


@pytest.fixture(scope="module")
def whole(two_models: Path) -> Comparison:
    """``baseline-answer`` against ``baseline-lexical`` on all tasks and metrics of the sample."""
    return compared(two_models, every_metric=True)


# ------------------------------------------------------------------------------------------------------------- figures


def test_every_value_is_that_of_the_run(two_models: Path, whole: Comparison) -> None:
    runs = read_runs([two_models])
    seen = 0
    for row in whole.differences:
        for model, own in ((row.first, row.cells[0].value), (row.second, row.cells[1].value)):
            key = f"{row.metric.name},{row.column.filter}"
            if row.column.name == "mfava":  # which neither run has whole: the mean of what both have
                of_tasks = [runs[model].tasks[name].results.get(key) for name in ("mfava_de", "mfava_ar")]
                reported = None if None in of_tasks else fmean(of_tasks)
            elif row.column.group:
                reported = runs[model].group_results[row.column.name].get(key)
            else:
                reported = runs[model].tasks[row.column.name].results.get(key)
            if reported is None:
                assert math.isnan(own) or row.metric.needs  # only marks could measure it: in no table
            elif row.only_first == row.only_second == 0:
                assert own == pytest.approx(reported), row
                seen += 1
    assert seen > 150


def test_mfava_is_compared_over_articles_with_a_common_calibration(two_models: Path, closed_book: Path) -> None:
    found = compared(two_models / "baseline-lexical", closed_book, tasks=["mfava_de"], every_metric=True)
    detected, estimated = the(found, "detected_rate", "mfava_de"), the(found, "estimated_rate", "mfava_de")
    assert (detected.result.n, detected.unit, detected.only_first, detected.only_second) == (5, "articles", 0, 0)
    assert (detected.cells[0].value, detected.cells[1].value) == (0, pytest.approx(26 / 146))
    assert detected.result.difference == pytest.approx(-26 / 146)
    assert estimated.result.p == pytest.approx(detected.result.p)
    assert detected.result.p == pytest.approx(0.049)
    assert estimated.result.difference / detected.result.difference == pytest.approx(0.701706 / 0.749385, rel=1e-4)


def test_a_group_is_the_mean_over_its_languages(whole: Comparison) -> None:
    group = the(whole, "error_rate", "nomiracl")
    tasks = [row for row in whole.select("error_rate") if not row.column.group]
    assert (group.column.group, group.tasks, len(tasks)) == (True, 18, 18)
    assert group.result.n == sum(row.result.n for row in tasks)
    assert group.result.difference == pytest.approx(np.mean([row.result.difference for row in tasks]))
    assert group.family == 1
    assert {row.family for row in tasks} == {18}


def test_holm_is_over_the_pairs_of_a_language_and_over_the_languages_of_a_single_pair(
    two_models: Path, tmp_path: Path
) -> None:
    runs = few_tasks(two_models, tmp_path, ["nomiracl_de", "nomiracl_fi", "clapnq_gold", "clapnq_rag"])
    found = compared(runs, runs, tasks=["nomiracl_de", "nomiracl_fi"], metrics=["accuracy"])
    assert len(found.models) == len(set(found.models)) == 4
    rows = list(found.select("accuracy"))
    assert len(rows) == 2 * 6
    assert {row.family for row in rows} == {6}
    for task in ("nomiracl_de", "nomiracl_fi"):
        of_task = [row for row in rows if row.column.name == task]
        corrected = holm_by_statsmodels([row.result.p for row in of_task])
        assert [row.p_adjusted for row in of_task] == pytest.approx(corrected)
    assert {(row.first, row.second) for row in rows if row.result.p == 1.0} >= {(0, 2), (1, 3)}  # a run and itself
    of_pair = [*compared(runs, tasks=["nomiracl_de", "nomiracl_fi"], metrics=["accuracy"]).select("accuracy")]
    assert [row.family for row in of_pair] == [2, 2]
    corrected = holm_by_statsmodels([row.result.p for row in of_pair])
    assert [row.p_adjusted for row in of_pair] == pytest.approx(corrected)
    retrievers = compared(runs, tasks=["clapnq_gold", "clapnq_rag"], metrics=["rougeL"]).select("rougeL")
    assert [(row.family, row.p_adjusted == row.result.p) for row in retrievers] == 2 * [(1, True)]  # no languages


def test_headlines_stand_first_and_alone_unless_asked(two_models: Path, whole: Comparison) -> None:
    headlines = compared(two_models, tasks=["clapnq_rag", "nomiracl_de"])
    assert [row.metric.name for row in headlines.differences] == [
        *("rougeL", "recall", "rougeLp", "balanced_error", "unanswerable_accuracy", "answerable_abstention_rate"),
        *("length", "balanced_error", "hallucination_rate", "error_rate"),
    ]
    of_clapnq = [row.column.headline for row in whole.differences if row.column.name == "clapnq_rag"]
    assert of_clapnq == [True] * 7 + [False] * (len(of_clapnq) - 7)


def test_the_order_of_the_runs_changes_the_sign(two_models: Path) -> None:
    folders = sorted(two_models.iterdir())
    there, back = compared(*folders, tasks=list(FEW)), compared(*reversed(folders), tasks=list(FEW))
    assert back.models == there.models[::-1]
    for one, other in zip(there.differences, back.differences, strict=True):
        assert (one.column.name, one.metric.name) == (other.column.name, other.metric.name)
        turned = (-one.result.difference, -one.result.high, one.result.p)
        assert (other.result.difference, other.result.low, other.result.p) == pytest.approx(turned, nan_ok=True)


# ---------------------------------------------------------------------------------------------------------- documents


def test_documents_are_joined_by_content_and_not_by_position(two_models: Path, tmp_path: Path) -> None:
    first, second = copied_models(two_models, tmp_path, FEW)
    before = compared(first, second, tasks=list(FEW))

    def turn(rows: list[Row]) -> list[Row]:
        last = max(row["doc_id"] for row in rows)
        return [{**row, "doc_id": last - row["doc_id"]} for row in reversed(rows)]

    for task in FEW:
        change_samples(second, task, turn)
    assert compared(first, second, tasks=list(FEW)).as_json() == before.as_json()


def test_documents_of_one_run_alone_are_counted(two_models: Path, tmp_path: Path) -> None:
    first, second = copied_models(two_models, tmp_path, ["clapnq_rag"])
    change_samples(second, "clapnq_rag", lambda rows: [row for row in rows if row["doc_id"] < 20])  # --limit 20
    found = compared(first, second, tasks=["clapnq_rag"])
    (joined,) = found.joined
    assert (joined.documents, joined.only) == (20, (12, 0))
    row = the(found, "rougeL", "clapnq_rag")
    assert row.result.n < 18
    assert row.cells[0].value != row.result.first
    assert row.cells[1].value == row.result.second


def other_passages(row: Row) -> Row:
    return {**row, "doc": {**row["doc"], "passages": [{"text": "Another corpus."}]}}


def another_prompt(row: Row) -> Row:
    return {**row, "prompt_hash": "0" * 64, "arguments": {"gen_args_0": {"arg_0": "Think step by step."}}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (other_passages, ["32 of 32 documents differ; the first is", "passages", "Another corpus.", "same mirror"]),
        (another_prompt, ["32 of 32 prompts differ", "Think step by step.", "same prompt, shots"]),
        (lambda row: {**row, "doc": {**row["doc"], "id": f"x{row['doc_id']}"}}, ["no document is in two runs"]),
    ],
)
def test_other_documents_or_prompts_are_refused(
    two_models: Path, tmp_path: Path, change: Callable[[Row], Row], says: list[str]
) -> None:
    first, second = copied_models(two_models, tmp_path, ["clapnq_rag", "nomiracl_de"])
    change_samples(second, "clapnq_rag", lambda rows: list(map(change, rows)))
    with pytest.raises(Incomparable) as error:
        compared(first, second, tasks=["clapnq_rag", "nomiracl_de"])
    assert [part for part in ("clapnq_rag", *says) if part not in str(error.value)] == []
    assert "nomiracl_de" not in str(error.value)
    kept = compared(first, second, tasks=["clapnq_rag", "nomiracl_de"], refuse=False)
    assert {row.column.name for row in kept.differences} == {"nomiracl_de"}
    assert [refusal.task for refusal in kept.refused] == ["clapnq_rag"]


RECORD = "configs mfava_de metadata provenance"


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (f"{RECORD} detector version", "0ther", "the detector differs.*0ther.*score RUN"),
        (f"{RECORD} detector threshold", 0.9, "the detector differs.*0.9"),
        (f"{RECORD} calibration file", "mine.json@1", "the calibration differs.*mine.json@1"),
        (f"{RECORD} prompt template_sha256", "f" * 64, "the prompt's template differs"),
        ("n-shot mfava_de", 2, "the number of shots differs: 2 shots for .*0 shots for"),
        ("system_instruction", "Be brief.", "the system instruction differs.*Be brief."),
    ],
)
def test_other_settings_are_refused(two_models: Path, tmp_path: Path, place: str, value: Any, says: str) -> None:
    first, second = copied_models(two_models, tmp_path, ["mfava_de"])
    *names, last = place.split()
    change_results(first, lambda results: reduce(getitem, names, results).update({last: value}))
    with pytest.raises(Incomparable, match=f"mfava_de: {says}"):
        compared(first, second, tasks=["mfava_de"])


def test_a_run_without_a_detector_or_scores_is_compared_by_what_both_have(
    two_models: Path, predicted: Path, tmp_path: Path
) -> None:
    first, second = copied_models(two_models, tmp_path, ["mfava_de"])

    def without(results: Row) -> None:
        config = results["configs"]["mfava_de"]
        del config["metadata"]["provenance"]["detector"], config["metadata"]["provenance"]["calibration"]
        config["metric_list"] = [entry for entry in config["metric_list"] if "_words" in entry["metric"]]

    change_results(first, without)
    found = compared(first, second, tasks=["mfava_de"], every_metric=True)
    assert [row.metric.name for row in found.differences] == ["response_words", "hallucinated_words"]
    unscored = compared(predicted, second, tasks=["mfava_de"])
    assert [*unscored.differences] == []
    assert unscored.notes == ("mfava_de: no metric is in two runs (answers of --predict_only are scored by `score`)",)


def test_the_reason_of_many_tasks_is_said_once(two_models: Path, tmp_path: Path) -> None:
    tasks = ["nomiracl_de", "nomiracl_fi", "nomiracl_ar"]
    first, second = copied_models(two_models, tmp_path, tasks)
    for task in tasks:
        change_samples(second, task, lambda rows: list(map(another_prompt, rows)))
    with pytest.raises(Incomparable) as error:
        compared(first, second, tasks=tasks)
    assert str(error.value).count("prompts differ") == 1
    assert "and 2 more tasks: nomiracl_fi, nomiracl_ar" in str(error.value)


# --------------------------------------------------------------------------------------------------------------- runs


def test_samples_files_alone_are_runs(two_models: Path, closed_book: Path, tmp_path: Path) -> None:
    places = two_models / "baseline-lexical", closed_book
    whole = compared(*places, tasks=["mfava_de"])
    assert the(whole, "detected_rate", "mfava_de").result.difference < 0
    first, second = (copied(place, tmp_path / place.name) for place in places)
    for folder in (first, second):
        for results in folder.glob("results_*.json"):
            results.unlink()
    alone = compared(*(next(folder.glob("samples_mfava_de_*")) for folder in (first, second)))
    differences, expected = ([row.result.difference for row in found.differences] for found in (alone, whole))
    assert differences == pytest.approx(expected, nan_ok=True)

    def of_another(row: Row) -> Row:
        tagged = row["estimated_rate"]
        return {**row, "estimated_rate": tagged and {**tagged, "calibration": "lexical.json@0|de||lexical|0ther"}}

    change_samples(second, "mfava_de", lambda rows: list(map(of_another, rows)))
    with pytest.raises(Incomparable, match=r"the detector, or its calibration, differs.*0ther"):
        compared(first, second)


def test_samples_alone_have_the_same_measurable_values(two_models: Path, tmp_path: Path, whole: Comparison) -> None:
    """The bounds of shares and means are computed from the documents' values."""
    tasks = ("nomiracl_de", "clapnq_rag")
    places = copied_models(two_models, tmp_path, tasks)
    for folder in places:
        next(folder.glob("results_*.json")).unlink()
    alone, known = (
        {
            (row.column.name, row.metric.name): [cell.is_measurable for cell in row.cells]
            for row in found.differences
            if row.column.name in tasks
        }
        for found in (compared(*places, every_metric=True), whole)
    )
    assert alone == known
    assert alone["nomiracl_de", "error_rate"] == [True, False]  # one question of four


def test_a_damaged_file_is_an_error_and_a_cut_one_is_used(
    two_models: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = copied_models(two_models, tmp_path, ["nomiracl_de"])
    (path,) = second.glob("samples_*.jsonl")
    whole = path.read_text("utf-8")
    path.write_text(whole[:-20], "utf-8")
    with caplog.at_level(logging.WARNING):
        assert compared(first, second, tasks=["nomiracl_de"], metrics=["accuracy"]).differences
    assert "is cut in line" in caplog.text
    rows = whole.splitlines()
    path.write_text("\n".join([rows[0], rows[1][:50], *rows[2:]]) + "\n", "utf-8")
    with pytest.raises(CorruptSource, match="line 2"):
        compared(first, second, tasks=["nomiracl_de"])


def test_a_file_that_was_cut_in_the_rows_of_a_filter_says_so(two_models: Path, tmp_path: Path) -> None:
    """The harness writes the rows of one filter after those of the other."""
    first, second = copied_models(two_models, tmp_path, ["nomiracl_de"])
    options: dict[str, Any] = {"tasks": ["nomiracl_de"], "metrics": ["accuracy"]}

    def cut(rows: list[Row]) -> list[Row]:
        return sorted(rows, key=lambda row: row["filter"] != "strict")

    change_samples(second, "nomiracl_de", lambda rows: cut(rows)[:11])
    found = compared(first, second, **options)
    assert the(found, "accuracy", "nomiracl_de").result.n == 3
    note = r"3 of the 8 documents of .* have a row of the filter robust: samples_nomiracl_de_.*\.jsonl was cut"
    assert re.search(note, " ".join(found.notes))
    change_samples(second, "nomiracl_de", lambda rows: cut(rows)[:8])
    reason = "the samples of .* have no row of the filter robust, only of strict: samples_nomiracl_de_.*jsonl was cut"
    for given in ({}, {"filter_name": "robust"}):
        with pytest.raises(Incomparable, match=f"nomiracl_de: {reason}.*or say --filter strict"):
            compared(first, second, **options, **given)
    (refusal,) = compared(first, second, **options, refuse=False).refused
    assert re.match(reason, refusal.reason)
    assert the(compared(first, second, **options, filter_name="strict"), "accuracy", "nomiracl_de").result.n == 8


def test_shares_of_unknown_detectors_are_not_compared(tmp_path: Path) -> None:
    values = [{"rougeL": 0.5, "hallucinated_share": 0.25}] * 4
    places = [written_samples(tmp_path / name, "mine", values) for name in ("one", "other")]
    unknown = "nothing says which detector, version and threshold tagged the answers of one, other"
    found = compared(*places)
    assert {row.metric.name for row in found.differences} == {"rougeL"}
    assert f"hallucinated_share is not compared: {unknown}" in " ".join(found.notes)
    with pytest.raises(Incomparable, match=f"the runs cannot be compared. hallucinated_share: {unknown}"):
        compared(*places, metrics=["hallucinated_share"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tasks": ["nomiracl_xx"]}, "no two runs have the task nomiracl_xx; they have nomiracl,"),
        ({"metrics": ["rouge"]}, "no common task has the metric rouge; did you mean 'rougeL'.*There are abstention_"),
        ({"filter_name": "loose", "tasks": ["nomiracl_de"]}, "nomiracl_de: no filter loose; there are strict, robust"),
    ],
)
def test_what_is_not_there_is_named(two_models: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        compared(two_models, **options)


def test_two_runs_are_needed_with_a_task_in_common_and_answers(two_models: Path, tmp_path: Path) -> None:
    first, second = copied_models(two_models, tmp_path, [])
    with pytest.raises(ValueError, match="only one run was found"):
        compared(first)
    with pytest.raises(MissingSource, match="run it with --log_samples"):
        compared(first, second, tasks=["nomiracl_de"])
    unlogged = compared(first, second, tasks=["nomiracl_de"], refuse=False)
    assert [*unlogged.differences] == []
    assert [refusal.kind for refusal in unlogged.refused] == ["answers", "answers"]
    one = written_samples(tmp_path / "one", "mine", [{"acc": 1.0}])
    other = written_samples(tmp_path / "other", "theirs", [{"acc": 1.0}])
    with pytest.raises(ValueError, match=r"no task is in two runs: .* has mine; .* has theirs"):
        compared(one, other)


# ------------------------------------------------------------------------------------------------------------- metrics


def test_a_task_of_ones_own_is_compared_by_its_numbers(tmp_path: Path) -> None:
    values = ([{"acc": (i % 2) * at, "bleu": i / (9 - 2 * at), "said": "x"} for i in range(30)] for at in (1.0, 0.0))
    found = compared(*(written_samples(tmp_path / str(at), "mine", of_run) for at, of_run in enumerate(values)))
    acc, bleu = the(found, "acc", "mine"), the(found, "bleu", "mine")
    assert (acc.result.first, acc.result.second, acc.result.method[:5]) == (0.5, 0.0, "Tango")  # by its name
    assert (bleu.result.method, bleu.metric.higher_is_better, bleu.better) == ("paired bootstrap-t", None, None)
    assert bleu.significant
    assert [note for note in found.notes if "said is not compared: the values are str, not numbers" in note]


@pytest.mark.parametrize(
    ("value", "reason"), [(10**400, "too large to compute with"), ("x", "are str, not numbers")], ids=["large", "text"]
)
def test_a_value_that_is_no_number_is_seen_behind_one_that_does_not_count(
    two_models: Path, tmp_path: Path, value: Any, reason: str
) -> None:
    """Else the documents that are left would be compared."""
    first, second = copied_models(two_models, tmp_path, ["clapnq_gold"])
    values = iter([math.nan, value])
    change_samples(first, "clapnq_gold", lambda rows: [{**row, "rougeL": next(values, row["rougeL"])} for row in rows])
    with pytest.raises(Incomparable, match=f"rougeL: .*{reason}"):
        compared(first, second, tasks=["clapnq_gold"], metrics=["rougeL"])


FAITHFUL, FITTING = "faithfulness", "appropriateness"
RATED = (
    [(FAITHFUL, 4.0), (FITTING, 3.0), (FAITHFUL, 2.0), (FITTING, 1.0)],
    [(FAITHFUL, 1.0), (FITTING, 4.0), (FAITHFUL, 2.0), (FITTING, 3.0)],
)


@pytest.mark.parametrize(
    ("metric", "first", "second", "values", "n"),
    [
        # faithfulness 3.0 and 1.5, appropriateness 2.0 and 3.5: a harmonic mean over questions
        ("f_plus_a", RATED[0] * 5, RATED[1] * 5, (2 / (1 / 3 + 1 / 2), 2 / (1 / 1.5 + 1 / 3.5)), 10),
        # each question counts the same, however many verdicts it has
        ("win_rate_x", [(1.0,), (0.0,), (0.0,), (None,), (None,)], [(1.0,)] * 5, (0.25, 1.0), 2),
        ("unread_rate", [(n % 3 == 0, 1) for n in range(12)], [(0, 1)] * 12, (1 / 3, 0.0), 6),
    ],
)
def test_what_a_judge_says_is_compared_over_questions(
    tmp_path: Path, metric: str, first: list[Any], second: list[Any], values: tuple[float, float], n: int
) -> None:
    """Values of a judge name their question, of which two documents have one."""
    docs = [{"id": f"q{number // 2}", "subset": f"s{number}"} for number in range(len(first))]
    of_models = [[{metric: [f"q{at // 2}", *said]} for at, said in enumerate(judged)] for judged in (first, second)]
    places = [written_samples(tmp_path / str(at), "clapnq_judge", of, docs) for at, of in enumerate(of_models)]
    row = the(compared(*places), metric, "clapnq_judge")
    assert (row.result.first, row.result.second) == pytest.approx(values)
    assert (row.cells[0].value, row.result.n, row.unit) == (pytest.approx(row.result.first), n, "questions")
