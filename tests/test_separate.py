"""`lm-eval-grounded separate`: one folder a task, so that nobody takes another task's samples for its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.separate import separate

FIRST, SECOND = "2026-01-01T00-00-00.000001", "2026-01-02T00-00-00.000001"
CONFIG = {"dataset_path": "owner/data", "test_split": "test", "metric_list": [{"metric": "accuracy"}]}


def row(score: Any = 0.5, **more: Any) -> dict[str, Any]:
    return {"alias": "a", "name": "a", "sample_len": 4, "accuracy,none": score, "accuracy_stderr,none": 0.1, **more}


def write(folder: Path, date: str, results: dict[str, Any], **parts: Any) -> Path:
    """A run as the harness leaves it: its results, and samples of each task of which it has a configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [task for task in results if task not in parts.get("groups", {})]
    configs = {task: {**CONFIG, "task": task} for task in tasks}
    content = {
        "results": results,
        "group_subtasks": {},
        "configs": configs,
        "versions": dict.fromkeys(results, 1.0),
        "higher_is_better": {name: {"accuracy": True} for name in results},
        "n-samples": {task: {"original": 4, "effective": 4} for task in tasks},
        "config": {},
        "model_name": "owner/model",
        "date": 1.5,
        **parts,
    }
    for task in tasks:
        (folder / f"samples_{task}_{date}.jsonl").write_text(json.dumps({"task": task, "date": date}), "utf-8")
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_each_task_and_run_has_its_samples_alone(tmp_path: Path) -> None:
    for date in (FIRST, SECOND):
        write(tmp_path / "runs" / "model", date, {"clapnq_rag": row(), "clapnq_rag_bge": row(0.25)})
    written = separate(tmp_path / "runs", tmp_path / "out")
    places = [f"tasks/model/{date}/{task}" for date in (FIRST, SECOND) for task in ("clapnq_rag", "clapnq_rag_bge")]
    assert [path.parent.relative_to(tmp_path / "out").as_posix() for path in written] == places
    expected = set()
    for place in places:
        _, _, date, task = place.split("/")
        expected |= {f"{place}/results_{date}.json", f"{place}/samples_{task}_{date}.jsonl"}
        alone = read(tmp_path / "out" / place / f"results_{date}.json")
        for part in ("results", "configs", "versions", "higher_is_better", "n-samples"):
            assert list(alone[part]) == [task]
        assert (alone["model_name"], alone["date"]) == ("owner/model", 1.5)
        assert read(tmp_path / "out" / place / f"samples_{task}_{date}.jsonl") == {"task": task, "date": date}
    assert files(tmp_path / "out") == expected
    before = {name: (tmp_path / "out" / name).read_bytes() for name in expected}
    separate(tmp_path / "runs", tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in files(tmp_path / "out")} == before


def test_a_group_is_described_by_what_its_tasks_share_and_has_no_samples(tmp_path: Path) -> None:
    results = {"nomiracl_de": row(), "nomiracl_ru": row(1.0), "nomiracl": row(0.75), "all": row(0.75)}
    subtasks = {"nomiracl": ["nomiracl_de", "nomiracl_ru"], "all": ["nomiracl"]}
    groups = {name: results[name] for name in subtasks}
    write(tmp_path / "model", FIRST, results, groups=groups, group_subtasks=subtasks)
    separate(tmp_path / "model", tmp_path / "out")
    for group in subtasks:
        folder = tmp_path / "out" / "groups" / "model" / FIRST / group
        assert files(folder) == {f"results_{FIRST}.json"}
        alone = read(folder / f"results_{FIRST}.json")
        assert alone["results"] == alone["groups"] == {group: results[group]}
        assert alone["configs"] == {group: CONFIG}
    assert {path.name for path in (tmp_path / "out" / "tasks" / "model" / FIRST).iterdir()} == {
        "nomiracl_de",
        "nomiracl_ru",
    }


def test_what_has_no_score_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "model", FIRST, {"mfava_de": {"alias": "a", "bypass,answer": 999, "bypass_stderr,answer": "N/A"}})
    with pytest.raises(FileNotFoundError, match=r"model: no score in its results \(--predict_only\?\)$"):
        separate(tmp_path / "model", tmp_path / "out")
    write(tmp_path / "model", SECOND, {"mfava_de": row(), "undefined": row("N/A")})
    (written,) = separate(tmp_path / "model", tmp_path / "out")
    assert written.parent.relative_to(tmp_path / "out").as_posix() == f"tasks/model/{SECOND}/mfava_de"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"results": {"a": {"accuracy,none": NaN}}, "configs": {}, "config": {}}', "it holds NaN, which is no JSON"),
        (
            '{"results": {"../../x": {"accuracy,none": 1}}, "configs": {"../../x": {}}, "config": {}}',
            "no name of a task",
        ),
        ("{", "Expecting property name"),
    ],
)
def test_a_file_that_is_no_results_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    path = tmp_path / f"results_{FIRST}.json"
    path.write_text(content, "utf-8")
    out = tmp_path.with_name(f"{tmp_path.name}-out")
    assert main(["separate", str(tmp_path), "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"lm-eval-grounded: {path}")
    assert said in error
    assert not out.exists()


def test_what_is_written_lies_beside_results_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path.with_name("out")
    assert main(["separate", str(tmp_path), "-o", str(out)]) == 2
    assert capsys.readouterr().err == f"lm-eval-grounded: {tmp_path}: no results file (results_<date>.json)\n"
    write(tmp_path / "model", FIRST, {"clapnq_rag": row()})
    for into in (tmp_path, tmp_path / "model" / "separated"):
        assert main(["separate", str(tmp_path), "-o", str(into)]) == 2
        said = f"lm-eval-grounded: {into}: lies in {tmp_path}; name a folder beside it (-o)\n"
        assert capsys.readouterr().err == said
