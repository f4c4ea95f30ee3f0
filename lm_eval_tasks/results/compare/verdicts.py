"""The verdicts on a comparison, in sentences. Terminals, pages and Python print these; none makes sentences of its own.

A verdict rests on the most prominent headline of a benchmark. On two models it has the difference with bounds and p. On
three and more it names the best, the models that are not significantly worse, and those that are. Where two traded rates
point in opposite directions it has both, and the cost of a made-up answer at which the order turns. Doubts about a run's
answers stand behind its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from custom_metrics.statistics.figures import NOT_MEASURABLE, Unit
from custom_metrics.statistics.paired_difference import rows_needed
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import Column, cost_of, turning_cost
from lm_eval_tasks.results.compare import Comparison, Difference
from lm_eval_tasks.results.formats import PAGE, Notation, p_value, short_names

_EACH = 3  # languages up to which each has a verdict on two models
_NAMED = 4  # models of a list
_DOUBTS = 2  # about a run
_MOST_MORE = 10
"""Times as many documents as were compared, up to which more are advised: no benchmark has as many as a smaller difference
would need."""

_RAW = "Compared is what a detector flags, as no corrected rate is measurable for all."


class Verdict(NamedTuple):
    """The verdict on a task, or on the mean of a group."""

    leading: Difference  # of two models; of more, that of the best and the next
    sentences: tuple[str, ...]
    is_many: bool  # whether it is on three models or more

    @property
    def task(self) -> str:
        return self.leading.column.name

    @property
    def benchmark(self) -> str:
        return self.leading.column.benchmark

    @property
    def lines(self) -> list[str]:
        """The sentences as paragraphs: on two models one, on more one each."""
        return [*self.sentences] if self.is_many else [" ".join(self.sentences)]


def verdicts(comparison: Comparison, notation: Notation = PAGE) -> list[Verdict]:
    """The verdict on each benchmark, over all of its languages; on two models, on each of up to three languages. A language
    has one of its own, too, where it compares models that lack another."""
    by_benchmark: dict[str, dict[str, list[Difference]]] = {}
    for row in comparison.spanning:
        if row.column.headline:
            by_benchmark.setdefault(row.column.benchmark, {}).setdefault(row.column.name, []).append(row)
    told = []
    for tasks in by_benchmark.values():
        several = 1 if any(map(_is_many, tasks.values())) else _EACH
        means = [row for rows in tasks.values() for row in rows if row.column.group]
        for task, rows in tasks.items():
            if rows[0].column.group:
                own = max(row.tasks for row in rows) > several
            else:  # models that lack a task of its group's mean
                of_group = [row for row in means if task in catalogue.groups([task]).get(row.column.name, (task,))]
                most = max((row.tasks for row in of_group), default=0)
                own = not _models(rows) <= _models(row for row in of_group if row.tasks == most > several)
            told += [_verdict(rows, comparison, notation)] if own else []
    return told


def _models(rows: Iterable[Difference]) -> set[int]:
    return {model for row in rows for model in (row.first, row.second)}


def verdict_on(comparison: Comparison, task: str, notation: Notation = PAGE) -> Verdict | None:
    """The verdict on one task or group; ``None`` where no headline of it is compared."""
    rows = [row for row in comparison.spanning if row.column.name == task and row.column.headline]
    return _verdict(rows, comparison, notation) if rows else None


def _is_many(rows: Iterable[Difference]) -> bool:
    return len({(row.first, row.second) for row in rows}) > 1


def _verdict(rows: Sequence[Difference], comparison: Comparison, notation: Notation) -> Verdict:
    context, chosen, is_many = _Context(rows, comparison, notation), _deciding(rows), _is_many(rows)
    leading = chosen[0]
    if is_many:
        cells = leading.column.cells
        first = [run for run in leading.column.order if cells[run].competes][:2]
        leading = next((row for row in chosen if {row.first, row.second} == {*first}), leading)
        leading = leading.turned() if first == [leading.second, leading.first] else leading
        sentences = [*_on_many(context, leading)]
    else:
        sentences = [*_on_two(context, leading), *_by_language(context, leading)]
    sentences += [*_other_headlines(context, leading), *([_RAW] if leading.metric.is_raw else [])]
    return Verdict(leading, tuple(sentences), is_many)


def _deciding(rows: Sequence[Difference]) -> list[Difference]:
    """The rows of the most prominent headline, one for each pair of models. Where a rate is not measurable for a model,
    what a detector flags decides instead of all rates that are corrected for its errors."""
    if any(row.metric.needs and not (row.has_values and row.is_measurable) for row in rows):
        rows = [row for row in rows if not row.metric.needs] or rows
    first = max(rows, key=lambda row: (not math.isnan(row.result.p), row.metric.prominence))
    return [row for row in rows if row.column is first.column]


class _Context:
    """What the sentences on a task share: the rows of its headlines, the comparison, and how numbers are written."""

    def __init__(self, rows: Sequence[Difference], comparison: Comparison, notation: Notation) -> None:
        self.rows, self.comparison, self.notation = rows, comparison, notation
        self.names = [*short_names(comparison.models).values()]

    def name(self, model: int, column: Column, most: int = _DOUBTS, *more: str) -> str:
        """A model's name, with `more` and the doubts about its answers in brackets, in all at `most` of them."""
        name, doubts = self.names[model], "; ".join([*filter(None, more), *column.cells[model].doubts][:most])
        if doubts and name.endswith(")"):
            return f"{name[:-1]}; {doubts})"
        return f"{name} ({doubts})" if doubts else name

    def named(self, models: Sequence[int], column: Column, all_others: bool = False) -> str:
        """Models with their values; of many, how many they are, and the lowest and the highest value."""
        values = [column.cells[model].value for model in models]
        if len(models) > _NAMED:
            ends = " to ".join(self.value(value, column.metric) for value in (min(values), max(values)))
            return f"{'all ' if all_others else ''}{len(models)} others, from {ends}"
        texts = [self.value(value, column.metric) for value in values]
        return _listed([f"{self.name(model, column)} {text}" for model, text in zip(models, texts, strict=True)])

    def value(self, value: float, metric: Metric) -> str:
        return self.notation.value(value, metric.unit)

    def against(self, row: Difference, model: int) -> str:
        """The value of a model against the other's."""
        values = row.result[:2] if model == row.first else row.result[1::-1]
        return " against ".join(self.value(value, row.metric) for value in values)

    def traded(self, row: Difference) -> list[Difference]:
        """The rates behind a difference, as far as they are compared: the two that it balances, or it and that which it is
        traded against."""
        metric, pair = row.metric, {row.first, row.second}
        names = metric.balances or ((metric.name, metric.traded_against) if metric.traded_against else ())
        same = [r for r in self.rows if {r.first, r.second} == pair and r.column.filter == row.column.filter]
        return [each for name in names for each in same if each.metric.name == name]


