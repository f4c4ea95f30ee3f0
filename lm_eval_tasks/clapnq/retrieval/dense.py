"""Dense retrieval with sentence-transformers: passages encoded once, exact search by blocked matrix products.

As in the paper (section 4.1): title and text of a passage, cut at the model's maximum length; the model's own similarity.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import Question, Ranking
from lm_eval_tasks.clapnq.retrieval import encoder as encoders
from lm_eval_tasks.clapnq.retrieval.vectors import BLOCK, Floats, best_rows, open_vectors
from lm_eval_tasks.data import sources
from lm_eval_tasks.definition import metadata

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FREE = 4 << 30  # free bytes of a GPU that is used by default
_BATCH = 64


class Dense:
    """Ranking by the similarity of vectors; see the module."""

    def __init__(self, name: str, corpus: Corpus, options: Mapping[str, Any]) -> None:
        self.name = name
        encoder = encoders.encoder_for(name, options)
        self._batch_size = metadata.positive("encoder_batch_size", options.get("encoder_batch_size", _BATCH), "clapnq")
        folder, weights = encoders.weights_of(encoder)
        self._devices = _devices(options.get("encoder_device"))
        self._model = encoders.load(encoder, folder, self._devices[0])
        self._normalised = str(self._model.similarity_fn_name) == "cosine"
        prompts = self._model.prompts or {}
        of_passages = prompts.get("document") or prompts.get("passage")
        self._query_prefix = encoder.query_prefix if encoder.query_prefix is not None else prompts.get("query") or ""
        self._passage_prefix = encoder.passage_prefix if encoder.passage_prefix is not None else of_passages or ""
        self._ids = corpus.ids
        self._identity = {
            "weights": weights,
            "passage_prefix": self._passage_prefix,
            "max_length": self._model.max_seq_length,
            "normalised": self._normalised,
            "corpus": corpus.key,
        }
        revision = encoder.revision if encoder.folder else folder.name  # the hub's cache: snapshots/<commit>
        self._labels = {"model": encoder.repository, "revision": revision}
        log.info("clapnq: %s: %s on %s", name, folder, " and ".join(self._devices))
        cache = sources.cache_folder() / "vectors"
        self._blocks = open_vectors(cache, self._identity, len(corpus), partial(self._encode, corpus), self._labels)

    def describe(self) -> dict[str, Any]:
        """Model, revision, digest of its files, prefixes, and the corpus."""
        return {"retriever": self.name, **self._labels, **self._identity, "query_prefix": self._query_prefix}

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """For each question the ids of the k best passages with their similarities, best first."""
        if not questions:
            return []
        vectors = self._embed([question.text for question in questions], self._query_prefix)
        rows, scores = best_rows(self._blocks, vectors, k, self._devices[0])
        return [
            [(self._ids[row], float(score)) for row, score in zip(*ranked, strict=True)]
            for ranked in zip(rows, scores, strict=True)
        ]

    def _embed(self, texts: Sequence[str], prefix: str, **options: Any) -> Floats:
        vectors: Floats = self._model.encode(
            list(texts),
            prompt=prefix,
            batch_size=self._batch_size,
            normalize_embeddings=self._normalised,
            show_progress_bar=False,
            convert_to_numpy=True,
            **options,
        )
        return vectors

    def _encode(self, corpus: Corpus, starts: Sequence[int]) -> Iterator[Floats]:
        """The vectors of each block; several devices encode as many blocks at a time."""
        from tqdm import tqdm

        log.info("clapnq: encoding %d passages with %s (once)", len(corpus), self._labels["model"])
        pool = self._model.start_multi_process_pool(list(self._devices)) if len(self._devices) > 1 else None
        at_once = {} if pool is None else {"pool": pool}
        ends = {start: min(start + BLOCK, len(corpus)) for start in starts}
        try:
            with tqdm(total=len(corpus), desc=f"{self.name} vectors", unit="passage") as bar:
                bar.update(len(corpus) - sum(end - start for start, end in ends.items()))
                for first in range(0, len(starts), len(self._devices)):
                    together = starts[first : first + len(self._devices)]
                    blocks = [corpus.contents(start, ends[start]) for start in together]
                    vectors = self._embed([text for block in blocks for text in block], self._passage_prefix, **at_once)
                    for block in blocks:
                        yield vectors[: len(block)]
                        vectors = vectors[len(block) :]
                        bar.update(len(block))
        finally:
            if pool is not None:
                self._model.stop_multi_process_pool(pool)
                self._model.to(self._devices[0])  # the pool has moved the model to the CPU


minilm, bge, e5, dense = (partial(Dense, name) for name in ("minilm", "bge", "e5", "dense"))


def _devices(named: Any) -> tuple[str, ...]:
    """The named devices, else all GPUs with enough free memory, else the CPU."""
    try:
        import torch
    except ImportError:
        return ("cpu",)  # loading the model raises an error with the package to install
    if not named:
        gpus = [f"cuda:{gpu}" for gpu in range(torch.cuda.device_count()) if torch.cuda.mem_get_info(gpu)[0] > _FREE]
        return tuple(gpus) or ("cpu",)
    devices = tuple(part.strip() for part in str(named).split("+"))
    for device in devices:
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"clapnq: encoder_device={device} cannot be used: {str(error).splitlines()[0]}") from error
    return devices
