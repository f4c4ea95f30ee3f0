"""Logs of one's own: answers of any system, each with the text that it was given, read by a detector and written as a run.

:func:`detect_log` reads JSON lines and writes two things. One is a line for each answer, without its texts. The other is a
folder with a results file and a samples file as the harness writes them, of the task :data:`LOGGED`: ``mark``, ``score
--marks``, ``compare``, ``report`` and ``leaderboard`` read it. The shares are those of CLAPnq's answers
(:mod:`lm_eval_tasks.clapnq.hallucination`).

Lines are read, tagged and written one after the other; of each answer some sixty bytes stay in memory. Processes share blocks
of lines. Each appends what it has done to files of its own, which are merged at the end; until then they are where a killed
run goes on.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import json
import logging
import re
import shutil
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.abstention import is_abstention
from custom_metrics.statistics.figures import Figure
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import without_surrogates
from detector_plugin import processes
from detector_plugin.detector import DEFAULT_DETECTOR, Detector, describe
from detector_plugin.filters import as_text, shared_detector
from lm_eval_tasks.clapnq.benchmark import OF_A_DETECTOR
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.atomic import check_writable, move_whole
from lm_eval_tasks.data.digests import sha256_of
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.definition.schema import DEFINED_SHARE, Benchmark, Metric
from lm_eval_tasks.detection import marked
from lm_eval_tasks.detection.calibrated import (
    NO_CALIBRATION,
    CalibrationKey,
    TaggedAnswer,
    describe_calibration,
    errors_of,
    in_force,
    settings_of,
)
from lm_eval_tasks.harness.detector_task import FILTER, LOGGED
from lm_eval_tasks.runs.results_file import read_results

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

LONGEST_LINE = 4 << 20
"""Bytes of a line that is read; longer ones are left out."""
UNKNOWN = "und"
"""The language of an answer whose language is neither named nor to be guessed, as BCP 47 has it."""

_BLOCK = 256  # lines that a process reads at a time: the most that a kill can cost it
_SHOWN = 3  # numbers of lines that are named, of those left out for one reason
_NAME = "answer"  # of the filter
_DOC_ID = re.compile(rb'\{"doc_id": (\d+)')

_SHARE, _CORRECTED = OF_A_DETECTOR
_TABLE = Benchmark(
    version=1.0,
    tasks=(),
    title="Logged answers",
    questions={LOGGED: "How much of what it answers does not stand in the text that it was given?"},
    more_metrics=(
        marked.MARKED_RATE,
        replace(_CORRECTED, fallback_for=marked.METRIC, headline=True),
        replace(_SHARE, fallback_for=_CORRECTED.name),
        Metric(
            "flagged_answers",
            DEFINED_SHARE,
            False,
            _SHARE.denominator.replace("; counted in words", ""),
            "share of answers with a flagged span",
            counted="answers",
            is_raw=True,
        ),
        Metric("abstention_rate", DEFINED_SHARE, None, "all answers", "share that abstains", counted="answers"),
    ),
)


class Job(NamedTuple):
    """A log to read: its file, the folder of the files that processes append to, the language of lines that name none
    (``None``: guessed), and the settings of :func:`lm_eval_tasks.detection.calibrated.settings_of`."""

    source: Path
    parts: Path
    language: str | None
    settings: Mapping[str, str]

    def identity(self, detector: Detector) -> dict[str, Any]:
        """What must be equal for a killed run to go on."""
        options = json.loads(self.settings["detector_args"])
        without: frozenset[str] = getattr(detector, "WITHOUT_EFFECT", frozenset())
        named = {name: value for name, value in options.items() if name not in without}
        content = {"input": sha256_of(self.source), "language": self.language, **self.settings, "detector_args": named}
        return {**content, **describe(detector), "version of this package": provenance.versions()[provenance.PACKAGE]}


def detect_log(
    source: Path,
    output: Path,
    detector: str = DEFAULT_DETECTOR,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    language: str | None = None,
    workers: int = 1,
) -> Path | None:
    """Tag the answers of a log.

    Args:
        source: JSON lines, objects with ``answer``; ``reference`` (a text) or ``passages`` (texts, or objects with ``text``
            and perhaps ``title``); and perhaps ``question``, ``language`` (BCP 47), ``id`` and ``model``.
        output: file of a line for each answer; the run is the folder of this name without its suffix.
        detector, detector_args: as for :func:`lm_eval_tasks.detection.calibrated.settings_of`.
        calibration: named by the user; without one no rate is corrected.
        language: ISO 639 code for lines that name none; without it, theirs is guessed.
        workers: processes that share the lines; or those of a launch do.

    Returns:
        The results file; ``None`` in the processes of a launch but the first.

    Raises:
        UsageError: no line can be used, or an unfinished run of other input or settings is in the way.
    """
    from filelock import FileLock, Timeout

    launch, folder = processes.here(), output.with_suffix("")
    if folder == output:
        raise UsageError(f"-o {output}: name a file, such as {output}.jsonl; {output}/ becomes the folder of the run")
    if workers < 1 or (workers > 1 and launch.number > 1):
        raise UsageError("detect: name --workers of 1 or more, or start processes with a launcher, not both")
    check_writable(folder)
    settings = settings_of("detect", detector, detector_args, calibration or NO_CALIBRATION)
    job = Job(source, output.with_name(f".{output.name}.parts"), language, settings)
    if launch.rank:
        processes.barrier()  # until the first process has the folder to itself
        detect_part(job, launch.rank, launch.number)
        processes.barrier()
        return None
    try:
        with FileLock(f"{job.parts}.lock", timeout=0):
            job.parts.mkdir(parents=True, exist_ok=True)
            processes.barrier()
            if workers > 1:
                processes.in_workers(functools.partial(detect_part, job), workers, f"detector {detector}")
            else:
                detect_part(job, launch.rank, launch.number)
            processes.barrier()
            written = _finish(job, output)
            shutil.rmtree(job.parts)
    except Timeout as error:
        raise OSError(f"another `lm-eval-grounded detect` writes {output}; wait for it, or stop it") from error
    Path(f"{job.parts}.lock").unlink(missing_ok=True)
    return written


# ------------------------------------------------------------------------------------------------------ reading lines


def _lines(source: Path) -> Iterator[tuple[int, bytes, int]]:
    """Number of each line that is not blank, its content (of a longer one :data:`LONGEST_LINE` and one more byte), and the
    place behind it."""
    with source.open("rb") as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number, piece = number + 1, line
            while len(piece) > LONGEST_LINE and not piece.endswith(b"\n"):
                piece = stream.readline(LONGEST_LINE + 1)
            if line.strip():
                yield number, line, stream.tell()


def read_line(line: bytes, language: str | None = None) -> tuple[dict[str, Any], str]:
    """The columns of the document of a line, without ``id``, and the answer. `language` is that of lines that name none.

    Raises:
        ValueError: the line cannot be used; the message says why, in words that hold for other lines, too.
    """
    from lm_eval_tasks.detection.language_tags import guess

    if len(line) > LONGEST_LINE:
        raise ValueError(f"longer than {LONGEST_LINE >> 20} MB")
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(row, dict):
        raise ValueError("no JSON object")
    texts = {}
    for name in ("answer", "question", "reference", "language", "model"):
        if not isinstance(value := row.get(name), str | None):
            raise ValueError(f"{name} is no text")
        texts[name] = without_surrogates(value or "")
    reference, named = texts["reference"] or _passages(row.get("passages")), texts["language"].strip()
    if not texts["answer"].strip():
        raise ValueError("no answer")
    if not reference.strip():
        raise ValueError("no passages and no reference")
    code = _code(named) if named else language
    guessed = code is None
    if code is None:
        code = guess(texts["answer"], reference).code or UNKNOWN
    together = hashlib.sha256((texts["question"].strip() or reference).encode()).hexdigest()[:16]
    doc = {"language": code, "guessed": guessed, "article": together, "query": texts["question"], "reference": reference}
    doc |= {"model": texts["model"]} if texts["model"] else {}
    return doc | ({"query_id": row["id"]} if type(row.get("id")) in (str, int) else {}), texts["answer"]


def _passages(value: Any) -> str:
    passages = value if isinstance(value, list) else [value]
    for passage in passages:
        texts = [passage.get("title"), passage.get("text")] if isinstance(passage, Mapping) else [passage]
        if not all(isinstance(text, str | None) for text in texts):
            raise ValueError("passages are neither texts nor objects with text and title")
    return without_surrogates(as_text([passage for passage in passages if passage]))


@functools.lru_cache(maxsize=1024)
def _code(tag: str) -> str:
    from lm_eval_tasks.detection.language_tags import code_of

    try:
        return code_of(tag)
    except UsageError:
        raise ValueError("language is no BCP 47 tag") from None


# ------------------------------------------------------------------------------------------------------ tagging


def detect_part(job: Job, number: int, size: int) -> None:
    """Tag the part of one of `size` processes, and append it to a file of its own."""
    from tqdm import tqdm

    detector = shared_detector(job.settings["detector"], job.settings["detector_args"])
    identity = job.identity(detector)
    done = {line for path in _parts(job, identity) for line, _ in _rows(path) if line // _BLOCK % size == number}
    if done:
        log.info("%d lines were read by an earlier run (%s)", len(done), job.parts)
    session = next(path for n in range(10**6) if not (path := job.parts / f"{number}-{n}.jsonl").exists())
    total = job.source.stat().st_size
    with (
        session.open("x", encoding="utf-8", newline="\n") as stream,
        tqdm(total=total, unit="B", unit_scale=True, desc=f"detector {detector.name}", disable=number > 0) as bar,
    ):
        stream.write(f"{json.dumps(identity)}\n")
        block: list[tuple[int, bytes]] = []
        for line_number, line, place in _lines(job.source):
            if block and line_number // _BLOCK != block[0][0] // _BLOCK:
                _append(job, detector, block, stream)
                block = []
                bar.update(place - bar.n)
            if line_number // _BLOCK % size == number and line_number not in done:
                block.append((line_number, line))
        _append(job, detector, block, stream)
        bar.update(total - bar.n)


def _append(job: Job, detector: Detector, block: Iterable[tuple[int, bytes]], stream: Any) -> None:
    """Tag a block of lines, and write them: answers as rows of a samples file, others with the reason why not."""
    rows: dict[int, dict[str, Any]] = {}
    answers: dict[int, tuple[dict[str, Any], str]] = {}
    for number, line in block:
        rows[number] = {"doc_id": number}
        try:
            doc, answer = read_line(line, job.language)
            answers[number] = {"id": f"line {number}", **doc, **job.settings}, answer
        except ValueError as error:
            rows[number]["left_out"] = str(error)
    if answers:
        docs, texts = zip(*answers.values(), strict=True)
        references, codes, questions = ([doc[name] for doc in docs] for name in ("reference", "language", "query"))
        languages = [None if code == UNKNOWN else code for code in codes]
        described = describe(detector)
        for number, spans in zip(answers, detector.detect(references, texts, languages, questions), strict=True):
            rows[number] |= _sample(*answers[number], {"spans": spans, "detector": described})
    stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values())
    stream.flush()


def _sample(doc: dict[str, Any], answer: str, tagged: dict[str, Any]) -> dict[str, Any]:
    """A row of the samples file, with the values of the metrics, and ``counts`` for their sums."""
    tagged, spans = {"answer": answer, **tagged}, tagged["spans"]
    abstains = is_abstention(answer, doc["language"])
    share, counts = (None, None) if abstains else TaggedAnswer.from_document(doc, tagged).values()
    values: dict[str, Any] = {_SHARE.name: share}
    if doc["calibration"] != NO_CALIBRATION:
        values[_CORRECTED.name] = counts
    values["flagged_answers"] = None if share is None else float(bool(spans))
    values["abstention_rate"] = float(abstains)
    values["expected_share"] = None if share is None else marked.expected_share(answer, spans, doc["language"])
    filtered = [json.dumps(tagged, ensure_ascii=False)]
    row = {"doc": doc, "target": "", "resps": [[answer]], "filtered_resps": filtered, "filter": _NAME}
    return {**row, "metrics": [*values], **values, "counts": counts}


def _parts(job: Job, identity: Mapping[str, Any] | None = None) -> list[Path]:
    """The files that processes have appended to. UsageError where one is of another input, detector or option than
    `identity` says."""
    paths = []
    for path in sorted(job.parts.glob("*.jsonl")):
        with path.open("rb") as stream:
            head = stream.readline()
        if head.endswith(b"\n"):  # else a kill cut it
            theirs = json.loads(head)
            if identity is not None and theirs != identity:
                differing = ", ".join(key for key in identity if theirs.get(key) != identity[key])
                raise UsageError(
                    f"{job.parts} holds a run that did not end, of another {differing}; remove that folder to begin anew, "
                    f"or name another output"
                )
            paths.append(path)
    return paths


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a part, with the numbers of the log's lines."""
    with path.open("rb") as stream:
        for line in stream:
            if (start := _DOC_ID.match(line)) and line.endswith(b"\n"):
                yield int(start[1]), line


