"""What the harness does again in every run, done once a process or not at all.

These take most of a run of a few documents: parsing the 14,000 YAML files of its tasks some 7 s (here it has one task),
describing the machine (``pip list``, the compiler, the graphics card) 1 s, and 1.3 ms a document for the same template,
compiled anew. None of it depends on the run. Tests of the start itself use processes without this.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any


def remember() -> None:
    """Index, templates and description are those of the first run from now on; again does nothing."""
    from lm_eval import utils
    from lm_eval.tasks._index import TaskIndex

    if hasattr(utils, "env") and not hasattr(utils.env.from_string, "cache_clear"):  # 0.5 remembers templates
        utils.env.from_string = cache(utils.env.from_string)  # type: ignore[method-assign]
    if not hasattr(TaskIndex.build, "forget"):
        TaskIndex.build = staticmethod(_remembering(TaskIndex.build))  # type: ignore[method-assign]
    try:
        from torch.utils import collect_env
    except ImportError:
        return
    collect_env.get_pretty_env_info = lambda: "not asked"


def with_json(arguments: list[str]) -> list[str]:
    """A command whose ``--metadata name=value ...`` is JSON, where the installed harness reads nothing else (0.5)."""
    if "--metadata" not in arguments or not json_alone():
        return arguments
    from lm_eval._cli.utils import key_val_to_dict

    start = end = arguments.index("--metadata") + 1
    given: dict[str, Any] = {}
    while end < len(arguments) and "=" in arguments[end] and arguments[end][0] not in "-{":
        given |= key_val_to_dict(arguments[end])
        end += 1
    return [*arguments[:start], json.dumps(given), *arguments[end:]] if given else arguments


@cache
def json_alone() -> bool:
    """Whether the installed harness reads ``--metadata`` as JSON and in no other form."""
    from lm_eval._cli.harness import HarnessCLI

    (run,) = (each.choices["run"] for each in HarnessCLI()._parser._actions if each.choices)
    return run._option_string_actions["--metadata"].type is json.loads


def _remembering(build: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """``TaskIndex.build`` that reads one task of the harness's, and ours, only once; another folder it reads every time."""
    import lm_eval.tasks

    from lm_eval_tasks.harness.autoload import task_folder

    theirs = Path(lm_eval.tasks.__file__).parent
    lasting = {theirs: theirs / "hellaswag", Path(task_folder()): Path(task_folder())}
    known: dict[tuple[Path, bool], dict[str, Any]] = {}

    def remembering(paths: Iterable[Path], *, resolve_includes: bool = True) -> dict[str, Any]:
        index: dict[str, Any] = {}
        for path in paths:
            key = (path, resolve_includes)
            if path not in lasting:
                found = build([path], resolve_includes=resolve_includes)
            elif key in known:
                found = known[key]
            else:
                found = known[key] = build([lasting[path]], resolve_includes=resolve_includes)
            for name in index.keys() & found.keys():
                logging.getLogger("lm_eval.tasks._index").warning(
                    "Task '%s' from %s overrides existing task from %s",
                    name,
                    found[name].yaml_path,
                    index[name].yaml_path,
                )
            index |= found
        return index

    remembering.forget = known.clear  # type: ignore[attr-defined]
    return remembering
