"""The loss of tokens whose label is a class, a share of annotators, or "hallucinated" without a category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detector_plugin.transformers.training.examples import IGNORED

__all__ = ["HEAVIEST", "balanced", "token_loss"]

HEAVIEST = 20.0
"""How many times the mean a class may weigh."""


def balanced(tokens: Sequence[int]) -> list[float]:
    """Weights of classes by the inverse of their shares, scaled to a mean of 1 over all tokens.

    Args:
        tokens: number of tokens of each class. A class that does not occur weighs 1, which changes nothing.
    """
    present = [number for number in tokens if number]
    raw = [sum(present) / (len(present) * number) if number else 0.0 for number in tokens]
    capped = [min(weight, HEAVIEST) for weight in raw]
    mean = sum(weight * number for weight, number in zip(capped, tokens, strict=True)) / max(sum(present), 1)
    return [round(weight / mean, 6) if number else 1.0 for weight, number in zip(capped, tokens, strict=True)]


def token_loss(logits: Any, labels: Any, shares: Any, weights: Any | None = None) -> Any:
    """The sum over tokens of ``-(1 - s) log p(supported) - s log p(class)``.

    ``s`` is the share of annotators that marked the token: with hard labels 0 or 1, so that this is cross entropy. Where a
    token is hallucinated in a way that nobody named, ``p(class)`` is the sum over all hallucinated classes.

    Args:
        logits: (batch, tokens, classes).
        labels: (batch, tokens), see :class:`detector_plugin.transformers.training.examples.Example`.
        shares: (batch, tokens).
        weights: (classes,); a token that nobody named weighs the mean of the hallucinated classes.
    """
    classes = logits.shape[-1]
    learned = labels != IGNORED
    log_p = logits[learned].float().log_softmax(-1)
    of, share = labels[learned], shares[learned]
    hallucinated = log_p[:, 1:].logsumexp(-1)
    named = log_p.gather(1, of.clamp(max=classes - 1)[:, None])[:, 0]
    by_class = named.where((of > 0) & (of < classes), hallucinated)
    supported = log_p[:, 0]
    if weights is not None:
        extended = weights.new_zeros(classes + 1)
        extended[:classes], extended[classes] = weights, weights[1:].mean()
        supported = supported * weights[0]
        by_class = by_class * extended[of]
    # Not simply a product: 0 times the infinite loss of a class that is out of the question would be no number.
    terms = (1 - share) * supported.where(share < 1, 0) + share * by_class.where(share > 0, 0)
    return -terms.sum()
