"""The picture of rooms in ``ARCHITECTURE.md``, drawn from the imports of the code.

``python -m tests.architecture`` writes it anew, between two marks of the page. A room is a package at most two levels deep
(``lm_eval_tasks.clapnq``); it holds what lies below it. An arrow leads from a room to one that it imports. Which arrows are
allowed stands in ``pyproject.toml`` (``tool.importlinter``).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
PACKAGES = ("lm_eval_grounded", "lm_eval_tasks", "detector_plugin", "custom_metrics")
BEGIN = "<!-- picture of rooms: written by `python -m tests.architecture` -->"
END = "<!-- end of the picture -->"

Arrows = Mapping[tuple[str, str], list[str]]
"""(importing room, imported room) to the importing modules, one entry for each import."""


def rooms() -> dict[str, str]:
    """Every room's name to the first line of its docstring; a package stands before what is in it."""
    described = {}
    for package in PACKAGES:
        for file in (ROOT / package / "__init__.py", *sorted((ROOT / package).glob("*/__init__.py"))):
            name = ".".join(file.parent.relative_to(ROOT).parts)
            described[name] = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]
    return described


def arrows(names: Iterable[str]) -> Arrows:
    """The imports between rooms, those within functions too; what is imported for type checkers alone is left out."""
    import grimp

    by_depth = sorted(names, key=lambda name: -name.count("."))
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    room_of = {
        module: next(name for name in by_depth if f"{module}.".startswith(f"{name}.")) for module in graph.modules
    }
    found = defaultdict(list)
    for module in sorted(graph.modules):
        for imported in graph.find_modules_directly_imported_by(module):
            if room_of[module] != room_of[imported]:
                found[room_of[module], room_of[imported]].append(module)
    return found


def redundant(pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Of the arrows of a graph without a cycle, those whose ends a longer path joins as well."""
    targets: dict[str, set[str]] = defaultdict(set)
    for first, second in pairs:
        targets[first].add(second)

    def reachable(room: str) -> set[str]:
        return {far for near in targets.get(room, ()) for far in (near, *reachable(near))}

    return {
        (first, second)
        for first in list(targets)
        for second in targets[first]
        if any(second in reachable(near) for near in targets[first] - {second})
    }


def chart(names: Iterable[str], imports: Arrows) -> str:
    """A Mermaid flow chart: a box a room, in one frame a package.

    Redundant arrows are left out. Where two rooms import each other, the arrow of the fewer imports is dotted, and names
    the importing files.
    """
    backward = {pair for pair, modules in imports.items() if len(imports.get(pair[::-1], ())) > len(modules)}
    forward = imports.keys() - backward
    lines = ["flowchart TD"]
    for package in dict.fromkeys(name.partition(".")[0] for name in names):
        lines.append(f"  subgraph {package}_all[{package}]")
        lines += [f"    {_box(name)}" for name in names if name.partition(".")[0] == package]
        lines.append("  end")
    lines += [f"  {_id(first)} --> {_id(second)}" for first, second in sorted(forward - redundant(forward))]
    for first, second in sorted(backward):
        files = dict.fromkeys(f"{module.rpartition('.')[2]}.py" for module in imports[first, second])
        lines.append(f'  {_id(first)} -. "{", ".join(files)}" .-> {_id(second)}')
    return "\n".join(lines)


def _id(room: str) -> str:
    return room.replace(".", "_")


def _box(room: str) -> str:
    package, _, inner = room.partition(".")
    return f'{_id(room)}["{inner or f"{package}/*.py"}"]'


def table(described: Mapping[str, str], imports: Arrows) -> str:
    """The same as text: a row a room, with what it is and every room that it imports."""
    lines = ["| room | what it is | imports |", "|---|---|---|"]
    for room, description in described.items():
        imported = ", ".join(f"`{second}`" for first, second in sorted(imports) if first == room)
        lines.append(f"| `{room}` | {description.replace('``', '`').rstrip('.')} | {imported or 'none'} |")
    return "\n".join(lines)


def picture() -> str:
    """What stands between the marks of the page."""
    described = rooms()
    imports = arrows(described)
    return f"\n```mermaid\n{chart([*described], imports)}\n```\n\n{table(described, imports)}\n"


def updated(page: str) -> str:
    """The page with the picture of the code as it is."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{picture()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")
