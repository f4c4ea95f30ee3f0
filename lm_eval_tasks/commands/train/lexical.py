"""``lm-eval-grounded train --detector lexical``: the weights and calibration, made anew from a mirror."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from detector_plugin import calibration as calibrations
from detector_plugin import lexical
from detector_plugin.labelled import LabelledAnswer, is_unreadable
from detector_plugin.lexical import training
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.detection.labelled_answers import labelled_answers, readable
from lm_eval_tasks.mfava import held_out

__all__ = ["calibration_of", "train_lexical"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

NOTE = (
    "Measured with weights that were trained without any document of the language and, for real answers, without any of "
    "the model's family (held_out). The shipped weights were trained on these documents too."
)


def train_lexical(mirror: str | None = None, output: Path | None = None) -> Iterator[Path]:
    """Train, measure and write; the same documents give the same bytes.

    Args:
        mirror: folder of the public files; default the environment variable ``LM_EVAL_GROUNDED_MIRROR``.
        output: folder for ``weights/`` and ``calibration.json``; default the package's own files are replaced.

    Yields:
        The files written.
    """
    documents = labelled_answers(mirror)
    log.info("training on %d documents of %d languages", len(documents), len({d.language for d in documents}))
    weights = training.train_all(readable(documents), processes=os.cpu_count() or 1)
    folder = lexical.WEIGHTS if output is None else output / "weights"
    for name, content in weights.items():
        path = folder / name
        with whole_file(path) as partial:
            partial.write_bytes(content)
        yield path
    path = (
        Path(calibrations.__file__).parent / "calibrations" / "lexical.json"
        if output is None
        else output / "calibration.json"
    )
    with whole_file(path) as partial:
        calibration_of(documents, folder).save(partial)
    yield path


def calibration_of(documents: Sequence[LabelledAnswer], folder: Path) -> calibrations.Calibration:
    """The errors of trained weights, each answer read with those that saw neither its language nor its model's family.

    Args:
        documents: annotated answers.
        folder: of the weights.
    """
    rows: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    models: dict[tuple[str, str], list[str]] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    unreadable: Counter[tuple[str, str]] = Counter()
    for document, reading in zip(documents, held_out.readings(documents, folder), strict=True):
        key = document.language, document.annotations
        rows.setdefault(key, []).append(tuple(reading.counts))
        models.setdefault(key, []).append(document.model)
        texts.setdefault(key, []).append(document.article or document.reference)
        unreadable[key] += is_unreadable(document.reference)
    languages: dict[str, dict[str, calibrations.LanguageCalibration]] = {}
    for (language, kind), counts in rows.items():
        if unreadable[language, kind] > len(counts) / 2:
            log.warning("%s %s: no calibration, as most of its references are unreadable", language, kind)
            continue
        real = kind == training.REAL
        source = f"mushroom_{language}" if real else f"mfava_detection_{language}_{kind}"
        measured = calibrations.measured(counts, source, models[language, kind] if real else (), texts[language, kind])
        languages.setdefault(language, {})[kind] = measured
    detector = lexical.LexicalDetector(weights=folder)
    described = {"name": detector.name, "version": detector.version, "licence": detector.licence}
    return calibrations.Calibration(described, languages, note=NOTE)
