"""Runs read back: from folders and files to models, tasks, answers and what was made of them."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.nomiracl.dataset import LANGUAGES
from lm_eval_tasks.runs import differing_columns, labels, read_runs
from lm_eval_tasks.runs.answers import content_of, key_of
from lm_eval_tasks.runs.results_file import leaves_of

DETECTOR = {"detector": "lexical", "detector_args": "{}", "calibration": "a", "calibration_annotations": ""}


def test_a_folder_is_read_model_by_model(two_models: Path) -> None:
    answer, lexical = read_runs([two_models])

    assert (answer.model, lexical.model) == ("lm-eval-grounded/baseline-answer", "lm-eval-grounded/baseline-lexical")
    assert labels([answer, lexical]) == [answer.model, lexical.model]
    assert {*lexical.tasks} == {
        *(f"nomiracl_{code}" for code in LANGUAGES),
        *("clapnq_gold", "clapnq_rag", "mfava_de", "mfava_ar"),
    }
    assert lexical.groups == {"nomiracl": tuple(f"nomiracl_{code}" for code in LANGUAGES)}
    members = [lexical.tasks[name].results["hallucination_rate,strict"] for name in lexical.groups["nomiracl"]]
    assert lexical.group_results["nomiracl"]["hallucination_rate,strict"] == pytest.approx(fmean(members))
    assert [task.task for task in lexical.tasks.values() if task.benchmark == "mfava"] == ["mfava_de", "mfava_ar"]
    assert len(lexical.files) == 1 + len(lexical.tasks)


@pytest.mark.parametrize(
    ("task", "benchmark", "language", "filters", "first_metric", "aggregation", "detector"),
    [
        ("nomiracl_de", "nomiracl", "de", ("strict", "robust"), "hallucination_rate", "defined_share", None),
        ("clapnq_gold", "clapnq", "", ("answer",), "rougeL", "defined_mean", None),
        ("clapnq_rag", "clapnq", "", ("answer",), "rougeL", "defined_mean", None),
        ("mfava_ar", "mfava", "ar", ("answer",), "detected_rate", "detected_rate", "lexical"),
    ],
)
def test_a_task_of_a_run(
    two_models: Path,
    task: str,
    benchmark: str,
    language: str,
    filters: tuple[str, ...],
    first_metric: str,
    aggregation: str,
    detector: str | None,
) -> None:
    found = read_runs([two_models])[1].tasks[task]

    assert (found.benchmark, found.language, found.filters) == (benchmark, language, filters)
    assert (found.metrics[0].name, found.metrics[0].aggregation) == (first_metric, aggregation)
    assert found.metrics[0].denominator
    assert found.detector.get("name") == detector
    assert found.not_comparable == ["the files are the bundled miniature, which this project wrote (mirror=sample)"]
    assert found.settings.shots == 0
    assert len(found.settings.template) == 64
    assert found.figures[filters[0]][first_metric]["n"] == sum(
        answer.readings[filters[0]].values[first_metric] is not None for answer in found.answers()
    )


def test_two_models_were_asked_the_same(two_models: Path) -> None:
    answer, lexical = read_runs([two_models])
    for task in lexical.tasks:
        assert [a.content for a in answer.tasks[task].answers()] == [b.content for b in lexical.tasks[task].answers()]
    assert "QUESTION:\nWann wurde der Kölner Dom fertiggestellt?" in lexical.tasks["nomiracl_de"].answers()[0].prompt


@pytest.mark.parametrize(
    ("doc", "key"),
    [
        ({"query_id": "1#0", "subset": "relevant"}, "relevant/1#0"),
        ({"id": 7}, "7"),
        ({"id": "de_0_1", "subset": 0}, "de_0_1"),  # a number is no subset that questions are apart in
        ({"question": "why"}, ""),
        ({"id": None}, ""),
    ],
)
def test_what_a_question_is_called(doc: dict[str, Any], key: str) -> None:
    assert key_of(doc) == key


def test_content_is_what_is_asked_and_not_who_tags_it() -> None:
    asked = {"id": 1, "query": "why", "passages": ["a", "b"]}

    assert content_of(asked) == content_of({**dict(reversed(asked.items())), **DETECTOR})
    assert content_of(asked) != content_of({**asked, "passages": ["b", "a"]})
    assert differing_columns(asked, {**asked, **DETECTOR}) == []
    assert differing_columns(asked, {"id": 1, "query": "how", "more": 0}) == ["more", "passages", "query"]
    assert content_of({"query": "\ud800"})  # half of a surrogate pair


def copied(two_models: Path, folder: Path) -> Path:
    """A copy of one model's files."""
    return Path(shutil.copytree(two_models / "baseline-lexical", folder / "baseline-lexical"))


def test_a_results_file_or_a_samples_file_alone(two_models: Path, tmp_path: Path) -> None:
    folder = copied(two_models, tmp_path)
    (results,) = folder.glob("results_*.json")
    (samples,) = folder.glob("samples_mfava_de_*.jsonl")

    assert read_runs([results])[0].tasks.keys() == read_runs([folder])[0].tasks.keys()
    (run,) = read_runs([samples])
    assert [*run.tasks] == ["mfava_de"]
    assert run.tasks["mfava_de"].detector["name"] == "lexical"

    results.unlink()
    (run,) = read_runs([samples])  # what our tables say of the task is known all the same
    task = run.tasks["mfava_de"]
    assert (run.model, task.benchmark, task.language) == ("baseline-lexical", "mfava", "de")
    assert task.metrics[0].name == "detected_rate"
    assert len(task.answers()) == 9


