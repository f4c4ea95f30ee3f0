"""Documents as examples: tokens of the model's input, and what each token of the answer is to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, covered
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.forms import Encoded, Encoder
from detector_plugin.transformers.windows import SMALLEST_ROOM, cuts

__all__ = ["IGNORED", "LABELS", "Example", "Examples", "examples_of"]

IGNORED = -100
"""The label of tokens that the loss passes over: reference, prompt, special tokens, white space."""

COMMON = 64
"""Parts of a reference; with parts of 2,000 tokens, those of some 100,000."""

LABELS = {"binary": ("supported", HALLUCINATION), "category": ("supported", *CATEGORIES)}
"""Names of the classes; the first is a token that the reference bears out."""


class Example(NamedTuple):
    """One input of the model.

    Attributes:
        ids, types: as :class:`detector_plugin.transformers.forms.Encoded` has them.
        labels: of each token: its class, the number of classes where the token is hallucinated in a way that nobody
            named, or `IGNORED`.
        shares: of each token: of the annotators, those who marked it; 0 or 1 without such shares.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    labels: NDArray[np.int16]
    shares: NDArray[np.float32]


class Examples(NamedTuple):
    """Examples, and what became of the documents.

    Attributes:
        all: the examples.
        tokens: of each class, those that are learned; the last number is that of tokens without a category.
        counts: documents that were cut or left out, by reason.
    """

    all: list[Example]
    tokens: tuple[int, ...]
    counts: Counter[str]


def examples_of(
    documents: Sequence[LabelledAnswer],
    encoder: Encoder,
    max_length: int,
    *,
    labels: str = "binary",
    soft: bool = False,
    too_long: str = "cut",
    progress: bool = False,
) -> Examples:
    """Turn documents into examples; all are kept in memory, 11 bytes a token.

    Args:
        documents: labelled answers.
        encoder: of the form that the detector will read.
        max_length: of an input in tokens.
        labels: a key of `LABELS`.
        soft: take the shares of annotators where the document has them.
        too_long: ``cut`` keeps the part of a reference that shares the most tokens with the answer, and makes several
            examples of an answer that is too long itself; ``skip`` leaves the document out.
        progress: show a bar on a terminal.

    Raises:
        UsageError: `max_length` has no room for reference and answer beside the prompt.
    """
    found: list[Example] = []
    counts: Counter[str] = Counter()
    classes = len(LABELS[labels])
    tokens = np.zeros(classes + 1, np.int64)
    for document in tqdm(documents, desc="tokens", unit="answer", disable=None if progress else True):
        encoded = encoder.encode(document.reference, document.answer, document.question, document.language)
        room = max_length - len(encoded.fixed)
        if room < SMALLEST_ROOM:
            raise UsageError(
                f"max_length {max_length}: prompt and question take {len(encoded.fixed)} tokens; reference and answer need "
                "more room"
            )
        if len(encoded.reference) + len(encoded.answer) > room:
            if too_long == "skip":
                counts[f"left out, longer than {max_length} tokens"] += 1
                continue
            counts[f"longer than {max_length} tokens, cut"] += 1
        of_answer, shares = token_labels(document, encoded.offsets, labels, soft)
        for example in _cut(encoded, of_answer, shares, room):
            learned = example.labels[example.labels != IGNORED]
            if not len(learned):
                continue
            tokens += np.bincount(learned, minlength=classes + 1)
            found.append(example)
    return Examples(found, tuple(map(int, tokens)), counts)


