"""Features of a word for the classifier: how far the reference bears out the word, its neighbours and its sentence."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.words import words
from detector_plugin.lexical.reference import GRAMS, ReferenceIndex, codes, gram_hashes, index_reference, slots
from detector_plugin.lexical.text import TOKEN, Layout, amounts, normalise, stem

MISSING = -9.0
"""Stands for a value that does not exist: of the question's words without a question, of capitals in Arabic."""

Matrix = NDArray[np.float32]
Values = NDArray[np.float64]

SIGNALS = (
    "exact",  # share of the word's tokens that the reference has
    "prefix",  # how much of the token, from its start, some token of the reference begins with
    *(f"grams{n}" for n in GRAMS),  # share of the word's characters within an n-gram of the reference
    "pair",  # the stem stands next to the same stem in the reference: 1 for the one before or the one after, 2 for both
    "lost",  # weight of stems that are not there: how rare in the reference a stem is that occurs nowhere
    "near2",  # best window of the reference for the words up to 2 away: share of their weight that it holds
    "near6",
    "best",  # the stem is in the window that is best for the word's sentence
    "echo",  # other sentences of the answer that have the stem, at most 3
    "asked",  # the question has the stem
    "to_point",  # best window of the reference that has the stem: share of the question's weight that it holds
)
"""What is measured of each word; a word of several tokens has their mean."""

# Means of the signals over what is around the word. Of 160 columns these 60 stayed: without the others nothing is lost.
_AROUND = ("lost", "near2", "near6")
_IN_CLAUSE = ("near2", "near6", "best")
_IN_SENTENCE = ("exact", "grams8", "pair", "lost", "near2", "near6", "best", "asked")
_IN_DOCUMENT = ("grams8", "pair", "lost", "near2", "near6", "best", "echo", "asked", "to_point")
_SENTENCE = (
    "words",
    "sentences",  # of the answer
    "index",
    "support",  # share of its weight that its best window of the reference holds
    "to_point",  # share of the question's weight in its best window, of the most that one has
    "most_lost",  # weight of its rarest stem that the reference lacks
)
_WORD = (
    "off",  # how far a number is from the nearest in the reference
    "asked_grams",  # share of the word's characters within a 4-gram of the question
    "after_asked",  # words since the last one that the question has; -1 before the first
    "length",
    "digit",
    "capital",
    "new_capital",
    "quoted",
    "document_at",
    "sentence_at",
    "clause_words",
)
CASE = ("capital", "new_capital")
"""Columns that go by capital letters; `MISSING` where these say nothing."""

_DOCUMENT = (
    "document_words",
    "reference_tokens",
    "question_words",
    "new_digits@document",
    "lengths@document",
    "stems@document",  # share of its weight whose stems are anywhere in the reference
    "support@document",  # mean of its sentences' support, by weight
)
COPIED_AROUND = "copied_around"
"""Tokens in a row before a word and behind it, each beside the next one in the reference, too: at most 8 on either side, 0
where one side has none. It tells a word in the middle of what is copied; the last column."""
FEATURE_NAMES: tuple[str, ...] = (
    *SIGNALS,
    *(f"{name}~6" for name in _AROUND),  # mean of the words of the sentence up to 6 away
    *(f"{name}@clause" for name in _IN_CLAUSE),
    *(f"{name}@sentence" for name in _IN_SENTENCE),
    *(f"sentence:{name}" for name in _SENTENCE),
    *(f"{name}@document" for name in _IN_DOCUMENT),
    *_WORD,
    *_DOCUMENT,
    COPIED_AROUND,
)
"""Names of the columns of :func:`answer_features`."""


