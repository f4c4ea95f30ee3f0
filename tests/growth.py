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

    It is the ratio of two processor times of this process, each the least of five that are taken in turn, so that neither
    the processor nor what else the machine does is in it. A test allows 1.5 for linear time. What is more is measured on,
    ten times: processes that share a processor's caches may spoil some measurements, not all.
    """
    given = [of_size(n) for n in (size, times * size)]
    calls = [_calls(function, one) for one in given]
    best = [math.inf, math.inf]
    for round_ in range(15):
        for place, one in enumerate(given):
            best[place] = min(best[place], _seconds(function, one, calls[place]))
        if round_ >= 4 and math.log(best[1] / best[0], times) < LINEAR:
            break
    return math.log(best[1] / best[0], times)


def _calls(function: Callable[[Any], Any], given: Any) -> int:
    """How many calls take long enough to be measured."""
    calls = 1
    function(given)
    while _seconds(function, given, calls) * calls < _LEAST:
        calls *= 2
    return calls


def _seconds(function: Callable[[Any], Any], given: Any, calls: int) -> float:
    """Processor time of one call."""
    start = time.process_time()
    for _ in range(calls):
        function(given)
    return (time.process_time() - start) / calls