def _listed(texts: Sequence[str], conjunction: str = "and") -> str:
    """Texts as a list in a sentence; of many the first ones, and how many more there are."""
    texts = [*texts[:_NAMED], *([f"{len(texts) - _NAMED} more"] if len(texts) > _NAMED else [])]
    return f"{', '.join(texts[:-1])} {conjunction} {texts[-1]}" if len(texts) > 1 else "".join(texts)


def _where(row: Difference) -> str:
    column = row.column
    if column.group:
        return f"over {column.name} (mean of {row.tasks} tasks)"
    if column.language and column.name == f"{column.benchmark}_{column.language}":
        return f"in {catalogue.language_name(column.language, column.benchmark)}"
    return f"on {column.name}"


# ---------------------------------------------------------------------------------------------------------- two models


def _on_two(context: _Context, row: Difference) -> Iterator[str]:
    """Which model is better, both values, and the difference with bounds and p; or that none is shown, and how many more
    documents would show one of this size. Then what the better one pays for it."""
    notation, unit, column = context.notation, row.metric.unit, row.column
    cost, where, result = cost_of(column), _where(row), row.result
    if result.n == 0 or math.isnan(result.p):
        why = "too little is known of the detector's errors" if result.n else "no document counts for both"
        names = " and ".join(context.name(model, column) for model in (row.first, row.second))
        yield f"{names} cannot be compared {where}: {why}."
        return
    if row.significant and (row.better == row.second if row.better is not None else result.difference < 0):
        row, result = row.turned(), row.turned().result
    first, second = (context.name(model, column) for model in (row.first, row.second))
    known = f"{context.against(row, row.first)}, " if row.has_values else ""
    difference = notation.difference(result.difference, unit) if row.is_measurable else NOT_MEASURABLE
    p = p_value(row.p_adjusted)
    p = f"p {p[0]} {p[1:]}" if p.startswith("<") else f"p = {p}"
    price = _price(context, row)
    figures = f"{known}difference {difference}{in_brackets(result.low, result.high, unit, notation)}, {p}{price}."
    if row.significant:
        has = f"has a {'higher' if result.difference > 0 else 'lower'} {row.metric.in_prose} than"
        at_cost = f" at a cost of {cost:g}" if cost != 1 else ""
        yield f"{first} {row.metric.wins or has} {second} {where}{at_cost}: {figures}"
    else:
        yield f"No difference in {row.metric.in_prose} is shown between {first} and {second} {where}: {figures}"
        size, variance = abs(result.difference), result.n * result.standard_error**2
        more = rows_needed(size, variance, row.of_shares) - result.n if size and variance > 0 else 0
        if 0 < more <= _MOST_MORE * result.n:
            yield f"About {more:,} more {row.unit} would show a difference of this size."
    if price:
        yield from _turn(context, row, cost)


