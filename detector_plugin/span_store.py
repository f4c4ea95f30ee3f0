"""A detector that keeps its spans in a file, by content. Long work goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.spans import Span, span_of
from detector_plugin.detector import Detector, same_length

__all__ = ["StoredDetector"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

CHUNK = 64  # answers between two writes: what a kill can cost


class StoredDetector:
    """A detector that appends its spans to a file, and reads those that the file has.

    An entry belongs to the detector's name, version and options and to the content of reference, answer, language and
    question. A last line that a kill cut off is passed over.

    Args:
        detector: the one that does the work.
        path: JSON lines; made where it is missing.
        options: that the detector was loaded with.
    """

    def __init__(self, detector: Detector, path: Path, options: Mapping[str, Any] | None = None) -> None:
        self.detector = detector
        self._options = json.dumps(dict(options or {}), sort_keys=True, default=str)
        self.path = path
        self.name, self.version, self.licence = detector.name, detector.version, detector.licence
        self.known: dict[str, list[Span]] = _read(path)

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> list[list[Span]]:
        """See :class:`detector_plugin.Detector`."""
        same_length(references, answers, {"languages": languages, "questions": questions})
        asked = questions if questions is not None else [""] * len(answers)
        keys = [self._key(*fields) for fields in zip(references, answers, languages, asked, strict=True)]
        places = {key: index for index, key in enumerate(keys)}
        missing = [index for key, index in places.items() if key not in self.known]
        if len(missing) < len(places):
            log.info(
                "%d of %d answers were tagged by an earlier run (%s)",
                len(places) - len(missing),
                len(places),
                self.path,
            )
        with tqdm(
            total=len(places), initial=len(places) - len(missing), unit="answer", desc=f"detector {self.name}"
        ) as bar:
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                found = self.detector.detect(
                    [references[index] for index in chunk],
                    [answers[index] for index in chunk],
                    [languages[index] for index in chunk],
                    [asked[index] for index in chunk],
                )
                self._write({keys[index]: spans for index, spans in zip(chunk, found, strict=True)})
                bar.update(len(chunk))
        return [self.known[key] for key in keys]

    def _key(self, *fields: str | None) -> str:
        content = json.dumps([self.name, self.version, self._options, *fields], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def _write(self, found: dict[str, list[Span]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps({"key": key, "spans": spans}) + "\n" for key, spans in found.items())
        self.known.update(found)


def _read(path: Path) -> dict[str, list[Span]]:
    known: dict[str, list[Span]] = {}
    if not path.is_file():
        return known
    content = path.read_text("utf-8", errors="replace")
    for line in content.split("\n"):
        try:
            entry = json.loads(line)
            known[str(entry["key"])] = [span_of(span) for span in entry["spans"]]
        except (KeyError, TypeError, ValueError, RecursionError):
            continue  # cut by a kill; it will be made again
    if content and not content.endswith("\n"):
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n")  # or the next entry would be lost with the cut one
    return known
