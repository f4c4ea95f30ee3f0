"""Two real ranks: what two processes find is what one finds, also where one of them sees only answerable questions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, evaluate
from tests.miniature import MINIATURE

pytestmark = [
    pytest.mark.slow("starts a harness for every rank"),
    pytest.mark.skipif(find_spec("torch") is None, reason="ranks meet through torch.distributed (extra hf)"),
]
TASKS = ["nomiracl_de", "clapnq_rag", "mfava_de"]


def processes(number: int, tmp_path: Path, tasks: list[str] | None = None, **settings: Any) -> list[tuple[int, str]]:
    """Exit status and errors of each rank; the results lie in ``<number>.json``."""
    asked = {
        **{"model": "grounded-baseline", "model_args": {"strategy": "lexical"}, "tasks": tasks or TASKS},
        **{"limit": None, "gen_kwargs": None, "metadata": {"mirror": MINIATURE}, "world_size": number},
        **{"store": str(tmp_path / f"store{number}-{time.monotonic_ns()}"), "output": str(tmp_path / f"{number}.json")},
        **settings,
    }
    command = [sys.executable, "-m", "tests.environment.ranks"]
    started = [
        subprocess.Popen(
            [*command, json.dumps({**asked, "rank": rank})],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(number)
    ]
    ended = [(process.communicate(timeout=500)[1], process.returncode) for process in started]
    return [(status, errors) for errors, status in ended]


def found(number: int, tmp_path: Path, **settings: Any) -> dict[str, Any]:
    """What a run of so many processes found."""
    for status, errors in processes(number, tmp_path, **settings):
        assert status == 0, errors[-4000:]
    content: dict[str, Any] = json.loads((tmp_path / f"{number}.json").read_text("utf-8"))
    return content


def answers(content: dict[str, Any], task: str) -> dict[int, Any]:
    """Document and answer; a rank that has fewer questions than another is asked its last one again."""
    return {sample["doc_id"]: (sample["doc"], sample["resps"][0][0]) for sample in content["samples"][task]}


def rounded(content: Any) -> Any:
    """Numbers to ten digits: the order in which ranks gather documents changes what sums round to."""
    if isinstance(content, dict):
        return {key: rounded(value) for key, value in content.items()}
    return float(f"{content:.10g}") if isinstance(content, float) else content


@pytest.mark.parametrize("limit", [None, 2, 3], ids=["all", "one each", "two and one"])
def test_two_processes_find_what_one_finds(tmp_path: Path, limit: int | None) -> None:
    """Every figure, bounds included, to the last digit. Of two ranks, the first has only answerable questions of CLAPnq."""
    # so low a threshold that words of the article, and of the passages, are flagged
    metadata = {"mirror": MINIATURE, "detector": "lexical", "detector_args": "threshold=0.01"}
    one, two = (found(number, tmp_path, limit=limit, metadata=metadata) for number in (1, 2))
    assert two["results"] == one["results"]
    assert rounded(two["figures"]) == rounded(one["figures"])
    assert two["n-samples"] == one["n-samples"]
    for task in TASKS:
        assert answers(two, task) == answers(one, task)
    if limit is not None:
        answerable = [sample["doc"]["answerable"] for sample in two["samples"]["clapnq_rag"]]
        assert answerable == sorted(answerable, reverse=True)
    else:  # enough documents for bounds to depend on
        assert two["figures"]["mfava_de"]["answer"]["detected_rate"]["high"] > 0
        assert two["figures"]["clapnq_rag"]["answer"]["hallucinated_share"]["high"] > 0
        assert two["figures"]["clapnq_rag"]["answer"]["ndcg@1"]["n"] == 18
        assert two["results"]["mfava_de"]["detected_rate_stderr,answer"] > 0


@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
def test_a_language_model_in_two_processes(tmp_path: Path, llama: Path, sampled: bool) -> None:
    settings: dict[str, Any] = {
        "model": "hf",
        "model_args": {"pretrained": str(llama), "device": "cpu", "batch_size": 1},
        "limit": 5,
        "gen_kwargs": "max_gen_toks=12," + ("do_sample=True,temperature=1.0" if sampled else "do_sample=False"),
    }
    two = found(2, tmp_path, **settings)
    assert {task: number["effective"] for task, number in two["n-samples"].items()} == dict.fromkeys(TASKS, 5)
    if not sampled:
        one = found(1, tmp_path, **settings)
        assert two["results"] == one["results"]
        for task in TASKS:
            assert answers(two, task) == answers(one, task)
    # Whatever was said: the figures are those of the logged answers, scored again by one process.
    for task in TASKS:
        stored = tmp_path / f"stored_{task}"
        stored.mkdir()
        rows = "".join(json.dumps(sample) + "\n" for sample in two["samples"][task])
        (stored / f"samples_{task}_2026-01-01T00-00-00.0.jsonl").write_text(rows, "utf-8")
        options = {"metadata": {"mirror": MINIATURE}, "limit": 5}
        again = evaluate([task], "replay", f"path={stored}", **options)["results"][task]
        assert again == two["results"][task]


def test_a_rank_without_a_question_is_an_error_on_every_rank(tmp_path: Path) -> None:
    """The harness raises it on that rank alone, while the others wait until their time limit, which is another error."""
    for status, errors in processes(2, tmp_path, tasks=["clapnq_gold"], limit=1):
        assert status != 0
        said = "clapnq_gold: 1 questions for 2 processes, and each needs one; raise --limit, or start at most 1"
        assert errors.strip().splitlines()[-1].endswith(f"UsageError: {said}")
    (status, errors), *_ = processes(1, tmp_path, tasks=["clapnq_gold"], limit=1)
    assert status == 0, errors[-2000:]
