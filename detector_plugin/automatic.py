"""``auto``: of the public detectors in ``automatic.tsv``, the one for a language and a kind of answers; and a detector that
sends each answer to that of its language."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from custom_metrics.reading.spans import Span
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin.detector import DEFAULT_DETECTOR, Detector, UnusableDetector, check_lengths, describe

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

AUTO, CLOSED_BOOK = "auto", "closed-book"
_UNKNOWN = "und"  # language of an answer, in BCP 47


@lru_cache(maxsize=128)  # so that a choice is logged once
def chosen(language: str, task: str) -> str:
    """The name of the table's detector for a language and a kind of task; ``lexical`` where it has none. It is logged."""
    of_both = (row for row in _table() if (row["language"], row["task"]) == (language, task))
    row = next(of_both, None)
    if row is None:
        log.warning("detector %s: no public one is known for %s, %s: %s", AUTO, language, task, DEFAULT_DETECTOR)
        return DEFAULT_DETECTOR
    log.info(
        "detector %s: for %s, %s: %s, licence %s (its authors' figure: %s; %s)",
        *(AUTO, language, task, row["detector"], row["licence"], row["figure"] or "none", row["source"]),
    )
    return row["detector"]


def _table() -> Sequence[dict[str, str]]:
    return shipped_rows("detector_plugin", "automatic.tsv")


class AutomaticDetector:
    """A detector that sends each answer to the detector of its language, which is loaded when its first answer comes.

    Its version is that of the table.

    Args:
        choose: from a language to the name and the options (JSON) of its detector.
        check: raises UnusableDetector for a name and options, without loading weights.
        load: loads such a detector.
    """

    name, licence = AUTO, "that of each language's detector"

    def __init__(
        self,
        choose: Callable[[str], tuple[str, str]],
        check: Callable[[str, str], object],
        load: Callable[[str, str], Detector],
    ) -> None:
        self.version = f"table {hashlib.sha256(json.dumps(_table()).encode()).hexdigest()[:12]}"
        self._choose, self._check = lru_cache(maxsize=None)(choose), check
        self._load = lru_cache(maxsize=None)(load)
        self._languages: dict[str, None] = {}

    def prepare(self, languages: Iterable[str | None]) -> None:
        """Choose the detectors of some languages; one UnusableDetector says of all that cannot be had what to fetch."""
        lacking: dict[str, str] = {}
        for language in dict.fromkeys(language or _UNKNOWN for language in languages):
            name, options = self._choose(language)
            try:
                self._check(name, options)
            except UnusableDetector as error:
                lacking[name] = str(error)
            self._languages[language] = None
        if lacking:
            raise UnusableDetector("; ".join(lacking.values()))

    def of(self, language: str | None) -> Detector:
        """The detector of a language, loaded."""
        return self._load(*self._choose(language or _UNKNOWN))

    def by_language(self) -> dict[str, dict[str, str]]:
        """The description of the detector of each language that there was; that of unknown ones is ``und``."""
        return {language: describe(self.of(language)) for language in self._languages}

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> list[list[Span] | None]:
        """See :class:`detector_plugin.Detector`."""
        check_lengths(references, answers, {"languages": languages, "questions": questions})
        self.prepare(languages)
        spans: list[list[Span] | None] = [[] for _ in answers]
        places: dict[tuple[str, str], list[int]] = {}  # of the answers of each detector
        for place, language in enumerate(languages):
            places.setdefault(self._choose(language or _UNKNOWN), []).append(place)
        for named, of_detector in places.items():
            tagged = self._load(*named).detect(
                [references[place] for place in of_detector],
                [answers[place] for place in of_detector],
                [languages[place] for place in of_detector],
                None if questions is None else [questions[place] for place in of_detector],
            )
            for place, of_answer in zip(of_detector, tagged, strict=True):
                spans[place] = of_answer
        return spans
