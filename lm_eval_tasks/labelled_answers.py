"""Every annotated answer of a mirror, mFAVA's and Mu-SHROOM's. The lexical detector learns from them."""

from __future__ import annotations

import logging

from custom_metrics.spans import Span, span_of
from detector_plugin.lexical import training
from lm_eval_tasks.mfava import detection
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.mushroom import dataset as mushroom
from lm_eval_tasks.mushroom import languages as mushroom_languages
from lm_eval_tasks.mushroom.families import family
from lm_eval_tasks.sources import MissingSource, mirror_folder

__all__ = ["labelled_answers", "readable"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


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
    """The answers to learn from: those whose reference is text, not marks of what a translation model could not write."""
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
