"""A detector that keeps its spans in a file, by content. Long work goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.reading.spans import Span, span_of
from detector_plugin.detector import Detector, same_length

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

CHUNK = 64  # answers between two writes: what a kill can cost


class StoredDetector:
    """A detector that appends its spans to a file, and reads those that the file has.

    An entry belongs to the detector's name, version and options and to the content of reference, answer, language and
    question. Options in the detector's attribute ``WITHOUT_EFFECT``, where it has one, belong to no entry: they change
    where and how fast the work is done, such as the address of a server. A last line that a kill cut off is passed over.

    A detector that has a method ``detect_each``, which yields the number of an answer with its spans, gets all answers at
    once; what it has yielded is kept where it fails. Others get :data:`CHUNK` answers at a time.

    Args:
        detector: the one that does the work.
        path: JSON lines; made where it is missing.
        options: that the detector was loaded with.
        others: files of other processes that do a part of the work, to be read.
        part: number of this process and of all: it tags its part of the answers, and the rest have no spans here.
    """

    def __init__(
        self,
        detector: Detector,
        path: Path,
        options: Mapping[str, Any] | None = None,
        others: Sequence[Path] = (),
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.detector = detector
        without: frozenset[str] = getattr(detector, "WITHOUT_EFFECT", frozenset())
        kept = {name: value for name, value in (options or {}).items() if name not in without}
        self._options = json.dumps(kept, sort_keys=True, default=str)
        self.path = path
        self.part = part
        self.name, self.version, self.licence = detector.name, detector.version, detector.licence
        self.known: dict[str, list[Span] | None] = {}
        for file in (*others, path):
            self.known.update(_read(file, mend=file == path))
        if not getattr(detector, "skips_failing", False):  # they are to be asked again
            self.known = {key: spans for key, spans in self.known.items() if spans is not None}

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> list[list[Span] | None]:
        """See :class:`detector_plugin.Detector`."""
        same_length(references, answers, {"languages": languages, "questions": questions})
        asked = questions if questions is not None else [""] * len(answers)
        keys = [self._key(*fields) for fields in zip(references, answers, languages, asked, strict=True)]
        places = {key: index for index, key in enumerate(keys)}
        number, of = self.part
        mine = {key: index for place, (key, index) in enumerate(places.items()) if place % of == number}
        missing = [index for key, index in mine.items() if key not in self.known]
        if known := len(mine) - len(missing):
            log.info("%d of %d answers were tagged by an earlier run (%s)", known, len(mine), self.path)
        columns = [[column[index] for index in missing] for column in (references, answers, languages, asked)]
        with tqdm(total=len(mine), initial=known, unit="answer", desc=f"detector {self.name}") as bar:
            found: dict[str, list[Span] | None] = {}
            try:
                for place, spans in getattr(self.detector, "detect_each", self._chunk_by_chunk)(*columns):
                    found[keys[missing[place]]] = spans
                    if len(found) >= CHUNK:
                        self._write(found)
                        bar.update(len(found))
                        found = {}
            finally:
                self._write(found)
            bar.update(len(found))
        return [self.known[key] if of == 1 else self.known.get(key, []) for key in keys]

    def _chunk_by_chunk(self, *columns: Sequence[Any]) -> Iterator[tuple[int, list[Span] | None]]:
        for start in range(0, len(columns[0]), CHUNK):
            yield from enumerate(self.detector.detect(*(column[start : start + CHUNK] for column in columns)), start)

    def _key(self, *fields: str | None) -> str:
        content = json.dumps([self.name, self.version, self._options, *fields], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def _write(self, found: dict[str, list[Span] | None]) -> None:
        if not found:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps({"key": key, "spans": spans}) + "\n" for key, spans in found.items())
        self.known.update(found)


def _read(path: Path, mend: bool) -> dict[str, list[Span] | None]:
    known: dict[str, list[Span] | None] = {}
    if not path.is_file():
        return known
    content = path.read_text("utf-8", errors="replace")
    for line in content.split("\n"):
        try:
            entry = json.loads(line)
            spans = entry["spans"]
            known[str(entry["key"])] = None if spans is None else [span_of(span) for span in spans]
        except (KeyError, TypeError, ValueError, RecursionError):
            continue  # cut by a kill; it will be made again
    if mend and content and not content.endswith("\n"):
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n")  # or the next entry would be lost with the cut one
    return known
