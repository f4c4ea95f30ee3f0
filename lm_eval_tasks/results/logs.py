"""Logs of one's own: answers of any system, each with the text that it was given, read by a detector and written as a run.

The run is a folder with a results file and a samples file as the harness writes them, of the task :data:`LOGGED`. Its
shares are those of CLAPnq's answers (:mod:`lm_eval_tasks.clapnq.hallucination`).

Texts are read, tagged and written block by block. What stays in memory is a few hundred bytes an answer: its spans, with
which a killed run goes on where it stopped (:mod:`detector_plugin.span_store`), and counts of words.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import estimate
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.statistics.figures import Figure, FloatWithCounts
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.statistics.random_effects import Errors
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import without_surrogates
from detector_plugin import processes
from detector_plugin.detector import DEFAULT_DETECTOR, RAG, describe
from detector_plugin.filters import as_text, given_options, shared_detector
from detector_plugin.loading import AutomaticDetector
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.atomic import locked_folder, move_whole
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import DEFINED_SHARE, Benchmark, Metric
from lm_eval_tasks.detection import calibrated, marked
from lm_eval_tasks.detection.language_tags import code_of, guess
from lm_eval_tasks.harness.detector_task import FILTER
from lm_eval_tasks.results.tagged_tasks import LOGGED
from lm_eval_tasks.runs.results_file import provenance_of, read_results

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LONGEST_LINE = 4 << 20
"""Bytes of a line that is read; longer ones are left out."""
UNKNOWN = "und"
"""The language of an answer whose language is neither named nor to be guessed (BCP 47)."""

_BLOCK = 256  # answers that are tagged together
_NAME = "answer"  # of the filter
_STORES = ".spans_*.jsonl"

_SHARE, _CORRECTED = OF_A_DETECTOR
_FLAGGED = Metric(
    *("flagged_answers", DEFINED_SHARE, False, "answers that do not abstain and that the detector has read"),
    label="share of flagged answers",
    sentence="A detector flags something in {value} of its answers",
    counted="answers",
    is_raw=True,
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


_Job: TypeAlias = tuple[Path, Path, Mapping[str, str], str, str | None]
"""The log; the folder of its run; the detector's settings, and its options with their secrets; the language of lines that
name none."""
_Line: TypeAlias = tuple[int, dict[str, Any], str]  # number, document, answer
_Tagged: TypeAlias = tuple[int, dict[str, Any], dict[str, Any]]  # the same, of the filter hallucination_spans


def detect_log(
    source: Path,
    output: Path,
    detector: str = DEFAULT_DETECTOR,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    language: str | None = None,
    workers: int = 1,
) -> Path:
    """Tag the answers of a log (JSON lines, see :func:`read_line`), and return the results file of the run.

    `output` gets the spans and shares of each answer; the run is the folder of this name without its suffix. A
    `calibration` of RAG answers corrects the rate of a log in one language. `language` is the ISO 639 code of lines that
    name none; without it, theirs is guessed. `workers` processes share the tagging. UsageError where no line can be used.
    """
    folder = output.with_suffix("")
    if folder == output or workers < 1 or (output.exists() and output.samefile(source)):
        raise UsageError(
            "detect: name an output such as out.jsonl (out/ becomes the run), not the log itself, and 1 worker or more"
        )
    source.open("rb").close()  # before anything is made
    named = calibration or calibrated.NO_CALIBRATION
    settings = calibrated.settings_of("detect", detector, detector_args, named, RAG, language=language, kinds=(RAG,))
    automatic = shared_detector(settings["detector"], settings["detector_args"])
    if isinstance(automatic, AutomaticDetector):  # what it lacks is said before any work
        lines = (line for block in _blocks(source, language, defaultdict(list)) for line in block)
        automatic.prepare(doc["language"] for _, doc, _ in lines)
    job = source, folder, settings, given_options(settings["detector_args"]), language
    left_out: dict[str, list[int]] = defaultdict(list)
    folder.mkdir(parents=True, exist_ok=True)
    with locked_folder(folder) as partial:
        if workers > 1:
            processes.in_workers(functools.partial(tag_part, job), workers, f"detector {detector}")
        origin = {"read_from": "log", "local_files": [provenance.local_file("input", source)]}
        results = _write_rows(_rows(_tagged(job, left_out)), partial, origin, source.stem)
        reasons = "; ".join(
            f"{reason}: {len(numbers)} (line {', '.join(map(str, numbers[:3]))}{', ...' * (len(numbers) > 3)})"
            for reason, numbers in left_out.items()
        )
        if not results:
            raise UsageError(f"{source}: no line can be used: {reasons or 'there is none'}")
        record = results["configs"][LOGGED]["metadata"]["provenance"]
        record["left_out"] = {reason: len(numbers) for reason, numbers in left_out.items()}
        log.log(
            logging.WARNING if reasons else logging.INFO,
            "%s: %d answers (%s; the language of %d is guessed); left out: %s",
            *(source, record["kept"]["answers"], record["options"]["languages"], record["kept"]["guessed"]),
            reasons or "no line",
        )
        written = _publish(results, folder, partial, {partial / "spans": output})
        for store in folder.glob(_STORES):
            store.unlink()
    return written


# ------------------------------------------------------------------------------------------------------ lines


def read_line(line: bytes, language: str | None = None) -> tuple[dict[str, Any], str]:
    """The document of a line, and the answer; ValueError says why it cannot be used, in words that hold for others, too.

    A line is an object with ``answer``; ``reference`` or ``passages`` (texts, or objects with ``text`` and ``title``); and
    perhaps ``question``, ``language`` (BCP 47; default `language`), ``id`` and ``model``.
    """

    def text_in(fields: Mapping[str, Any], name: str) -> str:
        if not isinstance(value := fields.get(name), str | None):
            raise ValueError(f"{name} is not text")
        return without_surrogates(value or "")

    if len(line) > LONGEST_LINE:
        raise ValueError(f"longer than {LONGEST_LINE >> 20} MB")
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    answer, question, reference = (text_in(row, name) for name in ("answer", "question", "reference"))
    given: Any = row.get("passages")
    passages = [
        each if isinstance(each, dict) else {"text": each} for each in (given if isinstance(given, list) else [given])
    ]
    reference = reference or as_text([{name: text_in(each, name) for name in ("title", "text")} for each in passages])
    if not answer.strip() or not reference.strip():
        raise ValueError("no passages and no reference" if answer.strip() else "no answer")
    try:
        code = code_of(tag) if (tag := text_in(row, "language").strip()) else language
    except UsageError:
        raise ValueError("language is not a BCP 47 tag") from None
    doc = {
        "language": code or guess(answer, reference).code or UNKNOWN,
        "guessed": code is None,
        "article": hashlib.sha256((question.strip() or reference).encode()).hexdigest()[:16],
        "query": question,
        "reference": reference,
        "model": text_in(row, "model"),
    }
    name = without_surrogates(row["id"]) if isinstance(row.get("id"), str) else row.get("id")
    return doc | ({"query_id": name} if type(name) in (str, int) else {}), answer


def _blocks(source: Path, language: str | None, left_out: dict[str, list[int]]) -> Iterator[list[_Line]]:
    """The lines of a log, in blocks. The numbers of those that cannot be used are added to `left_out`, by reason; blank
    lines are passed over."""
    from tqdm import tqdm

    block, number, is_quiet = list[_Line](), 0, processes.here().rank > 0
    bar = tqdm(total=source.stat().st_size, unit="B", unit_scale=True, desc=source.name, disable=is_quiet)
    with source.open("rb") as stream, bar:
        while line := stream.readline(LONGEST_LINE + 1):
            number, piece = number + 1, line
            while len(piece) > LONGEST_LINE and not piece.endswith(b"\n"):
                piece = stream.readline(LONGEST_LINE + 1)
            try:
                block += [(number, *read_line(line, language))] if line.strip() else []
            except ValueError as error:
                left_out[str(error)].append(number)
            if len(block) == _BLOCK:
                yield block
                block = []
                bar.update(stream.tell() - bar.n)
        yield block
        bar.update(stream.tell() - bar.n)


# ------------------------------------------------------------------------------------------------------ tagging


def tag_part(job: _Job, number: int, size: int) -> None:
    """Tag the part of one of `size` processes, and store its spans in the folder."""
    for _ in _tagged(job, defaultdict(list), number, size):
        pass


def _tagged(job: _Job, left_out: dict[str, list[int]], number: int = 0, size: int = 1) -> Iterator[_Tagged]:
    """Each line of a log with its tagged answer; the answers of other processes are without spans."""
    source, folder, settings, options, language = job
    detector = shared_detector(settings["detector"], options)
    store, stores = folder / _STORES.replace("*", str(number)), [*folder.glob(_STORES)]
    stored = StoredDetector(detector, store, json.loads(options), stores, (number, size), quiet=True)
    if stored.spans_by_key and not number:
        log.info("%d answers are tagged already (%s)", len(stored.spans_by_key), folder)
    for block in _blocks(source, language, left_out):
        docs, answers = [doc for _, doc, _ in block], [answer for _, _, answer in block]
        references, codes, questions = ([doc[name] for doc in docs] for name in ("reference", "language", "query"))
        tags = stored.detect(references, answers, [None if code == UNKNOWN else code for code in codes], questions)
        for (line, doc, answer), spans in zip(block, tags, strict=True):
            chosen = detector.of(doc["language"]) if isinstance(detector, AutomaticDetector) else stored
            tagged = {"answer": answer, "spans": spans, "detector": describe(chosen)}
            yield line, {"id": f"line {line}", **doc, **settings}, tagged


def _rows(lines: Iterable[_Tagged]) -> Iterator[dict[str, Any]]:
    """The rows of a samples file, with values of the metrics."""
    for number, doc, tagged in lines:
        answer, spans = tagged["answer"], tagged["spans"]
        abstains = is_abstention(answer, doc["language"])
        share, counts = (None, None) if abstains else calibrated.TaggedAnswer.from_document(doc, tagged).values()
        values: dict[str, Any] = {_CORRECTED.name: counts, _SHARE.name: share}
        values[_FLAGGED.name] = None if share is None else float(bool(spans))
        values["abstention_rate"] = float(abstains)
        values["expected_share"] = None if share is None else marked.expected_share(answer, spans, doc["language"])
        filtered = [json.dumps(tagged, ensure_ascii=False)]
        row = {"doc_id": number, "doc": doc, "target": "", "resps": [[answer]], "filtered_resps": filtered}
        yield {**row, "filter": _NAME, "metrics": [*values], **values}


# ------------------------------------------------------------------------------------------------------ the run


def rate_by_marks(samples: Path, marks: marked.MarksOfTask, folder: Path, partial: Path) -> Path:
    """Write a run anew, with ``marked_rate`` by the marks, to `folder`, and return its results file. What the detector has
    found is read from the run's `samples`; what is not yet complete is in `partial`, a folder on the same disk."""
    earlier = read_results(samples.with_name(samples.name.replace(f"samples_{LOGGED}", "results").removesuffix("l")))
    record = provenance_of(earlier["configs"][LOGGED])
    return _publish(_write_rows(read_samples(samples), partial, record, earlier["model_name"], marks), folder, partial)


