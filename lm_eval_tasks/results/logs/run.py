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
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import estimate
from custom_metrics.reading.spans import Span, probabilities, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.unsupported import (
    CURVES,
    SENTENCE_CURVES,
    Curves,
    evidence_of_parts,
    is_unsupported,
    unsupported_probability,
)
from custom_metrics.statistics.figures import Figure, FloatWithCounts, is_measurable
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.statistics.random_effects import Errors
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import DEFAULT_DETECTOR, RAG, Detector, describe
from detector_plugin.filters import given_options, shared_detector
from detector_plugin.sentences import sentence_bounds
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.atomic import locked_folder, move_whole
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import DEFINED_SHARE, Benchmark, Metric
from lm_eval_tasks.detection import calibrated, marked
from lm_eval_tasks.harness.detector_task import FILTER
from lm_eval_tasks.results import LOGGED
from lm_eval_tasks.results.logs.answers import UNKNOWN, LeftOut, Log, open_log, reasons_of
from lm_eval_tasks.runs.results_file import provenance_of, read_results

_LOG = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_BLOCK = 256  # answers that are tagged together
_NAME = "answer"  # of the filter
_STORE = ".spans_0.jsonl"

_SHARE, _CORRECTED = OF_A_DETECTOR
FLAGGED_ANSWERS = "flagged_answers"
"""The metric that counts answers, not words."""
EVIDENCE = "unsupported_evidence"
"""What a row of the samples has beside its metrics: :func:`custom_metrics.scores.unsupported.evidence`."""
COUNTS = OF_A_DETECTOR[1].name
"""The metric whose values are a mapping with ``flagged`` and ``words``."""
_FLAGGED = Metric(
    *(FLAGGED_ANSWERS, DEFINED_SHARE, False, "answers that do not abstain and that the detector has read"),
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
        replace(_CORRECTED, fallback_for=marked.METRIC, headline=True),
        replace(_SHARE, fallback_for=_CORRECTED.name),
        _FLAGGED,
        metric_of("abstention_rate"),
    ),
)


_Job: TypeAlias = tuple[Sequence[Log], Path, Mapping[str, str], str, str | None]
"""The logs; the folder of its run; the detector's settings, and its options with their secrets; the language of
answers that name none."""
_Line: TypeAlias = tuple[int, dict[str, Any], str]  # number, document, answer
_Tagged: TypeAlias = tuple[int, dict[str, Any], dict[str, Any]]  # the same, of the filter hallucination_spans
_Sentence: TypeAlias = tuple[int, int, float]  # start, end, evidence
_Row: TypeAlias = tuple[dict[str, Any], dict[str, Any], Sequence[_Sentence]]  # of a samples file; tagged answer


