"""``lm-eval-grounded score --marks``: from answers that were drawn and marked to ``marked_rate`` in table, files,
comparison and report."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.words import words
from custom_metrics.statistics.figures import is_measurable
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin import calibration as calibrations
from lm_eval_tasks.clapnq.dataset import load
from lm_eval_tasks.cli import main
from lm_eval_tasks.detection.labelled_answers import UNJUDGED, read_labelled_lines
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.marks.draw import TaskAnswers
from lm_eval_tasks.results.report import Report
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.results.reproduce import commands_of, read_recorded
from lm_eval_tasks.results.score import score
from lm_eval_tasks.runs import Run, read_runs
from tests.logged_runs import in_this_process, replay
from tests.marked_runs import DECLINES, annotated, first_word, rate_by_hand
from tests.miniature import MINIATURE
from tests.shared_once import SharedOnce

TASK = "mfava_de"


@pytest.fixture(scope="session")
def tagged(shared_once: SharedOnce) -> Path:
    """A run of nine answers in German that `lexical` has read."""
    return next(shared_once("mfava tagged", lambda folder: replay(folder / "out")).rglob("results_*.json")).parent


def doubtful(line: Mapping[str, Any]) -> dict[str, Any]:
    """The same of one who cannot tell of the first answer that was drawn, whose line has the order."""
    return {"spans": None, "cannot_tell": True} if "order" in line["draw"] else first_word(line)


def nothing(line: Mapping[str, Any]) -> dict[str, Any]:
    return {"spans": [], "cannot_tell": False}


def scored(written: Path) -> Run:
    (result,) = read_runs([written])
    return result


def test_the_rate_is_that_of_the_estimator_over_the_draws(tagged: Path, tmp_path: Path) -> None:
    marks = annotated(tmp_path, [tagged])
    (written,) = score(tagged, output=tmp_path / "out", marks=[marks])
    task = scored(written).tasks[TASK]

    rows = [json.loads(line) for line in marks.read_text("utf-8").splitlines()]
    by_hand = rate_by_hand(task, rows)
    figure = task.figure("marked_rate", "answer")
    assert figure[:4] == pytest.approx(by_hand.figure[:4])
    assert figure.n == len(rows)
    assert task.results["marked_rate,answer"] == pytest.approx(by_hand.figure.value)
    assert task.results["marked_rate_stderr,answer"] == pytest.approx(by_hand.figure.standard_error)
    assert {
        key: task.provenance["marks"][key] for key in ("design", "draws", "answers", "words", "annotators", "lambda")
    } == {
        "design": "without replacement, in proportion to words",
        "draws": 7,
        "answers": len(rows),
        "words": sum(len(words(row["answer"], "de")) for row in rows),
        "annotators": 1,
        "lambda": pytest.approx(by_hand.slope),
    }
    assert task.provenance["marks"]["worth"] == pytest.approx(by_hand.worth)
    assert task.figures["answer"]["marked_rate_alone"]["value"] == pytest.approx(by_hand.alone.value)
    names = [metric.name for metric in task.metrics]
    assert names.index("marked_rate") + 1 == names.index("rogan_gladen_rate")


def test_what_nobody_can_judge_is_bounded(tagged: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (written,) = score(tagged, output=tmp_path / "out", marks=[annotated(tmp_path, [tagged], doubtful)])
    task = scored(written).tasks[TASK]
    figures = task.figures["answer"]
    lowest, highest = (figures[f"marked_rate_{name}"]["value"] for name in ("lowest", "highest"))
    assert lowest < figures["marked_rate"]["value"] < highest
    assert task.provenance["marks"]["cannot_tell"] == 1
    assert figures["marked_rate"]["n"] == task.provenance["marks"]["answers"]
    basis = r"by annotators' marks of \d+ answers \(\d+ draws, \d+ words\), 95 % bounds .*; 1 more could be judged"
    assert re.search(basis, caplog.text)
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "report.html")]) == 0
    (command,) = commands_of(read_recorded(written))[0][-1:]
    assert command.endswith(" --marks " + " ".join(task.provenance["marks"]["files"]))


def test_annotators_who_disagree_are_averaged_and_doubted(
    tagged: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [annotated(tmp_path, [tagged]), annotated(tmp_path, [tagged], nothing, annotator="bert")]
    (alone,) = score(tagged, output=tmp_path / "alone", marks=files[:1])
    (both,) = score(tagged, output=tmp_path / "both", marks=files)
    rates = [scored(path).tasks[TASK].figures["answer"]["marked_rate_alone"]["value"] for path in (alone, both)]
    assert rates[1] == pytest.approx(rates[0] / 2)
    assert "annotators, who agree with kappa 0.00 on words: so little that" in caplog.text


def test_nothing_is_written_where_marks_are_refused(tagged: Path, tmp_path: Path) -> None:
    marks = annotated(tmp_path, [tagged])
    lines = marks.read_text("utf-8").splitlines(keepends=True)
    marks.write_text("".join(lines[:-1]), "utf-8")
    with pytest.raises(UsageError, match="1 drawn answers are not marked"):
        score(tagged, output=tmp_path / "out", marks=[marks])
    marks.write_text(lines[0].replace('"mfava_de"', '"mfava_fi"'), "utf-8")
    with pytest.raises(UsageError, match=r"no mark in .* is of an answer of these runs"):
        score(tagged, output=tmp_path / "out", marks=[marks])
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="session")
def two_scored(tagged: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two models whose answers to the same questions were marked: the first word of each of the first, nothing of the
    second."""
    folder = tmp_path_factory.mktemp("two")
    in_this_process([TASK], "grounded-baseline", "strategy=lexical", folder / "b")
    second = next((folder / "b").rglob("results_*.json")).parent
    runs = [tagged, second]
    digest = TaskAnswers.of("", read_runs([tagged])[0].tasks[TASK]).digest

    def marks(line: Mapping[str, Any]) -> Mapping[str, Any]:
        return first_word(line) if line["run"] == digest else nothing(line)

    path = annotated(folder, runs, marks)
    return [scored(score(each, output=folder / f"out{number}", marks=[path])[0]) for number, each in enumerate(runs)]


