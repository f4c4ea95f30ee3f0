"""Retrievers of CLAPnq, which rank the passages of a corpus for questions. Each of ours has a file of its own.

Other packages offer theirs with entry points of the group ``lm_eval_grounded.retrievers``. The README of CLAPnq has the
contract of such an entry point; its rankings are checked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from custom_metrics.usage import entry_points
from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks import definition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lm_eval_tasks.clapnq.corpus import Corpus

__all__ = ["OPTIONS", "RETRIEVERS", "Question", "Ranking", "Retriever", "names", "open_retriever", "top_k"]

Ranking = list[tuple[str, float]]  # ids and scores of passages, best first


class Question(NamedTuple):
    """A query. In a run file it has its id only."""

    id: str
    text: str


@runtime_checkable
class Retriever(Protocol):
    """Ranks passages."""

    name: str

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """The k best passages for each question; `k` is at most their number. Only run files may return fewer."""
        ...

    def describe(self) -> dict[str, Any]:
        """Everything that determines the rankings (parameters, model, revision, file), for the results file."""
        ...


RETRIEVERS = ("bm25", "minilm", "bge", "e5", "dense", "run")  # our retrievers; each has tasks of its own
_THIRD_PARTY = "those of other packages"
_ENCODERS = ("minilm", "bge", "e5", "dense")


class Option(NamedTuple):
    retrievers: tuple[str, ...]  # that have it
    meaning: str


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
        _ENCODERS, "cpu, cuda:0, or several: cuda:0+cuda:1 (default: every GPU with 4 GB free, else cpu)"
    ),
    "encoder_batch_size": Option(_ENCODERS, "texts at a time (default 64)"),
    "run": Option(("run",), "a TREC run file"),
    "retriever_args": Option((_THIRD_PARTY,), "options of that retriever: name=value;name=value, or JSON"),
}


def names() -> list[str]:
    return entry_points.names(entry_points.RETRIEVERS)


def refuse_unfitting(name: str, options: Mapping[str, Any], who: str) -> None:
    """Refuse options of other retrievers by a ValueError, whose message, of the command `who`, names these."""
    owner = name if name in RETRIEVERS else _THIRD_PARTY
    for option in options:
        if owner not in OPTIONS[option].retrievers:
            raise ValueError(f"{who}: option {option} is for {', '.join(OPTIONS[option].retrievers)}, not for {name}")


def open_retriever(name: str, corpus: Corpus, options: Mapping[str, Any] | None = None) -> Retriever:
    """Create a retriever over a corpus: one of :func:`names`, with options of :data:`OPTIONS`; those of other retrievers
    are ignored. A UsageError where the name is unknown, the options do not fit, or an entry point makes none; a
    MissingSource or CorruptSource where a model or file that it needs is not available, or damaged."""
    offer = entry_points.find_offer(entry_points.RETRIEVERS, name)
    if offer is None:
        raise UsageError(f"clapnq: unknown retriever {name!r}{known_instead(name, names())}")
    factory, given = entry_points.load(offer), options or {}
    if offer.ours:
        ours: Retriever = factory(corpus, given)
        return ours
    own = definition.pairs("retriever_args", given.get("retriever_args"), "clapnq")
    try:
        made = factory(corpus, own)
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise UsageError(f"clapnq: retriever {name}: {error}") from error
    if not isinstance(made, Retriever):
        raise UsageError(
            f"clapnq: retriever {name}: {offer} makes a {type(made).__name__}; a retriever has name, search and "
            f"describe (lm_eval_tasks.clapnq.retrieval.Retriever)"
        )
    return _Checked(made, name, offer.package, corpus)


def fault_of(ranking: Ranking) -> str:
    """What is wrong with a ranking; empty where nothing is."""
    ids, scores = {id for id, _ in ranking}, [score for _, score in ranking]
    if len(ids) < len(ranking):
        return "a passage stands twice"
    is_sorted = all(map(math.isfinite, scores)) and scores == sorted(scores, reverse=True)
    return "" if is_sorted else "scores are not finite, or rise"


class _Checked:
    """A retriever of another package whose rankings and description are checked before they are used."""

    def __init__(self, retriever: Retriever, name: str, package: str, corpus: Corpus) -> None:
        self.name = name
        self._retriever = retriever
        self._package = package
        self._known = frozenset(corpus.ids)

    def describe(self) -> dict[str, Any]:
        """The retriever's own description, its name and its package."""
        described = {**self._retriever.describe(), "retriever": self.name, "package": self._package}
        try:
            json.dumps(described, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise self._wrong(f"describe() gives what is no JSON ({error})") from error
        return described

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        rankings = [[(id, float(score)) for id, score in ranking] for ranking in self._retriever.search(questions, k)]
        if len(rankings) != len(questions):
            raise self._wrong(f"{len(rankings)} rankings for {len(questions)} questions")
        for question, ranking in zip(questions, rankings, strict=True):
            unknown = [id for id, _ in ranking if id not in self._known]
            fault = f"passage {unknown[0]!r} is not in the corpus" if unknown else fault_of(ranking)
            if len(ranking) > k or fault:
                raise self._wrong(f"question {question.id}: {fault or f'more than k={k} passages'}")
        return rankings

    def _wrong(self, what: str) -> UsageError:
        return UsageError(f"clapnq: retriever {self.name} of {self._package}: {what}")


def top_k(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.intp]:
    """Rows of the k largest scores, the largest first; of equal scores the earlier row first.

    Partial sorting leaves the order of equal scores open, and numpy's depends on the processor. This order depends on the
    data alone.

    Args:
        scores: (rows,), none of them ``nan``.
        k: from 1 to the number of rows.
    """
    import numpy as np  # here: the options of `export` and `retrieve` stand in this module

    rows = np.flatnonzero(scores >= np.sort(scores)[-k])
    return rows[np.argsort(-scores[rows], kind="stable")][:k]
