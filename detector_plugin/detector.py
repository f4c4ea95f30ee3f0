"""The interface of hallucination detectors, their error, and the checks of arguments that all kinds of detectors share.

A detector marks the spans of an answer that its reference does not bear out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from custom_metrics.reading.spans import Span
from custom_metrics.usage.plain_errors import UsageError

DEFAULT_DETECTOR = "lexical"  # the default detector: it runs on any machine, and ships with a calibration
RAG = "rag"  # kind of answers that were written from given passages; a detector has other errors on them
SPEED = "documents_per_second"  # key of a results file's ``detector``: how many documents it read in a second


Texts: TypeAlias = Sequence[str]
Languages: TypeAlias = Sequence[str | None]
Questions: TypeAlias = Texts | None
Spans: TypeAlias = list[list[Span] | None]


class UnusableDetector(UsageError):
    """A detector does not exist or cannot be used. The message says why, and what there is instead."""


@runtime_checkable
class Detector(Protocol):
    """The one interface of all detectors."""

    name: str  # ``lexical``, or the model's name; calibrations refer to it
    version: str  # of weights and rules; each version of a detector needs a calibration of its own
    licence: str  # of the weights, as their publisher states it, else ``unknown``

    def detect(
        self, references: Texts, answers: Texts, languages: Languages, questions: Questions = None
    ) -> Sequence[list[Span] | None]:
        """The hallucinated spans of each answer, in characters, in order, not overlapping; ``None`` for a failure.

        Each span has its probability; detectors that compute none leave it at 1.

        Args:
            references: the text that each answer is checked against.
            answers: any text; an empty one has no spans.
            languages: ISO 639 code of each answer, or ``None``.
            questions: the question to each answer; detectors whose prompt has no room for it ignore it.

        Raises:
            UsageError: these are not lists of texts, or differ in length.
        """
        ...


def describe(detector: Detector) -> dict[str, str]:
    """Name, version and licence of a detector, for results files."""
    return {"name": detector.name, "version": detector.version, "licence": detector.licence}


def check_lengths(references: Texts, answers: Texts, languages: Languages, questions: Texts | None = None) -> None:
    """Raise UsageError where references and answers are not lists of texts, or lists differ in length."""
    columns: dict[str, Sequence[Any]] = {"answers": answers, "references": references, "languages": languages}
    for name, values in (columns | ({"questions": questions} if questions is not None else {})).items():
        if isinstance(values, (str, bytes)):
            raise UsageError(
                f"detect takes lists of equal length, and {name} is one text. Of one answer: detect([reference], [answer], "
                f"[language])"
            )
        for place, text in enumerate(values) if name in ("answers", "references") else ():
            if not isinstance(text, str):
                raise UsageError(f"detect takes texts, and {name}[{place}] is {type(text).__name__}: {text!r:.60}")
        if len(values) != len(answers):
            raise UsageError(f"{len(answers)} answers, but {len(values)} {name}")


# Values of options, from Python or the command line: each function raises UnusableDetector for an invalid one


def check_choice(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UnusableDetector(f"option {option}: {value!r} is none of {', '.join(known)}")


def parse_number(option: str, value: Any, kind: Any, least: float, most: float = float("inf")) -> Any:
    """An ``int`` or ``float`` between two bounds; ``None`` stays ``None``."""
    if value is None:
        return None
    try:
        converted = kind(value)
        if isinstance(value, bool) or converted != float(value) or not least <= converted <= most:
            raise ValueError
    except (TypeError, ValueError):
        kind_name = "a whole number" if kind is int else "a number"
        interval = f"from {least} to {most}" if most != float("inf") else f"from {least} on"
        raise UnusableDetector(f"option {option}: {value!r} is not {kind_name} {interval}") from None
    return converted


def parse_flag(option: str, value: Any) -> bool:
    values = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).casefold() not in values:
        raise UnusableDetector(f"option {option}: {value!r} is neither True nor False")
    return values[str(value).casefold()]
