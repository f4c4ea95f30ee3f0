"""What a classifier's classes mean: borne out, hallucinated, or one of the categories."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION
from detector_plugin.detector import UnusableDetector

BORNE_OUT = "O"
"""The meaning of a class for what the reference bears out."""
UNNAMED = (BORNE_OUT, HALLUCINATION)
"""Of a token's two classes that have no names: as LettuceDetect numbers them."""
_NAMES = {
    BORNE_OUT: "o|0|supported|support|supports|none|no hallucination|not hallucination|not hallucinated|non hallucinated|"
    "non hallucination|faithful|factual|grounded|correct|consistent|entailed|entailment|entails|aligned",
    HALLUCINATION: "1|hallucinated|hallucination|hallucinations|unsupported|not supported|unfaithful|ungrounded|"
    "not grounded|hal|halu|not entailment|non entailment|not entailed|incorrect|inconsistent",
    # classes of entailment and of fact checks (MNLI, FEVER)
    "contradictory": "contradictory|contradiction|contradicts|refuted|refutes",
    "unverifiable": "unverifiable|neutral|not enough info",
}
_MEANINGS = {name: name for name in CATEGORIES} | {
    name: meaning for meaning, names in _NAMES.items() for name in names.split("|")
}
_BIO = re.compile(r"^[bi] (?=.)")  # after "-" became a space
_NUMBERS = (["label 0", "label 1"], ["0", "1"])  # what transformers calls classes without a name, and what others do


def class_meanings(
    names: Sequence[str],
    given: Mapping[str, str] | None = None,
    model: str = "the model",
    unnamed: Sequence[str | None] = UNNAMED,
    unit: str = "token",
) -> list[str | None]:
    """The meaning of each class: a category, ``"hallucination"``, or ``None`` for what is borne out.

    Args:
        names: of the classes, in their order (the values of ``id2label``).
        given: label, or number of the class, to category, ``"hallucination"`` or ``"O"``; other labels are read by name.
        model: for the message.
        unnamed: meanings of two classes that have numbers for names; ``None`` where these may mean anything.
        unit: what is classified, for the message.

    Raises:
        UnusableDetector: a label says nothing, none says hallucinated or none says borne out.
    """
    by_folded_name = {meaning.casefold(): meaning for meaning in (BORNE_OUT, HALLUCINATION, *CATEGORIES)}
    named = {}
    for label, meaning in (given or {}).items():
        by_number = label not in names and label.isdecimal() and int(label) < len(names)
        name = names[int(label)] if by_number else label
        if name not in names:
            raise UnusableDetector(
                f"{model}: option labels names {label!r}, but the model's labels are {_quoted(names)}"
            )
        if meaning.casefold() not in by_folded_name:
            raise UnusableDetector(
                f"{model}: option labels says {label}={meaning}; a meaning is O, {HALLUCINATION}, {', '.join(CATEGORIES)}"
            )
        named[name] = by_folded_name[meaning.casefold()]
    plain = [re.sub(r"[\s_-]+", " ", name).strip().casefold() for name in names]
    meanings = [named.get(name) or _meaning_of(of_name) for name, of_name in zip(names, plain, strict=True)]
    if not named and plain in _NUMBERS:
        meanings = [*unnamed]
    elif len(meanings) == 2 and None in meanings and HALLUCINATION in meanings:
        meanings = [meaning or BORNE_OUT for meaning in meanings]  # two classes, one is hallucinated: the other is not
    hallucinated = [meaning for meaning in meanings if meaning not in (None, BORNE_OUT)]
    if None in meanings or BORNE_OUT not in meanings or not hallucinated:
        unclear = [name for name, meaning in zip(names, meanings, strict=True) if meaning is None]
        what = (
            f"it is not clear what {_quoted(unclear)} stand for"
            if unclear
            else f"none of them says that a {unit} is {'hallucinated' if BORNE_OUT in meanings else 'borne out'}"
        )
        first = HALLUCINATION if unclear and BORNE_OUT in meanings else BORNE_OUT
        examples = (f"{name}={HALLUCINATION if index else first}" for index, name in enumerate(unclear or names))
        raise UnusableDetector(
            f"{model}: has the labels {_quoted(names)}, and {what}. Say so with the option labels, for instance "
            f"labels={';'.join(examples)}; a meaning is O (borne out), {HALLUCINATION}, {', '.join(CATEGORIES)}."
        )
    return [None if meaning == BORNE_OUT else meaning for meaning in meanings]


def parse_labels(value: str | Mapping[object, object] | None) -> dict[str, str] | None:
    """The option ``labels``: a mapping, or text as ``"LABEL_0=O;LABEL_1=hallucination"``; else UnusableDetector."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(label): str(meaning) for label, meaning in value.items()}
    pairs = [part.rpartition("=") for part in str(value).split(";")]
    if not all(label.strip() for label, _, _ in pairs):
        raise UnusableDetector(
            f"option labels: {value!r} is no list of label=meaning, such as LABEL_0=O;LABEL_1={HALLUCINATION}"
        )
    return {label.strip(): meaning.strip() for label, _, meaning in pairs}


def _meaning_of(name: str) -> str | None:
    bare = _BIO.sub("", name)
    return _MEANINGS.get(name) or (_MEANINGS.get(bare) if _MEANINGS.get(bare) != BORNE_OUT else None)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
