"""Training data: documents to learn from, to choose by and to measure with, split by text, in all languages at once;
documents made of those to learn from; and documents as tokens of the model's input, with what each token is to be."""

from __future__ import annotations

import hashlib
from argparse import ArgumentError, ArgumentParser, BooleanOptionalAction
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray
from tqdm import tqdm

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered, without_space
from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import (
    TRANSLATED,
    LabelledAnswer,
    annotator_shares,
    article_groups,
    text_groups,
    without_spans,
)
from detector_plugin.transformers.engine import padded
from detector_plugin.transformers.inputs import FORMS, Encoded, Encoder, room_for, window_bounds

MOST_GIVEN_UP = 0.5
"""Share of the answers that are not left out, which are not learned from because an answer that is left out has their text.
mFAVA's silver texts are the same in every language: without a bound, nothing would be left to learn from."""

GIVEN_UP = "not learned from: an answer that is left out has their text"
NOT_MEASURED = "left out and not measured: other answers about their text, or translations of it, are learned from"
UNPLACED = "neither learned from nor measured: translations, of which text nobody can say"

UNRELATED, CLEANED = "unrelated", "cleaned"  # kinds of annotation of the documents that are made here


@dataclass(frozen=True)
class Parts:
    """The parts of a training set. No text is in two of them, in any language."""

    learn: list[LabelledAnswer]
    choose: list[LabelledAnswer]  # threshold and checkpoint are chosen by these
    measure: list[LabelledAnswer]  # of texts that the model has not seen, in languages and of models that it has
    left_out: list[LabelledAnswer]  # of languages or models that were left out whole
    counts: Counter[str] = field(default_factory=Counter)  # documents that are in no part, by reason
    texts: Mapping[str, int] = field(default_factory=dict)  # of each part; one in several languages counts once


def split(documents: Sequence[LabelledAnswer], share: float, without: Sequence[str] = ()) -> Parts:
    """Split documents by text, evenly over languages and kinds of annotation, in the same way whatever their order.

    A text falls on one side in all its languages. Where a language is left out, the other languages' answers about its
    texts are not learned from, up to `MOST_GIVEN_UP` of them; texts beyond that are learned from, and not measured in the
    one that is left out. `share` is that of the texts that are held out: half of them choose, the other half measure.
    `without` are language codes, models and families of models that are left out whole. UsageError where nothing is left to
    learn from or to measure, or a name fits nothing.
    """
    is_left_out = _left_out(documents, without)
    counts: Counter[str] = Counter()
    texts = text_groups(documents)
    if len({document.language for document in documents}) > 1:
        placed = [
            text
            for text in texts
            if len({answer.language for answer in text}) > 1 or any(answer.group != TRANSLATED for answer in text)
        ]
        counts[UNPLACED] += sum(map(len, texts)) - sum(map(len, placed))
        texts = placed
    text_of = {id(document): number for number, text in enumerate(texts) for document in text}
    documents = [document for document in documents if id(document) in text_of]
    room = MOST_GIVEN_UP * sum(not is_left_out(answer) for answer in documents)
    measured: set[int] = set()
    by_text: dict[int, list[LabelledAnswer]] = defaultdict(list)
    for group in sorted(texts, key=lambda group: _order(group)[-1]):
        outside = [document for document in group if is_left_out(document)]
        inside = [document for document in group if not is_left_out(document)]
        if outside and len(inside) <= room:
            room -= len(inside)
            counts[GIVEN_UP] += len(inside)
            measured.update(map(id, outside))
            continue
        counts[NOT_MEASURED] += len(outside)
        for document in inside:
            by_text[text_of[id(document)]].append(document)
    kept = sorted(by_text.values(), key=_order)
    held_out = [at for at in range(len(kept)) if int((at + 1) * share + 1e-9) > int(at * share + 1e-9)]
    if share and not held_out and len(kept) > 2:
        held_out = [len(kept) - 2, len(kept) - 1]
    part_of = dict.fromkeys(held_out[::2], "choose") | dict.fromkeys(held_out[1::2], "measure")
    parts: dict[str, list[LabelledAnswer]] = {"learn": [], "choose": [], "measure": []}
    for at, group in enumerate(kept):
        parts[part_of.get(at, "learn")] += group
    parts["left_out"] = [document for document in documents if id(document) in measured]
    apart = f" without {', '.join(without)}" if without else ""
    if not parts["learn"]:
        raise UsageError(
            f"none of {len(documents)} labelled answers is left to learn from{apart}; name more data with --data, or leave "
            "less out"
        )
    if without and not measured:
        raise UsageError(
            f"nothing is left to measure{apart}: the other answers are about the same texts, and are learned from"
        )
    texts_of = {name: len({text_of[id(document)] for document in part}) for name, part in parts.items()}
    return Parts(**parts, counts=+counts, texts=texts_of)


