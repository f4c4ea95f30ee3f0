"""Which module of the project imports which, read from the source; nothing is imported to know.

An edge leads to the module that is named: ``from package import module`` to the module, ``from package import name`` to the
package's ``__init__``. That importing a module also runs the ``__init__`` of the packages above it is no edge.
``if TYPE_CHECKING:`` does not run and makes no edge; an import within a function makes one that is ``late``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["PACKAGES", "Import", "between", "circles", "edges", "imports_of", "modules", "read"]

PACKAGES = ("lm_eval_tasks", "detector_plugin", "custom_metrics")
"""The rooms, each of which may import those after it."""


class Import(NamedTuple):
    """One import statement's edge.

    Attributes:
        importer: dotted name of the module that imports.
        imported: dotted name of what is imported: a module of the project, or any other as it is spelt.
        line: where.
        late: whether it stands within a function.
    """

    importer: str
    imported: str
    line: int
    late: bool


def modules(root: Path, packages: Iterable[str] = PACKAGES) -> dict[str, Path]:
    """Dotted name to file of every module below a folder's packages; a package's is that of its ``__init__``."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, source: str, known: Collection[str], package: bool = False) -> Iterator[Import]:
    """What a module imports, in the order of its lines.

    Args:
        name: of the module.
        source: its text.
        known: names of all modules of the project: ``from a import b`` leads to ``a.b`` where that is one of them.
        package: whether it is an ``__init__``, which relative imports count from.
    """
    for node, late in _running(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, alias.name, node.lineno, late)
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".")[: len(name.split(".")) - node.level + package] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for target in dict.fromkeys(
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names
            ):
                yield Import(name, target, node.lineno, late)


def _running(node: ast.AST, late: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node that runs, and whether only when a function is called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other, late
                yield from _running(other, late)
            continue
        inside = late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield child, inside
        yield from _running(child, inside)


def read(root: Path, packages: Iterable[str] = PACKAGES) -> list[Import]:
    """Every import of every module below a folder's packages."""
    known = modules(root, packages)
    return [
        found
        for name, path in known.items()
        for found in imports_of(name, path.read_text("utf-8"), known, path.name == "__init__.py")
    ]


def edges(imports: Iterable[Import], known: Collection[str]) -> dict[str, list[str]]:
    """Module to the modules of the project that it imports, each once."""
    found: dict[str, dict[str, None]] = {name: {} for name in known}
    for one in imports:
        if one.imported in found and one.imported != one.importer:
            found[one.importer][one.imported] = None
    return {name: list(targets) for name, targets in found.items()}


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Groups of modules that can each be reached from each other (Tarjan 1972), sorted; none where there is no circle."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_.append(module)
        for target in graph.get(module, ()):
            if target not in number:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in open_:
                lowest[module] = min(lowest[module], number[target])
        if lowest[module] == number[module]:
            at = open_.index(module)
            group = open_[at:]
            del open_[at:]
            if len(group) > 1 or module in graph.get(module, ()):
                found.append(sorted(group))

    for module in graph:
        if module not in number:
            visit(module)
    return sorted(found)


def between(imports: Iterable[Import], rooms: Iterable[str]) -> dict[tuple[str, str], list[Import]]:
    """(importing room, imported room) to the imports that lead from one to the other.

    Args:
        imports: of :func:`read`.
        rooms: packages of any depth; a module belongs to the deepest that holds it.
    """
    by_depth = sorted(rooms, key=lambda room: -room.count("."))

    def room_of(module: str) -> str | None:
        return next((room for room in by_depth if f"{module}.".startswith(f"{room}.")), None)

    found: dict[tuple[str, str], list[Import]] = {}
    for one in imports:
        ends = room_of(one.importer), room_of(one.imported)
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            found.setdefault((ends[0], ends[1]), []).append(one)
    return found
