"""Retrievers of other packages: checked against the interface, and described with their package."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.retrieval.retriever import Question, Ranking, Retriever, check_depth

if TYPE_CHECKING:
    from custom_metrics.usage.entry_points import Offer
    from lm_eval_tasks.clapnq.corpus import Corpus

__all__ = ["Checked", "opened"]


def opened(
    offer: Offer, opens: Callable[[Corpus, Mapping[str, Any]], Any], corpus: Corpus, options: Mapping[str, Any]
) -> Checked:
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
    return Checked(made, offer.name, offer.package, corpus)


class Checked:
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
