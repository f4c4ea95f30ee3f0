"""Results of every family of tasks through `every_eval_ever convert lm_eval`; `make test-leaderboard` has it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lm_eval_tasks.clapnq.judge import load_pairs, load_ratings
from tests.conftest import ROOT, command, run
from tests.logged_runs import in_this_process as save
from tests.logged_runs import lines

CONVERTER = ROOT / ".nox" / "leaderboard" / "bin" / "every_eval_ever"

pytestmark = [
    pytest.mark.slow("nine runs, each read by the converter, which starts for 3 s"),
    pytest.mark.xdist_group("every_eval_ever"),
    pytest.mark.skipif(not CONVERTER.exists(), reason="needs make test-leaderboard (Python 3.12)"),
]

FAMILIES: dict[str, tuple[str, str | None, set[str]]] = {
    "nomiracl": ("miracl/nomiracl", "test", {"strict", "robust"}),
    "clapnq_judge_pairs": ("PrimeQA/clapnq", None, {"preference"}),  # the split is that of the run which is judged
    "clapnq_judge": ("PrimeQA/clapnq", None, {"rating"}),
    "clapnq": ("PrimeQA/clapnq", "validation", {"answer"}),
    "mfava_detection": ("WueNLP/mHallucination_Detection", "test", {"tags"}),
    "mfava": ("WueNLP/mHallucination_Evaluation", "test", {"answer"}),
    "mushroom": ("Helsinki-NLP/mu-shroom", "test and validation", {"tags"}),
}
"""Data set, split and filters of each family; a longer beginning of a name comes first."""
GROUP = """
group: two_languages
task: [nomiracl_de, nomiracl_ru]
aggregate_metric_list:
  - {metric: hallucination_rate, filter_list: [strict, robust], weight_by_size: false}
  - {metric: accuracy, filter_list: [strict, robust], weight_by_size: false}
