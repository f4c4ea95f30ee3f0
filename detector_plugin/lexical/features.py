"""Features of a word for the classifier: how far the reference bears out the word, its neighbours and its sentence."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from math import log

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.words import words
from detector_plugin.lexical.reference import (
    GRAMS,
    TOKEN,
    ReferenceIndex,
    amounts,
    code_points,
    gram_hashes,
    index_reference,
    joined,
    joined_reference,
    normalise,
    place_in_joined,
    slots,
    stem,
    written_otherwise,
)
from detector_plugin.sentences import Layout

MISSING = -9.0  # a feature that does not exist: overlap with a question without a question, capitals in Arabic
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
"""Features of a single word; a word of several tokens has their mean."""

# Means of the signals over the words around a word. Of 160 columns 56 stayed: without the others nothing is lost.
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
CASE = ("capital", "new_capital")  # columns that count capital letters; `MISSING` in scripts without them

_DOCUMENT = (
    "new_digits@document",
    "stems@document",  # share of its weight whose stems are anywhere in the reference
    "support@document",  # mean of its sentences' support, by weight
)
COPIED_AROUND = "copied_around"
"""Number of tokens in a row before and after a word that follow each other in the reference, too: at most 8 on either side,
0 where one side has none. It marks a word in the middle of a copied passage; the last column."""
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


def joined_features(reference: str, answer: str, language: str | None, question: str = "") -> Matrix:
    """As :func:`answer_features`, of texts in which a number that answer and reference write otherwise, and a split word,
    are one (:mod:`~detector_plugin.lexical.reference`). The weights were trained on the texts as they are."""
    among = written_otherwise(answer, reference)
    reference = joined_reference(reference, language, among)
    forms = index_reference(reference).forms
    whole, removed = joined(answer, language, lambda word: normalise(word) in forms, among)
    matrix = answer_features(reference, whole, language, joined(question, language, None, among)[0])
    if whole == answer or not len(matrix):
        return matrix
    starts, whole_starts = ([start for start, _ in words(text, language)] for text in (answer, whole))
    return matrix[np.searchsorted(whole_starts, place_in_joined(starts, removed), "right") - 1]


def answer_features(reference: str, answer: str, language: str | None, question: str = "") -> Matrix:
    """(words, len(FEATURE_NAMES)) features of an answer; no rows for an answer without words. With an empty reference all
    overlap is 0. The language, an ISO 639 code, decides how words are split; an unknown question is empty."""
    places = words(answer, language)
    if not places:
        return np.zeros((0, len(FEATURE_NAMES)), np.float32)
    layout, index = Layout(answer, places), index_reference(reference)
    n = layout.n_words
    columns, support, best_to_point = _look_up(layout, index, question)
    signals, weight = np.column_stack([columns[name] for name in SIGNALS]), columns["weight"]
    sums = cumulative_sums(signals)
    at = np.arange(n)
    starts, lengths, sentence_of = layout.sentence_starts, layout.sentence_words, layout.sentence_of
    first = starts[sentence_of]
    document_means = sums[-1] / n
    by_sentence = window_mean(sums[:, _columns(_IN_SENTENCE)], starts, starts + lengths)
    last = first + lengths[sentence_of]
    around = window_mean(sums[:, _columns(_AROUND)], np.maximum(at - 6, first), np.minimum(at + 7, last))
    first_of_clause = layout.clause_starts
    by_clause = window_mean(sums[:, _columns(_IN_CLAUSE)], first_of_clause, first_of_clause + layout.clause_words)
    sentence_weights = np.add.reduceat(weight, starts)
    sentence_features = np.column_stack(
        [
            by_sentence,
            lengths,
            np.full(len(starts), len(starts)),
            np.arange(len(starts)),
            support,
            best_to_point,
            np.maximum.reduceat(signals[:, SIGNALS.index("lost")], starts),
        ]
    )
    document_features = (
        columns["new_digit"].mean(),
        (columns["in_reference"] * weight).sum() / max(weight.sum(), 1e-6),
        (support * sentence_weights).sum() / max(sentence_weights.sum(), 1e-6),
    )
    columns |= {"quoted": _quoted(layout.texts), "clause_words": layout.clause_words[layout.clause_of]}
    columns |= {"document_at": at / n, "sentence_at": (at - first) / lengths[sentence_of]}
    matrix = np.column_stack(
        [
            signals,
            around,
            by_clause[layout.clause_of],
            sentence_features[sentence_of],
            np.broadcast_to(document_means[_columns(_IN_DOCUMENT)], (n, len(_IN_DOCUMENT))),
            *(columns[name] for name in _WORD),
            np.broadcast_to(document_features, (n, len(_DOCUMENT))),
            columns[COPIED_AROUND],
        ]
    ).clip(max=np.finfo(np.float16).max)
    matrix = matrix.astype(np.float16)  # as the splits of the weights: neither is rounded further
    matrix[np.isnan(matrix)] = MISSING
    return matrix.astype(np.float32)


def _columns(names: tuple[str, ...]) -> list[int]:
    return [SIGNALS.index(name) for name in names]


def window_mean(sums: Values, low: NDArray[np.intp], high: NDArray[np.intp]) -> Values:
    """(m, k) means of the rows `low` to `high`, both (m,), of a matrix with these :func:`cumulative_sums`, (n + 1, k)."""
    return np.asarray((sums[high] - sums[low]) / (high - low)[:, None])


def cumulative_sums(values: Values) -> Values:
    """(n + 1, k) sums of the rows before each row, and of all rows, of an (n, k) matrix."""
    sums = np.zeros((len(values) + 1, values.shape[1]))
    np.cumsum(values, axis=0, out=sums[1:])
    return sums


_TOKEN_OR_END = re.compile(rf"{TOKEN.pattern}|\n")


def _look_up(layout: Layout, index: ReferenceIndex, question: str) -> tuple[dict[str, Values], Values, Values]:
    """(words,) features of words by themselves: `SIGNALS`, those of `_WORD` that depend on the word alone, `COPIED_AROUND`,
    and what features of sentences and documents are made of. And (sentences,) their `support` and `to_point`."""
    n = layout.n_words
    tokens: list[str] = []
    counted: list[int] = []
    off = np.full(n, np.nan)
    by_line = normalise("\n".join(layout.texts))
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
        if not layout.item_numbers[number]:
            off[number] = _number_distance(texts[number], index)

    token_ids: dict[str, int] = {}
    inverse = np.array([token_ids.setdefault(token, len(token_ids)) for token in tokens], np.intp)
    distinct = [_look_up_token(token, index) for token in token_ids]
    distinct_stems = [row[-1] for row in distinct]
    stems = [distinct_stems[number] for number in inverse.tolist()]
    exact, in_reference, prefix, weight = np.array([row[:-1] for row in distinct])[inverse].T

    pair_counts = np.zeros(len(tokens))
    adjacent = np.fromiter((pair in index.pairs for pair in pairwise(stems)), np.bool_, len(tokens) - 1)
    pair_counts[1:] += adjacent
    pair_counts[:-1] += adjacent

    sentence_of_token = layout.sentence_of[word_of]
    in_sentences = Counter(name for _, name in set(zip(sentence_of_token.tolist(), stems, strict=True)))
    echo = np.array([min(in_sentences[name] - 1, 3) for name in stems], float)

    near2, near6, best, support, best_window = _window_shares(stems, weight, sentence_of_token, index)
    asked_tokens, asked_stems, asked_by_window = _look_up_question(question, index)
    asked = np.array([float(name in asked_stems) for name in distinct_stems])[inverse]
    of_stems = [asked_by_window[index.windows_of(name)].max(initial=0.0) for name in distinct_stems]
    to_point = np.array(of_stems, float)[inverse]
    item_number = layout.item_numbers[word_of]
    exact, in_reference, prefix = (np.where(item_number, 1.0, values) for values in (exact, in_reference, prefix))
    of_tokens = {"exact": exact, "prefix": prefix, "pair": pair_counts, "lost": weight * (1 - in_reference)}
    of_tokens |= {"near2": near2, "near6": near6, "best": best, "echo": echo, "asked": asked, "to_point": to_point}
    of_tokens |= {"in_reference": in_reference, "weight": weight}
    means = np.add.reduceat(np.column_stack([*of_tokens.values()]), token_starts, axis=0) / counts[:, None]
    columns = dict(zip(of_tokens, means.T, strict=True))

    characters = code_points(tokens)
    hashes = gram_hashes(characters)
    of_question = np.unique(gram_hashes(code_points(asked_tokens))[GRAMS[0]])
    hits = [(n, index.grams[n][slots(of_text, len(index.grams[n]))]) for n, of_text in hashes.items()]
    hits.append((GRAMS[0], np.isin(hashes[GRAMS[0]], of_question)))
    sums = cumulative_sums(np.column_stack([_within_grams(hit, n, len(characters)) for n, hit in hits]))
    ends = np.cumsum([len(token) + 1 for token in tokens])  # of the token, its leading space included
    from_character = np.concatenate([[0], ends])[token_starts] + 1
    to_character = np.maximum(ends[token_starts + counts - 1], from_character + 1)
    grams = window_mean(sums, from_character, np.minimum(to_character, len(sums) - 1))
    columns |= zip((*(f"grams{n}" for n in GRAMS), "asked_grams"), grams.T, strict=True)

    length, digit, capital, cased = np.array([_word_shape(text) for text in layout.texts]).T
    capital[layout.sentence_starts] = 0
    digit[layout.item_numbers] = 0
    if cased.mean() < _CASED:  # a script without capitals: that a word has none says nothing
        capital[:] = np.nan
    last_asked = np.maximum.accumulate(np.where(columns["asked"] > 0, np.arange(n), -1))
    columns["after_asked"] = np.where(last_asked < 0, -1, np.minimum(np.arange(n) - last_asked, 30)).astype(float)
    best_to_point = asked_by_window[best_window]
    if not asked_tokens:
        for values in (*(columns[name] for name in ("asked", "to_point", "asked_grams", "after_asked")), best_to_point):
            values[:] = np.nan
    columns |= {"off": off, "length": length, "digit": digit, "capital": capital}
    columns["new_digit"] = digit * (1 - np.minimum.reduceat(exact, token_starts))
    columns["new_capital"] = capital * (1 - np.maximum.reduceat(exact, token_starts))
    columns[COPIED_AROUND] = _copied_around(adjacent, token_starts, counts)
    return columns, support, best_to_point


_COPIED = 8


def _copied_around(adjacent: NDArray[np.bool_], starts: NDArray[np.intp], counts: NDArray[np.intp]) -> Values:
    """(words,) the column `COPIED_AROUND`, from the first token and the number of tokens of each word. `adjacent` says for
    each token but the last whether the next one follows it in the reference, too."""
    at = np.arange(len(adjacent) + 2)
    missing = np.concatenate([[True], ~adjacent, [True]])  # (tokens + 1,): between a token and the one before it
    since = at - np.maximum.accumulate(np.where(missing, at, 0))
    until = np.minimum.accumulate(np.where(missing, at, len(at))[::-1])[::-1] - at
    # A word's own tokens are no part of what is around it.
    before = np.minimum(since[np.maximum(starts - 1, 0)], _COPIED)
    after = np.minimum(until[np.minimum(starts + counts + 1, len(at) - 1)], _COPIED)
    return np.where(np.minimum(before, after) > 0, before + after, 0).astype(float)


_CASED = 0.3  # share of an answer's words that have a letter with a capital form


def _look_up_question(question: str, index: ReferenceIndex) -> tuple[list[str], dict[str, float], Values]:
    """The tokens of a question, the weights of their stems, and (windows,) the weight of these in each window of the
    reference, as a share of the largest."""
    tokens = TOKEN.findall(normalise(question))
    # In the order of the question: sums of floats in a set's order differ from one process to the next.
    weights = {name: _stem_weight(name, index) for name in map(stem, tokens)}
    by_window = np.zeros(index.n_windows)
    for name, weight in weights.items():
        by_window[index.windows_of(name)] += weight
    return tokens, weights, by_window / max(float(by_window.max()), 1e-6)


def _number_distance(text: str, index: ReferenceIndex) -> float:
    """Absolute logarithm of the ratio of a word's number to the nearest number of the reference, at most 2."""
    worst = 0.0
    for amount in amounts(text):
        place = int(np.searchsorted(index.amounts, amount))
        near = index.amounts[max(place - 1, 0) : place + 1]
        worst = max(worst, float(np.abs(near - amount).min()) if len(near) else 2.0)
    return min(worst, 2.0)


