"""The engine ``server``: what servers do to requests, and what becomes of the answers. The server is a stand-in with a real
model behind it; ``tests/test_vllm_engine.py`` has the real one."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("aiohttp")

import torch
import transformers

from detector_plugin.detector import UnusableDetector
from detector_plugin.loading import check_detector, load_detector
from detector_plugin.span_store import StoredDetector
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.engines import server
from tests.conftest import command as command_of
from tests.conftest import results_of, run
from tests.environment.pooling_stand_in import Server, serving
from tests.logged_runs import copied, lines, only_predicted
from tests.shared_once import SharedOnce

ANSWERS = [f"the sun is a {word} star." for word in ("red", "hot", "big") for _ in range(4)]
DOCUMENTS = ([f"the moon is cold. {'a big rock, ' * n}" for n in range(12)], ANSWERS, ["en"] * 12)
Detector = Callable[..., TransformersDetector]
Start = Callable[..., Server]


def logits_of(folder: Path, both_ways: bool) -> Callable[[list[int]], Any]:
    """Of a Llama that sees both ways, as ``--hf-overrides '{"is_causal": false}'`` makes vLLM compute them, or does not."""
    model = transformers.LlamaForTokenClassification.from_pretrained(folder, attn_implementation="sdpa").eval()

    def of(ids: list[int]) -> Any:
        mask = torch.zeros(1, 1, len(ids), len(ids)) if both_ways else None
        with torch.inference_mode():
            return model(input_ids=torch.tensor([ids]), attention_mask=mask).logits[0].numpy()

    return of


@pytest.fixture
def start(llama_classifier: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts servers of the Llama; they end with the test."""
    monkeypatch.setattr(server, "FIRST_WAIT", 0.01)
    logits = logits_of(llama_classifier, both_ways=True)
    with ExitStack() as stack:

        def started(**attributes: Any) -> Server:
            made = Server(logits, str(llama_classifier), 128)
            vars(made).update(attributes)
            return stack.enter_context(serving(made))

        yield started


@pytest.fixture
def detector(llama_classifier: Path) -> Detector:
    """Makes detectors that ask servers."""

    def made(*servers: Server, **options: Any) -> TransformersDetector:
        addresses = "+".join(one.address for one in servers)
        return TransformersDetector(str(llama_classifier), engine="server", base_url=addresses, **options)

    return made


@pytest.fixture
def stored(llama_classifier: Path, tmp_path: Path) -> Callable[..., StoredDetector]:
    """Makes detectors that keep their spans in the test's file."""

    def made(**options: Any) -> StoredDetector:
        options = {"engine": "server", **options} if options else {}
        return StoredDetector(load_detector(str(llama_classifier), **options), tmp_path / "spans.jsonl", options)

    return made


@pytest.fixture(scope="module")
def expected(llama_classifier: Path) -> list[Any]:
    """What the engine ``transformers`` finds."""
    return TransformersDetector(str(llama_classifier)).detect(*DOCUMENTS)


def test_the_same_probabilities_and_spans(llama_classifier: Path, start: Start, detector: Detector) -> None:
    here = TransformersDetector(str(llama_classifier), max_length=48)
    one = start()
    there = detector(one, max_length=48, in_flight=7)
    one.most, one.hold = 0, 7
    assert (there.name, there.version, there.licence) == (here.name, here.version, here.licence)
    mine, theirs = (
        {document.index: document.best for document in one.token_probabilities(*DOCUMENTS)} for one in (here, there)
    )
    assert mine.keys() == theirs.keys() == set(range(12))
    assert one.most == 7
    for index, best in mine.items():
        np.testing.assert_allclose(theirs[index], best, atol=1e-5)
    found = here.detect(*DOCUMENTS)
    assert there.detect(*DOCUMENTS) == found
    assert sum(map(len, found)) > 3
    assert there.detect([], [], []) == []
    assert there.detect(["a", "b"], ["", " "], [None, None]) == [[], []]