def test_of_several_runs_in_a_folder_the_newest_of_each_task_counts(
    two_models: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(two_models, tmp_path)
    (results,) = folder.glob("results_*.json")
    content = json.loads(results.read_text("utf-8"))
    content["configs"] = {"mfava_de": content["configs"]["mfava_de"]}
    content["n-samples"] = {"mfava_de": {"original": 9, "effective": 9}}
    content["group_subtasks"] = {}
    content["versions"]["mfava_de"] = 9.9
    newer = folder / "results_2099-01-01T00-00-00.000001.json"
    newer.write_text(json.dumps(content), "utf-8")

    with caplog.at_level(logging.WARNING):
        (run,) = read_runs([folder])

    assert run.tasks["mfava_de"].version == 9.9
    assert run.tasks["mfava_de"].results_file == newer
    assert run.tasks["mfava_de"].samples is None  # the older samples are of other answers
    assert run.tasks["mfava_ar"].results_file == results
    assert [*run.groups] == ["nomiracl"]
    assert "of each task the newest results count; passed over: mfava_de of 20" in caplog.text
    with pytest.raises(
        MissingSource, match="the answers to mfava_de were not logged beside it; run it with --log_samples"
    ):
        run.tasks["mfava_de"].answers()


def test_places_without_results(tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="there is no such file or folder"):
        read_runs([tmp_path / "nowhere"])
    (tmp_path / "notes_2026.json").write_text("{}", "utf-8")
    with pytest.raises(MissingSource, match=r"no results_<date>\.json and no samples_<task>_<date>\.jsonl"):
        read_runs([tmp_path])


def test_of_a_run_that_was_killed_the_last_reading_is_lost(two_models: Path, tmp_path: Path) -> None:
    folder = copied(two_models, tmp_path)
    (samples,) = folder.glob("samples_nomiracl_de_*.jsonl")
    whole = samples.read_bytes()

    samples.write_bytes(whole[:-40])
    answers = read_runs([folder])[0].tasks["nomiracl_de"].answers()
    assert [sorted(answer.readings) for answer in answers] == [["robust", "strict"]] * 7 + [["strict"]]


@pytest.mark.parametrize(
    ("damaged", "says"),
    [
        ({"results": {"t": 1}}, "is damaged: results holds something that is no list of metrics"),
        ({"configs": {"t": []}}, "is damaged: configs holds something that is no configuration of a task"),
        *(
            ({key: value}, f"is damaged: {key} is {type(value).__name__}, not an object")
            for key, value in (("n-samples", [1]), ("n-shot", 1), ("versions", "1"), ("groups", 0.5))
        ),
        ({"groups": {"g": None}}, "is damaged: groups holds something that is no list of metrics"),
        ({"group_subtasks": ["t"]}, "is damaged: group_subtasks is list, not an object"),
        ({"group_subtasks": {"g": "t"}}, "is damaged: group_subtasks holds something that is no list of tasks"),
        ({"group_subtasks": {"g": [["t"]]}}, "is damaged: group_subtasks holds something that is no list of tasks"),
        (b"", "is no results file, or a damaged one"),
        (b"\xff\xfe", "is no results file, or a damaged one"),
        (b"[]", "is no results file of `lm_eval`"),
    ],
)
def test_a_damaged_results_file_is_refused(tmp_path: Path, damaged: dict[str, Any] | bytes, says: str) -> None:
    path = tmp_path / "results_2026-01-01T00-00-00.json"
    content = {"results": {}, "configs": {"t": {}}, "config": {}}
    path.write_bytes(damaged if isinstance(damaged, bytes) else json.dumps(content | damaged).encode())
    with pytest.raises(ValueError, match=says):
        read_runs([tmp_path])


def test_what_a_results_file_need_not_say_may_be_anything(tmp_path: Path) -> None:
    odd = {"metric_list": 1, "filter_list": 2, "generation_kwargs": [], "metadata": {"figures": 3, "provenance": {}}}
    for name in ("prompt", "run", "options", "detector", "not_comparable"):
        odd["metadata"]["provenance"][name] = 7
    rest = {"n-samples": None, "versions": None, "n-shot": {"t": "x"}, "group_subtasks": None, "groups": None}
    content = {"results": {"t": {"m,strict": 0.5}}, "configs": {"t": odd}, "config": {}, **rest}
    (tmp_path / "results_2026-01-01T00-00-00.json").write_text(json.dumps(content), "utf-8")
    (run,) = read_runs([tmp_path])
    task = run.tasks["t"]
    assert (task.version, task.metrics, task.figures, task.language) == (None, (), {}, "")
    assert (task.detector, task.not_comparable, task.filters) == ({}, [], ("strict",))
    settings = task.settings
    assert (settings.shots, settings.limit, settings.template, settings.generation) == (0, None, "", {})


def test_a_group_that_holds_itself_has_the_tasks_below_it_once() -> None:
    groups = {"all": ["one", "two", "t3"], "one": ["t1", "two", "all"], "two": ["t2", "t1"], "none": ["none"]}
    assert [*leaves_of("all", groups)] == ["t1", "t2", "t3"]
    assert [*leaves_of("t9", groups)] == ["t9"]
    assert [*leaves_of("none", groups)] == []
    deep = {f"g{n}": [f"g{n + 1}", f"g{n + 1}"] for n in range(5000)}
    assert [*leaves_of("g0", deep)] == ["g5000"]
