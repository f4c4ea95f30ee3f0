"""The phrase tables of abstention are compiled once a process. A mutant of what compiles them shows only where they are
compiled anew.

A plugin of pytest: where mutmut maps functions to tests, each test starts without compiled tables, so that it is mapped to
what compiles those that it reads, and its time holds that. `run.py` forgets them once for a mutant of these modules.
"""

from __future__ import annotations

import sys
from functools import _lru_cache_wrapper

MODULES = (
    *(
        f"custom_metrics/abstention/{name}.py"
        for name in (
            *("__init__", "explained", "folding", "labelled_parts", "matching", "patterns", "phrases"),
            *("sentence_reading", "sentence_splitting", "word_classes"),
        )
    ),
    "custom_metrics/reading/letter_pairs.py",
)
"""What compiled tables are made of, or hide."""


def forget() -> None:
    """Empty the caches of :data:`MODULES`."""
    for path in MODULES:
        module = sys.modules.get(path.removesuffix(".py").replace("/", "."))
        for cached in vars(module).values() if module else ():
            if isinstance(cached, _lru_cache_wrapper):
                cached.cache_clear()
    if folding := sys.modules.get("custom_metrics.abstention.folding"):
        for bounds in (*folding._LEFT.values(), *folding._RIGHT.values()):
            bounds.clear()


def pytest_runtest_setup() -> None:
    from mutmut.mutation.trampoline import get_mutant_under_test

    if get_mutant_under_test() == "stats":
        forget()
