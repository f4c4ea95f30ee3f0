"""A comparison in words: which model is better, by how much, and what was not shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from custom_metrics.statistics.units import NOT_MEASURABLE
from lm_eval_tasks.results.compare.comparison import Comparison, Difference

__all__ = ["explanations", "number", "p_value", "sentences"]


def number(value: float, sign: bool = False) -> str:
    """Three decimals, one from ten on; ``-`` for what is not defined."""
    if not math.isfinite(value):
        return "-"
    text = f"{value:+.{1 if abs(value) >= 10 else 3}f}" if sign else f"{value:.{1 if abs(value) >= 10 else 3}f}"
    return text.replace("-0.000", "0.000") if float(text) == 0 else text


def p_value(p: float) -> str:
    """Three decimals, ``<0.001`` below."""
    return "-" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def sentences(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """A sentence for each headline metric and pair of models.

    Args:
        comparison: of runs.
        names: the models', as they are to be shown.
    """
    found = []
    seen = set()
    for row in comparison.differences:
        key = (row.benchmark or row.task, row.metric, row.filter, row.first, row.second)
        if row.headline and key not in seen:
            seen.add(key)
            rows = [
                other
                for other in comparison.differences
                if (other.benchmark or other.task, other.metric, other.filter, other.first, other.second) == key
            ]
            first, second = names[row.first], names[row.second]
            # With more than two models, each sentence says which two it is about.
            about = f"{first} and {second}, " if len(names) > 2 else ""
            found.append(f"{row.metric}: {about}{_sentence(rows, first, second)}")
    return found


def _sentence(rows: Sequence[Difference], first: str, second: str) -> str:
    groups, tasks = [row for row in rows if row.group], [row for row in rows if not row.group]
    parts = [_of_row(row, first, second) for row in (groups or tasks if len(tasks) < 2 else groups)]
    if len(tasks) > 1:
        parts.append(_of_languages(tasks, first, second))
    return " ".join(parts)


def _of_row(row: Difference, first: str, second: str) -> str:
    where = f"over {row.task} (mean of {row.tasks} tasks)" if row.group else f"on {row.task}"
    if row.n == 0:
        return f"{where} nothing can be said: no document counts for both models."
    if math.isnan(row.p):
        return f"{where} nothing can be said of the difference: the detector's errors are too little known."
    bounds = f"95 % bounds {number(row.low)} to {number(row.high)}" if not math.isnan(row.low) else "no bounds"
    if not row.significant:
        difference = number(row.difference, sign=True) if row.is_measurable else NOT_MEASURABLE
        p = p_value(row.p_adjusted)
        return f"no difference is shown {where}: {difference}, {bounds}, p = {p}."
    size, low, high = abs(row.difference), *sorted((abs(row.low), abs(row.high)))
    bounds = f" ({number(low)} to {number(high)})" if row.low * row.high > 0 else ""
    p = p_value(row.p_adjusted)
    p = f"p {p[0]} {p[1:]}" if p.startswith("<") else f"p = {p}"
    if row.better is None:
        larger = first if row.difference > 0 else second
        return f"{larger} has {number(size)}{bounds} more {where}, {p}."
    return f"{first if row.better == row.first else second} is better by {number(size)}{bounds} {where}, {p}."


def _of_languages(tasks: Sequence[Difference], first: str, second: str) -> str:
    """How many tasks show which model ahead."""
    shown = [row for row in tasks if row.significant]
    directed = tasks[0].higher_is_better is not None
    up = [row for row in shown if (row.difference > 0) == (tasks[0].higher_is_better is not False)]
    counts = [(first, len(up)), (second, len(shown) - len(up))]
    said = [f"{model} is {'better' if directed else 'higher'} in {n}" for model, n in counts if n]
    unknown = sum(math.isnan(row.p) for row in tasks)
    rest = len(tasks) - len(shown) - unknown
    said += [f"no difference is shown in {rest}"] if rest else []
    said += [f"nothing can be said in {unknown}"] if unknown else []
    return f"Of {len(tasks)} tasks, {', '.join(said)}."


def explanations(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """What the columns are, where bounds and p come from, and the comparison's notes."""
    rows = comparison.differences
    found = ["Difference: first minus second, over what both models have, with 95 % bounds. * p < 0.05."]
    if any(row.family > 1 for row in rows):
        pairs = " and all pairs of models" if len(comparison.models) > 2 else ""
        sizes = sorted({row.family for row in rows if row.family > 1})
        found.append(
            f"p is corrected by Holm over the comparisons of a metric: all languages or tasks of a benchmark{pairs} "
            f"({', '.join(map(str, sizes))} comparisons), groups by themselves. Metrics are not corrected for each other. "
            f"Bounds are those of each comparison alone."
        )
    if not all(row.first_measurable and row.second_measurable and row.is_measurable for row in rows):
        found.append("Not measurable: the 95 % bounds span more than half of the scale (--format json has the value).")
    if any(row.only_first or row.only_second for row in rows):
        found.append("Only one: documents that count for one of both models alone, and are left out of both values.")
    if any(row.dropped_matters for row in rows):
        found.append("In brackets: the run's own value, over all documents that count for that model.")
    methods = dict.fromkeys(row.method for row in rows if row.method)
    if methods:
        found.append(f"Methods: {'; '.join(methods)}.")
    alone = [
        f"{task.task}: {', '.join(f'{n} in {name} only' for name, n in zip(names, task.only, strict=True) if n)}"
        for task in comparison.joined
        if any(task.only)
    ]
    if alone:
        more = f"; and {len(alone) - 5} more tasks" if len(alone) > 5 else ""
        found.append(f"Documents that are not compared: {'; '.join(alone[:5])}{more}.")
    return [*found, *(f"{note}." for note in comparison.notes), *_refused(comparison)]


def _refused(comparison: Comparison) -> Iterator[str]:
    for refusal in comparison.refused:
        yield f"{refusal.task} is left out: {refusal.reason}."
