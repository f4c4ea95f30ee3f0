"""The interface of engines, which compute the probabilities of a classifier's classes, and the engine ``transformers``.

Windows, thresholds and spans are the same code for all engines. The engine ``transformers`` runs windows through the model
in this process, in padded batches of similar length. On a CPU each core reads a batch of its own.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.inputs import Window
from detector_plugin.transformers.model import (
    ModelDescription,
    first_line,
    learned_positions,
    library,
    load_model,
    padding_of,
)

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_TOKENS = 65_536  # at once, padding included: 16 inputs of 4096
_SIZE = 64  # inputs at once
_CORE_TOKENS = 1_024  # of a batch that one core of a CPU reads; more of a narrow model
_CORE_NUMBERS = _CORE_TOKENS * 384
"""Tokens of such a batch times the model's width. A core is fastest with what its caches hold: with MiniLM, 384 wide, 4,096
tokens at once take a quarter longer than 1,024. With a narrow model Python's part of a batch counts, so batches are larger.
"""
_INPUT_TOKENS = 64  # a batch of so many tokens an input is full
_ROUND = 16  # batches that are sorted by length together: little padding, and a bounded number of windows in memory
_QUEUED = 2  # batches for each core that are running or wait to: what is read ahead is bounded

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class Setup(NamedTuple):
    """What an engine is made of: options of :class:`detector_plugin.transformers.TransformersDetector`, parsed."""

    model: ModelDescription
    bidirectional: bool  # whether a decoder's tokens see those after them
    pairs: bool  # whether reference and answer are two texts, which some models distinguish by token types
    max_length: int | None  # where the user or the model's folder said so
    batch_size: int | None
    batch_tokens: int | None
    dtype: str
    device: str
    options: Mapping[str, Any]  # of this engine alone


class Engine:
    """Computes probabilities. It raises UnusableDetector where the model cannot be had, or its options are wrong.

    Attributes:
        has_options: whether the engine takes options of its own, and checks their names itself.
        longest: tokens of an input, at most, that the model can read; ``None`` where there is no such limit.
    """

    has_options = False
    longest: int | None

    def __init__(self, setup: Setup) -> None:
        """Load the model."""

    @staticmethod
    def check(name: str) -> None:
        """Raise what is known to be wrong before a model is loaded."""

    def classify(self, windows: Iterable[Window]) -> Iterator[tuple[Window, NDArray[np.float32]]]:
        """The probabilities of each class for each token of each window, or one row for each window, in the order in which
        windows are done. No more windows are taken than the engine works on at once: that bounds memory.
        """
        raise NotImplementedError


class Runner(Engine):
    """Runs a classifier in this process."""

    def __init__(self, setup: Setup) -> None:
        self.name, self.bidirectional = setup.model.name, setup.bidirectional
        self.model = model = load_model(setup.model, setup.device, setup.dtype)
        tokenizer = setup.model.tokenizer
        self.device = next(model.parameters()).device
        self.at_once = setup.batch_tokens or _TOKENS
        self.cores, size, tokens = 1, _SIZE, _TOKENS
        if self.device.type == "cpu":
            threads = library("torch").get_num_threads()
            self.cores = max(1, min(threads, setup.batch_size or threads, self.at_once // _CORE_TOKENS))
            width = getattr(model.config.get_text_config(), "hidden_size", None) or 384
            tokens = min(_TOKENS // self.cores, max(_CORE_TOKENS, _CORE_NUMBERS // width))
            size, tokens = min(_SIZE, tokens // _INPUT_TOKENS) * self.cores, tokens * self.cores
        # Of one batch; as many are read at once as cores read one each.
        self.batch_size = (setup.batch_size or size) // self.cores
        self.batch_tokens = (setup.batch_tokens or tokens) // self.cores
        self.padding = setup.model.config.pad_token_id if setup.model.of_texts else padding_of(tokenizer)
        self.types = reads_types(model, tokenizer)
        self.longest = learned_positions(model)
        if self.bidirectional and (problem := bidirectional_problem(model)):
            raise UnusableDetector(
                f"detector {self.name}: a {type(model).__name__} cannot attend in both directions here ({problem}); "
                "use attention=causal if it was trained so"
            )

    def classify(self, windows: Iterable[Window]) -> Iterator[tuple[Window, NDArray[np.float32]]]:
        results = map_on_cores(
            lambda batch: self.probabilities([window.ids for window in batch], [window.types for window in batch]),
            self._sorted_batches(windows),
            self.cores,
            lambda batch: len(batch) * len(batch[0].row),
            lambda: self.at_once,
        )
        for batch, probabilities in results:
            yield from zip(batch, probabilities, strict=True)

    def _sorted_batches(self, windows: Iterable[Window]) -> Iterator[list[Window]]:
        """All batches; windows are sorted by length a part at a time."""
        waiting: list[Window] = []
        tokens = 0
        for window in windows:
            waiting.append(window)
            tokens += len(window.row)
            if len(waiting) >= _ROUND * self.batch_size or tokens >= _ROUND * self.batch_tokens:
                yield from self.batches(waiting)
                waiting, tokens = [], 0
        yield from self.batches(waiting)

    def batches(self, waiting: Sequence[Window]) -> Iterator[list[Window]]:
        """Batches of windows of similar length, the longest first: memory runs out at once or never."""
        batch: list[Window] = []
        for window in sorted(waiting, key=lambda window: -len(window.row)):
            longest = len(batch[0].row) if batch else 0
            if batch and (len(batch) >= self.batch_size or (len(batch) + 1) * longest > self.batch_tokens):
                yield batch
                batch = []
            batch.append(window)
        if batch:
            yield batch

    def probabilities(
        self, ids: Sequence[NDArray[np.int64]], types: Sequence[NDArray[np.int64]]
    ) -> list[NDArray[np.float32]]:
        """Probabilities of the classes for each token of each input, or one row for each input. A batch that does not
        fit into memory is read in two halves, and later batches are no larger than these."""
        try:
            logits = self._logits(ids, types)
        except Exception as error:
            # of a GPU, or of torch's allocator of a CPU
            out_of_memory = isinstance(error, library("torch").cuda.OutOfMemoryError) or "can't allocate memory" in str(
                error
            )
            if not out_of_memory:
                raise
            if len(ids) == 1:
                raise UnusableDetector(
                    f"detector {self.name}: {len(ids[0])} tokens do not fit into the memory of {self.device}; set "
                    "max_length"
                ) from error
        else:
            probabilities = logits.float().softmax(-1).cpu().numpy()
            probabilities = probabilities.reshape(len(ids), -1, probabilities.shape[-1])
            result = [row[: len(ids_of_row)] for row, ids_of_row in zip(probabilities, ids, strict=True)]
            if not all(np.isfinite(row).all() for row in result):
                raise UnusableDetector(
                    f"detector {self.name}: gives no numbers in {self.model.dtype}; set the option dtype=float32"
                )
            return result
        library("torch").cuda.empty_cache()
        half, longest = -(-len(ids) // 2), max(map(len, ids))
        self.batch_tokens = min(self.batch_tokens, half * longest)
        self.at_once = min(self.at_once, self.cores * self.batch_tokens)
        log.warning(
            "detector %s: %d inputs of up to %d tokens do not fit into the memory of %s; they are read in two halves, and "
            "batches have %d tokens at most from now on",
            *(self.name, len(ids), longest, self.device, self.batch_tokens),
        )
        return [*self.probabilities(ids[:half], types[:half]), *self.probabilities(ids[half:], types[half:])]

    def _logits(self, ids: Sequence[NDArray[np.int64]], types: Sequence[NDArray[np.int64]]) -> Any:
        torch = library("torch")
        rows = {"input_ids": ids, "attention_mask": list(map(np.ones_like, ids))}
        if self.types:
            rows["token_type_ids"] = types
        inputs = {
            name: padded(values, torch.long, self.padding if values is ids else 0).to(self.device)
            for name, values in rows.items()
        }
        if self.bidirectional:
            inputs["attention_mask"] = bidirectional_mask(torch, inputs["attention_mask"], self.model.dtype)
        with torch.inference_mode():
            return self.model(**inputs).logits


def padded(rows: Iterable[NDArray[Any]], dtype: Any, fill: float) -> Any:
    """(rows, longest): rows of any length as one tensor, filled up at their ends."""
    torch = library("torch")
    tensors = [torch.from_numpy(row).to(dtype) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)


def reads_types(model: Any, tokenizer: Any) -> bool:
    """Whether a model is to be told first text from second: XLM-R's model takes that, its tokenizer has none to give."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = (*inspect.signature(base.forward).parameters, *tokenizer.model_input_names)
    return names.count("token_type_ids") == 2


