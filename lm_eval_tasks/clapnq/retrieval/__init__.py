"""Retrievers of CLAPnq: each ranks the passages of a corpus for questions. One file a retriever."""

from lm_eval_tasks.clapnq.retrieval.hybrid import halves
from lm_eval_tasks.clapnq.retrieval.loading import OF_OTHERS, OPTIONS, RETRIEVERS, Option, names, open_retriever
from lm_eval_tasks.clapnq.retrieval.retriever import Question, Ranking, Retriever, check_depth

__all__ = [
    "OF_OTHERS",
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
]
