"""A package of somebody else's, with detectors and retrievers: a distribution that the tests put on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MODULE = '''
"""What the package of somebody else holds."""
import re
from custom_metrics.reading.spans import Span

LOADED = []

class Shouting:
    """Flags long words that begin with a capital."""
    name, version, licence = "shouting", "7", "MIT"

    def __init__(self, least=2, device="cpu"):
        if not isinstance(least, int):
            raise ValueError(f"least is a number of letters, got {least!r}")
        LOADED.append((least, device))
        self.least, self.device = least, device

    def detect(self, references, answers, languages, questions=None):
        capitalised = [
            [word for word in re.finditer("[^ ]+", answer) if word[0][0].isupper() and len(word[0]) >= self.least]
            for answer in answers
        ]
        return [[Span(*word.span(), "entity") for word in those] for those in capitalised]

def check_model(model=None):
    if model is None:
        raise ValueError("model=NAME is missing")

def served(model=None, **options):
    """A function that makes detectors, with both hooks."""
    detector = Shouting()
    detector.name = f"served:{model}"
    return detector

served.check = check_model
served.calibrated_name = lambda options: f"served:{options.get('model')}"

def misnamed():
    return Shouting()

def unprefixed():
    return Shouting()
unprefixed.calibrated_name = lambda options: "lexical"

def nothing():
    return object()

A_NUMBER = 7

def needs_a_library():
    import no_such_library

class ByLength:
    """Ranks the longest passage first, whatever is asked."""
    name = "length"

    def __init__(self, corpus, options):
        if options.get("order", "longest") not in ("longest", "shortest"):
            raise ValueError(f"order is longest or shortest, got {options['order']!r}")
        self.sign = -1 if options.get("order") == "shortest" else 1
        self.corpus, self.options = corpus, options

    def describe(self):
        return {"order": self.options.get("order", "longest")}

    def search(self, questions, k):
        texts = self.corpus.contents(0, len(self.corpus))
        scored = sorted(zip(self.corpus.ids, map(len, texts)), key=lambda one: -self.sign * one[1])
        return [[(id, self.sign * length) for id, length in scored[:k]] for _ in questions]

class Wrong(ByLength):
    def search(self, questions, k):
        (first, *_), = super().search(questions[:1], k)
        rankings = {
            "unknown": [("no-such-passage", 1.0)], "twice": [first, first], "rising": [first, ("p001", 10.0**9)],
            "infinite": [("p001", float("nan"))],
        }
        return [rankings[self.options["how"]]] * len(questions) if self.options["how"] != "few" else []

class Dumb(ByLength):
    def describe(self):
        return {"model": object()}
'''

DETECTORS = """
[lm_eval_grounded.detectors]
shouting = somebodys_module:Shouting
served = somebodys_module:served
misnamed = somebodys_module:misnamed
unprefixed = somebodys_module:unprefixed
nothing = somebodys_module:nothing
number = somebodys_module:A_NUMBER
library = somebodys_module:needs_a_library
absent = somebodys_module:Absent
broken = somebodys_broken_module:Detector
org/model = somebodys_module:Shouting
"""
RETRIEVER_POINTS = """
[lm_eval_grounded.retrievers]
length = somebodys_module:ByLength
wrong = somebodys_module:Wrong
dumb = somebodys_module:Dumb
nothing = somebodys_module:nothing
"""

Package = Callable[..., Path]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Puts a distribution of a name, with entry points, on the path."""
    from detector_plugin.loading import check_detector

    def put(name: str, points: str) -> Path:
        site = tmp_path / f"site of {name}"
        info = site / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n", "utf-8")
        (info / "entry_points.txt").write_text(points, "utf-8")
        (site / "somebodys_module.py").write_text(MODULE, "utf-8")
        (site / "somebodys_broken_module.py").write_text("raise RuntimeError('no such device\\nand more')\n", "utf-8")
        monkeypatch.syspath_prepend(str(site))
        return site

    yield put
    for module in ("somebodys_module", "somebodys_broken_module"):
        sys.modules.pop(module, None)
    check_detector.cache_clear()


@pytest.fixture
def theirs(package: Package) -> Path:
    return package("somebodys-package", DETECTORS + RETRIEVER_POINTS)


def loaded() -> list[Any]:
    found: list[Any] = sys.modules["somebodys_module"].LOADED
    return found
