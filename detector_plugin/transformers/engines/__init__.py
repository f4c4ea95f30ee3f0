"""What an engine is, and what engines share. It computes the classes' probabilities of a window's tokens, or of the window
as a whole, and nothing else.

Windows, what they say of a token together, thresholds and spans are the same code for all engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.inputs import Window
from detector_plugin.transformers.model import ModelDescription

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_SAME_LOGITS = 0.03
"""Of what the last token's logits change by: rounding in bfloat16, in a batch with others, is a third of it."""


def direction_probe(vocabulary: int) -> NDArray[np.int64]:
    """(2, tokens) ids, below `vocabulary`, of two inputs of which only the first token is the same: its logits differ where
    it sees the others."""
    ids = np.arange(16) * 7 % vocabulary
    second = (ids + vocabulary // 2) % vocabulary
    second[0] = ids[0]
    return np.stack([ids, second])


class Setup(NamedTuple):
    """What an engine is made of: options of :class:`detector_plugin.transformers.TransformersDetector`, parsed."""

    model: ModelDescription
    bidirectional: bool  # whether a decoder's tokens see those after them
    pairs: bool  # of texts; a model that tells the two apart is to be told which token is of which
    max_length: int | None  # where the user or the model's folder said so
    batch_size: int | None
    batch_tokens: int | None
    dtype: str
    device: str
    options: Mapping[str, Any]  # of this engine alone

    @property
    def reads_types(self) -> bool:
        """Whether the model is to be told first text from second, as BERT is; it has an embedding for each of the two."""
        names = self.model.tokenizer.model_input_names
        return self.pairs and "token_type_ids" in names and getattr(self.model.config, "type_vocab_size", 0) > 1

    @property
    def task(self) -> str:
        """vLLM's name of the model's work."""
        return "classify" if self.model.of_texts else "token_classify"

    def check_direction(
        self, logits: Callable[[NDArray[np.int64]], NDArray[np.float32]], causal: str, both_ways: str
    ) -> None:
        """Refuse a decoder whose attention is not the one that was asked for: nobody would notice. `logits` gives those of
        an input, by its ids; `causal` and `both_ways` say what to do where the attention is that, and should not be.
        """
        if self.model.of_texts:  # never asked to see both ways
            return
        first, second = map(logits, direction_probe(self.model.config.vocab_size))
        change = np.abs(first - second).max(-1)
        sees = bool(change[0] > _SAME_LOGITS * change[-1])
        if self.model.decoder and sees != self.bidirectional:
            is_, not_ = ("in both directions", "causal") if sees else ("causal", "in both directions")
            raise UnusableDetector(
                f"detector {self.model.name}: its attention is {is_} here, not {not_}: {both_ways if sees else causal}"
            )


class FailingInput(Exception):
    """Why an input can never be read, while others can."""


class Engine:
    """Computes probabilities. It raises UnusableDetector where the model cannot be had, or its options are wrong.

    Attributes:
        OPTIONS: names of the options that this engine alone has; ``None``: it says itself which.
        longest: tokens of an input, at most, that the model can read; ``None`` where there is no such limit.
        skips_failing: whether answers with inputs that can never be read are left out.
    """

    OPTIONS: tuple[str, ...] | None = ()
    longest: int | None
    skips_failing: bool = False

    def __init__(self, setup: Setup) -> None:
        """Load the model, or find it where it runs."""

    @staticmethod
    def check(name: str, options: Mapping[str, Any]) -> None:
        """Raise what is known to be wrong before a model is loaded: `options` are this engine's own."""

    def classify(self, windows: Iterable[Window]) -> Iterator[tuple[Window, NDArray[np.float32] | FailingInput]]:
        """The probabilities of each class for each token of each window, or one row for each window, in the order in which
        windows are done; of a window that can never be read, why. No more windows are taken than the engine works on at
        once: that bounds memory.
        """
        raise NotImplementedError


class LoopThread:
    """An event loop in a thread of its own: many questions under way at once, and answers as they come. The caller needs no
    loop, and may be in one of his own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for one answer."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def as_completed(
        self, ask: Callable[[Question], Coroutine[Any, Any, Answer]], questions: Iterable[Question], at_once: int
    ) -> Iterator[tuple[Question, Answer]]:
        """Questions with their answers, in the order in which these come, of which at most `at_once` are under way. The
        first failure ends it: the answers that have come by then are given first, what is under way is called off.
        """
        under_way: dict[Future[Answer], Question] = {}
        remaining = iter(questions)
        try:
            while True:
                for question in islice(remaining, at_once - len(under_way)):
                    under_way[asyncio.run_coroutine_threadsafe(ask(question), self._loop)] = question
                if not under_way:
                    return
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: future.exception() is not None):
                    yield under_way.pop(future), future.result()
        finally:
            for future in under_way:
                future.cancel()

    def cancel_all(self) -> None:
        """Call off what is under way, and wait until it has ended."""

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(end())

    def close(self) -> None:
        """End the loop and its thread."""
        self.cancel_all()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
