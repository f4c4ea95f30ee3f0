"""Calibrations: the errors of a detector by language, measured on annotated texts.

A calibration file is JSON. For each language and kind of annotation it has the detector's errors, and the word counts of
every document, which bounds need. Kinds are *real* (people marked what a model wrote on its own), *gold* (people marked
errors that were inserted), *silver* (GPT-4's own marks of what it inserted), and *rag* (people judged what a model wrote
from passages). A language without real annotations gets a *pooled* calibration: the errors in the other languages, and how
much they differ between these. Rates of RAG answers are corrected by *rag* alone, others never by it. ``lm-eval-grounded
calibrate`` makes a file from detection runs. Two ship with the package: ``lexical``'s, and the mFAVA paper's Table 10.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.scores.detection import WordCounts
from custom_metrics.statistics.random_effects import FEWEST_LANGUAGES
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import RAG

ANNOTATIONS = ("real", "gold", "silver", RAG)  # kinds of annotation in a file
POOLED = "pooled"
KINDS = ("real", POOLED, "gold", "silver")  # kinds of calibration of answers from no passages, in order of preference
FORMAT = 1

FEWEST = 5  # documents with words, below which no bounds of a corrected rate hold (``test_calibration_files.py``)


class CalibrationError(UsageError):
    """A calibration cannot be read, or belongs to another detector. The message says which, and what to do."""


@dataclass(frozen=True)
class LanguageCalibration:
    """A detector's errors in one language: precision and recall of the hallucinated class over words, and their counts."""

    precision: float
    recall: float
    documents: NDArray[Any] | None  # (documents, 4) tp, fp, fn, tn; None where only the two above are known
    source: str  # the task, or the table
    models: tuple[str, ...] = ()  # that wrote each document; empty where not known
    clusters: tuple[int, ...] = ()  # number of each document's text or page; empty where documents are independent
    pooled: Mapping[str, Mapping[str, NDArray[Any]]] | None = None  # of other languages: by code and model
    kind: str = ""  # one of `KINDS`; empty until it is part of a file

    @property
    def counts(self) -> WordCounts | None:
        """Summed over the documents."""
        return None if self.documents is None else WordCounts(*map(int, self.documents.sum(axis=0)))

    @property
    def texts(self) -> int:
        """Number of independent texts."""
        return len(set(self.clusters)) or (0 if self.documents is None else len(self.documents))


@dataclass(frozen=True)
class Calibration:
    """A detector's errors, by language and kind of annotation."""

    detector: Mapping[str, str]  # name, version, licence of the one that was measured
    languages: Mapping[str, Mapping[str, LanguageCalibration]]  # code to one of `ANNOTATIONS` to errors
    origin: str = ""  # file it was loaded from
    note: str = ""  # by its maker
    sha256: str = ""  # of the file

    @property
    def identity(self) -> str:
        """File name and first twelve digits of the SHA-256. Results and samples name the calibration by it."""
        return f"{Path(self.origin).name}@{self.sha256[:12]}"

    def for_language(self, language: str, kind: str | None = None) -> LanguageCalibration | None:
        """Errors in a language, of a kind, else of the first of ``KINDS`` in the file; ``None`` where there are none."""
        by_kind = self.languages.get(language, {})
        for wanted in (kind,) if kind else KINDS:
            if wanted in by_kind:
                return replace(by_kind[wanted], kind=wanted)
            if wanted == POOLED and (pooled := self._pooled(language)) is not None:
                return pooled
        return None

    def _pooled(self, language: str) -> LanguageCalibration | None:
        """Errors by the real annotations of all other languages; ``None`` where these are too few."""
        by_language: dict[str, dict[str, NDArray[Any]]] = {}
        for code, kinds in sorted(self.languages.items()):
            if code != language and "real" in kinds and (counts := kinds["real"].documents) is not None:
                names = np.array(kinds["real"].models or [""] * len(counts))  # one without a name where nothing says
                by_language[code] = {str(name): counts[names == name] for name in np.unique(names)}
        if len(by_language) < FEWEST_LANGUAGES:
            return None
        by_model = [item for models in by_language.values() for item in models.items()]
        documents = np.concatenate([counts for _, counts in by_model])
        overall = from_counts(documents, f"real answers in {', '.join(by_language)}")
        models = tuple(name for name, counts in by_model for _ in counts)
        return replace(overall, models=models, pooled=by_language, kind=POOLED)

    def to_json(self) -> str:
        """The file's content, one document a line, so that a diff is readable."""
        languages = {
            code: {kind: summary(kinds[kind]) for kind in ANNOTATIONS if kind in kinds}
            for code, kinds in sorted(self.languages.items())
        }
        head = {"format": FORMAT, "detector": dict(self.detector), "note": self.note, "languages": languages}
        return json.dumps(head, ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the file, and its folder where that is missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json(), "utf-8")


def summary(language: LanguageCalibration, documents: bool = True) -> dict[str, Any]:
    """Source and figures of a language, for a file (with the counts of each document) or for results (without)."""
    values = {"precision": language.precision, "recall": language.recall}
    if counts := language.counts:
        values |= {"false_positive_rate": counts.false_positive_rate, "prevalence": counts.prevalence}
    figures: dict[str, Any] = {"source": language.source}
    figures |= {name: None if math.isnan(value) else round(value, 6) for name, value in values.items()}
    if language.documents is None:
        return figures
    if documents:  # one string each: an indented list of numbers would take four lines
        figures["documents"] = [" ".join(map(str, map(int, row))) for row in language.documents]
        figures |= {"models": list(language.models)} if language.models else {}
        figures |= {"clusters": " ".join(map(str, language.clusters))} if language.clusters else {}
    else:
        figures["answers"] = len(language.documents)
        figures |= {"texts": language.texts} if language.clusters else {}
        figures |= {"models": sorted(set(language.models))} if language.models else {}
    return figures


