"""Options by name: one that there is not is refused, with the nearest that there is."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any

from custom_metrics.usage.plain_errors import UsageError


def known_instead(name: str, known: Collection[str]) -> str:
    """The end of a message about an unknown name: ``; did you mean 'NAME'? There are NAME, NAME``."""
    plain = {_plain(each): each for each in known}
    near = difflib.get_close_matches(_plain(name), plain, 1)
    if not known:
        return "; there are none"
    return (f"; did you mean {plain[near[0]]!r}? There are " if near else "; there are ") + ", ".join(known)


def misspelt(name: str, known: Collection[str]) -> str | None:
    """The known name that another is nearly; ``None`` where it may well be the name of something else.

    A name is nearly another in three cases: it differs in capitals, ``-`` and ``_`` only; by one edit (a letter too many,
    too few, wrong, or swapped with its neighbour) in a name of five letters or more; by two edits in one of ten or more.
    """
    from rapidfuzz.distance import OSA

    edits = {each: OSA.distance(_plain(name), _plain(each)) for each in known}
    near = [each for each in known if edits[each] <= (len(_plain(each)) >= 5) + (len(_plain(each)) >= 10)]
    return min(near, key=edits.__getitem__, default=None)


def refuse_unknown(
    what: str, given: Iterable[str], made: Callable[..., Any], error: type[UsageError] = UsageError
) -> None:
    """Refuse options that a class or function does not take. If it takes any, refuse only what is nearly one of its own.

    Args:
        what: has the options, for messages.
        given: names.
        made: by its signature; one without a signature refuses nothing.
        error: raised.
    """
    signature = signature_of(made)
    if signature is None:
        return
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    bases = getattr(made, "__mro__", ())[1:-1] if takes_any else ()  # to which it hands what it does not know
    signatures = [signature, *map(signature_of, (base.__init__ for base in bases))]
    parameters = [each for found in signatures if found is not None for each in found.parameters.values()]
    known = [each.name for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    for name in sorted(set(given) - set(known)):
        if not takes_any:
            raise error(f"{what}: no option {name!r}{known_instead(name, known)}")
        near = misspelt(name, known)
        if near is not None and len(near) >= _LONG:
            raise error(f"{what}: no option {name!r}; did you mean {near!r}?")


def signature_of(made: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a class or function; ``None`` for what has none: some that are written in C."""
    try:
        return inspect.signature(made)
    except (TypeError, ValueError):
        return None


_LONG = 8  # letters: sglang has both dp_size and pp_size


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
