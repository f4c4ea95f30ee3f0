"""The picture of rooms in ``ARCHITECTURE.md``, drawn from the imports of the code.

``python -m tests.architecture`` writes it anew, between two marks of the page. A room is a package at most two levels deep
(``lm_eval_tasks.runs``); it holds what lies below it. All benchmarks are one room. An arrow leads from a room to one it
imports. Which arrows are allowed stands in ``pyproject.toml`` (``tool.importlinter``).
"""

from __future__ import annotations

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

BENCHMARKS = "lm_eval_tasks.benchmarks"


def rooms() -> list[str]:
    """The names of all rooms; a package stands before what is in it."""
    folders = [
        file.parent
        for package in PACKAGES
        for file in (ROOT / package / "__init__.py", *sorted((ROOT / package).glob("*/__init__.py")))
    ]
    names = [".".join(f.relative_to(ROOT).parts) for f in folders if not (f / "benchmark.py").exists()]
    return [*names, BENCHMARKS]


def arrows(names: Iterable[str]) -> Arrows:
    """The imports between rooms, those within functions too; what is imported for type checkers alone is left out."""
    import grimp

    benchmarks = [f"lm_eval_tasks.{table.parent.name}" for table in (ROOT / "lm_eval_tasks").glob("*/benchmark.py")]
    by_depth = sorted([*names, *benchmarks], key=lambda name: -name.count("."))
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    room_of = {}
    for module in graph.modules:
        room = next(name for name in by_depth if f"{module}.".startswith(f"{name}."))
        room_of[module] = BENCHMARKS if room in benchmarks else room
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
    """A Mermaid flow chart: a box a room, in one frame a package, named by its place in the list to keep the page short.

    Redundant arrows are left out. Where two rooms import each other, the arrow of the fewer imports is dotted.
    """
    number = {name: f"r{place}" for place, name in enumerate(names)}
    backward = {pair for pair, modules in imports.items() if len(imports.get(pair[::-1], ())) > len(modules)}
    forward = imports.keys() - backward
    lines = ["flowchart TD"]
    for package in dict.fromkeys(name.partition(".")[0] for name in number):
        lines.append(f"  subgraph {package}")
        inside = [name for name in number if name.partition(".")[0] == package]
        lines += [f'    {number[name]}["{name.partition(".")[2] or f"{package}/*.py"}"]' for name in inside]
        lines.append("  end")
    targets: dict[str, list[str]] = defaultdict(list)
    for first, second in sorted(forward - redundant(forward)):
        targets[first].append(number[second])
    lines += [f"  {number[first]} --> {' & '.join(seconds)}" for first, seconds in targets.items()]
    lines += [f"  {number[first]} -.-> {number[second]}" for first, second in sorted(backward)]
    return "\n".join(lines)


def picture() -> str:
    """What stands between the marks of the page."""
    names = rooms()
    return f"\n```mermaid\n{chart(names, arrows(names))}\n```\n"


def updated(page: str) -> str:
    """The page with the picture of the code as it is."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{picture()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")
