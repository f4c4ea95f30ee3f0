"""The trained classifier: boosted trees, evaluated with numpy for all words and trees at once.

Weights are kept in the safetensors layout (eight bytes of length, a JSON header, little-endian arrays), which needs no
library to read and cannot run code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"U8": np.uint8, "U16": np.uint16, "F16": np.float16}
LEAF = 255
"""Marks a leaf, in place of a column."""
FORMAT = "lexical-forest-4"
_CHUNK = 256  # words: their nodes in all trees fit into a core's cache


@dataclass(frozen=True)
class Trees:
    """Boosted regression trees. Their value for a word is the sum of the leaves that it ends in.

    Nodes of all trees stand in one array, a node's right child behind its left one. A leaf is its own left child and sends
    everything there, so that all trees can be walked `depth` steps.
    """

    depth: int  # steps from a root to the deepest leaf
    roots: NDArray[np.int32]  # (trees,) first node of each tree
    feature: NDArray[np.int32]  # (nodes,) column looked at
    split: NDArray[np.float32]  # (nodes,) words with a value of at most this go left; infinite in leaves
    left: NDArray[np.int32]  # (nodes,) left child
    value: NDArray[np.float32]  # (nodes,) what leaves add

    @classmethod
    def from_nodes(cls, feature: NDArray[np.uint8], number: NDArray[np.float16], sizes: NDArray[np.int64]) -> Trees:
        """Trees from the columns (or `LEAF`) and the splits (or values) of their nodes, one tree after the other, each
        breadth first, and their numbers of nodes; ValueError where these are not trees."""
        leaf = feature == LEAF
        splits = np.concatenate([[0], np.cumsum(~leaf)])  # before each node
        roots = np.cumsum(sizes) - sizes
        if (2 * (splits[roots + sizes] - splits[roots]) + 1 != sizes).any():
            raise ValueError("they hold a tree whose splits have not two children each")
        root_of = np.repeat(roots, sizes)
        left = np.where(leaf, np.arange(len(leaf)), root_of + 2 * (splits[:-1] - splits[root_of]) + 1)
        reached = np.zeros(len(leaf), np.int64)
        for node in range(len(leaf)):
            if not leaf[node]:
                reached[left[node] : left[node] + 2] = reached[node] + 1
        return cls(
            depth=int(reached.max(initial=0)),
            roots=roots.astype(np.int32),
            feature=np.where(leaf, 0, feature).astype(np.int32),
            split=np.where(leaf, np.float32(np.inf), number).astype(np.float32),
            left=left.astype(np.int32),
            value=np.where(leaf, number, np.float32(0)).astype(np.float32),
        )

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


@dataclass(frozen=True)
class Forest:
    """The trained model. The sums of its trees are the log odds that words are hallucinated."""

    trees: Trees
    threshold: float  # probability above which a word is flagged
    spread: float  # see :func:`detector_plugin.lexical.maximise_iou`
    feature_names: tuple[str, ...]  # columns, in order, the trees were trained on
    version: str  # of the bytes they were read from
    training: Mapping[str, Any]  # what they were trained on, for readers

    def probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) probabilities that each word is hallucinated, from its (n, columns) features."""
        return np.asarray(1 / (1 + np.exp(-self.trees.sums(features))))


def from_bytes(data: bytes) -> Forest:
    """The forest of a weights file; ValueError where the bytes are not those of a forest."""
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise ValueError(f"their format is {metadata['format']}, not {FORMAT}")
        body = memoryview(data)[8 + length :]
        arrays: dict[str, NDArray[Any]] = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            kind = np.dtype(TYPES[entry["dtype"]]).newbyteorder("<")
            arrays[name] = np.frombuffer(body[start:end], kind).reshape(entry["shape"])
        names = tuple(metadata["features"].split(" "))
        sizes = arrays["nodes"].astype(np.int64)
        if not len(arrays["feature"]) == len(arrays["number"]) == sizes.sum():
            raise ValueError("they do not hold the trees that they name")
        if (arrays["feature"] >= len(names))[arrays["feature"] != LEAF].any():
            raise ValueError("they look at columns that they do not name")
        return Forest(
            trees=Trees.from_nodes(arrays["feature"], arrays["number"], sizes),
            threshold=float(metadata["threshold"]),
            spread=float(metadata["spread"]),
            feature_names=names,
            version=hashlib.sha256(data).hexdigest()[:12],
            training=json.loads(metadata["training"]),
        )
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not the weights of a lexical detector: {error}") from error
