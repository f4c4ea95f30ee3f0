"""Logs of one's own: answers of any system, each with the text that it was given, read by a detector and written as a run.

The run is a folder with a results file and a samples file as the harness writes them, of the task :data:`LOGGED`. Its
shares are those of CLAPnq's answers (:mod:`lm_eval_tasks.clapnq.hallucination`).

Texts are read, tagged and written block by block. What stays in memory is a few hundred bytes an answer: its spans, with
which a killed run goes on where it stopped (:mod:`detector_plugin.span_store`), and counts of words.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from custom_metrics.statistics.figures import Figure, is_measurable
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import DEFAULT_DETECTOR, RAG
from detector_plugin.filters import given_options, shared_detector
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.data import locked_folder, move_whole, provenance
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import DEFINED_SHARE, Benchmark, Metric
from lm_eval_tasks.detection import calibrated, marked
from lm_eval_tasks.harness.detector_task import FILTER
from lm_eval_tasks.results import LOGGED
from lm_eval_tasks.results.logs import judged
from lm_eval_tasks.results.logs.answers import LeftOut, Log, open_log, reasons_of
from lm_eval_tasks.runs.results_file import provenance_of, read_results

_LOG = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own
_BLOCK = 256  # answers that are tagged together
_STORE = ".spans_0.jsonl"

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


_Job: TypeAlias = tuple[Sequence[Log], Path, Mapping[str, str], str, str | None]
"""The logs; the folder of its run; the detector's settings, and its options with their secrets; the language of
answers that name none."""


def detect_log(
    source: Path | Sequence[Log],
    output: Path,
    detector: str = DEFAULT_DETECTOR,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    language: str | None = None,
    tell: Callable[[str], None] = _LOG.info,
    summary: judged.LogSummary | None = None,
) -> Path:
    """Tag the answers of logs (:func:`lm_eval_tasks.results.logs.answers.open_log`; or of a file, whose fields are then
    chosen), and return the results file of the run.

    `output` gets the spans and shares of each answer; the run is the folder of this name without its suffix. A
    `calibration` of RAG answers corrects the rate of a log in one language. `language` is the ISO 639 code of answers that
    name none; without it, theirs is guessed. `tell` is given the fields of each log before its first answer is tagged;
    the answers are added to the `summary`. UsageError where no record can be used: then nothing is written.
    """
    logs = [open_log(source, str(source), {})] if isinstance(source, Path) else list(source)
    folder = output.with_suffix("")
    if folder == output or (output.exists() and any(output.samefile(log.file.path) for log in logs)):
        raise UsageError("detect: name an output such as out.jsonl (out/ becomes the run), not the log itself")
    for log in logs:
        tell(log.description)
    named = calibration or calibrated.NO_CALIBRATION
    settings = calibrated.settings_of("detect", detector, detector_args, named, RAG, kinds=(RAG,))
    shared_detector(settings["detector"], settings["detector_args"])  # what it lacks is said before any work
    job = logs, folder, settings, given_options(settings["detector_args"]), language
    left_out: LeftOut = {}
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked_folder(folder) as partial:
            rows, name = _judged(job, left_out), logs[0].file.path.stem
            results = _write(rows, partial, {"read_from": "log"}, name, summary or judged.LogSummary())
            reasons, names = reasons_of(left_out), ", ".join(log.file.name for log in logs)
            if not results:
                raise UsageError(f"{names}: no line can be used: {reasons or 'there is none'}")
            record = results["configs"][LOGGED]["metadata"]["provenance"]
            record["local_files"] = [provenance.local_file("input", log.file.path) for log in logs]
            record["fields"] = {log.file.name: f"{log.fields.tool}: {log.option}" for log in logs}
            record["left_out"] = {reason: len(places) for reason, places in left_out.items()}
            _LOG.log(
                logging.WARNING if reasons else logging.INFO,
                "%s: %d answers (%s; the language of %d is guessed); left out: %s",
                *(names, record["kept"]["answers"], record["options"]["languages"], record["kept"]["guessed"]),
                reasons or "no line",
            )
            written = _publish(results, folder, partial, output)
            (folder / _STORE).unlink(missing_ok=True)
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
    return written


def _blocks(logs: Sequence[Log], language: str | None, left_out: LeftOut) -> Iterator[list[judged.Answer]]:
    """The answers of logs, in blocks, with a bar of their bytes. Numbers are those of lines where each is larger than the
    one before. The places of records that cannot be used are added to `left_out`."""
    from tqdm import tqdm

    block, last = list[judged.Answer](), 0
    for log in logs:
        with tqdm(total=log.file.path.stat().st_size, unit="B", unit_scale=True, desc=log.file.path.name) as bar:
            for number, doc, text in log.answers(language, left_out, lambda read: bar.update(read - bar.n)):
                last = max(number, last + 1)
                place = f"line {number}" if len(logs) == 1 else f"{log.file.name}:{number}"
                block.append((last, {"id": place, **doc}, text))
                if len(block) == _BLOCK:
                    yield block
                    block = []
    yield block


def _judged(job: _Job, left_out: LeftOut) -> Iterator[judged.JudgedAnswer]:
    """Each answer of a log with what the detector finds in it."""
    logs, folder, settings, options, language = job
    detector = shared_detector(settings["detector"], options)
    stored = StoredDetector(detector, folder / _STORE, json.loads(options), quiet=True)
    if stored.spans_by_key:
        _LOG.info("%d answers are tagged already (%s)", len(stored.spans_by_key), folder)
    for block in _blocks(logs, language, left_out):
        yield from judged.by_detector(stored, block, settings)


def rate_by_marks(samples: Path, marks: marked.MarksOfTask, folder: Path, partial: Path) -> Path:
    """Write a run anew, with ``marked_rate`` by the marks, to `folder`, and return its results file. What the detector has
    found is read from the run's `samples`; what is not yet complete is in `partial`, a folder on the same disk."""
    earlier = read_results(samples.with_name(samples.name.replace(f"samples_{LOGGED}", "results").removesuffix("l")))
    record = provenance_of(earlier["configs"][LOGGED])
    rows = (judged.JudgedAnswer(row, json.loads(row["filtered_resps"][0])) for row in read_samples(samples))
    results = _write(rows, partial, record, earlier["model_name"], judged.LogSummary(most=0), marks)
    return _publish(results, folder, partial)