def answer_features(reference: str, answer: str, language: str | None, question: str = "") -> Matrix:
    """(words, len(FEATURE_NAMES)) features of an answer; no rows for an answer without words.

    Args:
        reference: an empty one bears nothing out: all that is looked up in it is 0.
        answer: any text.
        language: ISO 639 code; decides how words are cut.
        question: what the answer answers; empty where it is not known.
    """
    places = words(answer, language)
    if not places:
        return np.zeros((0, len(FEATURE_NAMES)), np.float32)
    plan, index = Layout(answer, places), index_reference(reference)
    n = plan.n_words
    read = _read(plan, index, question)
    signals, weight = read.signals, read.weight
    sums = cumulated(signals)
    at = np.arange(n)
    starts, lengths, sentence_of = plan.sentence_starts, plan.sentence_words, plan.sentence_of
    first = starts[sentence_of]
    document = sums[-1] / n
    by_sentence = window_mean(sums[:, _columns(_IN_SENTENCE)], starts, starts + lengths)
    around = window_mean(
        sums[:, _columns(_AROUND)], np.maximum(at - 6, first), np.minimum(at + 7, first + lengths[sentence_of])
    )
    first_of_clause = plan.clause_starts
    by_clause = window_mean(sums[:, _columns(_IN_CLAUSE)], first_of_clause, first_of_clause + plan.clause_words)
    whole = np.add.reduceat(weight, starts)
    of_sentence = np.column_stack(
        [
            by_sentence,
            lengths,
            np.full(len(starts), len(starts)),
            np.arange(len(starts)),
            read.support,
            read.best_to_point,
            np.maximum.reduceat(signals[:, SIGNALS.index("lost")], starts),
        ]
    )
    of_document = (
        n,
        np.log1p(index.n_tokens),
        read.question_words or np.nan,
        read.new_digit.mean(),
        read.columns["length"].mean(),
        (read.in_reference * weight).sum() / max(weight.sum(), 1e-6),
        (read.support * whole).sum() / max(whole.sum(), 1e-6),
    )
    columns = read.columns | {"quoted": _quoted(plan.texts), "clause_words": plan.clause_words[plan.clause_of]}
    columns |= {"document_at": at / n, "sentence_at": (at - first) / lengths[sentence_of]}
    matrix: Matrix = np.column_stack(
        [
            signals,
            around,
            by_clause[plan.clause_of],
            of_sentence[sentence_of],
            np.broadcast_to(document[_columns(_IN_DOCUMENT)], (n, len(_IN_DOCUMENT))),
            *(columns[name] for name in _WORD),
            np.broadcast_to(of_document, (n, len(_DOCUMENT))),
            columns[COPIED_AROUND],
        ]
    ).astype(np.float32)
    matrix[np.isnan(matrix)] = MISSING
    return matrix


def _columns(names: tuple[str, ...]) -> list[int]:
    return [SIGNALS.index(name) for name in names]


def window_mean(sums: Values, low: NDArray[np.intp], high: NDArray[np.intp]) -> Values:
    """(m, k) means of the rows [`low`, `high`) of a matrix, both (m,), from the (n + 1, k) sums of the rows before each."""
    return np.asarray((sums[high] - sums[low]) / (high - low)[:, None])


def cumulated(values: Values) -> Values:
    """Sums of the rows before each row, and of all: (n, k) -> (n + 1, k)."""
    sums = np.zeros((len(values) + 1, values.shape[1]))
    np.cumsum(values, axis=0, out=sums[1:])
    return sums


class _Read(NamedTuple):
    """Words looked up in the reference, before what is around them is taken into account; (words,) unless said."""

    signals: Values  # (words, len(SIGNALS))
    weight: Values
    in_reference: Values  # share of its tokens whose stem the reference has
    new_digit: Values
    columns: dict[str, Values]  # those of `_WORD` that follow from the word alone, and `COPIED_AROUND`
    support: Values  # (sentences,)
    best_to_point: Values  # (sentences,)
    question_words: int


_TOKEN_OR_END = re.compile(rf"{TOKEN.pattern}|\n")


