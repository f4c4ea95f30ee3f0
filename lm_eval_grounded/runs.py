"""Runs of a results folder as DataFrames, and compared; and the difference of two systems from two plain lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt, on_one_line, shorten
from lm_eval_grounded.answers import flag_of, listed, text_of

if TYPE_CHECKING:
    import pandas

    from custom_metrics.statistics.paired_difference import PairedDifference
    from lm_eval_tasks.results.compare import Comparison as Result
    from lm_eval_tasks.runs import Run


Place: TypeAlias = "str | os.PathLike[str]"


class Runs:
    """The runs in some places: a sequence of :class:`lm_eval_tasks.runs.Run`, and two tables. Files are found when this is
    made, results read with the first run or :attr:`figures`, and samples with :attr:`answers`.

    >>> runs = Runs("results")  # doctest of two runs, which lm_eval wrote to the folder
    >>> len(runs), len(runs.answers)
    (2, 600)
    """

    def __init__(self, places: Place | Iterable[Place], *more: Place, cost: float = 1.0) -> None:
        from lm_eval_tasks.runs.finding import find_files
        from lm_eval_tasks.runs.run import checked_cost

        listing = [places] if isinstance(places, (str, os.PathLike)) else listed(places, "read", "folders or files")
        for place in (*listing, *more):
            if not isinstance(place, (str, os.PathLike)) or not place:
                raise UsageError(f"read takes folders, results files and samples files, got {excerpt(place)}")
        self._cost = checked_cost(cost)
        self._files = [files for place in (*listing, *more) for files in find_files(Path(place))]

    @cached_property
    def _runs(self) -> list[Run]:
        from lm_eval_tasks.runs.finding import read_files
        from lm_eval_tasks.runs.run import with_cost

        return [with_cost(run, self._cost) for files in self._files for run in read_files(files)]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __getitem__(self, number: int) -> Run:
        return self._runs[number]

    def __repr__(self) -> str:
        names = [on_one_line(run.model) for run in self]
        return f"<Runs: {shorten(names)}; tasks: {len({task for run in self for task in run.tasks})}>"

    @cached_property
    def figures(self) -> pandas.DataFrame:
        """A row for each figure: :data:`lm_eval_tasks.results.tidy.FIGURE_COLUMNS`."""
        import pandas

        from lm_eval_tasks.results.tidy import FIGURE_COLUMNS, figure_rows

        table = pandas.DataFrame(list(figure_rows(self)), columns=list(FIGURE_COLUMNS))
        return table.astype({"value": float, "low": float, "high": float, "standard_error": float, "n": "Int64"})

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
    holds no results; ValueError, when it is read: a results file is damaged.

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

    def __init__(self, result: Result, pairs: bool = False) -> None:
        self.result = result
        self._pairs = pairs

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
        from lm_eval_tasks.results.compare.tables import render

        return render(self.result, form, self._pairs)

    def __str__(self) -> str:
        return self._repr_html_("text").removesuffix("\n")

    def __repr__(self) -> str:
        number = sum(len(column.tested) for column in self.result.columns)
        return f"<Comparison of {on_one_line(', '.join(self.result.models))}: {number} differences>"


def compare(
    *runs: Runs | Run | Place,
    tasks: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    every_metric: bool = False,
    filter: str | None = None,
    pairs: bool = False,
    across: str | Sequence[str] | None = None,
    pair: str | Sequence[str] | None = None,
    cost: float | None = None,
) -> Comparison:
    """Compare two models or more: what :func:`read` gives, single runs, or paths. Options (`every_metric` is ``--all``) and
    errors are those of ``lm-eval-grounded compare``; without a `cost`, runs keep the one that they were read with.

    >>> compare("results", tasks="clapnq_rag", metrics=["rougeL", "recall"])
    <Comparison of lm-eval-grounded/baseline-answer, lm-eval-grounded/baseline-lexical: 2 differences>
    """
    from lm_eval_tasks.results.compare import compare_runs
    from lm_eval_tasks.results.joining import check_across
    from lm_eval_tasks.runs import Run
    from lm_eval_tasks.runs.run import with_cost

    of_names = {"tasks": tasks, "metrics": metrics, "pair": pair}
    chosen_tasks, chosen_metrics, paired = (_names(given, name) for name, given in of_names.items())
    settings, by_pair = check_across(_names(across, "across")), flag_of(pairs, "pairs")
    every, read_by = flag_of(every_metric, "every_metric"), None if filter is None else text_of(filter, "filter")
    chosen: list[Run] = []
    for each in runs:
        if not isinstance(each, (Run, Runs, str, os.PathLike)):
            raise UsageError(f"compare takes what read() gives, single runs, or paths; got {type(each).__name__}")
        chosen += [each] if isinstance(each, Run) else each if isinstance(each, Runs) else read(each)
    if cost is not None:
        chosen = [with_cost(run, cost) for run in chosen]
    options = chosen_tasks, chosen_metrics, every, read_by
    return Comparison(compare_runs(chosen, *options, across=settings, pairs=paired), by_pair)


def _names(given: Any, name: str) -> list[str]:
    """The names that a caller gave, one or a list; none of ``None``."""
    names = [] if given is None else [given] if isinstance(given, str) else listed(given, name, "names")
    return [text_of(each, f"{name}[{place}]") for place, each in enumerate(names)]


Kind = Literal["share", "mean", "ratio"]


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
        a named tuple with ``first``, ``second``, ``difference``, ``low``, ``high``, ``p``, ``n``, ``method`` and
        ``standard_error`` (:mod:`custom_metrics.statistics.paired_difference` has the sources). Bounds and p of fewer than
        five documents or clusters are ``nan`` for means and ratios.

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
    found = None if clusters is None else listed(clusters, "clusters", "names")
    names = found and ["" if name is None or name != name else str(name) for name in found]
    for name, values in (("values_b", b), ("clusters", names)):
        if values is not None and len(values) != len(a):
            raise UsageError(
                f"{len(a)} values_a, but {len(values)} {name}: they are of the same documents, in one order"
            )
    figure = {"share": defined_share, "mean": defined_mean, "ratio": Ratios("ratio")}[kind]
    return figure.difference(figure.rows(a, names or [""] * len(a)), figure.rows(b, names or [""] * len(b)))


def _checked(value: Any, kind: Kind, name: str) -> Any:
    """A value as its kind of figure takes it; None where the document does not count."""
    parts = listed(value, name, "numbers") if kind == "ratio" and value is not None else [value]
    if any(part is None or part != part for part in parts):
        return None
    fits = len(parts) == (2 if kind == "ratio" else 1) and all(isinstance(part, Real) for part in parts)
    if not fits or (kind == "share" and value not in (0, 1)):
        of = {"share": "0 or 1 (kind='mean' takes numbers)", "mean": "a number", "ratio": "(numerator, denominator)"}
        raise UsageError(f"{name}: a value is {of[kind]}, got {excerpt(value)}")
    return tuple(map(float, parts)) if kind == "ratio" else float(value)
