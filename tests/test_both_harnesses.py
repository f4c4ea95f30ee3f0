"""What holds on every version of the harness alike. They run on 0.4.13 and on 0.5 (``nox -s harness``)."""

from __future__ import annotations

import json
import logging
import math
import os
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks import harness as host
from lm_eval_tasks.harness import autoload, short_errors, unfit
from tests.conftest import ROOT, command, evaluate, results_of, run
from tests.environment import harness_start
from tests.miniature import MINIATURE
from tests.other_tasks import write_tasks

RESULTS = Path(__file__).parent / "data" / "both_harnesses.json"
"""Results and figures of a run of 0.4.13; ``LM_EVAL_GROUNDED_WRITE_GOLDEN=1`` writes them anew."""
TASKS = ["nomiracl_de", "clapnq_gold", "mfava_de", "mushroom_de", "memerag_de"]
SAMPLE = {"metadata": {"mirror": MINIATURE}}

OF_THE_DAY = ("date", "start_time", "end_time", "total_evaluation_time_seconds", "pretty_env_info")
"""What differs between two runs of one command."""


def numbers(results: dict[str, Any]) -> dict[str, Any]:
    """Every number of the results and of the figures beside them, by its place."""
    figures = {task: config["metadata"].get("figures") for task, config in results["configs"].items()}
    found: dict[str, Any] = {}

    def walk(place: str, value: Any) -> None:
        if isinstance(value, (dict, list)):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                walk(f"{place}/{key}", each)
        else:
            found[place] = value

    walk("results", results["results"])
    walk("figures", figures)
    walk("better", results["higher_is_better"])
    return found


def test_the_sample_has_the_same_numbers_on_every_version() -> None:
    """To the last digit but one or two, in which processors differ."""
    found = numbers(evaluate(TASKS, "grounded-baseline", "strategy=lexical", **SAMPLE))
    if os.environ.get("LM_EVAL_GROUNDED_WRITE_GOLDEN"):
        RESULTS.write_text(json.dumps(found, indent=0) + "\n", "utf-8")
    expected = json.loads(RESULTS.read_text("utf-8"))
    assert found.keys() == expected.keys()
    differ = {
        place: (value, found[place])
        for place, value in expected.items()
        if value != found[place] and not (isinstance(value, float) and math.isclose(value, found[place], rel_tol=1e-12))
    }
    assert differ == {}
    assert len(found) > 300


def test_answers_alone_are_logged_with_their_filters_and_without_a_detector() -> None:
    results = evaluate(["nomiracl_de", "mfava_de"], "grounded-baseline", "", predict_only=True, limit=2, **SAMPLE)
    rows = results["samples"]
    logged = [(row["filter"], row["bypass"]) for row in rows["nomiracl_de"]]
    assert logged == [("strict", None)] * 2 + [("robust", None)] * 2
    assert {row["filter"] for row in rows["mfava_de"]} == {"answer"}
    assert all(isinstance(row["filtered_resps"][0], str) for row in rows["mfava_de"])
    assert results["results"]["mfava_de"]["bypass_stderr,answer"] == "N/A"
    assert "detector" not in results["configs"]["mfava_de"]["metadata"]["provenance"]


def test_a_group_has_its_tasks_by_their_names() -> None:
    results = evaluate(["memerag"], "grounded-baseline", "strategy=answer", limit=2, **SAMPLE)
    assert results["group_subtasks"] == {"memerag": [f"memerag_{code}" for code in ("de", "en", "es", "fr", "hi")]}
    assert {name.partition("_")[0] for name in results["results"]} == {"memerag"}
    assert isinstance(results["groups"]["memerag"]["balanced_accuracy,tags"], float)


def test_the_error_of_a_groups_mean_is_that_of_independent_tasks() -> None:
    """Also where they have not the same number of documents."""
    chosen = {"memerag_de": [0, 1, 2]}
    results = evaluate(["memerag"], "hallucination-detector", "detector=lexical", samples=chosen, **SAMPLE)
    metric = "f1_stderr,tags"
    errors = [results["results"][task][metric] for task in results["group_subtasks"]["memerag"]]
    assert len(set(errors)) == 5
    assert results["groups"]["memerag"][metric] == math.sqrt(sum(error**2 for error in errors)) / 5