def in_brackets(low: float, high: float, unit: Unit, notation: Notation = PAGE) -> str:
    """The bounds of a difference, after a space; empty where they are unknown."""
    ends = [notation.difference(end, unit).removesuffix(" points") for end in (low, high)]
    return "" if math.isnan(low + high) else f" [{', '.join(ends)}]"


def _price(context: _Context, row: Difference) -> str:
    """Where the two traded rates of a pair point in opposite directions and either difference is shown: what the better
    model pays; or, where neither is better, what one of them does more often and more rarely. Else nothing."""
    rates = context.traded(row)
    ups = [(rate.result.difference > 0) == rate.metric.higher_is_better for rate in rates]
    ahead = [rate.first if up else rate.second for rate, up in zip(rates, ups, strict=True)]
    if len(rates) < 2 or ahead[0] == ahead[1] or not any(rate.significant for rate in rates):
        return ""
    if not all(rate.result.difference and rate.has_values and rate.is_measurable for rate in rates):
        return ""
    if row.better is None:
        return f"; but {context.names[ahead[0]]} {' and '.join(_does(context, rate, ahead[0]) for rate in rates)}"
    (paid,) = (rate for rate, model in zip(rates, ahead, strict=True) if model != row.better)
    return f"; but it {_does(context, paid, row.better)}"


def _does(context: _Context, rate: Difference, model: int) -> str:
    """What a model does more often, or more rarely, than the other. The titles of traded rates are verbs."""
    more, metric = (rate.result.difference > 0) == (model == rate.first), rate.metric
    does = f"has a {'higher' if more else 'lower'} {metric.in_prose}"
    if metric.title:
        does = f"more {'often' if more else 'rarely'} {metric.title[0].lower()}{metric.title[1:]}"
    return f"{does} ({context.against(rate, model)}{'' if rate.significant else ', not significant'})"


