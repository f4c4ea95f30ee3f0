"""The work of the command ``report``: headlines, plots, differences, documents and pages of runs.

:func:`write_report` writes the page of one run or several.
"""

from __future__ import annotations

from lm_eval_tasks.results.report.writing import write_report

__all__ = ["write_report"]
