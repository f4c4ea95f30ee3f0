"""Any Hugging Face token classifier as a hallucination detector."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span
from custom_metrics.usage.options import known_instead, misspelt
from detector_plugin.detector import UnusableDetector, flag, number, one_of, same_length
from detector_plugin.transformers.engines import Engine, FailingInput, Setup
from detector_plugin.transformers.engines.runner import Runner
from detector_plugin.transformers.engines.server import Server
from detector_plugin.transformers.engines.vllm import VLLM
from detector_plugin.transformers.forms import FORMS, Encoded, Encoder
from detector_plugin.transformers.model import LONGEST, describe, find, positions
from detector_plugin.transformers.repository import library
from detector_plugin.transformers.windows import Document, Reading, room_for, spans_of

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

ENGINES: Mapping[str, type[Engine]] = {"transformers": Runner, "vllm": VLLM, "server": Server}
"""The engines, by the name that the option ``engine`` gives. A new engine is a line here."""

_CHUNK = 32  # documents that the tokenizer reads at once


class TransformersDetector:
    """A token classifier of the hub or of a folder, or a PEFT adapter of one.

    A token's probability to be hallucinated is the sum over the hallucinated classes. A reference that does not fit is read
    in overlapping windows. For each token the window counts in which it is most likely borne out: a word is borne out if
    any part of the reference bears it out. (LettuceDetect's own code takes the least likely one.) Where the model or an
    option cannot be used, UnusableDetector says what was wrong and what to do.

    Args:
        name: of the hub, such as ``KRLabsOrg/lettucedect-v2-mmbert-base``, or a folder.
        form, attention, threshold, max_length: default what a model that ``lm-eval-grounded train`` made was trained with.
            Of others, ``form="auto"`` is LettuceDetect's where the name has ``lettuce`` in it (``lettucedetect-v2`` where
            it has ``v2``, too), ``paper`` for decoders, else ``pair``; a decoder attends in both directions in the form
            ``paper``, else as it was made; the threshold is 0.5, the length what the model can read, at most 4096.
        batch_size, batch_tokens: inputs, and tokens with their padding, at once, at most, over all cores of a CPU; by
            default what suits the engine. A single input may have more tokens.
        progress: show a progress bar on a terminal.
        engine_options: options that the engine alone has.

    ``lm_eval_tasks/mfava/README.md`` has a table of all options.
    """

    WITHOUT_EFFECT = frozenset(
        "engine batch_size batch_tokens device progress base_url served_model in_flight retries timeout skip_failing "
        "tensor_parallel_size data_parallel_size gpu_memory_utilization enforce_eager".split()
    )
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
        engine: str = "transformers",
        batch_size: int | str | None = None,
        batch_tokens: int | str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        separator: str | None = None,
        revision: str | None = None,
        base_model: str | None = None,
        trust_remote_code: bool | str = False,
        progress: bool | str = True,
        **engine_options: Any,
    ) -> None:
        kind = _engine_of(name, engine, engine_options)
        self.name = name.rstrip("/") or name
        one_of("form", form, ("auto", *FORMS))
        one_of("attention", attention, ("auto", "bidirectional", "causal"))
        one_of("dtype", dtype, ("auto", "float32", "bfloat16", "float16"))
        wanted: float | None = number("threshold", threshold, float, 0, 1)
        self.progress = flag("progress", progress)
        size = number("batch_size", batch_size, int, 1)
        tokens = number("batch_tokens", batch_tokens, int, 1)
        longest = number("max_length", max_length, int, 1)
        given_labels = mapping_of(labels)
        model = describe(self.name, revision, base_model, flag("trust_remote_code", trust_remote_code))
        stored = model.stored
        usual_threshold = 0.5 if stored.threshold is None else stored.threshold
        self.threshold: float = usual_threshold if wanted is None else wanted
        local = Path(self.name).expanduser()
        plain_name = (local.resolve().name if local.is_dir() else self.name).casefold()
        usual_form = "paper" if model.decoder else "pair"
        if "lettuce" in plain_name:
            is_v2 = re.search(r"(?<![a-z0-9])v2(?![0-9])", plain_name)
            usual_form = "lettucedetect-v2" if is_v2 else "lettucedetect"
        usual_form = stored.form or usual_form
        one_of("form", usual_form, tuple(FORMS))
        self.form = usual_form if form == "auto" else form
        usual_direction = model.decoder and (
            self.form == "paper" if stored.attention is None else stored.attention == "bidirectional"
        )
        bidirectional = usual_direction if attention == "auto" else attention == "bidirectional" and model.decoder
        if attention == "causal" and not model.decoder:
            raise UnusableDetector(f"detector {name}: option attention=causal is for decoders, and this is an encoder")
        self.categories = meanings(model.labels, given_labels, f"detector {name}")
        asked = longest or stored.max_length
        pairs = self.form != "paper"
        self.engine: Engine = kind(
            Setup(model, bidirectional, pairs, asked, size, tokens, dtype, device, options=engine_options)
        )
        limit = self.engine.longest
        if limit is not None and asked is not None and asked > limit:
            raise UnusableDetector(
                f"detector {self.name}: max_length={asked}, but the model reads {limit} tokens at most"
            )
        stated = positions(model.config) or LONGEST
        self.max_length: int = asked or min(stated, limit or stated, model.tokenizer.model_max_length, LONGEST)
        self.encoder = Encoder(model.tokenizer, self.form, self.max_length, separator)
        room_for(
            self.encoder.encode("", "a", "a", None), self.max_length
        )  # rather now than in the midst of the answers
        self.licence: str = model.licence
        # Of the options, those that change what is found: a calibration with others does not hold.
        changes = {
            "form": None if self.form == usual_form else self.form,
            "attention": None if bidirectional == usual_direction else attention,
            "threshold": None if self.threshold == usual_threshold else self.threshold,
            "max_length": longest,
            "labels": ",".join(f"{label}={meaning}" for label, meaning in sorted((given_labels or {}).items())) or None,
            "separator": None if separator is None else repr(separator),
            "quantization": engine_options.get("quantization"),
        }
        self.version: str = model.version + "".join(
            f";{key}={value}" for key, value in changes.items() if value is not None
        )

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> list[list[Span] | None]:
        """See :meth:`detector_plugin.detector.Detector.detect`.

        Spans are of tokens: a span may begin or end within a word, which counts as hallucinated all the same.
        """
        spans = dict(self.detect_each(references, answers, languages, questions))
        return [spans[index] for index in range(len(answers))]

    def detect_each(
        self, references: Sequence[str], answers: Sequence[str], *more: Any
    ) -> Iterator[tuple[int, list[Span] | None]]:
        """The same, one answer after another in the order in which they are done, each with its number."""
        yield from ((index, []) for index, answer in enumerate(answers) if not answer.strip())
        for document in self.readings(references, answers, *more):
            answer, read = answers[document.index], (document.encoded.offsets, document.best)
            spans = None if document.failed else spans_of(answer, *read, self.categories, self.threshold)
            yield document.index, spans

    def readings(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> Iterator[Document]:
        """The probabilities of each answer's tokens, in the order in which answers are done; empty answers have none."""
        same_length(references, answers, {"languages": languages, "questions": questions})
        with tqdm(total=len(answers), desc=self.name, unit="answer", disable=None if self.progress else True) as bar:
            wanted = [index for index, answer in enumerate(answers) if answer.strip()]
            bar.update(len(answers) - len(wanted))

            documents = [
                (references[at], answers[at], questions[at] if questions else None, languages[at]) for at in wanted
            ]

            def to_read() -> Iterator[Reading]:
                for index, tokens in zip(wanted, _ahead(self.encoder.encode_all, documents), strict=True):
                    yield from Document(index, tokens, self.categories, self.max_length).readings()

            for (document, decided, row), probabilities in self.engine.read(to_read()):
                if isinstance(probabilities, FailingInput):
                    said = f"detector {self.name}: {probabilities}, while others are answered. It is the answer "
                    said += repr(answers[document.index][:80])
                    if not self.skips_failing:
                        raise UnusableDetector(
                            f"{said}. `lm-eval-grounded score --skip-failing`, or the detector's option skip_failing=true, "
                            f"leaves out and counts such answers; where spans are kept (`score`, or --use_cache), the same "
                            f"command goes on."
                        ) from probabilities
                    log.warning("%s; it is left out", said)
                    document.failed = True
                else:
                    document.take(decided, row, probabilities)
                document.left -= 1
                if document.left == 0:
                    bar.update()
                    yield document

    @property
    def skips_failing(self) -> bool:
        """Whether answers that can never be read are left out: their spans are ``None``."""
        return self.engine.skips_failing


