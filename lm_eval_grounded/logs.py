"""Logs of one's own systems: flagged answers by group, as ``lm-eval-grounded detect LOG`` shows them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt

if TYPE_CHECKING:
    import pandas

    from lm_eval_tasks.results.logs.judged import FlaggedAnswer, LogSummary


class FlaggedLog:
    """A log that a detector has read. ``str()`` is what the command prints.

    >>> detect_log([{"answer": "The cat is an astronaut.", "passages": ["The cat sleeps."]}], language="en")
    <FlaggedLog: 1 answers of records, read by lexical>
    """

    def __init__(self, summary: LogSummary, rows: list[dict[str, Any]], source: str, detector: str) -> None:
        self.summary = summary
        self._rows, self._source, self._detector = rows, source, detector

    @property
    def groups(self) -> pandas.DataFrame:
        """A row for all answers, and one for each group: ``answers``, ``abstaining``, ``unread``; ``flagged_answers`` and
        ``flagged_words`` with ``_low`` and ``_high``; means of what the log has of tokens, cost and latency."""
        import pandas

        def row(group: Any) -> dict[str, Any]:
            values = {**group.names, **{name: getattr(group, name) for name in ("answers", "abstaining", "unread")}}
            for name in ("flagged_answers", "flagged_words"):
                figure = getattr(group, name)
                values |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
            return values | dict(group.usage)

        return pandas.DataFrame([row(group) for group in (self.summary.total, *self.summary.groups)])

    @property
    def answers(self) -> pandas.DataFrame:
        """A row for each answer: ``line``, ``id``, ``language``, ``flagged_share`` (of its words), ``expected_share``,
        ``unsupported_probability``, ``spans`` and their ``texts``, ``sentences`` (start, end and probability of each)."""
        import pandas

        return pandas.DataFrame(self._rows)

    @property
    def to_look_at(self) -> list[FlaggedAnswer]:
        """The answers that deserve a look, the most suspicious first."""
        return self.summary.to_look_at

    def __str__(self) -> str:
        from lm_eval_tasks.results.logs.text import summary_text

        return summary_text(self.summary, self._source, self._detector).removesuffix("\n")

    def __repr__(self) -> str:
        return f"<FlaggedLog: {self.summary.total.answers} answers of {self._source}, read by {self._detector}>"


def detect_log(
    log: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    fields: str | None = None,
    by: str | Sequence[str] = (),
    detector: str = "lexical",
    language: str | None = None,
    no_passages: str = "unsupported",
    **options: Any,
) -> FlaggedLog:
    """Read a log of answers: a file in any form that ``lm-eval-grounded detect`` reads, or its records. `fields` are those
    of ``--fields``, `by` names the groups, `language` is a BCP 47 tag; `no_passages` "skip" leaves out
    answers without passages, which are unsupported otherwise; and `options` are the detector's.

    >>> log = detect_log([{"answer": "The cat is an astronaut.", "passages": ["The cat sleeps."]}], language="en")
    >>> log.summary.total.answers
    1

    UsageError where no record can be used, or a field does not exist."""
    from lm_eval_tasks.detection.language_tags import code_of
    from lm_eval_tasks.results.logs import detect_log as write_run
    from lm_eval_tasks.results.logs import given_fields, open_log
    from lm_eval_tasks.results.logs.judged import LogSummary, checked_groups

    names = [by] if isinstance(by, str) else list(by)
    with TemporaryDirectory() as folder:
        path, name = Path(folder) / "records.jsonl", "records"
        if isinstance(log, (str, os.PathLike)):
            path = Path(log)
            name = path.name
        elif not isinstance(log, Iterable) or isinstance(log, (bytes, Mapping)):
            raise UsageError(f"detect_log takes a file or its records, got {excerpt(log)}")
        else:
            with path.open("w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(record, ensure_ascii=False, default=str) + "\n" for record in log)
        opened = open_log(path, name, given_fields(fields), no_passages)
        names = checked_groups(names, [opened])
        code = None if language is None else code_of(language)
        output = Path(folder) / "out.jsonl"
        summary = LogSummary(names)
        write_run([opened], output, detector, options, language=code, summary=summary)
        rows = [json.loads(line) for line in output.open(encoding="utf-8")]
    return FlaggedLog(summary, rows, name, detector)
