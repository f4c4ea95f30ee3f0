"""Linear and quadratic time are told apart."""

from __future__ import annotations

from tests.growth import exponent


def test_linear_and_quadratic_work_are_told_apart() -> None:
    assert 0.6 < exponent(lambda n: sum(range(n)), lambda n: n, 2_000) < 1.5
    assert 1.5 < exponent(lambda n: sum(1 for _ in range(n) for _ in range(n)), lambda n: n, 40) < 2.6
