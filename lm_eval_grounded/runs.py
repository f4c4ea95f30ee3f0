"""Runs of a results folder as DataFrames, and compared; and the difference of two systems from two plain lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, on_one_line, shorten
from lm_eval_grounded.answers import listed, of_kind

if TYPE_CHECKING:
    import pandas

    from custom_metrics.statistics.paired_difference import PairedDifference
    from lm_eval_tasks.results.compare import Comparison as Result
    from lm_eval_tasks.results.report import Report
    from lm_eval_tasks.runs import Run


Place: TypeAlias = "str | os.PathLike[str]"


class Runs(tuple["Run", ...]):
    """A sequence of :class:`lm_eval_tasks.runs.Run`, and two tables. Samples are read with :attr:`answers`.

    >>> runs = Runs("results")  # doctest of two runs, which lm_eval wrote to the folder
    >>> len(runs), len(runs.answers)
    (2, 600)
    """

    def __new__(cls, places: Place | Iterable[Place], *more: Place, cost: float = 1.0) -> Runs:
        from lm_eval_tasks.runs import read_runs
        from lm_eval_tasks.runs.run import checked_cost, with_cost

        listing = [places] if isinstance(places, (str, os.PathLike)) else listed(places, "read", "folders or files")
        for place in (*listing, *more):
            if not isinstance(place, (str, os.PathLike)) or not place:
                raise UsageError(f"read takes folders, results files and samples files, got {excerpt(place)}")
        cost = checked_cost(cost)
        return super().__new__(cls, [with_cost(run, cost) for run in read_runs(map(Path, (*listing, *more)))])

    def __repr__(self) -> str:
        names = [on_one_line(run.model) for run in self]
        return f"<Runs: {shorten(names)}; tasks: {len({task for run in self for task in run.tasks})}>"

    @cached_property
    def figures(self) -> pandas.DataFrame:
        """A row for each figure: :data:`lm_eval_tasks.results.tidy.FIGURE_COLUMNS`."""
        import pandas

        from lm_eval_tasks.results.tidy import FIGURE_COLUMNS, figure_rows

        table = pandas.DataFrame(list(figure_rows(self)), columns=list(FIGURE_COLUMNS))
        return table.astype({**dict.fromkeys(("value", "low", "high", "standard_error"), float), "n": "Int64"})

    @cached_property
    def answers(self) -> pandas.DataFrame:
        """A row for each answer and filter: :data:`lm_eval_tasks.results.tidy.ANSWER_COLUMNS`, and each metric of any task.
        All responses of all runs are in memory then: where they are many, read one run, or one samples file."""
        import pandas

        from lm_eval_tasks.results.tidy import ANSWER_COLUMNS, answer_rows

        rows = list(answer_rows(self))
        return pandas.DataFrame(rows, columns=None if rows else list(ANSWER_COLUMNS))


def read(places: Place | Iterable[Place], *more: Place, cost: float = 1.0) -> Runs:
    """The runs in a folder (with all folders in it), a results file, a samples file, or several of these. With a `cost`, a
    made-up answer counts as much as so many wrong refusals in balanced errors. MissingSource: a place is not there, or
    holds no results; ValueError: a results file is damaged.

    >>> read("results")[0].model
    'lm-eval-grounded/baseline-answer'
    """
    return Runs(places, *more, cost=cost)


class Comparison:
    """A comparison of runs. ``str()`` is what ``lm-eval-grounded compare`` prints; a notebook shows the same as tables. Its
    `result` has the same as plain values.

    >>> comparison = compare("results", tasks="clapnq_rag", metrics="rougeL")
    >>> comparison.to_dataframe()[["metric", "significant"]].values.tolist()
    [['rougeL', False]]
    """

    def __init__(self, report: Report, pairs: bool = False) -> None:
        self.report, self._pairs = report, pairs

    @property
    def result(self) -> Result:
        assert self.report.comparison is not None  # it refuses runs that cannot be compared
        return self.report.comparison

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each difference of two models, with the columns of ``compare --format csv``."""
        import pandas

        return pandas.DataFrame([row.as_json(self.result.models) for row in self.result.differences])

    @property
    def verdicts(self) -> list[str]:
        """Which model is better, a sentence or more on each benchmark: what ``compare --short`` prints below its table."""
        from lm_eval_tasks.results.compare.verdicts import verdicts

        return [line for verdict in verdicts(self.result) for line in verdict.lines]

    def _repr_html_(self, form: str = "html") -> str:
        return self.report.to_text(form, pairs=self._pairs)

    def __str__(self) -> str:
        return self._repr_html_("text").removesuffix("\n")

    def __repr__(self) -> str:
        number = sum(len(column.tested) for column in self.result.columns)
        return f"<Comparison of {on_one_line(', '.join(self.result.models))}: {number} differences>"


Names: TypeAlias = "str | Sequence[str] | None"


