"""A command in a fork of a Python that has started ends and prints as in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment.started import Started

PROGRAM = """
import atexit, sys, threading, time
atexit.register(print, "at the end", file=sys.stderr)
print(__name__, sys.argv[1:], sys.stdin.read())
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
{end}
"""


@pytest.mark.parametrize(
    "end", ["pass", "sys.exit(3)", "sys.exit('no such thing')", "raise ValueError('no such thing')"]
)
def test_it_ends_and_prints_as_a_process_of_its_own(end: str, started: Started, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(end=end), "utf-8")
    command = [sys.executable, "-m", "program", "a"]
    own = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    done = started(command, tmp_path, dict(os.environ), timeout=60)
    assert (done.returncode, done.stdout) == (own.returncode, own.stdout)
    assert done.stderr.splitlines()[-1] == own.stderr.splitlines()[-1]


def test_one_that_does_not_end_is_killed(started: Started, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import time; time.sleep(3600)", "utf-8")
    done = started([sys.executable, "-m", "program"], tmp_path, dict(os.environ), timeout=1)
    assert done.returncode == -signal.SIGKILL
