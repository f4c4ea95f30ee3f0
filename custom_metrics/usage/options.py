"""Options by name: read them from one text, refuse an unknown one, and suggest the nearest known one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any

from custom_metrics.usage.plain_errors import UsageError

GONE = {
    "auto": "name a detector, such as lexical or a classifier of the hub",
    "engine": "classifiers run in transformers, on several GPUs by `accelerate launch`",
    "hybrid": "fuse the rankings yourself, and name the run file (clapnq_rag_run, run=FILE)",
}
"""Names of detectors, retrievers and options that went in version 0.1, to what to use instead."""

_WORDS = {"true": True, "false": False, "none": None}


def assignments(text: str) -> dict[str, Any]:
    """The options of a text ``name=value,name=value``, with the types that their values look like.

    The harness reads ``--model_args`` so. Its versions differ in a few values, such as ``none`` and quoted text; this reads
    all as 0.4.13 does. What has no ``=`` is the name of an empty text.
    """
    pairs = (part.partition("=") for part in text.strip().split(",") if part)
    return {name: _typed(value.strip()) for name, _, value in pairs}


def _typed(text: str) -> Any:
    """True, False, None, a number, the text between quotation marks, or the text."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float) if text.lstrip("+-").isdigit() else (float,):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def known_instead(name: str, known: Collection[str]) -> str:
    """The end of a message about an unknown name: ``; did you mean 'NAME'? There are NAME``; or what to use instead."""
    if name in GONE:
        return f": it is gone; {GONE[name]}"
    plain = {_plain(option): option for option in known}
    near = difflib.get_close_matches(_plain(name), plain, 1)
    if not known:
        return "; there are none"
    return (f"; did you mean {plain[near[0]]!r}? There are " if near else "; there are ") + ", ".join(known)


def misspelt(name: str, known: Collection[str]) -> str | None:
    """The known name of which `name` is a misspelling; ``None`` where it may well be the name of something else.

    A name is nearly another in three cases: it differs in capitals, ``-`` and ``_`` only; by one edit (a letter too many,
    too few, wrong, or swapped with its neighbour) in a name of five letters or more; by two edits in one of ten or more.
    """
    from rapidfuzz.distance import OSA

    edits = {option: OSA.distance(_plain(name), _plain(option)) for option in known}
    near = [option for option in known if edits[option] <= (len(_plain(option)) >= 5) + (len(_plain(option)) >= 10)]
    return min(near, key=edits.__getitem__, default=None)


def refuse_unknown(
    owner: str, options: Iterable[str], made: Callable[..., Any], error: type[UsageError] = UsageError
) -> None:
    """Refuse options that a class or function does not take, with an `error` that names their owner. If it takes any,
    refuse only misspelt ones of its own; one without a signature refuses nothing."""
    signature = signature_of(made)
    if signature is None:
        return
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    bases = getattr(made, "__mro__", ())[1:-1] if takes_any else ()  # to which it hands what it does not know
    signatures = [signature, *map(signature_of, (base.__init__ for base in bases))]
    parameters = [parameter for parsed in signatures if parsed is not None for parameter in parsed.parameters.values()]
    known = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    for name in sorted(set(options) - set(known)):
        if not takes_any:
            raise error(f"{owner}: no option {name!r}{known_instead(name, known)}")
        near = misspelt(name, known)
        if near is not None and len(near) >= _LONG:
            raise error(f"{owner}: no option {name!r}; did you mean {near!r}?")


def signature_of(made: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a class or function; ``None`` for those without one: some that are written in C."""
    try:
        return inspect.signature(made)
    except (TypeError, ValueError):
        return None


_LONG = 8  # letters: sglang has both dp_size and pp_size


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