"""


class Converted(NamedTuple):
    """A task's record, the rows of its samples, and the harness's results file and samples that it was made of."""

    record: dict[str, Any]
    rows: list[dict[str, Any]]
    results: dict[str, Any]
    samples: list[dict[str, Any]]


def judged(load: Callable[..., Any], task: str, say: str, folder: Path, **metadata: Any) -> None:
    """A run of a judge that says the same of every answer."""
    rows = [{"id": doc["query_id"], "task": task, "response": say} for doc in load(**metadata)["evaluation"]]
    verdicts = folder.with_suffix(".jsonl")
    verdicts.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    save([task], "replay", f"path={verdicts},name=someone/{folder.name}", folder, metadata=metadata)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs, one folder each."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "groups").mkdir()
    (folder / "groups" / "two_languages.yaml").write_text(GROUP, "utf-8")
    plain = ["two_languages", "nomiracl_de_role", "clapnq_gold", "clapnq_gold_gpt", "clapnq_rag", "mfava_de"]
    include = [str(folder / "groups")]
    save(plain, "grounded-baseline", "", folder / "plain", include_path=include)
    for strategy in ("abstain", "lexical"):
        options = {"predict_only": True} if strategy == "lexical" else {}
        save(["clapnq_rag", "mfava_de"], "grounded-baseline", f"strategy={strategy}", folder / strategy, **options)
    run([command("lm-eval-grounded"), "score", "lexical", "--calibration", "lexical"], folder)
    (samples,) = (folder / "plain").rglob("samples_clapnq_gold_2*.jsonl")
    judged(load_ratings, "clapnq_judge", "3", folder / "rated", samples=str(samples))
    pairs = [str(next((folder / name).rglob("samples_clapnq_rag_2*.jsonl"))) for name in ("plain", "abstain")]
    judged(load_pairs, "clapnq_judge_pairs", "A", folder / "compared", samples=pairs, judge_names=["long", "short"])
    found = ["mfava_detection_de_gold", "mfava_detection_de_gold_category", "mushroom_de"]
    save(found, "hallucination-detector", "", folder / "detected")
    return folder


@pytest.fixture(scope="module")
def converted(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Converted]:
    """Run and task to what became of it; both commands of the README must pass without a word of warning."""
    folder = tmp_path_factory.mktemp("converted")
    found = {}
    for name in ("plain", "lexical", "abstain", "rated", "compared", "detected"):
        separated = folder / name
        run([command("lm-eval-grounded"), "export", "tasks", str(runs / name), "-o", str(separated)], folder)
        eee(["convert", "lm_eval", "--include_samples", "--log_path", "tasks", "--output_dir", "data"], separated)
        if (separated / "groups").exists():
            eee(["convert", "lm_eval", "--log_path", "groups", "--output_dir", "data"], separated)
        reports = json.loads(eee(["validate", "--format", "json", "data/*/*/*/*.json*"], separated))
        assert [report for report in reports if not report["valid"] or report["errors"] or report["warnings"]] == []
        for file in separated.glob("data/*/*/*/*.json"):
            record = json.loads(file.read_text("utf-8"))
            task = record["evaluation_id"].partition("/")[0]
            (results,) = separated.glob(f"*/*/*/{task}/results_*.json")
            found[name, task] = Converted(
                record,
                [line for path in file.parent.glob(f"{file.stem}_samples.jsonl") for line in lines(path)],
                json.loads(results.read_text("utf-8")),
                [line for path in results.parent.glob("samples_*.jsonl") for line in lines(path)],
            )
    return found


def eee(arguments: list[str], folder: Path) -> str:
    """Its output; warnings of Python are errors, and it must say nothing else on standard error."""
    clean = {name: "" for name in os.environ if name.startswith("PYTHON")}
    done = run([str(CONVERTER), *arguments], folder, **clean)
    assert "warning" not in done.stderr.lower()
    return done.stdout


TASKS = {
    "abstain": "clapnq_rag mfava_de",
    "compared": "clapnq_judge_pairs",
    "detected": "mfava_detection_de_gold mfava_detection_de_gold_category mushroom_de",
    "lexical": "clapnq_rag mfava_de",
    "plain": "clapnq_gold clapnq_gold_gpt clapnq_rag mfava_de nomiracl_de nomiracl_de_role nomiracl_ru two_languages",
    "rated": "clapnq_judge",
}


def test_every_score_is_the_harnesss_with_its_standard_error(converted: dict[tuple[str, str], Converted]) -> None:
    assert sorted(converted) == [(name, task) for name, tasks in TASKS.items() for task in tasks.split()]
    for (name, task), (record, _, results, _) in converted.items():
        scores = results["results"][task]
        found = {}
        for result in record["evaluation_results"]:
            metric, _, filter_name = result["evaluation_result_id"].partition(":")
            found[f"{metric},{filter_name}"] = result["score_details"]["score"]
            error = scores[f"{metric}_stderr,{filter_name}"]
            said = result["score_details"]["uncertainty"].get("standard_error")
            if error == "N/A":  # the calibration's errors cannot go with what is flagged; or one passage alone informs
                figure = results["configs"][task]["metadata"]["figures"][filter_name][metric]
                known = (0.0, 1.0) if metric == "rogan_gladen_rate" else (None, None)
                assert (figure["low"], figure["high"], said) == (*known, None), metric
            else:
                assert said["value"] == error
        assert found == {key: value for key, value in scores.items() if "," in key and "_stderr," not in key}
        assert found, (name, task)


def test_filters_directions_and_data_sets_are_the_tasks(converted: dict[tuple[str, str], Converted]) -> None:
    for (_, task), (record, _, results, _) in converted.items():
        name = "nomiracl_" if task == "two_languages" else task
        repository, split, filters = next(of for family, of in FAMILIES.items() if name.startswith(family))
        for result in record["evaluation_results"]:
            metric, _, filter_name = result["evaluation_result_id"].partition(":")
            assert result["evaluation_name"] == f"{task}/{filter_name}"
            better = results["higher_is_better"][task].get(metric)
            if better is not None:
                assert result["metric_config"]["lower_is_better"] is not better
            source = result["source_data"]
            assert (source["source_type"], source["hf_repo"]) == ("hf_dataset", repository), task
            assert (source.get("hf_split"), source["dataset_name"]) == (split, task)
        assert {result["evaluation_name"].rpartition("/")[2] for result in record["evaluation_results"]} == filters


def test_the_model_is_named_after_its_settings(converted: dict[tuple[str, str], Converted]) -> None:
    models = {name: record["model_info"]["id"] for (name, _), (record, *_) in converted.items()}
    assert models == {
        **dict.fromkeys(("plain", "lexical"), "lm-eval-grounded/baseline-lexical"),
        "abstain": "lm-eval-grounded/baseline-abstain",
        "detected": "lm-eval-grounded/detector-lexical",
        **{name: f"someone/{name}" for name in ("rated", "compared")},
    }


def test_samples_are_the_tasks_own(converted: dict[tuple[str, str], Converted]) -> None:
    """Not those of a task whose name begins alike, as the converter takes them from a folder of several."""
    for (name, task), (record, rows, _, samples) in converted.items():
        if task == "two_languages":  # a group has none
            assert "detailed_evaluation_results" not in record
            continue
        prompts = {sample["arguments"]["gen_args_0"]["arg_0"] for sample in samples}
        assert {row["input"]["raw"] for row in rows} == prompts, (name, task)
        assert len({row["sample_id"] for row in rows}) == len({sample["doc_id"] for sample in samples})


def test_the_first_score_of_an_answer_is_whether_it_is_right(converted: dict[tuple[str, str], Converted]) -> None:
    rows = converted["plain", "nomiracl_de"].rows
    first = {}
    for row in rows:
        first.setdefault((row["sample_id"], row["evaluation_name"]), row)
    assert len(first) == 2 * 8
    assert {row["evaluation_result_id"].partition(":")[0] for row in first.values()} == {"accuracy"}
    assert sum(row["evaluation"]["is_correct"] for row in first.values()) == 2 * 7
