"""How the processor time of a function grows with its input: what a test of linear time asks, on any processor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

LINEAR = 1.5
"""What a test allows for linear time."""

_LEAST = 0.005
"""Seconds that one measurement takes at least, by repetition: below, the clock's steps and the caches are what is seen."""


def exponent(function: Callable[[Any], Any], of_size: Callable[[int], Any], size: int, times: int = 8) -> float:
    """``e`` where time grows as ``size ** e``: 1 is linear, 2 quadratic; measured from ``size`` to ``times * size``.

    It is the ratio of two processor times of this process, each the least of five, so that neither the processor nor what
    else the machine does is in it. A test allows 1.5 for linear time. What is more is measured again, twice: processes that
    share a processor's caches may spoil a measurement, not three.
    """
    found = math.inf
    for _ in range(3):
        small, large = (_least(function, of_size(n)) for n in (size, times * size))
        found = min(found, math.log(large / small, times))
        if found < LINEAR:
            break
    return found


def _least(function: Callable[[Any], Any], given: Any) -> float:
    """Seconds of processor time of one call."""
    function(given)
    calls, best = 1, math.inf
    for _ in range(5):
        while True:
            start = time.process_time()
            for _ in range(calls):
                function(given)
            took = time.process_time() - start
            if took >= _LEAST:
                break
            calls *= 2
        best = min(best, took / calls)
    return best
