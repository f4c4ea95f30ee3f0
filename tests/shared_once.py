"""What is made once a test session and shared by its workers: environments, tiny models, harness runs.

The first worker that asks for ``shared_once(name, make)`` fills the folder; the others wait for it and read. It lies where
the session keeps its temporary files, so that pytest removes it with them. Nobody writes into it afterwards: a test that
changes what it is given copies it first.
"""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

SharedOnce = Callable[[str, Callable[[Path], Any]], Path]


def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the session's temporary files, in which each worker has a folder of its own."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def shared_once(tmp_path_factory: pytest.TempPathFactory) -> SharedOnce:
    """``shared_once(name, make)``: the folder that ``make(folder)`` filled, in whichever worker was first.

    ``make`` gets an empty folder at its final place. Where it raised, every worker gets the error; where it skipped, every
    worker asks again (and skips). A folder that a killed worker left half full is made anew.
    """
    shared = session_folder(tmp_path_factory) / "shared_once"
    shared.mkdir(exist_ok=True)

    def once(name: str, make: Callable[[Path], Any]) -> Path:
        folder = shared / name
        done, failed = shared / f"{name}.done", shared / f"{name}.failed"
        with FileLock(shared / f"{name}.lock"):
            if failed.exists():
                raise RuntimeError(f"{name} could not be made, in another test:\n{failed.read_text('utf-8')}")
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                try:
                    make(folder)
                except Exception:
                    failed.write_text(traceback.format_exc(), "utf-8")
                    raise
                done.touch()
        return folder

    return once
