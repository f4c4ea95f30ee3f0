"""Documents as examples: tokens of the model's input, and what each token of the answer is to be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, covered, without_space
from detector_plugin.labelled import LabelledAnswer, annotator_shares
from detector_plugin.transformers.engine import padded
from detector_plugin.transformers.inputs import Encoded, Encoder, room_for, window_bounds
from detector_plugin.transformers.training.recipe import Recipe

IGNORED = -100
"""The label of tokens that the loss passes over: reference, prompt, special tokens, white space."""

COMMON = 64
"""Parts of a reference; with parts of 2,000 tokens, those of some 100,000. See :func:`_cut`."""

LABELS = {"binary": ("supported", HALLUCINATION), "category": ("supported", *CATEGORIES)}
"""Names of the classes; the first is a token that the reference bears out."""


class Example(NamedTuple):
    """One input of the model. A token's label is its class, `IGNORED`, or the number of classes where it is hallucinated in
    a way that nobody named."""

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    labels: NDArray[np.int16]
    shares: NDArray[np.float32]  # of the annotators, those who marked the token; 0 or 1 without such shares


class Examples(NamedTuple):
    """Examples; the tokens of each class that are learned, the last number being that of tokens without a category; and how
    many documents were cut."""

    all: list[Example]
    tokens: tuple[int, ...]
    cut: int


def examples_of(
    documents: Sequence[LabelledAnswer], encoder: Encoder, max_length: int, recipe: Recipe, progress: bool = False
) -> Examples:
    """Turn documents into examples; all are kept in memory, 11 bytes a token. `progress` shows a bar on a terminal.
    UnusableDetector where `max_length` has no room for reference and answer beside the prompt.
    """
    examples: list[Example] = []
    cut = 0
    tokens = np.zeros(len(LABELS[recipe.labels]) + 1, np.int64)
    for document in tqdm(documents, desc="tokens", unit="answer", disable=None if progress else True):
        encoded = encoder.encode(document.reference, document.answer, document.question, document.language)
        room = room_for(encoded, max_length)
        cut += len(encoded.reference) + len(encoded.answer) > room
        labels, shares = token_labels(document, encoded.offsets, recipe.labels, recipe.soft_labels)
        for example in _cut(encoded, labels, shares, room):
            learned = example.labels[example.labels != IGNORED]
            if len(learned):
                tokens += np.bincount(learned, minlength=len(tokens))
                examples.append(example)
    return Examples(examples, tuple(map(int, tokens)), cut)


def token_labels(
    document: LabelledAnswer, offsets: NDArray[np.int64], labels: str, soft: bool
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """The label and the share of each token of an answer; see :class:`Example`.

    A token is hallucinated where any of its characters is, white space at its ends aside.
    """
    answer, classes = document.answer, LABELS[labels]
    edges = [without_space(answer, int(start), int(end)) for start, end in offsets]
    place = {name: number for number, name in enumerate(classes)}
    unnamed = 1 if labels == "binary" else len(classes)
    categories = covered(edges, document.spans)
    hard = np.array([0 if category is None else place.get(category, unnamed) for category in categories], np.int16)
    shares = (hard > 0).astype(np.float32)
    if soft and document.soft is not None:
        shares = annotator_shares(document, edges).astype(np.float32)
        # Marked by some, but not by most: nobody says in which category.
        hard[(hard == 0) & (shares > 0)] = unnamed
    empty = np.array([start >= end for start, end in edges], bool).reshape(-1)
    hard[empty] = IGNORED
    shares[empty] = 0
    return hard, shares


def _cut(encoded: Encoded, labels: NDArray[np.int16], shares: NDArray[np.float32], room: int) -> Iterator[Example]:
    """One example where all fits. Else each part of the answer with the part of the reference that shares most different
    tokens with it: any other would teach that what the whole reference bears out is borne out by nothing.
    """
    reference_cuts, answer_parts = window_bounds(len(encoded.reference), len(encoded.answer), room)
    parts_with: dict[int, list[int]] = defaultdict(list)  # of the reference, by token
    for number, cut in enumerate(reference_cuts):
        for token in np.unique(encoded.ids[encoded.reference[slice(*cut)]]).tolist():
            parts_with[token].append(number)
    for part, (decided, until) in answer_parts:
        # A token of more than `COMMON` parts tells next to nothing; without it, time is in proportion to both lengths.
        tokens = np.unique(encoded.ids[encoded.answer[slice(*part)]]).tolist()
        cuts_with_token = (parts_with.get(token, []) for token in tokens)
        shared = Counter(number for numbers in cuts_with_token if len(numbers) <= COMMON for number in numbers)
        nearest = min(shared, key=lambda number: (-shared[number], number), default=0)  # the first of several
        row = encoded.window(reference_cuts[nearest], part)
        row_labels, row_shares = np.full(len(row), IGNORED, np.int16), np.zeros(len(row), np.float32)
        at = np.searchsorted(row, encoded.answer[decided:until])
        row_labels[at], row_shares[at] = labels[decided:until], shares[decided:until]
        yield Example(encoded.ids[row].astype(np.int32), encoded.types[row].astype(np.int8), row_labels, row_shares)


def collated(examples: Sequence[Example], padding: int, types: bool) -> dict[str, Any]:
    """Examples of any length as a batch of tensors. `padding` is the id of the token that pads; `types` says whether the
    model reads which text a token is of."""
    import torch

    batch = {
        "input_ids": padded((example.ids for example in examples), torch.long, padding),
        "attention_mask": padded((np.ones_like(example.ids) for example in examples), torch.long, 0),
        "labels": padded((example.labels for example in examples), torch.long, IGNORED),
        "shares": padded((example.shares for example in examples), torch.float32, 0),
    }
    if types:
        batch["token_type_ids"] = padded((example.types for example in examples), torch.long, 0)
    return batch
