"""Settings that a trained detector brings along: ``detector.json`` in its folder.

They are what the model was trained and measured with. Options of the user are stronger.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from detector_plugin.detector import UnusableDetector

__all__ = ["FILE", "Stored"]

FILE = "detector.json"


@dataclass(frozen=True)
class Stored:
    """The content of ``detector.json``; every part may be missing.

    Attributes:
        form: what the model reads, one of :data:`detector_plugin.transformers.forms.FORMS`.
        attention: of a decoder, ``bidirectional`` or ``causal``.
        threshold: a token is flagged from this probability on.
        max_length: of an input in tokens.
        labels: names of the classes in their order; an adapter has no ``config.json`` to hold them.
    """

    form: str | None = None
    attention: str | None = None
    threshold: float | None = None
    max_length: int | None = None
    labels: tuple[str, ...] | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any], name: str) -> Stored:
        """From the file's content; keys that are not known here are passed over.

        Raises:
            UnusableDetector: a value is of the wrong kind; `name` is the detector's, for the message.
        """
        kinds: dict[str, tuple[type, ...]] = {
            **{"form": (str,), "attention": (str,), "threshold": (float, int)},
            **{"max_length": (int,), "labels": (list,)},
        }
        found: dict[str, Any] = {}
        for key, known in kinds.items():
            value: Any = content.get(key)
            if value is None:
                continue
            if not isinstance(value, known) or isinstance(value, bool):
                raise UnusableDetector(f"detector {name}: {FILE} has {key}={value!r}, which is no {known[0].__name__}")
            found[key] = value
        if "labels" in found:
            found["labels"] = tuple(map(str, found["labels"]))
        return cls(**found)

    def write(self, folder: Path) -> None:
        """Write the file."""
        content = {key: value for key, value in asdict(self).items() if value is not None}
        (folder / FILE).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
