"""ARCHITECTURE.md: the picture is that of the code, and every file has the names that the page says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture import PACKAGES, PAGE, chart, redundant, rooms, updated
from tests.conftest import ROOT

TEXT = PAGE.read_text("utf-8")
LINK = re.compile(r"\]\(([^)#]+)")
NAME = re.compile(r"`([\w.]+)`")


def test_no_module_is_imported_in_a_circle() -> None:
    """`make lint` asks the same of packages beside each other; a package and what is in it are asked about here."""
    graph = pytest.importorskip("grimp").build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


def test_the_picture_is_current() -> None:
    pytest.importorskip("grimp")
    assert updated(TEXT) == TEXT, "run `python -m tests.architecture`"


def test_every_package_is_a_room_of_the_page() -> None:
    for name, description in rooms().items():
        assert f"| `{name}` | {description.replace('``', '`').rstrip('.')} |" in TEXT


def test_the_chart_leaves_out_redundant_arrows_and_dots_those_against_the_direction() -> None:
    assert redundant([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c")]) == {("a", "c"), ("a", "d")}
    assert redundant([("a", "b"), ("a", "c")]) == set()
    assert chart(["p", "p.a"], {("p.a", "p"): ["p.a", "p.a.deep"], ("p", "p.a"): ["p.main"]}).splitlines()[1:] == [
        "  subgraph p_all[p]",
        '    p["p/*.py"]',
        '    p_a["a"]',
        "  end",
        "  p_a --> p",
        '  p -. "main.py" .-> p_a',
    ]


def defined(source: str) -> set[str]:
    """Names at the top of a module, and those of its classes as ``Class.name``; names that it imports count too."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(before + node.name)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{before}{node.name}.")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(
                    before + each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
                )
            elif isinstance(node, ast.ImportFrom):
                found.update(before + (alias.asname or alias.name) for alias in node.names)

    visit(ast.parse(source).body, "")
    return found


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("| ").split(" | ")]


def named() -> Iterator[tuple[list[Path], list[str]]]:
    """The files and the names of each row of the tables whose last columns are `file` and `name`."""
    inside = False
    for line in TEXT.splitlines():
        inside = line.startswith("|") and (inside or line.endswith("| file | name |"))
        if inside and "](" in line:
            *_, files, names = cells(line)
            assert re.fullmatch(r"`[\w.]+`(, `[\w.]+`)*", names), line
            yield [ROOT / path for path in LINK.findall(files)], NAME.findall(names)


def test_every_name_is_in_a_file_of_its_row() -> None:
    rows = list(named())
    assert len(rows) > 40
    for paths, names in rows:
        assert [path for path in paths if not path.exists()] == []
        found = set().union(*(defined(path.read_text("utf-8")) for path in paths if path.suffix == ".py"))
        yaml = "".join(path.read_text("utf-8") for path in paths if path.is_file() and path.suffix != ".py")
        assert [name for name in names if name not in found and f"{name}:" not in yaml] == [], paths