def _write(
    rows: Iterable[judged.JudgedAnswer],
    partial: Path,
    record: Mapping[str, Any],
    name: str,
    summary: judged.LogSummary,
    marks: marked.MarksOfTask | None = None,
) -> dict[str, Any]:
    """Write the answers to the files ``samples`` and ``spans`` of a folder, line by line; return the content of their
    results file, empty where there are none. `record` is the beginning of the provenance, `name` that of the model where no
    line names one."""
    values = list[Any]()
    with (
        (partial / "samples").open("w", encoding="utf-8") as samples,
        (partial / "spans").open("w", encoding="utf-8") as spans,
    ):
        for each in rows:
            row, tagged, doc = each.row, each.tagged, each.row["doc"]
            if marks is not None:
                values.append(marked.value_of(doc, tagged, marks, counts=not row[judged.ABSTENTION]))
                row |= {"metrics": [*dict.fromkeys((marked.METRIC, *row["metrics"]))], marked.METRIC: values[-1]}
            samples.write(json.dumps(row, ensure_ascii=False) + "\n")
            spans.write(json.dumps(each.entry(), ensure_ascii=False) + "\n")
            summary.add(each)
    total = summary.total
    if not total.answers:
        return {}
    languages, models = Counter(total.frame["language"]), Counter(model or name for model in total.frame["model"])
    key = calibrated.CalibrationKey.from_document(doc, tagged["detector"])
    errors = calibrated.errors_of(calibrated.in_force(key, LOGGED)) if len(languages) == 1 else None
    if errors is None and doc["calibration"] != calibrated.NO_CALIBRATION:
        _LOG.warning(
            "no corrected rate: %s does not fit the log's languages (%s)", key.calibration, ", ".join(languages)
        )
    of_words = total.words("flagged", errors)
    every = {
        **{marked.METRIC: marked.marked_rate.figure_of(values), judged.COUNTS: of_words.rogan_gladen},
        **{judged.SHARE: of_words.detected, judged.EXPECTED: total.words("expected").detected},
        **{judged.FLAGGED_ANSWERS: total.flagged_answers, judged.ABSTENTION: total.share("declined")},
    }
    figures = {name: figure for name, figure in every.items() if not math.isnan(figure.value)}
    kept = {of: int(total.frame[of].sum()) for of in ("guessed", "untagged", "no_passages")}
    record = {
        **record,
        "versions": provenance.versions(),
        "options": {"languages": dict(languages), "language": "" if len(languages) > 1 else next(iter(languages))},
        "kept": {"answers": total.answers, **kept},
        "detector": {**tagged["detector"], "options": json.loads(doc["detector_args"])},
        "calibration": calibrated.describe_calibration(doc),
        "not_comparable": [],
    }
    if marks is not None:
        record["marks"] = marked.description_of(values, marks)
        marked.log_basis(LOGGED, values, record["marks"])
    return _results(figures, record, values, models)