@pytest.mark.parametrize(
    ("fault", "counted"),
    [
        *((status, f"with status {status}") for status in ("500", "503", "429")),
        ("late", "timed out"),
        ("hangs up", "without a connection"),
        *((fault, "garbled") for fault in ("empty", "no data", "bad base64", "deep", "another model", "short", "NaN")),
    ],
)
def test_what_passes_is_survived_and_counted(
    start: Start, detector: Detector, caplog: pytest.LogCaptureFixture, expected: list[Any], fault: str, counted: str
) -> None:
    one = start()
    made = detector(one, timeout=0.7 if fault == "late" else 60)
    one.asked.clear()
    one.faults = iter(["", fault, "", fault])
    assert made.detect(*DOCUMENTS) == expected
    assert one.kinds[fault] == 2
    assert f"2 requests were sent again: 2 {counted}" in caplog.text
    caplog.clear()
    made.detect(*DOCUMENTS)
    assert "sent again" not in caplog.text  # of this call


@pytest.mark.parametrize(
    ("fault", "asked", "message"),
    [
        (
            "500",
            4,
            r"status 500: CUDA error: an illegal \[31m access; so it went 3 times\. Where spans are kept .* goes",
        ),
        ("text", 4, r"its body is not an answer: it is not JSON \(24 bytes\); so it went 3 times"),
        ("short", 4, r"it has \d+ numbers for \d+ tokens of 2 classes; so"),
        ("hangs up", 4, "ClientPayloadError.*; so"),
        ("400", 2, r"status 400: This model's maximum context length is 8 tokens\.$"),  # to a short question, too
        ("401", 1, "status 401: Unauthorized .*OPENAI_API_KEY"),
        ("404", 1, "status 404: Not Found .*--runner pooling"),
        ("302", 1, "status 302"),
    ],
)
def test_what_stays_is_an_error(start: Start, detector: Detector, fault: str, asked: int, message: str) -> None:
    """Of 400, and of what was tried three times: does it read others?"""
    one = start()
    made = detector(one, retries=2, in_flight=1)
    one.faults = itertools.repeat(fault)
    with pytest.raises(UnusableDetector, match=message):
        made.detect(*DOCUMENTS)
    assert one.kinds[fault] == asked


@pytest.mark.parametrize(("fault", "asked"), [("400", 1), ("500", 3), ("hangs up", 3)])
def test_an_answer_that_always_fails(
    tmp_path: Path,
    start: Start,
    detector: Detector,
    stored: Callable[..., StoredDetector],
    caplog: pytest.LogCaptureFixture,
    expected: list[Any],
    fault: str,
    asked: int,
) -> None:
    one = start()
    options: dict[str, Any] = {"base_url": one.address, "retries": 2, "in_flight": 2}
    made = stored(**options)
    lengths = Counter(len(body["input"]) for body in one.asked)
    one.asked.clear()
    detector(one).detect(*DOCUMENTS)
    longest = max(len(body["input"]) for body in one.asked)  # of the last answer alone
    assert longest not in lengths
    one.fails_on = lambda ids: fault if len(ids) == longest else ""
    with pytest.raises(UnusableDetector) as refused:
        made.detect(*DOCUMENTS)
    assert f"It is the answer {ANSWERS[-1]!r}. `lm-eval-grounded score --skip-failing`" in str(refused.value)
    assert one.kinds[fault] == asked
    for again in range(2):  # what is known to fail is not asked again
        assert stored(**options, skip_failing=True).detect(*DOCUMENTS) == [*expected[:-1], None]
        assert one.kinds[fault] == 2 * asked
        assert caplog.text.count("it is left out") == 1, again
    assert len((tmp_path / "spans.jsonl").read_text("utf-8").splitlines()) == 12
    one.fails_on = lambda ids: ""  # without the option it is asked, and may be read by now
    assert stored(**options, skip_failing=False).detect(*DOCUMENTS) == expected


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *(("120", 120.0), (" 0 ", 0.0)),
        *(("Thu, 01 Jan 1970 00:20:00 GMT", 200.0), ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0)),
        *((header, None) for header in (None, "", "soon", "-5", "9" * 40, "Thu, 99 Jan 1970 00:00:10 GMT")),
    ],
)
def test_what_retry_after_says(header: str | None, seconds: float | None) -> None:
    assert server.parse_retry_after(header, 1000.0) == seconds