def _turn(context: _Context, row: Difference, cost: float) -> Iterator[str]:
    """From which cost of a made-up answer on, or below which, the other model has the lower error rate. Nothing where one
    of both rates may be the same for both models: then so may be the order at any cost."""
    pair = min(row.first, row.second), max(row.first, row.second)
    turn = turning_cost(row.column, pair) if all(rate.significant for rate in context.traded(row)) else None
    if turn is not None:
        at, cautious = turn
        model, about = cautious, f"about {at:.2g} wrong refusals or more"
        if at < cost:
            model, about = sum(pair) - cautious, f"less than about {at:.2g} wrong refusals"
        yield f"If a made-up answer costs {about}, {context.names[model]} has the lower error rate."


def _by_language(context: _Context, mean: Difference) -> Iterator[str]:
    """Of a mean: how many of its tasks show which model ahead."""
    pair = mean.first, mean.second
    same = [row for row in context.comparison.spanning if same_figure(row.column, mean.column)]
    rows = [row for row in same if (row.first, row.second) == pair]
    if not mean.column.group or len(rows) < 2:
        return
    higher = mean.metric.higher_is_better
    significant = [row for row in rows if row.significant]
    up = [row for row in significant if (row.result.difference > 0) == (higher is not False)]
    counts = [(mean.first, len(up)), (mean.second, len(significant) - len(up))]
    is_better = "higher" if higher is None else "better"
    clauses = [f"{context.names[model]} is {is_better} in {n}" for model, n in counts if n]
    unknown = sum(math.isnan(row.result.p) for row in rows)
    not_shown = len(rows) - len(significant) - unknown
    clauses += [f"no difference is shown in {not_shown}"] if not_shown else []
    clauses += [f"the models cannot be compared in {unknown}"] if unknown else []
    yield f"Of {len(rows)} tasks, {', '.join(clauses)}."


def same_figure(column: Column, mean: Column) -> bool:
    """Whether a column is a task's, of the benchmark, metric and filter of a mean."""
    of_both = ((each.benchmark, each.metric.name, each.filter) for each in (column, mean))
    return not column.group and len({*of_both}) == 1


def _other_headlines(context: _Context, decided: Difference) -> Iterator[str]:
    """One sentence on the other headlines: the better model, or the best, by each. Rates that are traded, and variants of a
    rate, are none of their own."""
    rows = [row for row in context.rows if row.column.filter == decided.column.filter]
    traded = {name for row in rows for name in (*row.metric.balances, row.metric.traded_against)}
    by_metric: dict[str, list[Difference]] = {}
    for row in rows:
        metric = row.metric
        is_own = not (metric.traded_against or metric.needs or metric.fallback_for or metric.name in traded)
        is_own &= metric.name != decided.metric.name and metric.higher_is_better is not None
        if is_own and not math.isnan(row.result.p):
            by_metric.setdefault(metric.name, []).append(row)
    clauses: list[str] = []
    better: dict[str, list[str]] = {}  # of two models, by its name the metrics with both values
    for row, *more in by_metric.values():
        column, by = row.column, row.metric.in_prose
        if more:
            for best in [run for run in column.order if column.cells[run].rank][:1]:
                equals = column.equals(best)
                worse = f"; not significantly worse: {context.named(equals, column)}" if equals else ""
                value = context.value(column.cells[best].value, column.metric)
                clauses.append(f"{context.names[best]} is best by {by} ({value}{worse})")
        elif row.better is not None:
            better.setdefault(context.names[row.better], []).append(f"{by} ({context.against(row, row.better)})")
        else:
            better.setdefault("", []).append(by)
    none = better.pop("", [])
    clauses += [f"{name} is better by {_listed(metrics)}" for name, metrics in better.items()]
    clauses += [f"{'no' if clauses else 'No'} difference is shown in {_listed(none, 'or')}"] if none else []
    if clauses:
        yield f"{'; '.join(clauses)}."


# ------------------------------------------------------------------------------------------------- three models and more


