"""Detectors by name: ``auto``, a name that an installed package offers, or a model of the Hugging Face hub or a folder.

Packages offer names with entry points of the group ``lm_eval_grounded.detectors``; README.md has the contract. ``auto`` is
the public detector that the table ``automatic.tsv`` has for a language and a kind of answers.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.reading.spans import Span
from custom_metrics.usage import entry_points
from custom_metrics.usage.options import known_instead, refuse_unknown, signature_of
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin.detector import (
    DEFAULT_DETECTOR,
    RAG,
    Detector,
    Languages,
    Texts,
    UnusableDetector,
    check_choice,
    check_lengths,
    describe,
)

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

AUTO, CLOSED_BOOK = "auto", "closed-book"
_UNKNOWN = "und"  # language of an answer, in BCP 47
_ATTRIBUTES = ("name", "version", "licence", "detect")


class _Kind(NamedTuple):
    """A kind of detector: its factory, the check of its options before weights are loaded, the name that calibrations know
    it by, and the signature of the factory, where that is known."""

    make: Callable[..., Detector]
    check_model: Callable[..., object]
    calibrated_name: Callable[[Mapping[str, Any]], str]
    signature: inspect.Signature | None


def load_detector(name: str, **options: Any) -> Detector:
    """Load a detector by name: ``lexical``; ``llm`` (options ``model`` and the model's arguments); ``auto`` (options
    ``task`` and perhaps ``language``, :func:`resolve`); a name that another package offers; or the name or path of a
    Hugging Face classifier or PEFT adapter, which has the options of
    :class:`detector_plugin.transformers.TransformersDetector`.

    Raises:
        UnusableDetector: there is no such detector, it cannot be loaded, or an option is not known.
    """
    name, options = resolve(name, options)
    detector = _find_kind(name).make(**options)
    lacking = [attribute for attribute in _ATTRIBUTES if not hasattr(detector, attribute)]
    if lacking:
        raise UnusableDetector(
            f"detector {name}: what was loaded is a {type(detector).__name__} without {', '.join(lacking)}; a detector has "
            f"{', '.join(_ATTRIBUTES)} (detector_plugin.Detector)"
        )
    expected = calibrated_name(name, options)
    if detector.name != expected:
        raise UnusableDetector(
            f"detector {name}: its attribute name is {detector.name!r}, but calibrations know it by {expected!r}; the two "
            f"must be the same (hook calibrated_name, detector_plugin/README.md)"
        )
    return detector


@lru_cache(maxsize=32)
def check_detector(name: str, options: str = "{}") -> None:
    """Raise the errors of :func:`load_detector` that can be found without loading weights; options are JSON."""
    name, parsed = resolve(name, json.loads(options))
    _find_kind(name).check_model(**parsed)


def check_name(name: str) -> None:
    """Raise an UnusableDetector where no detector has this name."""
    _find_kind(name)


def calibrated_name(name: str, options: Mapping[str, Any]) -> str:
    """The name under which a calibration knows a detector: ``llm:MODEL`` for a prompted language model. The detector is not
    loaded. UnusableDetector where the name is neither the detector's nor begins with that and a colon.
    """
    name, options = resolve(name, options)
    return _find_kind(name).calibrated_name(options)


def has_package(known_as: str) -> bool:
    """Whether a package offers this name of a calibrated detector. Otherwise it is a model's name or folder."""
    return known_as.partition(":")[0] in entry_points.names(entry_points.DETECTORS)


def has_option(name: str, option: str) -> bool:
    """Whether a detector has an option of this name, such as ``device``, which the harness passes to all models."""
    signature = _find_kind(name).signature
    return signature is not None and option in signature.parameters


def _find_kind(name: str) -> _Kind:
    known = entry_points.names(entry_points.DETECTORS)
    if not isinstance(name, str) or not name.strip():
        raise UnusableDetector(
            f"name a detector: {', '.join(known)}, {AUTO}, or the name or path of a classifier of Hugging Face"
        )
    try:
        if offer := entry_points.find_offer(entry_points.DETECTORS, name):
            return _entry_point_kind(offer)
    except UsageError as error:
        raise UnusableDetector(str(error)) from error
    if "/" not in name and name != AUTO and not Path(name).expanduser().is_dir():
        raise UnusableDetector(
            f"detector {name}: there is no such detector, and no folder of that name{known_instead(name, known)}, and "
            f"models of the hub, which are called OWNER/NAME"
        )
    from detector_plugin.transformers import TransformersDetector, check_model

    signature = signature_of(TransformersDetector)
    if name != AUTO:
        as_given = name.rstrip("/") or name
        return _Kind(
            partial(TransformersDetector, name), partial(check_model, name), lambda options: as_given, signature
        )

    def with_known(call: Callable[..., Any], /, task: str, **options: Any) -> Any:
        refuse_unknown(f"detector {AUTO}", options, TransformersDetector, UnusableDetector)
        return call(task=task, **options)

    return _Kind(partial(with_known, AutomaticDetector), partial(with_known, dict), lambda options: AUTO, signature)


