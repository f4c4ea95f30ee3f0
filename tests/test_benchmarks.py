"""Benchmarks as tables: the files that are written from them, and a new benchmark, which is a folder and touches no other
file."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import sha256_of, sources
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition import TaskLoader, catalogue
from lm_eval_tasks.definition.schema import Benchmark, Metric
from lm_eval_tasks.harness.autoload import task_folder
from lm_eval_tasks.nomiracl.dataset import first_by_hash
from lm_eval_tasks.nomiracl.dataset import load as nomiracl
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.report import write_report
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.runs import read_runs
from tests.conftest import Harness, figures_of, results_of
from tests.development import generated
from tests.logged_runs import in_this_process

WRITTEN = {
    **{"clapnq": 2 + 7 * 3 + 1, "making": 4 * (1 + 1), "memerag": 2 * (1 + 1 + 5)},
    **{"mfava": 3 + 31 + 1 + 2 * (5 + 30 + 2), "mtrag": 2 + 2, "mtragun": 1 + 4 + 1, "mushroom": 1 + 14 + 1},
    **{"nomiracl": 1 + 4 * (18 + 1) + 9 + 1, "ragtruth": 2 * (1 + 1 + 3)},
}


def test_the_benchmarks_are_the_folders_with_a_table() -> None:
    assert [folder.name for folder in catalogue.folders()] == sorted(WRITTEN)
    for folder in catalogue.folders():
        assert {path.name for path in folder.iterdir()} >= {"README.md", "source_files.tsv"}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_generated_files_are_current(name: str) -> None:
    """`python -m tests.development.generated` would change nothing, and no file is there that it does not write."""
    folder = Path(task_folder()) / name
    written = generated.contents(catalogue.benchmark_of(folder))
    assert len(written) == WRITTEN[name]
    assert {path: (folder / path).read_text("utf-8") for path in written} == written
    by_hand = {*folder.glob("judge/*.yaml"), *folder.glob("retrieval/*.yaml")}
    assert {path.relative_to(folder).as_posix() for path in {*folder.rglob("*.yaml")} - by_hand} <= written.keys()


def test_groups_of_tasks_with_different_metrics_average_nothing() -> None:
    groups = catalogue.groups()
    assert groups["clapnq"] == ("clapnq_gold", "clapnq_rag")
    lite = tuple(f"nomiracl_lite_{language}" for language in ("ar", "de", "en", "es", "fr", "ja", "sw", "yo", "zh"))
    assert groups["grounded_lite"] == (*groups["nomiracl_lite"], "clapnq_gold") == (*lite, "clapnq_gold")
    every = [task.name for table in catalogue.tables().values() for task in table.tasks]
    assert catalogue.without_mean(every) == {"clapnq", "grounded_lite"}
    written = yaml.safe_load((Path(task_folder()) / "_grounded_lite.yaml").read_text("utf-8"))
    assert written["task"] == list(catalogue.ACROSS["grounded_lite"])
    assert "aggregate_metric_list" not in written


def test_runs_of_such_a_group_are_compared_task_by_task(tmp_path: Path) -> None:
    for strategy in ("abstain", "answer"):
        in_this_process(["clapnq"], "grounded-baseline", f"strategy={strategy}", tmp_path)
    comparison = compare_runs(read_runs([tmp_path]), ["clapnq"])
    assert {row.column.name for row in comparison.differences} == {"clapnq_gold", "clapnq_rag"}


@pytest.mark.parametrize("language", ["de", "yo"])
def test_the_questions_of_a_lite_task_are_of_the_whole_one(language: str, hub: str) -> None:
    """The first of each subset by a hash of their id, whatever their order; no other, and all where there are fewer."""
    whole = nomiracl(language, mirror=hub)["evaluation"].to_list()
    lite = nomiracl(language, mirror=hub, documents="50")["evaluation"].to_list()
    for subset in ("relevant", "non_relevant"):
        of_subset, chosen = ([row for row in rows if row["subset"] == subset] for rows in (whole, lite))
        by_hash = sorted(of_subset, key=lambda row: hashlib.sha256(row["query_id"].encode()).hexdigest())
        assert len(chosen) == min(50, len(of_subset))
        assert {row["query_id"] for row in chosen} == {row["query_id"] for row in by_hash[:50]}
        assert [row for row in of_subset if row in chosen] == chosen
        assert first_by_hash(of_subset[::-1], 50) == chosen[::-1]


def test_tasks_that_measure_detectors() -> None:
    """A page about nothing else asks for detectors; results files say it, too."""
    measuring = {"mushroom_de", "mfava_detection_de_gold", "memerag_de"}
    for task in (*measuring, "mfava_de", "memerag_judge_de", "clapnq_rag"):
        table = catalogue.tables()[task.partition("_")[0]]
        for of in (table, Benchmark.from_json(json.loads(json.dumps(table.as_json())))):
            assert of.measures_detectors(task) == (task in measuring)


def test_a_table_goes_through_a_results_file_and_a_damaged_one_is_read_as_far_as_it_goes() -> None:
    written = catalogue.benchmark_of(Path(task_folder()) / "mfava")
    again = Benchmark.from_json(json.loads(json.dumps(written.as_json())))
    assert again.metrics == written.metrics
    damaged = {"title": 1, "questions": [1], "metrics": [4, {"name": "m", "unit": "miles", "higher_is_better": "yes"}]}
    assert Benchmark.from_json(damaged).metrics == {"m": Metric("m")}
    assert Benchmark.from_json("nothing").metrics == {}


def loaded(language: str, split: str = "test", **others: Any) -> Any:
    return {"language": language, "split": split, **others}


LOADER = TaskLoader(loaded, lambda options: [("a/b", options["language"])], of_task=("language",), more=("width",))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"task_language": "de", "language": "a model's own"}, {"language": "de"}),  # the task's YAML wins
        ({"task_language": None, "language": "de"}, {"language": "de"}),
        ({"task_language": "de", "split": "dev", "pretrained": "m"}, {"split": "dev", "pretrained": "m"}),  # a model's
    ],
)
def test_what_a_task_says_wins_and_what_is_not_ours_passes(given: dict[str, Any], options: dict[str, Any]) -> None:
    assert LOADER(**given) == {"language": "de", "split": "test", **options}
    assert LOADER.files(given) == [("a/b", "de")]


@pytest.fixture(scope="module")
def capitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder outside of the package with a dataset, a table and a README; its YAML is written from the table."""
    folder = tmp_path_factory.mktemp("benchmarks") / "capitals"
    shutil.copytree(Path(__file__).parent / "data" / "capitals", folder)
    generated.main([str(folder)])
    yield folder
    sources._ELSEWHERE.clear()
    sources.files.cache_clear()


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    rows = [
        {"id": "0", "question": "Capital of Norway?", "reference": "The capital of Norway is Oslo.", "capital": "Oslo"},
        {"id": "1", "question": "Capital of France?", "reference": "France is large. Lyon, too.", "capital": "Paris"},
    ]
    for language in ("de", "no"):
        place = folder / "atlas" / "capitals" / language
        place.mkdir(parents=True)
        (place / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        (place / "dev.jsonl").write_text(json.dumps(rows[0]) + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def two_runs(capitals: Path, mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of two models that answered Capitals: one right on one of two questions, one on none."""
    folder = tmp_path_factory.mktemp("runs")
    options = {"metadata": {"mirror": str(mirror), "language": "a model's own"}, "include_path": [str(capitals)]}
    for strategy in ("lexical", "abstain"):
        in_this_process(["capitals"], "grounded-baseline", f"strategy={strategy}", folder / strategy, **options)
    return folder


@pytest.fixture(scope="module")
def evaluated(two_runs: Path) -> dict[str, Any]:
    """The results of the model that is right on one question of two."""
    return results_of(two_runs / "lexical")


def test_a_new_benchmark_has_metrics_a_group_and_figures(evaluated: dict[str, Any]) -> None:
    for task in ("capitals_de", "capitals_no"):
        result = evaluated["results"][task]
        assert (result["correct,answer"], result["words,answer"]) == (0.5, 6.0)
        correct, words = (figures_of(evaluated, task)[name] for name in ("correct", "words"))
        assert correct["low"] < 0.5 < correct["high"]
        assert (correct["n"], correct["denominator"]) == (2, "all questions")
        assert (words["n"], words["denominator"]) == (1, "questions with a correct answer")
    assert evaluated["groups"]["capitals"]["correct,answer"] == 0.5


def test_a_new_benchmark_says_where_its_numbers_come_from(evaluated: dict[str, Any], mirror: Path) -> None:
    said = evaluated["configs"]["capitals_no"]["metadata"]["provenance"]
    (file,) = said["files"]
    assert (file["repository"], file["path"]) == ("atlas/capitals", "no/test.jsonl")
    assert file["sha256"] == sha256_of(mirror / "atlas" / "capitals" / "no" / "test.jsonl")
    assert (said["read_from"], said["split"], said["not_comparable"]) == ("mirror", "test", [])
    assert said["options"] == {"language": "no", "split": "test"}
    assert set(said["prompt"]) == {"template_sha256", "first_prompt_sha256"}
    assert evaluated["configs"]["capitals_no"]["custom_dataset"] == "dataset.load"


def test_a_new_benchmarks_options_and_mistakes(harness: Harness, capitals: Path, mirror: Path, tmp_path: Path) -> None:
    run = {"include_path": [str(capitals)]}
    task, model = ["capitals_no"], ("grounded-baseline", "strategy=lexical")
    got = harness(task, *model, metadata={"mirror": str(mirror), "split": "dev"}, **run)
    assert got["results"]["capitals_no"]["correct,answer"] == 1.0
    said = got["configs"]["capitals_no"]["metadata"]["provenance"]
    assert said["not_comparable"] == ["split dev, where the paper has test"]
    with pytest.raises(UsageError, match="capitals_no: --metadata key 'splitt' is not known; did you mean 'split'"):
        harness(task, *model, metadata={"mirror": str(mirror), "splitt": "dev"}, **run)
    with pytest.raises(UsageError, match="capitals_no: unknown split 'train'; known are dev, test"):
        harness(task, *model, metadata={"mirror": str(mirror), "split": "train"}, **run)
    with pytest.raises(MissingSource, match=r"no/test\.jsonl of hub repository atlas/capitals .* is not in the mirror"):
        harness(task, *model, metadata={"mirror": str(tmp_path)}, **run)


def test_readers_of_results_need_nothing_but_the_table_of_a_new_benchmark(two_runs: Path, tmp_path: Path) -> None:
    abstains, answers = read_runs([two_runs])
    assert [column.cells[0].explanation for column in headlines([answers])] == [
        "The mean over 2 languages of correct answers is not measurable (0 to 100 %): 2 of 4 questions of all languages "
        "together; mean over all 2 languages.",
        "A correct answer has 6 words (2 answers; mean over all 2 languages).",
    ]
    page = write_report([answers, abstains], tmp_path / "report.html").read_text("utf-8")
    for text in ("Knows the capital", "Capitals of the World", "Does it know its geography?", "Words of an answer"):
        assert text in page

    found = compare_runs([answers, abstains])
    assert {row.metric.name for row in found.differences} == {"correct"}