def test_two_models_are_compared_by_the_marks_of_the_same_questions(two_scored: list[Run]) -> None:
    (row,) = compare_runs(two_scored, tasks=[TASK]).select("marked_rate", TASK)
    assert row.result.difference == pytest.approx(row.result.first - row.result.second)
    assert row.result.low < row.result.difference < row.result.high
    method = "MOVER of two marked means with their correlation"
    assert (row.result.method, row.unit, row.result.n) == (method, "draws", 7)
    assert row.result.first == pytest.approx(two_scored[0].tasks[TASK].figure("marked_rate", "answer").value)


@pytest.fixture(scope="session")
def one_abstains(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Run]]:
    """Two CLAPnq runs that were drawn together, by the number of draws that count. The second declines every other
    question. The first makes up all that it says there, and else the first word; the second makes up nothing."""
    folder = tmp_path_factory.mktemp("abstains")
    docs = list(load(mirror=MINIATURE)["evaluation"])
    declined = {doc["id"] for doc in docs[::2]}
    metadata = {"mirror": MINIATURE, "detector": "lexical"}
    runs = []
    for model in ("first", "second"):
        responses = {
            doc["id"]: DECLINES
            if model == "second" and doc["id"] in declined
            else f"{doc['question']} {model} says so."
            for doc in docs
        }
        answers = folder / f"{model}.jsonl"
        rows = [{"query_id": name, "response": response} for name, response in responses.items()]
        answers.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        in_this_process(["clapnq_gold"], "replay", f"path={answers}", folder / model, metadata=metadata)
        runs.append(next((folder / model).rglob("results_*.json")).parent)

    def marks(line: Mapping[str, Any]) -> Mapping[str, Any]:
        if "second says so" in line["answer"]:
            return nothing(line)
        return {"spans": [[0, len(line["answer"]), "hallucination"]]} if line["id"] in declined else first_word(line)

    path = annotated(folder, runs, marks, number=30, task="clapnq_gold")
    return {
        number: [
            scored(score(run, output=folder / f"{number}_{run.name}", marks=[path], complete_to=number)[0])
            for run in runs
        ]
        for number in (30, 20)
    }


def test_runs_of_which_one_abstains_are_compared_over_all_that_each_says(one_abstains: dict[int, list[Run]]) -> None:
    runs = one_abstains[30]
    (row,) = compare_runs(runs, tasks=["clapnq_gold"]).select("marked_rate", "clapnq_gold")
    figures = [run.tasks["clapnq_gold"].figure("marked_rate", "answer") for run in runs]
    assert (row.result.first, row.result.second) == pytest.approx([figure.value for figure in figures])
    assert (row.result.n, row.only_first, row.only_second) == (30, 0, 0)
    assert row.result.first > 0.4  # where both answer, it is one word in about ten
    assert row.result.low > 0
    assert figures[1].n < figures[0].n  # answers that abstain are drawn, and not marked
    column = compare_runs(runs, tasks=["clapnq_gold"]).column("marked_rate", "clapnq_gold")
    assert column is not None
    assert column.ranks == {0: 2, 1: 1}


