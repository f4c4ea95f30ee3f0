"""What the classifier sees of a word: how far the reference bears out the word, its neighbours and its sentence."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.words import words
from detector_plugin.lexical.cues import CONCEPTS, cue_hits, has_cues
from detector_plugin.lexical.normalisation import TOKEN, normalise, stem
from detector_plugin.lexical.reference import GRAMS, ReferenceIndex, codes, gram_hashes, index_reference, slots
from detector_plugin.lexical.segments import segment_starts

__all__ = ["FEATURE_NAMES", "SIGNALS", "Layout", "Matrix", "answer_features", "features", "layout"]

Matrix = NDArray[np.float32]
Values = NDArray[np.float64]

SIGNALS = (
    "exact",  # share of the word's tokens that the reference has
    "stem",
    "prefix",  # how much of the token, from its start, some token of the reference begins with
    *(f"grams{n}" for n in GRAMS),  # share of the word's characters within an n-gram of the reference
    "pair",  # the stem stands next to the same stem in the reference: 1 for the one before or the one after, 2 for both
    "lost",  # weight of stems that are not there: how rare in the reference a stem is that occurs nowhere
    "near2",  # best window of the reference for the words up to 2 away: share of their weight that it holds
    "near6",
    "best",  # the stem is in the window that is best for the word's sentence
    "echo",  # other sentences of the answer that have the stem, at most 3
)
"""What is measured of each word; a word of several tokens has their mean."""

# Means of the signals over what is around the word. Those that no forest made use of are left out.
_INSIDE = ("prefix", "grams8", "near2", "near6")
_CLAUSE = ("exact", "grams4", "grams8", "best", "near2", "near6")
_BESIDE = ("exact", "prefix", "grams8", "pair", "near2", "near6", "lost", "echo")
_DOCUMENT = ("exact", "pair", "lost", "near2", "near6", "best", "echo")
_SHAPE = ("length", "digit", "new_digit", "capital", "new_capital", "inner_capital")
_PLACE = ("document_at", "sentence_at", "clause_words", "document_words", "reference_tokens")
_SENTENCE = (
    "words",
    "sentences",  # of the answer
    "index",
    "left",  # sentences after it
    "support",  # share of its weight that its best window of the reference holds
    "support_rank",
    "stems",  # share of its weight whose stems are anywhere in the reference
    "stems_rank",
    "jump",  # how far its best window is from those of the sentences beside it, as a share of the reference
    "digits",
    "new_digits",
    "new_capitals",
)
_CUES = (
    *CONCEPTS,  # words of the sentence that are such cues
    "telling",  # those of all concepts that invention is told by
    "telling_share",
    "telling@clause",
    "telling@before",
    "telling@after",
    "telling@document",
    "known",  # whether there are cues for the language
)
FEATURE_NAMES: tuple[str, ...] = (
    *SIGNALS,
    *(f"{name}~6" for name in _INSIDE),  # mean of the words of the sentence up to 6 away
    *(f"{name}~6:z" for name in _INSIDE),
    *(f"{name}@clause" for name in _CLAUSE),
    *(f"{name}@sentence" for name in SIGNALS),
    *(f"{name}@sentence:z" for name in SIGNALS),  # less the document's mean, by the spread of its sentences
    *(f"{name}@before" for name in _BESIDE),  # of the sentence before; the document, where there is none
    *(f"{name}@after" for name in _BESIDE),
    *(f"{name}@document" for name in _DOCUMENT),
    *(f"sentence:{name}" for name in _SENTENCE),
    *(f"cues:{name}" for name in _CUES),
    *_SHAPE,
    *_PLACE,
)
"""Names of the columns of :func:`features`."""

_UNTELLING = CONCEPTS.index("negation")  # this concept and those behind it are as common in what is borne out


def _columns(names: tuple[str, ...]) -> list[int]:
    return [SIGNALS.index(name) for name in names]


_INSIDE_AT, _CLAUSE_AT, _BESIDE_AT, _DOCUMENT_AT = map(_columns, (_INSIDE, _CLAUSE, _BESIDE, _DOCUMENT))


class Layout:
    """Words, sentences and clauses of an answer.

    Attributes:
        n_words: of the answer; 0 only for an empty one.
        sentence_of: (n_words,) number of each word's sentence.
        clause_of: (n_words,) number of each word's clause.
        sentence_starts: first word of each sentence; rising, begins with 0.
        clause_starts: first word of each clause.
    """

    def __init__(self, answer: str, places: list[tuple[int, int]]) -> None:
        self.texts = [answer[start:end] for start, end in places]
        self.n_words = len(places)
        new_lines = [False] + ["\n" in answer[before:after] for (_, before), (after, _) in pairwise(places)]
        self.sentence_starts, self.clause_starts = segment_starts(self.texts, new_lines)
        self.sentence_of = _numbers(self.sentence_starts, self.n_words)
        self.clause_of = _numbers(self.clause_starts, self.n_words)
        self.sentence_words = np.diff(self.sentence_starts, append=self.n_words)
        self.clause_words = np.diff(self.clause_starts, append=self.n_words)


def layout(answer: str, places: list[tuple[int, int]]) -> Layout:
    """Sentences and clauses of an answer with at least one word, given as (start, end) in characters."""
    return Layout(answer, places)


def answer_features(reference: str, answer: str, language: str | None, cues: bool = True) -> Matrix:
    """(words, len(FEATURE_NAMES)) features of an answer; no rows for an answer without words.

    Args:
        reference: an empty one bears nothing out: all that is looked up in it is 0.
        answer: any text.
        language: ISO 639 code; decides how words are cut and which cues are looked for.
        cues: look for cues; without, every language is read as one that has none.
    """
    places = words(answer, language)
    if not places:
        return np.zeros((0, len(FEATURE_NAMES)), np.float32)
    return features(layout(answer, places), index_reference(reference), language if cues else None)


def _numbers(starts: NDArray[np.intp], length: int) -> NDArray[np.intp]:
    first = np.zeros(length, np.intp)
    first[starts[1:]] = 1
    return np.cumsum(first)


def window_mean(sums: Values, low: NDArray[np.intp], high: NDArray[np.intp]) -> Values:
    """Mean of the rows from `low` up to, not including, `high` of the matrix whose sums up to each row are given.

    Args:
        sums: (n + 1, k), first row 0.
        low: (m,) rows.
        high: (m,) rows, each behind that of `low`.
    """
    return np.asarray((sums[high] - sums[low]) / (high - low)[:, None])


def cumulated(values: Values) -> Values:
    """Sums of the rows before each row, and of all: (n, k) -> (n + 1, k)."""
    sums = np.zeros((len(values) + 1, values.shape[1]))
    np.cumsum(values, axis=0, out=sums[1:])
    return sums


def features(plan: Layout, index: ReferenceIndex, language: str | None) -> Matrix:
    """(n_words, len(FEATURE_NAMES)) features of an answer's words; finite.

    Args:
        plan: of the answer, with one word at least.
        index: of the reference.
        language: whose cues are looked for.
    """
    n = plan.n_words
    read = _read(plan, index, language)
    signals, weight = read.signals, read.weight
    sums = cumulated(signals)
    at = np.arange(n)
    starts, lengths, sentence_of = plan.sentence_starts, plan.sentence_words, plan.sentence_of
    ends = starts + lengths
    document = sums[-1] / n
    by_sentence = window_mean(sums, starts, ends)
    deviation = by_sentence - document
    spread = np.sqrt((lengths[:, None] / n * deviation**2).sum(0)) + 0.02  # of one sentence: no division by 0
    first = starts[sentence_of]
    inside = window_mean(
        sums[:, _INSIDE_AT], np.maximum(at - 6, first), np.minimum(at + 7, first + lengths[sentence_of])
    )
    by_clause = window_mean(sums[:, _CLAUSE_AT], plan.clause_starts, plan.clause_starts + plan.clause_words)
    beside = np.vstack([document[None], by_sentence, document[None]])[:, _BESIDE_AT]

    # Rare stems say more about a sentence than articles do.
    held = np.add.reduceat(signals[:, SIGNALS.index("stem")] * weight, starts)
    stems = held / np.maximum(np.add.reduceat(weight, starts), 1e-6)
    n_sentences = len(starts)
    number = np.arange(n_sentences)
    jump = np.zeros(n_sentences)
    if n_sentences > 1:
        steps = np.abs(np.diff(read.best_window)) / index.n_windows
        jump[0], jump[-1] = steps[0], steps[-1]
        jump[1:-1] = np.minimum(steps[:-1], steps[1:])
    shapes = np.add.reduceat(read.shape, starts, axis=0)
    cues = np.add.reduceat(read.cues, starts, axis=0)
    telling_words = read.cues[:, :_UNTELLING].sum(1)
    telling = np.concatenate([[0], np.add.reduceat(telling_words, starts), [0]])
    of_sentence = np.column_stack(
        [
            by_sentence,
            deviation / spread,
            beside[:-2],
            beside[2:],
            np.broadcast_to(document[_DOCUMENT_AT], (n_sentences, len(_DOCUMENT))),
            lengths,
            np.full(n_sentences, n_sentences),
            number,
            n_sentences - 1 - number,
            read.support,
            _rank(read.support),
            stems,
            _rank(stems),
            jump,
            shapes[:, _SHAPE.index("digit")],
            shapes[:, _SHAPE.index("new_digit")],
            shapes[:, _SHAPE.index("new_capital")] / lengths,
            cues,
            telling[1:-1],
            telling[1:-1] / lengths,
        ]
    )
    return np.column_stack(
        [
            signals,
            inside,
            (inside - document[_INSIDE_AT]) / spread[_INSIDE_AT],
            by_clause[plan.clause_of],
            of_sentence[sentence_of],
            np.add.reduceat(telling_words, plan.clause_starts)[plan.clause_of],
            telling[:-2][sentence_of],
            telling[2:][sentence_of],
            np.full(n, telling_words.mean()),
            np.full(n, float(has_cues(language))),
            read.shape,
            at / n,
            (at - first) / lengths[sentence_of],
            plan.clause_words[plan.clause_of],
            np.full(n, n),
            np.full(n, np.log1p(index.n_tokens)),
        ]
    ).astype(np.float32)


def _rank(values: Values) -> Values:
    """Share of the other values that are smaller, ties as one half: 0 for the smallest, 1 for the largest."""
    if len(values) == 1:
        return np.full(1, 0.5)
    ordered = np.sort(values)
    smaller = np.searchsorted(ordered, values, "left")
    not_larger = np.searchsorted(ordered, values, "right")
    return (smaller + (not_larger - 1 - smaller) / 2) / (len(values) - 1)


class _Read(NamedTuple):
    """Words looked up in the reference, before what is around them is taken into account."""

    signals: Values  # (words, len(SIGNALS))
    weight: Values  # (words,)
    shape: Values  # (words, len(_SHAPE))
    cues: Values  # (words, len(CONCEPTS)): tokens that are cues
    support: Values  # (sentences,)
    best_window: NDArray[np.intp]  # (sentences,)


def _read(plan: Layout, index: ReferenceIndex, language: str | None) -> _Read:
    n = plan.n_words
    tokens: list[str] = []
    counted: list[int] = []
    for text in normalise("\n".join(plan.texts)).split("\n"):
        found = TOKEN.findall(text) or [""]  # a dash: no letters, but a row of its own
        tokens += found
        counted.append(len(found))
    counts = np.array(counted, np.intp)
    token_starts = np.cumsum(counts) - counts
    word_of = np.repeat(np.arange(n), counts)

    known: dict[str, int] = {}
    numbers = np.array([known.setdefault(token, len(known)) for token in tokens], np.intp)
    kinds = [_kind(token, index) for token in known]
    stems_of_kind = [kind[4] for kind in kinds]
    stems = [stems_of_kind[number] for number in numbers.tolist()]
    exact, in_reference, prefix, weight = np.array([kind[:4] for kind in kinds])[numbers].T

    pairs = index.pairs
    paired = np.zeros(len(tokens))
    beside = np.fromiter((pair in pairs for pair in pairwise(stems)), np.bool_, len(tokens) - 1)
    paired[1:] += beside
    paired[:-1] += beside

    sentence_of_token = plan.sentence_of[word_of]
    in_sentences = Counter(name for _, name in set(zip(sentence_of_token.tolist(), stems, strict=True)))
    echo = np.array([min(in_sentences[name] - 1, 3) for name in stems], float)

    near2, near6, best, support, best_window = _windows(stems, weight, sentence_of_token, index)
    per_token = np.column_stack(
        [exact, in_reference, prefix, paired, weight * (1 - in_reference), near2, near6, best, echo, weight]
    )
    means = np.add.reduceat(per_token, token_starts, axis=0) / counts[:, None]

    sums = cumulated(_coverage(tokens, index))
    ends = np.cumsum([len(token) + 1 for token in tokens])  # of the token, its leading space included
    from_character = np.concatenate([[0], ends])[token_starts] + 1
    grams = window_mean(
        sums, from_character, np.minimum(np.maximum(ends[token_starts + counts - 1], from_character + 1), len(sums) - 1)
    )

    length, digit, capital, inner = np.array([_shape(text) for text in plan.texts]).T
    capital[plan.sentence_starts] = 0
    new = 1 - np.maximum.reduceat(exact, token_starts)
    new_digit = digit * (1 - np.minimum.reduceat(exact, token_starts))

    hits = cue_hits(tokens, language)
    cues = np.zeros((n, len(CONCEPTS)))
    cues[word_of[hits >= 0], hits[hits >= 0]] = 1
    return _Read(
        signals=np.column_stack([means[:, :3], grams, means[:, 3:9]]),
        weight=means[:, 9],
        shape=np.column_stack([length, digit, new_digit, capital, capital * new, inner]),
        cues=cues,
        support=support,
        best_window=best_window,
    )


def _kind(token: str, index: ReferenceIndex) -> tuple[float, float, float, float, str]:
    """Exact, stem, prefix, weight and stem of a token."""
    if not token:
        return 0.0, 0.0, 0.0, 0.0, ""
    name = stem(token)
    windows = index.n_windows_of(name)
    weight = log((index.n_windows + 1) / (windows + 0.5))
    if len(token) == 1 and not token.isdigit():
        weight *= 0.3  # letters and particles
    if token in index.forms:
        return 1.0, 1.0, 1.0, weight, name
    return 0.0, float(windows > 0), index.longest_beginning(token) / len(token), weight, name


_QUOTES = "\"'»«”“„‘’"


@lru_cache(maxsize=1 << 16)
def _shape(word: str) -> tuple[float, float, float, float]:
    """Length, has a digit, begins with a capital, has a capital within (as where two words were fused)."""
    bare = word.strip(_QUOTES + "()[].,;:")
    return (
        float(min(len(bare), 30)),
        float(any(map(str.isdigit, bare))),
        float(bare[:1].isupper()),
        float(not bare.isupper() and any(map(str.isupper, bare[1:]))),
    )


def _coverage(tokens: list[str], index: ReferenceIndex) -> Values:
    """(characters of the tokens with spaces around, len(GRAMS)): within an n-gram of the reference, 0 or 1."""
    text = codes(tokens)
    found = np.zeros((len(text), len(GRAMS)))
    for column, (n, hashes) in enumerate(gram_hashes(text).items()):
        if not len(hashes):
            continue
        table = index.grams[n]
        hit = table[slots(hashes, len(table))].astype(np.int32)
        depth = np.zeros(len(text) + 1, np.int32)
        depth[: len(hit)] += hit
        depth[n : n + len(hit)] -= hit
        found[:, column] = np.cumsum(depth[:-1]) > 0
    return found


_BLOCK = 4096  # tokens: bounds the (tokens, windows) matrix of a long answer


def _windows(
    stems: list[str],
    weight: Values,
    sentence_of: NDArray[np.intp],
    index: ReferenceIndex,
) -> tuple[Values, Values, Values, Values, NDArray[np.intp]]:
    """near2, near6 and best of each token; share of its weight that a sentence's best window holds, and which that is."""
    n, n_windows = len(stems), index.n_windows
    near2, near6, best = np.zeros(n), np.zeros(n), np.zeros(n)
    n_sentences = int(sentence_of[-1]) + 1
    starts = np.searchsorted(sentence_of, np.arange(n_sentences))
    numbers = np.array([index.stems.get(name, -1) for name in stems], np.int64)
    begin = index.window_bounds[numbers]
    lengths = np.where(numbers < 0, 0, index.window_bounds[numbers + 1] - begin)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(n), lengths)
    columns = index.windows[np.arange(bounds[-1]) - np.repeat(bounds[:-1] - begin, lengths)]
    flat = np.bincount(sentence_of[rows] * n_windows + columns, weight[rows], n_sentences * n_windows)
    held = flat.reshape(n_sentences, n_windows)
    best_window = held.argmax(1)
    whole = np.maximum(np.add.reduceat(weight, starts), 1e-6)
    support = held[np.arange(n_sentences), best_window] / whole
    is_best = columns == best_window[sentence_of[rows]]
    best[rows[is_best]] = 1.0

    weights = np.concatenate([[0], np.cumsum(weight)])
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        low, high = max(start - 6, 0), min(end + 6, n)
        part = slice(bounds[low], bounds[high])
        dense = np.zeros((high - low + 1, n_windows), np.float32)
        dense[rows[part] - low + 1, columns[part]] = weight[rows[part]]
        np.cumsum(dense, axis=0, out=dense)
        at = np.arange(start, end)
        for reach, out in ((2, near2), (6, near6)):
            left, right = np.maximum(at - reach, 0), np.minimum(at + reach + 1, n)
            hold = (dense[right - low] - dense[left - low]).max(1)
            out[start:end] = hold / np.maximum(weights[right] - weights[left], 1e-6)
    return near2, near6, best, support, best_window
