"""The shipped tables of published figures, against ../shared and against the averages that a paper prints beside them."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.mfava.dataset import LANGUAGES
from lm_eval_tasks.published import PublishedRow, all_rows, rows_for, sources


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
    expected = {
        (f"mushroom_{row['language']}", row["team"], metric): float(row[metric])
        for row in published("mushroom_rankings")
        for metric in ("iou", "rho")
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
