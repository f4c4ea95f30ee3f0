"""What a user gets from pip, in a fresh environment: plain `lm_eval` knows the tasks; uninstalling leaves nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, results_of, run
from tests.miniature import MINIATURE

pytestmark = pytest.mark.slow("installs the project twice, and starts a Python of its own for every fact")

MODES = {mode: pytest.param(mode, marks=pytest.mark.xdist_group(mode)) for mode in ("wheel", "editable")}
# Of the harness's 14,000 YAML files, only those of one task: reading them all takes 7 s.
QUICK = (
    "from lm_eval.tasks import TaskManager\n"
    "from lm_eval.tasks._index import TaskIndex\n"
    "files = TaskIndex._iter_yaml_files\n"
    "TaskIndex._iter_yaml_files = lambda root: files(root / 'hellaswag' if root.name == 'tasks' else root)\n"
)
RUN = f"{QUICK}from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
KNOWN = (
    "import lm_eval.api.metrics, lm_eval.filters, lm_eval.models\n"
    "from lm_eval.api.registry import aggregation_registry, filter_registry, model_registry\n"
    "from lm_eval.api import registry\n"
    "if hasattr(registry, 'get_metric'):\n"  # 0.4: one value of all
    "    metric, better = registry.get_metric('abstention'), registry.is_higher_better('abstention')\n"
    "else:\n"  # 0.5: a list of them
    "    registered = registry.metric_registry.get('abstention')\n"
    "    metric, better = lambda *a, **k: registered.fn(*a, **k)['abstention'][0], registered.higher_is_better\n"
    "print(metric([''], ['Keine Ahnung.'], language='de'), better)\n"
    "print([model_registry.get(m).__name__ for m in ('grounded-baseline', 'replay', 'dummy')],"
    " filter_registry.get('nomiracl_label').__name__, aggregation_registry.get('defined_share'),"
    " 'mean' in aggregation_registry, 'hf' in model_registry)"
)


class Environment:
    """A virtual environment with our dependencies, but without us."""

    def __init__(self, folder: Path, base: str | Path = sys.executable) -> None:
        subprocess.run([str(base), "-m", "venv", "--without-pip", "--symlinks", str(folder)], check=True)
        self.python = folder / "bin" / "python"
        self.site = Path(self.path("purelib"))
        # a plain path entry: packages are importable, but the .pth files beside them are not read
        (self.site / "dependencies.pth").write_text(self.path("purelib", base) + "\n")
        self.empty = folder / "empty"
        self.empty.mkdir()
        self.home = folder / "home"
        self.environment = {"PYTHONPATH": "", "HOME": str(self.home), "HF_HUB_OFFLINE": "1"}

    def path(self, name: str, python: str | Path = "") -> str:
        asked = [str(python or self.python), "-c", f"import sysconfig; print(sysconfig.get_path({name!r}))"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    def __call__(self, *arguments: str, **environment: str) -> str:
        done = run([str(self.python), *arguments], self.empty, **{**self.environment, **environment})
        return done.stdout

    def pip(self, *arguments: str) -> None:
        self("-m", "pip", *arguments, "--disable-pip-version-check", "-q")

    def files(self) -> set[str]:
        return {str(p.relative_to(self.site)) for p in self.site.rglob("*") if "__pycache__" not in p.parts}


@pytest.fixture(scope="module", params=MODES.values())
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    pytest.importorskip("hatchling", reason="building the project offline needs hatchling (extra dev)")
    environment = Environment(tmp_path_factory.mktemp(request.param))
    environment.before = environment.files()  # type: ignore[attr-defined]
    source = environment.empty.parent / "source"  # a copy: building must not write into the tree under test
    names = ["lm_eval_grounded", "lm_eval_tasks", "custom_metrics", "detector_plugin"]
    source.mkdir()
    for name in names:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    mode = ["-e"] if request.param == "editable" else []
    environment.pip("install", "--no-deps", "--no-build-isolation", *mode, str(source))
    return environment


@pytest.mark.parametrize("installed", [MODES["wheel"]], indirect=True)
def test_plain_lm_eval_lists_our_tasks_in_an_empty_folder(installed: Environment) -> None:
    listed = installed("-m", "lm_eval", "ls", "tasks")
    for name in ("nomiracl", "nomiracl_de", "nomiracl_zh_explanation", "clapnq_gold", "clapnq_rag", "hellaswag"):
        assert re.search(rf"^\|{name} *\|", listed, re.MULTILINE), name


def test_the_switch_hides_them(installed: Environment) -> None:
    code = f"{QUICK}m = TaskManager(); print(*('nomiracl_de' in m.all_tasks, 'hellaswag' in m.all_tasks))"
    assert installed("-c", code) == "True True\n"
    assert installed("-c", code, LM_EVAL_GROUNDED_AUTOLOAD="0") == "False True\n"


def test_models_filters_and_aggregations_are_registered_beside_the_harness_own(installed: Environment) -> None:
    printed = installed("-c", KNOWN)
    models = ["GroundedBaseline", "Replay", "DummyLM"]
    assert printed.splitlines() == ["1.0 False", f"{models} NomiraclLabel defined_share True True"]


def test_the_import_for_python_is_there_with_its_types_and_metrics(installed: Environment) -> None:
    code = (
        "import importlib.resources, lm_eval_grounded as g\n"
        "print(g.abstains('Keine Ahnung.', language='de'), (importlib.resources.files(g) / 'py.typed').is_file())\n"
        "import evaluate; rate = evaluate.load(g.evaluate_folder(), 'abstention_rate')\n"
        "print(rate.compute(predictions=['Paris'])['abstention_rate'])"
    )
    assert installed("-c", code) == "True True\n0.0\n"


def test_the_users_include_path_is_stronger(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("task: nomiracl_de\ndataset_path: mine\n")
    code = (
        f"{QUICK}m = TaskManager(include_path={str(tmp_path)!r})\n"
        "index = m.task_index if hasattr(m, 'task_index') else m._task_index\n"
        "print(index['nomiracl_de'].yaml_path.name, index['nomiracl_en'].yaml_path.name, m.include_path)"
    )
    assert installed("-c", code) == f"mine.yaml nomiracl_en.yaml {tmp_path}\n"


def test_starting_python_costs_next_to_nothing(installed: Environment) -> None:
    code = "import sys; print(sorted(m for m in sys.modules if 'lm_eval' in m))"
    done = run([str(installed.python), "-X", "importtime", "-c", code], installed.empty, **installed.environment)
    assert done.stdout == "[]\n"
    assert not re.search("lm_eval_tasks|custom_metrics|detector_plugin", done.stderr)
    # The line registers a finder, which looks at the names of modules alone.
    assert len((installed.site / "lm_eval_grounded.pth").read_text("utf-8")) < 1000


def test_a_hook_that_cannot_start_does_not_break_the_harness(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "lm_eval_tasks").mkdir()  # a folder of the user's that hides our package
    (tmp_path / "lm_eval_tasks" / "__init__.py").touch()
    code = "import sys; sys.path.insert(0, '.'); import lm_eval; print(lm_eval.__name__)"
    done = run([str(installed.python), "-c", code], tmp_path, **installed.environment)
    assert done.stdout == "lm_eval\n"
    assert "lm-eval-grounded could not start, its tasks are missing" in done.stderr
    assert f"(found: {tmp_path / 'lm_eval_tasks' / '__init__.py'})" in done.stderr


@pytest.mark.parametrize("name", ["custom_metrics.py", "detector_plugin/__init__.py"])
def test_a_file_of_the_users_that_hides_a_package_is_named(installed: Environment, tmp_path: Path, name: str) -> None:
    """Under ``python -m``, which looks in the working folder first: once at the start, and where the task is missing."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    package = name.partition("/")[0].removesuffix(".py")
    line = (
        f"{tmp_path / name} hides the package {package} of lm-eval-grounded, so its tasks are missing: rename it, or start "
        f"the command in another folder"
    )
    asked = [str(installed.python), "-m", "lm_eval", "--model", "grounded-baseline", "--tasks", "nomiracl_de"]
    done = run(asked, tmp_path, check=False, **installed.environment)
    assert done.returncode == 1
    first, last = done.stderr.splitlines()[0], done.stderr.splitlines()[-1]  # 0.5 looks for the model before the task
    assert first == line
    assert last.startswith("lm_eval: error: ")
    assert last.endswith(f"; {line}")
    assert "Tasks not found: nomiracl_de" in last or "no model for this name" in last
    assert "Traceback" not in done.stderr


