"""Logs of one's own systems: flagged answers by group, as ``lm-eval-grounded detect LOG`` shows them. Of logs
beyond one machine, :class:`LogReader` reads batches, wherever they are; :func:`merge_logs` adds their shares up."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt

if TYPE_CHECKING:
    import pandas

    from custom_metrics.statistics.figures import Figure
    from lm_eval_tasks.results.logs.summary import FlaggedAnswer, LogSummary


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
        from lm_eval_tasks.results.logs.summary import summary_text

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
    from lm_eval_tasks.results.logs.summary import LogSummary

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
        code = None if language is None else code_of(language)
        output = Path(folder) / "out.jsonl"
        summary = LogSummary([by] if isinstance(by, str) else list(by), [opened])
        write_run([opened], output, detector, options, language=code, summary=summary)
        rows = [json.loads(line) for line in output.open(encoding="utf-8")]
    return FlaggedLog(summary, rows, name, detector)


_MOST_CLUSTERS, _PARTS = 1 << 16, 1 << 14  # more clusters than the first are added up to as many sums as the second


class LogReader:
    """Read the records of a batch with a detector: a mapping of columns, or a DataFrame, or an iterator of these.

    It returns the same kind, a row for each record: ``left_out`` (why the record is no answer, or empty), ``declined``,
    ``flagged`` (1, 0, or nan where the answer is in no share), ``flagged_words`` and ``words``, ``unsupported_probability``
    (nan without a curve), and ``cluster``, what answers of one conversation or question have in common. The fields are
    chosen by the first batch (UsageError where none fit). Records of a trace belong into one batch.

    >>> LogReader(language="en")({"answer": ["The cat flies."], "passages": [["The cat sleeps."]]})["words"]
    [3]
    """

    def __init__(
        self,
        fields: str | None = None,
        detector: str = "lexical",
        language: str | None = None,
        no_passages: str = "unsupported",
        **options: Any,
    ) -> None:
        from detector_plugin.detector import RAG
        from lm_eval_tasks.detection import calibrated
        from lm_eval_tasks.detection.language_tags import code_of
        from lm_eval_tasks.results.logs import given_fields

        self._given, self._language = given_fields(fields), None if language is None else code_of(language)
        self._settings = calibrated.settings_of(
            "detect", detector, options, calibrated.NO_CALIBRATION, RAG, kinds=(RAG,)
        )
        self._no_passages, self._fields = no_passages, list[Any]()

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, Iterator):  # as Spark gives a part of its rows
            return map(self, batch)
        if not isinstance(batch, Mapping):
            return type(batch)(self.__call__({name: batch[name].tolist() for name in batch.columns}))
        columns = {name: [*map(_plain, column)] for name, column in batch.items()}
        records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        rows = self._read(records)
        return {name: [row[name] for row in rows] for name in _UNREAD}

    def _read(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        from detector_plugin.filters import shared_detector
        from lm_eval_tasks.results.logs import judged
        from lm_eval_tasks.results.logs.answers import document_of
        from lm_eval_tasks.results.logs.fields import choose_fields
        from lm_eval_tasks.results.logs.traces import joined
        from lm_eval_tasks.results.logs.values import stored

        records = [stored(record) for record in records]
        if not self._fields and records:
            self._fields.append(choose_fields("the first batch", records[:100], self._given))
        rows, block = [{**_UNREAD} for _ in records], list[Any]()
        for place, values in joined((place, self._fields[0].read(record)) for place, record in enumerate(records)):
            try:
                block.append((place, *document_of(values, self._language, self._no_passages)))
            except ValueError as error:
                rows[place]["left_out"] = str(error)
        detector = shared_detector(self._settings["detector"], self._settings["detector_args"])
        for answer in judged.by_detector(detector, block, self._settings):
            row, probability = answer.row, answer.probability(answer.row[judged.EVIDENCE])
            counts, flag = row[judged.COUNTS] or {}, row[judged.FLAGGED_ANSWERS]
            rows[row["doc_id"]] = {
                **{"left_out": "", "declined": bool(row[judged.ABSTENTION]), "cluster": row["doc"]["article"]},
                **{"flagged": float("nan") if flag is None else flag, "unsupported_probability": probability},
                **{"flagged_words": counts.get("flagged", 0), "words": counts.get("words", 0)},
            }
        return rows


_UNREAD = {
    **{"left_out": "the passages of an answer", "declined": False, "flagged": float("nan"), "flagged_words": 0},
    **{"words": 0, "unsupported_probability": float("nan"), "cluster": ""},
}


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


class MergedLog(NamedTuple):
    """The shares of all batches, with 95 % bounds that take answers of one cluster together."""

    answers: int
    declined: int
    left_out: dict[str, int]
    flagged_answers: Figure
    flagged_words: Figure


def merge_logs(batches: Iterable[Any]) -> MergedLog:
    """The shares of what :class:`LogReader` returned, batch by batch: mappings of columns, or DataFrames. Of each cluster
    four sums stay in memory, of more than 65,536 clusters 16,384 sums of clusters. UsageError without an answer.

    >>> read = LogReader()({"answer": ["It is 9 m high."] * 5, "passages": [["It is 8 m high."]] * 5, "id": [*"abcde"]})
    >>> merge_logs([read]).answers
    5
    """
    import numpy as np

    from custom_metrics.hallucination import estimate
    from custom_metrics.statistics.figures import UNDEFINED, Figure
    from custom_metrics.statistics.intervals import share_of_clusters, wilson

    left_out, declined, answers, names = Counter[str](), 0, 0, np.zeros(0, np.uint64)
    sums = np.zeros((0, 4))
    for batch in batches:
        columns = {name: np.asarray(batch[name]) for name in _UNREAD}
        is_read = columns["left_out"] == ""
        left_out.update(columns["left_out"][~is_read].tolist())
        answers, declined = answers + int(is_read.sum()), declined + int(columns["declined"][is_read].sum())
        flags = columns["flagged"][is_read].astype(float)
        of_words = (columns[name][is_read] for name in ("flagged_words", "words"))
        added = [np.nan_to_num(flags), ~np.isnan(flags), *of_words]
        clusters = np.array([int(name, 16) for name in columns["cluster"][is_read].tolist()], np.uint64)
        names, places = np.unique(np.concatenate([names, clusters]), return_inverse=True)
        rows = np.concatenate([sums, np.stack(added, 1).astype(float)])
        if len(names) > _MOST_CLUSTERS:
            places, names = (names % np.uint64(_PARTS)).astype(int)[places], np.arange(_PARTS, dtype=np.uint64)
        sums = np.zeros((len(names), 4))
        np.add.at(sums, places, rows)
    left_out.pop(str(_UNREAD["left_out"]), None)
    if not answers:
        raise UsageError("merge_logs: no answer was read")
    of_answers = sums[sums[:, 1] > 0, :2]
    hits, number = of_answers.sum(axis=0)
    if not number:
        flagged = UNDEFINED
    elif len(of_answers) < number:
        low, high, error = map(float, share_of_clusters(*of_answers.T))
        flagged = Figure(hits / number, low, high, error, int(number))
    else:
        low, high = wilson(hits, int(number))
        flagged = Figure(hits / number, low, high, n=int(number))
    words = estimate(sums[:, 2:]).detected._replace(n=int(number))
    return MergedLog(answers, declined, dict(left_out), flagged, words)
