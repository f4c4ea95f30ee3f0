"""Logs of one's own: answers of any system, in the form that its tool wrote them, read by a detector and written as a run.

:mod:`files` reads files of any format, :mod:`fields` finds the answers in the records, by the table ``fields.tsv``, with
:mod:`values` and :mod:`messages`; :mod:`traces` joins records of a run; :mod:`answers` makes documents of them, and
:mod:`run` tags these and writes the run. :mod:`summary` shows it, and :mod:`gate` judges it.
"""

from __future__ import annotations

from lm_eval_tasks.results.logs.answers import Log, open_log
from lm_eval_tasks.results.logs.fields import Fields, given_fields
from lm_eval_tasks.results.logs.run import detect_log

__all__ = ["Fields", "Log", "detect_log", "given_fields", "open_log"]
