"""No input ends a parser in another way than its documentation says, and none takes longer than its length allows.

``make fuzz`` tries 100,000 inputs of each (``FUZZ=1000000`` for more); the fast tests try a few.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.parser import Parser, times
from tests.fuzz.parsers import PARSERS

INPUTS = int(os.environ.get("FUZZ", "0"))  # of each parser; 0: a few
FEW, FEW_OF_COSTLY = 40, 15

LONGEST = 400_000  # characters
ENOUGH = 0.02  # seconds of CPU time: less says more about the clock than about the parser
FACTOR, AT_MOST = 4, 10.0  # four times the input may take ten times as long; a parser that squares takes sixteen


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Parsers warn of what they pass over; nobody reads 100,000 warnings."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def feed(parser: Parser, given_input: Any) -> None:
    """Feed an input; the errors that the parser's documentation names are an answer, too."""
    with contextlib.suppress(*parser.refuses):
        parser.read(given_input)


@pytest.mark.parametrize("name", PARSERS)
def test_no_input_ends_a_parser(name: str) -> None:
    parser = PARSERS[name]

    @settings(
        deadline=None,
        max_examples=INPUTS or min(FEW_OF_COSTLY if parser.costly else FEW, settings.default.max_examples),
        database=None,
        derandomize=not INPUTS,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(parser.inputs)
    def test(given_input: Any) -> None:
        feed(parser, given_input)

    test()


def seconds(parser: Parser, given_input: Any, tries: int = 3) -> float:
    """CPU time of the fastest try."""
    took = []
    gc.disable()  # a collection costs what the tests before have left in memory
    try:
        for _ in range(tries):
            began = time.process_time()
            feed(parser, given_input)
            took.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(took)


@pytest.mark.slow("it needs inputs that are long enough to take measurable time")
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in PARSERS for kind in PARSERS[name].growing])
def test_time_grows_no_faster_than_the_input(name: str, kind: str) -> None:
    check_growth(PARSERS[name], kind)


def check_growth(parser: Parser, kind: str) -> None:
    make = parser.growing[kind]
    length = 250
    seconds(parser, make(10), 1)  # what is loaded once
    while (short := seconds(parser, make(length), 1)) < ENOUGH and length < LONGEST / FACTOR:
        length *= 2
    for _ in range(3):  # a machine with other work may spoil a measurement, not three
        short = max(seconds(parser, make(length)), 1e-4)
        long = seconds(parser, make(FACTOR * length))
        if long <= AT_MOST * max(short, ENOUGH / FACTOR):
            return
    raise AssertionError(f"{length} characters take {short:.3f} s, {FACTOR} times as many {long:.3f} s")


@pytest.mark.slow("pairs of thousands of characters are counted one by one")
def test_a_parser_that_squares_is_found() -> None:
    careless = Parser(lambda text: sum(a == b for a in text for b in text), st.just(""), growing=times("a"))
    with pytest.raises(AssertionError, match="4 times as many"):
        check_growth(careless, "a")
