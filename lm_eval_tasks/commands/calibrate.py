"""Make a calibration file from runs of mushroom_* and mfava_detection_*.

Reads the samples of detection runs and writes the detector's precision, recall, false positive rate, prevalence and word
counts of each document, by language.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.commands import add_output, say

if TYPE_CHECKING:
    from detector_plugin.calibration import Calibration, LanguageCalibration

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_DETECTION = re.compile(r"mfava_detection_[a-z]+_(?P<kind>gold|silver)|mushroom_[a-z]+")
FEW = 50  # documents; the public sets have 245 and more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="*", metavar="RESULTS", help="folders or samples files of the runs")
    add_output(parser, "FILE")
    parser.add_argument(
        "--check",
        metavar="CALIBRATION",
        help="instead: hold the estimates with a calibration (file, or detector whose ships) against its real answers",
    )
    parser.add_argument("--note", default="", help="kept in the file")


def run(arguments: argparse.Namespace) -> int:
    if arguments.check:
        if arguments.results or arguments.output is not None or arguments.note:
            raise ValueError(
                f"calibrate --check {arguments.check} reads that calibration alone, and writes none. Leave out the "
                f"results, -o and --note; or write a calibration of the results (-o FILE), then --check FILE"
            )
        from detector_plugin.calibration import load
        from lm_eval_tasks.mfava import cells

        compared = cells.cells(load(arguments.check))
        if not compared:
            raise ValueError(
                f"{arguments.check} has real answers in fewer than three languages, or no model with {cells.FEWEST} of "
                f"them; measure them with `lm_eval --model hallucination-detector --tasks mushroom ...`"
            )
        say(cells.table(compared))
        return 0
    if not arguments.results or arguments.output is None:
        raise ValueError("calibrate: name the results of detection runs, and the file to write with -o")
    from lm_eval_tasks.data.atomic import whole_file

    calibration = calibration_from_runs(arguments.results, arguments.note)
    with whole_file(arguments.output) as partial:
        calibration.save(partial)
    say(render_table(calibration))
    say(f"{arguments.output}: detector {calibration.detector['name']}, version {calibration.detector['version']}")
    return 0


def calibration_from_runs(places: Iterable[Path], note: str = "") -> Calibration:
    """Calibrate a detector from folders or samples files of runs of ``mfava_detection_*`` and ``mushroom_*`` with
    ``--log_samples``; the newest samples of a task count.

    Raises:
        MissingSource: there are no samples.
        CalibrationError: there are no samples of a detection task, or runs of several detectors.
    """
    from detector_plugin.calibration import Calibration, CalibrationError, from_counts, why_too_few
    from lm_eval_tasks.data.samples import read_samples, samples_files
    from lm_eval_tasks.runs import cluster_of

    detectors: dict[str, dict[str, str]] = {}
    languages: dict[str, dict[str, LanguageCalibration]] = {}
    skipped: set[str] = set()
    for place in places:
        for task, path in (entry for files in samples_files(place).values() for entry in files.items()):
            detection = _DETECTION.fullmatch(task)
            if detection is None:
                skipped.add(task)
                continue
            detector = _read_detector(path)
            detectors[json.dumps(detector, sort_keys=True)] = detector
            samples = list(read_samples(path))
            if not samples:
                raise CalibrationError(f"{path}: no sample can be read")
            if len(samples) < FEW:
                log.warning("%s: %d documents only; a calibration of so few says little", path, len(samples))
            language, kind = samples[0]["doc"]["language"], detection["kind"] or "real"
            if kind in languages.get(language, {}):
                log.warning("%s: a second run of %s; the first one counts", path, task)
                continue
            models = [str(sample["doc"].get("model") or "") for sample in samples] if kind == "real" else ()
            clusters = [cluster_of(sample["doc"]) or number for number, sample in enumerate(samples)]
            errors = from_counts([_word_counts(sample, path) for sample in samples], task, models, clusters)
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
            "no samples of mushroom_<language>, mfava_detection_<language>_gold or _silver. Make them with `lm_eval "
            "--model hallucination-detector --model_args detector=NAME --tasks mushroom,mfava_detection_silver "
            "--log_samples -o RESULTS`."
        )
    if len(detectors) > 1:
        names = "; ".join(f"{d['name']} version {d['version']}" for d in detectors.values())
        raise CalibrationError(f"these runs are of several detectors ({names}); a calibration is of one")
    (detector,) = detectors.values()
    return Calibration(detector, languages, note=note)


def _word_counts(sample: dict[str, Any], path: Path) -> list[int]:
    counts = sample.get("precision")
    if not isinstance(counts, list) or len(counts) != 4 or not all(isinstance(number, int) for number in counts):
        raise UsageError(
            f"{path}, document {sample['doc_id']}: no word counts; was it run with --predict_only? Run the task without."
        )
    return counts


def _read_detector(samples: Path) -> dict[str, str]:
    """Name, version and licence of the evaluated detector, or of the prompted language model."""
    from detector_plugin.lexical import HELD_OUT_SUFFIX
    from detector_plugin.llm import PROMPT_VERSION
    from lm_eval_tasks.models.answering import options_of

    results = samples.with_name(f"results_{samples.stem.rsplit('_', 1)[-1]}.json")
    try:
        config = json.loads(results.read_text("utf-8"))["config"]
        if not isinstance(config, dict):
            raise TypeError("config is no object")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{results}: the results file that was written with {samples.name} is needed to know which detector it is of "
            f"({type(error).__name__}: {error})"
        ) from error
    detector = config.get("detector")
    if not isinstance(detector, dict):
        arguments = options_of(config.get("model_args"))
        name = arguments.get("pretrained") or arguments.get("model") or config.get("model", "")
        return {"name": f"llm:{name}", "version": PROMPT_VERSION, "licence": "unknown"}
    described = {key: str(detector.get(key, "")) for key in ("name", "version", "licence")}
    if described["name"] == "lexical" and HELD_OUT_SUFFIX not in described["version"]:
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
