"""Detectors from Hugging Face: any classifier of tokens, or of texts, which reads sentences; and any PEFT adapter of one.

The package has the library's name; imports are absolute, so ``import transformers`` still gets the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span
from custom_metrics.usage.options import refuse_unknown
from detector_plugin.detector import (
    Languages,
    Questions,
    Spans,
    Texts,
    UnusableDetector,
    check_choice,
    check_lengths,
    parse_flag,
    parse_number,
)
from detector_plugin.sentences import sentence_bounds
from detector_plugin.transformers.engine import Engine
from detector_plugin.transformers.inputs import FORMS, Document, Encoder, Piece, Window, room_for, spans_of
from detector_plugin.transformers.model import LONGEST, describe_model, find_repositories, library, max_positions

_CHUNK = 32  # documents that the tokenizer reads at once


class TransformersDetector:
    """A classifier of tokens or of texts of the hub or of a folder, or a PEFT adapter of one; ``config.json`` says which.

    A token's probability to be hallucinated is the sum over the hallucinated classes. A reference that does not fit is read
    in overlapping windows; for each token the one counts in which it is most likely borne out. (LettuceDetect's own code
    takes the least likely one.) A classifier of texts (entailment, fact checks) reads each sentence of the answer in this
    way, and its spans are whole sentences (MiniCheck: Tang et al. 2024). UnusableDetector where that fails.

    README.md has a table of all options. ``form``, ``attention``, ``threshold`` and ``max_length`` are by default what a
    model that ``lm-eval-grounded train`` made was trained with. Of others, the form is LettuceDetect's where the name has
    ``lettuce`` in it (``lettucedetect-v2`` where it has ``v2``, too), ``paper`` for decoders that tag tokens and where the
    name has ``minicheck`` in it, else ``pair``; a decoder that tags tokens attends in both directions in the form
    ``paper``, others as they were made; the threshold is 0.5, the length what the model can read, at most 4096.
    """

    WITHOUT_EFFECT = frozenset({"batch_size", "batch_tokens", "device"})
    """Options that change how fast spans are found, and where, but no span."""

    def __init__(
        self,
        name: str,
        *,
        form: str = "auto",
        labels: str | Mapping[Any, Any] | None = None,
        attention: str = "auto",
        threshold: float | str | None = None,
        max_length: int | str | None = None,
        batch_size: int | str | None = None,
        batch_tokens: int | str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        revision: str | None = None,
        base_model: str | None = None,
        trust_remote_code: bool | str = False,
    ) -> None:
        self.name = name.rstrip("/") or name
        check_choice("form", form, ("auto", *FORMS))
        check_choice("attention", attention, ("auto", "bidirectional", "causal"))
        check_choice("dtype", dtype, ("auto", "float32", "bfloat16", "float16"))
        given_threshold: float | None = parse_number("threshold", threshold, float, 0, 1)
        size = parse_number("batch_size", batch_size, int, 1)
        tokens = parse_number("batch_tokens", batch_tokens, int, 1)
        given_length = parse_number("max_length", max_length, int, 1)
        given_labels = parse_labels(labels)
        model = describe_model(self.name, revision, base_model, parse_flag("trust_remote_code", trust_remote_code))
        stored = model.stored
        stored_threshold: float | None = parse_number("threshold", stored.threshold, float, 0, 1)
        default_threshold = 0.5 if stored_threshold is None else stored_threshold
        self.threshold: float = default_threshold if given_threshold is None else given_threshold
        local = Path(self.name).expanduser()
        plain_name = (local.resolve().name if local.is_dir() else self.name).casefold()
        self.of_texts = model.of_texts
        checks_facts = model.of_texts and "minicheck" in plain_name
        default_form = "paper" if checks_facts or (model.decoder and not model.of_texts) else "pair"
        if "lettuce" in plain_name:
            is_v2 = re.search(r"(?<![a-z0-9])v2(?![0-9])", plain_name)
            default_form = "lettucedetect-v2" if is_v2 else "lettucedetect"
        default_form = stored.form or default_form
        check_choice("form", default_form, tuple(FORMS))
        self.form = default_form if form == "auto" else form
        if model.of_texts and attention == "bidirectional":
            raise UnusableDetector(f"detector {name}: option attention=bidirectional is for classifiers of tokens")
        default_direction = (
            model.decoder
            and not model.of_texts
            and (self.form == "paper" if stored.attention is None else stored.attention == "bidirectional")
        )
        bidirectional = default_direction if attention == "auto" else attention == "bidirectional" and model.decoder
        if attention == "causal" and not model.decoder:
            raise UnusableDetector(f"detector {name}: option attention=causal is for decoders, and this is an encoder")
        # A text's class 1 is "supported" of some models, and "hallucinated" of others. MiniCheck's are known.
        unnamed = (HALLUCINATION, BORNE_OUT) if checks_facts else (None, None) if model.of_texts else UNNAMED
        self.categories = class_meanings(model.labels, given_labels, f"detector {name}", unnamed)
        length = given_length or parse_number("max_length", stored.max_length, int, 1)
        self.engine = Engine(model, bidirectional, size, tokens, dtype, device)
        limit = self.engine.longest
        if limit is not None and length is not None and length > limit:
            raise UnusableDetector(
                f"detector {self.name}: max_length={length}, but the model reads {limit} tokens at most"
            )
        stated = max_positions(model.config) or LONGEST
        self.max_length: int = length or min(stated, limit or stated, model.tokenizer.model_max_length, LONGEST)
        self.encoder = Encoder(model.tokenizer, self.form, self.max_length)
        # rather now than in the midst of the answers
        room_for(self.encoder.encode("", "a", "a", None), self.max_length)
        self.licence: str = model.own.licence()
        # Of the options, those that change what is found: a calibration with others does not hold.
        changes = {
            "form": None if self.form == default_form else self.form,
            "attention": None if bidirectional == default_direction else attention,
            "threshold": None if self.threshold == default_threshold else self.threshold,
            "max_length": given_length,
            "labels": ",".join(f"{label}={meaning}" for label, meaning in sorted((given_labels or {}).items())) or None,
        }
        changed = (f";{key}={value}" for key, value in changes.items() if value is not None)
        self.version: str = model.version + "".join(changed)

    def detect(self, references: Texts, answers: Texts, languages: Languages, questions: Questions = None) -> Spans:
        """See :meth:`detector_plugin.detector.Detector.detect`. Spans are of tokens or whole sentences."""
        spans = dict(self.detect_each(references, answers, languages, questions))
        return [spans[index] for index in range(len(answers))]

    def detect_each(self, references: Texts, answers: Texts, *more: Any) -> Iterator[tuple[int, list[Span]]]:
        """The same, one answer after another in the order in which they are done, each with its number."""
        yield from ((index, []) for index, answer in enumerate(answers) if not answer.strip())
        for document in self.token_probabilities(references, answers, *more):
            read = (answers[document.index], *document.units(), self.categories, self.threshold)
            yield document.index, spans_of(*read, joined=not self.of_texts)

    def token_probabilities(
        self, references: Texts, answers: Texts, languages: Languages, questions: Texts | None = None
    ) -> Iterator[Document]:
        """The probabilities of each answer's tokens or sentences, as answers are done; empty answers have none."""
        check_lengths(references, answers, languages, questions)
        with tqdm(total=len(answers), desc=self.name, unit="answer", disable=None) as bar:
            indices = [index for index, answer in enumerate(answers) if answer.strip()]
            bar.update(len(answers) - len(indices))

            bounds = [
                sentence_bounds(answers[at], languages[at]) if self.of_texts else [(0, len(answers[at]))]
                for at in indices
            ]
            texts = [
                (references[at], answers[at][start:end], questions[at] if questions else None, languages[at])
                for at, pieces in zip(indices, bounds, strict=True)
                for start, end in pieces
            ]

            def windows() -> Iterator[Window]:
                chunks = (texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK))
                encoded = chain.from_iterable(map(self.encoder.encode_all, chunks))
                for index, places in zip(indices, bounds, strict=True):
                    pieces = [Piece(*place, tokens) for place, tokens in zip(places, encoded, strict=False)]
                    yield from Document(index, pieces, self.categories, self.max_length, self.of_texts).windows

            for window, probabilities in self.engine.classify(windows()):
                document = window.document
                document.update(window, probabilities)
                document.windows_left -= 1
                if document.windows_left == 0:
                    bar.update()
                    yield document


