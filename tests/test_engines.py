"""What the engines of classifiers share: batches, memory, processes, and requests under way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("hypothesis")

import torch
from transformers import BertForTokenClassification

from detector_plugin import processes
from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import check_detector, load_detector
from detector_plugin.processes import ProcessPlace, here
from detector_plugin.span_store import StoredDetector
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.engine import map_on_cores
from detector_plugin.transformers.vllm_engine import LoopThread
from tests.tiny_models import write_base

REFERENCES = ["the moon is cold. " * (n % 4 + 1) for n in range(40)]
ANSWERS = ["the sun is a red star." for _ in range(40)]
LANGUAGES = ["en"] * 40
WAIT = 30  # seconds after which a test is broken, not slow

# Memory


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError("no room"), RuntimeError("can't allocate memory: 9 TB")])
def test_a_batch_that_does_not_fit_is_halved_and_later_ones_are_smaller(
    lookup: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # one core, which is given batches of 32
    detector = TransformersDetector(str(lookup), batch_size=32, batch_tokens=10_000)
    expected = detector.detect(REFERENCES, ANSWERS, LANGUAGES)
    engine: Any = detector.engine
    sizes: list[int] = []
    logits = engine._logits

    def small(ids: Any, types: Any = None) -> Any:
        sizes.append(len(ids))
        if len(ids) > most:
            raise error
        return logits(ids, types)

    monkeypatch.setattr(engine, "_logits", small)
    most = 8
    assert detector.detect(REFERENCES, ANSWERS, LANGUAGES) == expected
    assert sizes[:3] == [32, 16, 8]
    assert sizes.count(32) == 1  # batches are smaller from then on
    assert max(sizes[sizes.index(8) :]) <= 16
    assert "32 inputs of up to 30 tokens do not fit into the memory of cpu" in caplog.text
    assert "batches have 240 tokens at most from now on" in caplog.text
    most = 0
    with pytest.raises(UnusableDetector, match=r"30 tokens do not fit into the memory of cpu; set max_length"):
        detector.detect(REFERENCES, ANSWERS, LANGUAGES)
    error = RuntimeError("a fault")
    with pytest.raises(RuntimeError, match="a fault"):
        detector.detect(REFERENCES, ANSWERS, LANGUAGES)


def test_no_more_documents_are_read_ahead_than_an_engine_works_on(lookup: Path) -> None:
    """Of a long list, only the first chunks have been encoded when the first answer is done."""
    detector = TransformersDetector(str(lookup), batch_size=2)
    encoded: list[int] = []
    encode_all = detector.encoder.encode_all
    detector.encoder.encode_all = lambda documents: encoded.append(len(documents)) or encode_all(documents)  # type: ignore
    spans = detector.detect_each(REFERENCES * 3, ANSWERS * 3, LANGUAGES * 3)
    next(spans)
    assert sum(encoded) <= 16 * 2 + 2 * 32  # a round of batches, and two chunks of the tokenizer
    assert sum(1 for _ in spans) == 119
    assert sum(encoded) == 120


# Batches on a CPU, each read by a core of its own


@pytest.fixture
def three_threads() -> Iterator[None]:
    """Torch as it is on a machine of three cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as thread:  # a new thread takes the number that was set last, by whichever thread
        assert thread.submit(torch.get_num_threads).result() == 3
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_as_many_batches_at_once_as_cores_each_on_one() -> None:
    together = threading.Barrier(3, timeout=WAIT)

    def work(batch: int) -> tuple[int, int]:
        together.wait()  # passes only where three work at once
        return batch * 10, torch.get_num_threads()

    results = list(map_on_cores(work, range(9), 3, lambda batch: 1, lambda: 99))
    assert results == [(batch, (batch * 10, 1)) for batch in range(9)]


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("cores", "batches"), [(1, 5), (3, 2), (3, 0)])
def test_all_cores_work_on_one_batch_where_there_are_fewer_than_cores(cores: int, batches: int) -> None:
    here = threading.get_ident()
    results = map_on_cores(lambda _: (threading.get_ident(), torch.get_num_threads()), range(batches), cores, int, int)
    assert list(results) == [(batch, (here, 3)) for batch in range(batches)]


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("room", "at_once"), [(3, 1), (8, 2), (100, 3)])
def test_the_sizes_of_batches_at_once_are_bounded(room: int, at_once: int) -> None:
    working: list[int] = []
    most: list[tuple[int, int]] = []
    lock = threading.Lock()

    def work(size: int) -> int:
        with lock:
            working.append(size)
            most.append((len(working), sum(working)))
        threading.Event().wait(0.005)
        with lock:
            working.remove(size)
        return size

    sizes = [4, 4, 3, 4, 4, 2, 4, 4, 4]
    assert [result for _, result in map_on_cores(work, sizes, 3, lambda size: size, lambda: room)] == sizes
    assert max(number for number, _ in most) <= at_once
    assert max(total for _, total in most) <= max(room, 4)  # a single one may have more