def detect_log(
    source: Path | Sequence[Log],
    output: Path,
    detector: str = DEFAULT_DETECTOR,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    language: str | None = None,
    tell: Callable[[str], None] = _LOG.info,
) -> Path:
    """Tag the answers of logs (:func:`lm_eval_tasks.results.logs.answers.open_log`; or of a file, whose fields are then
    chosen), and return the results file of the run.

    `output` gets the spans and shares of each answer; the run is the folder of this name without its suffix. A
    `calibration` of RAG answers corrects the rate of a log in one language. `language` is the ISO 639 code of answers that
    name none; without it, theirs is guessed. `tell` is given the fields of each log before its first answer is tagged.
    UsageError where no record can be used: then nothing is written.
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
            spans = partial / "spans"
            results = _write_rows(
                rows_of(_tagged(job, left_out)), partial, {"read_from": "log"}, logs[0].file.path.stem, spans
            )
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
            written = _publish(results, folder, partial, {spans: output})
            (folder / _STORE).unlink(missing_ok=True)
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
    return written


def _blocks(logs: Sequence[Log], language: str | None, left_out: LeftOut) -> Iterator[list[_Line]]:
    """The answers of logs, in blocks, with a bar of their bytes. Numbers are those of lines where each is larger than the
    one before. The places of records that cannot be used are added to `left_out`."""
    from tqdm import tqdm

    block, last = list[_Line](), 0
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


# ------------------------------------------------------------------------------------------------------ tagging


def _tagged(job: _Job, left_out: LeftOut) -> Iterator[_Tagged]:
    """Each line of a log with its tagged answer."""
    logs, folder, settings, options, language = job
    detector = shared_detector(settings["detector"], options)
    stored = StoredDetector(detector, folder / _STORE, json.loads(options), quiet=True)
    if stored.spans_by_key:
        _LOG.info("%d answers are tagged already (%s)", len(stored.spans_by_key), folder)
    for block in _blocks(logs, language, left_out):
        yield from tagged_block(stored, block, settings)


def tagged_block(detector: Detector, block: Sequence[_Line], settings: Mapping[str, str]) -> Iterator[_Tagged]:
    """The answers of a block with what a detector finds in them; nothing supports an answer without passages."""
    given = [(doc, answer) for _, doc, answer in block if doc["reference"]]
    codes = [None if doc["language"] == UNKNOWN else doc["language"] for doc, _ in given]
    references, questions = ([doc[name] for doc, _ in given] for name in ("reference", "query"))
    found = iter(detector.detect(references, [answer for _, answer in given], codes, questions))
    for line, doc, answer in block:
        spans = next(found) if doc["reference"] else [Span(0, len(answer))]
        yield line, {**doc, **settings}, {"answer": answer, "spans": spans, "detector": describe(detector)}


def rows_of(lines: Iterable[_Tagged]) -> Iterator[_Row]:
    """The rows of a samples file, with values of the metrics."""
    for number, doc, tagged in lines:
        answer, spans, language = tagged["answer"], tagged["spans"], doc["language"]
        abstains = is_abstention(answer, language)
        share, counts = (None, None) if abstains else calibrated.TaggedAnswer.from_document(doc, tagged).values()
        values: dict[str, Any] = {_CORRECTED.name: counts, _SHARE.name: share}
        places, bounds = words(answer, language), sentence_bounds(answer, language)
        of_words = probabilities(places, [span_of(span) for span in spans or ()])
        of_sentences = evidence_of_parts(places, of_words, bounds)
        against = round(math.hypot(*of_sentences), 4)
        values[FLAGGED_ANSWERS] = None if share is None else float(is_unsupported(against, tagged["detector"]))
        values["abstention_rate"] = float(abstains)
        values["expected_share"] = None if share is None else sum(of_words) / len(places)
        filtered = [json.dumps(tagged, ensure_ascii=False)]
        row = {"doc_id": number, "doc": doc, "target": "", "resps": [[answer]], "filtered_resps": filtered}
        row[EVIDENCE] = against
        sentences = [(start, end, found) for (start, end), found in zip(bounds, of_sentences, strict=True)]
        yield {**row, "filter": _NAME, "metrics": [*values], **values}, tagged, sentences


def _entry(row: Mapping[str, Any], tagged: Mapping[str, Any], sentences: Sequence[_Sentence]) -> dict[str, Any]:
    """The line of an answer in the output: what was found, with probabilities where the detector has curves."""
    doc, spans, answer, detector = row["doc"], tagged["spans"], tagged["answer"], tagged["detector"]
    has_curve = spans is not None and (detector["name"], detector["version"]) in CURVES.keys() & SENTENCE_CURVES.keys()

    def probability(against: float, curves: Curves) -> float | None:
        return round(unsupported_probability(against, detector, curves), 4) if has_curve else None

    return {
        **{"line": row["doc_id"], "place": doc["id"], "id": doc.get("query_id"), "language": doc["language"]},
        **{"flagged_share": row[_SHARE.name], "expected_share": row["expected_share"]},
        "unsupported_probability": probability(row[EVIDENCE], CURVES),
        "spans": spans,
        "texts": None if spans is None else [answer[start:end] for start, end, *_ in spans],
        "sentences": [(start, end, probability(against, SENTENCE_CURVES)) for start, end, against in sentences],
    }


# ------------------------------------------------------------------------------------------------------ the run


def samples_of(results: Path) -> Path:
    """The samples file beside a results file that :func:`detect_log` returned."""
    return results.with_name(results.name.replace("results", f"samples_{LOGGED}", 1) + "l")


def rate_by_marks(samples: Path, marks: marked.MarksOfTask, folder: Path, partial: Path) -> Path:
    """Write a run anew, with ``marked_rate`` by the marks, to `folder`, and return its results file. What the detector has
    found is read from the run's `samples`; what is not yet complete is in `partial`, a folder on the same disk."""
    earlier = read_results(samples.with_name(samples.name.replace(f"samples_{LOGGED}", "results").removesuffix("l")))
    record = provenance_of(earlier["configs"][LOGGED])
    name, spans = earlier["model_name"], partial / "spans"
    rows = ((row, json.loads(row["filtered_resps"][0]), ()) for row in read_samples(samples))
    return _publish(_write_rows(rows, partial, record, name, spans, marks), folder, partial)


