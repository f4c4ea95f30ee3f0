"""ARCHITECTURE.md: the picture is that of the code, and every file has the names that the page says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture import BEGIN, END, PAGE, drawn, implied, picture, rooms, table, with_picture
from tests.conftest import ROOT
from tests.import_graph import Import

TEXT = PAGE.read_text("utf-8")
LINK = re.compile(r"\]\(([^)#]+)")
NAME = re.compile(r"`([\w.]+)`")


@pytest.mark.one_python("the picture in a page")
def test_the_picture_is_current() -> None:
    assert with_picture(TEXT, picture(ROOT)) == TEXT, "run `python -m tests.architecture`"


def test_every_package_is_a_room_of_the_page() -> None:
    for name, said in rooms(ROOT).items():
        assert f"| `{name}` | {said.replace('``', '`').rstrip('.')} |" in TEXT


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


# --------------------------------------------------------------------------------------------------- the drawing itself


def arrow(importer: str, imported: str) -> Import:
    return Import(importer, imported, 1, late=False)


def test_an_arrow_that_a_longer_way_implies_is_left_out() -> None:
    assert implied([("a", "b"), ("b", "c"), ("a", "c")]) == {("a", "c")}
    assert implied([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]) == {("a", "d")}
    assert implied([("a", "b"), ("a", "c")]) == set()


def test_an_arrow_against_the_direction_is_dotted_and_names_its_files() -> None:
    arrows = {
        ("p.a", "p"): [arrow("p.a", "p.x"), arrow("p.a.deep", "p.y")],
        ("p", "p.a"): [arrow("p.main", "p.a")],
    }
    assert drawn(["p", "p.a"], arrows).splitlines() == [
        "flowchart TD",
        "  subgraph p_all[p]",
        '    p["p/*.py"]',
        '    p_a["a"]',
        "  end",
        "  p_a --> p",
        '  p -. "main.py" .-> p_a',
    ]
    assert table({"p": "The ``p`` room.", "p.a": "Its part"}, arrows).splitlines()[2:] == [
        "| `p` | The `p` room | `p.a` |",
        "| `p.a` | Its part | `p` |",
    ]


def test_rooms_are_packages_of_two_levels(tmp_path: Path) -> None:
    for folder, said in (("p", "The whole."), ("p/a", "Its part.\n\nMore."), ("p/a/deep", "Too deep.")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").write_text(f'"""{said}\n"""\n', "utf-8")
    (tmp_path / "p" / "module.py").write_text('"""No room."""\n', "utf-8")
    assert rooms(tmp_path, ["p"]) == {"p": "The whole.", "p.a": "Its part."}


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    assert with_picture(f"before\n{BEGIN}\nold\n{END}\nafter", "new") == f"before\n{BEGIN}\nnew\n{END}\nafter"
    with pytest.raises(ValueError, match="the page has no"):
        with_picture(f"{END}\n{BEGIN}", "new")
