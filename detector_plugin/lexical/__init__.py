"""The detector `lexical`: flags words that the reference does not bear out, by overlap, on a CPU.

It is a small learned classifier that compares words of answer, reference and question, trained on answers that models wrote
and people marked (Mu-SHROOM), on inserted errors (mFAVA), and on copies of the references with a word swapped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.spans import HALLUCINATION, Span
from custom_metrics.reading.words import words
from detector_plugin.detector import (
    Languages,
    Questions,
    Spans,
    Texts,
    check_choice,
    check_lengths,
    parse_flag,
    parse_number,
)
from detector_plugin.lexical.features import FEATURE_NAMES, joined_features

WEIGHTS = Path(__file__).parent / "weights"  # folder of the weights that ship
MAIN_WEIGHTS = "lexical.safetensors"
HELD_OUT = "held_out"  # folder of one file a language, named by its code
HELD_OUT_SUFFIX = "-held-out"  # of the version of a detector that reads each language with weights that never saw it
SPANS = ("words", "iou")  # ways to choose spans: for a count of words, or for overlap with the spans that people mark
FLOOR = 0.02
"""Share of an answer's words, rare ones weighing more, whose stem its reference must hold at the least: below it the
reference is a placeholder ("None, none.") or another document's, and bears nothing out."""
ABSTAINING = 0.1  # share below which no word of an answer that abstains is flagged
_OVERLAP_COLUMN = FEATURE_NAMES.index("stems@document")

_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # integrates a standard normal variable
_EMPTY = 8.0  # power of a word's probability to be fine: errors come with others, an answer without any is rare


class LexicalDetector:
    """Flags the words of an answer that its reference does not bear out, by overlap with the reference (words, stems,
    beginnings, endings, character n-grams, numbers, where in the reference they stand) and with the question, whose words
    are hardly ever wrong in an answer. It knows no meaning: the README of mFAVA says what it finds and what it misses.
    Other languages are scored with what was learned. Its version is that of the main weights and options."""

    name = "lexical"
    licence = "Apache-2.0 (trained on mFAVA, Creative Commons, and Mu-SHROOM)"

    def __init__(
        self,
        threshold: float | None = None,
        held_out: bool = False,
        weights: Path | None = None,
        spans: str = "words",
    ) -> None:
        """Load the weights; ValueError or OSError where that fails or an option has a wrong value.

        Args:
            threshold: probability above which a word is flagged; default: as chosen in training. Not for ``spans="iou"``.
            held_out: score each answer with weights that were trained without any document of its language, and without
                real answers about the same pages, for measuring the detector on mFAVA and Mu-SHROOM, which the full weights
                have seen.
            weights: folder of other weights than those that ship, or one file of them.
            spans: ``"words"``: every word above the threshold, whole, words next to each other as one span: for rates.
                ``"iou"``: the words whose expected overlap with people's spans is largest (Mu-SHROOM's measure), without
                quotes and punctuation at the ends, one span a word, so that each has its own probability.
        """
        self.threshold: float | None = parse_number("threshold", threshold, float, 0, 1)
        self.held_out, self.spans = parse_flag("held_out", held_out), spans
        check_choice("spans", spans, SPANS)
        self._folder = WEIGHTS if weights is None else Path(weights)
        one_file = self._folder.suffix == ".safetensors"
        self._forests: dict[str, Forest] = {"": _load(self._folder if one_file else self._folder / MAIN_WEIGHTS)}
        self._languages = (
            {path.stem for path in (self._folder / HELD_OUT).glob("*.safetensors")} if self.held_out else set()
        )
        self.version = self._forests[""].version + (HELD_OUT_SUFFIX if self.held_out else "")
        self.version += "" if threshold is None else f"-t{threshold}"
        self.version += "" if spans == "words" else f"-{spans}"

    @classmethod
    def check(cls, **options: Any) -> None:
        """Load the detector. That costs next to nothing, and also finds weights that cannot be read."""
        cls(**options)

    def detect(self, references: Texts, answers: Texts, languages: Languages, questions: Questions = None) -> Spans:
        """See :meth:`detector_plugin.Detector.detect`. Spans have probabilities, and are chosen by the option `spans`.
        Languages decide how words are cut and, with `held_out`, by which weights an answer is read.
        """
        probabilities = self.probabilities(references, answers, languages, questions)
        return [self.marked(*arguments) for arguments in zip(answers, languages, probabilities, strict=True)]

    def marked(self, answer: str, language: str | None, probabilities: NDArray[np.float64]) -> list[Span]:
        """Choose the spans of an answer by the probabilities of its words, as :meth:`probabilities` returns them."""
        forest = self._forest(language)
        places = words(answer, language)
        if self.spans == "iou":  # a span a word, up to the next one where that is marked, too
            edges = strip_punctuation(answer, places)
            chosen = maximise_iou(probabilities, np.diff(edges, axis=1)[:, 0] + np.float64(1), forest.spread)
            next_chosen = np.append(chosen[1:], False)
            ends = [edges[at + 1, 0] if next_chosen[at] else edges[at, 1] for at in range(len(edges))]
            bounds = [(edges[at, 0], ends[at], probabilities[at]) for at in np.flatnonzero(chosen)]
        else:
            flagged = probabilities > (forest.threshold if self.threshold is None else self.threshold)
            turns = np.flatnonzero(np.diff(np.concatenate([[0], flagged.astype(np.int8), [0]]))).reshape(-1, 2)
            bounds = [(places[a][0], places[b - 1][1], probabilities[a:b].mean()) for a, b in turns.tolist()]
        # Four decimals: more are of no use to a reader, or in a tag.
        return [Span(int(start), int(end), HALLUCINATION, round(float(p), 4)) for start, end, p in bounds]

    def probabilities(
        self, references: Texts, answers: Texts, languages: Languages, questions: Texts | None = None
    ) -> list[NDArray[np.float64]]:
        """(words,) for each answer: the probability that each of its words is hallucinated. All are 1 where the reference
        holds less than `FLOOR` of the answer's words (rare words weigh more). All are 0 where it holds less than
        `ABSTAINING` and the answer abstains (:func:`custom_metrics.abstention.is_abstention`)."""
        check_lengths(references, answers, languages, questions)
        by_answer: list[NDArray[np.float64]] = []
        questions = [""] * len(answers) if questions is None else questions
        for reference, answer, language, question in zip(references, answers, languages, questions, strict=True):
            matrix = joined_features(reference, answer, language, question)
            by_answer.append(self._forest(language).probabilities(matrix))
            overlap = float(matrix[0, _OVERLAP_COLUMN]) if len(matrix) else 1.0
            # "I don't know" has little of the reference either, and makes nothing up.
            if overlap < ABSTAINING and is_abstention(answer, language):
                by_answer[-1][:] = 0.0
            elif overlap < FLOOR:
                by_answer[-1][:] = 1.0
        return by_answer

    def _forest(self, language: str | None) -> Forest:
        name = language if language in self._languages else ""
        if name not in self._forests:
            self._forests[name] = _load(self._folder / HELD_OUT / f"{name}.safetensors")
        return self._forests[name]