def bidirectional_mask(torch: Any, mask: Any, dtype: Any) -> Any:
    """The mask in four dimensions, which models take as it is instead of making a causal one: only padding is hidden."""
    hidden = (1.0 - mask[:, None, None, :].to(dtype)) * torch.finfo(dtype).min
    return hidden.expand(-1, 1, mask.shape[1], -1)


def bidirectional_problem(model: Any) -> str:
    """Why a decoder in evaluation mode cannot attend in both directions, empty where it can: nobody would notice that the
    first token does not see the others."""
    torch = library("torch")
    try:
        with torch.inference_mode():
            first, second = (
                model(
                    input_ids=ids, attention_mask=bidirectional_mask(torch, torch.ones_like(ids), model.dtype)
                ).logits[0]
                for ids in torch.from_numpy(direction_probe(model.get_input_embeddings().num_embeddings))
                .to(model.device)
                .split(1)
            )
        return "" if (first[0] != second[0]).any() else "its attention stays causal"
    except Exception as error:  # whatever the model makes of a mask that it does not expect
        return first_line(error)


def direction_probe(vocabulary: int) -> NDArray[np.int64]:
    """(2, tokens) ids, below `vocabulary`, of two inputs of which only the first token is the same: its logits differ where
    it sees the others."""
    ids = np.arange(16) * 7 % vocabulary
    second = (ids + vocabulary // 2) % vocabulary
    second[0] = ids[0]
    return np.stack([ids, second])


def map_on_cores(
    work: Callable[[Batch], Result],
    batches: Iterable[Batch],
    cores: int,
    size: Callable[[Batch], int],
    room: Callable[[], int],
) -> Iterator[tuple[Batch, Result]]:
    """The result of each batch, in the order of the batches, each made by a core of a CPU of its own.

    A small model's operations have little to share: two cores on each operation read a document of 126 tokens with MiniLM
    1.3 times as fast as one core. Two cores with a document each are twice as fast as one. Torch releases Python's lock
    within its operations, so threads of one process suffice, and the weights are in memory once. Where there are fewer
    batches than cores, all cores work on one batch after another, as torch does by itself. Batches are taken one by one;
    the sizes of those that are worked on at once have the sum `room` at most, but for a single one.
    """
    remaining = iter(batches)
    first = list(islice(remaining, cores))
    if cores == 1 or len(first) < cores:
        for batch in chain(first, remaining):
            yield batch, work(batch)
        return
    torch = library("torch")
    threads = torch.get_num_threads()
    running: deque[tuple[Batch, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for batch in chain(first, remaining):
            while running and (
                len(running) >= _QUEUED * cores or sum(size(other) for other, _ in running) + size(batch) > room()
            ):
                done, future = running.popleft()
                yield done, future.result()
            running.append((batch, pool.submit(work, batch)))
        for done, future in running:
            yield done, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        # Threads that others start take the number that was set last, by whichever thread.
        torch.set_num_threads(threads)
