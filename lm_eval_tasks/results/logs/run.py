"""Logs of one's own, read by a detector and written as a run: a results file and a samples file as the harness writes
them, of the task :data:`LOGGED`. Its shares are those of CLAPnq's answers (:mod:`lm_eval_tasks.clapnq.hallucination`).

Texts are read, tagged and written block by block. What stays in memory of an answer are its spans, with which a killed run
goes on where it stopped (:mod:`detector_plugin.span_store`), and counts of words.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from custom_metrics.statistics.figures import is_measurable
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import DEFAULT_DETECTOR, RAG
from detector_plugin.filters import given_options, shared_detector
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.data import locked_folder, move_whole, provenance
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import DEFINED_SHARE, Benchmark, Metric
from lm_eval_tasks.detection import calibrated, marked
from lm_eval_tasks.harness.detector_task import FILTER
from lm_eval_tasks.results import LOGGED
from lm_eval_tasks.results.logs import judged
from lm_eval_tasks.results.logs.answers import Answer, LeftOut, Log
from lm_eval_tasks.results.logs.summary import LogSummary

_LOG = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own
_BLOCK = 256  # answers that are tagged together

_FLAGGED = Metric(
    *(judged.FLAGGED_ANSWERS, DEFINED_SHARE, False, "answers that do not abstain and that the detector has read"),
    label="share of flagged answers",
    title="Flagged answers",
    definition="share of answers that, as the detector reads them, more likely than not hold something unsupported; of a "
    "detector without a curve, that it flags anything in (custom_metrics.scores.unsupported)",
    sentence="A detector flags {value} of its answers",
    counted="answers",
    is_raw=True,
    headline=True,
    prominence=3,
)
_TABLE = Benchmark(
    version=1.0,
    tasks=(),
    title="Logged answers",
    questions={LOGGED: "How much of what it answers does not stand in the text that it was given?"},
    more_metrics=(
        marked.MARKED_RATE,
        replace(OF_A_DETECTOR[1], fallback_for=marked.METRIC, headline=True),
        replace(OF_A_DETECTOR[0], fallback_for=judged.COUNTS),
        _FLAGGED,
        metric_of(judged.ABSTENTION),
    ),
)


def detect_log(
    logs: Sequence[Log],
    output: Path,
    by: Sequence[str] = (),
    detector: str = DEFAULT_DETECTOR,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    language: str | None = None,
    tell: Callable[[str], None] = _LOG.info,
) -> tuple[Path, LogSummary]:
    """Tag the answers of logs (:func:`lm_eval_tasks.results.logs.answers.open_log`), and return the results file of the
    run, and a summary by the fields `by`.

    `output` gets the spans and shares of each answer; the run is the folder of this name without its suffix. A
    `calibration` of RAG answers corrects the rate of a log in one language. `language` is the ISO 639 code of answers that
    name none; without it, theirs is guessed. `tell` is given the fields of each log before its first answer is tagged.
    UsageError where no record can be used: then nothing is written.
    """
    folder, summary = output.with_suffix(""), LogSummary(by, logs)
    if folder == output or (output.exists() and any(output.samefile(log.path) for log in logs)):
        raise UsageError("detect: name an output such as out.jsonl (out/ becomes the run), not the log itself")
    for log in logs:
        tell(log.description)
    named = calibration or calibrated.NO_CALIBRATION
    settings = calibrated.settings_of("detect", detector, detector_args, named, RAG, kinds=(RAG,))
    options = given_options(settings["detector_args"])  # with their secrets
    loaded = shared_detector(settings["detector"], options)  # what it lacks is said before any work
    left_out, is_new, answer = LeftOut(), not folder.exists(), None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked_folder(folder) as partial:
            samples, spans, written = (partial / name for name in ("samples", "spans", "results"))
            stored = StoredDetector(loaded, folder / ".spans_0.jsonl", json.loads(options), quiet=True)
            if stored.spans_by_key:
                _LOG.info("%d answers are tagged already (%s)", len(stored.spans_by_key), folder)
            answers = _answers(logs, language, left_out)
            with samples.open("w", encoding="utf-8") as rows, spans.open("w", encoding="utf-8") as entries:
                while block := [*islice(answers, _BLOCK)]:
                    for answer in judged.by_detector(stored, block, settings):
                        rows.write(json.dumps(answer.row, ensure_ascii=False) + "\n")
                        entries.write(json.dumps(answer.entry(), ensure_ascii=False) + "\n")
                        summary.add(answer)
            names = ", ".join(log.name for log in logs)
            if answer is None:
                raise UsageError(f"{names}: no line can be used: {left_out}")
            record = _provenance(logs, left_out, summary, answer)
            _LOG.log(
                logging.WARNING if left_out else logging.INFO,
                "%s: %d answers (%s; the language of %d is guessed); left out: %s",
                *(names, record["kept"]["answers"], record["options"]["languages"], record["kept"]["guessed"]),
                left_out or "no line",
            )
            results = provenance.strict_json(_results(summary, answer, record, logs[0].path.stem))
            written.write_text(json.dumps(results, indent=2, ensure_ascii=False), "utf-8")
            date = datetime.now().isoformat().replace(":", "-")
            path = folder / f"results_{date}.json"
            move_whole({samples: folder / f"samples_{LOGGED}_{date}.jsonl", spans: output, written: path})
            stored.path.unlink(missing_ok=True)
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
    return path, summary


def _answers(logs: Sequence[Log], language: str | None, left_out: LeftOut) -> Iterator[Answer]:
    """The answers of all logs. Numbers are those of records where each is larger than the one before."""
    from tqdm import tqdm

    last = 0
    for log in logs:
        for number, doc, text in tqdm(log.answers(language, left_out), log.path.name, unit=" answers"):
            last = max(number, last + 1)
            place = f"line {number}" if len(logs) == 1 else f"{log.name}:{number}"
            yield last, {"id": place, **doc}, text


def _provenance(
    logs: Sequence[Log], left_out: LeftOut, summary: LogSummary, answer: judged.JudgedAnswer
) -> dict[str, Any]:
    """Where the numbers come from, by all answers and any one of them."""
    total, doc = summary.total, answer.row["doc"]
    languages, kept = Counter(total.frame["language"]), total.frame[["guessed", "untagged", "no_passages"]].sum()
    return {
        "read_from": "log",
        "local_files": [provenance.local_file("input", log.path) for log in logs],
        "fields": {log.name: f"{log.fields.tool}: {log.option}" for log in logs},
        "left_out": dict(left_out),
        "versions": provenance.versions(),
        "options": {"languages": dict(languages), "language": "" if len(languages) > 1 else next(iter(languages))},
        "kept": {"answers": total.answers, **kept.astype(int).to_dict()},
        "detector": {**answer.tagged["detector"], "options": json.loads(doc["detector_args"])},
        "calibration": calibrated.describe_calibration(doc),
        "not_comparable": [],
    }


def _results(summary: LogSummary, answer: judged.JudgedAnswer, record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The content of a results file, as the harness writes it. `name` is that of the model where no answer names one. A
    corrected rate that is not measurable is in no table."""
    total, key = summary.total, calibrated.CalibrationKey.from_document(answer.row["doc"], answer.tagged["detector"])
    errors = calibrated.errors_of(calibrated.in_force(key, LOGGED)) if record["options"]["language"] else None
    if errors is None and key.calibration != calibrated.NO_CALIBRATION:
        languages = ", ".join(record["options"]["languages"])
        _LOG.warning("no corrected rate: %s does not fit the log's languages (%s)", key.calibration, languages)
    of_words = total.words("flagged_words", errors)
    figures: dict[str, Any] = {}
    table: dict[str, Any] = {"alias": LOGGED}
    for metric, figure in (
        *((judged.COUNTS, of_words.rogan_gladen), (judged.SHARE, of_words.detected)),
        (judged.EXPECTED, total.words("expected_words").detected),
        *((judged.FLAGGED_ANSWERS, total.flagged_answers), (judged.ABSTENTION, total.share("declined"))),
    ):
        if math.isnan(figure.value):
            continue
        is_shown = metric != judged.COUNTS or is_measurable(figure, "share")
        figures[metric] = figure.as_json(_TABLE.metrics.get(metric, OF_A_DETECTOR[0]).denominator, is_shown)
        if is_shown and metric in _TABLE.metrics:
            error = figure.standard_error
            table[f"{metric},{judged.FILTER_NAME}"] = figure.value
            table[f"{metric}_stderr,{judged.FILTER_NAME}"] = "N/A" if math.isnan(error) else error
    listed = [metric for metric in _TABLE.metrics.values() if metric.name in figures]
    metadata = {"version": _TABLE.version, "provenance": record, "figures": {judged.FILTER_NAME: figures}}
    config = {
        "task": LOGGED,
        "metric_list": [metric.entry(metric.aggregation) for metric in listed],
        "filter_list": [{"name": judged.FILTER_NAME, "filter": [{"function": FILTER}]}],
        "metadata": {**metadata, "benchmark": {"name": "logs", **_TABLE.as_json()}},
    }
    by_task = {
        **{"results": table, "configs": config, "versions": _TABLE.version, "n-shot": 0},
        "higher_is_better": {metric.name: metric.higher_is_better for metric in listed},
        "n-samples": dict.fromkeys(("original", "effective"), total.answers),
    }
    models = {model or name for model in total.frame["model"]}
    model = models.pop() if len(models) == 1 else f"{len(models)} models"
    of_run = {"config": {"model": "replay"}, "model_source": "log", "model_name": model}  # nothing was prompted
    return {**{key: {LOGGED: value} for key, value in by_task.items()}, **of_run}
