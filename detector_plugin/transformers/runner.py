"""Runs windows through the model, in padded batches of similar length, on its device."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.forms import Encoded
from detector_plugin.transformers.readings import Document
from detector_plugin.transformers.repository import library
from detector_plugin.transformers.windows import Window

__all__ = ["Runner", "both_ways", "reads_types"]

_TOKENS = {"cuda": 65_536, "cpu": 16_384}
"""Tokens of a batch, padding included: 16 inputs of 4096 on a GPU, 4 on a CPU."""


class Runner:
    """Runs a token classifier.

    Args:
        name: for messages.
        model: in evaluation mode, on its device.
        tokenizer: for the padding.
        bidirectional: let a decoder's tokens see those after them.
        batch_size: inputs at once, at most.
        batch_tokens: tokens at once, at most; ``None`` for what suits the device.

    Raises:
        UnusableDetector: the model cannot be made bidirectional.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        bidirectional: bool,
        batch_size: int,
        batch_tokens: int | None,
    ) -> None:
        self.name, self.model, self.bidirectional, self.batch_size = name, model, bidirectional, batch_size
        self.device = next(model.parameters()).device
        self.batch_tokens = batch_tokens or _TOKENS.get(self.device.type, _TOKENS["cpu"])
        self.padding = (tokenizer.eos_token_id or 0) if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.types = reads_types(model, tokenizer)
        if bidirectional:
            self._check_bidirectional()

    def batches(self, waiting: list[tuple[Document, Window]]) -> Iterator[list[tuple[Document, Window]]]:
        """Batches of windows of similar length, the longest first: memory runs out at once or never."""
        batch: list[tuple[Document, Window]] = []
        for item in sorted(waiting, key=lambda item: -item[0].length(item[1])):
            longest = batch[0][0].length(batch[0][1]) if batch else 0
            if len(batch) == self.batch_size or (len(batch) + 1) * longest > self.batch_tokens:
                yield batch
                batch = []
            batch.append(item)
        if batch:
            yield batch

    def probabilities(self, documents: list[Encoded], rows: list[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Probabilities of the classes for each token of each row."""
        torch = library("torch")
        try:
            logits = self._logits(
                [document.ids[row] for document, row in zip(documents, rows, strict=True)],
                [document.types[row] for document, row in zip(documents, rows, strict=True)],
            )
        except torch.cuda.OutOfMemoryError as error:
            if len(rows) == 1:
                raise UnusableDetector(
                    f"detector {self.name}: {len(rows[0])} tokens do not fit into the memory of {self.device}; set "
                    "max_length"
                ) from error
        else:
            probabilities = logits.float().softmax(-1).cpu().numpy()
            result = [of_row[: len(row)] for of_row, row in zip(probabilities, rows, strict=True)]
            if not all(np.isfinite(of_row).all() for of_row in result):
                raise UnusableDetector(
                    f"detector {self.name}: gives no numbers in {self.model.dtype}; set the option dtype=float32"
                )
            return result
        torch.cuda.empty_cache()
        half = len(rows) // 2
        return [
            *self.probabilities(documents[:half], rows[:half]),
            *self.probabilities(documents[half:], rows[half:]),
        ]

    def _logits(self, ids: list[NDArray[np.int64]], types: list[NDArray[np.int64]] | None = None) -> Any:
        torch = library("torch")
        longest = max(map(len, ids))
        table = np.full((len(ids), longest), self.padding, np.int64)
        mask, kinds = np.zeros_like(table), np.zeros_like(table)
        for place, row in enumerate(ids):
            table[place, : len(row)] = row
            mask[place, : len(row)] = 1
            if types is not None:
                kinds[place, : len(row)] = types[place]
        inputs = {"input_ids": torch.from_numpy(table), "attention_mask": torch.from_numpy(mask)}
        if self.types:
            inputs["token_type_ids"] = torch.from_numpy(kinds)
        inputs = {name: value.to(self.device) for name, value in inputs.items()}
        if self.bidirectional:
            inputs["attention_mask"] = both_ways(torch, inputs["attention_mask"], self.model.dtype)
        with torch.inference_mode():
            return self.model(**inputs).logits

    def _check_bidirectional(self) -> None:
        """Raises UnusableDetector where the first token does not see the last: nobody would notice."""
        number = self.model.get_input_embeddings().num_embeddings
        ids = np.arange(16, dtype=np.int64) * 7 % number
        other = ids.copy()
        other[1:] = (other[1:] + number // 2) % number
        try:
            first, second = self._logits([ids])[0, 0], self._logits([other])[0, 0]
            problem = "" if (first != second).any() else "its attention stays causal"
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        if problem:
            raise UnusableDetector(
                f"detector {self.name}: a {type(self.model).__name__} cannot attend in both directions here ({problem}); "
                "use attention=causal if it was trained so"
            )


def reads_types(model: Any, tokenizer: Any) -> bool:
    """Whether a model is to be told first text from second: XLM-R's model takes that, its tokenizer has none to give."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    known = (*inspect.signature(base.forward).parameters, *tokenizer.model_input_names)
    return known.count("token_type_ids") == 2


def both_ways(torch: Any, mask: Any, dtype: Any) -> Any:
    """The mask in four dimensions, which models take as it is instead of making a causal one: only padding is hidden."""
    hidden = (1.0 - mask[:, None, None, :].to(dtype)) * torch.finfo(dtype).min
    return hidden.expand(-1, 1, mask.shape[1], -1)
