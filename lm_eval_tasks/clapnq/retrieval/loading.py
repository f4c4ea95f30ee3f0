"""Retrievers by name, with their options: ours, and those that other packages offer, whose rankings are checked.

Packages offer names with entry points of the group ``lm_eval_grounded.retrievers``. The README of CLAPnq has the contract
of such an entry point.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.usage import entry_points
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.retrieval.retriever import Question, Ranking, Retriever, check_depth
from lm_eval_tasks.definition import metadata

if TYPE_CHECKING:
    from custom_metrics.usage.entry_points import Offer
    from lm_eval_tasks.clapnq.corpus import Corpus

__all__ = ["OF_OTHERS", "OPTIONS", "RETRIEVERS", "Option", "names", "open_retriever"]

RETRIEVERS = ("bm25", "minilm", "bge", "e5", "dense", "run", "hybrid")
"""Ours; each has tasks of its own."""

OF_OTHERS = "those of other packages"
"""Stands for every retriever that another package offers."""


class Option(NamedTuple):
    """An option of retrievers, for ``--metadata`` and the command line: which retrievers have it, and what it means."""

    of: tuple[str, ...]
    means: str


_DENSE = ("minilm", "bge", "e5", "dense")
OPTIONS: dict[str, Option] = {
    "bm25_split": Option(
        ("bm25",), "true: split passages of over 512 words (stride 256), the best part counts, as in the paper"
    ),
    "minilm": Option(("minilm",), "folder of the model's files (default: the Hugging Face hub and its cache)"),
    "bge": Option(("bge",), "the same"),
    "e5": Option(("e5",), "the same"),
    "encoder": Option(("dense",), "a sentence-transformers model, by name or folder"),
    "encoder_revision": Option(("dense",), "branch, tag or commit of the model"),
    "query_prefix": Option(("dense",), "what stands before a question (default: what the model's configuration says)"),
    "passage_prefix": Option(("dense",), "what stands before a passage (default: what the model's configuration says)"),
    "encoder_device": Option(
        _DENSE, "cpu, cuda:0, or several: cuda:0+cuda:1 (default: every GPU with 4 GB free, else cpu)"
    ),
    "encoder_batch_size": Option(_DENSE, "texts at a time (default 64)"),
    "run": Option(("run",), "a TREC run file"),
    "hybrid": Option(("hybrid",), "the two retrievers to fuse, the better one first (default minilm+bm25)"),
    "retriever_args": Option((OF_OTHERS,), "options of that retriever: name=value;name=value, or JSON"),
}
"""Options by name."""


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
    return _opened(offer, opens, corpus, metadata.pairs("retriever_args", given.get("retriever_args"), "clapnq"))


def _opened(
    offer: Offer, opens: Callable[[Corpus, Mapping[str, Any]], Any], corpus: Corpus, options: Mapping[str, Any]
) -> _Checked:
    """The retriever that another package makes of a corpus and its own options.

    Raises:
        ValueError: it cannot be made, or is no retriever.
    """
    try:
        made = opens(corpus, options)
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise UsageError(f"clapnq: retriever {offer.name}: {error}") from error
    if not isinstance(made, Retriever):
        raise UsageError(
            f"clapnq: retriever {offer.name}: {offer} makes a {type(made).__name__}; a retriever has name, search and "
            f"describe (lm_eval_tasks.clapnq.retrieval.Retriever)"
        )
    return _Checked(made, offer.name, offer.package, corpus)


class _Checked:
    """A retriever of another package whose rankings are checked before they are used."""

    def __init__(self, retriever: Retriever, name: str, package: str, corpus: Corpus) -> None:
        self.name = name
        self._retriever = retriever
        self._package = package
        self._ids = corpus.ids
        self._known = frozenset(corpus.ids)

    def describe(self) -> dict[str, Any]:
        """The retriever's own description, its name and its package.

        Raises:
            ValueError: the description cannot be written as JSON.
        """
        said = {**self._retriever.describe(), "retriever": self.name, "package": self._package}
        try:
            json.dumps(said, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise self._wrong(f"describe() gives what is no JSON ({error})") from error
        return said

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """Its rankings.

        Raises:
            ValueError: k is larger than the corpus; there is not one ranking a question; or a ranking is too long, holds a
                passage twice or one that is not in the corpus, or has scores that rise.
        """
        check_depth(k, len(self._ids))
        rankings = [[(id, float(score)) for id, score in found] for found in self._retriever.search(questions, k)]
        if len(rankings) != len(questions):
            raise self._wrong(f"{len(rankings)} rankings for {len(questions)} questions")
        for question, ranking in zip(questions, rankings, strict=True):
            ids, scores = [id for id, _ in ranking], [score for _, score in ranking]
            unknown = [id for id in ids if id not in self._known]
            if unknown:
                raise self._wrong(f"question {question.id}: passage {unknown[0]!r} is not in the corpus")
            if len(ids) > k or len(set(ids)) != len(ids):
                raise self._wrong(f"question {question.id}: more than k={k} passages, or one of them twice")
            if not all(map(math.isfinite, scores)) or scores != sorted(scores, reverse=True):
                raise self._wrong(f"question {question.id}: scores are not finite, or rise")
        return rankings

    def _wrong(self, what: str) -> UsageError:
        return UsageError(f"clapnq: retriever {self.name} of {self._package}: {what}")
