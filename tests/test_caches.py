"""Caches hold what a run asks for, and nothing of another: requests, answers of our own models, and spans of detectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.spans import Span
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks import harness as host
from lm_eval_tasks.mfava import dataset as wild
from lm_eval_tasks.models import detector as detector_model
from tests.conftest import Harness, loaded_tasks
from tests.miniature import MINIATURE


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached requests; in the installed harness it lies inside the package."""
    from lm_eval.caching import cache

    monkeypatch.setattr(cache, "PATH", str(tmp_path / "requests"))
    return tmp_path / "requests"


def evaluated(harness: Harness, task: str, cached: bool, **metadata: Any) -> Any:
    """Figures, and the prompts and documents that were answered."""
    of_run = {name: metadata.pop(name, None) for name in ("limit", "num_fewshot", "gen_kwargs")}
    model = ("hallucination-detector", "detector=lexical") if "detection" in task else ("grounded-baseline", "")
    options = {"cache_requests": cached, "bootstrap_iters": 0, **of_run}
    got = harness([task], *model, metadata={"mirror": MINIATURE, **metadata}, **options)
    seen = [(s["doc_id"], s["doc"], s["arguments"], s["resps"]) for s in got["samples"][task]]
    return json.dumps([got["results"][task], seen], sort_keys=True, default=str)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("nomiracl_de", {"subset": "non_relevant"}),
    ("clapnq_gold", {"num_fewshot": 1}),
    ("clapnq_gold", {"gen_kwargs": "max_gen_toks=7"}),
    ("clapnq_rag", {"bm25_split": True, "top_k": 2}),
    ("clapnq_rag", {"detector": "lexical", "calibration": "lexical"}),
    ("mfava_de", {"detector_args": "threshold=0.9"}),
]


@pytest.mark.parametrize(("task", "changed"), CHANGES, ids=[f"{t} {' '.join(c)}" for t, c in CHANGES])
def test_other_options_have_own_requests(harness: Harness, cache: Path, task: str, changed: dict[str, Any]) -> None:
    first = evaluated(harness, task, cached=True)
    other = evaluated(harness, task, cached=True, **changed)
    assert other == evaluated(harness, task, cached=False, **changed)
    assert other != first
    assert evaluated(harness, task, cached=True) == first
    assert evaluated(harness, task, cached=True, **changed) == other
    assert len(list(cache.iterdir())) == 2  # both were there


@pytest.mark.parametrize("task", ["nomiracl_de", "mfava_detection_de_gold"])
def test_another_mirror_has_requests_of_its_own(harness: Harness, hub: str, task: str) -> None:
    evaluated(harness, task, cached=True, limit=4)
    other = evaluated(harness, task, cached=True, limit=4, mirror=hub)
    assert other == evaluated(harness, task, cached=False, limit=4, mirror=hub)
    assert other != evaluated(harness, task, cached=True, limit=4)


def built(task: str, **options: Any) -> list[Any]:
    """The requests of a task, as a run with `--cache_requests` builds or finds them."""
    loaded = loaded_tasks([task], mirror=MINIATURE)[task]
    loaded.build_all_requests(cache_requests=True, rank=0, world_size=1, **options)
    return [(request.doc_id, request.arguments) for request in loaded.instances]


def test_requests_are_found_again(cache: Path) -> None:
    first = built("nomiracl_de", limit=4)
    (file,) = cache.iterdir()
    written = file.stat().st_mtime_ns
    assert built("nomiracl_de", limit=4) == first
    assert built("nomiracl_de", limit=2) == first[:2]  # the harness caches all, whatever the limit
    assert [path.stat().st_mtime_ns for path in cache.iterdir()] == [written]


