"""A test that needs time, or that another Python leaves out, says why: in the mark, or in a comment beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

UNREASONED = re.compile(r"pytest\.mark\.(slow|one_python)\b(?!\((reason=)?[\"'][^\"'])[^#]*$")


@pytest.mark.one_python("the source of the tests")
def test_every_such_test_says_why() -> None:
    examples = [
        "@pytest.mark.slow",
        "@pytest.mark.slow()",
        "pytest.param(1, marks=pytest.mark.slow)",
        "@pytest.mark.slow('')",
    ]
    assert all(map(UNREASONED.search, examples))
    for file in Path(__file__).parent.rglob("*.py"):
        if file != Path(__file__):
            assert [line for line in file.read_text("utf-8").splitlines() if UNREASONED.search(line)] == [], file