# ------------------------------------------------------------------------------------------------------ results


def _finish(job: Job, output: Path) -> Path:
    """Merge the parts into the files of the log, and return its results file."""
    sums, clusters = array("d"), array("Q")
    left_out: dict[str, list[int]] = defaultdict(list)
    languages, models, tally, doc = Counter[str](), Counter[str](), Counter[str](), {}
    spans, samples = job.parts / "spans", job.parts / "samples"
    with spans.open("w", encoding="utf-8", newline="\n") as listing, samples.open("wb") as stream:
        for number, line in heapq.merge(*map(_rows, _parts(job)), key=lambda row: row[0]):
            row = json.loads(line)
            if reason := row.get("left_out"):
                left_out[reason].append(number)
                continue
            stream.write(line)
            doc, tagged, counts = row["doc"], json.loads(row["filtered_resps"][0]), row["counts"]
            languages[doc["language"]] += 1
            models[doc.get("model", "")] += 1
            untagged = tagged["spans"] is None
            tally.update(answers=1, guessed=doc["guessed"], untagged=untagged, abstaining=row["abstention_rate"] == 1)
            words = counts["words"] if counts else 0
            share = [counts["flagged"], row["expected_share"] * words, words] if counts else [0.0, 0.0, 0.0]
            sums.extend([*share, row["flagged_answers"] or 0.0, float(bool(counts)), row["abstention_rate"], 1.0])
            clusters.append(int(doc["article"], 16))
            entry = {"line": number, "id": doc.get("query_id"), "model": doc.get("model"), "language": doc["language"]}
            entry |= {"spans": tagged["spans"], "flagged_share": row[_SHARE.name], "abstains": bool(row["abstention_rate"])}
            listing.write(json.dumps({**entry, "expected_share": row["expected_share"]}, ensure_ascii=False) + "\n")
    if left_out:
        log.warning("%s: left out: %s", job.source, _reasons(left_out))
    if not sums:
        raise UsageError(f"{job.source}: no line can be used: {_reasons(left_out) or 'it is empty'}")
    described = tagged["detector"]
    model = next(iter(models)) if len(models) == 1 else f"{len(models)} models"
    record: dict[str, Any] = {
        "versions": provenance.versions(),
        "read_from": "log",
        "local_files": [provenance.local_file("input", job.source)],
        "options": {"language": next(iter(languages)) if len(languages) == 1 else "", "languages": dict(languages)},
        "kept": {name: tally[name] for name in ("answers", "guessed", "abstaining")},
        "left_out": {reason: len(numbers) for reason, numbers in left_out.items()},
        "detector": {**described, "options": json.loads(doc["detector_args"])},
        "calibration": describe_calibration(doc),
        "not_comparable": [],
    }
    if tally["untagged"]:
        record["left_out"][provenance.UNTAGGED] = tally["untagged"]
    results = _results(model or job.source.stem, record)
    for name, figure in _figures(sums, clusters, doc, described, len(languages)).items():
        _add(results, name, figure)
    return _publish(job.parts, output.with_suffix(""), results, samples, {spans: output})


