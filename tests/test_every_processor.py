"""The index and the rankings are the same files on every processor, whatever its instructions and number of threads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import run

RANK = """
import hashlib, os, sys
if sys.argv[2] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from pathlib import Path
from lm_eval_tasks.commands.retrieve import retrieve
for split in (False, True):
    for k in (10, 20):
        found = retrieve("bm25", "dev", k, Path("run"), {"bm25_split": split} if split else {}, sys.argv[1])
        lines = [line for line in Path("run").read_text().splitlines() if int(line.split()[3]) <= 10]
        values = [round(found.figures[name].value, 4) for name in ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")]
        print(split, k, hashlib.sha256("\\n".join(lines).encode()).hexdigest(), values)
"""


def vector_code() -> list[str]:
    """What to switch off of numpy: nothing, what needs 512 bits, everything that the processor could do without."""
    from numpy._core import _multiarray_umath as built

    there = [name for name in built.__cpu_dispatch__ if built.__cpu_features__.get(name)]
    wide = [name for name in there if name.startswith("AVX512") or name == "X86_V4"]
    return list(dict.fromkeys(["", " ".join(wide), " ".join(there)]))


def printed_of(mirror: str, disabled: str, threads: str, folder: Path) -> str:
    """What RANK prints in a process that lacks some of the processor's instructions, with one core or all."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("needs sched_setaffinity, to leave a process one core")
    folder.mkdir()
    environment = {"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {}
    code = [sys.executable, "-c", RANK, mirror, threads]
    return run(code, folder, LM_EVAL_GROUNDED_CACHE=str(folder), **environment).stdout


@pytest.mark.slow  # six processes that each build an index of 5,494 passages and rank them
def test_every_processor_and_number_of_threads_gives_the_same_files(hub: str, tmp_path: Path) -> None:
    """The first ten of each question, from an index built there: the same for k 10 and 20, and these four figures."""
    found = {
        printed_of(os.path.abspath(hub), disabled, threads, tmp_path / f"{number}-{threads}")
        for number, disabled in enumerate(vector_code())
        for threads in ("1", "2")
    }
    (printed,) = found
    rows = [line.split(maxsplit=3) for line in printed.splitlines()]
    whole, split = "[0.7933, 0.8538, 0.8607, 0.8682]", "[0.7933, 0.8555, 0.8609, 0.8685]"
    assert [row[3] for row in rows] == [whole, whole, split, split]
    assert rows[0][2] == rows[1][2]
    assert rows[2][2] == rows[3][2]
