"""Which Pythons the machine has: on the path, or made by pyenv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

Version = tuple[int, int]

_CHECK = "import sys, venv, ensurepip; print(*sys.version_info[:2])"


def interpreters() -> dict[Version, str]:
    """Version to executable: the first that runs, and can make an environment."""
    found: dict[Version, str] = {}
    for python in _candidates():
        version = _version(python)
        if version is not None:
            found.setdefault(version, python)
    return dict(sorted(found.items()))


def _candidates() -> Iterator[str]:
    yield sys.executable
    for name in ("python3", *(f"python3.{minor}" for minor in range(10, 20))):
        found = shutil.which(name)
        if found:
            yield found
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    yield from map(str, sorted(versions.glob("3.1*/bin/python3")))


def _version(python: str) -> Version | None:
    """None where it does not run (a shim of pyenv may be there with nothing behind it)."""
    try:
        done = subprocess.run([python, "-c", _CHECK], capture_output=True, text=True, timeout=60, check=False)
        major, minor = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else (major, minor)
