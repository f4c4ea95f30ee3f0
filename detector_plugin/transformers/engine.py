"""The probabilities of a classifier's classes: windows through the model in padded batches of similar length."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.inputs import Ints, Window
from detector_plugin.transformers.model import ModelDescription, learned_positions, library, load_model, padding_of

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_TOKENS, _CPU_TOKENS = 65_536, 4_096  # at once, with padding: 16 inputs of 4096; of a CPU what its caches hold
_SIZE = 64  # inputs at once
_ROUND = 16  # batches that are sorted by length together: little padding, and a bounded number of windows in memory


class Engine:
    """Runs a classifier.

    Attributes:
        longest: tokens of an input, at most, that the model can read; ``None`` where there is no such limit.
    """

    def __init__(
        self,
        model: ModelDescription,
        bidirectional: bool = False,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        dtype: str = "auto",
        device: str = "auto",
    ) -> None:
        """Load the model, or UnusableDetector. `bidirectional`: a decoder's tokens see those after them."""
        self.name, self.bidirectional = model.name, bidirectional
        self.model = loaded = load_model(model, device, dtype)
        self.device = next(loaded.parameters()).device
        self.batch_size = batch_size or _SIZE
        self.batch_tokens = batch_tokens or (_CPU_TOKENS if self.device.type == "cpu" else _TOKENS)
        self.padding = model.config.pad_token_id if model.of_texts else padding_of(model.tokenizer)
        self.types = reads_types(loaded, model.tokenizer)
        self.longest = learned_positions(loaded)

    def classify(self, windows: Iterable[Window]) -> Iterator[tuple[Window, NDArray[np.float32]]]:
        """The probabilities of each class for each token of each window, or one row for each window, in the order in which
        windows are done. No more windows are taken than are sorted together: that bounds memory."""
        to_come = iter(windows)
        while waiting := [*islice(to_come, _ROUND * self.batch_size)]:
            for batch in self.batches(waiting):
                found = self.probabilities([window.ids for window in batch], [window.types for window in batch])
                yield from zip(batch, found, strict=True)

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

    def probabilities(self, ids: Sequence[Ints], types: Sequence[Ints]) -> list[NDArray[np.float32]]:
        """Probabilities of the classes for each token of each input, or one row for each input. A batch that does not
        fit into memory is read in two halves, and later batches are no larger than these."""
        try:
            logits = self._logits(ids, types)
        except Exception as error:
            of_gpu = isinstance(error, library("torch").cuda.OutOfMemoryError)
            if not of_gpu and "can't allocate memory" not in str(error):  # the latter of torch's allocator of a CPU
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
        log.warning(
            "detector %s: %d inputs of up to %d tokens do not fit into the memory of %s; they are read in two halves, and "
            "batches have %d tokens at most from now on",
            *(self.name, len(ids), longest, self.device, self.batch_tokens),
        )
        return [*self.probabilities(ids[:half], types[:half]), *self.probabilities(ids[half:], types[half:])]

    def _logits(self, ids: Sequence[Ints], types: Sequence[Ints]) -> Any:
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