def _load(path: Path) -> Forest:
    forest = from_bytes(path.read_bytes())
    if forest.feature_names != FEATURE_NAMES:
        raise ValueError(f"{path} was trained on other features than this version has; train it anew")
    return forest


def strip_punctuation(answer: str, places: list[tuple[int, int]]) -> NDArray[np.intp]:
    """(words, 2): first and end character of each word, without punctuation around it, unless it is nothing else."""
    edges = np.zeros((len(places), 2), np.intp)
    for number, (start, end) in enumerate(places):
        inside = [at for at in range(start, end) if answer[at].isalnum()]
        edges[number] = (inside[0], inside[-1] + 1) if inside else (start, end)
    return edges


def maximise_iou(probabilities: NDArray[np.float64], lengths: NDArray[np.float64], spread: float) -> NDArray[np.bool_]:
    """(words,) which words to mark: the most probable ones, as many as make the expected intersection over union largest.

    Words of one answer err together: their log odds share a normal deviate of standard deviation `spread`, given which they
    are independent. The expected overlap of a set is approximated by expected intersection over expected union; that of the
    empty set is the probability that nothing is hallucinated. `probabilities` and `lengths` (in characters) are (words,).
    """
    if not len(probabilities):
        return np.zeros(0, np.bool_)
    p = np.clip(probabilities, 1e-4, 1 - 1e-4)
    # A logistic curve smoothed by a normal one is flatter (MacKay 1992): steeper odds keep each word's own probability.
    odds = np.log(p / (1 - p)) * np.sqrt(1 + np.pi / 8 * spread**2)
    conditional = 1 / (1 + np.exp(-odds - spread * _POINTS[:, None]))
    share = _WEIGHTS / _WEIGHTS.sum()
    order = np.argsort(-p, kind="stable")
    mass = conditional[:, order] * lengths[order]
    inside = np.cumsum(mass, axis=1)
    union = np.cumsum(lengths[order]) + mass.sum(1, keepdims=True) - inside
    expected = share @ (inside / union)
    best = int(np.argmax(expected))
    marked = np.zeros(len(p), np.bool_)
    if expected[best] >= share @ np.exp(_EMPTY * np.log1p(-conditional).sum(1)):
        marked[order[: best + 1]] = True
    return marked


