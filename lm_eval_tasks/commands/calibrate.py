"""Make a calibration file from runs of mushroom_*, mfava_detection_*, memerag_*, ragtruth_qa, or from marks.

Reads the samples of detection runs and writes the detector's precision, recall, false positive rate, prevalence and word
counts of each document, by language. The answers of a file of marks (JSON lines) are read by --detector.

Examples:
  lm-eval-grounded calibrate results/detector-lexical -o calibration.json
  lm-eval-grounded calibrate marks-anna.jsonl --detector my/detector -o calibration.json
"""

from __future__ import annotations

import argparse
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import DEFAULT_DETECTOR
from lm_eval_tasks.commands import add_detector, add_output, say

if TYPE_CHECKING:
    from detector_plugin.calibration import Calibration, LanguageCalibration
    from lm_eval_tasks.runs import Run

    # Path, language, kind of annotations, the detector's errors, and its name, version and licence.
    Measured = tuple[Path, str, str, LanguageCalibration, dict[str, str]]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_DETECTION = re.compile(
    r"mfava_detection_[a-z]+_(?P<kind>gold|silver)|mushroom_[a-z]+|(?P<rag>memerag_[a-z]+|ragtruth_qa)"
)
FEW = 50  # documents; the public sets have 245 and more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    results = "folders or samples files of the runs, or files of marks"
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS", help=results)
    add_detector(parser)
    add_output(parser, "FILE", required=True)


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.data import whole_file

    calibration = calibration_from_runs(arguments.results, arguments.detector, arguments.detector_args)
    with whole_file(arguments.output) as partial:
        calibration.save(partial)
    say(render_table(calibration))
    say(f"{arguments.output}: detector {calibration.detector['name']}, version {calibration.detector['version']}")
    return 0


def calibration_from_runs(
    places: Iterable[Path], detector: str = DEFAULT_DETECTOR, detector_args: str | None = None
) -> Calibration:
    """Calibrate a detector from folders or samples files of runs of ``mfava_detection_*``, ``mushroom_*``,
    ``memerag_*``, ``ragtruth_qa`` with ``--log_samples``, of which the newest samples of a task count; or from files of
    marks, whose answers the named detector reads now. CalibrationError without samples of a detection task, or with
    several detectors."""
    from detector_plugin.calibration import Calibration, CalibrationError, why_too_few
    from lm_eval_tasks.data.samples import task_of

    detectors: dict[str, dict[str, str]] = {}
    languages: dict[str, dict[str, LanguageCalibration]] = {}
    skipped: set[str] = set()
    for place in places:
        of_lines = place.is_file() and task_of(place) is None
        measurements = _of_lines(place, detector, detector_args) if of_lines else _of_runs(place, skipped)
        for path, language, kind, errors, measured in measurements:
            detectors[json.dumps(measured, sort_keys=True)] = measured
            number = 0 if errors.documents is None else len(errors.documents)
            if number < FEW:
                log.warning("%s: %d documents only; a calibration of so few says little", path, number)
            if kind in languages.get(language, {}):
                log.warning("%s: a second run of %s; the first one counts", path, errors.source)
                continue
            if why := why_too_few(errors):
                raise CalibrationError(f"{path}: {why}")
            if not errors.precision > 0:
                raise CalibrationError(
                    f"{path}: the detector found not one hallucinated word; with such errors nothing can be corrected"
                )
            languages.setdefault(language, {})[kind] = errors
    if skipped:
        log.info("passed over: %s", ", ".join(sorted(skipped)))
    if not languages:
        raise CalibrationError(
            "no samples of mushroom_<language>, mfava_detection_<language>_gold or _silver, memerag_<language>, "
            "ragtruth_qa. Make them with `lm_eval --model hallucination-detector --model_args detector=NAME --tasks "
            "mushroom,mfava_detection_silver --log_samples -o RESULTS`."
        )
    if len(detectors) > 1:
        names = "; ".join(f"{d['name']} version {d['version']}" for d in detectors.values())
        raise CalibrationError(f"these runs are of several detectors ({names}); a calibration is of one")
    return Calibration(next(iter(detectors.values())), languages)


