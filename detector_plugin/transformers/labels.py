"""The meaning of a token classifier's classes: borne out, hallucinated, or one of the categories."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION
from detector_plugin.detector import UnusableDetector

__all__ = ["mapping_of", "meanings"]

_SUPPORTED = {
    *("o", "0", "supported", "support", "none", "no hallucination", "not hallucination", "not hallucinated"),
    *("non hallucinated", "non hallucination", "faithful", "factual", "grounded", "correct", "consistent", "entailed"),
}
_HALLUCINATED = {
    *("1", "hallucinated", "hallucination", "hallucinations", "unsupported", "not supported", "unfaithful"),
    *("ungrounded", "not grounded", "hal", "halu"),
}
_BIO = re.compile(r"^[bi] (?=.)")  # after "-" became a space


def meanings(
    names: Sequence[str], given: Mapping[str, str] | None = None, model: str = "the model"
) -> list[str | None]:
    """The meaning of each class: a category, ``"hallucination"``, or ``None`` for a token that is borne out.

    Args:
        names: of the classes, in their order (the values of ``id2label``).
        given: label, or number of the class, to category, ``"hallucination"`` or ``"O"``; other labels are read by name.
        model: for the message.

    Raises:
        UnusableDetector: a label says nothing, none says hallucinated or none says borne out.
    """
    known = {meaning.casefold(): meaning for meaning in ("O", HALLUCINATION, *CATEGORIES)}
    named = {}
    for label, meaning in (given or {}).items():
        by_number = label not in names and label.isdecimal() and int(label) < len(names)
        name = names[int(label)] if by_number else label
        if name not in names:
            raise UnusableDetector(f"{model}: option labels names {label!r}, but the model's labels are {_list(names)}")
        if meaning.casefold() not in known:
            raise UnusableDetector(
                f"{model}: option labels says {label}={meaning}; a meaning is O, {HALLUCINATION}, {', '.join(CATEGORIES)}"
            )
        named[name] = known[meaning.casefold()]
    read = [named[name] if name in named else _by_name(name) for name in names]
    if not named and [_plain(name) for name in names] == ["label 0", "label 1"]:
        read = ["O", HALLUCINATION]  # what transformers calls unnamed classes
    elif len(read) == 2 and None in read and HALLUCINATION in read and "O" not in read:
        read = [meaning or "O" for meaning in read]  # two classes, one is hallucinated: the other is not
    hallucinated = [meaning for meaning in read if meaning not in (None, "O")]
    if None in read or "O" not in read or not hallucinated:
        unclear = [name for name, meaning in zip(names, read, strict=True) if meaning is None]
        what = (
            f"it is not clear what {_list(unclear)} stand for"
            if unclear
            else f"none of them says that a token is {'hallucinated' if 'O' in read else 'borne out'}"
        )
        example = ";".join(f"{name}={'O' if index == 0 else HALLUCINATION}" for index, name in enumerate(names))
        raise UnusableDetector(
            f"{model}: has the labels {_list(names)}, and {what}. Say so with the option labels, for instance "
            f"labels={example}; a meaning is O (borne out), {HALLUCINATION}, {', '.join(CATEGORIES)}."
        )
    return [None if meaning == "O" else meaning for meaning in read]


def mapping_of(value: str | Mapping[object, object] | None) -> dict[str, str] | None:
    """The option ``labels``: a mapping, or text as ``"LABEL_0=O;LABEL_1=hallucination"``; else UnusableDetector."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(label): str(meaning) for label, meaning in value.items()}
    found: dict[str, str] = {}
    for part in str(value).split(";"):
        label, equals, meaning = part.rpartition("=")
        if not equals or not label.strip():
            raise UnusableDetector(
                f"option labels: {value!r} is no list of label=meaning, such as LABEL_0=O;LABEL_1={HALLUCINATION}"
            )
        found[label.strip()] = meaning.strip()
    return found


def _by_name(name: str) -> str | None:
    plain = _plain(name)
    if plain in _SUPPORTED:
        return "O"
    bare = _BIO.sub("", plain)
    if bare in _HALLUCINATED:
        return HALLUCINATION
    return bare if bare in CATEGORIES else None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
