"""Entry points: the names under which installed packages, ours among them, offer detectors and retrievers.

The installed packages are read once, when the first name is asked for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DETECTORS = "lm_eval_grounded.detectors"
RETRIEVERS = "lm_eval_grounded.retrievers"

_OURS = "lm-eval-grounded"
_KIND = {DETECTORS: "detector", RETRIEVERS: "retriever"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # no "/", as models of the hub; names end at ":" and "+"


class Offer(NamedTuple):
    """A name that a package offers to users."""

    name: str
    kind: str  # detector or retriever
    package: str  # the distribution that offers it, and its version
    ours: bool  # whether that is this one
    entry: EntryPoint  # what it stands for: module and object, not imported yet

    def __str__(self) -> str:
        return f"{self.package} ({self.entry.value})"


def names(group: str) -> list[str]:
    """Every name of a group, sorted."""
    return sorted(_offers(group, tuple(sys.path)))


def find_offer(group: str, name: str) -> Offer | None:
    """The offer of a name, or ``None``. UsageError where two packages make one, or ours must be installed anew."""
    offers = _offers(group, tuple(sys.path))
    offered = offers.get(name, ())
    if len(offered) > 1:
        raise UsageError(
            f"{_KIND[group]} {name}: {len(offered)} installed packages give this name to one of theirs: "
            f"{', '.join(map(str, offered))}. Uninstall all but one"
        )
    if not offered and not any(offer.ours for several in offers.values() for offer in several):
        raise UsageError(
            f"{_KIND[group]} {name}: {_OURS} is not installed, or was installed before its files changed: its own "
            f"{_KIND[group]}s are not among the installed entry points. Install it again (pip install)"
        )
    return offered[0] if offered else None


def load(offer: Offer) -> Any:
    """Import the object of an offer; a UsageError where that fails."""
    try:
        return offer.entry.load()
    except Exception as error:  # somebody else's module may raise anything
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise UsageError(f"{offer.kind} {offer.name}: {offer} cannot be imported: {why}") from error


@lru_cache(maxsize=8)
def _offers(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[Offer, ...]]:
    """Name to its offers, of the packages on a path."""
    from importlib.metadata import entry_points

    by_name: dict[str, tuple[Offer, ...]] = {}
    for entry in entry_points(group=group):
        if entry.dist is not None and _NAME.fullmatch(entry.name):
            package = entry.dist.metadata["Name"] or "?"
            ours = package.casefold().replace("_", "-") == _OURS
            offer = Offer(entry.name, _KIND[group], f"{package} {entry.dist.version}", ours, entry)
            by_name[entry.name] = (*by_name.get(entry.name, ()), offer)
    return by_name
