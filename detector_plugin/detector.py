"""What a hallucination detector is, and how one is found by name.

A detector reads references and answers and says which spans of each answer the reference does not bear out. All are used
through :func:`load_detector` and :class:`Detector`; each kind lives in a module of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from custom_metrics.plain_errors import UsageError
from custom_metrics.spans import Span

__all__ = ["Detector", "UnusableDetector", "describe", "load_detector"]


class UnusableDetector(UsageError):
    """A detector that does not exist, or a model that is none; the message says what there is instead."""


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
    ) -> list[list[Span]]:
        """Hallucinated spans of each answer, in characters of it, in order, not overlapping.

        A detector that has probabilities gives each span its own; all others leave it at 1.

        Args:
            references: what each answer is held against.
            answers: any text; an empty one has no spans.
            languages: ISO 639 code of each answer, or ``None``.
            questions: what each answer answers; detectors whose prompt has no room for it ignore it.

        Raises:
            ValueError: the sequences differ in length.
        """
        ...


def load_detector(name: str, **options: Any) -> Detector:
    """The detector of a name.

    Args:
        name: ``lexical``; ``llm`` (options ``model`` and the model's arguments); or the name or path of a Hugging Face
            token classifier or PEFT adapter, for which the options of
            :class:`detector_plugin.transformers.TransformersDetector` apply.
        options: of that detector.

    Raises:
        UnusableDetector: there is no such detector, it cannot be loaded, or an option is not known.
    """
    if not isinstance(name, str) or not name.strip():
        raise UnusableDetector(
            "name a detector: lexical, llm, or the name or path of a Hugging Face token classification model"
        )
    if name == "lexical":
        from detector_plugin.lexical import LexicalDetector as kind
    elif name == "llm":
        from detector_plugin.llm import LLMDetector as kind  # type: ignore[assignment]
    else:
        from detector_plugin.transformers import TransformersDetector

        return TransformersDetector(name, **options)
    try:
        return kind(**options)
    except UnusableDetector:
        raise
    except (TypeError, ValueError) as error:  # an option it does not have, or a value that is none
        raise UnusableDetector(f"detector {name}: {error}") from error


def calibrated_name(name: str, options: Mapping[str, Any]) -> str:
    """What a calibration knows a detector by, without loading it: ``llm:MODEL`` for a prompted language model."""
    return f"llm:{options.get('pretrained')}" if name == "llm" else name.rstrip("/") or name


@lru_cache(maxsize=32)
def check_detector(name: str, options: str = "{}") -> None:
    """Raise what loading the detector would raise, as far as that can be known without loading weights.

    Args:
        name: see :func:`load_detector`.
        options: of the detector, as JSON.

    Raises:
        UnusableDetector: see :func:`load_detector`.
    """
    given = json.loads(options)
    if name == "llm":
        from detector_plugin.llm import check

        check(**given)
    elif name == "lexical" or not isinstance(name, str) or not name.strip():
        load_detector(name, **given)
    else:
        from detector_plugin.transformers import check as check_classifier

        check_classifier(name, **given)


def describe(detector: Detector) -> dict[str, str]:
    """Name, version and licence: what belongs into results."""
    return {"name": detector.name, "version": detector.version, "licence": detector.licence}


def same_length(references: Sequence[str], answers: Sequence[str], others: Mapping[str, Sequence[Any] | None]) -> None:
    """Raises ValueError where there are not as many references, languages and so on as answers."""
    for what, values in {"references": references, **others}.items():
        if values is not None and len(values) != len(answers):
            raise ValueError(f"{len(answers)} answers, but {len(values)} {what}")
