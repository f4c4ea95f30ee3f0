"""Documents to learn from, to choose by and to measure with: split by article, never by answer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from custom_metrics.plain_errors import UsageError
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.training.recipe import close_to

__all__ = ["Parts", "article_groups", "split"]


@dataclass(frozen=True)
class Parts:
    """The parts of a training set. No article is in two of them.

    Attributes:
        learn: the model learns from these.
        choose: threshold and checkpoint are chosen by these.
        measure: of articles that the model has not seen, in languages and of models that it has.
        left_out: of languages or models that were left out whole.
        counts: documents that are in no part, by reason.
    """

    learn: list[LabelledAnswer]
    choose: list[LabelledAnswer]
    measure: list[LabelledAnswer]
    left_out: list[LabelledAnswer]
    counts: Counter[str] = field(default_factory=Counter)


def split(documents: Sequence[LabelledAnswer], share: float, seed: int = 0, without: Sequence[str] = ()) -> Parts:
    """Split documents by article, evenly over languages and kinds of annotation.

    Args:
        documents: in any order; the same documents are split in the same way.
        share: of the articles that are held out. Half of them choose, the other half measure.
        seed: of the choice.
        without: language codes, models and families of models that are left out whole. Articles with an answer that is left
            out are not learned from either.

    Raises:
        UsageError: nothing is left to learn from, or a name in `without` fits nothing.
    """
    is_left_out = _left_out(documents, without)
    groups = article_groups(documents)
    counts: Counter[str] = Counter()
    left_out: list[LabelledAnswer] = []
    kept: list[list[LabelledAnswer]] = []
    for group in groups:
        outside = [document for document in group if is_left_out(document)]
        left_out += outside
        if not outside:
            kept.append(group)
        elif len(outside) < len(group):
            counts["not learned from: share their article with an answer that is left out"] += len(group) - len(outside)
    kept.sort(key=lambda group: _order(group, seed))
    held_out = [group for at, group in enumerate(kept) if int((at + 1) * share + 1e-9) > int(at * share + 1e-9)]
    if share and not held_out and len(kept) > 2:
        held_out = kept[-2:]
    chosen = {id(group) for group in held_out[::2]}
    measured = {id(group) for group in held_out[1::2]}
    learn = [document for group in kept if id(group) not in chosen | measured for document in group]
    if not learn:
        raise UsageError(
            f"none of {len(documents)} labelled answers is left to learn from"
            + (f" without {', '.join(without)}" if without else "")
            + "; name more data with --data, or leave less out"
        )
    choose, measure = (
        [document for group in kept if id(group) in part for document in group] for part in (chosen, measured)
    )
    return Parts(learn, choose, measure, left_out, counts)


def article_groups(documents: Sequence[LabelledAnswer]) -> list[list[LabelledAnswer]]:
    """Documents that share an article: its name, or the text of the reference, directly or through a third one."""
    parents = list(range(len(documents)))

    def root(at: int) -> int:
        while parents[at] != at:
            parents[at] = at = parents[parents[at]]
        return at

    first: dict[tuple[str, str], int] = {}
    for at, document in enumerate(documents):
        keys = [("reference", " ".join(document.reference.split()))]
        if document.article.strip():
            keys.append(("article", document.article.strip()))
        for key in keys:
            parents[root(at)] = root(first.setdefault(key, at))
    groups: dict[int, list[LabelledAnswer]] = {}
    for at, document in enumerate(documents):
        groups.setdefault(root(at), []).append(document)
    return list(groups.values())


def _left_out(documents: Sequence[LabelledAnswer], without: Sequence[str]) -> Callable[[LabelledAnswer], bool]:
    languages = {document.language for document in documents}
    models = {name.casefold() for document in documents for name in (document.model, document.family) if name}
    names = {name if name in languages else name.casefold() for name in without}
    unknown = sorted(names - languages - models)
    if unknown:
        raise UsageError(
            f"--without {', '.join(unknown)}: no language, model or family of a model that the data has"
            f"{close_to(unknown[0], [*languages, *models])}. There are {', '.join(sorted(languages) + sorted(models))}"
        )
    return lambda document: (
        document.language in names or document.model.casefold() in names or document.family.casefold() in names
    )


def _order(group: Sequence[LabelledAnswer], seed: int) -> tuple[str, str, str]:
    """By language and kind of annotation, and within these in an order that only content and seed decide."""
    text = "\0".join(sorted(document.reference + "\1" + document.answer for document in group))
    digest = hashlib.sha256(f"{seed}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return min(document.language for document in group), min(document.annotations for document in group), digest