def _ahead(encode: Callable[[Sequence[Any]], list[Encoded]], documents: Sequence[Any]) -> Iterator[Encoded]:
    """The tokens of documents; the tokenizer works in a thread of its own, a chunk before the engine."""
    chunks = [documents[start : start + _CHUNK] for start in range(0, len(documents), _CHUNK)]
    with ThreadPoolExecutor(1) as thread:
        coming = None
        for chunk in (*chunks, None):
            following = thread.submit(encode, chunk) if chunk else None
            if coming:
                yield from coming.result()
            coming = following


# What a classifier's classes mean: borne out, hallucinated, or one of the categories

_SUPPORTED = {
    *("o", "0", "supported", "support", "none", "no hallucination", "not hallucination", "not hallucinated"),
    *("non hallucinated", "non hallucination", "faithful", "factual", "grounded", "correct", "consistent", "entailed"),
}
_HALLUCINATED = {
    *("1", "hallucinated", "hallucination", "hallucinations", "unsupported", "not supported", "unfaithful"),
    *("ungrounded", "not grounded", "hal", "halu"),
}
_BIO = re.compile(r"^[bi] (?=.)")  # after "-" became a space


def meanings(
    names: Sequence[str], given: Mapping[str, str] | None = None, model: str = "the model"
) -> list[str | None]:
    """The meaning of each class: a category, ``"hallucination"``, or ``None`` for a token that is borne out.

    Args:
        names: of the classes, in their order (the values of ``id2label``).
        given: label, or number of the class, to category, ``"hallucination"`` or ``"O"``; other labels are read by name.
        model: for the message.

    Raises:
        UnusableDetector: a label says nothing, none says hallucinated or none says borne out.
    """
    known = {meaning.casefold(): meaning for meaning in ("O", HALLUCINATION, *CATEGORIES)}
    named = {}
    for label, meaning in (given or {}).items():
        by_number = label not in names and label.isdecimal() and int(label) < len(names)
        name = names[int(label)] if by_number else label
        if name not in names:
            raise UnusableDetector(f"{model}: option labels names {label!r}, but the model's labels are {_list(names)}")
        if meaning.casefold() not in known:
            raise UnusableDetector(
                f"{model}: option labels says {label}={meaning}; a meaning is O, {HALLUCINATION}, {', '.join(CATEGORIES)}"
            )
        named[name] = known[meaning.casefold()]
    read = [named[name] if name in named else _by_name(name) for name in names]
    if not named and [_plain(name) for name in names] == ["label 0", "label 1"]:
        read = ["O", HALLUCINATION]  # what transformers calls unnamed classes
    elif len(read) == 2 and None in read and HALLUCINATION in read and "O" not in read:
        read = [meaning or "O" for meaning in read]  # two classes, one is hallucinated: the other is not
    hallucinated = [meaning for meaning in read if meaning not in (None, "O")]
    if None in read or "O" not in read or not hallucinated:
        unclear = [name for name, meaning in zip(names, read, strict=True) if meaning is None]
        what = (
            f"it is not clear what {_list(unclear)} stand for"
            if unclear
            else f"none of them says that a token is {'hallucinated' if 'O' in read else 'borne out'}"
        )
        example = ";".join(f"{name}={'O' if index == 0 else HALLUCINATION}" for index, name in enumerate(names))
        raise UnusableDetector(
            f"{model}: has the labels {_list(names)}, and {what}. Say so with the option labels, for instance "
            f"labels={example}; a meaning is O (borne out), {HALLUCINATION}, {', '.join(CATEGORIES)}."
        )
    return [None if meaning == "O" else meaning for meaning in read]


