"""BM25 over title and text (bm25s), with an index that is built once and mapped into memory afterwards."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lm_eval_tasks import definition
from lm_eval_tasks.clapnq.corpus import Corpus, Passage
from lm_eval_tasks.clapnq.retrieval import Question, Ranking, top_k
from lm_eval_tasks.data import sources, whole_folder

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

PARAMETERS = {"k1": 1.5, "b": 0.75, "method": "lucene"}  # the library's defaults, written down
_TOKENS: dict[str, Any] = {"stopwords": "english", "lower": True, "token_pattern": r"(?u)\b\w\w+\b"}
_FORM = 3  # version of the folder's layout, part of its key
WINDOW, STRIDE = 512, 256  # the paper's section 4.1
_WORD = re.compile(_TOKENS["token_pattern"])
_PARTS = "passage_of_part.npy"
_BLOCK = 8192  # passages whose words are in memory at a time while an index is built


class BM25:
    """Lexical ranking; see the module.

    The index lies in the cache under a key of the corpus' content, the parameters and the library's version, so two
    processes can use (or build) one at the same time. With `split`, passages of more than 512 words are indexed in
    parts, each 256 words after the one before, and ranked by their best part. The paper (section 4.1) did so with tokens
    of its search engine; here a token is a word as BM25 counts it, stop words included, and each part keeps the title.
    """

    name = "bm25"

    def __init__(self, corpus: Corpus, split: bool = False) -> None:
        import bm25s

        self._ids = corpus.ids
        self._split = split
        identity = [_FORM, corpus.key, PARAMETERS, _TOKENS, bm25s.__version__, *([WINDOW, STRIDE] if split else [])]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
        folder = whole_folder(sources.cache_folder() / "bm25" / key, lambda new: _build(corpus, new, split))
        self._index = bm25s.BM25.load(str(folder), mmap=True, load_corpus=False)
        self._passage_of = np.load(folder / _PARTS, mmap_mode="r") if split else np.arange(len(corpus))
        self._most_parts = int(np.bincount(self._passage_of).max())

    def describe(self) -> dict[str, Any]:
        import bm25s

        split = {"window": WINDOW, "stride": STRIDE} if self._split else None
        return {"retriever": self.name, **PARAMETERS, "library": f"bm25s {bm25s.__version__}", "split": split}

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """For each question the ids of the k best passages with their scores, best first."""
        import bm25s

        if not questions:
            return []
        texts = [question.text for question in questions]
        words = bm25s.tokenize(texts, **_TOKENS, return_ids=False, show_progress=False)
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with ThreadPoolExecutor(min(processors, 8)) as pool:  # numpy does the work and lets go of the interpreter
            return list(pool.map(partial(self._rank, k=k), words))

    def _rank(self, words: list[str], k: int) -> Ranking:
        """The k best passages for the words of a question; a passage has the score of its best part."""
        scores = self._index.get_scores_from_ids(self._index.get_tokens_ids(words))
        number = min(k * self._most_parts, len(scores))  # enough parts for k passages of any length
        best: dict[str, float] = {}
        for row in top_k(scores, number).tolist():
            best.setdefault(self._ids[self._passage_of[row]], float(scores[row]))
            if len(best) == k:
                break
        return list(best.items())


def bm25(corpus: Corpus, options: Mapping[str, Any]) -> BM25:
    return BM25(corpus, split=definition.flag("bm25_split", options.get("bm25_split", False), "clapnq"))


def _build(corpus: Corpus, folder: Path, split: bool) -> None:
    import bm25s

    log.info("clapnq: building the BM25 index of %d passages (once)", len(corpus))
    tokenizer = bm25s.tokenization.Tokenizer(
        lower=True, splitter=_TOKENS["token_pattern"], stopwords=_TOKENS["stopwords"]
    )
    passage_of: list[int] = []
    ids: list[Any] = list(_token_ids(corpus, tokenizer, split, passage_of))
    index = bm25s.BM25(**PARAMETERS)
    index.index((ids, tokenizer.get_vocab_dict()), show_progress=False, leave_progress=False)
    index.save(str(folder), show_progress=False)
    if split:
        np.save(folder / _PARTS, np.asarray(passage_of, dtype=np.int64))


def _token_ids(corpus: Corpus, tokenizer: Any, split: bool, passage_of: list[int]) -> Iterator[Any]:
    """Each part's words as numbers, in small arrays: lists of Python integers would need several times the memory."""
    from tqdm import tqdm

    with tqdm(total=len(corpus), desc="BM25 index", unit="passage", disable=len(corpus) < _BLOCK) as bar:
        for start in range(0, len(corpus), _BLOCK):
            end = min(start + _BLOCK, len(corpus))
            block = corpus.contents(start, end)
            if split:
                numbered = [(row, part) for row in range(start, end) for part in split_passage(corpus[row])]
                passage_of += [row for row, _ in numbered]
                block = [part for _, part in numbered]
            for passage in tokenizer.tokenize(block, update_vocab=True, return_as="ids", show_progress=False):
                yield np.asarray(passage, dtype=np.int32)
            bar.update(end - start)


def split_passage(passage: Passage) -> list[str]:
    """Split a passage into parts: the title, and at most 512 words of the text, each 256 words after the part before."""
    words = [match.span() for match in _WORD.finditer(passage.text)]
    if len(words) <= WINDOW:
        return [passage.grounding]
    firsts = range(0, len(words) - WINDOW + STRIDE, STRIDE)
    ends = [min(first + WINDOW, len(words)) - 1 for first in firsts]
    return [f"{passage.title} {passage.text[words[a][0] : words[b][1]]}" for a, b in zip(firsts, ends, strict=True)]