def _write_rows(
    rows: Iterable[dict[str, Any]],
    partial: Path,
    record: Mapping[str, Any],
    name: str,
    marks: marked.MarksOfTask | None = None,
) -> dict[str, Any]:
    """Write the rows to the files ``samples`` and ``spans`` of a folder, and return the content of their results file.
    `record` is the beginning of the provenance, `name` that of the model where no line names one."""
    counts, clusters, values = array("d"), array("Q"), list[Any]()
    answered: dict[str, list[float | None]] = {_FLAGGED.name: [], "abstention_rate": []}
    detectors: dict[str, dict[str, str]] = {}  # by language
    seen: dict[str, Counter[str]] = {"languages": Counter(), "models": Counter(), "kept": Counter()}
    with (
        (partial / "samples").open("w", encoding="utf-8") as samples,
        (partial / "spans").open("w", encoding="utf-8") as spans,
    ):
        for row in rows:
            doc, tagged, of_words = row["doc"], json.loads(row["filtered_resps"][0]), row[_CORRECTED.name]
            if marks is not None:
                values.append(marked.value_of(doc, tagged, marks, counts=not row["abstention_rate"]))
                row |= {"metrics": [*dict.fromkeys((marked.METRIC, *row["metrics"]))], marked.METRIC: values[-1]}
            samples.write(json.dumps(row, ensure_ascii=False) + "\n")
            entry = {"line": row["doc_id"], "id": doc.get("query_id"), "language": doc["language"]}
            shares = {"flagged_share": row[_SHARE.name], "expected_share": row["expected_share"]}
            spans.write(json.dumps({**entry, **shares, "spans": tagged["spans"]}, ensure_ascii=False) + "\n")
            seen["languages"][doc["language"]] += 1
            detectors[doc["language"]] = tagged["detector"]
            seen["models"][doc["model"] or name] += 1
            seen["kept"].update(answers=1, guessed=doc["guessed"], untagged=tagged["spans"] is None)
            words = of_words["words"] if of_words else 0
            counts.extend((of_words["flagged"], words, words * row["expected_share"]) if words else (0, 0, 0))
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
        log.warning(
            "no corrected rate: %s does not fit the log's languages (%s)", key.calibration, ", ".join(languages)
        )
    used = tagged["detector"]
    if any(detector != used for detector in detectors.values()):
        names = {language: detector["name"] for language, detector in detectors.items()}
        log.warning("the shares are of several detectors, and differ by language for that reason, too: %s", names)
        used = {"name": doc["detector"], "version": "", "licence": "", "by_language": detectors}
    shares = {name: defined_share.figure_of(of_answers) for name, of_answers in answered.items()}
    every = {marked.METRIC: marked.marked_rate.figure_of(values), **_figures(counts, clusters, shares, errors)}
    figures = {name: figure for name, figure in every.items() if not math.isnan(figure.value)}
    listed = [metric for name, metric in _TABLE.metrics.items() if name in figures]
    record = {
        **record,
        "versions": provenance.versions(),
        "options": {"languages": dict(languages), "language": "" if len(languages) > 1 else next(iter(languages))},
        "kept": dict(seen["kept"]),
        "detector": {**used, "options": json.loads(doc["detector_args"])},
        "calibration": calibrated.describe_calibration(doc),
        "not_comparable": [],
    }
    if marks is not None:
        record["marks"] = marked.description_of(values, marks)
        marked.log_basis(LOGGED, values, record["marks"])
    denominators = {name: metric.denominator for name, metric in _TABLE.metrics.items()}
    by_name = {name: figure.as_json(denominators.get(name, _SHARE.denominator)) for name, figure in figures.items()}
    by_name |= {name: figure.as_json(denominator) for name, figure, denominator in marked.finer_figures(values)}
    metadata = {"version": _TABLE.version, "provenance": record, "figures": {_NAME: by_name}}
    metadata["benchmark"] = {"name": "logs", **_TABLE.as_json()}
    table, listing = dict[str, Any](alias=LOGGED), []
    for metric in listed:
        name, figure = metric.name, figures[metric.name]
        error = "N/A" if math.isnan(figure.standard_error) else figure.standard_error
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
    return {name: figure._replace(n=shares[_FLAGGED.name].n) for name, figure in of_words.items()} | shares


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