# ------------------------------------------------------------------------------------------------------- the classifier
#
# Boosted trees, evaluated with numpy for all words and trees at once. Weights are kept in the safetensors layout (eight
# bytes of length, a JSON header, little-endian arrays), which needs no library to read and cannot run code.

TYPES = {"U8": np.uint8, "U16": np.uint16, "F16": np.float16}
LEAF = 255  # marks a leaf, in place of a column
FORMAT = "lexical-forest-4"
_CHUNK = 256  # words: their nodes in all trees fit into a core's cache


@dataclass(frozen=True)
class Forest:
    """The trained model, boosted regression trees: the sum of the leaves of a word is the log odds that it is hallucinated.

    Nodes of all trees stand in one array, a node's right child behind its left one. A leaf is its own left child and sends
    everything there, so that all trees can be walked `depth` steps.
    """

    depth: int  # steps from a root to the deepest leaf
    roots: NDArray[np.int32]  # (trees,) first node of each tree
    feature: NDArray[np.int32]  # (nodes,) column looked at
    split: NDArray[np.float32]  # (nodes,) words with a value of at most this go left; infinite in leaves
    left: NDArray[np.int32]  # (nodes,) left child
    value: NDArray[np.float32]  # (nodes,) what leaves add
    threshold: float  # probability above which a word is flagged
    spread: float  # see :func:`maximise_iou`
    feature_names: tuple[str, ...]  # columns, in order, the trees were trained on
    version: str  # of the bytes they were read from
    training: Mapping[str, Any]  # what they were trained on, for readers

    def sums(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) sums of the trees' values for words, from their (n, columns) features."""
        totals = np.empty(len(features))
        for start in range(0, len(features), _CHUNK):
            chunk = np.ascontiguousarray(features[start : start + _CHUNK])
            flat = chunk.ravel()
            rows = (np.arange(len(chunk), dtype=np.int32) * chunk.shape[1])[:, None]
            node = np.broadcast_to(self.roots, (len(chunk), len(self.roots)))
            for _ in range(self.depth):
                values = flat.take(self.feature.take(node) + rows)
                node = self.left.take(node) + (values > self.split.take(node))
            totals[start : start + _CHUNK] = self.value.take(node).sum(1, dtype=np.float64)
        return totals

    def probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) probabilities that each word is hallucinated, from its (n, columns) features."""
        return np.asarray(1 / (1 + np.exp(-self.sums(features))))


def from_bytes(data: bytes) -> Forest:
    """The forest of a weights file; ValueError where the bytes are not those of a forest. It has for all trees the columns
    (or `LEAF`) and the splits (or values) of their nodes, one tree after the other, each breadth first, and their sizes."""
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise ValueError(f"their format is {metadata['format']}, not {FORMAT}")
        body = memoryview(data)[8 + length :]
        arrays: dict[str, NDArray[Any]] = {}
        for name, entry in header.items():
            kind = np.dtype(TYPES[entry["dtype"]]).newbyteorder("<")
            arrays[name] = np.frombuffer(body[slice(*entry["data_offsets"])], kind).reshape(entry["shape"])
        feature, number, sizes = arrays["feature"], arrays["number"], arrays["nodes"].astype(np.int64)
        leaf = feature == LEAF
        splits = np.cumsum(~leaf) - ~leaf  # before each node
        roots = np.cumsum(sizes) - sizes
        root_of = np.repeat(roots, sizes)
        left = np.where(leaf, np.arange(len(leaf)), root_of + 2 * (splits - splits[root_of]) + 1)
        reached = np.zeros(len(leaf), np.int64)
        for node in np.flatnonzero(~leaf).tolist():
            reached[left[node] : left[node] + 2] = reached[node] + 1
        return Forest(
            depth=int(reached.max(initial=0)),
            roots=roots.astype(np.int32),
            feature=np.where(leaf, 0, feature).astype(np.int32),
            split=np.where(leaf, np.float32(np.inf), number).astype(np.float32),
            left=left.astype(np.int32),
            value=np.where(leaf, number, np.float32(0)).astype(np.float32),
            threshold=float(metadata["threshold"]),
            spread=float(metadata["spread"]),
            feature_names=tuple(metadata["features"].split(" ")),
            version=hashlib.sha256(data).hexdigest()[:12],
            training=json.loads(metadata["training"]),
        )
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not the weights of a lexical detector: {error}") from error