def _on_many(context: _Context, leading: Difference) -> Iterator[str]:
    """The best, the models that are not significantly worse, and those that are; the best by what a made-up answer costs;
    and the models without a rank."""
    where, column, metric = _where(leading), leading.column, leading.metric
    ranked = [run for run in column.order if column.cells[run].rank is not None]
    if ranked:
        best, extreme = ranked[0], "highest" if metric.higher_is_better else "lowest"
        text = f"{context.name(best, column)} has the {extreme} {metric.in_prose} {where}: "
        text += f"{context.value(column.cells[best].value, metric)}{_rates_of(context, column, best)}."
        equals, worse = column.equals(best), [run for run in ranked if run in column.beaten_by(best)]
        if equals:
            text += f" Not significantly worse: {context.named(equals, column)}."
        if worse:
            text += f" Significantly worse: {context.named(worse, column, len(worse) == len(column.cells) - 1)}."
        yield text + _elsewhere(context, column, best)
        yield from _by_cost(context, column)
        counted = {run for models in (equals, worse) if len(models) > _NAMED for run in models}  # and not named
        if doubted := [context.name(run, column, 1) for run in ranked if run in counted and column.cells[run].doubts]:
            yield f"To be doubted: {_listed(doubted)}."
    if unranked := [run for run in column.order if run not in ranked]:
        cells, lacks = [column.cells[run] for run in unranked], "it lacks some of the tasks"
        whys = [lacks if cell.competes else "" if cell.is_measurable else NOT_MEASURABLE for cell in cells]
        names = [context.name(run, column, _DOUBTS, why) for run, why in zip(unranked, whys, strict=True)]
        yield f"Without a rank {'' if ranked else where + ' '}by {metric.in_prose}: {_listed(names)}."


def _rates_of(context: _Context, column: Column, run: int) -> str:
    """The two rates that a model's balanced error is the mean of."""
    every = {(c.name, c.filter, c.metric.name): c for c in context.comparison.columns}
    rates = [every.get((column.name, column.filter, name)) for name in column.metric.balances]
    shown = [c for c in rates if c and run in c.cells]
    texts = [f"{c.metric.heading}: {context.value(c.cells[run].value, c.metric)}" for c in shown]
    return f" ({'; '.join(f'{text[0].lower()}{text[1:]}' for text in texts)})" if texts else ""


def _elsewhere(context: _Context, mean: Column, best: int) -> str:
    """In which tasks of a mean other models are significantly better than its best."""
    columns = [column for column in context.comparison.columns if same_figure(column, mean) and best in column.ranks]
    ranks = {catalogue.language_name(c.language, c.benchmark) if c.language else c.name: c.ranks[best] for c in columns}
    beaten = [f"{name} (rank {rank})" for name, rank in ranks.items() if rank > 1]
    if not (mean.group and ranks):
        return ""
    if not beaten:
        any_task = "either task" if len(ranks) == 2 else f"any of the {len(ranks)} tasks"
        return f" No model is significantly better in {any_task}."
    return f" Others are significantly better in {_listed(beaten)}."


def _by_cost(context: _Context, column: Column) -> Iterator[str]:
    """The best model by what a made-up answer costs, and where declining everything would err less."""
    costs = context.comparison.costs.get(column.name) if column.metric.balances else None
    clauses: list[str] = []
    for at in costs.at if costs else ():
        declining = 1 / (at.cost + 1)
        notes = [f"not significantly worse: {_listed([context.names[run] for run in at.equals])}"] if at.equals else []
        notes += [f"declining everything: {context.value(declining, column.metric)}"] if declining < at.value else []
        unit = "" if clauses else f" wrong refusal{'' if at.cost == 1 else 's'} for a made-up answer"
        text = f"of {at.cost:g}{unit}: {context.names[at.best]}, {context.value(at.value, column.metric)}"
        clauses.append(f"{text} ({'; '.join(notes)})" if notes else text)
    if clauses:
        yield f"Best at a cost {'; '.join(clauses)}."
