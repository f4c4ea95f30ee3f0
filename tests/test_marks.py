"""A test that needs time, or that another Python leaves out, says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MARKS = {"slow", "one_python"}


def without_reason(source: str) -> Iterator[int]:
    """Lines of :data:`MARKS` with neither a reason as the argument, nor one in a comment on the same line."""
    lines = source.splitlines()
    reasons = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _is_marked(node.func):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if given and all(
                isinstance(a, ast.Constant) and isinstance(a.value, str) and a.value.strip() for a in given
            ):
                reasons.add((node.func.lineno, node.func.col_offset))
    for node in ast.walk(ast.parse(source)):
        if _is_marked(node) and (node.lineno, node.col_offset) not in reasons:  # type: ignore[attr-defined]
            comment = lines[node.lineno - 1].partition("#")[2]  # type: ignore[attr-defined]
            if not comment.strip():
                yield node.lineno  # type: ignore[attr-defined]


def _is_marked(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in MARKS and ast.unparse(node) == f"pytest.mark.{node.attr}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("@pytest.mark.slow\ndef test_x(): ...", [1]),
        ("@pytest.mark.slow()\ndef test_x(): ...", [1]),
        ("@pytest.mark.one_python\ndef test_x(): ...", [1]),
        ("@pytest.mark.one_python('the source')\ndef test_x(): ...", []),
        ("@pytest.mark.slow('')\ndef test_x(): ...", [1]),
        ("@pytest.mark.slow('trains a model')\ndef test_x(): ...", []),
        ("@pytest.mark.slow(reason='trains a model')\ndef test_x(): ...", []),
        ("@pytest.mark.slow  # trains a model\ndef test_x(): ...", []),
        ("pytestmark = [\n  pytest.mark.slow,\n  pytest.mark.vllm,\n]", [2]),
        ("pytestmark = [pytest.mark.slow('starts a browser'), pytest.mark.vllm]", []),
        ("x = pytest.param(1, marks=pytest.mark.slow)", [1]),
    ],
)
def test_a_mark_without_a_reason_is_found(source: str, lines: list[int]) -> None:
    assert list(without_reason(source)) == lines


@pytest.mark.one_python("the source of the tests")
def test_every_such_test_says_why() -> None:
    found = {file.name: list(without_reason(file.read_text("utf-8"))) for file in TESTS.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}
