"""The trained classifier: boosted trees, evaluated with numpy for all words and trees at once.

Weights are kept in the safetensors layout (eight bytes of length, a JSON header, little-endian arrays), which needs no
library to read and cannot run code.
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

__all__ = ["Forest", "from_bytes", "load", "to_bytes"]

_TYPES = {"U8": np.uint8, "U16": np.uint16, "I32": np.int32, "F32": np.float32}
_NAMES = {np.dtype(kind).newbyteorder("<"): name for name, kind in _TYPES.items()}
ASKED = "question_words"  # column: negative where there is no question
_CHUNK = 256  # words: their nodes in all trees fit into a core's cache


@dataclass(frozen=True)
class Forest:
    """Boosted regression trees; the log odds of a word are the sum of the leaves it ends in, calibrated.

    Nodes of all trees stand in one row, a node's right child behind its left one. A leaf is its own left child and sends
    everything there, so that all trees can be walked `depth` steps.

    Attributes:
        calibration: slope and offset of the log odds on the trees' sum (Platt scaling), of answers without and with a
            question.
        asked: column that tells whether there is a question: negative without.
        threshold: probability above which a word is flagged.
        spread: see :func:`detector_plugin.lexical.expected_overlap.most_overlap`.
        depth: steps from a root to the deepest leaf.
        roots: (trees,) first node of each tree.
        feature: (nodes,) column looked at.
        split: (nodes,) words with a value of at most this go left; infinite in leaves.
        left: (nodes,) left child.
        value: (nodes,) log odds added by leaves.
        feature_names: columns, in order, the trees were trained on.
        version: of the bytes they were read from.
        training: what they were trained on, for people.
    """

    calibration: tuple[tuple[float, float], tuple[float, float]]
    asked: int
    threshold: float
    spread: float
    depth: int
    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    split: NDArray[np.float32]
    left: NDArray[np.int32]
    value: NDArray[np.float32]
    feature_names: tuple[str, ...]
    version: str
    training: Mapping[str, Any]

    def log_odds(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) log odds that each word is hallucinated, from its (n, columns) features."""
        found = np.empty(len(features))
        for start in range(0, len(features), _CHUNK):
            chunk = np.ascontiguousarray(features[start : start + _CHUNK])
            flat = chunk.ravel()
            rows = (np.arange(len(chunk), dtype=np.int32) * chunk.shape[1])[:, None]
            node = np.broadcast_to(self.roots, (len(chunk), len(self.roots)))
            for _ in range(self.depth):
                looked_at = flat.take(self.feature.take(node) + rows)
                node = self.left.take(node) + (looked_at > self.split.take(node))
            found[start : start + _CHUNK] = self.value.take(node).sum(1, dtype=np.float64)
        slope, offset = np.array(self.calibration)[(features[:, self.asked] >= 0).astype(int)].T
        return np.asarray(found * slope + offset)

    def probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n,) probabilities that each word is hallucinated."""
        return np.asarray(1 / (1 + np.exp(-self.log_odds(features))))


def to_bytes(
    arrays: Mapping[str, NDArray[Any]],
    *,
    calibration: tuple[tuple[float, float], tuple[float, float]],
    threshold: float,
    spread: float,
    depth: int,
    names: tuple[str, ...],
    training: Any,
) -> bytes:
    """A forest as the bytes of a safetensors file; the same forest has the same bytes."""
    header: dict[str, Any] = {
        "__metadata__": {
            "format": "lexical-forest-2",
            "calibration": json.dumps(calibration),
            "threshold": repr(threshold),
            "spread": repr(spread),
            "depth": str(depth),
            "features": " ".join(names),
            "training": json.dumps(training, sort_keys=True),
        }
    }
    body = b""
    for name, array in sorted(arrays.items()):
        kind = array.dtype.newbyteorder("<")
        data = array.astype(kind).tobytes()
        header[name] = {
            "dtype": _NAMES[kind],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def from_bytes(data: bytes) -> Forest:
    """The forest that :func:`to_bytes` wrote.

    Raises:
        ValueError: these are no such bytes.
    """
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__")
        if metadata["format"] != "lexical-forest-2":
            raise ValueError(metadata["format"])
        body = memoryview(data)[8 + length :]
        arrays: dict[str, NDArray[Any]] = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            kind = np.dtype(_TYPES[entry["dtype"]]).newbyteorder("<")
            arrays[name] = np.frombuffer(body[start:end], kind).reshape(entry["shape"])
        sizes = arrays["nodes"].astype(np.int64)
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        leaf = arrays["left"] == 0  # no node's left child is its tree's root
        number = np.arange(len(leaf))
        offset = np.repeat(roots, sizes)
        number_or_value = arrays["number"].astype(np.float32)
        return Forest(
            calibration=(_pair(metadata, 0), _pair(metadata, 1)),
            asked=metadata["features"].split(" ").index(ASKED),
            threshold=float(metadata["threshold"]),
            spread=float(metadata["spread"]),
            depth=int(metadata["depth"]),
            roots=roots.astype(np.int32),
            feature=arrays["feature"].astype(np.int32),
            split=np.where(leaf, np.float32(np.inf), number_or_value).astype(np.float32),
            left=np.where(leaf, number, arrays["left"] + offset).astype(np.int32),
            value=np.where(leaf, number_or_value, np.float32(0)).astype(np.float32),
            feature_names=tuple(metadata["features"].split(" ")),
            version=hashlib.sha256(data).hexdigest()[:12],
            training=json.loads(metadata["training"]),
        )
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"not the weights of a lexical detector: {error}") from error


def _pair(metadata: Mapping[str, str], number: int) -> tuple[float, float]:
    slope, offset = json.loads(metadata["calibration"])[number]
    return float(slope), float(offset)


def load(path: Path) -> Forest:
    """The forest of a weights file.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds something else.
    """
    return from_bytes(path.read_bytes())
