"""Runs that different versions of the harness wrote are read alike, and compared with each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.runs import read_runs
from lm_eval_tasks.runs.results_file import plain_names
from tests.changed_runs import change_results, copied_models


def test_tasks_of_a_group_have_the_same_names_from_every_version_of_the_harness(tmp_path: Path) -> None:
    """0.5 writes ``group::task``."""
    assert plain_names(["a", "g::b", "g::h::c"]) == {"a": "a", "g::b": "b", "g::h::c": "c"}
    assert plain_names(["g::a", "h::a", "g::b"]) == {"g::a": "g::a", "h::a": "h::a", "g::b": "b"}  # which of both?
    runs = {}
    for version, names in (("0.4", ("x", "y")), ("0.5", ("g::x", "g::y"))):
        folder = tmp_path / version
        folder.mkdir()
        by_task = {name: {"acc,none": 0.5} for name in names}
        results = {
            **{"config": {}, "model_name": "m", "groups": {"g": {"acc,none": 0.5}}, "group_subtasks": {"g": [*names]}},
            **{"results": by_task, "configs": {name: {} for name in names}, "versions": dict.fromkeys(names, 1.0)},
        }
        (folder / "results_2026-01-01T00-00-00.0.json").write_text(json.dumps(results), "utf-8")
        for name in names:
            (folder / f"samples_{name}_2026-01-01T00-00-00.0.jsonl").touch()
        (runs[version],) = read_runs([folder])
        (one,) = read_runs([folder / f"samples_{names[0]}_2026-01-01T00-00-00.0.jsonl"])
        assert [*one.tasks] == ["x"]
        assert all(task.samples is not None for task in runs[version].tasks.values())
    assert [*runs["0.5"].tasks] == [*runs["0.4"].tasks] == ["x", "y"]
    assert runs["0.5"].groups == runs["0.4"].groups == {"g": ("x", "y")}
    assert [task.benchmark for task in runs["0.5"].tasks.values()] == ["g", "g"]
    assert runs["0.5"].tasks["x"].version == 1.0


def test_a_run_of_another_version_is_compared_without_a_word_of_it(two_models: Path, tmp_path: Path) -> None:
    """What 0.4 and 0.5 write differently about a task of ours, by a run of the same command on both."""
    tasks = ["nomiracl_de", "clapnq_gold", "mfava_de"]
    first, second = copied_models(two_models, tmp_path, tasks)
    before = compare_runs(read_runs([first, second]), tasks)

    def of_the_other(results: dict[str, Any]) -> None:
        added = {"scorer": {"type": "grounded"}, "multiple_inputs": False, "multiple_targets": False, "tag": []}
        is_new = results["lm_eval_version"].startswith("0.5")
        results["lm_eval_version"] = "0.4.13" if is_new else "0.5.0.dev1"
        for config in results["configs"].values():
            if is_new:
                for key in added:
                    config.pop(key, None)
            else:
                config |= added

    change_results(second, of_the_other)
    after = compare_runs(read_runs([first, second]), tasks)
    content, expected = after.as_json(), before.as_json()
    assert str(content.pop("signatures")) != str(expected.pop("signatures"))  # these name the harness's version
    assert (content, after.notes) == (expected, before.notes)
