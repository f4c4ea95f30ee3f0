"""The environment of ``every-eval-ever``, which needs Python 3.12: ``make_eee.py FOLDER``. Says why where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NEEDS = (3, 12)
PACKAGE = "every-eval-ever==0.3.0"


def interpreters() -> Iterator[str]:
    """What may be a Python that is new enough."""
    yield sys.executable
    for minor in range(NEEDS[1], NEEDS[1] + 4):
        found = shutil.which(f"python3.{minor}")
        if found:
            yield found
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    yield from map(str, sorted(versions.glob("3.*/bin/python3")))


def is_new_enough(python: str) -> bool:
    """Whether it runs (a shim of pyenv may be there with nothing behind it), and is new enough."""
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {NEEDS})"
    try:
        return not subprocess.run([python, "-c", check], capture_output=True, timeout=60, check=False).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def main(folder: Path) -> None:
    if (folder / ".done").exists():
        return
    python = next(filter(is_new_enough, interpreters()), None)
    if python is None:
        print(f"skipped: {PACKAGE} needs Python {'.'.join(map(str, NEEDS))}, which is not on this machine")
        return
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", PACKAGE], check=True)
    (folder / ".done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
