"""What the tests share: the shared material where it is there, the harness in this process and as a subprocess."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environment import harness_start
from tests.environment.started import Started
from tests.miniature import MINIATURE_FOLDER
from tests.somebodys_package import package, theirs  # noqa: F401
from tests.tiny_models import llama, llama_classifier, lookup, minilm, tiny_encoder, tiny_models  # noqa: F401

PLUGINS = "shared_once judged report_runs browser marking_tab chat_endpoint"
pytest_plugins = [f"tests.{name}" for name in PLUGINS.split()]

# Before anything imports huggingface_hub, which reads them once.
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # the figures expected are of float32; a GPU computes in bfloat16
if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the processors. Threads of torch that wait for each other there take most of the time. Read once, too.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # in the environment of vLLM
    pass
else:  # how long an example takes is the machine's matter
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")
    # The developers' Python tries more examples; budgets of tests are multiples of this one.
    settings.register_profile("another Python", parent=settings.get_profile("any machine"), max_examples=25)

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public data and reference material beside the project."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared (public data beside the project), which is not here")
    return SHARED


@pytest.fixture(scope="session")
def hub(shared: Path) -> str:
    """A mirror of real public data."""
    return str(shared / "hub")


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A copy of the bundled sample, to be damaged."""
    return Path(shutil.copytree(MINIATURE_FOLDER, tmp_path / "mirror"))


_started: list[Started] = []  # what runs the commands of this session


@pytest.fixture(scope="session", autouse=True)
def _own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No mirror but the one a test names, and a cache that no other run shares."""
    from tests.shared_once import session_folder  # a plugin, which pytest imports first

    os.environ.pop("LM_EVAL_GROUNDED_MIRROR", None)
    os.environ["LM_EVAL_GROUNDED_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    _started.append(Started(dict(os.environ), session_folder(tmp_path_factory)))
    yield
    _started.clear()


@pytest.fixture(autouse=True)
def _own_environment(_own_world: None) -> Iterator[None]:
    """What a test or a command in this process sets, the next one does not see: a changed environment ends the forks."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def evaluate(tasks: list[str], model: str, model_args: str = "", **options: Any) -> dict[str, Any]:
    """One harness run in this process over our tasks only; ``metadata`` as on the command line."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.harness.autoload import task_folder

    harness_start.remember()
    paths = [task_folder(), *options.pop("include_path", [])]
    manager = TaskManager(include_path=paths, include_defaults=False, metadata=options.pop("metadata", {}))
    results: dict[str, Any] = simple_evaluate(model, model_args, tasks, task_manager=manager, **options)
    return results


def loaded_tasks(names: Iterable[str], **metadata: Any) -> dict[str, Any]:
    """Our tasks by name, as the harness makes them."""
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.harness.autoload import task_folder

    manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata=metadata)
    tasks: dict[str, Any] = manager.load([*names])["tasks"]
    return tasks


Harness = Callable[..., dict[str, Any]]
"""A run of the harness in this process (:func:`evaluate`)."""


@pytest.fixture(scope="session")
def harness() -> Harness:
    return evaluate


def command(name: str) -> str:
    """A console script of the environment that runs the tests."""
    return str(Path(sys.executable).with_name(name))


def run(
    arguments: list[str], cwd: Path, check: bool = True, fresh: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A process in a folder of its own; its output is shown where it fails.

    A command of the harness, or ours, is a fork of a Python that has started (``tests.environment.started``), unless its
    environment asks for a start of its own, or ``fresh`` does.
    """
    arguments = harness_start.with_json(arguments)
    variables = {**os.environ, **environment}
    (started,) = _started
    if not fresh and started.can(arguments, variables):
        done = started(arguments, cwd, variables, timeout=600)
    else:
        how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 600, "check": False}
        done = subprocess.run(arguments, cwd=cwd, env=variables, **how)
    if check and done.returncode:
        raise AssertionError(f"{arguments} exited {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done


def results_of(folder: Path) -> dict[str, Any]:
    """The results file of the one run below a folder."""
    (file,) = folder.rglob("results_*.json")
    results: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return results


def figures_of(results: dict[str, Any], task: str) -> dict[str, Any]:
    """What stands beside the metrics of a task with one filter: name to value, bounds, standard error and denominator."""
    (figures,) = results["configs"][task]["metadata"]["figures"].values()
    found: dict[str, Any] = figures
    return found


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if part := os.environ.get("TESTS_PART"):  # "0/2": the first half of the files
        number, parts = map(int, part.split("/"))
        halves: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            halves[zlib.crc32(item.path.name.encode()) % parts == number].append(item)
        config.hook.pytest_deselected(items=halves[False])
        items[:] = halves[True]
    if not getattr(config.option, "loadgroup", False):
        return
    # No worker ends with a long test while the others have none.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    # xdist 3.8 writes the group behind the node's id, in `_nodeid`. pytest keeps the id in `_id` from 9.2 on: there a
    # group's tests would go to any worker, and each worker would make what they share.
    for item in items:
        grouped = getattr(item, "_nodeid", item.nodeid)
        if grouped != item.nodeid:
            from _pytest.nodeid import coerce_node_id

            item._id = coerce_node_id(grouped)


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what collection left behind: a tenth of the tests' time went into looking at it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