_OPENING, _CLOSING = '"„“«‘「『《(（[', '"“”»’」』》)）]'


def _quoted(texts: list[str]) -> Values:
    """(words,) 1 within quotes or brackets that close within 12 words, else 0."""
    quoted = np.zeros(len(texts))
    opened = -1
    for number, text in enumerate(texts):
        if opened < 0 and text[0] in _OPENING:
            opened = number
        if opened >= 0:
            if text.rstrip(".,;:!?。，、")[-1:] in tuple(_CLOSING):
                quoted[opened : number + 1] = 1
                opened = -1
            elif number - opened > 12:
                opened = -1
    return quoted


def _stem_weight(name: str, index: ReferenceIndex) -> float:
    weight = log((index.n_windows + 1) / (len(index.windows_of(name)) + 0.5))
    return weight * 0.3 if len(name) == 1 and not name.isdigit() else weight  # letters and particles


def _look_up_token(token: str, index: ReferenceIndex) -> tuple[float, float, float, float, str]:
    """Whether the reference has a token, and its stem; its `prefix`; the weight of its stem; the stem."""
    if not token:
        return 0.0, 0.0, 0.0, 0.0, ""
    name = stem(token)
    weight = _stem_weight(name, index)
    if token in index.forms:
        return 1.0, 1.0, 1.0, weight, name
    return 0.0, float(name in index.stems), index.longest_prefix(token) / len(token), weight, name


