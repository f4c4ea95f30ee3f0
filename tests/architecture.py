"""The picture of rooms in ``ARCHITECTURE.md``, drawn from the imports of the code.

``python -m tests.architecture`` writes it anew, between two marks of the page. A room is a package at most two levels deep
(``lm_eval_tasks.clapnq``); it holds what lies below it. An arrow leads from a room to one that it imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.import_graph import PACKAGES, Import, between, modules, read

__all__ = ["BEGIN", "END", "PAGE", "drawn", "implied", "picture", "rooms", "table", "with_picture"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- picture of rooms: written by `python -m tests.architecture` -->"
END = "<!-- end of the picture -->"

Arrows = Mapping[tuple[str, str], list[Import]]


def rooms(root: Path, packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Every room's name to the first line of its docstring; a package stands before what is in it."""
    return {
        name: (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]
        for name, path in modules(root, packages).items()
        if path.name == "__init__.py" and name.count(".") < 2
    }


def implied(pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Of the arrows of a graph without a circle, those whose ends a longer way joins as well."""
    after: dict[str, set[str]] = {}
    for first, second in pairs:
        after.setdefault(first, set()).add(second)

    def reached(room: str) -> set[str]:
        return {far for near in after.get(room, ()) for far in (near, *reached(near))}

    return {
        (first, second)
        for first, targets in after.items()
        for second in targets
        if any(second in reached(near) for near in targets - {second})
    }


def _against(arrows: Arrows) -> set[tuple[str, str]]:
    """Arrows from the fewer to the more: the other direction between the same rooms has more imports."""
    return {(a, b) for (a, b), imports in arrows.items() if len(arrows.get((b, a), ())) > len(imports)}


def drawn(names: Iterable[str], arrows: Arrows) -> str:
    """A Mermaid flow chart: a box a room, in one frame a package.

    Arrows that a longer way implies are left out. An arrow against the direction is dotted, and names the importing files.
    """
    against = _against(arrows)
    forward = [pair for pair in sorted(arrows) if pair not in against]
    lines = ["flowchart TD"]
    for package in dict.fromkeys(name.partition(".")[0] for name in names):
        lines.append(f"  subgraph {package}_all[{package}]")
        lines += [f"    {_box(name)}" for name in names if name.partition(".")[0] == package]
        lines.append("  end")
    left_out = implied(forward)
    lines += [f"  {_id(first)} --> {_id(second)}" for first, second in forward if (first, second) not in left_out]
    for first, second in sorted(against):
        files = dict.fromkeys(f"{one.importer.rpartition('.')[2]}.py" for one in arrows[first, second])
        lines.append(f'  {_id(first)} -. "{", ".join(files)}" .-> {_id(second)}')
    return "\n".join(lines)


def _id(room: str) -> str:
    return room.replace(".", "_")


def _box(room: str) -> str:
    package, _, inner = room.partition(".")
    return f'{_id(room)}["{inner or f"{package}/*.py"}"]'


def table(described: Mapping[str, str], arrows: Arrows) -> str:
    """The same as text: a row a room, with what it is and every room that it imports."""
    lines = ["| room | what it is | imports |", "|---|---|---|"]
    for room, said in described.items():
        imported = ", ".join(f"`{second}`" for first, second in sorted(arrows) if first == room)
        lines.append(f"| `{room}` | {said.replace('``', '`').rstrip('.')} | {imported or 'none'} |")
    return "\n".join(lines)


def picture(root: Path) -> str:
    """What stands between the marks of the page."""
    described = rooms(root)
    arrows = between(read(root), described)
    return f"\n```mermaid\n{drawn([*described], arrows)}\n```\n\n{table(described, arrows)}\n"


def with_picture(page: str, drawing: str) -> str:
    """The page with what stands between its marks replaced.

    Raises:
        ValueError: the page lacks a mark.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN!r} with an {END!r} behind it")
    return f"{before}{begin}\n{drawing}\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_picture(PAGE.read_text("utf-8"), picture(ROOT)), "utf-8")
