"""Register our tasks, models, filters and aggregations with plain `lm_eval`.

`lm_eval_grounded.pth`, one line in site-packages, runs at every start of Python, so it imports nothing: it puts a finder
on `sys.meta_path` that imports this module when `lm_eval` is imported, and does nothing else. This module then waits for
nine modules of the harness, and adds a part to each of them when it has run. A part goes when a change upstream has ended
it; the first two stand down by themselves where the harness has that change:

| part | what it does | ends with |
|---|---|---|
| `_REGISTRIES` | our models, filters, metrics and aggregations have names | PR 4013 and 4014 (merged, not released) |
| `_TASK_MANAGER` | `TaskManager` searches our folder, then the user's `--include_path` (stronger) | PR 4015 (open) |
| `extend_evaluation` | our aggregations bring their standard errors | the scorers of 0.5 |
| `extend_groups` | order of a group's rows, errors over shared passages, unweighted means | a `class:` for groups |
| `name_models` | models without weights have a name in results | a method of `LM` |
| `name_models` | the output folder is tried before the first request | a tracker that tries it when it is made |
| `check_prompts` | our tasks learn which model will answer, and count the prompts that it cuts | a hook in `evaluate` |
| `_COMMAND_LINE` | errors of the user take one line | an error class that the command line prints |

Where a file of the user's hides one of our packages (``python -m lm_eval`` looks in the working folder first), nothing is
registered, and one line says which file. So nothing of `custom_metrics` is imported here before that is known.

Off with ``LM_EVAL_GROUNDED_AUTOLOAD=0``; tasks found by ``--include_path`` then register what they need themselves
(:func:`register`). A harness that finds entry points by itself finds ours then, too.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from functools import cache, wraps
from importlib.metadata import distribution, version
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.harness import lacking, shorten_errors, unfit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Module to entry point group and registry. Our names are added after the module that registers the harness's own has run:
# the harness imports that module only while the registry is empty, so names of ours would keep it from being imported.
_REGISTRIES = {
    "lm_eval.models": ("lm_eval.models", "model_registry"),
    "lm_eval.filters": ("lm_eval.filters", "filter_registry"),
    "lm_eval.api.metrics": ("lm_eval.aggregations", "aggregation_registry"),
}
_TASK_MANAGER = "lm_eval.tasks.manager"
# Module to the function of lm_eval_tasks.harness.harness_results that changes it.
_RESULTS = {
    "lm_eval.evaluator": "check_prompts",
    "lm_eval.evaluator_utils": "extend_evaluation",
    "lm_eval.api.group": "extend_groups",
    "lm_eval.loggers.evaluation_tracker": "name_models",
}
_COMMAND_LINE = "lm_eval._cli.harness"
_WATCHED = frozenset((*_REGISTRIES, _TASK_MANAGER, *_RESULTS, _COMMAND_LINE))
_MARK = "_lm_eval_grounded"
_OLDEST = (0, 4, 13)  # older ones have other modules, so that nothing that is watched for would tell

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class _Finder:
    """A meta path finder that delegates to the other finders, and calls `_extend` after a watched module has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _WATCHED:
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _run_after(spec.loader)
                return spec
        return None


def _run_after(loader: Any) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        _extend(module)

    loader.exec_module = exec_module


def _extend(module: ModuleType) -> None:
    """Add our names to a watched module that has just run. A failure here must not break the harness."""
    if unfit:
        return
    try:
        if module.__name__ == _TASK_MANAGER:
            _add_tasks(module.TaskManager)
        elif module.__name__ in _RESULTS:
            from lm_eval_tasks.harness import harness_results

            if not hasattr(module, _MARK):  # once
                setattr(module, _MARK, True)
                getattr(harness_results, _RESULTS[module.__name__])(module)
        elif module.__name__ == _COMMAND_LINE:
            shorten_errors()
        else:
            _register(*_REGISTRIES[module.__name__])
    except Exception as error:
        unfit[:] = unfit or [lacking(f"what is needed of {module.__name__} ({error})")]
        log.warning("%s (tasks that are not of lm-eval-grounded run as ever)", unfit[0])
        log.debug("how %s differs", module.__name__, exc_info=True)