def _write_rows(
    rows: Iterable[_Row],
    partial: Path,
    record: Mapping[str, Any],
    name: str,
    spans_file: Path,
    marks: marked.MarksOfTask | None = None,
) -> dict[str, Any]:
    """Write the rows to the file ``samples`` of a folder, and their spans to another file, line by line; return the content
    of their results file, empty where there are no rows. `record` is the beginning of the provenance, `name` that of the
    model where no line names one."""
    counts, clusters, values = array("d"), array("Q"), list[Any]()
    answered: dict[str, list[float | None]] = {FLAGGED_ANSWERS: [], "abstention_rate": []}
    seen: dict[str, Counter[str]] = {"languages": Counter(), "models": Counter(), "kept": Counter()}
    with (
        (partial / "samples").open("w", encoding="utf-8") as samples,
        spans_file.open("w", encoding="utf-8") as spans,
    ):
        for row, tagged, sentences in rows:
            doc, of_words = row["doc"], row[_CORRECTED.name]
            if marks is not None:
                values.append(marked.value_of(doc, tagged, marks, counts=not row["abstention_rate"]))
                row |= {"metrics": [*dict.fromkeys((marked.METRIC, *row["metrics"]))], marked.METRIC: values[-1]}
            samples.write(json.dumps(row, ensure_ascii=False) + "\n")
            spans.write(json.dumps(_entry(row, tagged, sentences), ensure_ascii=False) + "\n")
            seen["languages"][doc["language"]] += 1
            seen["models"][doc["model"] or name] += 1
            seen["kept"].update(
                answers=1, guessed=doc["guessed"], untagged=tagged["spans"] is None, no_passages=not doc["reference"]
            )
            number = of_words["words"] if of_words else 0
            counts.extend((of_words["flagged"], number, number * row["expected_share"]) if number else (0, 0, 0))
            for metric_name, share in answered.items():
                share.append(
                    None if row[metric_name] is None else FloatWithCounts(row[metric_name], None, doc["article"])
                )
            clusters.append(int(doc["article"], 16))
    if not counts:
        return {}
    languages = seen["languages"]
    key = calibrated.CalibrationKey.from_document(doc, tagged["detector"])
    errors = calibrated.errors_of(calibrated.in_force(key, LOGGED)) if len(languages) == 1 else None
    if errors is None and doc["calibration"] != calibrated.NO_CALIBRATION:
        _LOG.warning(
            "no corrected rate: %s does not fit the log's languages (%s)", key.calibration, ", ".join(languages)
        )
    shares = {name: defined_share.figure_of(of_answers) for name, of_answers in answered.items()}
    every = {marked.METRIC: marked.marked_rate.figure_of(values), **_figures(counts, clusters, shares, errors)}
    figures = {name: figure for name, figure in every.items() if not math.isnan(figure.value)}
    listed = [metric for name, metric in _TABLE.metrics.items() if name in figures]
    record = {
        **record,
        "versions": provenance.versions(),
        "options": {"languages": dict(languages), "language": "" if len(languages) > 1 else next(iter(languages))},
        "kept": dict(seen["kept"]),
        "detector": {**tagged["detector"], "options": json.loads(doc["detector_args"])},
        "calibration": calibrated.describe_calibration(doc),
        "not_comparable": [],
    }
    if marks is not None:
        record["marks"] = marked.description_of(values, marks)
        marked.log_basis(LOGGED, values, record["marks"])
    denominators = {name: metric.denominator for name, metric in _TABLE.metrics.items()}
    wide = {_CORRECTED.name} - {name for name, figure in figures.items() if is_measurable(figure, "share")}
    by_name = {
        name: figure.as_json(denominators.get(name, _SHARE.denominator), name not in wide)
        for name, figure in figures.items()
    }
    by_name |= {name: figure.as_json(denominator) for name, figure, denominator in marked.finer_figures(values)}
    metadata = {"version": _TABLE.version, "provenance": record, "figures": {_NAME: by_name}}
    metadata["benchmark"] = {"name": "logs", **_TABLE.as_json()}
    table, listing = dict[str, Any](alias=LOGGED), []
    for metric in listed:
        name, figure = metric.name, figures[metric.name]
        error = "N/A" if math.isnan(figure.standard_error) else figure.standard_error
        if name not in wide:
            table |= {f"{name},{_NAME}": figure.value, f"{name}_stderr,{_NAME}": error}
        listing.append(metric.entry(metric.aggregation))
    filters = [{"name": _NAME, "filter": [{"function": FILTER}]}]
    return {
        "results": {LOGGED: table},
        "configs": {LOGGED: {"task": LOGGED, "metric_list": listing, "filter_list": filters, "metadata": metadata}},
        "versions": {LOGGED: _TABLE.version},
        "n-shot": {LOGGED: 0},
        "higher_is_better": {LOGGED: {metric.name: metric.higher_is_better for metric in listed}},
        "n-samples": {LOGGED: dict.fromkeys(("original", "effective"), len(clusters))},
        "config": {"model": "replay"},  # nothing was prompted
        "model_source": "log",
        "model_name": next(iter(seen["models"])) if len(seen["models"]) == 1 else f"{len(seen['models'])} models",
    }


