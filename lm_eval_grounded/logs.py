"""Logs of one's own systems: flagged answers by group, as ``lm-eval-grounded detect LOG`` shows them. Of logs
beyond one machine, :class:`LogReader` reads batches, wherever they are; :func:`merge_logs` adds their shares up."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt

if TYPE_CHECKING:
    import pandas

    from custom_metrics.statistics.figures import Figure
    from lm_eval_tasks.results.logs import Fields
    from lm_eval_tasks.results.logs.summary import FlaggedAnswer, LogSummary


@dataclass(frozen=True, repr=False, eq=False)
class FlaggedLog:
    """A log that a detector has read. ``str()`` is what the command prints.

    >>> detect_log([{"answer": "The cat is an astronaut.", "passages": ["The cat sleeps."]}], language="en")
    <FlaggedLog: 1 answers of records, read by lexical>
    """

    summary: LogSummary
    answers: pandas.DataFrame
    """A row for each answer: ``line``, ``id``, ``language``, ``flagged_share`` (of its words), ``expected_share``,
    ``unsupported_probability``, ``spans`` and their ``texts``, ``sentences`` (start, end and probability of each)."""
    source: str
    detector: str

    @property
    def groups(self) -> pandas.DataFrame:
        """A row for all answers, and one for each group: ``answers``, ``abstaining``, ``unread``; ``flagged_answers`` and
        ``flagged_words`` with ``_low`` and ``_high``; means of what the log has of tokens, cost and latency."""
        import pandas

        rows = []
        for group in (self.summary.total, *self.summary.groups):
            rows.append({**group.names, **{name: getattr(group, name) for name in ("answers", "abstaining", "unread")}})
            for name in ("flagged_answers", "flagged_words"):
                figure = getattr(group, name)
                rows[-1] |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
            rows[-1] |= group.usage
        return pandas.DataFrame(rows)

    @property
    def to_look_at(self) -> list[FlaggedAnswer]:
        """The answers that deserve a look, the most suspicious first."""
        return self.summary.to_look_at

    def __str__(self) -> str:
        from lm_eval_tasks.results.logs.summary import summary_text

        return summary_text(self.summary, self.source, self.detector).removesuffix("\n")

    def __repr__(self) -> str:
        return f"<FlaggedLog: {self.summary.total.answers} answers of {self.source}, read by {self.detector}>"


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
    import pandas

    from lm_eval_tasks.detection.language_tags import code_of
    from lm_eval_tasks.results.logs import detect_log as write_run
    from lm_eval_tasks.results.logs import given_fields, open_log

    with TemporaryDirectory() as folder:
        path, output = Path(folder) / "records", Path(folder) / "out.jsonl"
        if isinstance(log, (str, os.PathLike)):
            path = Path(log)
        elif not isinstance(log, Iterable) or isinstance(log, (bytes, Mapping)):
            raise UsageError(f"detect_log takes a file or its records, got {excerpt(log)}")
        else:
            with path.open("w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(record, ensure_ascii=False, default=str) + "\n" for record in log)
        opened = open_log(path, path.name, given_fields(fields), no_passages == "skip")
        groups, code = [by] if isinstance(by, str) else list(by), None if language is None else code_of(language)
        _, summary = write_run([opened], output, groups, detector, options, language=code)
        answers = pandas.DataFrame([json.loads(line) for line in output.open(encoding="utf-8")])
    return FlaggedLog(summary, answers, path.name, detector)


class LogReader:
    """Read the records of a batch with a detector: a mapping of columns, or a DataFrame, or an iterator of these.

    It returns the same kind, a row for each record: ``left_out`` (why the record is no answer, or empty), ``declined``,
    ``flagged`` (1, 0, or nan where the answer is in no share), ``flagged_words`` and ``words``, ``unsupported_probability``
    (nan without a curve), and ``cluster``, what answers of one conversation or question have in common. The fields are
    chosen by the first batch (UsageError where none fit). Records of a trace belong into one batch. Arguments are those of
    :func:`detect_log`.

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
        calibration = calibrated.NO_CALIBRATION
        self._settings = calibrated.settings_of("detect", detector, options, calibration, RAG, kinds=(RAG,))
        self._skips = no_passages == "skip"
        self._fields: Fields | None = None  # chosen by the first batch

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, Iterator):  # as Spark gives a part of its rows
            return map(self, batch)
        if not isinstance(batch, Mapping):
            return type(batch)(self({name: batch[name].tolist() for name in batch.columns}))
        columns = {name: [*map(_plain, column)] for name, column in batch.items()}
        rows = self._read([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
        return {name: [row[name] for row in rows] for name in _UNREAD}

    def _read(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        from detector_plugin.filters import shared_detector
        from lm_eval_tasks.results.logs import judged
        from lm_eval_tasks.results.logs.answers import document_of
        from lm_eval_tasks.results.logs.fields import choose_fields
        from lm_eval_tasks.results.logs.traces import joined
        from lm_eval_tasks.results.logs.values import stored

        records = [*map(stored, records)]
        if not records:
            return []
        self._fields = self._fields or choose_fields("the first batch", records[:100], self._given)
        rows, block = [{**_UNREAD} for _ in records], list[Any]()
        for place, values in joined(enumerate(map(self._fields.read, records))):
            try:
                block.append((place, *document_of(values, self._language, self._skips)))
            except ValueError as error:
                rows[place]["left_out"] = str(error)
        detector = shared_detector(self._settings["detector"], self._settings["detector_args"])
        for answer in judged.by_detector(detector, block, self._settings):
            probability, row = answer.probability(answer.row[judged.EVIDENCE]), rows[answer.row["doc_id"]]
            row |= {"left_out": "", "unsupported_probability": probability}
            row |= {name: value for name, value in answer.counts().items() if name in row and value is not None}
        return rows


_UNREAD = {
    **{"left_out": "the passages of an answer", "declined": False, "flagged": float("nan"), "flagged_words": 0},
    **{"words": 0, "unsupported_probability": float("nan"), "cluster": ""},
}
_MOST_CLUSTERS, _PARTS = 1 << 16, 1 << 14  # more clusters than the first are added up to as many sums as the second


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
    import pandas

    from custom_metrics.hallucination import estimate
    from custom_metrics.scores.aggregations import defined_share
    from custom_metrics.statistics.figures import Rows

    left_out, answers, declined, sums = Counter[str](), 0, 0, pandas.DataFrame()
    for batch in batches:
        rows = pandas.DataFrame({name: [*batch[name]] for name in _UNREAD})
        left_out.update(rows["left_out"])
        read = rows[rows["left_out"] == ""]
        answers, declined = answers + len(read), declined + int(read["declined"].sum())
        added = pandas.DataFrame({"flagged": read["flagged"].fillna(0), "judged": read["flagged"].notna()})
        added = added.join(read[["flagged_words", "words"]]).astype(float).set_axis(read["cluster"])
        sums = pandas.concat([sums, added]).groupby(level=0).sum()
        if len(sums) > _MOST_CLUSTERS:
            sums = sums.groupby(lambda name: f"{int(name, 16) % _PARTS:x}").sum()
    if not answers:
        raise UsageError("merge_logs: no answer was read")
    del left_out[""], left_out[str(_UNREAD["left_out"])]
    of_answers = sums.loc[sums["judged"] > 0, ["flagged", "judged"]].to_numpy()
    number = int(of_answers[:, 1].sum())
    is_alone = len(of_answers) == number  # each answer in its cluster
    flagged = defined_share.figure(Rows(of_answers[:, 0])) if is_alone else estimate(of_answers).detected
    words = estimate(sums[["flagged_words", "words"]].to_numpy()).detected
    return MergedLog(answers, declined, dict(left_out), *(each._replace(n=number) for each in (flagged, words)))
