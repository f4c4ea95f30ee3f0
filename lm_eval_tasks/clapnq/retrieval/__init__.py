"""Retrievers of CLAPnq: each ranks the passages of a corpus for questions. One file a retriever."""

from collections.abc import Mapping
from typing import Any

from lm_eval_tasks.clapnq.retrieval.hybrid import halves
from lm_eval_tasks.clapnq.retrieval.loading import OF_OTHERS, OPTIONS, RETRIEVERS, Option, names, open_retriever
from lm_eval_tasks.clapnq.retrieval.retriever import Question, Ranking, Retriever, check_depth

__all__ = [
    "OPTIONS",
    "RETRIEVERS",
    "Option",
    "Question",
    "Ranking",
    "Retriever",
    "check_depth",
    "halves",
    "names",
    "open_retriever",
    "refuse_unfitting",
]


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
