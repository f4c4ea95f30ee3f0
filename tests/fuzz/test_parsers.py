"""No input ends a parser in another way than its documentation says, and none takes longer than its length allows.

``make fuzz`` tries 100,000 inputs of each (``FUZZ=1000000`` for more); the fast tests try a few.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import time
from collections.abc import Callable, Iterator
from math import ceil
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.changes import changed
from tests.fuzz.parsers import PARSERS, Parser

INPUTS = int(os.environ.get("FUZZ", "0"))  # of each parser; 0: a few
FEW, FEW_OF_COSTLY = 60, 25
CHANGES = 49  # of each input that is drawn, where there are many: they cost a hundredth of it
FEW_CHANGES = 4

LONGEST = 400_000  # characters
ENOUGH = 0.02  # seconds of CPU time: less says more about the clock than about the parser
FACTOR, AT_MOST = 4, 10.0  # four times the input may take ten times as long; a parser that squares takes sixteen


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Parsers warn of what they pass over; nobody reads 100,000 warnings."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def fuzz_test(parser: Parser, changes: int = CHANGES if INPUTS else FEW_CHANGES) -> Callable[[], None]:
    """The property test of a parser: so many inputs in all, each drawn one with some changes of it."""
    few = min(FEW_OF_COSTLY if parser.costly else FEW, settings.default.max_examples)  # fewer on another Python

    @settings(
        deadline=None,
        max_examples=ceil((INPUTS or few) / (1 + changes)),
        database=None,
        derandomize=not INPUTS,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.data())
    def test(data: st.DataObject) -> None:
        drawn = data.draw(parser.inputs)
        read(parser, drawn)
        if changes:
            random = Random(data.draw(st.integers(0, 2**32)))
            for _ in range(changes):
                read(parser, changed(drawn, random))

    return test


def read(parser: Parser, given_input: Any) -> None:
    """Feed an input; what ends the parser is reported with the input."""
    try:
        with contextlib.suppress(*parser.refuses):
            parser.read(given_input)
    except Exception as error:
        error.add_note(f"The input was {given_input!r}") if hasattr(error, "add_note") else print(repr(given_input))
        raise


@pytest.mark.parametrize("name", PARSERS)
def test_no_input_ends_a_parser(name: str) -> None:
    fuzz_test(PARSERS[name])()


def seconds(read: Callable[[Any], None], parser: Parser, given_input: Any, tries: int = 3) -> float:
    """CPU time of the fastest try."""
    took = []
    gc.disable()  # a collection costs what the tests before have left in memory
    try:
        for _ in range(tries):
            began = time.process_time()
            with contextlib.suppress(*parser.refuses):
                read(given_input)
            took.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(took)


@pytest.mark.slow  # it needs inputs that are long enough to take measurable time
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, parser in PARSERS.items() for kind in parser.growing]
)
def test_time_grows_no_faster_than_the_input(name: str, kind: str) -> None:
    check_growth(name, PARSERS[name], kind)


def check_growth(name: str, parser: Parser, kind: str) -> None:
    make = parser.growing[kind]
    length = 250
    seconds(parser.read, parser, make(10), 1)  # what is loaded once
    while (short := seconds(parser.read, parser, make(length), 1)) < ENOUGH and length < LONGEST / FACTOR:
        length *= 2
    for _ in range(3):  # a machine with other work may spoil a measurement, not three
        short = max(seconds(parser.read, parser, make(length)), 1e-4)
        long = seconds(parser.read, parser, make(FACTOR * length))
        if long <= AT_MOST * max(short, ENOUGH / FACTOR):
            return
    raise AssertionError(
        f"{name}: {length} characters of {kind!r} take {short:.3f} s, {FACTOR} times as many {long:.3f} s"
    )


@pytest.mark.slow("pairs of thousands of characters are counted one by one")
def test_a_parser_that_squares_is_found() -> None:
    """The measure itself: pairs of characters are counted, one by one."""
    careless = Parser(
        lambda text: sum(a == b for a in text for b in text), st.just(""), growing={"a": lambda n: "a" * n}
    )
    with pytest.raises(AssertionError, match="4 times as many"):
        check_growth("careless", careless, "a")
