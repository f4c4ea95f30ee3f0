"""Which Pythons the tests run on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.environment import interpreters, pythons


def test_the_supported_versions_are_those_of_pyproject() -> None:
    assert pythons.supported() == [(3, 10), (3, 11), (3, 12), (3, 13)]


def test_a_python_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = sys.version_info[:2]
    for name, content in {
        "silent": "#!/bin/sh\nexit 3\n",
        "other": "#!/bin/sh\necho 3 99\n",
        "wrong": "no program",
    }.items():
        (tmp_path / name).write_text(content, "utf-8")
        (tmp_path / name).chmod(0o755)
    candidates = [*(str(tmp_path / name) for name in ("silent", "wrong", "absent", "other")), sys.executable]
    monkeypatch.setattr(interpreters, "_candidates", lambda: iter(candidates))
    assert interpreters.interpreters() == {own: sys.executable, (3, 99): str(tmp_path / "other")}


def test_a_line_says_what_became_of_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = sys.version_info[:2]
    fails, passes = ((3, 10), (3, 11)) if own not in ((3, 10), (3, 11)) else ((3, 12), (3, 13))
    for name, status in {"fails": 1, "passes": 0}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho '= {name} in 1 s ='\nexit {status}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    have = {own: sys.executable, fails: str(tmp_path / "fails"), passes: str(tmp_path / "passes")}
    monkeypatch.setattr(pythons, "interpreters", lambda: have)
    monkeypatch.setattr(pythons, "environment", lambda python, version: Path(python))
    assert pythons.main([]) == 1
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if line.startswith("Python "))
    (missing,) = set(pythons.supported()) - have.keys()
    name = "Python {}.{}".format
    assert said == {
        name(*own): "the developers' environment, which `make test` uses",
        name(*fails): "FAILED: fails in 1 s",
        name(*passes): "passed: passes in 1 s",
        name(*missing): "not on this machine",
    }
    del have[fails]
    assert pythons.main([]) == 0
