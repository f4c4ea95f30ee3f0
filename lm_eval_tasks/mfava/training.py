"""``lm-eval-grounded train``: the lexical detector's weights and its calibration, made anew from a mirror."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from custom_metrics.spans import Span, span_of
from detector_plugin import calibration as calibrations
from detector_plugin import lexical
from detector_plugin.lexical import training
from lm_eval_tasks.atomic import whole_file
from lm_eval_tasks.mfava import detection, held_out
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.mushroom import dataset as mushroom
from lm_eval_tasks.mushroom import languages as mushroom_languages
from lm_eval_tasks.mushroom.families import family
from lm_eval_tasks.sources import MissingSource, mirror_folder

__all__ = ["labelled_answers", "readable", "train_lexical"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

NOTE = (
    "Measured with weights that were trained without any document of the language and, for real answers, without any of "
    "the model's family (held_out). The shipped weights were trained on these documents too."
)


def labelled_answers(mirror: str | None = None) -> list[training.LabelledAnswer]:
    """Every annotated answer of a mirror, mFAVA's and Mu-SHROOM's; languages without files are left out, and said.

    Raises:
        MissingSource: there is none at all.
    """
    folder = mirror_folder(mirror)
    place = str(folder) if folder else None
    found: list[training.LabelledAnswer] = []
    missing: list[str] = []
    wanted = [
        (code, kind, _inserted)
        for code, language in LANGUAGES.items()
        for kind in ("gold",) * language.gold + ("silver",) * language.silver
    ]
    wanted += [(code, training.REAL, _real) for code in mushroom_languages.LANGUAGES]
    for code, kind, read in wanted:
        try:
            found += read(code, kind, place)
        except (MissingSource, ValueError) as error:  # not there, or without an answer in this language
            log.debug("%s", error)
            missing.append(f"{code} {kind}")
    if missing:
        log.warning("without %s, whose files are not there", ", ".join(missing))
    if not found:
        raise MissingSource("no annotated answer is to be had; name a mirror of the public files with --mirror DIR")
    return found


def readable(documents: list[training.LabelledAnswer]) -> list[training.LabelledAnswer]:
    """Those to learn from: marks of what a translation model could not write bear nothing out, and teach nothing."""
    return [document for document in documents if not detection.is_unreadable(document.reference)]


def _inserted(code: str, kind: str, mirror: str | None) -> list[training.LabelledAnswer]:
    return [
        training.LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=kind,
            spans=tuple(span_of([s["start"], s["end"], s["category"]]) for s in row["spans"]),
        )
        for row in detection.documents(code, kind, mirror)
    ]


def _real(code: str, kind: str, mirror: str | None) -> list[training.LabelledAnswer]:
    return [
        training.LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=kind,
            spans=tuple(span_of([s["start"], s["end"], s["category"]]) for s in row["spans"]),
            question=row["query"],
            family=family(row["model"]),
            model=row["model"],
            soft=tuple(Span(s["start"], s["end"], probability=s["prob"]) for s in row["soft_labels"]),
        )
        for row in mushroom.load(code, mirror=mirror)["evaluation"]
    ]


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


def calibration_of(documents: Sequence[training.LabelledAnswer], folder: Path) -> calibrations.Calibration:
    """The errors of trained weights, each answer read with those that saw neither its language nor its model's family.

    Args:
        documents: annotated answers.
        folder: of the weights.
    """
    rows: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    models: dict[tuple[str, str], list[str]] = {}
    unreadable: Counter[tuple[str, str]] = Counter()
    for document, reading in zip(documents, held_out.readings(documents, folder), strict=True):
        key = document.language, document.annotations
        rows.setdefault(key, []).append(tuple(reading.counts))
        models.setdefault(key, []).append(document.model)
        unreadable[key] += detection.is_unreadable(document.reference)
    languages: dict[str, dict[str, calibrations.LanguageCalibration]] = {}
    for (language, kind), counts in rows.items():
        if unreadable[language, kind] > len(counts) / 2:
            log.warning("%s %s: no calibration, as most of its references are unreadable", language, kind)
            continue
        real = kind == training.REAL
        source = f"mushroom_{language}" if real else f"mfava_detection_{language}_{kind}"
        measured = calibrations.measured(counts, source, models[language, kind] if real else ())
        languages.setdefault(language, {})[kind] = measured
    detector = lexical.LexicalDetector(weights=folder)
    described = {"name": detector.name, "version": detector.version, "licence": detector.licence}
    return calibrations.Calibration(described, languages, note=NOTE)
