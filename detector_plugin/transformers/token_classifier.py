"""Any Hugging Face token classifier as a hallucination detector."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

from custom_metrics.spans import Span
from detector_plugin.detector import UnusableDetector, same_length
from detector_plugin.transformers.forms import FORMS, Encoded, Encoder
from detector_plugin.transformers.labels import mapping_of, meanings
from detector_plugin.transformers.model import Loaded, find, load
from detector_plugin.transformers.options import flag, number, one_of
from detector_plugin.transformers.readings import Document, spans_of
from detector_plugin.transformers.repository import library
from detector_plugin.transformers.runner import Runner
from detector_plugin.transformers.windows import SMALLEST_ROOM, Window, windows

__all__ = ["TransformersDetector", "check"]

_LONGEST = 4096  # tokens; the input length of the mFAVA paper's appendix A.3, and LettuceDetect's default
_ROUND = 16  # batches that are sorted by length together: little padding, and a bounded number of windows in memory


class TransformersDetector:
    """A token classifier of the hub or of a folder, or a PEFT adapter of one.

    A token's probability to be hallucinated is the sum over the hallucinated classes. A reference that does not fit is read
    in overlapping windows. For each token the window counts in which it is most likely borne out: a word is borne out if
    any part of the reference bears it out. (LettuceDetect's own code takes the least likely one.)

    Args:
        name: of the hub, such as ``KRLabsOrg/lettucedect-v2-mmbert-base``, or a folder.
        form: what the model reads, one of :data:`detector_plugin.transformers.forms.FORMS`; ``auto`` is LettuceDetect's
            where the name has ``lettuce`` in it (``lettucedetect-v2`` where it has ``v2``, too), ``paper`` for decoders
            such as Llama, else ``pair``; of a model that ``lm-eval-grounded train`` made, what it was trained in.
        labels: what its labels mean where their names do not say it: ``{"LABEL_0": "O", "LABEL_1": "hallucination"}`` or
            ``"LABEL_0=O;LABEL_1=hallucination"``.
        attention: of a decoder: ``bidirectional``, as the mFAVA paper trains them, or ``causal``; ``auto`` is bidirectional
            in the form ``paper``, else the model's own; of a model trained here, what it was trained with.
        threshold: a token is flagged from this probability on; default that of a model trained here, else 0.5.
        max_length: of an input in tokens; by default what the model can read, at most 4096.
        batch_size: inputs at once, at most.
        batch_tokens: tokens at once, at most, padding included; a single input may have more.
        dtype: ``float32``, ``bfloat16``, ``float16`` or ``auto``: bfloat16 on a GPU, float16 on one without it, float32 on
            a CPU.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ...
        separator: between reference and answer in the form ``paper``; by default the tokenizer's.
        revision: branch, tag or commit of the hub.
        base_model: of an adapter, where it is not at the place that the adapter names.
        trust_remote_code: run code of the model's repository.
        progress: show a progress bar on a terminal.

    Raises:
        UnusableDetector: the model or an option cannot be used; the message says what was wrong and what to do.
    """

    name: str
    version: str
    licence: str

    def __init__(
        self,
        name: str,
        *,
        form: str = "auto",
        labels: str | Mapping[Any, Any] | None = None,
        attention: str = "auto",
        threshold: float | str | None = None,
        max_length: int | str | None = None,
        batch_size: int | str = 16,
        batch_tokens: int | str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        separator: str | None = None,
        revision: str | None = None,
        base_model: str | None = None,
        trust_remote_code: bool | str = False,
        progress: bool | str = True,
        **unknown: Any,
    ) -> None:
        _known(name, unknown)
        self.name = name.rstrip("/") or name
        one_of("form", form, ("auto", *FORMS))
        one_of("attention", attention, ("auto", "bidirectional", "causal"))
        one_of("dtype", dtype, ("auto", "float32", "bfloat16", "float16"))
        wanted: float | None = None if threshold is None else number("threshold", threshold, float, 0, 1)
        self.progress = flag("progress", progress)
        size = number("batch_size", batch_size, int, 1)
        tokens = None if batch_tokens is None else number("batch_tokens", batch_tokens, int, 1)
        longest = None if max_length is None else number("max_length", max_length, int, 1)
        told = mapping_of(labels)
        loaded = load(
            self.name,
            revision=revision,
            base_model=base_model,
            trust_remote_code=flag("trust_remote_code", trust_remote_code),
            device=device,
            dtype=dtype,
        )
        stored = loaded.stored
        best = 0.5 if stored.threshold is None else stored.threshold
        self.threshold: float = best if wanted is None else wanted
        by_itself = stored.form or self._usual_form(loaded.decoder)
        one_of("form", by_itself, tuple(FORMS))
        self.form = by_itself if form == "auto" else form
        usually = loaded.decoder and (
            self.form == "paper" if stored.attention is None else stored.attention == "bidirectional"
        )
        bidirectional = usually if attention == "auto" else attention == "bidirectional" and loaded.decoder
        if attention == "causal" and not loaded.decoder:
            raise UnusableDetector(f"detector {name}: option attention=causal is for decoders, and this is an encoder")
        self.categories = meanings(loaded.labels, told, f"detector {name}")
        self.max_length = _length(self.name, loaded, longest or stored.max_length)
        self.encoder = Encoder(loaded.tokenizer, self.form, self.max_length, separator)
        self._room(self.encoder.encode("", "a", "a", None))  # rather now than in the midst of the answers
        self.runner = Runner(self.name, loaded.model, loaded.tokenizer, bidirectional, size, tokens)
        self.licence = loaded.licence
        # Of the options, those that change what is found: a calibration with others does not hold.
        changes = {
            "form": None if self.form == by_itself else self.form,
            "attention": None if bidirectional == usually else attention,
            "threshold": None if self.threshold == best else self.threshold,
            "max_length": longest,
            "labels": ",".join(f"{label}={meaning}" for label, meaning in sorted((told or {}).items())) or None,
            "separator": None if separator is None else repr(separator),
        }
        self.version = loaded.version + "".join(
            f";{key}={value}" for key, value in changes.items() if value is not None
        )

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> list[list[Span]]:
        """See :meth:`detector_plugin.detector.Detector.detect`.

        Spans are of tokens: a span may begin or end within a word, which counts as hallucinated all the same.
        """
        found: list[list[Span]] = [[] for _ in answers]
        for document in self.readings(references, answers, languages, questions):
            found[document.index] = spans_of(
                *(answers[document.index], document.encoded.offsets, document.best, self.categories, self.threshold)
            )
        return found

    def readings(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> Iterator[Document]:
        """The probabilities of each answer's tokens, in the order in which answers are done; empty answers have none.

        Raises:
            ValueError: the sequences differ in length.
        """
        same_length(references, answers, {"languages": languages, "questions": questions})
        with tqdm(total=len(answers), desc=self.name, unit="answer", disable=None if self.progress else True) as bar:
            waiting: list[tuple[Document, Window]] = []
            tokens = 0
            for index, answer in enumerate(answers):
                if not answer.strip():
                    bar.update()
                    continue
                encoded = self.encoder.encode(
                    references[index], answer, questions[index] if questions else None, languages[index]
                )
                document = Document(index, encoded, len(self.categories), self._room(encoded))
                for window in windows(len(encoded.reference), len(encoded.answer), document.room):
                    waiting.append((document, window))
                    tokens += document.length(window)
                    if len(waiting) >= _ROUND * self.runner.batch_size or tokens >= _ROUND * self.runner.batch_tokens:
                        yield from self._read(waiting, bar)
                        waiting, tokens = [], 0
            yield from self._read(waiting, bar)

    def _read(self, waiting: list[tuple[Document, Window]], bar: Any) -> Iterator[Document]:
        """Read windows; yields the documents of which all have been read."""
        for batch in self.runner.batches(waiting):
            rows = [document.tokens(window) for document, window in batch]
            probabilities = self.runner.probabilities([document.encoded for document, _ in batch], rows)
            for (document, window), row, of_row in zip(batch, rows, probabilities, strict=True):
                document.take(window, row, of_row, self.categories)
                if document.left == 0:
                    bar.update()
                    yield document

    def _room(self, encoded: Encoded) -> int:
        room = self.max_length - len(encoded.fixed)
        if room < SMALLEST_ROOM:
            raise UnusableDetector(
                f"detector {self.name}: of max_length={self.max_length} tokens, prompt and question take "
                f"{len(encoded.fixed)}; reference and answer need more room"
            )
        return room

    def _usual_form(self, decoder: bool) -> str:
        local = Path(self.name).expanduser()
        name = (local.resolve().name if local.is_dir() else self.name).casefold()
        if "lettuce" in name:
            return "lettucedetect-v2" if re.search(r"(?<![a-z0-9])v2(?![0-9])", name) else "lettucedetect"
        return "paper" if decoder else "pair"


def check(name: str, revision: str | None = None, base_model: str | None = None, **options: Any) -> None:
    """Raise the errors of a detector that can be found before its weights are loaded.

    Raises:
        UnusableDetector: there is no such model, or no such option.
    """
    parameters = inspect.signature(TransformersDetector).parameters
    _known(name, {key: value for key, value in options.items() if key not in parameters})
    for needed in ("torch", "transformers"):
        if find_spec(needed) is None:
            library(needed)  # which says what to install
    find(name.rstrip("/") or name, revision, base_model)


def _known(name: str, unknown: Mapping[str, Any]) -> None:
    if unknown:
        parameters = inspect.signature(TransformersDetector).parameters.values()
        known = sorted(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)
        raise UnusableDetector(f"detector {name}: no option {', '.join(sorted(unknown))}; there are {', '.join(known)}")


def _length(name: str, loaded: Loaded, wanted: int | None) -> int:
    """Tokens of an input: what was asked for, or what model and tokenizer can read, at most 4096."""
    stated = getattr(loaded.config, "max_position_embeddings", None) or getattr(loaded.config, "n_positions", None)
    limit = stated if isinstance(stated, int) and stated > 0 else _LONGEST
    # Positions that were learned: there are no more. Others can be had, at the user's risk.
    learned = next(
        (
            module
            for key, module in loaded.model.named_modules()
            if key.rpartition(".")[2] in ("position_embeddings", "wpe") and hasattr(module, "num_embeddings")
        ),
        None,
    )
    if learned is not None:
        # RoBERTa and its kin count positions from after the padding token's.
        padding = getattr(learned, "padding_idx", None)
        limit = min(limit, learned.num_embeddings - (0 if padding is None else padding + 1))
        if wanted is not None and wanted > limit:
            raise UnusableDetector(f"detector {name}: max_length={wanted}, but the model reads {limit} tokens at most")
    return wanted or min(limit, loaded.tokenizer.model_max_length, _LONGEST)