def _left_out(documents: Sequence[LabelledAnswer], without: Sequence[str]) -> Callable[[LabelledAnswer], bool]:
    languages = {document.language for document in documents}
    models = {name.casefold() for document in documents for name in (document.model, document.family) if name}
    names = {name if name in languages else name.casefold() for name in without}
    if unknown := sorted(names - languages - models):
        raise UsageError(
            f"--without {', '.join(unknown)}: no language, model or family of a model that the data has"
            f"{known_instead(unknown[0], sorted(languages) + sorted(models))}"
        )
    return lambda of: not names.isdisjoint((of.language, of.model.casefold(), of.family.casefold()))


def _order(group: Sequence[LabelledAnswer]) -> tuple[str, str, str]:
    """By language and kind of annotation, and within these in an order that only content decides."""
    digest = _digest(0, *sorted(document.reference + "\1" + document.answer for document in group))
    return min(document.language for document in group), min(document.annotations for document in group), digest


def synthetic(documents: Sequence[LabelledAnswer], number: int) -> list[LabelledAnswer]:
    """Make documents of those that the model learns from: answers held against another page (`UNRELATED`, hallucinated as a
    whole), and as many answers without what is hallucinated in them (`CLEANED`). Of nearly every annotated answer a third
    is hallucinated, and from them alone a model learns to flag a third of anything. There may be fewer than `number`."""
    pages: dict[str, dict[tuple[int, str], None]] = {}  # language to (article, reference), each once
    number_of: dict[int, int] = {}
    for article, group in enumerate(article_groups(documents)):
        for document in group:
            number_of[id(document)] = article
            if document.reference.strip():
                pages.setdefault(document.language, {})[article, document.reference] = None

    def digest(document: LabelledAnswer, seed: int = 0) -> str:
        return _digest(seed, document.language, document.annotations, document.answer, document.reference)

    unrelated: list[LabelledAnswer] = []
    cleaned: list[LabelledAnswer] = []
    for document in sorted(documents, key=digest):
        others = [text for article, text in pages.get(document.language, {}) if article != number_of[id(document)]]
        if len(unrelated) < (number + 1) // 2 and others:
            page = others[int(digest(document, 1)[:8], 16) % len(others)]
            whole = (Span(0, len(document.answer)),)
            changed = replace(document, reference=page, article="", spans=whole, soft=None, annotations=UNRELATED)
            unrelated.append(changed)
        elif len(cleaned) < number // 2 and document.spans:
            answer = without_spans(document.answer, document.spans)
            if answer.strip():
                cleaned.append(replace(document, answer=answer, spans=(), soft=None, annotations=CLEANED))
        if len(unrelated) + len(cleaned) >= number:
            break
    return unrelated + cleaned


def _digest(seed: int, *texts: str) -> str:
    return hashlib.sha256("\0".join((str(seed), *texts)).encode("utf-8", "surrogatepass")).hexdigest()


IGNORED = -100  # the label of tokens that the loss passes over: reference, prompt, special tokens, white space
COMMON = 64  # parts of a reference; with parts of 2,000 tokens, those of some 100,000. See :func:`_cut`
LABELS = {"binary": ("supported", HALLUCINATION), "category": ("supported", *CATEGORIES)}  # the first is borne out


class Example(NamedTuple):
    """One input of the model. A token's label is its class, `IGNORED`, or the number of classes (hallucinated, no name)."""

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    labels: NDArray[np.int16]
    shares: NDArray[np.float32]  # of the annotators, those who marked the token; 0 or 1 without such shares