def _read(plan: Layout, index: ReferenceIndex, question: str) -> _Read:
    n = plan.n_words
    tokens: list[str] = []
    counted: list[int] = []
    off = np.full(n, np.nan)
    by_line = normalise("\n".join(plan.texts))
    first = 0
    for piece in (*_TOKEN_OR_END.findall(by_line), "\n"):
        if piece != "\n":
            tokens.append(piece)
            continue
        if len(tokens) == first:
            tokens.append("")  # a dash: no letters, but a row of its own
        counted.append(len(tokens) - first)
        first = len(tokens)
    counts = np.array(counted, np.intp)
    token_starts = np.cumsum(counts) - counts
    word_of = np.repeat(np.arange(n), counts)
    texts = by_line.split("\n")
    for number in {word_of[at] for at, token in enumerate(tokens) if token[:1].isdigit()}:
        if not plan.item_numbers[number]:
            off[number] = _off(texts[number], index)

    known: dict[str, int] = {}
    numbers = np.array([known.setdefault(token, len(known)) for token in tokens], np.intp)
    kinds = [_kind(token, index) for token in known]
    stems_of_kind = [kind[-1] for kind in kinds]
    stems = [stems_of_kind[number] for number in numbers.tolist()]
    exact, in_reference, prefix, weight = np.array([kind[:-1] for kind in kinds])[numbers].T

    paired = np.zeros(len(tokens))
    beside = np.fromiter((pair in index.pairs for pair in pairwise(stems)), np.bool_, len(tokens) - 1)
    paired[1:] += beside
    paired[:-1] += beside

    sentence_of_token = plan.sentence_of[word_of]
    in_sentences = Counter(name for _, name in set(zip(sentence_of_token.tolist(), stems, strict=True)))
    echo = np.array([min(in_sentences[name] - 1, 3) for name in stems], float)

    near2, near6, best, support, best_window = _windows(stems, weight, sentence_of_token, index)
    asks = _asked(question, index)
    asked = np.array([float(name in asks.weights) for name in stems_of_kind])[numbers]
    to_point = np.array([asks.held_with(name, index) for name in stems_of_kind])[numbers]
    numbering = plan.item_numbers[word_of]
    exact, in_reference, prefix = (np.where(numbering, 1.0, values) for values in (exact, in_reference, prefix))
    per_token = np.column_stack(
        [
            *(exact, prefix, paired, weight * (1 - in_reference), near2, near6, best, echo, asked, to_point),
            *(in_reference, weight),
        ]
    )
    means = np.add.reduceat(per_token, token_starts, axis=0) / counts[:, None]

    characters = codes(tokens)
    hashes = gram_hashes(characters)
    of_question = np.unique(gram_hashes(codes(asks.tokens))[GRAMS[0]])
    hits = [(n, index.grams[n][slots(of_text, len(index.grams[n]))]) for n, of_text in hashes.items()]
    hits.append((GRAMS[0], np.isin(hashes[GRAMS[0]], of_question)))
    sums = cumulated(np.column_stack([_within(hit, n, len(characters)) for n, hit in hits]))
    ends = np.cumsum([len(token) + 1 for token in tokens])  # of the token, its leading space included
    from_character = np.concatenate([[0], ends])[token_starts] + 1
    grams = window_mean(
        sums, from_character, np.minimum(np.maximum(ends[token_starts + counts - 1], from_character + 1), len(sums) - 1)
    )

    length, digit, capital, cased = np.array([_shape(text) for text in plan.texts]).T
    capital[plan.sentence_starts] = 0
    digit[plan.item_numbers] = 0
    if cased.mean() < _CASED:  # a script without capitals: that a word has none says nothing
        capital[:] = np.nan
    asked_of, to_point_of, asked_grams = means[:, 8], means[:, 9], grams[:, -1]
    last_asked = np.maximum.accumulate(np.where(asked_of > 0, np.arange(n), -1))
    after_asked = np.where(last_asked < 0, -1, np.minimum(np.arange(n) - last_asked, 30)).astype(float)
    best_to_point = asks.by_window[best_window]
    if not asks.total:
        for values in (asked_of, to_point_of, asked_grams, after_asked, best_to_point):
            values[:] = np.nan
    return _Read(
        signals=np.column_stack([means[:, :2], grams[:, : len(GRAMS)], means[:, 2:10]]),
        weight=means[:, 11],
        in_reference=means[:, 10],
        new_digit=digit * (1 - np.minimum.reduceat(exact, token_starts)),
        columns={
            **{"off": off, "asked_grams": asked_grams, "after_asked": after_asked},
            **{"length": length, "digit": digit, "capital": capital},
            "new_capital": capital * (1 - np.maximum.reduceat(exact, token_starts)),
            COPIED_AROUND: _copied_around(beside, token_starts, counts),
        },
        support=support,
        best_to_point=best_to_point,
        question_words=len(set(asks.tokens)),
    )


_COPIED = 8


