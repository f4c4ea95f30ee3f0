"""Published figures: the tables as the papers have them, which of them a run is held against, and `compare --paper`."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from custom_metrics.statistics.intervals import newcombe
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.compare import render_with_paper, select_published
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.mfava.dataset import LANGUAGES
from lm_eval_tasks.published import (
    NEWCOMBE,
    OWN_BOUNDS,
    PublishedRow,
    all_rows,
    compare_with_published,
    generation_notes,
    mismatches,
    rows_for,
    sources,
)
from lm_eval_tasks.runs import TaskRun, labels, read_runs
from lm_eval_tasks.runs.run import Settings
from tests.conftest import command, run

SAMPLE = "the files are the bundled excerpt of the public ones (mirror=sample)"


def test_tasks_and_metrics_that_no_paper_has_have_no_rows() -> None:
    unknown = ("nomiracl_th error_rate", "nomiracl_bn error_rate", "clapnq_gold k_precision", "my_own_task rougeL")
    assert [rows_for(*names.split()) for names in unknown] == [[]] * 4
    assert len(rows_for("clapnq_gold_llama", "rougeL")) == 26


BY_GPT = ("nomiracl_released", "gpt-4-azure", "nomiracl_en")
IN_TABLE_5 = ("clapnq_table5", "Mistral-7B-Instruct", "clapnq_gold")
IN_TABLE_6 = ("clapnq_table6", "Mistral-7B-Instruct", "clapnq_rag_e5")
IN_FIGURE_4 = ("mfava_figure4", "Llama-3-8B", "mfava_de")
WORDS = (
    "the paper counts sub-word tokens and takes the mean over three detectors and five parts, this project counts words of "
    "all answers"
)
STRINGS = "the paper looks for strings chosen for each model, which it does not list"


def task_run(task: str, provenance: dict[str, Any] | None = None, shots: int = 0, **generation: Any) -> TaskRun:
    split = {"split": "test" if task.startswith("nomiracl") else "validation"}
    settings = Settings("", shots, "", "", generation, None)
    record = {**split, **provenance} if provenance is not None else {}
    return TaskRun(task, "", "", 1, {}, record, {}, (), settings, {}, None, None)


NO_RECORD = "the results do not say what they were measured on: they have no provenance"
FEW, OTHERS = "193 of 217 non-relevant questions", "split dev, where the paper has test"
BOTH = "76 of 250 relevant questions"
LIMITED, CORPUS = "the first 4 of 500 documents (--limit)", "the corpus holds 5,494 of 178,891 passages"
IN_TABLE_4, WHOLE = ("clapnq_table4", "E5-base-v2", "clapnq_rag_e5"), ("clapnq_table5", "Full Passage", "clapnq_gold")
RANKED = ("mushroom_ranking", "MSA", "mushroom_ar")
THEIRS = "mfava-llama-3-8b-multi-bidirect"
OF_THEIRS = f"theirs is {THEIRS}"
PROMPT = "prompt Llama's, theirs for this model is FLAN-T5's"
RELEVANT, LEXICAL = {"options": {"subset": "relevant"}}, {"detector": {"name": "lexical"}}
FIVE_BY_BM25 = "retriever bm25, theirs is e5", "top 5 passages, theirs are 3"
E5, BM25 = {"retriever": "e5", "top_k": 3}, {"retriever": "bm25", "top_k": 5}


def lacking(task: str, *reasons: str, **more: Any) -> TaskRun:
    return task_run(task, {"not_comparable": [*reasons], **more})


@pytest.mark.parametrize(
    ("row", "metric", "run", "reasons"),
    [
        (BY_GPT, "error_rate", task_run("nomiracl_en", {}), []),
        (BY_GPT, "error_rate", task_run("nomiracl_en"), [NO_RECORD]),
        (BY_GPT, "accuracy", lacking("nomiracl_en", SAMPLE), [SAMPLE]),
        (BY_GPT, "error_rate", task_run("nomiracl_en_role", {}), ["prompt role, theirs for this model is vanilla"]),
        (BY_GPT, "error_rate", task_run("nomiracl_en", {}, shots=2), ["2 shots, theirs are 0"]),
        (BY_GPT, "error_rate", lacking("nomiracl_en", OTHERS, split="dev"), [OTHERS]),
        (BY_GPT, "error_rate", lacking("nomiracl_en", LIMITED), [LIMITED]),
        # What is lacking of the one subset changes nothing over the other.
        (BY_GPT, "error_rate", lacking("nomiracl_en", FEW), []),
        (BY_GPT, "hallucination_rate", lacking("nomiracl_en", FEW, BOTH), [FEW]),
        (BY_GPT, "accuracy", lacking("nomiracl_en", FEW), [FEW]),
        (BY_GPT, "error_rate", task_run("nomiracl_en", RELEVANT), []),
        (BY_GPT, "invalid_rate", task_run("nomiracl_en", RELEVANT), ["the relevant questions alone"]),
        (IN_TABLE_5, "rougeL", task_run("clapnq_gold", {}), []),
        (IN_TABLE_5, "unanswerable_accuracy", task_run("clapnq_gold", {}), [STRINGS]),
        (IN_TABLE_5, "rougeL", task_run("clapnq_gold_gpt", {}), ["prompt GPT's, theirs for this model is FLAN-T5's"]),
        (WHOLE, "rougeL", task_run("clapnq_gold_gpt", {}, shots=1), []),
        (IN_TABLE_6, "rougeL", task_run("clapnq_rag_e5", {"options": E5}), []),
        (IN_TABLE_6, "rougeL", lacking("clapnq_rag_llama", CORPUS, options=BM25), [CORPUS, PROMPT, *FIVE_BY_BM25]),
        # A retriever is what Table 4 compares, whatever prompt came after it.
        (IN_TABLE_4, "ndcg@10", task_run("clapnq_rag_gpt", {}), []),
        (IN_FIGURE_4, "estimated_rate", task_run("mfava_de", LEXICAL), [f"detector lexical, {OF_THEIRS}", WORDS]),
        (IN_FIGURE_4, "estimated_rate", task_run("mfava_de", {"detector": {"name": THEIRS}}), [WORDS]),
        (RANKED, "iou", task_run("mushroom_ar", {"split": "test"}), []),
    ],
)
def test_what_differs(row: tuple[str, str, str], metric: str, run: TaskRun, reasons: list[str]) -> None:
    found = next(figure for figure in rows_for(run.task, metric) if (figure.source.name, figure.model) == row[:2])
    assert mismatches(found, run) == reasons


def test_a_figure_of_a_split_that_is_not_public_says_so() -> None:
    row = figure(*IN_TABLE_5, "rougeL", split="test")
    assert mismatches(row, task_run("clapnq_gold", {})) == ["split validation, this figure is of split test"]


@pytest.mark.parametrize(
    ("generation", "model", "said"),
    [
        ({"do_sample": True, "temperature": 0.2}, "vllm", []),
        ({"do_sample": False}, "vllm", ["decoding is greedy, theirs was sampled"]),
        ({"do_sample": True, "temperature": 0}, "vllm", ["decoding is greedy, theirs was sampled"]),
        ({"do_sample": False}, "replay", []),
    ],
)
def test_how_answers_were_made_is_said_beside_it(generation: dict[str, Any], model: str, said: list[str]) -> None:
    row = figure(*BY_GPT, "error_rate")
    found = generation_notes(row, task_run("nomiracl_en", {}, **generation), model)
    assert [reason.partition(" (")[0] for reason in found] == said
    unknown = figure(*IN_TABLE_5, "rougeL", split="validation")
    assert generation_notes(unknown, task_run("clapnq_gold", {}, **generation), model) == []


def test_of_a_long_ranking_the_ends_the_middle_and_the_neighbours_are_shown(two_models: Path) -> None:
    run_ = read_runs([two_models])[0]
    figures = {"tags": {"iou": {"value": 0.5, "low": 0.45, "high": 0.55, "n": 148}}}
    task = dataclasses.replace(task_run("mushroom_de", {"split": "test"}), figures=figures)
    (found,) = compare_with_published([dataclasses.replace(run_, tasks={"mushroom_de": task})])
    values = [row.value for row, _ in found.rows]
    ranking = [row.value for row in rows_for("mushroom_de", "iou")]
    assert (found.total, len(values)) == (28, 5)
    assert values == sorted(values, reverse=True)
    assert {max(ranking), min(ranking), max(value for value in ranking if value < 0.5)} <= {*values}
    for row, (against,) in found.rows:
        assert against.method == OWN_BOUNDS
        expected = [bound - row.value for bound in (0.5, 0.45, 0.55)]
        assert [against.difference, against.low, against.high] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("counts", "bounds"),
    [  # Newcombe 1998, Table II, method 10
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((5, 56, 0, 29), (-0.0381, 0.1926)),
        ((0, 10, 0, 20), (-0.1611, 0.2775)),
        ((10, 10, 0, 20), (0.6791, 1.0)),
        ((10, 10, 0, 10), (0.6075, 1.0)),
    ],
)
def test_newcombes_interval(counts: tuple[int, int, int, int], bounds: tuple[float, float]) -> None:
    successes, trials, other, others = counts
    assert newcombe(*counts) == pytest.approx((successes / trials - other / others, *bounds), abs=5e-5)
    difference, low, high = newcombe(other, others, successes, trials)
    assert (-difference, -high, -low) == pytest.approx(newcombe(*counts))
    assert all(math.isnan(value) for value in newcombe(0, 0, *counts[2:]))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["compare", *map(str, arguments)]) == 0
    return capsys.readouterr().out


@pytest.mark.slow("scores the released answers to 500 questions")
def test_released_answers_scored_again_differ_by_nothing_from_the_published_row(
    shared: Path, hub: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = shared / "reference" / "nomiracl_outputs" / "en.jsonl.gz"
    arguments = ["--model", "replay", "--model_args", f"path={answers},model=gpt-4-azure"]
    into = ["--output_path", ".", "--metadata", f"mirror={hub}"]
    run([command("lm_eval"), "--tasks", "nomiracl_en", *arguments, *into], tmp_path)
    rows = json.loads(printed(capsys, tmp_path, "--paper", "--all", "--format", "json"))["published"]
    same = {row["metric"]: row for row in rows if row["published_model"] == "gpt-4-azure"}
    assert {*same} == {"hallucination_rate", "error_rate", "accuracy", "invalid_rate"}
    for row in same.values():
        assert (row["why_none"], row["differs_in"], row["method"]) == ("", "", NEWCOMBE)
        assert (row["difference"], row["difference_low"]) == (0, pytest.approx(-row["difference_high"]))
        assert (row["value"], row["n"]) == (row["published_value"], row["published_n"])
    (other,) = (row for row in rows if (row["published_model"], row["metric"]) == ("flan-t5-xxl", "hallucination_rate"))
    assert other["difference_high"] < 0  # every question answered


def test_one_run_of_other_files_is_not_comparable(two_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, two_models / "baseline-lexical", "--paper", "--tasks", "nomiracl_de,clapnq_gold")
    for said in (
        "not comparable: 4 of 217 non-relevant questions",
        "gpt-4-azure 0.361 (78/216) none (1)",
        "error_rate A (this run) not measurable [0.046, 0.699]",  # one question of four
    ):
        assert said in " ".join(text.split())
    rows = [line for line in text.splitlines() if line[:4] in ("hall", "erro", "roug", "reca")]
    theirs = [line for line in rows if "(this run)" not in line]
    assert len(theirs) == 2 * 11 + 3 * 13
    assert all("none (" in line for line in theirs)


def test_two_runs_are_compared_and_each_with_the_paper(two_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = printed(capsys, two_models, "--tasks", "mfava_de")
    text = printed(capsys, two_models, "--paper", "--tasks", "mfava_de")
    assert text.startswith(alone.rstrip("\n"))
    beside = " ".join(text[len(alone) :].split())
    for said in (
        "mfava_de: Islam, Lauscher and Glavaš (2025)",
        "Gemma-2-9B 0.080 ± 0.061 none (1, 2, 3) none (1, 2, 3)",
        "not comparable: detector lexical, theirs is mfava-llama-3-8b-multi-bidirect",
    ):
        assert said in beside


def test_what_is_asked_for_is_shown(two_models: Path) -> None:
    runs = read_runs([two_models])
    found = select_published(runs, ["nomiracl"], ["error_rate"])
    assert len(found) == 16  # of 18 languages one is in no released answer, and one has no relevant question there
    two = {"hallucination_rate", "error_rate"}
    assert {one.metric for one in select_published(runs, ["nomiracl_de"])} == two
    every = select_published(runs, ["nomiracl_de"], every=True)
    assert {one.metric for one in every} == two | {"accuracy", "invalid_rate"}
    of_retrieval = {one.source.name for one in select_published(runs, ["clapnq_rag"])}
    assert of_retrieval == {"clapnq_table4", "clapnq_table6"}


def test_where_there_is_nothing_beside_a_run_it_says_so(two_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in (["--tasks", "nomiracl_th"], ["--metrics", "k_precision"]):
        assert main(["compare", str(two_models / "baseline-lexical"), "--paper", *asked]) == 2
        said = "no published figure beside these tasks and metrics; there are some of clapnq"
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "csv"])
def test_files_for_programs(two_models: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, two_models, "--paper", "--tasks", "nomiracl_de", "--format", form)
    rows = json.loads(text)["published"] if form == "json" else [*csv.DictReader(io.StringIO(text))]
    assert len(rows) == 2 * 11 * 2
    row = next(row for row in rows if (row["published_model"], row["metric"]) == ("gpt-4-azure", "hallucination_rate"))
    assert float(row["published_value"]) == pytest.approx(78 / 216)
    assert (int(row["published_count"]), int(row["published_n"])) == (78, 216)
    assert row["why_none"].startswith("4 of 217 non-relevant questions")
    assert row["difference"] in (None, "")


@pytest.mark.parametrize(("form", "said"), [("latex", r"\toprule"), ("markdown", r"GPT 3.5 (clapnq\_gold\_gpt)")])
def test_tables_for_papers(two_models: Path, form: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in printed(capsys, two_models, "--paper", "--tasks", "clapnq_gold", "--format", form)


def test_hostile_names_stay_names(two_models: Path) -> None:
    (_, lexical) = read_runs([two_models])
    hostile = dataclasses.replace(lexical, model="<b>\x1b[31m\u202e=cmd|" + "x" * 300)
    text = render_with_paper(None, select_published([hostile], ["nomiracl_de"]), labels([hostile]), "text")
    assert "=cmd|" in text
    assert not {"\x1b", "\u202e"} & {*text}


def figure(source: str, model: str, task: str, metric: str, **more: Any) -> PublishedRow:
    (found,) = (
        row
        for row in all_rows()
        if (row.source.name, row.model, row.task, row.metric) == (source, model, task, metric)
        and all(getattr(row, name) == value for name, value in more.items())
    )
    return found


def test_every_row_names_a_task_and_a_metric_of_ours() -> None:
    catalogued = [catalogue.benchmark_of(folder) for folder in catalogue.folders()]
    tasks = {task.name: {m.name for m in task.base.metrics} for benchmark in catalogued for task in benchmark.tasks}
    groups = {group.name: tasks[group.tasks[0].name] for benchmark in catalogued for group in benchmark.groups}
    finer = {f"ndcg@{k}" for k in (1, 3, 5)}  # stand beside the table
    for row in all_rows():
        if row.task == "mfava_detection_ja_silver":  # not public
            continue
        assert row.metric in ({**tasks, **groups}[row.task] | finer)
        assert row.value >= (-1 if row.metric == "rho" else 0)
        assert row.value <= 1 or row.metric == "length"
        assert row in rows_for(row.task, row.metric)
    keys = Counter((row.source.name, row.model, row.task, row.split, row.num_fewshot, row.metric) for row in all_rows())
    assert set(keys.values()) == {1}


def test_every_source_says_where_it_stands() -> None:
    assert [*sources()] == sorted(sources())
    for name, source in sources().items():
        assert source.unit in ("percent", "share")
        assert source.of in ("model", "retriever", "detector")
        assert source.url.startswith("https://arxiv.org/abs/")
        assert "(20" in source.citation
        assert source.counting.keys() <= {row.metric for row in all_rows() if row.source.name == name}


@pytest.fixture
def published(shared: Path) -> Callable[[str], list[dict[str, str]]]:
    def rows(name: str) -> list[dict[str, str]]:
        text = (shared / "reference" / "published" / f"{name}.csv").read_text("utf-8")
        return list(csv.DictReader(text.splitlines()))

    return rows


SPLIT = {"dev": "validation", "test": "test"}
NAMES = {"length_chars": "length", "unanswerable_acc": "unanswerable_accuracy"}
SHOTS = {"": 0, "1/0": 1, "1/1": 2}


def test_the_tables_of_clapnq_are_the_papers(published: Any) -> None:
    every = all_rows()
    found = {(r.source.name, r.model, r.split, r.num_fewshot, r.task, r.metric): r.value for r in every}
    expected = {}
    retrievers = {"BM25": "", "all-MiniLM-L6": "_minilm", "BGE": "_bge", "E5": "_e5", "GOLD": ""}
    for table, what in (("table4", "retrieval"), ("table5", "gold"), ("table6", "rag")):
        for row in published(f"clapnq_{table}_{what}"):
            if row.get("retriever") == "GOLD":  # Table 5's, said to be the same
                continue
            shots = SHOTS[row["few_shot"]] if "few_shot" in row else 0 if "model" in row else None
            model = row.get("model") or row["retriever"]
            which = next((end for start, end in retrievers.items() if row.get("retriever", "").startswith(start)), "")
            prompt = "_gpt" if model.startswith("GPT") else "_llama" if model.startswith("Llama") else ""
            task = f"clapnq_{'gold' if table == 'table5' else 'rag'}{which}{prompt}"
            for column, cell in row.items():
                split, _, metric = column.partition("_")
                if split in SPLIT:
                    metric = NAMES.get(metric, metric)
                    value = float(cell) / (1 if metric == "length" else 100)
                    expected[f"clapnq_{table}", model, SPLIT[split], shots, task, metric] = pytest.approx(value)
    assert len(expected) == 240
    assert {key: value for key, value in found.items() if key[0].startswith("clapnq")} == expected


def test_table_10_is_the_papers(published: Any) -> None:
    code = {language.name.lower(): code for code, language in LANGUAGES.items()}
    expected = {}
    for row in published("mfava_table10_detector_prf"):
        language = "" if row["language"] == "average" else f"{code[row['language']]}_"
        for metric in ("precision", "recall", "f1"):
            task = f"mfava_detection_{language}{row['annotations']}"
            expected[task, metric] = pytest.approx(float(row[metric]) / 100)
    assert {(row.task, row.metric): row.value for row in all_rows() if row.source.name == "mfava_table10"} == expected


def rates() -> dict[str, dict[str, tuple[float, float]]]:
    """Task to model to value and spread, in percent, of Figure 4."""
    found: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for row in all_rows():
        if row.source.name == "mfava_figure4" and row.spread is not None:
            found[row.task][row.model] = (100 * row.value, 100 * row.spread)
    return found


AVERAGE = "average of the eleven models"


def test_figure_4_is_the_papers_where_shared_has_it(published: Any) -> None:
    found = rates()
    rows = published("mfava_figure4_rates")
    assert len(rows) == 19
    for row in rows:
        language = row.pop("language")
        cells = {model: pytest.approx(tuple(map(float, cell.split("±")))) for model, cell in row.items()}
        expected = {AVERAGE if model == "Average" else model: cell for model, cell in cells.items()}
        assert found["mfava" if language == "average" else f"mfava_{language}"] == expected


def test_figure_4_agrees_with_its_own_averages() -> None:
    """Its spread of an average is the standard deviation over models, with n - 1. Of a row with one cell that cannot be
    read, the average gives the cell, and the spread confirms the others; columns without such a cell confirm the rest."""
    found = rates()
    averages = found.pop("mfava")
    assert len(found) == len([language for language in LANGUAGES.values() if language.in_paper]) == 30
    models = [model for model in averages if model != AVERAGE]
    assert len(models) == 11
    unread = Counter()
    for cells in found.values():
        average, spread = cells[AVERAGE]
        values = [cells[model][0] for model in models if model in cells]
        unread[len(models) - len(values)] += 1
        if len(values) == 10:
            values.append(11 * average - sum(values))
            assert stdev(values) == pytest.approx(spread, abs=0.02)  # eleven roundings of half a hundredth
        elif len(values) == 11:
            assert fmean(values) == pytest.approx(average, abs=0.01)
            assert stdev(values) == pytest.approx(spread, abs=0.01)
    assert unread == {0: 18, 1: 9, 2: 2, 4: 1}
    whole = [model for model in models if all(model in cells for cells in found.values())]
    assert len(whole) == 6
    for model in (*whole, AVERAGE):
        values = [cells[model][0] for cells in found.values()]
        assert fmean(values) == pytest.approx(averages[model][0], abs=0.01)


def test_the_ranking_of_mushroom_is_the_shared_tasks(published: Any) -> None:
    rows, both = published("mushroom_rankings"), ("iou", "rho")
    expected = {
        (f"mushroom_{row['language']}", row["team"], metric): float(row[metric]) for row in rows for metric in both
    }
    ranking = [row for row in all_rows() if row.source.name == "mushroom_ranking"]
    assert {(row.task, row.model, row.metric): row.value for row in ranking} == expected
    assert len(expected) == 764


def test_the_released_answers_of_nomiracl_are_counted_as_shared_has_them(published: Any) -> None:
    released = [row for row in all_rows() if row.source.name == "nomiracl_released"]
    expected = {}
    for row in published("nomiracl_released_rates"):
        fp, tn, tp, fn = (int(row[name]) for name in ("fp", "tn", "tp", "fn"))
        invalid = int(row["invalid_relevant"]) + int(row["invalid_non_relevant"])
        key = (row["model"], f"nomiracl_{row['language']}")
        every = fp + tn + tp + fn + invalid
        counts = {"hallucination_rate": (fp, fp + tn), "error_rate": (fn, fn + tp)}
        counts |= {"accuracy": (tp + tn, every), "invalid_rate": (invalid, every)}
        expected |= {(*key, metric): count for metric, count in counts.items() if count[1]}
    assert {(row.model, row.task, row.metric): (row.count, row.n) for row in released} == expected
