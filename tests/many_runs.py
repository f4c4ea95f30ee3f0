"""Runs of many documents from runs of a few, and runs of given labels."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from custom_metrics.relevance import INVALID, process_results
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.balanced_error import balanced_error
from tests.logged_runs import lines

Row = dict[str, Any]


def large_runs(source: Path, folder: Path, runs: int, documents: int, task: str = "nomiracl_de", seed: int = 1) -> Path:
    """Write runs of one task over many documents: those of a run, whose files lie in the `source` folder, again and again,
    each time with another question. Runs differ in which of its answers a document gets."""
    (results_file,) = source.glob("results_*.json")
    (samples,) = source.glob(f"samples_{task}_2*.jsonl")
    rows = lines(samples)
    number = max(row["doc_id"] for row in rows) + 1
    by_filter: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_filter.setdefault(row["filter"], {})[row["doc_id"]] = row
    content = json.loads(results_file.read_text("utf-8"))
    for part in ("results", "configs", "versions", "n-shot", "n-samples"):
        content[part] = {task: content[part][task]}
    content |= {"groups": {}, "group_subtasks": {}}
    for place in range(runs):
        run = folder / f"run{place:03d}"
        run.mkdir(parents=True)
        content["model_name"] = f"org/model-{place:03d}"
        (run / results_file.name).write_text(json.dumps(content), "utf-8")
        with (run / samples.name).open("w", encoding="utf-8") as stream:
            for of_filter in by_filter.values():
                rng = random.Random(seed + place)
                for document in range(documents):
                    stream.write(_again(of_filter, document, document % number, rng.randrange(number)) + "\n")
    return folder


def _again(rows: Mapping[int, Row], document: int, asked: int, answered: int) -> str:
    """A row of a document's further copy, answered as another row was that has the same denominators."""
    row, said = rows[asked], rows[answered]
    same = [name for name in said["metrics"] if (said[name] is None) == (row[name] is None)]
    if len(same) < len(said["metrics"]):
        said = row
    doc = dict(row["doc"])
    name = "query_id" if "query_id" in doc else "id"
    doc[name] = f"{doc[name]}-{document}"
    return json.dumps(
        {
            **row,
            "doc_id": document,
            "doc": doc,
            **{key: said[key] for key in ("resps", "filtered_resps", *said["metrics"])},
            "prompt_hash": f"{document:064x}",
        },
        ensure_ascii=False,
    )


def labelled_runs(source: Path, folder: Path, labels: Mapping[str, Mapping[str, Sequence[str]]]) -> Path:
    """Write runs of NoMIRACL tasks: by model and task, the labels of as many documents, of which every second is relevant.
    All else is that of a run whose files lie in the `source` folder."""
    (results_file,) = source.glob("results_*.json")
    for model, by_task in labels.items():
        (run := folder / model).mkdir(parents=True)
        content = json.loads(results_file.read_text("utf-8"))
        content |= {"model_name": model, "groups": {}, "group_subtasks": {}}
        for part in ("results", "configs", "versions", "n-shot", "n-samples"):
            content[part] = {task: content[part][task] for task in by_task}
        for task, of_task in by_task.items():
            (samples,) = source.glob(f"samples_{task}_2*.jsonl")
            by_filter: dict[str, dict[str, Row]] = {}
            for row in lines(samples):
                by_filter.setdefault(row["filter"], {})[row["doc"]["subset"]] = row
            with (run / samples.name).open("w", encoding="utf-8") as stream:
                for name, rows in by_filter.items():
                    made = [_labelled(rows, number, label) for number, label in enumerate(of_task)]
                    stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
                    found = content["configs"][task]["metadata"]["figures"][name]
                    for metric in [metric for metric in made[0]["metrics"] if metric in found]:
                        figure_of = balanced_error.figure_of if metric == "balanced_error" else defined_share.figure_of
                        figure = figure_of([row[metric] for row in made])
                        keys = f"{metric},{name}", f"{metric}_stderr,{name}"
                        if math.isnan(figure.value):  # the harness leaves it out
                            del found[metric]
                            for key in keys:
                                content["results"][task].pop(key, None)
                            continue
                        found[metric] = figure.as_json(found[metric]["denominator"])
                        content["results"][task] |= dict(zip(keys, (figure.value, figure.standard_error), strict=True))
        (run / results_file.name).write_text(json.dumps(content), "utf-8")
    return folder


def _labelled(rows: Mapping[str, Row], number: int, label: str) -> Row:
    row = rows["non_relevant" if number % 2 else "relevant"]
    doc = {**row["doc"], "query_id": f"{number}#0"}
    said = f"{label}. [{number}]" if label != INVALID else f"Please give me the contexts first. [{number}]"
    values = {"resps": [[said]], "filtered_resps": [label], **process_results(doc, [label])}
    return {**row, "doc_id": number, "doc": doc, "prompt_hash": f"{number:064x}", **values}
