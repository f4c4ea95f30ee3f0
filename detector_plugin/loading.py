"""Detectors by name: a name that an installed package offers, else a model of the Hugging Face hub or a folder.

Packages offer names with entry points of the group ``lm_eval_grounded.detectors``. README.md has the contract of such an
entry point.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.usage import entry_points
from custom_metrics.usage.options import known_instead, refuse_unknown, signature_of
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import Detector, UnusableDetector

__all__ = ["calibrated_name", "check_detector", "has_package", "load_detector", "takes"]

_PARTS = ("name", "version", "licence", "detect")


class _Kind(NamedTuple):
    """What a name stands for.

    Attributes:
        make: makes the detector from its options.
        check: raises what is known to be wrong with options before weights are loaded.
        calibrated_name: what a calibration knows the detector by, from its options.
        signature: of what makes it, where that is known.
    """

    make: Callable[..., Detector]
    check: Callable[..., object]
    calibrated_name: Callable[[Mapping[str, Any]], str]
    signature: inspect.Signature | None


def load_detector(name: str, **options: Any) -> Detector:
    """The detector of a name.

    Args:
        name: ``lexical``; ``llm`` (options ``model`` and the model's arguments); a name that another package offers; or
            the name or path of a Hugging Face token classifier or PEFT adapter, for which the options of
            :class:`detector_plugin.transformers.TransformersDetector` apply.
        options: of that detector.

    Raises:
        UnusableDetector: there is no such detector, it cannot be loaded, or an option is not known.
    """
    detector = _kind(name).make(**options)
    lacking = [part for part in _PARTS if not hasattr(detector, part)]
    if lacking:
        raise UnusableDetector(
            f"detector {name}: what was loaded is a {type(detector).__name__} without {', '.join(lacking)}; a detector has "
            f"{', '.join(_PARTS)} (detector_plugin.Detector)"
        )
    known_as = calibrated_name(name, options)
    if detector.name != known_as:
        raise UnusableDetector(
            f"detector {name}: its attribute name is {detector.name!r}, but calibrations know it by {known_as!r}; the two "
            f"must be the same (hook calibrated_name, detector_plugin/README.md)"
        )
    return detector


@lru_cache(maxsize=32)
def check_detector(name: str, options: str = "{}") -> None:
    """Raise the errors of loading a detector that can be found without loading weights.

    Args:
        name: see :func:`load_detector`.
        options: of the detector, as JSON.

    Raises:
        UnusableDetector: see :func:`load_detector`.
    """
    _kind(name).check(**json.loads(options))


def calibrated_name(name: str, options: Mapping[str, Any]) -> str:
    """The name under which a calibration knows a detector: ``llm:MODEL`` for a prompted language model. The detector is not
    loaded.

    Raises:
        UnusableDetector: it is neither the detector's name nor begins with that and a colon.
    """
    return _kind(name).calibrated_name(options)


def has_package(known_as: str) -> bool:
    """Whether a package offers this name of a calibrated detector. Otherwise it is a model's name or folder."""
    return known_as.partition(":")[0] in entry_points.names(entry_points.DETECTORS)


def takes(name: str, option: str) -> bool:
    """Whether a detector has an option of this name: ``device``, say, which the harness gives to all models."""
    signature = _kind(name).signature
    return signature is not None and option in signature.parameters


def _kind(name: str) -> _Kind:
    known = entry_points.names(entry_points.DETECTORS)
    if not isinstance(name, str) or not name.strip():
        raise UnusableDetector(
            f"name a detector: {', '.join(known)}, or the name or path of a Hugging Face token classification model"
        )
    try:
        offer = entry_points.find(entry_points.DETECTORS, name)
        return _of_model(name) if offer is None else _offered(offer)
    except UnusableDetector:
        raise
    except UsageError as error:
        raise UnusableDetector(str(error)) from error


def _of_model(name: str) -> _Kind:
    """A token classifier of the hub or of a folder."""
    from detector_plugin.transformers import TransformersDetector, check

    if "/" not in name and not Path(name).expanduser().is_dir():
        known = known_instead(name, entry_points.names(entry_points.DETECTORS))
        raise UnusableDetector(
            f"detector {name}: there is no such detector, and no folder of that name{known}, and models of the hub, which "
            f"are called OWNER/NAME"
        )
    return _Kind(
        partial(TransformersDetector, name),
        partial(check, name),
        lambda options: name.rstrip("/") or name,
        signature_of(TransformersDetector),
    )


def _offered(offer: entry_points.Offer) -> _Kind:
    """What a package offers, with the package's own check and name for calibrations where it has them."""
    made = entry_points.load(offer)
    if not callable(made):
        raise UnusableDetector(f"detector {offer.name}: {offer} is no class or function that makes a detector")
    signature = signature_of(made)

    def binds(**options: Any) -> None:
        if signature is not None:
            signature.bind(**options)

    def known(call: Callable[..., Any]) -> Callable[..., Any]:
        def of_known(**options: Any) -> Any:
            refuse_unknown(f"detector {offer.name}", options, made, UnusableDetector)
            return call(**options)

        return _told(offer, of_known)

    def known_as(options: Mapping[str, Any]) -> str:
        hook = getattr(made, "calibrated_name", None)
        found = offer.name if hook is None else str(_told(offer, hook)(options))
        if found != offer.name and not found.startswith(f"{offer.name}:"):
            raise UnusableDetector(
                f"detector {offer.name}: calibrations know it by {found!r}, says {offer}; that must be {offer.name!r}, or "
                f"begin with '{offer.name}:'"
            )
        return found

    return _Kind(known(made), known(getattr(made, "check", binds)), known_as, signature)


def _told(offer: entry_points.Offer, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with what a user can put right told as that."""

    def told(*arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except UnusableDetector:
            raise
        except (TypeError, ValueError, ImportError, OSError) as error:
            # an option it does not have, a value that is none, a library or file that is not there
            raise UnusableDetector(f"detector {offer.name}: {error}") from error

    return told