def _of_runs(place: Path, skipped: set[str]) -> Iterator[Measured]:
    """The errors in detection runs. Names of other tasks are added to `skipped`."""
    from detector_plugin.calibration import CalibrationError, from_counts
    from detector_plugin.detector import RAG
    from lm_eval_tasks.data.samples import read_samples
    from lm_eval_tasks.runs import read_runs
    from lm_eval_tasks.runs.answers import cluster_of

    for run in read_runs([place]):
        for name, task in run.tasks.items():
            detection = _DETECTION.fullmatch(name)
            if detection is None or task.samples is None:
                skipped.add(name)
                continue
            kind = RAG if detection["rag"] else detection["kind"] or "real"
            detector = _detector_of(run, task.samples, is_learned=kind != RAG)
            samples = list(read_samples(task.samples))
            if not samples:
                raise CalibrationError(f"{task.samples}: no sample can be read")
            counts = [_word_counts(sample, task.samples) for sample in samples]
            models = [str(sample["doc"].get("model") or "") for sample in samples] if kind == "real" else ()
            clusters = [cluster_of(sample["doc"]) or number for number, sample in enumerate(samples)]
            errors = from_counts(counts, name, models, clusters)
            yield task.samples, samples[0]["doc"]["language"], kind, errors, detector


def _of_lines(path: Path, detector: str, detector_args: str | None) -> Iterator[Measured]:
    """The errors of a detector on the annotated answers of a file, such as one of marks."""
    from detector_plugin.detector import describe
    from detector_plugin.filters import shared_detector
    from detector_plugin.transformers.training.measuring import measure
    from lm_eval_tasks.definition import pairs
    from lm_eval_tasks.detection.labelled_answers import read_labelled_lines, refuse_test_sets

    documents = read_labelled_lines(path, Counter())
    refuse_test_sets(documents, str(path), to_calibrate=True)
    reader = shared_detector(detector, json.dumps(pairs("detector_args", detector_args, "calibrate"), sort_keys=True))
    for row in measure(reader, documents, "measured"):
        yield path, row.language, row.annotations, replace(row.errors, source=path.name), describe(reader)


def _word_counts(sample: dict[str, Any], path: Path) -> list[int]:
    counts = sample.get("precision")
    if not isinstance(counts, list) or len(counts) != 4 or not all(isinstance(number, int) for number in counts):
        raise UsageError(
            f"{path}, document {sample['doc_id']}: no word counts; was it run with --predict_only? Run the task without."
        )
    return counts


def _detector_of(run: Run, samples: Path, is_learned: bool) -> dict[str, str]:
    """Name, version and licence of the evaluated detector, or of the prompted language model. `is_learned` is whether our
    weights were trained on these documents."""
    from detector_plugin.lexical import HELD_OUT_SUFFIX
    from detector_plugin.llm import PROMPT_VERSION
    from lm_eval_tasks.models import options_of

    if not run.config:
        raise UsageError(
            f"{samples}: the results file that was written with it is needed to know which detector it is of"
        )
    detector = run.config.get("detector")
    if not isinstance(detector, dict):
        arguments = options_of(run.config.get("model_args"))
        name = arguments.get("pretrained") or arguments.get("model") or run.config.get("model", "")
        return {"name": f"llm:{name}", "version": PROMPT_VERSION, "licence": "unknown"}
    described = {key: str(detector.get(key, "")) for key in ("name", "version", "licence")}
    if is_learned and described["name"] == "lexical" and HELD_OUT_SUFFIX not in described["version"]:
        log.warning(
            "%s: the shipped weights of the lexical detector were trained on these documents, so this calibration is too "
            "good; measure it with --model_args detector=lexical,held_out=True",
            samples,
        )
    if described["name"] == "lexical":  # the calibration is used for the shipped weights
        described["version"] = described["version"].replace(HELD_OUT_SUFFIX, "")
    return described


def render_table(calibration: Calibration) -> str:
    from detector_plugin.calibration import ANNOTATIONS

    lines = [f"{'language':10}{'':8}{'docs':>6}{'precision':>11}{'recall':>8}{'f1':>7}{'FPR':>7}{'prevalence':>12}"]
    for language, kinds in sorted(calibration.languages.items()):
        for kind in sorted(kinds, key=ANNOTATIONS.index):
            documents, counts = kinds[kind].documents, kinds[kind].counts
            if documents is not None and counts:
                lines.append(
                    f"{language:10}{kind:8}{len(documents):>6}{counts.precision:>11.3f}{counts.recall:>8.3f}"
                    f"{counts.f1:>7.3f}{counts.false_positive_rate:>7.3f}{counts.prevalence:>12.3f}"
                )
    return "\n".join(lines)
