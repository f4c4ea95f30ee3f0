"""Training of the lexical detector: boosted trees on people's and GPT-4's annotations and on copies of references with a
word swapped; and on parts of these, for figures on languages left out.

Only this module needs LightGBM. The same documents and seed give the same bytes: one thread grows each forest, because
sums over several threads depend on their order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import Span, covered
from custom_metrics.reading.words import words
from detector_plugin import lexical
from detector_plugin.labelled import REAL, LabelledAnswer, annotator_shares, text_groups, without_spans
from detector_plugin.lexical import HELD_OUT, MAIN_WEIGHTS, strip_punctuation
from detector_plugin.lexical.features import CASE, COPIED_AROUND, FEATURE_NAMES, MISSING, Matrix, answer_features
from detector_plugin.lexical.reference import TOKEN
from tests.development.lexical.copies import (
    COPIED,
    collect_names,
    draw_copy,
    rare_words,
    seeded_generator,
    swap_name,
    swap_number,
    swap_word,
    words_by_frequency,
)

RECIPE: Mapping[str, Any] = {
    "objective": "cross_entropy",  # labels are shares of annotators
    "learning_rate": 0.08,
    "num_leaves": 15,
    "max_depth": 6,
    "min_data_in_leaf": 60,
    "feature_fraction_bynode": 0.3,
    "lambda_l2": 10.0,
    "max_bin": 127,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}
"""Parameters of LightGBM."""

_RARE = "copied, with a rare word"  # annotations
_AROUND = FEATURE_NAMES.index(COPIED_AROUND)  # which the trees of all words do not look at

TREES = 150  # of all words
SHARE = 0.06  # of mFAVA's words that are learned from: those of one sentence say much the same. Of real answers: all
REAL_WEIGHT = 2.0  # of all real answers together, as those of mFAVA have 1
ASKED_REAL = 0.8  # of a real answer's weight that it has when it is read with its question; it is read without, too
LENGTH = 0.5, 0.0  # an answer of n words weighs n to this power: with inserted errors, a real one
UNCASED = 0.3  # weight of a real answer read without capitals, of both readings: Hindi, Arabic and Chinese have none
ASKED = 0.25  # of mFAVA's answers are read with the beginning of their reference for a question, which they have not
UNRELATED = 0.02  # of the answers are learned from a second time, held against another document's reference
CLEANED = 0.02  # and so many without their hallucinated spans
COPIES = 1  # of each reference
SWAPPED = 0.6, 0.2  # share of the copies in which a name, a number is swapped
COMMON = 300  # words of a language: one of them in a copy is no error
SWAPPED_WEIGHT = 3  # of a swapped word, as the others of a copy have 1
COPIED_WEIGHT = 0.3  # of all copies together, as those of mFAVA have 1
LAST_TREES = 10  # of the trees: those that learn from copies, too
AMID = 7.5  # of `copied_around`: a word with more is inside a copied passage
AMID_TREES = 60  # after the others, of such words alone: they learn from copies with a rare word swapped, too
AMID_COPIED_WEIGHT = 4.0  # of all copies together, as those of mFAVA have 1; in these trees
THRESHOLD = 0.36  # of a word: in languages left out, the best for inserted errors is 0.34 to 0.36
SPREAD = 2.0  # of `maximise_iou`: in languages left out, 1.5 to 3 are alike


class _Words(NamedTuple):
    """Words to learn from, one row each."""

    x: Matrix
    y: NDArray[np.bool_]  # hallucinated
    soft: NDArray[np.float64]  # what the trees learn: between the share of annotators and `y`
    weight: NDArray[np.float64]  # of its answer
    group: NDArray[np.str_]  # language and kind of annotation, as "de gold"
    language: NDArray[np.str_]
    family: NDArray[np.str_]
    text: NDArray[np.intp]  # number of the real answers' texts that its reference is one of; -1 for none

    def select(self, rows: NDArray[np.bool_]) -> _Words:
        return _Words._make(column[rows] for column in self)

    def of_kind(self, *annotations: str) -> NDArray[np.bool_]:
        """(n,) mask of the words of answers with these annotations."""
        return np.asarray(np.any([np.char.endswith(self.group, f" {kind}") for kind in annotations], axis=0))


def _sort_key(document: LabelledAnswer) -> tuple[str, ...]:
    """The content of a document, by which documents are sorted and seeded: their order in the input does not matter."""
    return document.language, document.annotations, document.answer, document.reference, document.question


def _synthetic_answers(documents: Sequence[LabelledAnswer], seed: int) -> Iterator[LabelledAnswer]:
    """Answers with the reference of another document, and answers without their hallucinated spans.

    A third of nearly every annotated answer is hallucinated; from them alone, trees learn to compare an answer's sentences
    with each other, and to flag a third of anything.
    """
    ordered = sorted({(d.language, d.reference) for d in documents})
    following = dict(zip(ordered, ordered[1:] + ordered[:1], strict=True))
    for document in documents:
        language, reference = following[document.language, document.reference]
        drawn = seeded_generator((seed, 1), *_sort_key(document)).random()
        if drawn < UNRELATED:
            if language == document.language:
                whole_answer = Span(0, len(document.answer))
                yield replace(document, reference=reference, annotations="unrelated", spans=(whole_answer,))
        elif drawn < UNRELATED + CLEANED:
            answer = without_spans(document.answer, document.spans)
            yield replace(document, answer=answer, annotations="cleaned", spans=())


def _swapped_copies(documents: Sequence[LabelledAnswer], seed: int) -> Iterator[LabelledAnswer]:
    """Copies of the documents' references with a common word swapped: some also with a name or a number that is not in
    them, and as many others with a rare word."""
    by_reference = {(d.language, d.reference): d for d in sorted(documents, key=_sort_key, reverse=True)}
    texts: dict[str, list[str]] = {}
    for language, reference in by_reference:
        texts.setdefault(language, []).append(reference)
    names = collect_names(texts)
    vocabulary = {language: words_by_frequency(language_texts) for language, language_texts in texts.items()}
    common = {language: ordered[:COMMON] for language, ordered in vocabulary.items()}
    rare = {language: rare_words(ordered) for language, ordered in vocabulary.items()}
    name_share, number_share = SWAPPED

    def copies(document: LabelledAnswer, random: np.random.Generator) -> Iterator[LabelledAnswer]:
        for _ in range(COPIES):
            copy = draw_copy(document, random)
            if copy is not None:
                yield replace(swap_word(copy, common[document.language], random) or copy, spans=())

    for document in by_reference.values():
        random = seeded_generator((seed, 2), *_sort_key(document))
        for copy in copies(document, random):
            drawn = random.random()
            if drawn < name_share:
                yield swap_name(copy, names[document.language], random) or copy
            elif drawn < name_share + number_share:
                yield swap_number(copy, random) or copy
            else:
                yield copy
        random = seeded_generator((seed, 3), *_sort_key(document))
        for copy in copies(document, random):
            with_rare = swap_word(copy, rare[document.language], random)
            if with_rare is not None:
                yield replace(with_rare, annotations=_RARE)


def _training_words(documents: Sequence[LabelledAnswer], seed: int) -> _Words:
    real = [document for document in documents if document.annotations == REAL]
    made_up = _synthetic_answers([document for document in documents if document.annotations != REAL], seed)
    readings = Counter((document.language, document.question, document.answer) for document in real)
    text_of = {(d.language, d.reference): number for number, text in enumerate(text_groups(real)) for d in text}
    tables = []
    copied = _swapped_copies(documents, seed)
    ordered = sorted([*documents, *made_up, *copied], key=lambda d: (*_sort_key(d), tuple(d.spans), d.model))
    for document in ordered:
        places = words(document.answer, document.language)
        if not places:
            continue
        random = seeded_generator((seed, 0), *_sort_key(document))
        hard = np.array([category is not None for category in covered(places, document.spans)])
        edges = strip_punctuation(document.answer, places)
        soft = (annotator_shares(document, edges) + hard) / 2
        weight = np.full(len(places), len(places) ** (LENGTH[document.annotations == REAL] - 1))
        if document.annotations == REAL:
            weight /= readings[document.language, document.question, document.answer]
            shares = {document.question: ASKED_REAL, "": 1 - ASKED_REAL} if document.question else {"": 1.0}
            chosen = np.ones(len(places), np.bool_)
        else:
            question = document.question
            if not question and random.random() < ASKED:
                # An article begins with what it is about, which is what a question names.
                first = [*islice(TOKEN.finditer(document.reference), int(random.integers(3, 10)))]
                question = document.reference[: first[-1].end()] if first else ""
            shares = {question: 1.0}
            chosen = random.random(len(places)) < SHARE
        for question, share in shares.items():
            x = answer_features(document.reference, document.answer, document.language, question)
            if document.annotations in (COPIED, _RARE):
                swapped = hard | (x[:, FEATURE_NAMES.index("exact")] == 0)  # one or two words a copy
                chosen |= swapped
                weight[swapped] *= SWAPPED_WEIGHT * SHARE
            names = f"{document.language} {document.annotations}", document.language, document.family
            text = text_of.get((document.language, document.reference), -1)
            columns = (np.full(len(x), value) for value in (*names, text))
            tables.append(_Words(x, hard, soft, weight * share, *columns).select(chosen))
    if not tables:
        raise ValueError("no words to learn from")
    return _Words._make(map(np.concatenate, zip(*tables, strict=True)))


def train(documents: Sequence[LabelledAnswer], seed: int = 0) -> bytes:
    """Learn weights from documents, as the bytes of a weights file; ValueError where they have no words."""
    return _train(_training_words(documents, seed), seed)


def _train(samples: _Words, seed: int) -> bytes:
    import lightgbm

    trees = _grow(samples, seed)
    copied = samples.of_kind(COPIED, _RARE)
    groups, counts = np.unique(samples.group[~copied], return_counts=True)
    training = {
        **{"seed": seed, "lightgbm": lightgbm.__version__, "recipe": dict(RECIPE), "trees": TREES, "share": SHARE},
        **{"real_weight": REAL_WEIGHT, "asked_real": ASKED_REAL, "uncased": UNCASED, "asked": ASKED},
        **{"unrelated": UNRELATED, "cleaned": CLEANED, "copies": COPIES, "swapped": list(SWAPPED)},
        **{"copied_weight": COPIED_WEIGHT, "last_trees": LAST_TREES, "amid": AMID, "amid_trees": AMID_TREES},
        **{"amid_copied_weight": AMID_COPIED_WEIGHT, "copied_words": int(copied.sum())},
        "words": dict(zip(groups.tolist(), counts.tolist(), strict=True)),
        "families": sorted(set(samples.family.tolist()) - {""}),
        "data": "mFAVA (Islam et al. 2025), Creative Commons; Mu-SHROOM (Vázquez et al. 2025), CC BY 4.0; contexts of "
        "nlp-ucsc/semeval-2025-task3, Apache-2.0",
    }
    weights = _export(trees, training)
    sample = samples.x[:: max(len(samples.x) // 1000, 1)]
    if not np.allclose(lexical.from_bytes(weights).sums(sample), _log_odds(trees, sample), atol=1e-2):
        raise AssertionError("the exported trees do not say what LightGBM's do")
    return weights


def _sample_weights(samples: _Words, of_copied: float) -> NDArray[np.float64]:
    """(words,) weights by which a language with many answers weighs more than one with few, but not in proportion."""
    _, number = np.unique(samples.group, return_inverse=True)
    weight = samples.weight / np.sqrt(np.bincount(number, samples.weight))[number]
    copied = samples.of_kind(COPIED, _RARE)
    shares = [(samples.of_kind(REAL), REAL_WEIGHT), (copied, of_copied)]
    inserted = ~np.any([kind for kind, _ in shares], axis=0)
    for kind, share in shares:
        if kind.any() and inserted.any():
            weight[kind] *= share * weight[inserted].sum() / weight[kind].sum()
    return np.asarray(weight / weight.mean())


def _grow(samples: _Words, seed: int) -> _Boosters:
    """The trees of all answers.

    The last ones learn from copies, too. If all did, less would be learned from annotated answers. Those after them learn
    from and score only words inside a copied passage: there a rare word stands out, elsewhere it is a paraphrase.
    """
    import lightgbm

    if samples.y.all() or not samples.y.any():
        raise ValueError("hallucinated and other words are needed to learn from")
    parameters = {**RECIPE, "seed": seed}
    annotated = samples.select(~samples.of_kind(COPIED, _RARE))
    x, soft, weight = _with_uncased(annotated, COPIED_WEIGHT)
    of_annotated = lightgbm.Dataset(x[:, :_AROUND], soft, weight=weight, params=parameters)
    first = lightgbm.train(parameters, of_annotated, TREES - LAST_TREES)
    x, soft, weight = _with_uncased(samples.select(~samples.of_kind(_RARE)), COPIED_WEIGHT)
    of_all = lightgbm.Dataset(x[:, :_AROUND], soft, weight=weight, reference=of_annotated, params=parameters)
    of_all.set_init_score(_raw_scores(first, x[:, :_AROUND]))
    last = lightgbm.train(parameters, of_all, LAST_TREES)
    x, soft, weight = _with_uncased(samples.select(_amid_copy(samples.x)), AMID_COPIED_WEIGHT)
    of_amid = lightgbm.Dataset(x, soft, weight=weight, params=parameters)
    of_amid.set_init_score(_raw_scores(first, x[:, :_AROUND]) + _raw_scores(last, x[:, :_AROUND]))
    return first, last, lightgbm.train(parameters, of_amid, AMID_TREES)


def _raw_scores(grown: Any, x: Matrix) -> NDArray[np.float64]:
    return np.asarray(grown.predict(x, raw_score=True, num_threads=1))


def _amid_copy(x: Matrix) -> NDArray[np.bool_]:
    """(n,) mask of the words inside a copied passage."""
    return np.asarray(x[:, _AROUND] > AMID)


def _with_uncased(samples: _Words, of_copied: float) -> tuple[Matrix, NDArray[np.float64], NDArray[np.float64]]:
    """Features, soft labels and weights of all words, and of those of real answers a second time, without capitals."""
    real = samples.of_kind(REAL)
    uncased = samples.x[real].copy()
    uncased[:, [FEATURE_NAMES.index(name) for name in CASE]] = MISSING
    weight = _sample_weights(samples, of_copied)
    weight = np.concatenate([np.where(real, 1 - UNCASED, 1.0) * weight, UNCASED * weight[real]])
    return np.concatenate([samples.x, uncased]), np.concatenate([samples.soft, samples.soft[real]]), weight


def _log_odds(trees: _Boosters, x: Matrix) -> NDArray[np.float64]:
    """(n,) log odds of each word."""
    first, last, amid = trees
    return _raw_scores(first, x[:, :_AROUND]) + _raw_scores(last, x[:, :_AROUND]) + _amid_copy(x) * _raw_scores(amid, x)


_Boosters = tuple[Any, Any, Any]  # LightGBM's: the first trees, the last, and those of words inside a copied passage


def _export(trees: _Boosters, training: Mapping[str, Any]) -> bytes:
    feature, number, sizes = [], [], []
    first, last, amid = ([tree["tree_structure"] for tree in grown.dump_model()["tree_info"]] for grown in trees)
    guard = {"split_feature": _AROUND, "threshold": AMID, "left_child": {"leaf_value": 0.0}}
    for root in [*first, *last, *({**guard, "right_child": root} for root in amid)]:
        order: list[dict[str, Any]] = [root]  # breadth first, children side by side
        for node in order:
            if "leaf_value" in node:
                feature.append(lexical.LEAF)
                number.append(np.float16(node["leaf_value"]))
                continue
            split = np.float16(node["threshold"])
            # Features are float16s: one is at most the split if it is at most the float16 below it.
            if float(split) > node["threshold"]:
                split = np.nextafter(split, np.float16(-np.inf))
            feature.append(int(node["split_feature"]))
            number.append(split)
            order += [node["left_child"], node["right_child"]]
        sizes.append(len(order))
    arrays: dict[str, NDArray[Any]] = {
        "feature": np.array(feature, np.uint8),
        "number": np.array(number, np.float16),
        "nodes": np.array(sizes, np.uint16),
    }
    return to_bytes(arrays, threshold=THRESHOLD, spread=SPREAD, names=FEATURE_NAMES, training=training)


def to_bytes(
    arrays: Mapping[str, NDArray[Any]], *, threshold: float, spread: float, names: tuple[str, ...], training: Any
) -> bytes:
    """A forest as the bytes of a safetensors file; the same forest has the same bytes.

    Args:
        arrays: of all trees: `feature` and `number` (nodes,), `nodes` (trees,), as in ``from_bytes``.
        threshold, spread, names, training: see ``Forest``.
    """
    features = " ".join(names)
    metadata = {"format": lexical.FORMAT, "threshold": repr(threshold), "spread": repr(spread), "features": features}
    metadata["training"] = json.dumps(training, sort_keys=True, separators=(",", ":"))
    header: dict[str, Any] = {"__metadata__": metadata}
    kinds = {np.dtype(kind).newbyteorder("<"): name for name, kind in lexical.TYPES.items()}
    body = b""
    for name, array in sorted(arrays.items()):
        kind = array.dtype.newbyteorder("<")
        data = array.astype(kind).tobytes()
        start = len(body)
        header[name] = {"dtype": kinds[kind], "shape": list(array.shape), "data_offsets": [start, start + len(data)]}
        body += data
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def weights_name(language: str | None = None, family: str = "") -> str:
    """File name of weights below their folder: those trained on everything, or without a language and a model family."""
    if language is None:
        return MAIN_WEIGHTS
    return f"{HELD_OUT}/{language}.{family}.safetensors" if family else f"{HELD_OUT}/{language}.safetensors"


def train_all(documents: Sequence[LabelledAnswer], processes: int = 1) -> dict[str, bytes]:
    """All weights by file name: trained on everything, on all but each language, and on all but each language and each
    family of models that also answers in other languages. A family of one language is left out together with it.

    Args:
        documents: labelled answers; all annotations of a language are left out together.
        processes: forests grown at once; changes the time, not the bytes.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    languages: dict[str, set[str]] = {}
    for document in documents:
        if document.family:
            languages.setdefault(document.family, set()).add(document.language)
    pairs = {(document.language, "") for document in documents}
    pairs |= {(language, family) for family, codes in languages.items() if len(codes) > 1 for language in codes}
    cells: list[tuple[str | None, str]] = [(None, ""), *sorted(pairs)]
    train_cell = partial(_train_without, _training_words(documents, seed=0))
    # Spawned: a fork after OpenMP has started threads may hang.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return dict(zip((weights_name(*cell) for cell in cells), pool.map(train_cell, cells), strict=True))


def _train_without(samples: _Words, cell: tuple[str | None, str]) -> bytes:
    language, family = cell
    if language is not None:
        left_out = (samples.language == language) | ((samples.family != "") & (samples.family == family))
        texts = np.unique(samples.text[samples.language == language])
        samples = samples.select(~left_out & ((samples.text < 0) | ~np.isin(samples.text, texts)))
    return _train(samples, seed=0)