def test_the_package_is_a_folder_for_include_path(installed: Environment) -> None:
    folder = installed("-c", "import lm_eval_tasks; print(lm_eval_tasks.__path__[0])").strip()
    code = (  # without the hook, the tasks bring their filters and aggregations along
        "from lm_eval import simple_evaluate\n"
        "from lm_eval.tasks import TaskManager\n"
        f"m = TaskManager(include_path={folder!r}, include_defaults=False, metadata=dict(mirror='sample'))\n"
        "r = simple_evaluate('dummy', tasks=['nomiracl_de', 'clapnq_rag'], task_manager=m, bootstrap_iters=0)\n"
        "print(r['results']['nomiracl_de']['invalid_rate,strict'], r['results']['clapnq_rag']['length,answer'])"
    )
    assert installed("-c", code, LM_EVAL_GROUNDED_AUTOLOAD="0").splitlines()[-1] == "1.0 3.0"


@pytest.mark.parametrize("installed", [MODES["wheel"]], indirect=True)
def test_two_runs_at_once_do_not_disturb_each_other(installed: Environment, tmp_path: Path) -> None:
    """The same task, the same cold cache, at the same time."""
    command = [
        *(str(installed.python), "-c", RUN, "--model", "grounded-baseline", "--model_args", "strategy=lexical"),
        *("--tasks", "nomiracl_de,clapnq_rag", "--metadata", '{"mirror": "sample"}', "--log_samples", "--output_path"),
    ]
    environment = {**os.environ, **installed.environment, "LM_EVAL_GROUNDED_CACHE": str(tmp_path / "cache")}
    quiet: dict[str, Any] = {"cwd": installed.empty, "env": environment, "stdout": -3, "stderr": -3}
    runs = [subprocess.Popen([*command, str(tmp_path / name)], **quiet) for name in ("a", "b")]
    assert [process.wait(timeout=600) for process in runs] == [0, 0]
    a, b = (results_of(tmp_path / name)["results"] for name in ("a", "b"))
    assert a == b


def test_the_command_line_of_the_distribution_is_there(installed: Environment) -> None:
    done = run([str(installed.python.with_name("lm-eval-grounded")), "sources", "--mirror", MINIATURE], installed.empty)
    assert re.fullmatch(r"\d+ differs; (\d+ missing; )?\d+ readable", done.stdout.splitlines()[-1])


def test_uninstalling_leaves_nothing(installed: Environment) -> None:
    """Last in the file: the environment is empty afterwards."""
    installed.pip("uninstall", "-y", "lm-eval-grounded")
    assert installed.files() == installed.before  # type: ignore[attr-defined]
    assert not installed.python.with_name("lm-eval-grounded").exists()
    assert installed("-c", "import sys; print([f for f in sys.meta_path if 'Grounded' in str(f)])") == "[]\n"
