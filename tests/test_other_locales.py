"""Files that are written are UTF-8, whatever the locale says."""

from __future__ import annotations

import locale
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from detector_plugin.calibration import Calibration, load
from lm_eval_tasks.clapnq.retrieval.run import read_run, write_run


@pytest.fixture(autouse=True)
def _ascii() -> Iterator[None]:
    """The C locale, in which a file without a named encoding is ASCII."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    yield
    locale.setlocale(locale.LC_CTYPE, before)


def write_calibration(path: Path) -> None:
    Calibration({"name": "third", "version": "1", "licence": "MIT"}, {}, note="Hände").save(path)


def read_note(path: Path) -> str:
    return load(str(path)).note


def write_rankings(path: Path) -> None:
    write_run(path, [("q1", [("pä", 1.0)])], "mine")


@pytest.mark.parametrize(
    ("name", "write", "read", "content"),
    [
        ("c.json", write_calibration, read_note, "Hände"),
        ("x.run", write_rankings, read_run, {"q1": [("pä", 1.0)]}),
        ("x.run.gz", write_rankings, read_run, {"q1": [("pä", 1.0)]}),
    ],
)
def test_a_file_is_utf_8_in_every_locale(
    tmp_path: Path, name: str, write: Callable[[Path], None], read: Callable[[Path], object], content: object
) -> None:
    write(tmp_path / name)
    assert read(tmp_path / name) == content
