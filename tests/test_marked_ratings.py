"""``score --marks`` on a judge's run: people's ratings and preferences of some answers, joined with the judge's of all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from custom_metrics.statistics.agreement import cohen_kappa, contingency_table, quadratic_weights
from custom_metrics.statistics.marked import Draws, marked_harmonic_mean, marked_mean
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.dataset import load
from lm_eval_tasks.clapnq.judge.marked import HARMONIC, MarkedRating, RatedAnswer, marked_score, score_of
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.results.marks.draw import TaskAnswers
from lm_eval_tasks.results.score import score
from lm_eval_tasks.runs import TaskRun, read_runs
from tests.judged import PAIRS, RATINGS, Row, compared, file, files, rated, runs
from tests.logged_runs import files_of, in_this_process, lines
from tests.marked_runs import DECLINES, annotated, first_word, left_out, rate_by_hand
from tests.miniature import MINIATURE

__all__ = ["runs"]  # a fixture

TASK = "clapnq_gold"
RATING_SCALE = (1.0, 4.0)
Verdict = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def number_of(text: str, size: int) -> int:
    """A number below `size` that looks random, and is the same for the same text."""
    return sum(text.encode()) % size


def judge_says(doc: Row) -> str:
    if "aspect" in doc:
        return f"Rating: {1 + number_of(doc['id'], 3) + (doc['aspect'] == 'faithfulness')}"
    better = sorted((doc["first"], doc["second"]))[number_of(doc["id"], 2)]
    return (
        "Preference: tie" if number_of(doc["id"], 5) == 0 else f"Preference: {'A' if doc['first'] == better else 'B'}"
    )


def judged(folder: Path, task: str, metadata: Row) -> Path:
    """A run of a judge that has rated runs, logged as the harness logs it; its folder."""
    docs = rated(**metadata) if task == RATINGS else compared(**metadata)
    folder.mkdir(parents=True, exist_ok=True)
    replies = folder / "replies.jsonl"
    rows = [{"id": doc["query_id"], "task": task, "response": judge_says(doc)} for doc in docs]
    replies.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    in_this_process([task], "replay", f"path={replies}", folder / "out", metadata=metadata)
    return files_of(folder / "out")


def people_rate(line: Mapping[str, Any]) -> dict[str, Any]:
    """Mostly one less than the judge says."""
    faithfulness = 1 + number_of(line["id"], 3) + (number_of(line["id"], 4) == 0)
    return {"ratings": {"faithfulness": faithfulness, "appropriateness": 1 + number_of(line["id"], 4)}}


def marked(
    folder: Path, paths: Sequence[str], say: Verdict = people_rate, kind: str = "ratings", number: int = 12, **more: Any
) -> Path:
    return annotated(folder, [*map(Path, paths)], say, kind, number, TASK, **more)


def scored(judge: Path, marks: Sequence[Path], output: Path, task: str = RATINGS) -> TaskRun:
    (written,) = score(judge, output=output, marks=marks)
    (result,) = read_runs([written])
    return result.tasks[task]


@pytest.fixture(scope="session")
def of_ratings(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return judged(tmp_path_factory.mktemp("ratings"), RATINGS, {"samples": file(runs, "lexical")})


@pytest.fixture(scope="session")
def of_pairs(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    metadata = {"samples": files(runs, "full_passage", "lexical", "abstain"), "judge_names": ["x", "y", "z"]}
    return judged(tmp_path_factory.mktemp("pairs"), PAIRS, metadata)


# ---------------------------------------------------------------------------------------------------------- by hand


def test_a_mean_by_hand() -> None:
    """Two of four questions were drawn twice and once; lambda is 1: people say one less than the judge, each time."""
    values = [
        RatedAnswer("a", "faithfulness", 4.0, 2, 3.0),
        RatedAnswer("b", "faithfulness", 2.0, 3, 1.0),
        RatedAnswer("c", "faithfulness", 3.0),
        RatedAnswer("d", "faithfulness", None, 1, None),  # nobody can tell
    ]
    result = marked_score(values, RATING_SCALE)
    assert result is not None
    assert (result.judged, result.unknown, result.questions) == (3.0, 1, ("a", "b"))
    assert result.mean.slope == pytest.approx(1.0)
    assert result.mean.figure.value == pytest.approx(2.0)  # (2 * 3 + 3 * 1) / 5 - ((2 * 4 + 3 * 2) / 5 - 3)
    assert result.mean.alone.value == pytest.approx(1.8)
    assert MarkedRating("marked_faithfulness").figure_of([[*value] for value in values] + [None]).n == 2
    assert marked_score(values[2:], RATING_SCALE) is None


def test_a_reply_that_could_not_be_read_counts_as_the_judges_mean() -> None:
    ratings = [("a", 4.0, 4.0), ("b", 2.0, 1.0), ("c", None, 2.0), ("d", 3.0, None), ("e", 3.0, 3.0)]
    values = [
        RatedAnswer(name, "faithfulness", judged, 2 * (people is not None), people) for name, judged, people in ratings
    ]
    by_hand = marked_mean(Draws.of(np.full(4, 2)), [4, 1, 2, 3], [4, 2, 3, 3], 3.0, RATING_SCALE)
    result = marked_score(values, RATING_SCALE)
    assert result is not None
    assert result.mean.figure == by_hand.figure


def test_the_harmonic_mean_by_hand() -> None:
    """F+A of means 2 and 3 is 2.4; its derivatives are 2 * 9 / 25 and 2 * 4 / 25."""
    draws = Draws.of(np.ones(6))
    first = marked_mean(draws, [1, 2, 3, 1, 2, 3], np.zeros(6), 0.0, (0.0, 4.0))
    second = marked_mean(draws, [3, 3, 3, 2, 4, 3], np.zeros(6), 0.0, (0.0, 4.0))
    both = marked_harmonic_mean(draws, [first, second], RATING_SCALE)
    assert both.figure.value == pytest.approx(2.4)
    moved = 18 / 25 * np.array([-1, 0, 1, -1, 0, 1]) + 8 / 25 * np.array([0, 0, 0, -1, 1, 0])
    assert both.figure.standard_error == pytest.approx(math.sqrt(moved @ moved / 6 / 5))
    assert both.figure.low < 2.4 < both.figure.high
    with pytest.raises(ValueError, match="of the same draws"):
        marked_harmonic_mean(Draws.of(np.ones(5)), [first, second], RATING_SCALE)


def test_the_bounds_of_f_plus_a_hold() -> None:
    """Of 400 draws of 30 of 200 questions, about 95 % have the truth within their bounds."""
    rng = np.random.default_rng(0)
    truth = np.clip(np.round(rng.normal([3.0, 2.2], 0.9, (200, 2))), 1, 4)
    judge = np.clip(np.round(truth + rng.normal(0.4, 0.7, (200, 2))), 1, 4)
    means = truth.mean(axis=0)
    held = 0
    for _ in range(400):
        times = np.bincount(rng.integers(0, 200, 30), minlength=200)
        values = tuple(
            RatedAnswer(
                str(place), aspect, judge[place, of], int(times[place]), truth[place, of] if times[place] else None
            )
            for place in range(200)
            for of, aspect in enumerate(("faithfulness", "appropriateness"))
        )
        result = score_of.__wrapped__(HARMONIC, values)
        assert result is not None
        held += result.mean.figure.low <= 2 / (1 / means).sum() <= result.mean.figure.high
    assert 0.92 <= held / 400 <= 0.98


# ------------------------------------------------------------------------------------------------------- through the run


def test_ratings_of_some_answers_are_joined_with_the_judges_of_all(
    runs: Path, of_ratings: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    marks = marked(tmp_path, [file(runs, "lexical")])
    task = scored(of_ratings, [marks], tmp_path / "out")
    rows = lines(marks)
    judge = {(doc["id"], doc["aspect"]): float(judge_says(doc)[-1]) for doc in rated(samples=file(runs, "lexical"))}
    draws = Draws.of(np.ones(12), left_out=left_out(rows))
    means = {}
    for aspect in ("faithfulness", "appropriateness"):
        of_all = np.mean([rating for (_, of), rating in judge.items() if of == aspect])
        means[aspect] = marked_mean(
            draws,
            [row["ratings"][aspect] for row in rows],
            [judge[row["id"], aspect] for row in rows],
            float(of_all),
            RATING_SCALE,
        )
        figure = task.figure(f"marked_{aspect}", "rating")
        assert figure[:4] == pytest.approx(means[aspect].figure[:4])
        assert figure.n == len(rows)
        assert task.results[f"marked_{aspect},rating"] == pytest.approx(means[aspect].figure.value)
        assert task.results[f"marked_{aspect}_stderr,rating"] == pytest.approx(means[aspect].figure.standard_error)
        assert task.results[f"{aspect},rating"] == pytest.approx(of_all)  # the judge's own are as they were
        labels = [(int(judge[row["id"], aspect]) - 1, row["ratings"][aspect] - 1) for row in rows]
        kappa = float(cohen_kappa(contingency_table(labels, 4), quadratic_weights(range(4))))
        agreement = task.provenance["marks"]["agreement"][aspect]
        assert agreement == {**agreement, "kappa": None, "answers_of_several": 0}
        assert agreement["judge"]["value"] == task.figures["rating"][f"kappa_{aspect}"]["value"] == pytest.approx(kappa)
        assert agreement["judge"]["low"] < kappa < agreement["judge"]["high"]
        assert agreement["judge"]["n"] == len(rows)
    both = marked_harmonic_mean(draws, [*means.values()], RATING_SCALE).figure
    assert task.figure("marked_f_plus_a", "rating")[:4] == pytest.approx(both[:4])
    assert [metric.name for metric in task.metrics][:4] == [
        *("marked_f_plus_a", "marked_faithfulness", "marked_appropriateness", "f_plus_a")
    ]
    basis = task.provenance["marks"]["metrics"]["marked_faithfulness"]
    assert (basis["draws"], basis["answers"], basis["cannot_tell"]) == (12, len(rows), 0)
    assert basis["lambda"] == pytest.approx(means["faithfulness"].slope)
    assert task.provenance["marks"]["task"] == TASK
    said = (
        rf"marked_faithfulness \d\.\d\d by people's ratings of {len(rows)} answers \(12 draws\), 95 % bounds \d\.\d\d to "
        rf"\d\.\d\d; the judge says \d\.\d\d; with the judge's ratings as good as \d+ alone"
    )
    assert re.search(said, caplog.text)
    assert f"on the faithfulness of {len(rows)} answers the judge agrees with people with kappa" in caplog.text
    assert {entry["option"] for entry in task.provenance["local_files"]} == {"samples", "judged"}


def test_preferences_for_some_questions_are_joined_with_the_judges_for_all(
    runs: Path, of_pairs: Path, tmp_path: Path
) -> None:
    """The judge compared a third system, too; people compared x and y."""
    paths = files(runs, "full_passage", "lexical")
    digest = TaskAnswers.of("", read_runs([Path(paths[0])])[0].tasks[TASK]).digest
    wins = {"x": [1.0, 0.5, 0.0], "y": [0.0, 0.5, 1.0]}

    def prefer(line: Mapping[str, Any]) -> dict[str, Any]:
        choice = number_of(line["id"], 3)  # 0: x, 1: a tie, 2: y
        return {"preferred": "tie" if choice == 1 else line["runs"].index(digest) ^ (choice == 2)}

    marks = marked(tmp_path, paths, prefer, "preferences")
    task = scored(of_pairs, [marks], tmp_path / "out", PAIRS)
    rows = lines(marks)
    docs = compared(samples=paths, judge_names=["x", "y"])
    for system in "xy":
        judge = {doc["id"]: 0.5 for doc in docs}
        for doc in docs:
            if not judge_says(doc).endswith("tie"):
                judge[doc["id"]] = float(doc["first" if judge_says(doc).endswith("A") else "second"] == system)
        by_hand = marked_mean(
            Draws.of(np.ones(12), left_out=left_out(rows)),
            [wins[system][number_of(row["id"], 3)] for row in rows],
            [judge[row["id"]] for row in rows],
            float(np.mean([*judge.values()])),
        )
        assert task.figure(f"marked_win_rate_{system}", "preference")[:4] == pytest.approx(by_hand.figure[:4])
        figures = task.figures["preference"]
        assert figures[f"marked_win_rate_{system}_judged"]["value"] == pytest.approx(np.mean([*judge.values()]))
        assert figures[f"marked_win_rate_{system}_alone"]["value"] == pytest.approx(by_hand.alone.value)
    values = [task.results[f"marked_win_rate_{system},preference"] for system in "xy"]
    assert sum(values) == pytest.approx(1.0)
    assert "marked_win_rate_z,preference" not in task.results
    assert task.results["win_rate_z,preference"] >= 0
    assert task.provenance["marks"]["agreement"]["preference"]["judge"]["n"] == len(rows)


def test_what_nobody_can_tell_is_left_out_and_annotators_who_disagree_are_doubted(
    runs: Path, of_ratings: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = file(runs, "lexical")

    def doubtful(line: Mapping[str, Any]) -> dict[str, Any]:
        ratings = people_rate(line)["ratings"]
        unknown = {"faithfulness": None} if "order" in line["draw"] else {}
        return {"ratings": {**ratings, **unknown}}

    def contrary(line: Mapping[str, Any]) -> dict[str, Any]:
        return {"ratings": {name: rating and 5 - rating for name, rating in doubtful(line)["ratings"].items()}}

    marks = [marked(tmp_path, [path], doubtful), marked(tmp_path, [path], contrary, annotator="bert")]
    task = scored(of_ratings, marks, tmp_path / "out")
    metrics = task.provenance["marks"]["metrics"]
    assert [metrics[f"marked_{name}"]["cannot_tell"] for name in ("faithfulness", "appropriateness")] == [1, 0]
    assert metrics["marked_f_plus_a"]["answers"] == metrics["marked_appropriateness"]["answers"]
    figures = task.figures["rating"]
    assert figures["marked_faithfulness_alone"]["value"] == pytest.approx(2.5)  # annotators are averaged
    f_plus_a = 2 / sum(1 / figures[f"marked_{name}"]["value"] for name in ("faithfulness", "appropriateness"))
    assert figures["marked_f_plus_a"]["value"] == pytest.approx(f_plus_a)
    assert task.provenance["marks"]["annotators"] == 2
    assert "1 more could be judged by nobody" in caplog.text
    assert re.search(r"several annotators agree with kappa -\d\.\d\d: so little that", caplog.text)


# ------------------------------------------------------------------------------------------ spans in answers of CLAPnq


def test_marked_spans_give_a_rate_beside_the_share_that_a_detector_flags(tmp_path: Path) -> None:
    """Every fourth answer abstains; of the others, which repeat the question, people mark the first word."""
    docs = list(load(mirror=MINIATURE)["evaluation"])
    answers = tmp_path / "answers.jsonl"
    rows = [
        {
            "query_id": doc["id"],
            "response": DECLINES if number % 4 == 0 else f"{doc['question']} Yes, in Paris.",
        }
        for number, doc in enumerate(docs)
    ]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    metadata = {"mirror": MINIATURE, "detector": "lexical"}
    in_this_process([TASK], "replay", f"path={answers}", tmp_path / "run", metadata=metadata)
    folder = files_of(tmp_path / "run")

    marks = marked(tmp_path / "marks", [str(folder)], first_word, "spans", 15)
    rows = lines(marks)
    assert all(row["answer"].endswith("Yes, in Paris.") for row in rows)  # nobody marks an answer that abstains
    task = scored(folder, [marks], tmp_path / "out", TASK)
    assert task.figure("marked_rate", "answer")[:4] == pytest.approx(rate_by_hand(task, rows).figure[:4])
    names = [metric.name for metric in task.metrics]
    assert {"marked_rate", "hallucinated_share"} <= {*names}
    assert task.results["hallucinated_share,answer"] > 0


def test_a_judge_of_two_runs_is_scored_for_both(runs: Path, tmp_path: Path) -> None:
    """Its folders have one name, as it is one model. The marks of both are in one file."""
    paths = files(runs, "full_passage", "lexical")
    for number, path in enumerate(paths):
        judged(tmp_path / "judged" / str(number), RATINGS, {"samples": path})
    written = score(tmp_path / "judged", output=tmp_path / "out", marks=[marked(tmp_path, paths)])
    assert [path.relative_to(tmp_path).parts[:2] for path in written] == [("out", "0"), ("out", "1")]
    systems = [each.tasks[RATINGS].provenance["marks"]["systems"] for each in read_runs([tmp_path / "out"])]
    assert systems == [["full_passage"], ["lexical"]]


# -------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "another"}, r"line 1: the answer to \S+ is another one than that of lexical"),
        ({"reference": "another"}, r"line 1: the reference of \S+ is another one"),
        ({"chance": 0.25}, r"line 1: \S+ was drawn from 4 questions, but 18 are judged"),
        ({"id": "nowhere", "draw": {"seed": 1, "runs": ["f" * 16], "order": ["nowhere"]}, "run": "f" * 16}, "nowhere"),
    ],
)
def test_ratings_of_other_answers_are_refused(
    runs: Path, of_ratings: Path, tmp_path: Path, change: Row, message: str
) -> None:
    marks = marked(tmp_path, [file(runs, "lexical")])
    rows = lines(marks)
    changed = [{**rows[0], **change}, *([] if "id" in change else rows[1:])]
    marks.write_text("".join(json.dumps(row) + "\n" for row in changed), "utf-8")
    with pytest.raises(UsageError, match=message):
        score(of_ratings, output=tmp_path / "out", marks=[marks])
    assert not (tmp_path / "out").exists()


def test_preferences_of_two_pairs_are_refused(runs: Path, of_pairs: Path, tmp_path: Path) -> None:
    marks = [
        marked(tmp_path / other, files(runs, "lexical", other), lambda line: {"preferred": 0}, "preferences")
        for other in ("full_passage", "abstain")
    ]
    with pytest.raises(UsageError, match="are of different pairs of runs; score them one by one"):
        score(of_pairs, output=tmp_path / "out", marks=marks)


def test_marks_that_nothing_is_scored_with_are_named(
    runs: Path, of_ratings: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = file(runs, "lexical")
    spans = marked(tmp_path, [path], lambda line: {"spans": []}, "spans")
    score(of_ratings, output=tmp_path / "out", marks=[marked(tmp_path, [path]), spans])
    assert "marks passed over, as no run here is scored with them: spans" in caplog.text


@pytest.mark.parametrize(
    "change",
    [{"quoted": None}, {"quoted": {"passages": [1]}}, {"first": ["x"]}, {"first": "y", "second": "y"}, {"quoted": 3}],
)
def test_samples_of_no_judge_are_refused(runs: Path, of_pairs: Path, tmp_path: Path, change: Row) -> None:
    (path,) = of_pairs.glob("samples_*.jsonl")
    rows = lines(path)
    rows[3]["doc"] |= change
    damaged = tmp_path / path.name
    damaged.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    marks = marked(tmp_path / "m", files(runs, "full_passage", "lexical"), lambda line: {"preferred": 1}, "preferences")
    with pytest.raises(CorruptSource, match=rf"document '{rows[3]['doc']['id']}' is none of clapnq_judge_pairs"):
        score(damaged, output=tmp_path / "out", marks=[marks])


def test_without_a_judge_the_message_says_how_to_have_one(runs: Path, tmp_path: Path) -> None:
    marks = marked(tmp_path, [file(runs, "lexical")])
    with pytest.raises(MissingSource, match=r"people's ratings are joined with a judge's: .* --tasks clapnq_judge "):
        score(Path(file(runs, "lexical")), output=tmp_path / "out", marks=[marks])
