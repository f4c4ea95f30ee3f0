"""The options of all retrievers: one table for ``--metadata``, the command line and messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lm_eval_tasks.clapnq.retrieval.hybrid import halves
from lm_eval_tasks.clapnq.retrieval.loading import RETRIEVERS

__all__ = ["OF_OTHERS", "OPTIONS", "Option", "refuse_unfitting"]

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


def refuse_unfitting(name: str, options: Mapping[str, Any], who: str) -> None:
    """Refuse options that are none of a retriever's.

    Args:
        name: of the retriever.
        options: keys of :data:`OPTIONS`.
        who: the command or task, for messages.

    Raises:
        ValueError: there is one; the message says whose it is.
    """
    named = (name, *(halves(options) if name == "hybrid" else ()))
    owners = {each if each in RETRIEVERS else OF_OTHERS for each in named}
    for option in options:
        if not owners & {*OPTIONS[option].of}:
            raise ValueError(f"{who}: option {option} is for {', '.join(OPTIONS[option].of)}, not for {name}")
