"""Who imports whom: no circle, one direction between the rooms, and nothing heavy before it is used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.import_graph import PACKAGES, Import, between, circles, edges, imports_of, modules, read

MODULES = modules(ROOT)

pytestmark = pytest.mark.xdist_group("import graph")


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    """Of the whole project."""
    return read(ROOT)


AT_THE_TOP = {"lm_eval", "numpy", "rapidfuzz", "tqdm", "yaml"}
"""What other packages a module may import when it is imported itself. All else is imported where it is used: extras such as
torch, transformers, vllm, sentence-transformers, peft and matplotlib, and what is slow to import, such as datasets."""


def test_no_module_is_imported_in_a_circle(imports: list[Import]) -> None:
    """Imports within functions count, too."""
    assert circles(edges(imports, MODULES)) == []


def test_the_rooms_import_in_one_direction(imports: list[Import]) -> None:
    found = {pair: [f"{one.importer}:{one.line}" for one in many] for pair, many in between(imports, PACKAGES).items()}
    allowed = {(room, other) for at, room in enumerate(PACKAGES) for other in PACKAGES[at + 1 :]}
    assert {pair: where for pair, where in found.items() if pair not in allowed} == {}
    assert found.keys() == allowed


def test_the_project_imports_nothing_of_its_tests(imports: list[Import]) -> None:
    assert [one for one in imports if one.imported.split(".")[0] == "tests"] == []


def test_the_interface_of_detectors_imports_no_detector(imports: list[Import]) -> None:
    graph = edges(imports, MODULES)
    assert {name for name in graph["detector_plugin.detector"] if name.startswith("detector_plugin")} == set()
    assert [name for name in graph["detector_plugin.loading"] if name.startswith("detector_plugin.")] == [
        "detector_plugin.detector",
        "detector_plugin.transformers",  # what no package has a name for is a model of the hub
    ]
    assert [name for name in graph["lm_eval_tasks.clapnq.retrieval.retriever"] if "retrieval" in name] == []


def test_nothing_heavy_is_imported_at_the_top(imports: list[Import]) -> None:
    known = {*PACKAGES, *sys.stdlib_module_names, *AT_THE_TOP}
    early = [one for one in imports if not one.late and one.imported.split(".")[0] not in known]
    assert [f"{one.importer}:{one.line} imports {one.imported}" for one in early] == []


def test_what_may_be_imported_at_the_top_is_needed_there(imports: list[Import]) -> None:
    used = {one.imported.split(".")[0] for one in imports if not one.late}
    assert used >= AT_THE_TOP


def test_every_module_is_read(imports: list[Import]) -> None:
    assert {
        "lm_eval_tasks",
        "lm_eval_tasks.cli",
        "detector_plugin.lexical",
        "custom_metrics.reading.spans",
    } <= MODULES.keys()
    assert len(imports) > 500
    assert {one.importer for one in imports} <= MODULES.keys()


# --------------------------------------------------------------------------------------------------- the reader itself

SOURCE = """
from __future__ import annotations
import json, a.b.c as c
from a import b, name
from . import sibling
from .deep import thing
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from a import only_typed
else:
    from a import untyped
try:
    import fast
except ImportError:
    import slow
class C:
    import in_a_class
    def method(self):
        import in_a_method
lazily = lambda: __import__("never seen")
async def later():
    def inner():
        from ..above import x
"""


@pytest.mark.parametrize("package", [False, True])
def test_imports_are_found_where_they_stand(package: bool) -> None:
    known = {"a", "a.b", "a.untyped", "p.q.sibling", "p.q.r.sibling"}
    found = list(imports_of("p.q.r", SOURCE, known, package))
    here = "p.q.r" if package else "p.q"
    assert [one.imported for one in found if not one.late] == [
        *("__future__", "json", "a.b.c", "a.b", "a", f"{here}.sibling", f"{here}.deep", "typing"),
        *("a.untyped", "fast", "slow", "in_a_class"),
    ]
    assert [one.imported for one in found if one.late] == ["in_a_method", "p.q.above" if package else "p.above"]
    assert found[1] == Import("p.q.r", "json", 3, late=False)


def test_circles_are_found_whole() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []
    assert circles({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"], "f": ["a"]}) == [
        ["a", "b", "c"],
        ["d", "e"],
    ]
    assert circles({"a": ["a"]}) == [["a"]]
    diamond = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
    assert circles(diamond) == []
    assert circles({**diamond, "d": ["b"]}) == [["b", "d"]]


def test_modules_of_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "room" / "sub").mkdir(parents=True)
    (tmp_path / "room" / "__init__.py").write_text("from room.sub import x\n")
    (tmp_path / "room" / "sub" / "__init__.py").write_text("from .deep import x\n")
    (tmp_path / "room" / "sub" / "deep.py").write_text("def f():\n    import room\nx = 1\n")
    assert [*modules(tmp_path, ["room"])] == ["room", "room.sub", "room.sub.deep"]
    found = read(tmp_path, ["room"])
    assert edges(found, modules(tmp_path, ["room"])) == {
        "room": ["room.sub"],
        "room.sub": ["room.sub.deep"],
        "room.sub.deep": ["room"],
    }
    assert circles(edges(found, modules(tmp_path, ["room"]))) == [["room", "room.sub", "room.sub.deep"]]
    assert [*between(found, ["room", "room.sub"])] == [("room", "room.sub"), ("room.sub", "room")]
