"""Training of the lexical detector: boosted trees on people's and GPT-4's annotations and on copies of references with a
word swapped; and on parts of these, for figures on languages left out.

Only this module needs LightGBM. The same documents and seed give the same bytes: one thread grows each forest, because
sums over several threads depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import Span, covered
from custom_metrics.reading.words import words
from detector_plugin.labelled import REAL, LabelledAnswer, annotator_shares, without_spans
from detector_plugin.lexical import HELD_OUT, MAIN_WEIGHTS, model, strip_punctuation
from detector_plugin.lexical.copies import (
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
from detector_plugin.lexical.features import CASE, COPIED_AROUND, FEATURE_NAMES, MISSING, Matrix, answer_features
from detector_plugin.lexical.text import TOKEN

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
REAL_WEIGHT = (0.5, 2.0)  # of all real answers together, as those of mFAVA have 1; in trees without and with a question
LENGTH = 0.5  # an answer of n words weighs n to this power
UNCASED = 0.3  # weight of a real answer read without capitals, of both readings: Hindi, Arabic and Chinese have none
ASKED = 0.25  # of mFAVA's answers are read with the beginning of their reference for a question, which they have not
UNRELATED = 0.02  # of the answers are learned from a second time, held against another document's reference
CLEANED = 0.02  # and so many without their hallucinated spans
COPIES = 1, 4  # of each reference of mFAVA, of each page of Mu-SHROOM, of which there are few
SWAPPED = 0.6, 0.2  # share of the copies in which a name, a number is swapped
COMMON = 300  # words of a language: one of them in a copy is no error
SWAPPED_WEIGHT = 3  # of a swapped word, as the others of a copy have 1
COPIED_WEIGHT = 0.3  # of all copies together, as those of mFAVA have 1
LAST_TREES = 10  # of the trees: those that learn from copies, too
AMID = 7.5  # of `copied_around`: a word with more is inside a copied passage
AMID_TREES = 60  # after the others, of such words alone: they learn from copies with a rare word swapped, too
AMID_COPIED_WEIGHT = 4.0  # of all copies together, as those of mFAVA have 1; in these trees
FOLDS = 3  # of languages, to choose the threshold and to calibrate by
_USUAL_THRESHOLD = 0.36  # where there are too few languages to choose one by
SPREAD = 2.0  # of `most_overlap`. Chosen nested, by left-out language, it is anything from 1 to 3; 2 is the middle
_THRESHOLDS = np.arange(0.2, 0.61, 0.01)


class _Words(NamedTuple):
    """Words to learn from, one row each."""

    x: Matrix
    y: NDArray[np.bool_]  # hallucinated
    soft: NDArray[np.float64]  # what the trees learn: between the share of annotators and `y`
    weight: NDArray[np.float64]  # of its answer
    group: NDArray[np.str_]  # language and kind of annotation, as "de gold"
    language: NDArray[np.str_]
    family: NDArray[np.str_]

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
        for _ in range(COPIES[document.annotations == REAL]):
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
    made_up = _synthetic_answers([document for document in documents if document.annotations != REAL], seed)
    tables = []
    copied = _swapped_copies(documents, seed)
    ordered = sorted([*documents, *made_up, *copied], key=lambda d: (*_sort_key(d), tuple(d.spans), d.model))
    for document in ordered:
        places = words(document.answer, document.language)
        if not places:
            continue
        random = seeded_generator((seed, 0), *_sort_key(document))
        question = document.question
        if document.annotations == REAL:
            chosen = np.ones(len(places), np.bool_)
        else:
            if not question and random.random() < ASKED:
                # An article begins with what it is about, which is what a question names.
                first = [*islice(TOKEN.finditer(document.reference), int(random.integers(3, 10)))]
                question = document.reference[: first[-1].end()] if first else ""
            chosen = random.random(len(places)) < SHARE
        hard = np.array([category is not None for category in covered(places, document.spans)])
        weight = np.full(len(places), len(places) ** (LENGTH - 1))
        x = answer_features(document.reference, document.answer, document.language, question)
        if document.annotations in (COPIED, _RARE):
            swapped = hard | (x[:, FEATURE_NAMES.index("exact")] == 0)  # one or two words a copy
            chosen |= swapped
            weight[swapped] *= SWAPPED_WEIGHT * SHARE
        edges = strip_punctuation(document.answer, places)
        soft = (annotator_shares(document, edges) + hard) / 2
        names = f"{document.language} {document.annotations}", document.language, document.family
        tables.append(_Words(x, hard, soft, weight, *(np.full(len(x), name) for name in names)).select(chosen))
    if not tables:
        raise ValueError("no words to learn from")
    return _Words._make(map(np.concatenate, zip(*tables, strict=True)))


def train(documents: Sequence[LabelledAnswer], seed: int = 0) -> bytes:
    """Learn weights from documents, as the bytes of a weights file; ValueError where they have no words.

    Probabilities are calibrated, and the threshold with the best mean F1 is chosen, out of sample: on each third of the
    languages, read by trees of the other two thirds.
    """
    return _train(_training_words(documents, seed), seed)


def _train(samples: _Words, seed: int) -> bytes:
    import lightgbm

    # Those of real answers first: as few as they are, they fall into different folds.
    real = {*samples.language[samples.of_kind(REAL)].tolist()}
    languages = sorted({*samples.language.tolist()}, key=lambda language: (language not in real, language))
    calibration = (1.0, 0.0), (1.0, 0.0)
    threshold = _USUAL_THRESHOLD
    if len(languages) >= FOLDS:
        odds = np.zeros(len(samples.y))
        for fold in range(FOLDS):
            inside = np.isin(samples.language, languages[fold::FOLDS])
            odds[inside] = _log_odds(_grow(samples.select(~inside), seed), samples.x[inside])
        calibration = _fit_calibration(odds, samples)
        slope, offset = np.array(calibration)[_has_question(samples.x).astype(int)].T
        probabilities = 1 / (1 + np.exp(-slope * odds - offset))
        threshold = _best_threshold(probabilities, samples)
    trees = _grow(samples, seed)
    copied = samples.of_kind(COPIED, _RARE)
    groups, counts = np.unique(samples.group[~copied], return_counts=True)
    training = {
        "seed": seed,
        "lightgbm": lightgbm.__version__,
        "recipe": dict(RECIPE),
        "trees": TREES,
        "share": SHARE,
        "real_weight": list(REAL_WEIGHT),
        "uncased": UNCASED,
        "asked": ASKED,
        "unrelated": UNRELATED,
        "cleaned": CLEANED,
        "copies": list(COPIES),
        "swapped": list(SWAPPED),
        "copied_weight": COPIED_WEIGHT,
        "last_trees": LAST_TREES,
        "amid": AMID,
        "amid_trees": AMID_TREES,
        "amid_copied_weight": AMID_COPIED_WEIGHT,
        "copied_words": int(copied.sum()),
        "words": dict(zip(groups.tolist(), counts.tolist(), strict=True)),
        "families": sorted(set(samples.family.tolist()) - {""}),
        "data": "mFAVA (Islam et al. 2025), Creative Commons; Mu-SHROOM (Vázquez et al. 2025), CC BY 4.0",
    }
    weights = _export(trees, calibration, threshold, training)
    sample = samples.x[:: max(len(samples.x) // 1000, 1)]
    slope, offset = np.array(calibration)[_has_question(sample).astype(int)].T
    expected = slope * _log_odds(trees, sample) + offset
    if not np.allclose(model.from_bytes(weights).log_odds(sample), expected, atol=1e-4):
        raise AssertionError("the exported trees do not say what LightGBM's do")
    return weights


def _sample_weights(samples: _Words, of_real: float, of_copied: float) -> NDArray[np.float64]:
    """(words,) weights by which a language with many answers weighs more than one with few, but not in proportion."""
    _, number = np.unique(samples.group, return_inverse=True)
    weight = samples.weight / np.sqrt(np.bincount(number, samples.weight))[number]
    copied = samples.of_kind(COPIED, _RARE)
    shares = [(samples.of_kind(REAL), of_real), (copied, of_copied)]
    inserted = ~np.any([kind for kind, _ in shares], axis=0)
    for kind, share in shares:
        if kind.any() and inserted.any():
            weight[kind] *= share * weight[inserted].sum() / weight[kind].sum()
    return np.asarray(weight / weight.mean())


def _grow(samples: _Words, seed: int) -> _BoosterPair:
    """Trees for answers without a question, and for those with one.

    Both learn from all answers, but inserted errors weigh more in the former: nobody asked for mFAVA's texts. The last
    trees learn from copies, too. If all did, less would be learned from annotated answers. Those after them learn from and
    score only words inside a copied passage: there a rare word stands out, elsewhere it is a paraphrase.
    """
    import lightgbm

    if samples.y.all() or not samples.y.any():
        raise ValueError("hallucinated and other words are needed to learn from")
    parameters = {**RECIPE, "seed": seed}
    annotated = samples.select(~samples.of_kind(COPIED, _RARE))
    x, soft = _with_uncased(annotated)
    of_annotated = lightgbm.Dataset(x[:, :_AROUND], soft, params=parameters)
    without_rare = samples.select(~samples.of_kind(_RARE))
    x, soft = _with_uncased(without_rare)
    of_all = lightgbm.Dataset(x[:, :_AROUND], soft, reference=of_annotated, params=parameters)
    amid = samples.select(_amid_copy(samples.x))
    x_amid, soft = _with_uncased(amid)
    of_amid = lightgbm.Dataset(x_amid, soft, params=parameters)
    grown = []
    for of_real in REAL_WEIGHT:
        of_annotated.set_weight(_with_uncased_weights(annotated, of_real))
        first = lightgbm.train(parameters, of_annotated, TREES - LAST_TREES)
        of_all.set_weight(_with_uncased_weights(without_rare, of_real))
        of_all.set_init_score(_raw_scores(first, x[:, :_AROUND]))
        last = lightgbm.train(parameters, of_all, LAST_TREES)
        of_amid.set_weight(_with_uncased_weights(amid, of_real, AMID_COPIED_WEIGHT))
        of_amid.set_init_score(_raw_scores(first, x_amid[:, :_AROUND]) + _raw_scores(last, x_amid[:, :_AROUND]))
        grown.append((first, last, lightgbm.train(parameters, of_amid, AMID_TREES)))
    return grown[0], grown[1]


def _raw_scores(grown: Any, x: Matrix) -> NDArray[np.float64]:
    return np.asarray(grown.predict(x, raw_score=True, num_threads=1))


def _amid_copy(x: Matrix) -> NDArray[np.bool_]:
    """(n,) mask of the words inside a copied passage."""
    return np.asarray(x[:, _AROUND] > AMID)


def _with_uncased(samples: _Words) -> tuple[Matrix, NDArray[np.float64]]:
    """Features and soft labels of all words, and of those of real answers a second time, without capitals."""
    real = samples.of_kind(REAL)
    uncased = samples.x[real].copy()
    uncased[:, [FEATURE_NAMES.index(name) for name in CASE]] = MISSING
    return np.concatenate([samples.x, uncased]), np.concatenate([samples.soft, samples.soft[real]])


def _with_uncased_weights(samples: _Words, of_real: float, of_copied: float = COPIED_WEIGHT) -> NDArray[np.float64]:
    real = samples.of_kind(REAL)
    weight = _sample_weights(samples, of_real, of_copied)
    return np.concatenate([np.where(real, 1 - UNCASED, 1.0) * weight, UNCASED * weight[real]])


def _log_odds(trees: _BoosterPair, x: Matrix) -> NDArray[np.float64]:
    """(n,) log odds of each word, by the trees for answers with or without a question; not calibrated."""
    has_question = _has_question(x)
    odds = np.zeros(len(x))
    for rows, (first, last, amid) in zip((~has_question, has_question), trees, strict=True):
        if rows.any():
            odds[rows] = sum(_raw_scores(grown, x[rows, :_AROUND]) for grown in (first, last))
            rows &= _amid_copy(x)
        if rows.any():
            odds[rows] += _raw_scores(amid, x[rows])
    return odds


_Boosters = tuple[Any, Any, Any]  # LightGBM's: the first trees, the last, and those of words inside a copied passage
_BoosterPair = tuple[_Boosters, _Boosters]
_Calibration = tuple[tuple[float, float], tuple[float, float]]


def _has_question(x: Matrix) -> NDArray[np.bool_]:
    return np.asarray(x[:, FEATURE_NAMES.index(model.QUESTION_COLUMN)] >= 0)


def _fit_calibration(odds: NDArray[np.float64], samples: _Words) -> _Calibration:
    """Slopes and offsets of log odds (Platt 1999), without a question and with one.

    Answers with a question are real ones, of very few languages, which differ more in how much of them is hallucinated than
    a line fitted to the others can tell: left out by language, the trees' own probabilities (they minimise cross entropy)
    are off by 0.04 in German and Finnish, fitted ones by 0.11 and 0.15. They stay as they are.
    """
    inserted = samples.of_kind("gold", "silver") & ~_has_question(samples.x)
    return (_platt(odds[inserted], samples.y[inserted].astype(float)) if inserted.any() else (1.0, 0.0)), (1.0, 0.0)


def _platt(z: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Logistic regression of y on z, by Newton's method."""
    x = np.column_stack([z, np.ones(len(z))])
    coefficients = np.array([1.0, 0.0])
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ coefficients))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(2)
        coefficients += np.linalg.solve(curvature, x.T @ (y - p))
    return round(float(coefficients[0]), 4), round(float(coefficients[1]), 4)