class Examples(NamedTuple):
    """Examples; the tokens of each class that are learned, those without a category last; and the documents cut."""

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
    """Examples as a batch of tensors, filled up with the token `padding`; with `types`, also which text a token is of."""
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


def _value(default: Any = MISSING, *choices: str) -> Any:
    """A value that the command line can set, to one of the choices if there are any."""
    return field(default=default, metadata={"choices": choices or None})


@dataclass(frozen=True)
class Recipe:
    """What a detector is trained with."""

    name: str
    says: str  # what it is for
    source: str  # where its values come from
    base: str = _value()  # model of the hub, or a folder
    data: str = _value()  # names of collections, and files, with commas between
    form: str = _value("auto", "auto", *FORMS)  # auto: paper for decoders, else pair
    attention: str = _value("auto", "auto", "bidirectional", "causal")  # of decoders; auto: by the form
    labels: str = _value("binary", "binary", "category")  # or the six categories of mFAVA
    max_length: int = _value(4096)  # of an input in tokens, at most; less where the model reads less
    adapter: str = _value("none", "none", "lora")  # none: all weights are trained
    lora_r: int = _value(32)
    lora_alpha: int = _value(32)
    lora_dropout: float = _value(0.05)
    quantization: str = _value("none", "none", "4bit")  # of the base model's weights, while an adapter is trained
    soft_labels: bool = _value(False)  # learn the share of annotators where it is known
    held_out: float = _value(0.2)  # of the texts; half of them choose threshold and checkpoint, half are measured
    patience: int = _value(0)  # evaluations without a better one, after which training ends; 0: it does not
    trainer: Mapping[str, Any] = field(default_factory=dict)  # transformers' TrainingArguments

    @property
    def values(self) -> dict[str, Any]:
        """What is ours, without the trainer's."""
        return {value.name: getattr(self, value.name) for value in _VALUES}


_VALUES = [value for value in fields(Recipe) if value.metadata]
_MOST_HELD_OUT = 0.9


def read(name: str, words: Sequence[str] = ()) -> Recipe:
    """A recipe by name (UsageError for an unknown one), with other values.

    `words` are of the command line: ``--name value`` or ``--name=value`` for a value of the recipe, which argparse checks;
    all others are for transformers' Trainer. An option of it without a value is ``true``.
    """
    folder = resources.files(__package__).joinpath("recipes")
    files = {file.name.removesuffix(".yaml"): file for file in folder.iterdir()}
    if name not in files:
        raise UsageError(f"recipe {name!r}: there are {', '.join(sorted(files))}")
    table = yaml.safe_load(files[name].read_text("utf-8"))
    values, trainer = table.pop("values"), table.pop("trainer")
    parser = ArgumentParser(allow_abbrev=False, add_help=False, exit_on_error=False)
    for value in _VALUES:
        flags = dict.fromkeys((f"--{value.name}", f"--{value.name.replace('_', '-')}"))
        if value.type == "bool":
            parser.add_argument(*flags, action=BooleanOptionalAction)
        else:
            kind = {"int": int, "float": float}.get(str(value.type), str)
            parser.add_argument(*flags, type=kind, choices=value.metadata["choices"])
    try:
        given, of_trainer = parser.parse_known_args(words)
    except ArgumentError as error:
        raise UsageError(f"train: {error}") from error
    option = ""
    for word in of_trainer:
        if word.startswith("--"):
            option, _, text = word[2:].partition("=")
            trainer[option.replace("-", "_")] = text or "true"
            option = "" if text else option.replace("-", "_")
        elif option:
            trainer[option], option = word, ""
        else:
            raise UsageError(f"{word!r} belongs to no option; a value of a recipe is set with --name value")
    values |= {key: value for key, value in vars(given).items() if value is not None}
    recipe = Recipe(name=name, trainer=trainer, **values, **table)
    if not 0 <= recipe.held_out <= _MOST_HELD_OUT:
        raise UsageError(f"--held_out is a share of the texts, from 0 to {_MOST_HELD_OUT}, got {recipe.held_out}")
    if recipe.patience < 0:
        raise UsageError(f"--patience is a number of evaluations, from 0 on, got {recipe.patience}")
    return recipe
