"""How the weights come about: boosted trees on mFAVA's annotations, and on all but one language to measure them honestly.

scikit-learn is needed here and nowhere else. The same documents and seed give the same bytes: each forest is grown by one
thread, as sums of several threads depend on who comes first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.spans import Span, covered
from custom_metrics.words import words
from detector_plugin.lexical import HELD_OUT, MAIN_WEIGHTS, model
from detector_plugin.lexical.features import FEATURE_NAMES, Matrix, answer_features

__all__ = ["LabelledAnswer", "train", "train_all", "weights_name"]

RECIPE: Mapping[str, Any] = {
    "learning_rate": 0.08,
    "max_iter": 150,
    "max_leaf_nodes": 31,
    "max_depth": 7,
    "min_samples_leaf": 200,
    "max_features": 0.3,
    "l2_regularization": 10.0,
}
"""Of scikit-learn's HistGradientBoostingClassifier."""

QUICKLY: Mapping[str, Any] = {"learning_rate": 0.16, "max_iter": 60}
"""What is changed where only a threshold is looked for."""

SHARE = 0.2  # of the words that are learned from: those of one sentence say much the same
UNCUED = 0.1  # of the answers are read without cues, so that the trees learn to do without
UNRELATED = 0.02  # of the answers are learned from a second time, held against another document's reference
CLEANED = 0.02  # and so many without their hallucinated spans
FOLDS = 3  # of languages, to choose the threshold by
_USUAL_THRESHOLD = 0.36  # where there are too few languages to choose one by
_THRESHOLDS = np.arange(0.2, 0.61, 0.01)


@dataclass(frozen=True)
class LabelledAnswer:
    """An answer, the text it is held against, and what is hallucinated in it.

    Attributes:
        reference: as the detector gets it.
        answer: the text that `spans` are characters of.
        language: ISO 639 code.
        annotations: who said so: ``gold`` (people) or ``silver`` (GPT-4).
        spans: hallucinated parts of the answer.
    """

    reference: str
    answer: str
    language: str
    annotations: str
    spans: Sequence[Span]


@dataclass(frozen=True)
class _Words:
    """Words to learn from, one row each."""

    x: Matrix
    y: NDArray[np.bool_]
    group: NDArray[np.str_]  # language and kind of annotation, as "de gold"
    language: NDArray[np.str_]

    def of(self, chosen: NDArray[np.bool_]) -> _Words:
        return _Words(self.x[chosen], self.y[chosen], self.group[chosen], self.language[chosen])


def _content(document: LabelledAnswer) -> tuple[str, ...]:
    """What documents are ordered and told apart by, so that the order they come in does not matter."""
    return document.language, document.annotations, document.answer, document.reference


def _made_up(documents: Sequence[LabelledAnswer], seed: int) -> Iterator[LabelledAnswer]:
    """Answers held against the reference of another document, and answers without what is hallucinated in them.

    A third of nearly every annotated answer is hallucinated; from them alone, trees learn to compare an answer's sentences
    with each other, and to flag a third of anything.
    """
    ordered = sorted({(d.language, d.reference) for d in documents})
    following = dict(zip(ordered, ordered[1:] + ordered[:1], strict=True))
    for document in documents:
        language, reference = following[document.language, document.reference]
        drawn = _random(document, seed, 1).random()
        if drawn < UNRELATED:
            if language == document.language:
                whole = Span(0, len(document.answer))
                yield replace(document, reference=reference, annotations="unrelated", spans=(whole,))
        elif drawn < UNRELATED + CLEANED:
            kept = np.ones(len(document.answer), np.bool_)
            for span in document.spans:
                kept[span.start : span.end] = False
            answer = "".join(compress(document.answer, kept.tolist()))
            yield replace(document, answer=answer, annotations="cleaned", spans=())


def _random(document: LabelledAnswer, seed: int, use: int) -> np.random.Generator:
    digest = hashlib.sha256("\0".join(_content(document)).encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, use, *digest])


def _labelled(documents: Sequence[LabelledAnswer], seed: int) -> _Words:
    matrices, labels, groups, languages = [], [], [], []
    for document in sorted([*documents, *_made_up(documents, seed)], key=lambda d: (*_content(d), tuple(d.spans))):
        places = words(document.answer, document.language)
        if not places:
            continue
        random = _random(document, seed, 0)
        cues = bool(random.random() >= UNCUED)
        chosen = random.random(len(places)) < SHARE
        matrices.append(answer_features(document.reference, document.answer, document.language, cues)[chosen])
        labels.append(np.array([category is not None for category in covered(places, document.spans)])[chosen])
        groups += [f"{document.language} {document.annotations}"] * int(chosen.sum())
        languages += [document.language] * int(chosen.sum())
    if not matrices:
        raise ValueError("no words to learn from")
    return _Words(np.concatenate(matrices), np.concatenate(labels), np.array(groups), np.array(languages))


def train(documents: Sequence[LabelledAnswer], seed: int = 0) -> bytes:
    """Weights learned from some documents, as the bytes of a weights file.

    The threshold is the one that, were each third of the languages detected with trees of the others, has the best mean F1.

    Raises:
        ValueError: the documents have no words, or none or all of them are hallucinated.
    """
    return _train(_labelled(documents, seed), seed)


