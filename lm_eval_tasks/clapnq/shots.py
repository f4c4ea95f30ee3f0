"""The paper's few-shot settings (section 4.2): 1/0 is one answerable example of the train split, 1/1 adds an unanswerable
question for the same passage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_eval.api.samplers import ContextSampler

from custom_metrics.usage.plain_errors import UsageError

__all__ = ["PaperShots", "choose"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Document = Mapping[str, Any]


def choose(answerable: Sequence[Document], unanswerable: Sequence[Document]) -> list[dict[str, Any]]:
    """The two examples that every question gets, the answerable one first.

    The paper does not name them. The first rule that fits decides:

    1. the first answerable question whose passage is also an unanswerable question's;
    2. the first whose article is also an unanswerable question's, which is then asked of the answerable one's passage (in
       Natural Questions, a question without an answer has none in the whole article);
    3. the first question of each kind, on the passage of the answerable one.

    Args:
        answerable: questions of the train split, with ``passages`` and ``answers``.
        unanswerable: the same, without answers.

    Raises:
        ValueError: there is no answerable question with an answer, or no unanswerable one.
    """
    with_answer = [row for row in answerable if row["answers"]]
    if not with_answer or not unanswerable:
        raise UsageError("clapnq: the train files hold no answerable question with an answer, or no unanswerable one")
    same: Sequence[tuple[str, Callable[[Document], Any]]] = (
        ("the same passage", lambda row: row["passages"][0]),
        ("the same article", lambda row: row["passages"][0]["title"]),
        ("another article", lambda row: None),
    )
    for what, of in same:
        for row in with_answer:
            partner = next((other for other in unanswerable if of(other) == of(row)), None)
            if partner is not None:
                log.info("clapnq: the shots are train questions %s and %s (%s)", row["id"], partner["id"], what)
                passage = {key: row[key] for key in ("passages", "groundings")}
                return [dict(row), {**partner, **passage}]
    raise AssertionError("the last rule fits all")


class PaperShots(ContextSampler):  # type: ignore[misc]
    """The harness's sampler over these two. It reads the train files when the first shot is asked for.

    Args:
        read: gives the two examples.
        task: for messages.
    """

    def __init__(self, read: Callable[[], list[dict[str, Any]]], task: str) -> None:
        super().__init__([])
        self._read = read
        self._task = task
        self._shots: list[dict[str, Any]] = []

    def sample(
        self, n: int, eval_doc: Document | None = None, df: Sequence[Document] | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """The first n: 1 is the paper's 1/0, 2 its 1/1.

        Raises:
            ValueError: n is neither.
            MissingSource: there are no train files.
        """
        if n not in (1, 2):
            raise UsageError(
                f"{self._task}: --num_fewshot {n}: the settings are 1 (the paper's 1/0: an answerable example) and 2 (its "
                f"1/1: an unanswerable question for the same passage as well)"
            )
        self._shots = self._shots or self._read()
        return self._shots[:n]