_QUOTES = "\"'»«”“„‘’"


@lru_cache(maxsize=1 << 16)
def _word_shape(word: str) -> tuple[float, float, float, float]:
    """Length, and whether a word has a digit, begins with a capital, and has a letter with a capital form."""
    bare = word.strip(_QUOTES + "()[].,;:")
    return (
        float(min(len(bare), 30)),
        float(any(map(str.isdigit, bare))),
        float(bare[:1].isupper()),
        float(bare.lower() != bare.upper()),
    )


def _within_grams(hit: NDArray[np.bool_], n: int, length: int) -> Values:
    """(length,) 1 for characters within an n-gram that is a hit, else 0; `hit` has the n-grams in order."""
    depth = np.zeros(length + 1, np.int32)
    depth[: len(hit)] += hit
    depth[n : n + len(hit)] -= hit
    return (np.cumsum(depth[:-1]) > 0).astype(float)


_BLOCK = 4096  # tokens: bounds the (tokens, windows) matrix of a long answer


def _window_shares(
    stems: list[str],
    weight: Values,
    sentence_of: NDArray[np.intp],
    index: ReferenceIndex,
) -> tuple[Values, Values, Values, Values, NDArray[np.intp]]:
    """(tokens,) `near2`, `near6` and `best`; (sentences,) `support`, and the number of the window that holds the most."""
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
    masses = flat.reshape(n_sentences, n_windows)
    best_window = masses.argmax(1)
    totals = np.maximum(np.add.reduceat(weight, starts), 1e-6)
    support = masses[np.arange(n_sentences), best_window] / totals
    is_best = columns == best_window[sentence_of[rows]]
    best[rows[is_best]] = 1.0

    weights = np.concatenate([[0], np.cumsum(weight)])
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        low, high = max(start - 6, 0), min(end + 6, n)
        block = slice(bounds[low], bounds[high])
        dense = np.zeros((high - low + 1, n_windows), np.float32)
        dense[rows[block] - low + 1, columns[block]] = weight[rows[block]]
        np.cumsum(dense, axis=0, out=dense)
        at = np.arange(start, end)
        for reach, out in ((2, near2), (6, near6)):
            left, right = np.maximum(at - reach, 0), np.minimum(at + reach + 1, n)
            best_mass = (dense[right - low] - dense[left - low]).max(1)
            out[start:end] = best_mass / np.maximum(weights[right] - weights[left], 1e-6)
    return near2, near6, best, support, best_window