def _train(known: _Words, seed: int) -> bytes:
    import sklearn.ensemble  # first: only libraries that are loaded already can be limited to one thread
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    with threadpool_limits(limits=1):
        languages = sorted(set(known.language.tolist()))
        out_of_fold = np.full(len(known.y), np.nan)
        if len(languages) >= FOLDS:
            for fold in range(FOLDS):
                inside = np.isin(known.language, languages[fold::FOLDS])
                trees = _grow(known.of(~inside), seed, **QUICKLY)
                out_of_fold[inside] = trees.predict_proba(known.x[inside])[:, 1]
        threshold = _best_threshold(out_of_fold, known) if len(languages) >= FOLDS else _USUAL_THRESHOLD
        trees = _grow(known, seed)
    groups, counts = np.unique(known.group, return_counts=True)
    training = {
        "seed": seed,
        "scikit-learn": sklearn.__version__,
        "recipe": dict(RECIPE),
        "share": SHARE,
        "unrelated": UNRELATED,
        "cleaned": CLEANED,
        "words": dict(zip(groups.tolist(), counts.tolist(), strict=True)),
        "data": "mFAVA (Islam et al. 2025), Creative Commons",
    }
    weights = _export(trees, threshold, training)
    sample = known.x[:: max(len(known.x) // 1000, 1)]
    if not np.allclose(model.from_bytes(weights).log_odds(sample), trees.decision_function(sample), atol=1e-4):
        raise AssertionError("the exported trees do not say what scikit-learn's do")
    return weights


def _grow(known: _Words, seed: int, **changes: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    if known.y.all() or not known.y.any():
        raise ValueError("hallucinated and other words are needed to learn from")
    return HistGradientBoostingClassifier(**{**RECIPE, **changes}, early_stopping=False, random_state=seed).fit(
        known.x, known.y
    )


def _best_threshold(probabilities: NDArray[np.float64], known: _Words) -> float:
    """The middle of the thresholds whose mean F1 over languages and annotations is within 0.1 point of the best."""
    curves = []
    for group in np.unique(known.group):
        if not group.endswith((" gold", " silver")):
            continue  # made up: what the threshold is for is what people and GPT-4 flagged
        chosen = (known.group == group) & ~np.isnan(probabilities)
        p, y = probabilities[chosen], known.y[chosen]
        curves.append([2 * float((y & (p > t)).sum()) / max(float((p > t).sum() + y.sum()), 1.0) for t in _THRESHOLDS])
    mean = np.mean(curves, axis=0)
    return round(float(_THRESHOLDS[mean >= mean.max() - 0.001].mean()), 2)


def _export(trees: Any, threshold: float, training: Mapping[str, Any]) -> bytes:
    feature, number, left, sizes = [], [], [], []
    deepest = 0
    # Private, but where the trees are; `_train` checks that they were read right.
    for (predictor,) in trees._predictors:
        nodes = predictor.nodes
        order: list[tuple[int, int]] = [(0, 0)]  # scikit-learn's number and depth of each node: children side by side
        place = 0
        while place < len(order):
            old, depth = order[place]
            node = nodes[old]
            deepest = max(deepest, depth)
            if node["is_leaf"]:
                feature.append(0)
                left.append(0)
                number.append(np.float32(node["value"]))
            else:
                split = np.float32(node["num_threshold"])
                # A float32 is at most the split if it is at most the float32 below it.
                if split > node["num_threshold"]:
                    split = np.nextafter(split, np.float32(-np.inf))
                feature.append(int(node["feature_idx"]))
                left.append(len(order))
                number.append(split)
                order += [(int(node["left"]), depth + 1), (int(node["right"]), depth + 1)]
            place += 1
        sizes.append(len(order))
    return model.to_bytes(
        {
            "feature": np.array(feature, np.uint16),
            "number": np.array(number, np.float32),
            "left": np.array(left, np.uint16),
            "nodes": np.array(sizes, np.uint16),
        },
        base=float(trees._baseline_prediction.ravel()[0]),
        threshold=threshold,
        depth=deepest,
        names=FEATURE_NAMES,
        training=training,
    )


def weights_name(held_out: str | None = None) -> str:
    """File name, below the folder of weights, of those trained on everything, or without one language."""
    return f"{HELD_OUT}/{held_out}.safetensors" if held_out else MAIN_WEIGHTS


def train_all(documents: Sequence[LabelledAnswer], seed: int = 0, processes: int = 1) -> dict[str, bytes]:
    """All weights that are shipped: by file name, those of everything and those without each language.

    Args:
        documents: labelled answers; all annotations of a language are left out together.
        seed: of the words learned from and of the features each split may choose from.
        processes: forests grown at once; changes the time, not the bytes.
    """
    known = _labelled(documents, seed)
    left_out: list[str | None] = [None, *sorted({document.language for document in documents})]
    if processes <= 1:
        return {weights_name(language): _train_without(language, known, seed) for language in left_out}
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Spawned: a fork after OpenMP has started threads may hang.
    with ProcessPoolExecutor(processes, get_context("spawn"), _share, (known, seed)) as pool:
        return {
            weights_name(language): weights
            for language, weights in zip(left_out, pool.map(_train_shared, left_out), strict=True)
        }


_SHARED: dict[str, Any] = {}


def _share(known: _Words, seed: int) -> None:
    _SHARED.update(known=known, seed=seed)


def _train_shared(language: str | None) -> bytes:
    return _train_without(language, _SHARED["known"], _SHARED["seed"])


def _train_without(language: str | None, known: _Words, seed: int) -> bytes:
    return _train(known if language is None else known.of(known.language != language), seed)