def _register(group: str, registry_name: str) -> None:
    from lm_eval.api import registry as registries

    if hasattr(registries, "import_plugins"):  # it came with PR 4013, for what has no entry points
        return
    registry, entries = getattr(registries, registry_name), distribution("lm-eval-grounded").entry_points
    for entry in entries.select(group=group):
        if entry.name not in registry:
            registry.register(entry.name, target=entry.value)
    if group == "lm_eval.aggregations":
        # Metrics register themselves, with their aggregation and direction, when their module is imported.
        for entry in entries.select(group="lm_eval.metrics"):
            if entry.name not in registries.metric_registry and entry.module not in sys.modules:
                entry.load()


def _add_tasks(task_manager: Any) -> None:
    init = task_manager.__init__
    form = signature(init)
    form.bind_partial(include_path=[], include_defaults=True)  # a TypeError where it has them no more

    @cache
    def finds_them() -> bool:  # by the entry point: without its own tasks, it reads those of packages alone
        return "grounded_lite" in task_manager(include_defaults=False).all_tasks

    @wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        call = form.bind(self, *args, **kwargs)
        call.apply_defaults()
        given = call.arguments.get("include_path")
        paths = [*given] if isinstance(given, (list, tuple)) else [given] if given else []
        others = [path for path in paths if os.path.realpath(path) != os.path.realpath(task_folder())]
        if call.arguments.get("include_defaults", True) or len(others) < len(paths):  # else none of ours are asked for
            paths = others if finds_them() else paths if len(others) < len(paths) else [task_folder(), *paths]
        call.arguments["include_path"] = paths
        init(*call.args, **call.kwargs)
        self.include_path = given

    task_manager.__init__ = __init__


def task_folder() -> str:
    """The folder with our tasks' YAML files, as `--include_path` takes it."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def register() -> None:
    """Register our models, filters and aggregations, once, with the harness's modules that are imported."""
    for name in (_REGISTRIES.keys() | _RESULTS.keys()) & sys.modules.keys():
        _extend(sys.modules[name])


def _hidden() -> str:
    """Which file hides one of our packages, and what to do; empty where none does."""
    for name in ("custom_metrics", "detector_plugin"):
        ours = os.path.join(os.path.dirname(task_folder()), name, "__init__.py")
        spec = find_spec(name)
        if spec is None or spec.origin is None or os.path.realpath(spec.origin) != os.path.realpath(ours):
            where = spec.origin if spec is not None and spec.origin else f"something in {os.getcwd()}"
            return (
                f"{where} hides the package {name} of lm-eval-grounded, so its tasks are missing: rename it, or start the "
                f"command in another folder"
            )
    return ""


def _refuse(reason: str) -> None:
    """Log why no task of ours can run, and end with that line where the harness then finds no task or model."""
    unfit.append(ImportError(reason))
    log.warning("%s", reason)
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if re.search("Tasks not found|is not a registered task|no model for this name", str(error)):
            print(f"lm_eval: error: {error}; {reason}", file=sys.stderr)  # noqa: T201 (the interpreter would print here)
        else:
            before(kind, error, trace)

    sys.excepthook = hook


def install() -> None:
    """Install the finder, once, and extend the harness's modules that are already imported."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if reason := _hidden():
        return _refuse(reason)
    sys.meta_path.insert(0, _Finder())
    if tuple(map(int, re.findall(r"\d+", version("lm_eval"))[:3])) < _OLDEST:
        unfit.append(lacking("tasks with figures of their own"))
        log.warning("%s", unfit[0])
        shorten_errors()
    if "lm_eval" in sys.modules:
        for name in _WATCHED & sys.modules.keys():
            _extend(sys.modules[name])


if os.environ.get("LM_EVAL_GROUNDED_AUTOLOAD", "1") != "0":
    install()