def compare(
    *runs: Runs | Run | Place,
    tasks: Names = None,
    metrics: Names = None,
    every_metric: bool = False,
    filter: str | None = None,
    pairs: bool = False,
    across: Names = None,
    pair: Names = None,
    cost: float | None = None,
) -> Comparison:
    """Compare two models or more: what :func:`read` gives, single runs, or paths. Options (`every_metric` is ``--all``) and
    errors are those of ``lm-eval-grounded compare``; without a `cost`, runs keep the one that they were read with.

    >>> compare("results", tasks="clapnq_rag", metrics=["rougeL", "recall"])
    <Comparison of lm-eval-grounded/baseline-answer, lm-eval-grounded/baseline-lexical: 2 differences>
    """
    from lm_eval_tasks.results.joining import check_across
    from lm_eval_tasks.results.report import Report
    from lm_eval_tasks.runs import Run
    from lm_eval_tasks.runs.run import with_cost

    options = (
        *(_names(tasks, "tasks"), _names(metrics, "metrics"), of_kind(bool, every_metric, "every_metric")),
        None if filter is None else of_kind(str, filter, "filter"),
    )
    settings, paired = check_across(_names(across, "across")), _names(pair, "pair")
    by_pair, chosen = of_kind(bool, pairs, "pairs"), list[Run]()
    for each in runs:
        if not isinstance(each, (Run, Runs, str, os.PathLike)):
            raise UsageError(f"compare takes what read() gives, single runs, or paths; got {type(each).__name__}")
        chosen += [each] if isinstance(each, Run) else each if isinstance(each, Runs) else read(each)
    if cost is not None:
        chosen = [with_cost(run, cost) for run in chosen]
    return Comparison(Report.comparing(chosen, *options, across=settings, pairs=paired), by_pair)


def _names(given: Any, name: str) -> list[str]:
    """The names that a caller gave, one or a list; none of ``None``."""
    names = [] if given is None else [given] if isinstance(given, str) else listed(given, name, "names")
    return [of_kind(str, each, f"{name}[{place}]") for place, each in enumerate(names)]


Kind = Literal["share", "mean", "ratio"]
_VALUES = {"share": "0 or 1 (kind='mean' takes numbers)", "mean": "a number", "ratio": "(numerator, denominator)"}


def difference(
    values_a: Iterable[Any], values_b: Iterable[Any], clusters: Iterable[Any] | None = None, kind: Kind = "share"
) -> PairedDifference:
    """The paired difference of two systems, A - B, with 95 % bounds and p, as ``lm-eval-grounded compare`` computes it.

    >>> a = [1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1]  # right or wrong, question by question
    >>> b = [1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0]
    >>> shown = difference(a, b)
    >>> print(f"{shown.difference:+.2f} [{shown.low:+.2f}, {shown.high:+.2f}], p = {shown.p:.3f}, n = {shown.n}")
    +0.42 [+0.07, +0.68], p = 0.025, n = 12

    Args:
        values_a: a value for each document, in the same order as `values_b`: 0 or 1 for a ``share``, a number for a
            ``mean``, and (numerator, denominator) for a ``ratio`` of sums, such as flagged words over words. ``None`` and
            ``nan``: the document does not count, for either.
        clusters: the name of each document's cluster (article, conversation), where documents depend on each other.
        kind: which figure of the values is compared.

    Returns:
        ``first``, ``second``, ``difference``, ``low``, ``high``, ``p``, ``n``, ``method`` and ``standard_error``
        (:mod:`custom_metrics.statistics.paired_difference` has the sources). Bounds and p of fewer than five documents or
        clusters are ``nan`` for means and ratios.

    Raises:
        UsageError: lists of unequal length, or values of another kind.
    """
    from custom_metrics.scores.aggregations import Ratios, defined_mean, defined_share

    if kind not in get_args(Kind):
        raise UsageError(f"kind is {', '.join(get_args(Kind))}; got {excerpt(kind)}")
    a, b = (
        [_checked(value, kind, f"{name}[{place}]") for place, value in enumerate(listed(values, name, "values"))]
        for name, values in (("values_a", values_a), ("values_b", values_b))
    )
    named = [""] * len(a) if clusters is None else listed(clusters, "clusters", "names")
    names = ["" if name is None or name != name else str(name) for name in named]
    for name, others in (("values_b", b), ("clusters", names)):
        if len(others) != len(a):
            same = "they are of the same documents, in one order"
            raise UsageError(f"{len(a)} values_a, but {len(others)} {name}: {same}")
    figure = {"share": defined_share, "mean": defined_mean, "ratio": Ratios("ratio")}[kind]
    return figure.difference(figure.rows(a, names), figure.rows(b, names))


def _checked(value: Any, kind: Kind, name: str) -> Any:
    """A value as its kind of figure takes it; None where the document does not count."""
    parts = listed(value, name, "numbers") if kind == "ratio" and value is not None else [value]
    if any(part is None or part != part for part in parts):
        return None
    fits = len(parts) == (2 if kind == "ratio" else 1) and all(isinstance(part, Real) for part in parts)
    if not fits or (kind == "share" and value not in (0, 1)):
        raise UsageError(f"{name}: a value is {_VALUES[kind]}, got {excerpt(value)}")
    return tuple(map(float, parts)) if kind == "ratio" else float(value)
