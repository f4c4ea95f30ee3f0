"""BM25 over title and text (bm25s), with an index that is built once and mapped into memory afterwards."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lm_eval_tasks import sources
from lm_eval_tasks.clapnq.corpus import Corpus, build_once

__all__ = ["BM25"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

PARAMETERS = {"k1": 1.5, "b": 0.75, "method": "lucene"}  # the library's defaults, written down
_TOKENS = {"stopwords": "english", "lower": True, "token_pattern": r"(?u)\b\w\w+\b"}
_BLOCK = 8192  # passages whose words are in memory at a time while an index is built


class BM25:
    """Lexical ranking; see the module.

    The index lies in the cache under a key made of the corpus' content, the parameters and the library's version, so a
    changed corpus gets a new index and two processes can use (or build) one at the same time.
    """

    name = "bm25"

    def __init__(self, corpus: Corpus) -> None:
        import bm25s

        self._ids = corpus.ids
        settings = json.dumps([corpus.key, PARAMETERS, _TOKENS, bm25s.__version__], sort_keys=True)
        key = hashlib.sha256(settings.encode()).hexdigest()[:32]
        folder = build_once(sources.cache_folder() / "bm25" / key, lambda new: _build(corpus, new))
        self._index = bm25s.BM25.load(str(folder), mmap=True, load_corpus=False)

    def search(self, questions: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """For each question the ids of the k best passages with their scores, best first.

        Raises:
            ValueError: k is larger than the corpus.
        """
        import bm25s

        if k > len(self._ids):
            raise ValueError(f"clapnq: {k} passages were asked for, but the corpus has only {len(self._ids)}")
        if not questions:
            return []
        words = bm25s.tokenize(list(questions), **_TOKENS, return_ids=False, show_progress=False)
        threads = min(os.cpu_count() or 1, 8)  # numpy does the work and lets go of the interpreter
        rows, scores = self._index.retrieve(
            words, k=k, show_progress=False, backend_selection="numpy", n_threads=threads
        )
        return [
            [(self._ids[row], float(score)) for row, score in zip(*ranked, strict=True)]
            for ranked in zip(rows, scores, strict=True)
        ]


def _build(corpus: Corpus, folder: Path) -> None:
    import bm25s

    log.info("clapnq: building the BM25 index of %d passages (once)", len(corpus))
    tokenizer = bm25s.tokenization.Tokenizer(
        lower=True, splitter=_TOKENS["token_pattern"], stopwords=_TOKENS["stopwords"]
    )
    ids: list[Any] = list(_token_ids(corpus, tokenizer))
    index = bm25s.BM25(**PARAMETERS)
    index.index((ids, tokenizer.get_vocab_dict()), show_progress=False, leave_progress=False)
    index.save(str(folder), show_progress=False)


def _token_ids(corpus: Corpus, tokenizer: Any) -> Iterator[Any]:
    """Each passage's words as numbers, in small arrays: lists of Python integers would need several times the memory."""
    import numpy as np
    from tqdm import tqdm

    with tqdm(total=len(corpus), desc="BM25 index", unit="passage", disable=len(corpus) < _BLOCK) as bar:
        for start in range(0, len(corpus), _BLOCK):
            block = corpus.contents(start, min(start + _BLOCK, len(corpus)))
            for passage in tokenizer.tokenize(block, update_vocab=True, return_as="ids", show_progress=False):
                yield np.asarray(passage, dtype=np.int32)
            bar.update(len(block))
