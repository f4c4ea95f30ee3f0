"""Rates by people's labels, added to finished results. No answer is read anew, so neither documents nor a detector are
needed."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import locked_folder, move_whole
from lm_eval_tasks.data.provenance import strict_json
from lm_eval_tasks.data.samples import read_rows_with_offsets, without_secrets
from lm_eval_tasks.detection.marked import LABELS_RECORD, MarksOfTask, log_kappa
from lm_eval_tasks.detection.marked_labels import KINDS
from lm_eval_tasks.results.formats import with_bounds
from lm_eval_tasks.results.marks.draw import TaskAnswers
from lm_eval_tasks.results.marks.lines import Mark, join_labels
from lm_eval_tasks.runs import TaskRun, read_runs
from lm_eval_tasks.runs.answers import key_of
from lm_eval_tasks.runs.results_file import read_results

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_Labelled = tuple[TaskRun, TaskAnswers, MarksOfTask]


def score_labels(
    samples: Mapping[Path, Mapping[str, Path]], marks: Sequence[Mark], output: Path | None, complete_to: int | None
) -> list[Path]:
    """Write the results of labelled runs anew, with all their samples, and return them.

    Args:
        samples: folder to task to samples file.
        marks, output, complete_to: as for :func:`lm_eval_tasks.results.score.score`.
    """
    joined: dict[Path, dict[str, _Labelled]] = {}  # by results file
    for files in samples.values():
        for name in sorted({mark.task for mark in marks} & files.keys()):
            (run,) = read_runs([files[name]])
            task = run.tasks[name]
            answers = TaskAnswers.of(run.model, task, "labels")
            if (labels := join_labels(marks, answers, complete_to)).answers:
                if task.results_file is None:
                    raise UsageError(f"{task.samples}: no results file is beside it to add the rates to")
                joined.setdefault(task.results_file, {})[name] = task, answers, labels
    if not joined:
        raise UsageError(f"{', '.join(map(str, samples))}: no label is of an answer of these runs")
    written = []
    for source, tasks in joined.items():
        folder = source.parent if output is None else output / source.parent.name if len(joined) > 1 else output
        folder.mkdir(parents=True, exist_ok=True)
        written.append(_write(source, tasks, folder.resolve()))
    return written


def _write(source: Path, tasks: Mapping[str, _Labelled], folder: Path) -> Path:
    results, date, places = read_results(source), datetime.now().isoformat().replace(":", "-"), {}
    with locked_folder(folder) as partial:
        for name in results["configs"]:
            file = source.with_name(f"{source.stem.replace('results', f'samples_{name}', 1)}.jsonl")
            part = partial / file.name
            if name in tasks:
                _add(results, *tasks[name], part)
            elif file.is_file():
                copyfile(file, part)
            else:
                continue
            places[part] = folder / f"samples_{name}_{date}.jsonl"
        text = json.dumps(strict_json(results), indent=2, ensure_ascii=False)
        (partial / "results").write_text(text, "utf-8")
        move_whole({**places, partial / "results": folder / f"results_{date}.json"})
    return folder / f"results_{date}.json"


def _add(results: dict[str, Any], task: TaskRun, answers: TaskAnswers, labels: MarksOfTask, to: Path) -> None:
    """Write the samples of a task with the values of its rates by labels, and add these to the results."""
    name, filter_name = task.task, task.headline_filter
    values = answers.label_values(labels.answers)
    by_id = dict(zip(answers.ids, values, strict=True))
    listed = task.table.metrics.values() if task.table else ()
    every = [(metric, KINDS[metric.name].figure_of(values)) for metric in listed if metric.name in KINDS]
    figures = [(metric, figure) for metric, figure in every if not math.isnan(figure.value)]
    names = [metric.name for metric, _ in figures]
    with to.open("w", encoding="utf-8") as stream:
        for _, row in read_rows_with_offsets(answers.logged.path, lambda line: without_secrets(json.loads(line))):
            if row.get("filter", "none") == filter_name:
                row |= dict.fromkeys(names, by_id[str(row["doc"].get("id", key_of(row["doc"])))])
                row["metrics"] = [*dict.fromkeys([*names, *row["metrics"]])]
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    config, table = results["configs"][name], results["results"][name]
    others = [entry for entry in config["metric_list"] if entry["metric"] not in KINDS]
    config["metric_list"] = [*(metric.entry(metric.aggregation) for metric, _ in figures), *others]
    basis = {
        **labels.description,
        "design": "half from each kind of question, doubtful labels with twice the chance",
        "draws": sum(answer.times for answer in labels.answers.values()),
        "answers": len(labels.answers),
    }
    config["metadata"].setdefault("provenance", {})[LABELS_RECORD] = basis
    of_filter = config["metadata"].setdefault("figures", {}).setdefault(filter_name, {})
    for metric, figure in figures:
        of_filter[metric.name] = figure.as_json(metric.denominator)
        table[f"{metric.name},{filter_name}"] = figure.value
        table[f"{metric.name}_stderr,{filter_name}"] = figure.standard_error
        results["higher_is_better"].setdefault(name, {})[metric.name] = metric.higher_is_better
    texts = (f"{metric.name} {with_bounds(figure, metric.unit)}" for metric, figure in figures)
    counts = "these figures count, the others are the parser's"
    log.info("%s: by people's labels of %d answers (%s): %s", name, basis["answers"], counts, "; ".join(texts))
    message = f"{basis['answers_of_several']} of the answers were labelled by several annotators, with kappa {{:.2f}}"
    log_kappa(name, basis["kappa"], message, "what an answer says is not one thing to them")
