"""Batches on a CPU, each read by a core of its own: order, bounds, errors, and threads that are left as they were."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import BertForTokenClassification

from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.engines.runner import each_on_a_core
from tests.tiny_bases import write_base

WAIT = 30  # seconds after which a test is broken, not slow


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """Torch as it is on a machine of three cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)


def seen_by_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_as_many_batches_at_once_as_cores_each_on_one() -> None:
    together = threading.Barrier(3, timeout=WAIT)

    def work(batch: int) -> tuple[int, int]:
        together.wait()  # passes only where three work at once
        return batch * 10, torch.get_num_threads()

    found = list(each_on_a_core(work, range(9), 3, lambda batch: 1, lambda: 99))
    assert found == [(batch, (batch * 10, 1)) for batch in range(9)]
    assert seen_by_a_new_thread() == 3


@pytest.mark.parametrize(("cores", "batches"), [(1, 5), (3, 2), (3, 0)])
def test_all_cores_work_on_one_batch_where_there_are_fewer_than_cores(cores: int, batches: int) -> None:
    here = threading.get_ident()
    found = each_on_a_core(lambda _: (threading.get_ident(), torch.get_num_threads()), range(batches), cores, int, int)
    assert list(found) == [(batch, (here, 3)) for batch in range(batches)]


@pytest.mark.parametrize(("room", "at_once"), [(3, 1), (8, 2), (100, 3)])
def test_the_sizes_of_batches_at_once_are_bounded(room: int, at_once: int) -> None:
    lock = threading.Lock()
    working: list[int] = []
    most: list[tuple[int, int]] = []

    def work(size: int) -> int:
        with lock:
            working.append(size)
            most.append((len(working), sum(working)))
        threading.Event().wait(0.005)
        with lock:
            working.remove(size)
        return size

    sizes = [4, 4, 3, 4, 4, 2, 4, 4, 4]
    assert [found for _, found in each_on_a_core(work, sizes, 3, lambda size: size, lambda: room)] == sizes
    assert max(number for number, _ in most) <= at_once
    assert max(total for _, total in most) <= max(room, 4)  # a single one may have more


def test_no_more_batches_are_taken_than_two_for_each_core() -> None:
    taken: list[int] = []
    batches = (taken.append(batch) or batch for batch in range(1000))  # type: ignore[func-returns-value]
    found = each_on_a_core(lambda batch: batch, batches, 3, lambda _: 1, lambda: 10**9)
    for done in range(1, 20):
        assert next(found) == (done - 1, done - 1)
        assert len(taken) <= done + 2 * 3
    found.close()
    assert seen_by_a_new_thread() == 3


def test_an_error_is_raised_in_its_place() -> None:
    def work(batch: int) -> int:
        if batch >= 4:
            raise MemoryError(f"batch {batch}")
        return batch

    found: list[int] = []
    with pytest.raises(MemoryError, match="batch 4"):
        found.extend(batch for batch, _ in each_on_a_core(work, range(100), 3, lambda _: 1, lambda: 99))
    assert found == [0, 1, 2, 3]
    assert seen_by_a_new_thread() == 3


def shares(folder: Path, **options: int | str) -> tuple[int, int, int]:
    engine = TransformersDetector(str(folder), device="cpu", progress=False, **options).engine
    return engine.cores, engine.batch_size, engine.batch_tokens  # type: ignore[attr-defined]


def test_cores_and_their_batches_by_the_options(llama_classifier: Path) -> None:
    assert shares(llama_classifier) == (3, 64, 12288)
    assert shares(llama_classifier, batch_size=1) == (1, 1, 12288)
    assert shares(llama_classifier, batch_size=64, batch_tokens=9000) == (3, 21, 3000)
    assert shares(llama_classifier, batch_tokens=2500) == (2, 64, 1250)
    assert shares(llama_classifier, batch_tokens=40) == (1, 64, 40)


@pytest.mark.parametrize(
    ("width", "size", "tokens"), [(8, 64, 65_536 // 3), (64, 64, 6144), (384, 16, 1024), (768, 16, 1024)]
)
def test_a_batch_has_what_a_cores_caches_hold(tmp_path: Path, width: int, size: int, tokens: int) -> None:
    folder = write_base(tmp_path, "bert", width, vocabulary=300)
    BertForTokenClassification.from_pretrained(folder).save_pretrained(folder)
    assert shares(folder, labels="LABEL_0=O;LABEL_1=hallucination") == (3, size, tokens)


def test_several_cores_find_what_one_does(lookup: Path, llama_classifier: Path) -> None:
    references = ["the moon is cold. " * (n % 5 + 1) for n in range(200)]
    answers = ["a red sun is the star. " * (n % 3 + 1) for n in range(200)]
    for folder in (lookup, llama_classifier):
        found = []
        for cores in (1, 3):
            torch.set_num_threads(cores)
            detector = TransformersDetector(str(folder), device="cpu", progress=False)
            assert detector.engine.cores == cores  # type: ignore[attr-defined]
            found.append(detector.detect(references, answers, ["en"] * 200))
        for one, other in zip(*found, strict=True):
            assert [span[:3] for span in one] == [span[:3] for span in other]
            assert [span.probability for span in one] == pytest.approx([span.probability for span in other], abs=2e-4)
