"""Runs of a results folder as DataFrames, and compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from custom_metrics.usage.plain_errors import UsageError

if TYPE_CHECKING:
    import pandas

    from lm_eval_tasks.results.compare import Comparison as Result
    from lm_eval_tasks.runs import Run

Place: TypeAlias = "str | os.PathLike[str]"


class Runs:
    """The runs below some folders: a sequence of :class:`lm_eval_tasks.runs.Run`, and two tables.

    The places are searched when this is made. Results files are read when a run or :attr:`figures` is asked for first,
    samples files with :attr:`answers`. Both tables are made once.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        from lm_eval_tasks.runs.finding import find_files

        self._files = [files for place in places for files in find_files(Path(place))]

    @cached_property
    def _runs(self) -> list[Run]:
        from lm_eval_tasks.runs.finding import read_files

        return [run for files in self._files for run in read_files(files)]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __getitem__(self, number: int) -> Run:
        return self._runs[number]

    def __repr__(self) -> str:
        names = [run.model for run in self]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        tasks = {task for run in self for task in run.tasks}
        return f"<Runs: {', '.join(names[:3])}{more}; {len(tasks)} task{'' if len(tasks) == 1 else 's'}>"

    @cached_property
    def figures(self) -> pandas.DataFrame:
        """A row for each figure, with the columns of :data:`lm_eval_tasks.results.tidy.FIGURE_COLUMNS`. A value that is not
        defined is ``nan``, a number of documents that is not known ``<NA>``."""
        import pandas

        from lm_eval_tasks.results.tidy import FIGURE_COLUMNS, figure_rows

        table = pandas.DataFrame(list(figure_rows(self)), columns=list(FIGURE_COLUMNS))
        numbers = dict.fromkeys(("value", "low", "high", "standard_error"), "float64")
        return table.astype({**numbers, "n": "Int64"})

    @cached_property
    def answers(self) -> pandas.DataFrame:
        """A row for each answer and filter, with the columns of :data:`lm_eval_tasks.results.tidy.ANSWER_COLUMNS` and one
        for each metric of any task, ``nan`` where the document is not in its denominator.

        All responses of all runs are in memory then: read one run, or one samples file, where they are many.
        """
        import pandas

        from lm_eval_tasks.results.tidy import ANSWER_COLUMNS, answer_rows

        rows = list(answer_rows(self))
        return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=list(ANSWER_COLUMNS))


def read(places: Place | Iterable[Place], *more: Place) -> Runs:
    """Read runs: what `lm_eval --output_path DIR --log_samples`, a replay or ``lm-eval-grounded score`` wrote.

    Args:
        places, more: a folder, which is searched with all folders in it; a results file; a samples file; or a list.

    Raises:
        MissingSource: a place is not there, or holds no results.
        ValueError: a results file is damaged (when it is read).
    """
    return Runs([*([places] if isinstance(places, (str, os.PathLike)) else places), *more])


class Comparison:
    """A comparison of runs. ``str()`` is what ``lm-eval-grounded compare`` prints; a notebook shows the same as tables.

    Attributes:
        result: the comparison as plain values, with the attributes that
            :class:`lm_eval_tasks.results.compare.Comparison` describes.
    """

    def __init__(self, result: Result, pairs: bool = False) -> None:
        self.result = result
        self._pairs = pairs

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each pair of models, metric, and task or group: the columns of ``compare --format csv``."""
        import pandas

        return pandas.DataFrame(self.result.as_json()["differences"])

    def _rendered(self, form: str) -> str:
        from lm_eval_tasks.results.compare.matrix import tables_of
        from lm_eval_tasks.results.compare.rendering import render_sections

        return render_sections(tables_of(self.result, self._pairs), form)

    def _repr_html_(self) -> str:
        return self._rendered("html")

    def __str__(self) -> str:
        return self._rendered("text").removesuffix("\n")

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.result.models)}: {len(self.result.differences)} differences>"


def compare(
    *runs: Runs | Run | Place,
    tasks: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    every_metric: bool = False,
    filter: str | None = None,
    pairs: bool = False,
) -> Comparison:
    """Compare two models or more, as ``lm-eval-grounded compare`` does: paired differences with bounds and p.

    Args:
        runs: what :func:`read` gives, runs of that, or paths.
        tasks, metrics: which; default all tasks that two runs have, and the headline metrics.
        every_metric: all metrics, as ``--all``.
        filter: whose reading of the answers counts, such as ``strict``.
        pairs: of three models and more, show every pair and language.

    Raises:
        ValueError: what differs makes the runs incomparable, or there is nothing to compare.
        MissingSource: answers were not logged, or a path holds no run.
    """
    from lm_eval_tasks.results.compare import compare_runs
    from lm_eval_tasks.runs import Run

    chosen: list[Run] = []
    for each in runs:
        if isinstance(each, (Run, Runs)):
            chosen += [each] if isinstance(each, Run) else each
        elif isinstance(each, (str, os.PathLike)):
            chosen += read(each)
        else:
            raise UsageError(f"compare takes what read() gives, single runs, or paths; got {type(each).__name__}")
    return Comparison(compare_runs(chosen, _names(tasks), _names(metrics), every_metric, filter), pairs)


def _names(names: str | Sequence[str] | None) -> list[str] | None:
    listed = names.split(",") if isinstance(names, str) else names or ()
    return [name.strip() for name in listed] or None
