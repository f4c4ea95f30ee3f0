"""Adds rates by people's marks to results: ``marked_rate`` by spans; by labels rates of right and wrong answers.

A function here passes the rows of a task's samples through, gives them the values of the rates, and after the last row adds
rates and what they rest on to the content of a results file. It reads no answer anew.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.definition.schema import Benchmark, Metric
from lm_eval_tasks.definition.signature import with_marks
from lm_eval_tasks.detection.marked import (
    KINDS,
    LABELS_RECORD,
    MARKED_RATE,
    MARKS_RECORD,
    METRIC,
    expected_share,
    marked_rate,
)
from lm_eval_tasks.harness.harness_results import ordered
from lm_eval_tasks.results import LOGGED
from lm_eval_tasks.results.formats import with_bounds
from lm_eval_tasks.results.marks.draw import DrawnAnswer, TaskAnswers
from lm_eval_tasks.results.marks.lines import MarksOfTask
from lm_eval_tasks.runs.answers import key_of

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LOW_KAPPA = 0.4
"""Cohen's kappa below which the log doubts the annotations: "fair" at most (Landis and Koch 1977)."""

Row = dict[str, Any]  # of a samples file


def with_spans(answers: TaskAnswers, marks: MarksOfTask, results: dict[str, Any], rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of a task that a detector has read, with ``marked_rate``; `answers` may be from before it did."""
    task, values = answers.task, list[Any]()
    words = dict(zip(answers.ids, answers.words.tolist(), strict=True))
    for row in rows:
        if row["filter"] == answers.filter:
            name = _name_of(row)
            values.append(_value(row, int(words[name]), marks.answers.get(name)))
            row = _with_value(row, [METRIC], values[-1])
        yield row
    marked = marked_rate.rows(values)
    rate, basis = marked_rate.mean(marked), dict(marks.description)
    figures: dict[str, dict[str, Any]] = {}
    if rate is None:
        log.warning("%s: no answer that was drawn could be judged by anybody, so there is no marked_rate", task)
    else:
        *_, times, weights, shares, _ = marked.values.T
        unknown = int(((times > 0) & np.isnan(shares)).sum())
        judged = marked.values[(times > 0) & ~np.isnan(shares) & (weights > 0)]
        basis |= {
            "design": "without replacement, in proportion to words",
            "draws": rate[1].figure.n,
            "answers": len(judged),
            "words": int(judged[:, 0].sum()),
            "cannot_tell": unknown,
            "lambda": rate[1].slope,
            "worth": None if math.isnan(rate[1].worth) else rate[1].worth,
        }
        figures[f"{METRIC}_alone"] = rate[1].alone.as_json("draws; by the marks alone, without the detector's reading")
        for share, name, taken in ((0.0, "lowest", "not"), (1.0, "highest", "wholly")) if unknown else ():
            if extreme := marked_rate.mean(marked, share):
                counted = f"draws; those that nobody could judge taken for {taken} made up"
                figures[f"{METRIC}_{name}"] = extreme[1].figure.as_json(counted)
        _log_rate(task, rate[1].figure, basis)
    _add_rates(results, answers, [] if rate is None else [(MARKED_RATE, marked_rate.figure(marked))], basis, [METRIC])
    results["configs"][task]["metadata"]["figures"][answers.filter] |= figures


def _value(row: Row, words: int, drawn: DrawnAnswer | None) -> dict[str, Any] | None:
    """What an answer adds to the rate (:data:`lm_eval_tasks.detection.marked.FIELDS`), with its article and people's spans,
    without what is ``None``. ``None`` where no word counts, unless the answer was drawn: then it has weight 0."""
    if not words and drawn is None:
        return None
    doc, tagged = row["doc"], json.loads(row["filtered_resps"][0])
    expected = expected_share(tagged["answer"], tagged["spans"], doc["language"]) if words else 0.0
    value = {"words": words, "expected": expected, "article": doc.get("article"), "times": int(drawn is not None)}
    if drawn is None:
        value |= {"weight": 1.0}
    else:
        value |= {"weight": drawn.weight, "marked": drawn.marked, "left_out": drawn.left_out}
        value |= {"spans": [*map(list, drawn.spans)]}
    return {name: field for name, field in value.items() if field is not None}


def _log_rate(task: str, figure: Figure, basis: Mapping[str, Any]) -> None:
    bounds = f"95 % bounds {100 * figure.low:.1f} to {100 * figure.high:.1f}"
    if math.isnan(figure.low):
        bounds = "without bounds: too few draws, or too few different articles"
    worth = f"; with the detector's reading as good as {basis['worth']:.0f} draws alone" if basis["worth"] else ""
    unknown = f"; {basis['cannot_tell']} more could be judged by nobody" if basis["cannot_tell"] else ""
    log.info(
        "%s: marked_rate counts, the other rates are the detector's: %.1f %% of the words are made up, by annotators' "
        "marks of %d answers (%d draws, %d words), %s%s%s",
        *(task, 100 * figure.value, basis["answers"], basis["draws"], basis["words"], bounds, worth, unknown),
    )
    agreement = f"{basis['answers_of_several']} of the answers were marked by several annotators, who agree with kappa "
    _log_kappa(
        task,
        basis["kappa"],
        f"{agreement}{{:.2f}} on words",
        "what they call made up is not one thing",
    )


def with_labels(
    table: Benchmark | None, answers: TaskAnswers, marks: MarksOfTask, results: dict[str, Any], rows: Iterable[Row]
) -> Iterator[Row]:
    """The rows of a task with its rates by labels, which its `table` names."""
    values = answers.label_values(marks.answers)
    by_id = dict(zip(answers.ids, values, strict=True))
    metrics = [metric for metric in (table.metrics.values() if table else ()) if metric.name in KINDS]
    figures = [(metric, KINDS[metric.name].figure_of(values)) for metric in metrics]
    figures = [(metric, figure) for metric, figure in figures if not math.isnan(figure.value)]
    for row in rows:
        if row.get("filter", "none") == answers.filter:
            row = _with_value(row, [metric.name for metric, _ in figures], by_id[_name_of(row)])
        yield row
    number = len(marks.answers)
    design = {"design": "half from each kind of question, doubtful labels with twice the chance"}
    basis = {**marks.description, **design, "draws": number, "answers": number}
    _add_rates(results, answers, figures, basis, KINDS)
    texts = (f"{metric.name} {with_bounds(figure, metric.unit)}" for metric, figure in figures)
    counts = "these figures count, the others are the parser's"
    log.info("%s: by annotators' labels of %d answers (%s): %s", answers.task, number, counts, "; ".join(texts))
    agreement = f"{basis['answers_of_several']} of the answers were labelled by several annotators, with kappa {{:.2f}}"
    _log_kappa(answers.task, basis["kappa"], agreement, "what an answer says is not one thing to them")


def _name_of(row: Row) -> str:
    return str(row["doc"].get("id", key_of(row["doc"])))


def _with_value(row: Row, metrics: Sequence[str], value: Any) -> Row:
    return {**row, **dict.fromkeys(metrics, value), "metrics": [*dict.fromkeys([*metrics, *row["metrics"]])]}


def _log_kappa(task: str, kappa: float | None, agreement: str, doubt: str) -> None:
    """Log how far annotators agree, where that is known; as a warning where it is little."""
    if kappa is not None:
        doubted = f": so little that {doubt}; look at the answers they differ on" if kappa < LOW_KAPPA else ""
        log.log(logging.WARNING if doubted else logging.INFO, "%s: %s%s", task, agreement.format(kappa), doubted)


def _add_rates(
    results: dict[str, Any],
    answers: TaskAnswers,
    figures: Sequence[tuple[Metric, Figure]],
    basis: Mapping[str, Any],
    replaced: Collection[str],
) -> None:
    """Add rates by people's marks to the results of a task, in place of metrics of these names, and what they rest on."""
    config, table = results["configs"][answers.task], results["results"][answers.task]
    metadata, record = config["metadata"], LABELS_RECORD if answers.kind == "labels" else MARKS_RECORD
    listed = [entry for entry in config["metric_list"] if entry["metric"] not in replaced]
    names = [entry["metric"] for entry in listed]
    is_first = record == LABELS_RECORD or answers.task == LOGGED
    place = 0 if is_first else names.index("rogan_gladen_rate") if "rogan_gladen_rate" in names else len(names)
    config["metric_list"] = [*listed[:place], *(each.entry(each.aggregation) for each, _ in figures), *listed[place:]]
    metadata.setdefault("provenance", {})[record] = basis
    if record == MARKS_RECORD and "signature" in metadata:
        metadata["signature"] = with_marks(metadata["signature"], basis["draw"])
    of_filter = metadata.setdefault("figures", {}).setdefault(answers.filter, {})
    for metric, figure in figures:
        of_filter[metric.name] = figure.as_json(metric.denominator)
        table[f"{metric.name},{answers.filter}"] = figure.value
        error = figure.standard_error if math.isfinite(figure.standard_error) else "N/A"
        table[f"{metric.name}_stderr,{answers.filter}"] = error
        results.setdefault("higher_is_better", {}).setdefault(answers.task, {})[metric.name] = metric.higher_is_better
    if not is_first:
        results["results"][answers.task] = ordered(table, [entry["metric"] for entry in config["metric_list"]])
