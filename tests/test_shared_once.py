"""What is made once a session is made by one worker, and by no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared_once import SharedOnce

pytest_plugins = ["pytester"]

INNER = """
import os, time
from pathlib import Path
import pytest
from tests.shared_once import shared_once as shared_once

def make(folder):
    assert not list(folder.iterdir())
    with open(os.environ["MADE"], "a") as made:
        made.write(os.environ.get("PYTEST_XDIST_WORKER", "alone") + "\\n")
    (folder / "x").write_text("x")
    if os.environ.get("BREAKS"):
        raise ValueError("no such thing")

@pytest.mark.parametrize("number", range(4))
def test_it(shared_once, number):
    assert (shared_once("thing", make) / "x").read_text() == "x"
    time.sleep(0.2)
"""


def made(pytester: pytest.Pytester, *arguments: str) -> tuple[pytest.RunResult, list[str]]:
    pytester.makepyfile(test_inner=INNER)
    log = pytester.path / "made"
    log.write_text("")
    done = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--basetemp", str(pytester.path / "base"), *arguments
    )
    return done, log.read_text().split()


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("MADE", str(pytester.path / "made"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return pytester


@pytest.mark.one_python("the tests' own")
def test_one_worker_makes_it_for_all(inner: pytest.Pytester) -> None:
    done, makers = made(inner, "-n", "2", "--dist", "each")
    done.assert_outcomes(passed=8)
    assert len(makers) == 1


@pytest.mark.one_python("the tests' own")
def test_without_workers_it_is_made_once_too_and_anew_in_the_next_session(inner: pytest.Pytester) -> None:
    for _ in range(2):
        done, makers = made(inner)
        done.assert_outcomes(passed=4)
        assert makers == ["alone"]


def test_what_could_not_be_made_is_not_tried_again(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKS", "1")
    done, makers = made(inner)
    done.assert_outcomes(failed=4)
    assert makers == ["alone"]
    assert done.stdout.str().count("thing could not be made, in another test:") >= 3


def test_what_a_killed_worker_left_is_made_anew(shared_once: SharedOnce, tmp_path: Path) -> None:
    first = shared_once("left", lambda folder: (folder / "half").touch())
    (first.parent / "left.done").unlink()
    again = shared_once("left", lambda folder: (folder / "whole").touch())
    assert [file.name for file in again.iterdir()] == ["whole"]


@pytest.mark.xdist_group("a group")
def test_the_scheduler_knows_a_tests_group(request: pytest.FixtureRequest) -> None:
    """It reads the group behind the ``@`` of the test's id: see ``tests/worker_groups.py``."""
    grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@a group") is grouped
