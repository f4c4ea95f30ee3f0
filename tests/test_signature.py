"""The line that says what a figure depends on: from what results files record, of this version and of earlier ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lm_eval_grounded as g
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.definition.signature import parts_of_group, parts_of_task, signature
from lm_eval_tasks.runs import read_runs
from lm_eval_tasks.runs.run import signature_of, with_cost
from tests.conftest import results_of

REVISION = "ecd08778d0426a5ca28ac99763b0c9ddc2c78e68"
FILES = [{"repository": "miracl/nomiracl", "revision": REVISION, "published": None, "sha256": "a" * 64}]
DETECTOR = {"name": "lexical", "version": "8111b6c960d5", "threshold": "of its weights", "options": {}}
CALIBRATION = {"file": "lexical.json@a26363e07e6f", "source": "mushroom_de"}
CALIBRATED = "detector:lexical@8111b6c|calibration:lexical.json@a26363e"
WHOLE = "nomiracl_de|v:1.8|prompt:vanilla|filter:robust|n:443|rev:ecd0877|lm-eval:0.4.13|plugin:0.1.0"


def line(
    task: str = "nomiracl_de", filter_name: str = "robust", metric: Metric | None = None, sent: Any = (), **record: Any
) -> str:
    """The signature of a task with a record; fields of its configuration and metadata are in it by their names."""
    record = {"versions": {"lm-eval-grounded": "0.1.0"}, "files": FILES, **record}
    metadata = {name: record.pop(name) for name in ("max_samples", "documents_left_out") if name in record}
    config = {"generation_kwargs": record.pop("generation", {}), "metadata": {**metadata, "provenance": record}}
    return signature(parts_of_task(task, config, 1.8, 443, "0.4.13", **dict(sent)), filter_name, metric)


def with_part(part: str, before: str = "|filter") -> str:
    return WHOLE.replace(before, f"|{part}{before}", 1)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({}, WHOLE),
        ({"filter_name": "none"}, WHOLE.replace("|filter:robust", "")),
        ({"task": "nomiracl_de_role"}, WHOLE.replace("de|", "de_role|").replace("vanilla", "role")),
        ({"sent": {"shots": 5}}, with_part("shots:5")),
        ({"sent": {"system_instruction": "Be brief."}}, with_part("system:213c22e")),
        ({"sent": {"chat_template": "c0ffee" * 10}}, with_part("chat:c0ffeec")),
        ({"run": {"apply_chat_template": True}}, with_part("chat:served")),
        ({"options": {"language": "de", "max_samples": 9}, "max_samples": 9}, with_part("options:max_samples=9")),
        (
            {
                "options": {"seed": 3},
                "answers": {"metadata": {"seed": 3}},
            },  # scored anew, with the options of its answers
            with_part("options:seed=3"),
        ),
        ({"generation": {"temperature": 0.7}}, with_part("temperature:0.7")),
        ({"generation": {"temperature": 0.0}}, WHOLE),
        ({"detector": DETECTOR}, with_part("detector:lexical@8111b6c")),
        ({"detector": {**DETECTOR, "threshold": 0.7}}, with_part("detector:lexical@8111b6c|tagging:threshold=0.7")),
        ({"detector": DETECTOR, "calibration": CALIBRATION}, with_part(CALIBRATED)),
        ({"marks": {"draw": "0123456789ab"}}, with_part("marks:0123456")),
        ({"documents_left_out": {"no stored answer": 3}}, WHOLE.replace("443", "440")),
        ({"read_from": "sample"}, WHOLE.replace("ecd0877", "sample")),
        ({"files": [{**FILES[0], "published": False}]}, WHOLE.replace("ecd0877", "ecd0877*")),
        ({"files": [*FILES, {"revision": "f" * 40}]}, WHOLE.replace("ecd0877", "ecd0877+fffffff")),
        ({"files": [{"revision": "main", "sha256": "b" * 64}]}, WHOLE.replace("ecd0877", "a0fab13")),
        ({"local_files": [{"option": "run", "sha256": "d" * 64}]}, with_part("run:ddddddd")),
        # of files of earlier versions, and damaged ones
        ({"files": [], "versions": {}}, "nomiracl_de|v:1.8|prompt:vanilla|filter:robust|n:443|lm-eval:0.4.13"),
        ({"files": 3, "versions": [], "options": "x", "detector": [1]}, line(files=[], versions={})),
        (
            {"task": "mmlu|x\ny", "filter_name": "a b|c"},
            WHOLE.replace("nomiracl_de", "mmlu_x_y").replace("|prompt:vanilla", "").replace("robust", "a_b_c"),
        ),
    ],
)
def test_a_signature_has_what_is_recorded(recorded: dict[str, Any], expected: str) -> None:
    assert line(**recorded) == expected


def test_without_any_record_a_task_has_its_name() -> None:
    assert signature(parts_of_task("nomiracl_de", {})) == "nomiracl_de|prompt:vanilla"
    assert signature(parts_of_task("mmlu", {"metadata": None})) == "mmlu"


@pytest.mark.parametrize(
    ("metric", "parts"),
    [
        (Metric("balanced_error"), ""),
        (Metric("hallucinated_share", of_detector=True), "detector:lexical@8111b6c"),
        (Metric("rogan_gladen_rate", of_detector=True, needs="marks"), CALIBRATED),
        (Metric("marked_rate", of_detector=True), "detector:lexical@8111b6c|marks:0123456"),
    ],
)
def test_a_figure_has_what_enters_into_it(metric: Metric, parts: str) -> None:
    record = {"detector": DETECTOR, "calibration": CALIBRATION, "marks": {"draw": "0123456789ab"}}
    assert line(metric=metric, **record) == (with_part(parts) if parts else WHOLE)


@pytest.mark.parametrize("task", [table.tasks[0].name for table in catalogue.tables().values()])
def test_every_benchmark_has_one(task: str) -> None:
    name, *parts = line(task).split("|")
    assert name == task
    assert {"v:1.8", "filter:robust", "n:443", "rev:ecd0877", "lm-eval:0.4.13", "plugin:0.1.0"} <= {*parts}


def test_a_mean_has_what_its_tasks_share() -> None:
    members = [
        parts_of_task(f"nomiracl_{code}", {"metadata": {"provenance": {"files": FILES}}}, v, n, "0.4.13")
        for code, v, n in (("de", 1.8, 443), ("fr", 1.8, 500))
    ]
    expected = "nomiracl|v:1.8|prompt:vanilla|filter:robust|n:943_of_2_tasks|rev:ecd0877|lm-eval:0.4.13"
    assert signature(parts_of_group("nomiracl", members), "robust") == expected
    other = {**members[1], "v": "1.7", "n": ""}
    assert "|v:varies|" in (mixed := signature(parts_of_group("nomiracl", [members[0], other]), "robust"))
    assert "|n:varies|" in mixed


def test_results_tables_pages_and_python_have_the_same(two_models: Path, tmp_path: Path) -> None:
    """Also of files without the fields that earlier versions did not write."""
    (run,) = read_runs([two_models / "baseline-lexical"])
    written = results_of(two_models / "baseline-lexical")
    lines = {name: signature_of([task]) for name, task in run.tasks.items()}
    assert {name: written["configs"][name]["metadata"]["signature"] for name in lines} == lines
    assert all(f"|lm-eval:{written['lm_eval_version']}|plugin:" in each for each in lines.values())
    assert "|detector:lexical@" in lines["mfava_de"]

    figures = g.read(two_models / "baseline-lexical").figures.set_index(["task", "filter", "metric"]).signature
    assert figures["nomiracl_de", "robust", "balanced_error"] == lines["nomiracl_de"]
    assert "detector" not in figures["mfava_de", "answer", "response_words"]
    assert "calibration" not in figures["mfava_de", "answer", "detected_rate"]
    assert "|calibration:lexical.json@" in figures["mfava_de", "answer", "rogan_gladen_rate"]
    weighed = with_cost(run, 3).tasks["nomiracl_de"]
    assert "|cost:3|" in signature_of([weighed])

    compared = g.compare(two_models, tasks=["nomiracl_de"])
    assert {*compared.result.signatures["nomiracl_de"]} == {lines["nomiracl_de"]}
    assert str(compared).splitlines()[-1] == lines["nomiracl_de"]

    for key in ("lm_eval_version", "n-samples", "versions"):
        written.pop(key)
    for config in written["configs"].values():
        config["metadata"] = {}
    path = tmp_path / "results_2026-01-01T00-00-00.000000.json"
    path.write_text(json.dumps(written), "utf-8")
    (old,) = read_runs([path])
    assert signature_of([old.tasks["nomiracl_de"]]) == "nomiracl_de|prompt:vanilla|filter:robust"