def _figures(
    counts: array[float], clusters: array[int], shares: dict[str, Figure], errors: Errors | None
) -> dict[str, Figure]:
    """Name to figure, from three counts of each answer: words flagged, words, words expected to be wrong; and the shares of
    answers. Bounds of shares of words are of a bootstrap over questions."""
    import numpy as np

    summed = sums_by_cluster(np.frombuffer(counts).reshape(-1, 3), clusters)
    rates, expected = estimate(summed[:, :2], errors), estimate(summed[:, [2, 1]]).detected
    of_words = {_CORRECTED.name: rates.rogan_gladen, _SHARE.name: rates.detected, "expected_share": expected}
    return {name: figure._replace(n=shares[FLAGGED_ANSWERS].n) for name, figure in of_words.items()} | shares


def _publish(
    results: Mapping[str, Any], folder: Path, partial: Path, others: Mapping[Path, Path] | None = None
) -> Path:
    """Move the samples of a partial folder, and other files, to their place, and the results of this moment behind them."""
    date = datetime.now().isoformat().replace(":", "-")
    samples, path = folder / f"samples_{LOGGED}_{date}.jsonl", folder / f"results_{date}.json"
    text = json.dumps(provenance.strict_json(results), indent=2, ensure_ascii=False)
    (partial / "results").write_text(text, "utf-8")
    move_whole({partial / "samples": samples, **(others or {}), partial / "results": path})
    return path