def test_a_server_is_left_alone_as_long_as_it_asks_for(
    start: Start, detector: Detector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start(retry_after="7200")
    monkeypatch.setattr(server, "FIRST_WAIT", 50.0)  # what is asked for holds, shorter or longer
    monkeypatch.setattr(server, "LONGEST_ASKED_WAIT", 2.0)
    made = detector(one, in_flight=1)
    one.faults = iter(["429"])
    begun = time.monotonic()
    made.detect(*DOCUMENTS)
    assert 2 <= time.monotonic() - begun < 40
    said = f"{one.address} asks to wait 7200 seconds (Retry-After), of which 2 are waited"
    assert sum(said in message for message in caplog.messages) == 1


def test_a_key(start: Start, detector: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    one = start(key="secret")
    with pytest.raises(UnusableDetector, match="OPENAI_API_KEY"):
        detector(one)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert detector(one).detect(["the moon"], [" "], ["en"]) == [[]]


# Which server, which model


def test_servers_that_do_not_fit(
    llama_classifier: Path, lookup: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    name, one = str(llama_classifier), start()
    gone = "http://127.0.0.1:9"
    for folder, options, message in [
        (name, {"base_url": ""}, r"start one with `vllm serve .*llama --runner pooling` and name it with .* base_url="),
        (name, {"base_url": "localhost:8000"}, "option base_url: 'localhost:8000' is not an address"),
        (name, {"base_url": gone}, rf"no server answers \({gone}: ClientConnectorError.*Start one with `vllm serve"),
        (name, {"served_model": "x"}, rf"{one.address} serves '{name}', not 'x'"),
        (name, {"max_length": 500}, "max_length=500, but the model reads 128 tokens at most"),
        (name, {"in_flight": 0}, "option in_flight: 0 is not a whole number from 1"),
        (name, {"quantization": "fp8"}, r"no option 'quantization'; there are .*base_url.*time"),
        (name, {"attention": "causal"}, "attention is in both directions here, not causal: st"),
        (name, {"engine": "tgi"}, r"option engine: 'tgi' is none of transformers, vllm, server"),
        (str(lookup), {}, r"tells reference from answer by token types, .*engine=vllm"),
    ]:
        with pytest.raises(UnusableDetector, match=message):
            TransformersDetector(folder, **{"engine": "server", "base_url": one.address, **options})
    with pytest.raises(UnusableDetector, match="no server answers"):
        check_detector(name, json.dumps({"engine": "server", "base_url": gone}))
    made = TransformersDetector(name, engine="server", base_url=[gone, f"{one.address}/v1/"])
    assert f"goes on without the servers that do not answer ({gone}: " in caplog.text
    assert made.detect(["the moon"], [""], ["en"]) == [[]]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"data": [{"id": "other", "root": "org/other"}]}, r"serves 'other', not '.*llama'.*served_model=other"),
        ({"data": []}, "serves nothing, not"),
        ({"data": "x"}, "its body is not an answer: it lists no models"),
        ([], "it is not a JSON object"),
    ],
)
def test_what_servers_say_of_themselves(start: Start, detector: Detector, models: Any, message: str) -> None:
    one = start(models=models)
    with pytest.raises(UnusableDetector, match=message):
        detector(one)
    if "served_model=other" in message:
        detector(one, served_model="other").detect(["the moon"], ["a sun"], ["en"])
        assert {asked["model"] for asked in one.asked} == {"other"}