def mapping_of(value: str | Mapping[object, object] | None) -> dict[str, str] | None:
    """The option ``labels``: a mapping, or text as ``"LABEL_0=O;LABEL_1=hallucination"``; else UnusableDetector."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(label): str(meaning) for label, meaning in value.items()}
    parts = [part.rpartition("=") for part in str(value).split(";")]
    if not all(label.strip() for label, _, _ in parts):
        raise UnusableDetector(
            f"option labels: {value!r} is no list of label=meaning, such as LABEL_0=O;LABEL_1={HALLUCINATION}"
        )
    return {label.strip(): meaning.strip() for label, _, meaning in parts}


def _by_name(name: str) -> str | None:
    plain = _plain(name)
    if plain in _SUPPORTED:
        return "O"
    bare = _BIO.sub("", plain)
    if bare in _HALLUCINATED:
        return HALLUCINATION
    return bare if bare in CATEGORIES else None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


# Before a model is loaded


def check(
    name: str, revision: str | None = None, base_model: str | None = None, engine: str = "transformers", **options: Any
) -> None:
    """Raise the errors of a detector that can be found before its weights are loaded: there is no such model, no such
    option, or the engine cannot be had.
    """
    kind = _engine_of(name, engine, options)
    for needed in ("torch", "transformers"):
        if find_spec(needed) is None:
            library(needed)  # which says what to install
    find(name.rstrip("/") or name, revision, base_model)
    kind.check(name.rstrip("/") or name, options)


def _engine_of(detector: str, name: str, options: Mapping[str, Any]) -> type[Engine]:
    """The engine of a name, which has all of these options."""
    one_of("engine", name, tuple(ENGINES))
    engine = ENGINES[name]
    parameters = inspect.signature(TransformersDetector).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    known = sorted([*known, *(engine.OPTIONS or ())])
    for option in sorted(options.keys() - {*known}):
        if engine.OPTIONS is not None:
            raise UnusableDetector(f"detector {detector}: no option {option!r}{known_instead(option, known)}")
        if meant := misspelt(option, known):
            raise UnusableDetector(f"detector {detector}: no option {option!r}; did you mean {meant!r}?")
    return engine