def _reasons(left_out: Mapping[str, list[int]]) -> str:
    return "; ".join(
        f"{reason}: {len(numbers)} (line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_SHOWN]))}"
        f"{', ...' * (len(numbers) > _SHOWN)})"
        for reason, numbers in left_out.items()
    )


def _figures(
    sums: array[float], clusters: array[int], doc: Mapping[str, Any], detector: Mapping[str, str], languages: int
) -> dict[str, Figure]:
    """Name to figure, from the seven counts of each answer, with bounds of a bootstrap over questions. The calibration that
    a document names corrects the rate of a log in one language."""
    import numpy as np

    from custom_metrics.hallucination import estimate
    from custom_metrics.statistics.intervals import sums_by_cluster

    counts = sums_by_cluster(np.frombuffer(sums).reshape(-1, 7), clusters)
    flagged, expected, words, with_spans, judged, abstaining, answers = range(7)
    errors = None
    if doc["calibration"] != NO_CALIBRATION:
        key = CalibrationKey.from_document(doc, detector)
        if languages == 1:
            errors = errors_of(in_force(key, LOGGED))
        if errors is None:
            log.warning("%s does not correct this log, which has %d languages", key.calibration, languages)
    rates = estimate(counts[:, [flagged, words]], errors)
    shares = {
        _CORRECTED.name: (rates.rogan_gladen, judged),
        _SHARE.name: (rates.detected, judged),
        "flagged_answers": (estimate(counts[:, [with_spans, judged]]).detected, judged),
        "abstention_rate": (estimate(counts[:, [abstaining, answers]]).detected, answers),
        "expected_share": (estimate(counts[:, [expected, words]]).detected, judged),
    }
    numbers = counts.sum(axis=0)
    return {
        name: figure._replace(n=int(numbers[column]))
        for name, (figure, column) in shares.items()
        if figure.value == figure.value
    }