def from_counts(
    documents: Sequence[Sequence[int]] | NDArray[Any],
    source: str,
    models: Sequence[str] = (),
    clusters: Sequence[Any] = (),
) -> LanguageCalibration:
    """Errors from the word counts (tp, fp, fn, tn) of each document, the models that wrote them, and the texts' names."""
    rows = np.asarray(documents, dtype=np.int64).reshape(-1, 4)
    counts = WordCounts(*map(int, rows.sum(axis=0)))
    numbers: dict[Any, int] = {}
    labels = tuple(numbers.setdefault(name, len(numbers)) for name in clusters)
    labels = labels if len(numbers) < len(labels) else ()
    return LanguageCalibration(counts.precision, counts.recall, rows, source, tuple(models), labels)


def why_too_few(language: LanguageCalibration) -> str:
    """Why a calibration has too few documents to correct a rate, fewer than :data:`FEWEST`; empty where it has enough."""
    if language.documents is None or (number := int(np.count_nonzero(language.documents.sum(axis=1)))) >= FEWEST:
        return ""
    return (
        f"{language.source or 'a calibration'} has {number} annotated answers with words, and of fewer than {FEWEST} no "
        f"bounds of a corrected rate hold; measure the detector on more"
    )


def shipped() -> dict[str, str]:
    """The calibration files that ship with the package, by the name of their detector."""
    folder = resources.files("detector_plugin").joinpath("calibrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    files = [str(folder.joinpath(name)) for name in names]
    return {load(file).detector["name"]: file for file in files}


def in_folder(name: str) -> str | None:
    """The calibration file in a detector's folder, where ``lm-eval-grounded train --calibrate`` writes it, or ``None``."""
    file = Path(name).expanduser() / "calibration.json"
    return str(file) if file.is_file() else None


_LOADED: dict[str, Calibration] = {}


def by_identity(identity: str) -> Calibration:
    """Get a loaded calibration by its identity; CalibrationError where this process has not loaded it."""
    if identity not in _LOADED:
        raise CalibrationError(f"calibration {identity} has not been loaded in this run; name its file")
    return _LOADED[identity]


@lru_cache(maxsize=32)
def load(name: str) -> Calibration:
    """Load a calibration by its file, or by a detector whose calibration ships. CalibrationError for none or damage."""
    if not isinstance(name, str):
        raise CalibrationError(f"calibration: name a file, or a detector whose calibration ships, not {name!r}")
    path = Path(name).expanduser()
    if not path.is_file():
        shipped_files = {} if path.suffix == ".json" else shipped()
        if name not in shipped_files:
            others = f", or one that ships: {', '.join(shipped_files)}" if shipped_files else ""
            raise CalibrationError(
                f"calibration {name!r}: no such file. Name a file of `lm-eval-grounded calibrate`{others}."
            )
        path = Path(shipped_files[name])
    try:
        data = path.read_bytes()
        content = json.loads(data.decode("utf-8"))
        if content.get("format") != FORMAT:
            raise CalibrationError(
                f"{path} is not a calibration file of format {FORMAT}; make one with `lm-eval-grounded calibrate "
                f"RESULTS -o FILE`"
            )
        languages = {
            code: {kind: replace(_parse_entry(entry), kind=kind) for kind, entry in kinds.items()}
            for code, kinds in content["languages"].items()
        }
        if unknown := sorted({kind for kinds in languages.values() for kind in kinds} - set(ANNOTATIONS)):
            raise CalibrationError(
                f"{path} has calibrations of a kind that is not known: {', '.join(unknown)}; known are "
                f"{', '.join(ANNOTATIONS)}. Is it of a later version of lm-eval-grounded?"
            )
        entries = [entry for kinds in languages.values() for entry in kinds.values()]
        if reasons := [*filter(None, map(why_too_few, entries))]:
            raise CalibrationError(f"{path}: {reasons[0]}")
        detector = {key: str(content["detector"].get(key, "")) for key in ("name", "version", "licence")}
    except CalibrationError:
        raise
    except (OSError, AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise CalibrationError(f"{path} cannot be read as a calibration: {type(error).__name__} {error}") from error
    sha256 = hashlib.sha256(data).hexdigest()
    calibration = Calibration(detector, languages, str(path), str(content.get("note", "")), sha256)
    _LOADED[calibration.identity] = calibration
    return calibration


def _parse_entry(entry: Mapping[str, Any]) -> LanguageCalibration:
    if "documents" not in entry:
        shares = [math.nan if entry[key] is None else float(entry[key]) for key in ("precision", "recall")]
        if not all(0 <= share <= 1 or math.isnan(share) for share in shares):
            raise ValueError("precision and recall are shares between 0 and 1")
        return LanguageCalibration(shares[0], shares[1], None, str(entry.get("source", "")))
    rows = [[int(number) for number in row.split()] for row in entry["documents"]]
    if not rows or any(len(row) != 4 or min(row) < 0 for row in rows):
        raise ValueError("documents are one or more of four numbers each, tp fp fn tn")
    models = [str(name) for name in entry.get("models", ())]
    clusters = [int(number) for number in entry.get("clusters", "").split()]
    for what, number in (("models", len(models)), ("texts", len(clusters))):
        if number not in (0, len(rows)):
            raise ValueError(f"{len(rows)} documents, but the {what} of {number}")
    return from_counts(rows, str(entry.get("source", "")), models, clusters)