def _copied_around(beside: NDArray[np.bool_], starts: NDArray[np.intp], counts: NDArray[np.intp]) -> Values:
    """(words,): see `COPIED_AROUND`. Words have a first token and a number of tokens; `beside` says of each token but the
    last whether it and the next one stand next to each other in the reference."""
    at = np.arange(len(beside) + 2)
    missing = np.concatenate([[True], ~beside, [True]])  # (tokens + 1,): between a token and the one before it
    since = at - np.maximum.accumulate(np.where(missing, at, 0))
    until = np.minimum.accumulate(np.where(missing, at, len(at))[::-1])[::-1] - at
    # A word's own pairs say nothing of what is around it.
    before = np.minimum(since[np.maximum(starts - 1, 0)], _COPIED)
    after = np.minimum(until[np.minimum(starts + counts + 1, len(at) - 1)], _COPIED)
    return np.where(np.minimum(before, after) > 0, before + after, 0).astype(float)


_CASED = 0.3  # share of an answer's words that have a letter with a capital form


class _Asked(NamedTuple):
    """A question, looked up in the reference."""

    tokens: list[str]
    weights: dict[str, float]  # of its stems
    total: float
    by_window: Values  # (windows,): share of its weight that each holds, of the most that one does

    def held_with(self, name: str, index: ReferenceIndex) -> float:
        """The most of the question that stands in a window with a stem; 0 where the stem is nowhere."""
        return float(self.by_window[index.windows_of(name)].max(initial=0.0)) if self.total else 0.0


def _asked(question: str, index: ReferenceIndex) -> _Asked:
    tokens = TOKEN.findall(normalise(question))
    # In the order of the question: sums of floats in a set's order differ from one process to the next.
    weights = {name: _weight(name, index) for name in map(stem, tokens)}
    by_window = np.zeros(index.n_windows)
    for name, weight in weights.items():
        by_window[index.windows_of(name)] += weight
    return _Asked(tokens, weights, sum(weights.values()), by_window / max(float(by_window.max()), 1e-6))


def _off(text: str, index: ReferenceIndex) -> float:
    """How far the word's number is from the nearest in the reference, as the logarithm of their ratio, 2 at most."""
    worst = 0.0
    for amount in amounts(text):
        place = int(np.searchsorted(index.amounts, amount))
        near = index.amounts[max(place - 1, 0) : place + 1]
        worst = max(worst, float(np.abs(near - amount).min()) if len(near) else 2.0)
    return min(worst, 2.0)


_OPENING, _CLOSING = '"„“«‘「『《(（[', '"“”»’」』》)）]'


def _quoted(texts: list[str]) -> Values:
    """1 within quotes or brackets that close within 12 words."""
    found = np.zeros(len(texts))
    opened = -1
    for number, text in enumerate(texts):
        if opened < 0 and text[0] in _OPENING:
            opened = number
        if opened >= 0:
            if text.rstrip(".,;:!?。，、")[-1:] in tuple(_CLOSING):
                found[opened : number + 1] = 1
                opened = -1
            elif number - opened > 12:
                opened = -1
    return found


def _weight(name: str, index: ReferenceIndex) -> float:
    weight = log((index.n_windows + 1) / (len(index.windows_of(name)) + 0.5))
    return weight * 0.3 if len(name) == 1 and not name.isdigit() else weight  # letters and particles


def _kind(token: str, index: ReferenceIndex) -> tuple[float, float, float, float, str]:
    """Exact, stem in the reference, prefix, weight, and stem of a token."""
    if not token:
        return 0.0, 0.0, 0.0, 0.0, ""
    name = stem(token)
    weight = _weight(name, index)
    if token in index.forms:
        return 1.0, 1.0, 1.0, weight, name
    return 0.0, float(name in index.stems), index.longest_beginning(token) / len(token), weight, name


_QUOTES = "\"'»«”“„‘’"


@lru_cache(maxsize=1 << 16)
def _shape(word: str) -> tuple[float, float, float, float]:
    """Length, has a digit, begins with a capital, knows capitals."""
    bare = word.strip(_QUOTES + "()[].,;:")
    return (
        float(min(len(bare), 30)),
        float(any(map(str.isdigit, bare))),
        float(bare[:1].isupper()),
        float(bare.lower() != bare.upper()),
    )


def _within(hit: NDArray[np.bool_], n: int, length: int) -> Values:
    """(length,) 1 for characters within an n-gram that was hit, else 0; `hit` has the n-grams in order."""
    depth = np.zeros(length + 1, np.int32)
    depth[: len(hit)] += hit
    depth[n : n + len(hit)] -= hit
    return (np.cumsum(depth[:-1]) > 0).astype(float)


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
