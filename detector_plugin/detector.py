"""The interface of hallucination detectors, their error, and what every kind of detector needs.

A detector reads references and answers and says which spans of each answer the reference does not bear out.
:mod:`detector_plugin.loading` finds one by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from custom_metrics.reading.spans import Span
from custom_metrics.usage.plain_errors import UsageError

DEFAULT_DETECTOR = "lexical"
"""The detector that is used where nobody names one: it runs on any machine, and ships with a calibration."""


class UnusableDetector(UsageError):
    """There is no such detector, or the model is not a detector. The message says what there is instead."""


@runtime_checkable
class Detector(Protocol):
    """The one interface of all detectors.

    Attributes:
        name: what a calibration knows it by: ``lexical``, or the model's name.
        version: of weights and rules; two detectors of one name and different versions need calibrations of their own.
        licence: of the weights, as their publisher states it; ``unknown`` where nothing does.
    """

    name: str
    version: str
    licence: str

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> Sequence[list[Span] | None]:
        """Hallucinated spans of each answer, in characters of it, in order, not overlapping; ``None`` for an answer that
        could not be read and was to be left out.

        A detector that computes probabilities gives each span its own. All others leave it at 1.

        Args:
            references: what each answer is held against.
            answers: any text; an empty one has no spans.
            languages: ISO 639 code of each answer, or ``None``.
            questions: what each answer answers; detectors whose prompt has no room for it ignore it.

        Raises:
            UsageError: these are no lists of texts, or differ in length.
        """
        ...


def describe(detector: Detector) -> dict[str, str]:
    """Name, version and licence of a detector, for results files."""
    return {"name": detector.name, "version": detector.version, "licence": detector.licence}


def same_length(references: Sequence[str], answers: Sequence[str], others: Mapping[str, Sequence[Any] | None]) -> None:
    """Raise UsageError where references and answers are no lists of texts, or any list is not as long as the answers."""
    given: dict[str, Sequence[Any] | None] = {"answers": answers, "references": references, **others}
    for what, values in given.items():
        if isinstance(values, (str, bytes)):
            raise UsageError(
                f"detect takes lists of equal length, and {what} is one text. Of one answer: detect([reference], [answer], "
                f"[language])"
            )
    for what in ("answers", "references"):
        for place, value in enumerate(given[what] or ()):
            if not isinstance(value, str):
                raise UsageError(f"detect takes texts, and {what}[{place}] is {type(value).__name__}: {value!r:.60}")
    for what, values in given.items():
        if values is not None and len(values) != len(answers):
            raise UsageError(f"{len(answers)} answers, but {len(values)} {what}")


# Values of options, as Python or the command line gives them: each raises UnusableDetector for what is none


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UnusableDetector(f"option {option}: {value!r} is none of {', '.join(known)}")


def number(option: str, value: Any, kind: Any, least: float, most: float = float("inf")) -> Any:
    """An ``int`` or ``float`` between two bounds; ``None`` stays."""
    if value is None:
        return None
    try:
        converted = kind(value)
        if isinstance(value, bool) or converted != float(value) or not least <= converted <= most:
            raise ValueError
    except (TypeError, ValueError):
        what = "a whole number" if kind is int else "a number"
        span = f"from {least} to {most}" if most != float("inf") else f"from {least} on"
        raise UnusableDetector(f"option {option}: {value!r} is not {what} {span}") from None
    return converted


def flag(option: str, value: Any) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).casefold() not in known:
        raise UnusableDetector(f"option {option}: {value!r} is neither True nor False")
    return known[str(value).casefold()]
