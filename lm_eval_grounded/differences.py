"""The difference of two systems on the same documents, from two plain lists."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, get_args

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt
from lm_eval_grounded.answers import listed

if TYPE_CHECKING:
    from custom_metrics.statistics.paired_difference import PairedDifference

Kind = Literal["share", "mean", "ratio"]


def difference(
    values_a: Iterable[Any], values_b: Iterable[Any], clusters: Iterable[Any] | None = None, kind: Kind = "share"
) -> PairedDifference:
    """The paired difference of two systems, A - B, with 95 % bounds and p, as ``lm-eval-grounded compare`` computes it.

    >>> a = [1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1]  # right or wrong, question by question
    >>> b = [1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0]
    >>> shown = difference(a, b)
    >>> print(f"{shown.difference:+.2f} [{shown.low:+.2f}, {shown.high:+.2f}], p = {shown.p:.3f}, n = {shown.n}")
    +0.42 [+0.07, +0.68], p = 0.025, n = 12

    Args:
        values_a: a value for each document, in the same order as `values_b`: 0 or 1 for a ``share``, a number for a
            ``mean``, and (numerator, denominator) for a ``ratio`` of sums, such as flagged words over words. ``None`` and
            ``nan``: the document does not count, for either.
        clusters: the name of each document's cluster (article, conversation), where documents depend on each other.
        kind: which figure of the values is compared.

    Returns:
        a named tuple with ``first``, ``second``, ``difference``, ``low``, ``high``, ``p``, ``n``, ``method`` and
        ``standard_error`` (:mod:`custom_metrics.statistics.paired_difference` has the sources). Bounds and p of fewer than
        five documents or clusters are ``nan`` for means and ratios.

    Raises:
        UsageError: lists of unequal length, or values of another kind.
    """
    from custom_metrics.scores.aggregations import Ratios, defined_mean, defined_share

    if kind not in get_args(Kind):
        raise UsageError(f"kind is {', '.join(get_args(Kind))}; got {excerpt(kind)}")
    a, b = (
        [_checked(value, kind, f"{name}[{place}]") for place, value in enumerate(listed(values, name, "values"))]
        for name, values in (("values_a", values_a), ("values_b", values_b))
    )
    found = None if clusters is None else listed(clusters, "clusters", "names")
    names = found and ["" if name is None or name != name else str(name) for name in found]
    for name, values in (("values_b", b), ("clusters", names)):
        if values is not None and len(values) != len(a):
            raise UsageError(
                f"{len(a)} values_a, but {len(values)} {name}: they are of the same documents, in one order"
            )
    figure = {"share": defined_share, "mean": defined_mean, "ratio": Ratios("ratio")}[kind]
    return figure.difference(figure.rows(a, names or [""] * len(a)), figure.rows(b, names or [""] * len(b)))


def _checked(value: Any, kind: Kind, name: str) -> Any:
    """A value as its kind of figure takes it; None where the document does not count."""
    parts = listed(value, name, "numbers") if kind == "ratio" and value is not None else [value]
    if any(part is None or part != part for part in parts):
        return None
    fits = len(parts) == (2 if kind == "ratio" else 1) and all(isinstance(part, Real) for part in parts)
    if not fits or (kind == "share" and value not in (0, 1)):
        of = {"share": "0 or 1 (kind='mean' takes numbers)", "mean": "a number", "ratio": "(numerator, denominator)"}
        raise UsageError(f"{name}: a value is {of[kind]}, got {excerpt(value)}")
    return tuple(map(float, parts)) if kind == "ratio" else float(value)
