"""No input ends a parser in another way than its documentation says, and none takes longer than its length allows."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.growth import exponent
from tests.parsers.parser import Parser
from tests.parsers.parsers import PARSERS

FEW, FEW_OF_COSTLY = 12, 4

LENGTH = 5_000  # characters, and eight times as many
AT_MOST = 1.65  # of the exponent: 1 is a linear parser, 2 one that squares


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
        max_examples=min(FEW_OF_COSTLY if parser.costly else FEW, settings.default.max_examples),
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(parser.inputs)
    def test(given_input: Any) -> None:
        feed(parser, given_input)

    test()


@pytest.mark.slow("it needs inputs that are long enough to take measurable time")
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in PARSERS for kind in PARSERS[name].growing])
def test_time_grows_no_faster_than_the_input(name: str, kind: str) -> None:
    parser = PARSERS[name]
    assert exponent(lambda given_input: feed(parser, given_input), parser.growing[kind], LENGTH) < AT_MOST
