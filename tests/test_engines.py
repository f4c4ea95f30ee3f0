"""What all engines share: batches, memory, processes, and the protocol of servers, known to the number."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("hypothesis")

import torch
from hypothesis import given
from hypothesis import strategies as st

from detector_plugin import processes
from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import check_detector, load_detector
from detector_plugin.processes import Here, here
from detector_plugin.span_store import StoredDetector
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.engines.in_flight import Loop
from detector_plugin.transformers.engines.pooling_api import (
    Garbage,
    addresses,
    logits_of,
    message_of,
    request_for,
    served_in,
)

REFERENCES = ["the moon is cold. " * (n % 4 + 1) for n in range(40)]
ANSWERS = ["the sun is a red star." for _ in range(40)]
LANGUAGES = ["en"] * 40

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
        if len(ids) > 8:
            raise error
        return logits(ids, types)

    monkeypatch.setattr(engine, "_logits", small)
    with caplog.at_level(logging.WARNING):
        assert detector.detect(REFERENCES, ANSWERS, LANGUAGES) == expected
    assert sizes[:3] == [32, 16, 8]
    assert sizes.count(32) == 1  # batches are smaller from then on
    assert max(sizes[sizes.index(8) :]) <= 16
    assert "32 inputs of up to 30 tokens do not fit into the memory of cpu; they are read in two halves" in caplog.text
    assert "batches have 240 tokens at most from now on" in caplog.text
    monkeypatch.setattr(engine, "_logits", lambda ids, types=None: (_ for _ in ()).throw(error))
    with pytest.raises(UnusableDetector, match=r"30 tokens do not fit into the memory of cpu; set max_length"):
        detector.detect(REFERENCES, ANSWERS, LANGUAGES)


def test_other_errors_of_a_model_are_raised(lookup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detector = TransformersDetector(str(lookup))
    monkeypatch.setattr(detector.engine, "_logits", lambda *_: (_ for _ in ()).throw(RuntimeError("a fault")))
    with pytest.raises(RuntimeError, match="a fault"):
        detector.detect(["the moon"], ["the sun"], ["en"])


def test_no_more_documents_are_read_ahead_than_an_engine_works_on(lookup: Path) -> None:
    """Of a long list, only the first chunks have been encoded when the first answer is done."""
    detector = TransformersDetector(str(lookup), batch_size=2)
    encoded: list[int] = []
    encode_all = detector.encoder.encode_all

    def counting(documents: Any) -> Any:
        encoded.append(len(documents))
        return encode_all(documents)

    detector.encoder.encode_all = counting  # type: ignore[method-assign]
    found = detector.detect_each(REFERENCES * 3, ANSWERS * 3, LANGUAGES * 3)
    next(found)
    assert sum(encoded) <= 16 * 2 + 2 * 32  # a round of batches, and two chunks of the tokenizer
    assert sum(1 for _ in found) == 119
    assert sum(encoded) == 120


# Options and the store


def test_vllm_where_it_is_not_installed(lookup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detector_plugin.transformers.engines.vllm.find_spec", lambda name: None)
    with pytest.raises(UnusableDetector, match=r"engine=vllm needs vLLM: pip install 'lm-eval-grounded\[vllm\]'"):
        check_detector(str(lookup), '{"engine": "vllm"}')
    with pytest.raises(UnusableDetector, match="no option 'base_url'"):
        load_detector(str(lookup), base_url="http://localhost:8000")


def test_spans_are_kept_under_other_options_of_speed_alone(lookup: Path, tmp_path: Path) -> None:
    answers = ["the moon is a red star.", "", "the moon"]
    store = tmp_path / "spans.jsonl"
    for options, lines in [
        ({"batch_size": 1}, 3),
        ({"batch_size": 4, "device": "cpu"}, 3),
        ({"threshold": 0.9}, 6),
        ({"dtype": "bfloat16"}, 9),
    ]:
        made = load_detector(str(lookup), **options)
        StoredDetector(made, store, options).detect(["the moon"] * 3, answers, ["en"] * 3)
        assert len(store.read_text("utf-8").splitlines()) == lines


# Processes

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}


@pytest.mark.parametrize("without", [None, *LAUNCHED])
def test_which_process_of_a_launch_this_is(monkeypatch: pytest.MonkeyPatch, without: str | None) -> None:
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert (here(), processes.gpu()) == (Here(3, 4, 1), "cuda:1")
    if without is not None:  # a cluster's variables are no launch
        monkeypatch.delenv(without)
        assert (here(), processes.gpu()) == (Here(0, 1, 0), "cuda")
        assert processes.gather("mine") == processes.share("mine") == ["mine"]
        processes.barrier()


def test_more_processes_than_gpus_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**LAUNCHED, "LOCAL_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert processes.gpu() == "cuda:1"


# Requests under way


def test_requests_under_way() -> None:
    loop, started = Loop(), []

    async def ask(number: int) -> int:
        started.append(number)
        await asyncio.sleep(0.2 if number == 0 else 0)
        if number == 7:
            raise ValueError("seven")
        return number * number

    found = loop.each(ask, iter(range(5)), 2)
    assert dict(found) == {number: number * number for number in range(5)}
    assert [number for number, _ in loop.each(ask, range(4), 4)][-1] == 0  # answers come as they are ready
    assert list(loop.each(ask, [], 4)) == []
    started.clear()
    got = []
    with pytest.raises(ValueError, match="seven"):
        got.extend(number for number, _ in loop.each(ask, range(1, 100), 1))
    assert started == [*range(1, 8)]
    loop.close()


# The protocol


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (None, []),
        ("", []),
        ("http://a:8000", ["http://a:8000"]),
        ("http://a:8000/v1/+https://b/x/pooling", ["http://a:8000", "https://b/x"]),
        ("http://a http://b|http://a", ["http://a", "http://b"]),
        (["http://a/", "http://b"], ["http://a", "http://b"]),
        ("http://a/with+plus", ["http://a/with+plus"]),
    ],
)
def test_addresses(option: Any, expected: list[str]) -> None:
    assert addresses(option) == expected


@pytest.mark.parametrize("option", ["a:8000", "ftp://a", "http://", "http://a?b=c", ["http://a", "b"], 8000])
def test_what_is_no_address(option: Any) -> None:
    with pytest.raises(ValueError, match="is no address such as"):
        addresses(option)


def test_a_request_and_its_answer() -> None:
    assert request_for("m", [1, 2])["input"] == [1, 2]
    numbers = np.array([[1.5, -2], [0, 3e30]], "<f4")
    for data in (base64.b64encode(numbers.tobytes()).decode(), numbers.tolist()):
        body = json.dumps({"model": "m", "data": [{"data": data}]}).encode()
        assert logits_of(body, "m", 2, 2).tolist() == numbers.tolist()
        for model, tokens, classes in (("x", 2, 2), ("m", 3, 2), ("m", 2, 1)):
            with pytest.raises(Garbage):
                logits_of(body, model, tokens, classes)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "model", "error", "message", "id", "max_model_len"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_an_answer_or_garbage(body: bytes) -> None:
    for read in (lambda: logits_of(body, "m", 1, 2), lambda: served_in(body)):
        with suppress(Garbage):
            read()
    said = message_of(body)
    assert len(said) <= 300
    assert said.isprintable()


def test_the_engines_import_nothing_heavy() -> None:
    from tests.conftest import run

    program = (
        "import sys, detector_plugin.transformers\n"
        "print([name for name in ('vllm', 'aiohttp', 'torch', 'transformers') if name in sys.modules])"
    )
    assert run([sys.executable, "-c", program], Path.cwd()).stdout.strip() == "[]"
