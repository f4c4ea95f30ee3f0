"""The engines, by the name that the option ``engine`` gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from custom_metrics.usage.options import known_instead, misspelt
from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.engines.engine import Engine
from detector_plugin.transformers.engines.runner import Runner
from detector_plugin.transformers.engines.server import Server
from detector_plugin.transformers.engines.vllm import VLLM
from detector_plugin.transformers.options import one_of

__all__ = ["ENGINES", "engine_of"]

ENGINES: Mapping[str, type[Engine]] = {"transformers": Runner, "vllm": VLLM, "server": Server}
"""Each is a class with the methods of :class:`detector_plugin.transformers.engines.engine.Engine`. A new engine is a
line here."""


def engine_of(detector: str, name: str, options: Mapping[str, Any], ours: list[str]) -> type[Engine]:
    """The engine of a name.

    Args:
        detector: its name, for messages.
        name: of the engine.
        options: that are not the detector's own.
        ours: the detector's own, for the message.

    Raises:
        UnusableDetector: there is no such engine, or it has no such option.
    """
    one_of("engine", name, tuple(ENGINES))
    engine = ENGINES[name]
    known = sorted([*ours, *(engine.OPTIONS or ())])
    for option in sorted(options.keys() - (engine.OPTIONS or ())):
        if engine.OPTIONS is not None:
            raise UnusableDetector(f"detector {detector}: no option {option!r}{known_instead(option, known)}")
        if meant := misspelt(option, known):
            raise UnusableDetector(f"detector {detector}: no option {option!r}; did you mean {meant!r}?")
    return engine