def test_an_answer_that_nobody_could_judge_in_one_run_counts_for_the_other(tagged: Path, tmp_path: Path) -> None:
    """`compare` says for which run how many answers were judged."""
    in_this_process([TASK], "grounded-baseline", "strategy=lexical", tmp_path / "b")
    runs = [tagged, next((tmp_path / "b").rglob("results_*.json")).parent]
    digest = TaskAnswers.of("", read_runs([tagged])[0].tasks[TASK]).digest

    def marks(line: Mapping[str, Any]) -> Mapping[str, Any]:
        unknown = line["run"] == digest and line["id"] == "de_0_1"
        return {"spans": None, "cannot_tell": True} if unknown else first_word(line)

    path = annotated(tmp_path, runs, marks)
    results = [scored(score(run, output=tmp_path / f"out{n}", marks=[path])[0]) for n, run in enumerate(runs)]
    (row,) = compare_runs(results, tasks=[TASK]).select("marked_rate", TASK)
    figures = [result.tasks[TASK].figure("marked_rate", "answer") for result in results]
    assert (row.only_first, row.only_second) == (0, 1)
    assert (row.result.first, row.result.second) == pytest.approx([figure.value for figure in figures])
    assert figures[0].n == figures[1].n - 1


@pytest.mark.parametrize(
    ("draws", "together"), [((30, 30), {0, 1}), ((30, 20), set()), ((30, 30, 20), {0, 1}), ((20, 30, 20), {0, 2})]
)
def test_rates_by_marks_of_one_draw_are_comparable(
    one_abstains: dict[int, list[Run]], draws: tuple[int, ...], together: set[int]
) -> None:
    """Rates by marks of one draw are compared. Of runs of other draws all else is."""
    runs = [one_abstains[number][place % 2] for place, number in enumerate(draws)]
    result = compare_runs(runs, tasks=["clapnq_gold"])
    ranked = {column.metric.name: {*column.ranks} for column in result.columns}
    assert len([*result.select("marked_rate", "clapnq_gold")]) == len(together) // 2
    assert {run for row in result.select("marked_rate") for run in (row.first, row.second)} == together
    assert ranked.pop("marked_rate", set()) == together
    directed = (each for each in result.columns if each.metric.higher_is_better is not None)  # a length has no rank
    for column in (each for each in directed if each.metric.name != "marked_rate"):
        able = {run for run, cell in column.cells.items() if is_measurable(cell.figure, column.metric.unit)}
        assert {*column.ranks} == able >= {run for run in column.cells if run % 2 == 0}
        assert len(column.cells) == len(runs)  # 16 of 18 means are 0 where a run abstains: not measurable
    assert ranked["balanced_error"] == {*range(len(runs))}
    assert ("are of different draws: draw once for all runs" in str(result)) == (len({*draws}) == 2)


def test_a_run_without_marks_is_left_out_of_the_comparison_of_the_others(
    one_abstains: dict[int, list[Run]], tmp_path: Path
) -> None:
    metadata = {"mirror": MINIATURE, "detector": "lexical"}
    in_this_process(["clapnq_gold"], "grounded-baseline", "strategy=lexical", tmp_path, metadata=metadata)
    runs = [*read_runs([tmp_path]), *one_abstains[30]]
    result = compare_runs(runs)
    (row,) = result.select("marked_rate")
    assert (row.first, row.second, row.result.n, row.unit) == (1, 2, 30, "draws")
    reason = "marked_rate is not compared for all runs: the answers of lm-eval-grounded/baseline-lexical have no marks"
    assert [note for note in result.notes if reason in note]
    column = result.column("marked_rate", "clapnq_gold")
    assert column is not None
    assert column.ranks == {1: 2, 2: 1}


def test_the_report_takes_it_before_other_rates(two_scored: list[Run]) -> None:
    (row,) = compare_runs(two_scored).select("marked_rate")
    assert row.result.p > 0.9  # so they share a rank
    report = Report.of(two_scored)
    (overview,) = report.overviews
    assert overview.shown[0].metric.name == "marked_rate"
    assert [each.rank for each in overview.rows] == [1, 1]
    assert {row["rank"] for row in report.figures() if row["metric"] == "marked_rate"} == {1}
    (column,) = headlines(two_scored)
    assert (column.metric.name, [*column.cells]) == ("marked_rate", [0, 1])
    assert "by annotators' marks of some answers" in column.cells[0].explanation


def test_marks_are_data_for_other_commands(tagged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = annotated(tmp_path, [tagged], doubtful, number=30, annotator="bert")
    left_out: Counter[str] = Counter()
    documents = read_labelled_lines(second, left_out)
    assert left_out == {UNJUDGED: 1}
    assert {(d.language, d.annotations, d.spans[0].start) for d in documents} == {("de", "real", 0)}

    def everything(line: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"spans": [[0, len(line["answer"]), "hallucination"]], "cannot_tell": False}

    third = annotated(tmp_path, [tagged], everything, number=30, annotator="cleo")
    assert main(["calibrate", str(third), "--detector", "lexical", "-o", str(tmp_path / "c.json")]) == 0
    calibration = calibrations.load(str(tmp_path / "c.json")).for_language("de", "real")
    assert calibration is not None
    assert calibration.models == ("sample/closed-book",) * (len(documents) + 1)
    assert calibration.texts == 5  # articles