def _results(model: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a results file, without figures."""
    metadata = {"version": _TABLE.version, "provenance": record, "figures": {_NAME: {}}}
    config = {"task": LOGGED, "metric_list": [], "filter_list": [{"name": _NAME, "filter": [{"function": FILTER}]}]}
    number = record["kept"]["answers"]
    return {
        "results": {LOGGED: {"alias": LOGGED}},
        "configs": {LOGGED: config | {"metadata": {**metadata, "benchmark": {"name": "logs", **_TABLE.as_json()}}}},
        "versions": {LOGGED: _TABLE.version},
        "n-shot": {LOGGED: 0},
        "higher_is_better": {LOGGED: {}},
        "n-samples": {LOGGED: {"original": number, "effective": number}},
        "config": {"model": "replay", "model_args": None},  # nothing was prompted
        "model_source": "log",
        "model_name": model,
        "model_name_sanitized": re.sub(r"[^\w.-]", "_", model),
    }


def _add(results: dict[str, Any], name: str, figure: Figure, denominator: str = "") -> None:
    """Add a figure to a results file: a metric of the table to the harness's table, too, in the order of ours."""
    metric = _TABLE.metrics.get(name)
    config, table = results["configs"][LOGGED], results["results"][LOGGED]
    if metric is not None:
        error = figure.standard_error
        table |= {f"{name},{_NAME}": figure.value, f"{name}_stderr,{_NAME}": error if error == error else "N/A"}
        results["higher_is_better"][LOGGED][name] = metric.higher_is_better
        entry = {"metric": name, "aggregation": metric.aggregation, "higher_is_better": metric.higher_is_better}
        listed = {each["metric"]: each for each in config["metric_list"]}
        listed[name] = {**entry, "denominator": metric.denominator}
        config["metric_list"] = [listed[each] for each in _TABLE.metrics if each in listed]
    text = denominator or (metric or _SHARE).denominator
    config["metadata"]["figures"][_NAME][name] = figure.as_json(text)


def _publish(
    partial: Path, folder: Path, results: dict[str, Any], samples: Path, others: Mapping[Path, Path] | None = None
) -> Path:
    """Move samples and other files to their place, and a results file of this moment behind them."""
    date = datetime.now().isoformat().replace(":", "-")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"results_{date}.json"
    text = json.dumps(provenance.strict_json(results), indent=2, ensure_ascii=False, allow_nan=False)
    (partial / "results").write_text(text, "utf-8")
    places = {samples: folder / f"samples_{LOGGED}_{date}.jsonl", **(others or {}), partial / "results": target}
    move_whole(places)
    return target


def rate_by_marks(samples: Path, marks: marked.MarksOfTask, folder: Path, partial: Path) -> Path:
    """Write a run's results and samples anew, with ``marked_rate``; returns the results file. What the detector has found
    is read from the samples.

    Args:
        samples: of :data:`LOGGED`, beside their results.
        marks: of some of the answers, joined.
        folder: to write to.
        partial: a folder beside it for what is not yet complete.
    """
    results = read_results(samples.with_name(samples.name.replace(f"samples_{LOGGED}", "results").removesuffix("l")))
    values, written = [], partial / "samples"
    with written.open("w", encoding="utf-8", newline="\n") as stream:
        for row in read_samples(samples):
            tagged = json.loads(row["filtered_resps"][0])
            values.append(None if row["abstention_rate"] else marked.value_of(row["doc"], tagged, marks))
            row |= {"metrics": [marked.METRIC, *row["metrics"]], marked.METRIC: values[-1]}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    _add(results, marked.METRIC, marked.figure_of(values))
    for name, figure, denominator in marked.finer_figures(values):
        _add(results, name, figure, denominator)
    basis = marked.description_of(values, marks)
    results["configs"][LOGGED]["metadata"]["provenance"]["marks"] = basis
    marked.log_basis(LOGGED, values, basis)
    return _publish(partial, folder, results, written)
