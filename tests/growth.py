"""How the processor time of a function grows with its input: what a test of linear time asks, on any processor."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

LINEAR = 1.5
"""What a test allows for linear time."""


def exponent(function: Callable[[Any], Any], of_size: Callable[[int], Any], size: int, times: int = 8) -> float:
    """``e`` where time grows as ``size ** e``: 1 is linear, 2 quadratic; measured from ``size`` to ``times * size``.

    It is the ratio of two processor times of this process, each the least of five that are taken in turn, so that neither
    the processor nor what else the machine does is in it. What is more than :data:`LINEAR` is measured on, ten times:
    processes that share a processor's caches may spoil some measurements, not all.
    """
    given = [of_size(n) for n in (size, times * size)]
    best = [math.inf, math.inf]
    for turn in range(15):
        for place, one in enumerate(given):
            calls, start = 0, time.process_time()
            while (seconds := time.process_time() - start) < 0.005:  # below, the clock's steps are what is seen
                function(one)
                calls += 1
            best[place] = min(best[place], seconds / calls)
        if turn >= 4 and math.log(best[1] / best[0], times) < LINEAR:
            break
    return math.log(best[1] / best[0], times)


def calls(function: Callable[[], Any]) -> int:
    """How many functions a call of it calls in all, of Python and of C: the same on any processor, however busy."""
    number = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return number