def check_model(name: str, revision: str | None = None, base_model: str | None = None, **options: Any) -> None:
    """Raise the errors of a detector that can be found before its weights are loaded: there is no such model, or option."""
    refuse_unknown(f"detector {name}", options, partial(TransformersDetector, name), UnusableDetector)
    for library_name in ("torch", "transformers"):
        if find_spec(library_name) is None:
            library(library_name)  # which says what to install
    find_repositories(name.rstrip("/") or name, revision, base_model)


# The meaning of a classifier's classes: borne out, hallucinated, or one of the categories

BORNE_OUT = "O"  # the meaning of a class for what the reference bears out
UNNAMED = (BORNE_OUT, HALLUCINATION)  # of a token's two classes that have no names: as LettuceDetect numbers them
_NAMES = {
    BORNE_OUT: "o|0|supported|support|supports|none|no hallucination|not hallucination|not hallucinated|non hallucinated|"
    "non hallucination|faithful|factual|grounded|correct|consistent|entailed|entailment|entails|aligned",
    HALLUCINATION: "1|hallucinated|hallucination|hallucinations|unsupported|not supported|unfaithful|ungrounded|"
    "not grounded|hal|halu|not entailment|non entailment|not entailed|incorrect|inconsistent",
    # classes of entailment and of fact checks (MNLI, FEVER)
    "contradictory": "contradictory|contradiction|contradicts|refuted|refutes",
    "unverifiable": "unverifiable|neutral|not enough info",
}
_MEANINGS = {name: name for name in CATEGORIES}
_MEANINGS |= {name: meaning for meaning, names in _NAMES.items() for name in names.split("|")}
_BIO = re.compile(r"^[bi] (?=.)")  # after "-" became a space
_NUMBERS = (["label 0", "label 1"], ["0", "1"])  # what transformers calls classes without a name, and what others do


