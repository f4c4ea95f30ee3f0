"""Published figures: tables of the papers, and whether a run's figures can be held against them.

:func:`rows_for` gives the rows of a task and metric. :func:`differs` says in what a run was measured otherwise; where it
says nothing the numbers are comparable. README.md lists the tables.
"""

from __future__ import annotations

from lm_eval_tasks.published.beside import answered_otherwise, differs
from lm_eval_tasks.published.rows import PublishedRow, Source, all_rows, rows_for, sources

__all__ = ["PublishedRow", "Source", "all_rows", "answered_otherwise", "differs", "rows_for", "sources"]
