"""A detector that stores its spans in a file, keyed by content, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.reading.spans import Span, span_of
from custom_metrics.usage.plain_errors import naming
from custom_metrics.usage.secrets import blank
from detector_plugin.detector import Detector, Languages, Questions, Spans, Texts, check_lengths

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

CHUNK = 64  # answers between two writes: the most that a kill can cost


class StoredDetector:
    """A detector that appends its spans to a file, and does not detect again what the file has.

    An entry is known by the detector's name, version and options without their secrets, and by reference, answer, language
    and question. Options in the detector's attribute ``WITHOUT_EFFECT``, where it has one, are no part of that: they change
    where and how fast the work is done. A last line that a kill cut off is ignored.

    A detector with a method ``detect_each``, which yields the number of an answer with its spans, gets all answers at once;
    what it has yielded is stored even if it fails. Others get :data:`CHUNK` answers at a time.

    Args:
        path: JSON lines; created where it is missing.
        options: that the detector was loaded with.
        others: files that other processes, each with a part of the work, have written.
        part: number of this process and of all: it tags its part of the answers, and the rest have no spans here.
        quiet: whether the caller shows the progress, of many calls.
    """

    def __init__(
        self,
        detector: Detector,
        path: Path,
        options: Mapping[str, Any] | None = None,
        others: Sequence[Path] = (),
        part: tuple[int, int] = (0, 1),
        quiet: bool = False,
    ) -> None:
        self.detector, self.path, self.part, self.quiet = detector, path, part, quiet
        self.name, self.version, self.licence = detector.name, detector.version, detector.licence
        without: frozenset[str] = getattr(detector, "WITHOUT_EFFECT", frozenset())
        effective = {name: value for name, value in (options or {}).items() if name not in without}
        self._options = json.dumps(blank(effective), sort_keys=True, default=str)
        self.detected = 0  # answers that were not stored: what the detector's speed is measured on
        self.spans_by_key: dict[str, str] = {}  # as JSON, which takes a tenth of the memory
        for file in (*others, path):
            self.spans_by_key.update(_load_spans(file, mend=file == path))
        # Answers that the detector failed on are tried again.
        self.spans_by_key = {key: spans for key, spans in self.spans_by_key.items() if spans != "null"}

    def detect(self, references: Texts, answers: Texts, languages: Languages, questions: Questions = None) -> Spans:
        """See :class:`detector_plugin.Detector`."""
        check_lengths(references, answers, languages, questions)
        columns = references, answers, languages, questions if questions is not None else [""] * len(answers)
        keys = [self._key(*fields) for fields in zip(*columns, strict=True)]
        number, n_parts = self.part
        places = {key: index for index, key in enumerate(keys)}
        own = [item for place, item in enumerate(places.items()) if place % n_parts == number]
        missing = [index for key, index in own if key not in self.spans_by_key]
        if (n_stored := len(own) - len(missing)) and not self.quiet:
            log.info("%d of %d answers were tagged by an earlier run (%s)", n_stored, len(own), self.path)
        self.detected += len(missing)
        description = f"detector {self.name}"
        detect_each = getattr(self.detector, "detect_each", self._chunk_by_chunk)
        new_spans: dict[str, list[Span] | None] = {}
        with tqdm(total=len(own), initial=n_stored, unit="answer", desc=description, disable=self.quiet) as bar:
            try:
                for place, spans in detect_each(*([column[index] for index in missing] for column in columns)):
                    new_spans[keys[missing[place]]] = spans
                    if len(new_spans) >= CHUNK:
                        self._append(new_spans)
                        bar.update(len(new_spans))
                        new_spans = {}
            finally:
                self._append(new_spans)
            bar.update(len(new_spans))
        texts = [self.spans_by_key[key] if n_parts == 1 else self.spans_by_key.get(key, "[]") for key in keys]
        return [None if (spans := json.loads(text)) is None else [Span(*span) for span in spans] for text in texts]

    def _chunk_by_chunk(self, *columns: Sequence[Any]) -> Iterator[tuple[int, list[Span] | None]]:
        for start in range(0, len(columns[0]), CHUNK):
            yield from enumerate(self.detector.detect(*(column[start : start + CHUNK] for column in columns)), start)

    def _key(self, *fields: str | None) -> str:
        content = json.dumps([self.name, self.version, self._options, *fields], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def _append(self, new_spans: dict[str, list[Span] | None]) -> None:
        if not new_spans:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with naming(self.path), self.path.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps({"key": key, "spans": spans}) + "\n" for key, spans in new_spans.items())
        self.spans_by_key.update((key, json.dumps(spans)) for key, spans in new_spans.items())


def _load_spans(path: Path, mend: bool) -> dict[str, str]:
    spans_by_key: dict[str, str] = {}
    if not path.is_file():
        return spans_by_key
    content = path.read_text("utf-8", errors="replace")
    for line in content.split("\n"):
        try:
            entry = json.loads(line)
            spans = entry["spans"]
            spans_by_key[str(entry["key"])] = json.dumps(None if spans is None else [span_of(span) for span in spans])
        except (KeyError, TypeError, ValueError, RecursionError):
            continue  # cut by a kill; it is detected again
    if mend and content and not content.endswith("\n"):
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n")  # or the next entry would be lost with the cut one
    return spans_by_key