def class_meanings(
    names: Sequence[str],
    given: Mapping[str, str] | None = None,
    model: str = "the model",
    unnamed: Sequence[str | None] = UNNAMED,
) -> list[str | None]:
    """The meaning of each class: a category, ``"hallucination"``, or ``None`` for what is borne out. UnusableDetector where
    a label says nothing, none says hallucinated or none says borne out.

    Args:
        names: of the classes, in their order (the values of ``id2label``).
        given: label, or number of the class, to category, ``"hallucination"`` or ``"O"``; other labels are read by name.
        unnamed: meanings of two classes that have numbers for names; ``None`` where these may mean anything.
    """
    by_folded_name = {meaning.casefold(): meaning for meaning in (BORNE_OUT, HALLUCINATION, *CATEGORIES)}
    named = {}
    for label, meaning in (given or {}).items():
        by_number = label not in names and label.isdecimal() and int(label) < len(names)
        name = names[int(label)] if by_number else label
        if name not in names:
            raise UnusableDetector(
                f"{model}: option labels names {label!r}, but the model's labels are {_quoted(names)}"
            )
        if meaning.casefold() not in by_folded_name:
            raise UnusableDetector(
                f"{model}: option labels says {label}={meaning}; a meaning is O, {HALLUCINATION}, {', '.join(CATEGORIES)}"
            )
        named[name] = by_folded_name[meaning.casefold()]
    plain = [re.sub(r"[\s_-]+", " ", name).strip().casefold() for name in names]
    meanings = [named.get(name) or _meaning_of(of_name) for name, of_name in zip(names, plain, strict=True)]
    if not named and plain in _NUMBERS:
        meanings = [*unnamed]
    elif len(meanings) == 2 and None in meanings and HALLUCINATION in meanings:
        meanings = [meaning or BORNE_OUT for meaning in meanings]  # two classes, one is hallucinated: the other is not
    hallucinated = [meaning for meaning in meanings if meaning not in (None, BORNE_OUT)]
    if None in meanings or BORNE_OUT not in meanings or not hallucinated:
        unclear = [name for name, meaning in zip(names, meanings, strict=True) if meaning is None]
        first = HALLUCINATION if unclear and BORNE_OUT in meanings else BORNE_OUT
        examples = (f"{name}={HALLUCINATION if index else first}" for index, name in enumerate(unclear or names))
        raise UnusableDetector(
            f"{model}: has the labels {_quoted(names)}; it is not clear what {_quoted(unclear or names)} stand for, and "
            f"one must be borne out, one hallucinated. Say so with the option labels, for instance "
            f"labels={';'.join(examples)}; a meaning is O (borne out), {HALLUCINATION}, {', '.join(CATEGORIES)}."
        )
    return [None if meaning == BORNE_OUT else meaning for meaning in meanings]


def parse_labels(value: str | Mapping[object, object] | None) -> dict[str, str] | None:
    """The option ``labels``: a mapping, or text as ``"LABEL_0=O;LABEL_1=hallucination"``; else UnusableDetector."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(label): str(meaning) for label, meaning in value.items()}
    pairs = [part.rpartition("=") for part in str(value).split(";")]
    if not all(label.strip() for label, _, _ in pairs):
        raise UnusableDetector(
            f"option labels: {value!r} is not a list of label=meaning, such as LABEL_0=O;LABEL_1={HALLUCINATION}"
        )
    return {label.strip(): meaning.strip() for label, _, meaning in pairs}


def _meaning_of(name: str) -> str | None:
    bare = _BIO.sub("", name)
    return _MEANINGS.get(name) or (_MEANINGS.get(bare) if _MEANINGS.get(bare) != BORNE_OUT else None)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
