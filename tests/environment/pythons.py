"""The fast tests on every Python that the project supports and the machine has, each in an environment of its own.

``python -m tests.environment.pythons`` makes ``.venv-3.X`` without torch, which the base install does not need either: what
needs it is skipped there, with the reason. Left out are tests of what is the same on every Python (mark ``one_python``),
and properties are tried on fewer examples. It ends with a line for each version, and fails where a test failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.environment.interpreters import Version, interpreters

ROOT = Path(__file__).parents[2]
EXTRAS = "report,test"
FAST = "not slow and not vllm and not browser and not one_python"
PROFILE = "another Python"  # of Hypothesis, see tests/conftest.py


def supported() -> list[Version]:
    """What ``pyproject.toml`` names."""
    named = re.findall(r"Programming Language :: Python :: (\d+)\.(\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    return [(int(major), int(minor)) for major, minor in named]


def environment(python: str, version: Version) -> Path:
    """The Python of the version's environment, which is made where it is missing or older than ``pyproject.toml``."""
    folder = ROOT / f".venv-{version[0]}.{version[1]}"
    made, own = folder / ".done", folder / "bin" / "python"
    if not made.exists() or made.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(own), "-m", "pip", "install", "-q", "-e", f"{ROOT}[{EXTRAS}]"], check=True)
        made.touch()
    return own


def outcome(version: Version, have: dict[Version, str], options: list[str]) -> str:
    """What the line says of a version."""
    if version == sys.version_info[:2]:
        return "the developers' environment, which `make test` uses"
    if version not in have:
        return "not on this machine"
    tests = [
        str(environment(have[version], version)),
        "-m",
        "pytest",
        "-q",
        "-m",
        FAST,
        "--hypothesis-profile",
        PROFILE,
        *options,
    ]
    done = subprocess.run(tests, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    *_, last = done.stdout.splitlines() or ["no output"]
    return f"{'FAILED' if done.returncode else 'passed'}: {last.strip('= ')}"


def main(options: list[str]) -> int:
    have = interpreters()
    outcomes = {version: outcome(version, have, options) for version in supported()}
    for (major, minor), said in outcomes.items():
        print(f"Python {major}.{minor}: {said}")
    return any(said.startswith("FAILED") for said in outcomes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