def token_labels(
    document: LabelledAnswer, offsets: NDArray[np.int64], labels: str, soft: bool
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """The label and the share of each token of an answer; see :class:`Example`.

    A token is hallucinated where any of its characters is, white space at its ends aside.
    """
    answer, classes = document.answer, LABELS[labels]
    edges = [_bare(answer, int(start), int(end)) for start, end in offsets]
    place = {name: number for number, name in enumerate(classes)}
    of_tokens = covered(edges, document.spans)
    hard = np.array([0 if kind is None else place.get(kind, len(classes)) for kind in of_tokens], np.int16)
    if labels == "binary":
        hard = np.minimum(hard, 1).astype(np.int16)
    shares = (hard > 0).astype(np.float32)
    if soft and document.soft is not None:
        marked = np.zeros(len(answer) + 1)
        for span in document.soft:
            marked[span.start : span.end] = span.probability
        sums = np.concatenate([[0], np.cumsum(marked)])
        shares = np.array([(sums[end] - sums[start]) / max(end - start, 1) for start, end in edges], np.float32)
        # Marked by some, but not by most: whatever category it was, nobody says.
        hard = np.where((hard == 0) & (shares > 0), 1 if labels == "binary" else len(classes), hard).astype(np.int16)
    empty = np.array([start >= end for start, end in edges], bool).reshape(-1)
    hard[empty] = IGNORED
    shares[empty] = 0
    return hard, shares


def _bare(text: str, start: int, end: int) -> tuple[int, int]:
    """A token's characters without the white space at its ends."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())


def _cut(encoded: Encoded, labels: NDArray[np.int16], shares: NDArray[np.float32], room: int) -> Iterator[Example]:
    """One example where all fits. Else each part of the answer with the part of the reference that shares most with it.

    Any other part would teach that what the whole reference bears out is borne out by nothing.
    """
    reference_cuts, answer_parts = cuts(len(encoded.reference), len(encoded.answer), room)
    of_reference = encoded.ids[encoded.reference]
    nearest = _Nearest([of_reference[first:end] for first, end in reference_cuts])
    for (start, stop), (decided, until) in answer_parts:
        of_answer = encoded.answer[start:stop]
        first, end = reference_cuts[nearest(encoded.ids[of_answer])]
        row = np.sort(np.concatenate([encoded.fixed, encoded.reference[first:end], of_answer]))
        of_row, share_of_row = np.full(len(row), IGNORED, np.int16), np.zeros(len(row), np.float32)
        at = np.searchsorted(row, encoded.answer[decided:until])
        of_row[at], share_of_row[at] = labels[decided:until], shares[decided:until]
        yield Example(encoded.ids[row].astype(np.int32), encoded.types[row].astype(np.int8), of_row, share_of_row)


class _Nearest:
    """Of the parts of a reference, the one that shares the most different tokens with a part of an answer.

    A token of more than `COMMON` parts counts only where all parts are no more than that: it tells next to nothing, and
    the time stays in proportion to the length of both texts.
    """

    def __init__(self, parts: Sequence[NDArray[np.int64]]) -> None:
        different = [np.unique(part) for part in parts]
        ids = np.concatenate(different)
        order = np.argsort(ids, kind="stable")
        self.ids = ids[order]
        self.parts = np.repeat(np.arange(len(parts)), [len(part) for part in different])[order]

    def __call__(self, ids: NDArray[np.int64]) -> int:
        """Its number; the first of several, and the first of all where no token is shared."""
        wanted = np.unique(ids)
        left, right = np.searchsorted(self.ids, wanted, "left"), np.searchsorted(self.ids, wanted, "right")
        rare = right - left <= COMMON
        found = [self.parts[at:until] for at, until in zip(left[rare], right[rare], strict=True)]
        numbers, times = np.unique(np.concatenate([*found, np.empty(0, np.intp)]), return_counts=True)
        return int(numbers[times.argmax()]) if len(numbers) else 0


class Collator:
    """Examples padded into a batch of tensors.

    Args:
        padding: id of the token that pads.
        types: whether the model reads which text a token is of.
    """

    def __init__(self, padding: int, types: bool) -> None:
        self.padding, self.types = padding, types

    def __call__(self, examples: Sequence[Example]) -> dict[str, Any]:
        import torch

        longest = max(len(example.ids) for example in examples)
        shape = len(examples), longest
        ids, mask, types = np.full(shape, self.padding, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        labels, shares = np.full(shape, IGNORED, np.int64), np.zeros(shape, np.float32)
        for row, example in enumerate(examples):
            length = len(example.ids)
            ids[row, :length], mask[row, :length], types[row, :length] = example.ids, 1, example.types
            labels[row, :length], shares[row, :length] = example.labels, example.shares
        batch = {"input_ids": ids, "attention_mask": mask, "labels": labels, "shares": shares}
        if self.types:
            batch["token_type_ids"] = types
        return {name: torch.from_numpy(values) for name, values in batch.items()}
