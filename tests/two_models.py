"""Models' runs on the bundled sample, made once a session: what reports and comparisons are tested on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import command, run
from tests.logged_runs import files_of, only_predicted, replay
from tests.shared_once import SharedOnce

TASKS = ("nomiracl", "clapnq_gold", "clapnq_rag", "mfava_de", "mfava_ar")
MODELS = ("lexical", "answer")


@pytest.fixture(scope="session")
def two_models(shared_once: SharedOnce) -> Path:
    """A folder with the runs of ``baseline-lexical`` and ``baseline-answer``, a folder each. Nobody writes into it."""
    return shared_once("two_models", _make)


@pytest.fixture(scope="session")
def closed_book(shared_once: SharedOnce) -> Path:
    """The run of ``sample/closed-book`` on ``mfava_de`` and ``mfava_zh``: words of its answers are flagged."""
    return files_of(shared_once("mfava in one step", lambda folder: replay(folder / "out")))


@pytest.fixture(scope="session")
def predicted(shared_once: SharedOnce) -> Path:
    """The same answers, logged and not yet tagged. Nobody writes into it."""
    return only_predicted(shared_once)


def _make(folder: Path) -> None:
    for strategy in MODELS:
        done = run(
            [
                *(command("lm_eval"), "--model", "grounded-baseline", "--model_args", f"strategy={strategy}"),
                *("--tasks", ",".join(TASKS), "--metadata", "mirror=sample", "--output_path", ".", "--log_samples"),
            ],
            folder,
        )
        (folder / f"baseline-{strategy}" / "printed.txt").write_text(done.stdout, "utf-8")
