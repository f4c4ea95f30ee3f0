"""Detectors without weights: reference points that another detector must beat.

``flag-all`` marks every answer whole, ``flag-none`` nothing, and ``flag-unseen`` each word that neither the reference nor
the question holds. Shared tasks have the first two as baselines ("mark all", "mark none" of Vázquez et al. 2025).
"""

from __future__ import annotations

from itertools import repeat

from custom_metrics.reading.spans import Span
from custom_metrics.reading.words import words
from detector_plugin.detector import Languages, Questions, Spans, Texts, check_lengths


class FlagNone:
    """Marks nothing."""

    name, version, licence = "flag-none", "1", "Apache-2.0"

    def detect(self, references: Texts, answers: Texts, languages: Languages, questions: Questions = None) -> Spans:
        """See :meth:`detector_plugin.detector.Detector.detect`."""
        check_lengths(references, answers, languages, questions)
        return [self.spans(*row) for row in zip(references, answers, languages, questions or repeat(""), strict=False)]

    def spans(self, reference: str, answer: str, language: str | None, question: str) -> list[Span]:
        return []


class FlagAll(FlagNone):
    """Marks every answer whole."""

    name = "flag-all"

    def spans(self, reference: str, answer: str, language: str | None, question: str) -> list[Span]:
        return [Span(0, len(answer))] if answer.strip() else []


class FlagUnseen(FlagNone):
    """Marks the words that neither reference nor question holds, punctuation and case aside."""

    name = "flag-unseen"

    def spans(self, reference: str, answer: str, language: str | None, question: str) -> list[Span]:
        seen = {_bare(text[start:end]) for text in (reference, question) for start, end in words(text, language)}
        places = words(answer, language)
        return [Span(start, end) for start, end in places if _bare(answer[start:end]) not in seen | {""}]


def _bare(word: str) -> str:
    """The letters, marks and digits of a word, without case."""
    return "".join(character for character in word.casefold() if f"a{character}".isidentifier())
