"""Retrievers by name: ours, and those that other packages offer.

Packages offer names with entry points of the group ``lm_eval_grounded.retrievers``. The README of CLAPnq has the contract
of such an entry point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from custom_metrics.usage import entry_points
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.retrieval.retriever import Retriever
from lm_eval_tasks.definition import metadata

if TYPE_CHECKING:
    from lm_eval_tasks.clapnq.corpus import Corpus

__all__ = ["RETRIEVERS", "names", "open_retriever"]

RETRIEVERS = ("bm25", "minilm", "bge", "e5", "dense", "run", "hybrid")
"""Ours; each has tasks of its own."""


def names() -> list[str]:
    """Every retriever that is installed, sorted."""
    return entry_points.names(entry_points.RETRIEVERS)


def open_retriever(name: str, corpus: Corpus, options: Mapping[str, Any] | None = None) -> Retriever:
    """The retriever of that name over a corpus.

    Args:
        name: one of :func:`names`.
        corpus: what is searched.
        options: keys of ``OPTIONS``; those of other retrievers are ignored.

    Raises:
        ValueError: there is none of that name (the message lists them), or its options do not fit.
        MissingSource, CorruptSource: a model or file it needs is not to be had, or damaged.
    """
    offer = entry_points.find(entry_points.RETRIEVERS, name)
    if offer is None:
        raise UsageError(f"clapnq: unknown retriever {name!r}; known are {', '.join(names())}")
    opens, given = entry_points.load(offer), options or {}
    if offer.ours:
        ours: Retriever = opens(corpus, given)
        return ours
    from lm_eval_tasks.clapnq.retrieval.others import opened

    return opened(offer, opens, corpus, metadata.pairs("retriever_args", given.get("retriever_args"), "clapnq"))
