"""``auto`` over several languages: the answers of each go to the detector that the table ``automatic.tsv`` has for it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from custom_metrics.reading.spans import Span
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin.detector import DEFAULT_DETECTOR, Detector, UnusableDetector, check_lengths, describe
from detector_plugin.loading import AUTO, CLOSED_BOOK, check_detector, has_option, load_detector, resolve

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class AutomaticDetector:
    """A detector that chooses one for the language of each answer (:func:`detector_plugin.loading.resolve`).

    An answer whose language is not known goes to ``lexical``. Each detector is loaded once, when an answer of its language
    comes, and stays loaded. Its version is that of the table.

    Args:
        task: kind of the answers, ``closed-book`` or ``rag``.
        options: of the detectors; ``lexical`` gets those that it has.
    """

    name, licence = AUTO, "that of each language's detector"

    def __init__(self, task: str = CLOSED_BOOK, **options: Any) -> None:
        table = json.dumps(shipped_rows("detector_plugin", "automatic.tsv"), sort_keys=True)
        self.version = f"table {hashlib.sha256(table.encode()).hexdigest()[:12]}"
        self.task, self.options = task, options
        self._chosen: dict[str, tuple[str, str]] = {}
        self._loaded: dict[str, Detector] = {}

    def prepare(self, languages: Iterable[str | None]) -> None:
        """Choose the detectors of some languages; one UnusableDetector says of all that cannot be had what to fetch."""
        lacking: dict[str, str] = {}
        for language in dict.fromkeys(languages):
            name, options = self._choose(language)
            try:
                check_detector(name, options)
            except UnusableDetector as error:
                lacking[name] = str(error)
        if lacking:
            raise UnusableDetector("; ".join(lacking.values()))

    def of(self, language: str | None) -> Detector:
        """The detector of a language, loaded."""
        name, options = self._choose(language)
        if name not in self._loaded:
            self._loaded[name] = load_detector(name, **json.loads(options))
        return self._loaded[name]

    def by_language(self) -> dict[str, dict[str, str]]:
        """The description of the detector of each language that there was; that of unknown ones is ``und``."""
        return {language: describe(self.of(language)) for language in self._chosen}

    def _choose(self, language: str | None) -> tuple[str, str]:
        """Name, and options as JSON."""
        language = language or "und"  # of BCP 47
        if language not in self._chosen:
            name, options = resolve(AUTO, self.options, language, self.task)
            if name == DEFAULT_DETECTOR and (foreign := [key for key in options if not has_option(name, key)]):
                log.warning("detector %s: %s has no option %s, and runs without", AUTO, name, ", ".join(foreign))
                options = {key: value for key, value in options.items() if key not in foreign}
            self._chosen[language] = name, json.dumps(options, sort_keys=True)
        return self._chosen[language]

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
        places: dict[str, list[int]] = {}  # of the answers of each detector
        for place, language in enumerate(languages):
            places.setdefault(self._choose(language)[0], []).append(place)
        for of_detector in places.values():
            tagged = self.of(languages[of_detector[0]]).detect(
                [references[place] for place in of_detector],
                [answers[place] for place in of_detector],
                [languages[place] for place in of_detector],
                None if questions is None else [questions[place] for place in of_detector],
            )
            for place, of_answer in zip(of_detector, tagged, strict=True):
                spans[place] = of_answer
        return spans