@pytest.mark.usefixtures("three_threads")
def test_no_more_batches_are_taken_than_two_for_each_core_and_an_error_is_raised_in_its_place() -> None:
    def work(batch: int) -> int:
        if batch >= 20:
            raise MemoryError(f"batch {batch}")
        return batch

    taken: list[int] = []
    batches = (taken.append(batch) or batch for batch in range(1000))  # type: ignore[func-returns-value]
    results = map_on_cores(work, batches, 3, lambda _: 1, lambda: 10**9)
    for done in range(1, 21):
        assert next(results) == (done - 1, done - 1)
        assert len(taken) <= done + 2 * 3
    with pytest.raises(MemoryError, match="batch 20"):
        next(results)


@pytest.mark.usefixtures("three_threads")
def test_cores_and_their_batches_by_the_options_and_the_models_width(llama_classifier: Path, tmp_path: Path) -> None:
    def shares(folder: Path, **options: int | str) -> tuple[int, int, int]:
        engine: Any = TransformersDetector(str(folder), device="cpu", progress=False, **options).engine
        return engine.cores, engine.batch_size, engine.batch_tokens

    assert shares(llama_classifier) == (3, 64, 12288)
    assert shares(llama_classifier, batch_size=1) == (1, 1, 12288)
    assert shares(llama_classifier, batch_size=64, batch_tokens=9000) == (3, 21, 3000)
    assert shares(llama_classifier, batch_tokens=2500) == (2, 64, 1250)
    assert shares(llama_classifier, batch_tokens=40) == (1, 64, 40)
    for width, size, tokens in ((8, 64, 65_536 // 3), (64, 64, 6144), (384, 16, 1024), (768, 16, 1024)):
        folder = write_base(tmp_path / str(width), "bert", width, vocabulary=300)
        BertForTokenClassification.from_pretrained(folder).save_pretrained(folder)
        assert shares(folder, labels="LABEL_0=O;LABEL_1=hallucination") == (3, size, tokens)


@pytest.mark.usefixtures("three_threads")
def test_several_cores_find_what_one_does(lookup: Path, llama_classifier: Path) -> None:
    references = ["the moon is cold. " * (n % 5 + 1) for n in range(200)]
    answers = ["a red sun is the star. " * (n % 3 + 1) for n in range(200)]
    for folder in (lookup, llama_classifier):
        by_cores = []
        for cores in (1, 3):
            torch.set_num_threads(cores)
            detector = TransformersDetector(str(folder), device="cpu", progress=False)
            assert detector.engine.cores == cores  # type: ignore[attr-defined]
            by_cores.append(detector.detect(references, answers, ["en"] * 200))
        for one, other in zip(*by_cores, strict=True):
            assert [span[:3] for span in one] == [span[:3] for span in other]
            assert [span.probability for span in one] == pytest.approx([span.probability for span in other], abs=2e-4)


# Options and the store


def test_vllm_where_it_is_not_installed(lookup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detector_plugin.transformers.vllm_engine.find_spec", lambda name: None)
    with pytest.raises(UnusableDetector, match=r"engine=vllm needs vLLM: pip install 'lm-eval-grounded\[vllm\]'"):
        check_detector(str(lookup), '{"engine": "vllm"}')


def test_spans_are_kept_under_other_options_of_speed_alone(lookup: Path, tmp_path: Path) -> None:
    store = tmp_path / "spans.jsonl"
    for options, lines in [
        ({"batch_size": 1}, 3),
        ({"batch_size": 4, "device": "cpu"}, 3),
        ({"threshold": 0.9}, 6),
        ({"dtype": "bfloat16"}, 9),
    ]:
        stored = StoredDetector(load_detector(str(lookup), **options), store, options)
        stored.detect(["the moon"] * 3, ["the moon is a red star.", "", "the moon"], ["en"] * 3)
        assert len(store.read_text("utf-8").splitlines()) == lines


# Processes

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}


@pytest.mark.parametrize("without", [None, *LAUNCHED])
def test_which_process_of_a_launch_this_is(monkeypatch: pytest.MonkeyPatch, without: str | None) -> None:
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert (here(), processes.gpu()) == (ProcessPlace(3, 4, 1), "cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # fewer GPUs than processes
    assert processes.gpu() == "cuda:0"
    if without is not None:  # a cluster's variables are no launch
        monkeypatch.delenv(without)
        assert (here(), processes.gpu()) == (ProcessPlace(0, 1, 0), "cuda")
        assert processes.gather("mine") == processes.all_gather("mine") == ["mine"]


# Requests under way


def test_requests_under_way() -> None:
    loop, started = LoopThread(), []

    async def ask(number: int) -> int:
        started.append(number)
        await asyncio.sleep(0.2 if number == 0 else 0)
        if number == 7:
            raise ValueError("seven")
        return number * number

    assert dict(loop.as_completed(ask, iter(range(5)), 2)) == {number: number * number for number in range(5)}
    assert [number for number, _ in loop.as_completed(ask, range(4), 4)][-1] == 0  # answers come as they are ready
    started.clear()
    with pytest.raises(ValueError, match="seven"):
        list(loop.as_completed(ask, range(1, 100), 1))
    assert started == [*range(1, 8)]
    loop.close()