def test_chosen_documents_have_their_numbers() -> None:
    results = evaluate(["nomiracl_de"], "grounded-baseline", "", samples={"nomiracl_de": [1, 6]}, **SAMPLE)
    assert sorted({row["doc_id"] for row in results["samples"]["nomiracl_de"]}) == [1, 6]


@pytest.mark.slow("starts the harness twice, which reads its own tasks")
def test_the_harness_lists_and_validates_our_tasks(tmp_path: Path) -> None:
    listed = run([command("lm_eval"), "ls", "tasks"], tmp_path).stdout
    assert "nomiracl_de" in listed
    validated = run([command("lm_eval"), "validate", "--tasks", "nomiracl_de,memerag_de"], tmp_path)
    assert "Traceback" not in validated.stderr


@pytest.mark.slow("starts a Python of its own twice, without what the other commands share")
def test_a_task_of_the_harness_has_the_same_results_without_us(tmp_path: Path) -> None:
    include = write_tasks(tmp_path / "tasks")
    found = []
    for on in ("1", "0"):
        asked = ["--model", "dummy", "--tasks", "arc_easy,mmlu_some", "--include_path", str(include)]
        files = ["--log_samples", "--output_path", f"out{on}"]
        run([command("lm_eval"), *asked, *files], tmp_path, fresh=True, LM_EVAL_GROUNDED_AUTOLOAD=on)
        results = {key: value for key, value in results_of(tmp_path / f"out{on}").items() if key not in OF_THE_DAY}
        logged = [file.read_text("utf-8") for file in sorted((tmp_path / f"out{on}").rglob("samples_*.jsonl"))]
        found.append((results, logged))
    assert found[0] == found[1]
    assert len(found[0][1]) == 3


def test_every_part_that_is_taken_by_name_is_there() -> None:
    for name in host.PARTS:
        assert getattr(host, name) is not None
    with pytest.raises(AttributeError):
        _ = host.no_part


def test_a_version_that_was_never_tried_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '"lm-eval>=0.4.13,<0.6"' in project
    assert f'"lm-eval=={host.TRIED[-1]}"' in (ROOT / "noxfile.py").read_text("utf-8")
    monkeypatch.setattr(host, "installed", lambda: "0.5.0.dev1")
    assert host.untried() == ""
    monkeypatch.setattr(host, "installed", lambda: "0.5.1")
    assert host.untried() == ("lm-eval 0.5.1 was never tried with lm-eval-grounded; the newest that was is 0.5.0.dev1")


