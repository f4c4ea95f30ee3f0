"""ARCHITECTURE.md: the picture is that of the code, and every file has the names that the page says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture import PACKAGES, PAGE, updated
from tests.conftest import ROOT, command, run

TEXT = PAGE.read_text("utf-8")
LINK = re.compile(r"\]\(([^)#]+)")
NAME = re.compile(r"`([\w.]+)`")


def test_no_module_is_imported_in_a_circle() -> None:
    """`make lint` asks the same of packages beside each other; a package and what is in it are asked about here."""
    graph = pytest.importorskip("grimp").build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


@pytest.mark.one_python("what is imported")
def test_metrics_and_detectors_need_no_harness(tmp_path: Path) -> None:
    """`make lint` holds that only its room imports the harness; here, that nothing else finds another way to it."""
    code = (
        "import sys, pkgutil, importlib; sys.modules['lm_eval'] = None\n"
        "for package in ('custom_metrics', 'detector_plugin'):\n"
        "    for module in pkgutil.walk_packages([str(importlib.import_module(package).__path__[0])], package + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "assert not [name for name in sys.modules if name.startswith(('lm_eval.', 'lm_eval_tasks'))]\n"
    )
    run([sys.executable, "-c", code], tmp_path, fresh=True, LM_EVAL_GROUNDED_AUTOLOAD="0")


MODULES = """
import sys
from lm_eval_tasks.cli import main
status = main(["compare", *sys.argv[1:]])
ours = [name for name in sys.modules if name.split(".")[0] in ("custom_metrics", "detector_plugin", "lm_eval_tasks")]
others = "clapnq mfava making memerag mtrag mtragun mushroom ragtruth detection".split()
print(status, len(ours), [name for name in ours if name.split(".")[1:2] in [[other] for other in others]])
"""


@pytest.mark.one_python("what is imported")
@pytest.mark.slow("runs the harness twice")
def test_compare_of_two_runs_of_a_benchmark_loads_no_other(tmp_path: Path) -> None:
    for name in ("gpt-4-azure", "Mistral-7B-Instruct-v0.2"):
        stored = f"path={ROOT / 'lm_eval_tasks' / 'sample' / 'answers.jsonl'},model={name},name={name}"
        model = ["--model", "replay", "--model_args", stored, "--tasks", "nomiracl_de,nomiracl_sw"]
        options = ["--metadata", '{"mirror": "sample"}', "--log_samples", "--output_path", "runs"]
        run([command("lm_eval"), *model, *options], tmp_path)
    done = run([sys.executable, "-c", MODULES, *map(str, (tmp_path / "runs").iterdir())], tmp_path, fresh=True)
    status, number, others = done.stdout.splitlines()[-1].split(maxsplit=2)
    assert (status, others) == ("0", "[]")
    assert int(number) <= 68


def test_the_picture_is_current() -> None:
    pytest.importorskip("grimp")
    assert updated(TEXT) == TEXT, "run `python -m tests.architecture`"


def defines(text: str, name: str) -> bool:
    """Whether a file has a function, a class or a value of a name, or a key of YAML."""
    last = re.escape(name.rpartition(".")[2])
    return bool(re.search(rf"^\s*(?:(?:def|class) {last}\b|{last}\b[^=\n]*[:=])", text, re.M))


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
    assert len(rows) > 15
    for paths, names in rows:
        assert [path for path in paths if not path.exists()] == []
        texts = [path.read_text("utf-8") for path in paths if path.is_file()]
        assert [name for name in names if not any(defines(text, name) for text in texts)] == [], paths