def _results(
    figures: Mapping[str, Figure], record: Mapping[str, Any], marked_values: Sequence[Any], models: Mapping[str, int]
) -> dict[str, Any]:
    """The content of a results file, as the harness writes it. A corrected rate that is not measurable is in no table."""
    metrics, number = _TABLE.metrics, sum(models.values())
    wide = {judged.COUNTS} - {name for name, figure in figures.items() if is_measurable(figure, "share")}
    by_name = {
        name: figure.as_json((metrics.get(name) or metrics[judged.SHARE]).denominator, name not in wide)
        for name, figure in figures.items()
    }
    by_name |= {name: figure.as_json(counted) for name, figure, counted in marked.finer_figures(marked_values)}
    metadata = {"version": _TABLE.version, "provenance": record, "figures": {judged.FILTER_NAME: by_name}}
    metadata["benchmark"] = {"name": "logs", **_TABLE.as_json()}
    listed = [metric for name, metric in metrics.items() if name in figures]
    table: dict[str, Any] = {"alias": LOGGED}
    for name in (metric.name for metric in listed if metric.name not in wide):
        error = figures[name].standard_error
        table |= {f"{name},{judged.FILTER_NAME}": figures[name].value}
        table |= {f"{name}_stderr,{judged.FILTER_NAME}": "N/A" if math.isnan(error) else error}
    listing = [metric.entry(metric.aggregation) for metric in listed]
    filters = [{"name": judged.FILTER_NAME, "filter": [{"function": FILTER}]}]
    return {
        "results": {LOGGED: table},
        "configs": {LOGGED: {"task": LOGGED, "metric_list": listing, "filter_list": filters, "metadata": metadata}},
        "versions": {LOGGED: _TABLE.version},
        "n-shot": {LOGGED: 0},
        "higher_is_better": {LOGGED: {metric.name: metric.higher_is_better for metric in listed}},
        "n-samples": {LOGGED: dict.fromkeys(("original", "effective"), number)},
        "config": {"model": "replay"},  # nothing was prompted
        "model_source": "log",
        "model_name": next(iter(models)) if len(models) == 1 else f"{len(models)} models",
    }


def _publish(results: Mapping[str, Any], folder: Path, partial: Path, output: Path | None = None) -> Path:
    """Move the samples of a partial folder, and the spans to an output, to their place, and the results behind them."""
    date = datetime.now().isoformat().replace(":", "-")
    samples, path = folder / f"samples_{LOGGED}_{date}.jsonl", folder / f"results_{date}.json"
    text = json.dumps(provenance.strict_json(results), indent=2, ensure_ascii=False)
    (partial / "results").write_text(text, "utf-8")
    spans = {} if output is None else {partial / "spans": output}
    move_whole({partial / "samples": samples, **spans, partial / "results": path})
    return path