def _best_threshold(probabilities: NDArray[np.float64], samples: _Words) -> float:
    """The middle of the thresholds whose mean F1 over languages and annotations is within 0.1 point of the best."""
    curves = []
    for group in np.unique(samples.group):
        if not group.endswith((f" {REAL}", " gold", " silver")):
            continue  # made up: the threshold is for what people and GPT-4 flagged
        chosen = samples.group == group
        p, y = probabilities[chosen], samples.y[chosen]
        curves.append([2 * float((y & (p > t)).sum()) / max(float((p > t).sum() + y.sum()), 1.0) for t in _THRESHOLDS])
    mean = np.mean(curves, axis=0)
    return round(float(_THRESHOLDS[mean >= mean.max() - 0.001].mean()), 2)


def _export(trees: _BoosterPair, calibration: _Calibration, threshold: float, training: Mapping[str, Any]) -> bytes:
    feature, number, sizes = [], [], []
    counts = []
    for boosters in trees:
        first, last, amid = ([tree["tree_structure"] for tree in grown.dump_model()["tree_info"]] for grown in boosters)
        zero_leaf = {"leaf_value": 0.0}
        guard = {"split_feature": _AROUND, "threshold": AMID, "left_child": zero_leaf}
        roots = [*first, *last, *({**guard, "right_child": root} for root in amid)]
        counts.append(len(roots))
        for root in roots:
            order: list[dict[str, Any]] = [root]  # breadth first, children side by side
            for node in order:
                if "leaf_value" in node:
                    feature.append(model.LEAF)
                    number.append(np.float32(node["leaf_value"]))
                    continue
                split = np.float32(node["threshold"])
                # A float32 is at most the split if it is at most the float32 below it.
                if float(split) > node["threshold"]:
                    split = np.nextafter(split, np.float32(-np.inf))
                feature.append(int(node["split_feature"]))
                number.append(split)
                order += [node["left_child"], node["right_child"]]
            sizes.append(len(order))
    return model.to_bytes(
        {
            "feature": np.array(feature, np.uint8),
            "number": np.array(number, np.float32),
            "nodes": np.array(sizes, np.uint16),
        },
        trees=(counts[0], counts[1]),
        calibration=calibration,
        threshold=threshold,
        spread=SPREAD,
        names=FEATURE_NAMES,
        training=training,
    )


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
        samples = samples.select((samples.language != language) & ((samples.family == "") | (samples.family != family)))
    return _train(samples, seed=0)
