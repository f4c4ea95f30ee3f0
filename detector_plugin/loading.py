"""Detectors by name: a name that an installed package offers, or a model of the Hugging Face hub or a folder.

Packages offer names with entry points of the group ``lm_eval_grounded.detectors``; README.md has the contract.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.usage import entry_points
from custom_metrics.usage.options import known_instead, refuse_unknown, signature_of
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import Detector, UnusableDetector

_ATTRIBUTES = ("name", "version", "licence", "detect")


class _Kind(NamedTuple):
    """A kind of detector: its factory, the check of its options, its name in calibrations, its signature if known."""

    make: Callable[..., Detector]
    check_model: Callable[..., object]
    calibrated_name: Callable[[Mapping[str, Any]], str]
    signature: inspect.Signature | None


def load_detector(name: str, **options: Any) -> Detector:
    """Load a detector by name: ``lexical``; ``llm`` (options ``model`` and the model's arguments); a name that another
    package offers; or the name or path of a Hugging Face classifier or PEFT adapter, with the options of
    :class:`detector_plugin.transformers.TransformersDetector`. UnusableDetector where there is no such detector, it cannot
    be loaded, or an option is not known."""
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
    _find_kind(name).check_model(**json.loads(options))


def check_name(name: str) -> None:
    """Raise an UnusableDetector where no detector has this name."""
    _find_kind(name)


def calibrated_name(name: str, options: Mapping[str, Any]) -> str:
    """The name under which a calibration knows a detector: ``llm:MODEL`` for a prompted language model. The detector is not
    loaded. UnusableDetector where the name is neither the detector's nor begins with that and a colon.
    """
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
            f"name a detector: {', '.join(known)}, or the name or path of a classifier of Hugging Face"
        )
    try:
        if offer := entry_points.find_offer(entry_points.DETECTORS, name):
            return _entry_point_kind(offer)
    except UsageError as error:
        raise UnusableDetector(str(error)) from error
    if "/" not in name and not Path(name).expanduser().is_dir():
        raise UnusableDetector(
            f"detector {name}: there is no such detector, and no folder of that name{known_instead(name, known)}, and "
            f"models of the hub, which are called OWNER/NAME"
        )
    from detector_plugin.transformers import TransformersDetector, check_model

    as_given = name.rstrip("/") or name
    factory = partial(TransformersDetector, name)

    def make(**options: Any) -> TransformersDetector:
        refuse_unknown(f"detector {name}", options, factory, UnusableDetector)
        return factory(**options)

    return _Kind(make, partial(check_model, name), lambda options: as_given, signature_of(TransformersDetector))


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