class Lacking:
    """A ``TaskManager`` without ``include_path``, a ``Group`` without ``get_all_tasks``."""

    def __init__(self, folders: Any = None) -> None:
        pass

    def aggregate(self) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lm_eval.api.group", {}),
        ("lm_eval.api.group", {"Group": Lacking}),
        ("lm_eval.tasks.manager", {"TaskManager": Lacking}),
        ("lm_eval.loggers.evaluation_tracker", {"GeneralConfigTracker": object}),
    ],
)
def test_a_harness_that_lacks_something_is_one_line(
    name: str, content: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Both versions, and the command; tasks that are not ours go on."""
    from lm_eval_tasks.harness.task import GroundedTask

    monkeypatch.setattr(host, "installed", lambda: "0.6.0")
    line = (
        r"lm-eval-grounded [\d.]+ cannot run on lm-eval 0\.6\.0, which lacks (.+); it was tried with 0\.4\.13 and "
        r"0\.5\.0\.dev1: pip install lm-eval==0\.4\.13"
    )
    module = ModuleType(name)
    vars(module).update(content)
    try:
        with caplog.at_level(logging.WARNING):
            autoload._extend(module)
        assert len(unfit) == 1
        assert name in caplog.text
        assert "Traceback" not in caplog.text
        with pytest.raises(UsageError, match=line):
            GroundedTask({"task": "nomiracl_de"})
        for kind, said in ((ValueError, "Tasks not found: {}"), (KeyError, "Spec '{}' is not a registered task")):
            assert short_errors.as_ours(kind(said.format("nomiracl_de"))) is unfit[0]
        assert short_errors.as_ours(other := ValueError("of another task")) is other
    finally:
        unfit.clear()


def test_a_part_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "installed", lambda: "0.6.0")
    host.require(Lacking, ["aggregate"])
    for ask, lacks in (
        (lambda: host.part("lm_eval.api.registry", "NoSuchThing"), r"\S+NoSuchThing"),
        (lambda: host.require(Lacking, ["aggregate", "gone"]), r"\S+\.Lacking\.gone"),
        (lambda: host.part("tests.no_such_module", "HostTask"), r"what tests\.\S+ needs \(No module.*\)"),
    ):
        with pytest.raises(UsageError, match=rf"cannot run on lm-eval 0\.6\.0, which lacks {lacks}; it was tried with"):
            ask()


GROUPS = {
    "lm_eval.models": "model_registry",
    "lm_eval.filters": "filter_registry",
    "lm_eval.metrics": "metric_registry",
    "lm_eval.aggregations": "aggregation_registry",
}


@pytest.mark.parametrize("discovers", [False, True])
def test_names_are_registered_or_found_by_the_harness(discovers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A harness with PR 4013 and 4014 looks for entry points itself, and skips names that it has."""
    from lm_eval import filters, models  # noqa: F401 (they wait for the hook)
    from lm_eval.api import metrics, registry  # noqa: F401

    fresh = {group: registry.Registry(group) for group in GROUPS}
    for group, name in GROUPS.items():
        monkeypatch.setattr(registry, name, fresh[group])
    if discovers:
        monkeypatch.setattr(registry, "import_plugins", lambda modules: None, raising=False)
    autoload.register()
    for group, found in fresh.items():
        ours = entry_points(group=group)
        if group in ("lm_eval.models", "lm_eval.filters"):
            assert {*found} & {*ours.names} == (set() if discovers else {*ours.names})
        for entry in ours:
            if entry.name not in found:
                found.register(entry.name, target=entry)
        assert {*ours.names} <= {*found}
    assert fresh["lm_eval.models"].get("replay").__name__ == "Replay"
    assert callable(fresh["lm_eval.aggregations"].get("balanced_error"))


@pytest.mark.parametrize("discovers", [False, True])
@pytest.mark.parametrize("asked", ["nothing", "our folder", "another folder"])
def test_every_task_is_listed_once_on_both_doors(
    discovers: bool, asked: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A harness with PR 4015 reads the folders that packages name, after its own tasks and before ``include_path``."""
    from lm_eval.tasks import TaskManager

    harness_start.remember()
    start = TaskManager.__init__.__wrapped__  # type: ignore[attr-defined]
    (door,) = entry_points(group="lm_eval.tasks", name="grounded")
    assert door.value == "lm_eval_tasks"

    class Manager(TaskManager):
        def __init__(self, include_path: Any = None, include_defaults: bool = True, metadata: Any = None) -> None:
            named = [str(Path(str(find_spec(door.module).origin)).parent)] if discovers else []  # type: ignore[union-attr]
            paths = [*named, *(include_path or [])]
            start(self, include_path=paths, include_defaults=include_defaults, metadata=metadata)

    autoload._add_tasks(Manager)
    (tmp_path / "mine.yaml").write_text("task: nomiracl_de\ndataset_path: mine\n")
    paths = {"nothing": None, "our folder": [Path(autoload.task_folder())], "another folder": [str(tmp_path)]}[asked]
    with caplog.at_level(logging.WARNING):
        for defaults in (True, False):
            manager = Manager(include_path=paths, include_defaults=defaults)
            listed = {"grounded_lite", "nomiracl_de"} & {*manager.all_tasks}
            expected = {"grounded_lite", "nomiracl_de"} if defaults or discovers or asked == "our folder" else set()
            assert listed == expected | ({"nomiracl_de"} if asked == "another folder" else set())
            assert ("hellaswag" in manager.all_tasks, manager.include_path) == (defaults, paths)
            if asked == "another folder":
                index = getattr(manager, "task_index", None) or manager._task_index
                assert index["nomiracl_de"].yaml_path == tmp_path / "mine.yaml"
    overridden = [record.getMessage() for record in caplog.records if "overrides existing" in record.getMessage()]
    assert len(overridden) == (asked == "another folder") * (2 if discovers else 1)  # the user's own, as it should be


def test_a_run_of_another_model_needs_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of the harness runs on where something of the harness is gone."""
    from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker

    monkeypatch.setattr(host, "PARTS", {})
    given = {"system_instruction": None, "chat_template": None, "fewshot_as_multiturn": False}
    GeneralConfigTracker().log_experiment_args(model_source="dummy", model_args="", **given)