def test_attention_that_stays_causal_is_noticed(llama_classifier: Path, detector: Detector) -> None:
    """As vLLM serves a Llama that nobody told it about."""
    with serving(Server(logits_of(llama_classifier, both_ways=False), str(llama_classifier))) as one:
        with pytest.raises(UnusableDetector, match=r"attention is causal here, not in both .*\"is_causal\": false"):
            detector(one)
        here = TransformersDetector(str(llama_classifier), attention="causal")
        assert detector(one, attention="causal").detect(*DOCUMENTS) == here.detect(*DOCUMENTS)


def test_several_servers_share_the_work_and_one_of_them_goes_away(
    llama_classifier: Path, start: Start, detector: Detector, expected: list[Any]
) -> None:
    stays = start()
    with serving(Server(logits_of(llama_classifier, both_ways=True), str(llama_classifier))) as goes:
        made = detector(goes, stays, in_flight=4)
        goes.asked.clear()
        assert made.detect(*DOCUMENTS) == expected
        assert len(goes.asked) + len(stays.asked) == 12
        assert min(len(goes.asked), len(stays.asked)) >= 3
    assert made.detect(*DOCUMENTS) == expected
    assert made.engine.sent_again["without a connection"] >= 1  # type: ignore[attr-defined]


def test_what_was_tagged_is_kept_and_another_server_goes_on(
    tmp_path: Path, start: Start, stored: Callable[..., StoredDetector], expected: list[Any]
) -> None:
    store, first, second = tmp_path / "spans.jsonl", start(), start()
    made = stored(base_url=first.address, retries=1, in_flight=1)
    first.asked.clear()
    first.faults = itertools.chain([""] * 5, itertools.repeat("503"))
    with pytest.raises(UnusableDetector, match="status 503"):
        made.detect(*DOCUMENTS)
    assert len(store.read_text("utf-8").splitlines()) == len(first.asked) == 5
    again = stored(base_url=second.address, retries=1, in_flight=3)
    second.asked.clear()
    assert again.detect(*DOCUMENTS) == expected
    assert len(second.asked) == 7
    assert stored().detect(*DOCUMENTS) == expected  # the same spans, whoever computes them
    assert len(store.read_text("utf-8").splitlines()) == 12


@pytest.mark.slow("the command is started twice")
def test_score_leaves_out_what_a_server_always_fails_on_and_counts_it(
    shared_once: SharedOnce, tmp_path: Path, llama_classifier: Path, start: Start
) -> None:
    predicted = copied(only_predicted(shared_once), tmp_path / "run")
    one = start()
    one.fails_on = lambda ids: "400" if len(ids) % 3 == 0 else ""

    def score(*options: str, check: bool = True) -> str:
        detector = ["--detector", str(llama_classifier), "--detector_args", f"engine=server,base_url={one.address}"]
        command = [command_of("lm-eval-grounded"), "score", str(predicted), *detector, "-o", str(tmp_path / "to")]
        return run([*command, *options], tmp_path, check).stderr

    last = score(check=False).strip().splitlines()[-1]
    assert "status 400: This model's maximum context length" in last
    assert "--skip-failing" in last
    (store,) = (tmp_path / "to").glob(".spans_*.jsonl")  # what was tagged is kept
    assert lines(store)
    score("--skip-failing")
    results = results_of(tmp_path / "to")
    total = left_out = 0
    for task in ("mfava_de", "mfava_zh"):
        (samples,) = (tmp_path / "to").rglob(f"samples_{task}_*.jsonl")
        rows = lines(samples)
        untagged = [row for row in rows if '"spans": null' in row["filtered_resps"][0]]
        assert all(row[name] is None for row in untagged for name in ("detected_rate", "hallucinated_words"))
        metadata = results["configs"][task]["metadata"]
        assert metadata["figures"]["answer"]["detected_rate"]["n"] == len(rows) - len(untagged)
        counted = metadata["provenance"].get("left_out", {})
        assert counted.get("answers that the detector cannot read", 0) == len(untagged)
        total, left_out = total + len(rows), left_out + len(untagged)
    assert 0 < left_out < total
