"""What a kill leaves behind is seen by no reader and cleaned by the next run; what was damaged is named and made anew."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval.bm25 import BM25
from lm_eval_tasks.data import finished, whole_file, whole_folder
from lm_eval_tasks.data.samples import samples_files
from lm_eval_tasks.models.replay import Replay
from lm_eval_tasks.results.score import score
from tests.conftest import run
from tests.logged_runs import copied, only_predicted, sample, write_samples
from tests.shared_once import SharedOnce
from tests.test_retrieval import ROWS, asked, write_corpus

LEFT = "0a" * 16
"""As the random part of a partial file's name."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.txt"
    with whole_file(path) as partial:
        partial.write_text("new", "utf-8")
        assert names(path.parent) == [partial.name]
        assert finished(tmp_path, "*") == []
    assert names(path.parent) == ["x.txt"]

    def dies() -> None:
        with whole_file(path) as partial:
            partial.write_text("newer", "utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dies()
    assert (names(path.parent), path.read_text("utf-8")) == (["x.txt"], "new")


def test_what_cannot_be_written_is_named_as_the_user_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hidden file of the work in progress is in no message, and does not stay."""

    def write(path: Path) -> None:
        with whole_file(path) as partial:
            partial.write_text("x")

    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=re.escape(f"Is a directory: '{tmp_path / 'folder'}'")) as caught:
        write(tmp_path / "folder")
    assert ".part" not in str(caught.value)

    def refuse(path: Path, *given: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(PermissionError, match=re.escape(f"Permission denied: '{tmp_path / 'x'}'")):
        write(tmp_path / "x")
    assert names(tmp_path) == ["folder"]


KILLED = """
import os, signal, sys
from pathlib import Path
from lm_eval_tasks.data import whole_file, whole_folder
target = Path(sys.argv[1])
def build(folder):
    (folder / "a").write_bytes(b"x" * 1000)
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "file":
    with whole_file(target) as partial:
        partial.write_bytes(b"x" * 1000)
        os.kill(os.getpid(), signal.SIGKILL)
whole_folder(target, build)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_leaves_is_hidden_and_removed_by_the_next(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "[x]*"  # what a pattern could take for its own
    killed = run([sys.executable, "-c", KILLED, str(target), kind], tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = (path for path in tmp_path.iterdir() if path.suffix == ".part")
    assert left.name.startswith(".[x]*.")
    assert finished(tmp_path, "*", "a") in ([], [Path(f"{target}.lock")])
    if kind == "file":
        os.utime(left, (time.time() - 25 * 3600,) * 2)
        with whole_file(target) as partial:
            partial.write_text("whole")
    else:
        whole_folder(target, lambda new: (new / "a").write_text("whole"))
    assert [name for name in names(tmp_path) if not name.endswith(".lock")] == ["[x]*"]


def test_what_is_left_is_cleaned_up_after_a_day(tmp_path: Path) -> None:
    kept, old = [".x.part", f".x.{LEFT[:-1]}g.part", f".y.{LEFT}.part", f".x.{LEFT[:-1]}1.part"], f".x.{LEFT}.part"
    for name in (*kept, old):
        (tmp_path / name).write_text(name)
        if name != kept[-1]:
            os.utime(tmp_path / name, (time.time() - 25 * 3600,) * 2)
    with whole_file(tmp_path / "x") as partial:
        partial.write_text("x")
    assert names(tmp_path) == sorted([*kept, "x"])


def test_two_threads_write_one_file(tmp_path: Path) -> None:
    with whole_file(tmp_path / "x") as first, whole_file(tmp_path / "x") as second:
        first.write_text("first")
        second.write_text("second")
    assert (names(tmp_path), (tmp_path / "x").read_text()) == (["x"], "first")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_cache_that_cannot_be_written_is_used_as_it_is(cache: Path, tmp_path: Path) -> None:
    """A shared one, say; as root nothing is forbidden, so the lock is what would show it."""
    tsv = write_corpus(tmp_path / "passages.tsv", ROWS)
    expected = BM25(Corpus.open(tsv)).search(asked("violin"), 4)
    for lock in cache.rglob("*.lock"):
        lock.unlink()
    assert BM25(Corpus.open(tsv)).search(asked("violin"), 4) == expected
    assert list(cache.rglob("*.lock")) == []


def test_no_reader_sees_unfinished_work(tmp_path: Path) -> None:
    whole = "\n".join(json.dumps(sample(number)) for number in range(3)) + "\n"
    write_samples(tmp_path / "run", whole)
    for hidden in (".scoring-abc/model", ".ipynb_checkpoints"):
        (tmp_path / "run" / hidden).mkdir(parents=True)
        write_samples(tmp_path / "run" / hidden, whole[:50], date="2027-01-01T00-00-00.0")
    (tmp_path / "run" / f".samples_mfava_de_2027.jsonl.{LEFT}.part").write_text("{")
    (folder,) = samples_files(tmp_path)
    assert folder == tmp_path / "run"
    assert samples_files(tmp_path)[folder] == {"mfava_de": folder / "samples_mfava_de_2026-01-01T00-00-00.0.jsonl"}
    assert len(Replay(path=str(tmp_path)).answers) == 3
    hidden = tmp_path / "run" / ".scoring-abc"  # who names a hidden folder means it
    assert list(samples_files(hidden)) == [hidden / "model"]


SCORING = """
import os, signal, sys
from pathlib import Path
from lm_eval_tasks.results import score as scoring
if sys.argv[2] == "die":
    from lm_eval.loggers import EvaluationTracker
    write = EvaluationTracker.save_results_samples
    def one_and_die(self, task_name, samples):
        write(self, task_name, samples)
        os.kill(os.getpid(), signal.SIGKILL)
    EvaluationTracker.save_results_samples = one_and_die
print(scoring.score(Path(sys.argv[1])))
"""


@pytest.fixture
def predicted(shared_once: SharedOnce, tmp_path: Path) -> Path:
    """A folder with logged answers of two tasks, to write in."""
    return copied(only_predicted(shared_once), tmp_path / "out")


def of_one_task(folder: Path) -> Path:
    """A folder with logged answers, of which those of the second task go."""
    for path in folder.glob("samples_mfava_zh_*"):
        path.unlink()
    return folder


@pytest.mark.slow("a process imports the harness, scores and is killed")
def test_score_killed_while_it_writes_is_run_again(predicted: Path, tmp_path: Path) -> None:
    """Its leftovers were read as a second model, or ended every later run with "samples of mfava_de in 2 folders"."""
    folder, before = predicted, names(predicted)
    killed = run([sys.executable, "-c", SCORING, str(folder), "die"], tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list(folder.glob(".scoring-*/*/samples_mfava_de_*"))
    assert len(score(folder)) == 1  # one model
    assert len(names(folder)) == len(before) + 3  # results, and samples of two tasks
    assert not [name for name in names(folder) if name.startswith(".")]
    assert len(score(folder)) == 1


def test_two_that_score_one_folder_do_not_meet(predicted: Path) -> None:
    from filelock import FileLock

    folder = of_one_task(predicted)
    left = folder / ".scoring-somebodys"
    left.mkdir()
    at_work = f"another `lm-eval-grounded` is at work in {folder}; wait for it, or stop it"
    with FileLock(folder / ".scoring.lock"), pytest.raises(OSError, match=at_work):
        score(folder)
    assert left.is_dir()  # who holds the lock may be writing there
    score(folder)
    assert not left.exists()
