"""Retrievers of CLAPnq: each ranks the passages of a corpus for questions. One file a retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from custom_metrics.plain_errors import UsageError
from lm_eval_tasks import metadata

if TYPE_CHECKING:
    from lm_eval_tasks.clapnq.corpus import Corpus

__all__ = [
    "OPTIONS",
    "RETRIEVERS",
    "Option",
    "Question",
    "Ranking",
    "Retriever",
    "check_depth",
    "halves",
    "open_retriever",
]

Ranking = list[tuple[str, float]]
"""Ids of passages with their scores, best first."""


class Question(NamedTuple):
    """What is searched for; its id is what a run file knows it by."""

    id: str
    text: str


class Retriever(Protocol):
    """Ranks passages."""

    name: str

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """For each question the k best passages; fewer only where a run file holds fewer.

        Raises:
            ValueError: k is larger than the corpus.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What makes its rankings what they are: parameters, model, revision, file. Goes into the results."""
        ...


def check_depth(k: int, passages: int) -> None:
    """Refuse to look for more passages than there are.

    Raises:
        ValueError: k is larger than the corpus.
    """
    if k > passages:
        raise UsageError(f"clapnq: {k} passages were asked for, but the corpus has only {passages}")


class Option(NamedTuple):
    """What can be said of a retriever, with ``--metadata`` or on the command line: of which, and what it means."""

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
}
"""Options by name."""


def _bm25(corpus: Corpus, options: Mapping[str, Any]) -> Retriever:
    from lm_eval_tasks.clapnq.retrieval.bm25 import BM25

    return BM25(corpus, split=metadata.flag("bm25_split", options.get("bm25_split", False), "clapnq"))


def _dense(name: str) -> Callable[[Corpus, Mapping[str, Any]], Retriever]:
    def open_dense(corpus: Corpus, options: Mapping[str, Any]) -> Retriever:
        from lm_eval_tasks.clapnq.retrieval.dense import Dense

        return Dense(corpus, name, options)

    return open_dense


def _run(corpus: Corpus, options: Mapping[str, Any]) -> Retriever:
    from lm_eval_tasks.clapnq.retrieval.run import Run

    return Run(corpus, options.get("run"))


def _hybrid(corpus: Corpus, options: Mapping[str, Any]) -> Retriever:
    from lm_eval_tasks.clapnq.retrieval.hybrid import Hybrid

    first, second = (open_retriever(name, corpus, options) for name in halves(options))
    return Hybrid(first, second, len(corpus))


def halves(options: Mapping[str, Any]) -> list[str]:
    """The two retrievers that a hybrid fuses.

    Raises:
        ValueError: two different ones are not what the option names.
    """
    names = str(options.get("hybrid") or "minilm+bm25").split("+")
    if len(names) != 2 or len(set(names)) != 2 or "hybrid" in names:
        raise UsageError(f"clapnq: hybrid names two retrievers, as in minilm+bm25, got {'+'.join(names)!r}")
    return names


RETRIEVERS: dict[str, Callable[[Corpus, Mapping[str, Any]], Retriever]] = {
    "bm25": _bm25,
    "minilm": _dense("minilm"),
    "bge": _dense("bge"),
    "e5": _dense("e5"),
    "dense": _dense("dense"),
    "run": _run,
    "hybrid": _hybrid,
}


def open_retriever(name: str, corpus: Corpus, options: Mapping[str, Any] | None = None) -> Retriever:
    """The retriever of that name over a corpus.

    Args:
        name: a key of ``RETRIEVERS``.
        corpus: what is searched.
        options: keys of ``OPTIONS``; those of other retrievers are not looked at.

    Raises:
        ValueError: there is none of that name (the message lists them), or its options do not fit.
        MissingSource, CorruptSource: a model or file it needs is not to be had, or damaged.
    """
    if name not in RETRIEVERS:
        raise UsageError(f"clapnq: unknown retriever {name!r}; known are {', '.join(sorted(RETRIEVERS))}")
    return RETRIEVERS[name](corpus, options or {})