def _entry_point_kind(offer: entry_points.Offer) -> _Kind:
    factory = entry_points.load(offer)
    if not callable(factory):
        raise UnusableDetector(f"detector {offer.name}: {offer} is not a class or function that makes a detector")
    signature = signature_of(factory)

    def with_options(call: Callable[..., Any], /, **options: Any) -> Any:
        refuse_unknown(f"detector {offer.name}", options, factory, UnusableDetector)
        with _one_line_errors(offer):
            return call(**options)

    def known_as(options: Mapping[str, Any]) -> str:
        hook = getattr(factory, "calibrated_name", lambda options: offer.name)
        with _one_line_errors(offer):
            name = str(hook(options))
        if name != offer.name and not name.startswith(f"{offer.name}:"):
            raise UnusableDetector(
                f"detector {offer.name}: calibrations know it by {name!r}, says {offer}; that must be {offer.name!r}, or "
                f"begin with '{offer.name}:'"
            )
        return name

    check_model = getattr(factory, "check", lambda **options: signature and signature.bind(**options))
    return _Kind(partial(with_options, factory), partial(with_options, check_model), known_as, signature)


@contextmanager
def _one_line_errors(offer: entry_points.Offer) -> Iterator[None]:
    """Turn errors that a user can fix into UnusableDetector, an error of one line."""
    try:
        yield
    except UnusableDetector:
        raise
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise UnusableDetector(f"detector {offer.name}: {error}") from error


# ------------------------------------------------------------------------------------------------------ auto


def resolve(
    name: str, options: Mapping[str, Any], language: str | None = None, task: str = CLOSED_BOOK
) -> tuple[str, dict[str, Any]]:
    """The name and options of the detector that is meant. ``auto`` is the one that the table has for a language and a kind
    of task (``closed-book`` or ``rag``), the options of these names, by default the arguments; ``lexical`` where the table
    has none. The log says which. Without a language it stays ``auto``, with the option ``task``: the language of each
    answer then decides (:class:`AutomaticDetector`). Other names stay as they are. UnusableDetector for an unknown task.
    """
    if name != AUTO:
        return name, dict(options)
    options = {"language": language, "task": task, **options}
    language, task = options.pop("language"), options.pop("task")
    check_choice("task", task, (CLOSED_BOOK, RAG))
    return (chosen(str(language), task), options) if language else (AUTO, {"task": task, **options})


@lru_cache(maxsize=128)  # so that a choice is logged once
def chosen(language: str, task: str) -> str:
    """The name of the table's detector for a language and a kind of task; ``lexical`` where it has none. It is logged."""
    row = next((row for row in _table() if (row["language"], row["task"]) == (language, task)), None)
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
    """Sends each answer to the detector of its language, which is loaded when its first answer comes. ``lexical`` gets
    those of the options that it has. The version is that of the table."""

    name, licence = AUTO, "that of each language's detector"

    def __init__(self, task: str, **options: Any) -> None:
        self.version = f"table {hashlib.sha256(json.dumps(_table()).encode()).hexdigest()[:12]}"
        self._task, self._options = task, options
        self._choose = lru_cache(maxsize=None)(self._choice)
        self._load = lru_cache(maxsize=None)(lambda name, options: load_detector(name, **json.loads(options)))
        self._languages: dict[str, None] = {}

    def _choice(self, language: str) -> tuple[str, str]:
        """Name and options (JSON) of a language's detector."""
        name, options = resolve(AUTO, self._options, language, self._task)
        if name == DEFAULT_DETECTOR and (foreign := [option for option in options if not has_option(name, option)]):
            log.info("detector %s: %s has no option %s, and runs without", AUTO, name, ", ".join(foreign))
            options = {option: value for option, value in options.items() if option not in foreign}
        return name, json.dumps(options, sort_keys=True)

    def prepare(self, languages: Iterable[str | None]) -> None:
        """Choose the detectors of some languages; one UnusableDetector says of all that cannot be had what to fetch."""
        lacking: dict[str, str] = {}
        for language in dict.fromkeys(language or _UNKNOWN for language in languages):
            name, options = self._choose(language)
            try:
                check_detector(name, options)
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
        self, references: Texts, answers: Texts, languages: Languages, questions: Texts | None = None
    ) -> list[list[Span] | None]:
        """See :meth:`detector_plugin.detector.Detector.detect`."""
        check_lengths(references, answers, languages, questions)
        self.prepare(languages)
        spans: list[list[Span] | None] = [[] for _ in answers]
        places: dict[tuple[str, str], list[int]] = {}  # of the answers of each detector
        for place, language in enumerate(languages):
            places.setdefault(self._choose(language or _UNKNOWN), []).append(place)
        for choice, own_places in places.items():
            columns = (references, answers, languages, questions)
            own = [None if column is None else [column[place] for place in own_places] for column in columns]
            for place, found in zip(own_places, self._load(*choice).detect(*own), strict=True):  # type: ignore[arg-type]
                spans[place] = found
        return spans