def test_another_version_of_the_harness_has_requests_of_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are pickled objects of its classes, and the folder (``LM_HARNESS_CACHE_PATH``) may be that of both."""
    first = built("nomiracl_de", limit=4)
    monkeypatch.setattr(host, "installed", lambda: "0.6.0")
    assert built("nomiracl_de", limit=4) == first
    assert len(list(cache.iterdir())) == 2


def test_chosen_documents_and_system_prompts_have_requests_of_their_own() -> None:
    whole = built("mfava_de")
    assert [number for number, _ in built("mfava_de", samples=[2, 5])] == [0, 1]
    assert len(built("mfava_de")) == len(whole) == 9
    spoken_to = built("mfava_de", system_instruction="Be brief.")
    assert spoken_to[0][1][0].startswith("Be brief.")
    assert built("mfava_de") == whole


class Flagging:
    """A detector whose findings show its options, and which remembers what it was asked."""

    licence = "CC0"
    asked: list[str] = []  # noqa: RUF012

    def __init__(self, name: str = "a", version: str = "1", length: int = 1) -> None:
        self.name, self.version, self.length = name, version, length

    def detect(self, references: Sequence[str], answers: Sequence[str], *_: Any, **__: Any) -> list[list[Span]]:
        Flagging.asked += answers
        return [[Span(0, self.length)] for _ in answers]


@pytest.fixture
def flagging(monkeypatch: pytest.MonkeyPatch) -> type[Flagging]:
    monkeypatch.setattr(detector_model, "load_detector", lambda name, **options: Flagging(name, **options))
    Flagging.asked = []
    return Flagging


def tags(harness: Harness, tmp_path: Path, model_args: str) -> set[str]:
    task, options = "mfava_detection_de_gold", {"metadata": {"mirror": MINIATURE}, "use_cache": str(tmp_path / "cache")}
    got = harness([task], "hallucination-detector", model_args, **options)
    assert got["config"]["detector"]["name"] == model_args.split(",")[0].split("=")[1]
    return {sample["resps"][0][0].split("</hallucination>")[0] for sample in got["samples"][task]}


def test_detectors_versions_and_options_have_tags(harness: Harness, flagging: type[Flagging], tmp_path: Path) -> None:
    settings = {"detector=a": 1, "detector=b": 1, "detector=a,version=2": 1, "detector=a,length=3": 3}
    for _ in range(2):  # the second time, all of them are kept
        for model_args, length in settings.items():
            assert {len(found.split(">")[1]) for found in tags(harness, tmp_path, model_args)} == {length}
        assert len(flagging.asked) == len(settings) * 6  # seven answers, two of which are one text


@pytest.mark.parametrize(
    ("model", "first", "second"),
    [("grounded-baseline", "strategy=abstain", "strategy=answer"), ("replay", "path=a.jsonl", "path=b.jsonl")],
)
def test_models_that_answer_documents_are_never_answered_for(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, first: str, second: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        rows = [{"id": doc["id"], "response": name} for doc in wild.load("de", mirror=MINIATURE)["evaluation"]]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")

    def answers(model_args: str, **cache: str) -> list[str]:
        options = {"metadata": {"mirror": MINIATURE}, "gen_kwargs": "do_sample=False", **cache}
        got = harness(["mfava_de"], model, model_args, **options)
        return [sample["resps"][0][0] for sample in got["samples"]["mfava_de"]]

    assert answers(first, use_cache="cache") == answers(first)
    assert answers(second, use_cache="cache") == answers(second) != answers(first)


class Counting:
    name, version, licence = "counting", "1", ""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def detect(self, references: Sequence[str], answers: Sequence[str], *_: Any, **__: Any) -> list[list[Span]]:
        self.asked += answers
        return [[Span(0, len(answer))] if answer else [] for answer in answers]


def test_the_store_asks_for_each_content_once(tmp_path: Path) -> None:
    detector = Counting()
    stored = StoredDetector(detector, tmp_path / "s.jsonl")
    answers = ["a", "bb", "a", "", "\ud800"]
    expected = [[Span(0, len(answer))] if answer else [] for answer in answers]
    assert stored.detect(["r"] * 5, answers, ["de"] * 5) == expected
    assert sorted(detector.asked) == sorted({*answers})
    again = StoredDetector(detector, tmp_path / "s.jsonl")
    assert again.detect(["r"] * 5, answers, ["de"] * 5) == expected
    assert len(detector.asked) == 4
    again.detect(["other"], ["a"], ["de"])  # another reference is another question
    again.detect(["r"], ["a"], ["fi"])
    assert len(detector.asked) == 6
    newer = Counting()
    newer.version = "2"
    StoredDetector(newer, tmp_path / "s.jsonl").detect(["r"], ["a"], ["de"])
    assert newer.asked == ["a"]
    for options in ({"threshold": 0.5}, {"threshold": 0.6}, {"threshold": 0.5}):
        StoredDetector(detector, tmp_path / "s.jsonl", options).detect(["r"], ["a"], ["de"])
    assert len(detector.asked) == 8  # each options once
    with pytest.raises(ValueError, match="1 answers, but 2 references"):
        stored.detect(["r", "s"], ["a"], ["de"])
