"""A command in a fork of a Python that has started is what it is in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import command
from tests.environment.started import BARE, Started

PROGRAM = """
import atexit, os, sys, threading, time
atexit.register(print, "at the end", file=sys.stderr)
print(__name__, sys.argv[1:], os.getcwd(), os.environ["LM_EVAL_GROUNDED_X"], sys.stdin.read(), sys.stdout.isatty())
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
{end}
"""
ENDS = {
    "returns": "pass",
    "a status": "sys.exit(3)",
    "a text": "sys.exit('no such thing')",
    "an error": "raise ValueError('no such thing')",
    "a hook": "sys.excepthook = lambda *_: print('hooked', file=sys.stderr); raise ValueError('x')",
}


@pytest.mark.parametrize("as_module", [True, False], ids=["module", "script"])
@pytest.mark.parametrize("end", ENDS)
def test_it_ends_and_says_what_a_process_of_its_own_does(
    end: str, as_module: bool, started: Started, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(end=ENDS[end]), "utf-8")
    called = [sys.executable, "-m", "program"] if as_module else [str(tmp_path / "program.py")]
    environment = {**os.environ, "LM_EVAL_GROUNDED_X": "y"}
    python = called if as_module else [sys.executable, *called]
    own = subprocess.run(
        [*python, "a", "b"], cwd=tmp_path, env=environment, capture_output=True, text=True, stdin=-3, check=False
    )
    done = started([*called, "a", "b"], tmp_path, environment, timeout=60)
    assert (done.returncode, done.stdout) == (own.returncode, own.stdout)
    assert "thread" in done.stdout
    # The traceback has the frames of the start.
    assert [line for line in done.stderr.splitlines() if not line.startswith(" ")] == [
        line for line in own.stderr.splitlines() if not line.startswith(" ")
    ]


def test_one_that_does_not_end_is_killed(started: Started, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import time; time.sleep(3600)", "utf-8")
    done = started([sys.executable, "-m", "program"], tmp_path, dict(os.environ), timeout=1)
    assert done.returncode == -signal.SIGKILL


def test_what_one_command_does_is_not_seen_by_the_next(started: Started, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import lm_eval; print(lm_eval.__dict__.get('mark')); lm_eval.mark = 1", "utf-8"
    )
    said = [started([sys.executable, "-m", "program"], tmp_path, dict(os.environ), timeout=60).stdout for _ in range(2)]
    assert said == ["None\n", "None\n"]


def test_workers_of_a_session_share_one_start(started: Started, tmp_path: Path) -> None:
    """The one that started it may end first: then the others still have theirs, and a new one starts its own."""
    (tmp_path / "program.py").write_text("import os; print(os.getppid())", "utf-8")
    program = [sys.executable, "-m", "program"]

    def parent(worker: Started) -> str:
        return worker(program, tmp_path, dict(os.environ), timeout=60).stdout

    first, second, third = (Started(dict(os.environ), tmp_path, BARE) for _ in range(3))
    assert parent(first) == parent(first) != parent(second) == parent(second)  # each worker has a fork, which forks
    assert first.process is not None
    assert second.process is None
    address = Path((tmp_path / "started.address").read_text("utf-8"))
    assert address.exists()
    first.end()
    assert not address.parent.exists()
    assert parent(second) == parent(second)
    assert len({parent(second), parent(third)}) == 2
    assert third.process is not None
    second.end()
    third.end()


@pytest.mark.parametrize(
    ("arguments", "environment", "takes"),
    [
        (["lm_eval", "--model", "x"], {}, True),
        (["lm_eval", "--model", "x"], {"LM_EVAL_GROUNDED_CACHE": "/x"}, True),
        (["lm_eval", "--model", "x"], {"LM_EVAL_GROUNDED_AUTOLOAD": "0"}, False),
        (["lm_eval", "--model", "x"], {"HF_ENDPOINT": "http://127.0.0.1:1"}, False),
        (["lm_eval", "--model", "vllm"], {}, False),
        (["lm-eval-grounded", "path"], {}, True),
        (["pip", "list"], {}, False),
    ],
)
def test_which_commands_it_takes(
    arguments: list[str], environment: dict[str, str], takes: bool, started: Started
) -> None:
    assert started.can([command(arguments[0]), *arguments[1:]], {**os.environ, **environment}) is takes


def test_which_modules_it_takes(started: Started) -> None:
    for name, takes in {"lm_eval": True, "lm_eval_tasks.cli": True, "pip": False}.items():
        assert started.can([sys.executable, "-m", name], dict(os.environ)) is takes
    assert not started.can([sys.executable, "-c", "pass"], dict(os.environ))
    without = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    assert not started.can([sys.executable, "-m", "lm_eval"], without)
