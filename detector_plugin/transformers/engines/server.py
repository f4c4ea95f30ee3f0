"""The engine ``server``: a running ``vllm serve``, or several, asked over HTTP with many requests under way.

Its protocol is vLLM's, of ``/pooling`` and ``/v1/models``.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import binascii
import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.usage.secrets import blank
from detector_plugin.detector import UnusableDetector, parse_flag, parse_number
from detector_plugin.transformers.engines import Engine, FailingInput, LoopThread, Setup, direction_probe
from detector_plugin.transformers.inputs import Window
from detector_plugin.transformers.model import first_line, library

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

DEFAULTS = {"in_flight": 64, "retries": 8, "timeout": 600.0, "skip_failing": False}
"""Requests under way; retries of a request, with waits of less than two minutes together; seconds for an answer."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; the wait doubles with each failure
LONGEST_ASKED_WAIT = 600.0  # seconds that a server's Retry-After may ask for
_LISTING_TIMEOUT = 10.0  # seconds for a server to list its models
_LONGEST_BODY = 1 << 26
_RETRYABLE = {408, 425, 429}  # statuses of a server that may take the request later; and all from 500 on
_REJECTED = {400, 413, 422}  # statuses for an input that it cannot take
_HINTS = {
    404: " (a server that classifies is started with `vllm serve MODEL --runner pooling`)",
    401: " (a server that wants a key finds it in OPENAI_API_KEY)",
}


class RequestFailed(Exception):
    """A request that may be sent again: what went wrong, in a few words that are counted, and in full; and the seconds
    after which the server wants to be asked again, ``None`` where it does not say."""

    def __init__(self, kind: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.retry_after = kind, retry_after


class InvalidReply(RequestFailed):
    """A body that is not an answer of this protocol. The message says what is wrong with it."""

    def __init__(self, why: str) -> None:
        super().__init__("garbled", f"its body is not an answer: {why}")


@dataclass
class ServedModel:
    """A model that a server has, requests under way there, and the time before which the server is not asked again."""

    name: str  # by which it is asked for
    root: str  # from which it was loaded
    longest: int | None  # tokens of an input; None where the server does not say
    url: str = ""
    busy: int = 0
    paused_until: float = 0.0


class Server(Engine):
    """Asks servers, and asks again where what went wrong may pass. An input that fails for good, while the server answers a
    short question, is named, or left out with `skip_failing`. ``detector_plugin/README.md`` has a table of its options, and
    of what goes wrong.
    """

    OPTIONS = ("base_url", "served_model", *DEFAULTS)

    def __init__(self, setup: Setup) -> None:
        options = DEFAULTS | {name: value for name, value in setup.options.items() if value is not None}
        self.name, self.classes, self.task = setup.model.name, len(setup.model.labels), setup.task
        self.in_flight: int = parse_number("in_flight", options["in_flight"], int, 1)
        self.retries: int = parse_number("retries", options["retries"], int, 0)
        self.timeout: float = parse_number("timeout", options["timeout"], float, 0.001)
        self.skips_failing = parse_flag("skip_failing", options["skip_failing"])
        if setup.reads_types:
            raise UnusableDetector(
                f"detector {self.name}: tells reference from answer by token types, which a server does not take; use "
                f"engine=vllm or engine=transformers, or the option form=paper if it was trained so"
            )
        self.servers = find_servers(self.name, options)
        self.longest = min((server.longest for server in self.servers if server.longest), default=None)
        self.sent_again: Counter[str] = Counter()
        self.loop = LoopThread()
        self._session: Any = None
        atexit.register(self.close)
        self._short_input = direction_probe(setup.model.config.vocab_size)[0]
        direction = "--hf-overrides '{\"is_causal\": false}'"
        setup.check_direction(
            lambda ids: self.loop.run(self._logits(ids)),
            causal=f"start the server with {direction}, or use attention=causal if the model was trained so",
            both_ways=f"start the server without {direction}, or use attention=bidirectional if the model was trained so",
        )

    @staticmethod
    def check(name: str, options: Mapping[str, Any]) -> None:
        """UnusableDetector where no server serves this model."""
        find_servers(name, options)

    def classify(self, windows: Iterable[Window]) -> Iterator[tuple[Window, NDArray[np.float32] | FailingInput]]:
        from scipy.special import softmax

        async def ask(window: Window) -> NDArray[np.float32] | FailingInput:
            try:
                return np.asarray(softmax(await self._logits(window.ids), axis=-1))
            except FailingInput as failing:
                return failing

        before = self.sent_again.copy()
        try:
            yield from self.loop.as_completed(ask, windows, self.in_flight)
        finally:
            if resent := self.sent_again - before:
                kinds = ", ".join(f"{count} {kind}" for kind, count in resent.most_common())
                log.warning("detector %s: %d requests were sent again: %s", self.name, resent.total(), kinds)

    # Not tenacity, whose waits are each call's own: a server that wants to rest rests from all requests under way.
    async def _logits(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        for failures in range(self.retries + 1):
            now = time.monotonic()
            server = min(self.servers, key=lambda candidate: (candidate.paused_until > now, candidate.busy))
            await asyncio.sleep(max(0.0, server.paused_until - now))
            server.busy += 1
            try:
                return await self._request_logits(server, ids)
            except RequestFailed as failed:
                self._pause(server, failed.retry_after, failures)
                if failures == self.retries:
                    message = blank(f"{server.url}: {failed}; so it went {self.retries + 1} times")
                    if await self._still_answers():
                        raise FailingInput(message) from failed
                    raise UnusableDetector(
                        f"detector {self.name}: {message}. Where spans are kept (`lm-eval-grounded score`, or "
                        f"--use_cache), the same command goes on from here."
                    ) from failed
                self.sent_again[failed.kind] += 1
            finally:
                server.busy -= 1
        raise AssertionError("a request is answered or fails")

    def _pause(self, server: ServedModel, asked: float | None, failures: int) -> None:
        """Let a server rest as long as it asks for; otherwise the longer, the more often the request has failed."""
        seconds = min(LONGEST_WAIT, FIRST_WAIT * 2**failures) if asked is None else asked
        until = time.monotonic() + min(seconds, LONGEST_ASKED_WAIT)
        if asked is not None and until > server.paused_until + 1:  # logged once, not for each request under way
            capped = f", of which {LONGEST_ASKED_WAIT:.0f} are waited" if seconds > LONGEST_ASKED_WAIT else ""
            message = f"{server.url} asks to wait {seconds:.0f} seconds (Retry-After){capped}"
            log.warning("detector %s: %s", self.name, blank(message))
        server.paused_until = max(server.paused_until, until)

    async def _still_answers(self) -> bool:
        """Whether a server answers a short question now: then the input that failed is to blame."""
        for server in self.servers:
            try:
                await self._request_logits(server, self._short_input)
            except (RequestFailed, UnusableDetector):
                continue
            return True
        return False

    async def _request_logits(self, server: ServedModel, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._session is None:
            self._session = _session(self.timeout)
        request = {"model": server.name, "task": self.task, "input": ids.tolist()}
        request["use_activation"] = False  # the logits, as numbers of four bytes
        request |= {"encoding_format": "base64", "embed_dtype": "float32", "endianness": "little"}
        status, body, headers = await _fetch(self._session, "POST", f"{server.url}/pooling", json=request)
        if status == 200:
            return parse_logits(body, server.name, 1 if self.task == "classify" else len(ids), self.classes)
        problem = f"status {status}: {error_message(body)}"
        if status >= 500 or status in _RETRYABLE:
            wait = parse_retry_after(headers.get("Retry-After"), time.time())
            raise RequestFailed(f"with status {status}", problem, wait)
        if status in _REJECTED and ids is not self._short_input and await self._still_answers():
            raise FailingInput(blank(f"{server.url}: {problem}"))
        raise UnusableDetector(f"detector {self.name}: {server.url}: {problem}{_HINTS.get(status, '')}")

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._session is not None:
            self.loop.run(self._session.close())
        self.loop.close()


def _session(timeout: float) -> Any:
    """Connections, with the key that the harness's models of APIs send."""
    client = library("aiohttp")
    key = os.environ.get("OPENAI_API_KEY")
    return client.ClientSession(
        connector=client.TCPConnector(limit=0),
        timeout=client.ClientTimeout(total=timeout, sock_connect=min(30.0, timeout)),
        headers={"Authorization": f"Bearer {key}"} if key else {},
    )


async def _fetch(session: Any, method: str, url: str, **options: Any) -> tuple[int, bytes, Mapping[str, str]]:
    """Status, body and headers of the answer to a request; RequestFailed where none comes, or one that is too long."""
    body = bytearray()
    try:
        async with session.request(method, url, allow_redirects=False, **options) as response:
            async for chunk in response.content.iter_chunked(1 << 16):
                body += chunk
                if len(body) > _LONGEST_BODY:
                    raise InvalidReply(f"it has more than {_LONGEST_BODY >> 20} MiB")
            return response.status, bytes(body), response.headers
    except asyncio.TimeoutError as error:
        raise RequestFailed("timed out", f"no answer in {session.timeout.total:g} seconds") from error
    except (library("aiohttp").ClientError, OSError) as error:
        raise RequestFailed("without a connection", first_line(error)) from error


def find_servers(name: str, options: Mapping[str, Any]) -> list[ServedModel]:
    """The model on each server that answers; UnusableDetector where no address was named, none answers, or one serves
    another model.
    """
    start = f"vllm serve {name} --runner pooling"
    urls = parse_addresses(options.get("base_url"))
    if not urls:
        raise UnusableDetector(
            f"detector {name}: engine=server asks a running server: start one with `{start}` and name it with the option "
            f"base_url=http://localhost:8000"
        )
    wanted = str(options.get("served_model") or name).rstrip("/")
    known_as = {wanted}
    if (folder := Path(wanted).expanduser()).is_dir():
        known_as.add(str(folder.resolve()))

    async def models_of(session: Any, url: str) -> list[ServedModel] | str:
        """The models that a server lists, or what went wrong."""
        try:
            status, body, _ = await _fetch(session, "GET", f"{url}/v1/models")
            return parse_models(body) if status == 200 else f"status {status}: {error_message(body)}"
        except RequestFailed as failed:
            return str(failed)

    async def listings() -> list[list[ServedModel] | str]:
        async with _session(_LISTING_TIMEOUT) as session:
            return await asyncio.gather(*(models_of(session, url) for url in urls))

    loop = LoopThread()
    try:
        answers = dict(zip(urls, loop.run(listings()), strict=True))
    finally:
        loop.close()
    servers: list[ServedModel] = []
    for url, models in answers.items():
        if isinstance(models, str):
            continue
        match = next((model for model in models if known_as & {model.name.rstrip("/"), model.root.rstrip("/")}), None)
        if match is None:
            names = ", ".join(repr(model.name) for model in models) or "nothing"
            raise UnusableDetector(
                f"detector {name}: {url} serves {names}, not {wanted!r}. Start `{start}`, or, if it is the same model "
                f"under another name, say so: served_model={models[0].name if models else 'NAME'}"
            )
        match.url = url
        servers.append(match)
    silent = "; ".join(f"{url}: {answer}" for url, answer in answers.items() if isinstance(answer, str))
    if not servers:
        raise UnusableDetector(f"detector {name}: no server answers ({silent}). Start one with `{start}`")
    if silent:
        log.warning("detector %s: goes on without the servers that do not answer (%s)", name, blank(silent))
    return servers


# The content of requests and answers


def parse_addresses(option: Any) -> list[str]:
    """The servers' addresses: one, several in a list, or several with ``+`` or white space between them. What an OpenAI
    client would add (``/v1``, ``/pooling``) is taken off. UnusableDetector where one of them is not an http address.
    """
    texts = [str(text) for text in option] if isinstance(option, (list, tuple)) else [str(option or "")]
    parts = (part.strip() for text in texts for part in re.split(r"[\s+|]+(?=https?://)", text))
    addresses = [*dict.fromkeys(filter(None, parts))]
    for address in addresses:
        if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", address):
            raise UnusableDetector(f"option base_url: {address!r} is not an address such as http://localhost:8000")
    return [re.sub(r"(/v1|/pooling)*/*$", "", address.rstrip("/")) for address in addresses]


def parse_logits(body: bytes, model: str, tokens: int, classes: int) -> NDArray[np.float32]:
    """The logits in an answer, one row a token; InvalidReply where the body does not hold so many tokens and classes,
    or is of another model."""
    content = _json_object(body)
    if content.get("model") not in (None, model):
        raise InvalidReply(f"it is of the model {str(content['model'])[:100]!r}")
    try:
        (item,) = content["data"]
        data = item["data"]
        is_text = isinstance(data, str)
        decoded = np.frombuffer(base64.b64decode(data, validate=True), "<f4") if is_text else np.array(data, np.float32)
    except (KeyError, TypeError, ValueError, binascii.Error, OverflowError) as error:
        raise InvalidReply(f"it has no data of one input ({type(error).__name__})") from error
    if decoded.size != tokens * classes:
        raise InvalidReply(f"it has {decoded.size} numbers for {tokens} tokens of {classes} classes")
    if not np.isfinite(decoded).all():
        raise InvalidReply("not all of its numbers are finite")
    return decoded.reshape(tokens, classes)


def parse_models(body: bytes) -> list[ServedModel]:
    """The models in an answer of ``/v1/models``; InvalidReply where it is not one."""
    models = []
    try:
        for entry in _json_object(body)["data"]:
            name, longest = str(entry["id"]), int(entry.get("max_model_len") or 0) or None
            models.append(ServedModel(name, str(entry.get("root") or name), longest))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidReply(f"it lists no models ({type(error).__name__})") from error
    return models


def error_message(body: bytes) -> str:
    """What an error's body says, in one line of at most 300 characters."""
    try:
        content = _json_object(body)
        error = content.get("error", content)
        text = str(error.get("message") or error.get("detail") or error) if isinstance(error, dict) else str(error)
    except InvalidReply:
        text = body[:2000].decode("utf-8", "replace")
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())[:300]


def parse_retry_after(retry_after: str | None, now: float) -> float | None:
    """The seconds that a header ``Retry-After`` asks for (RFC 9110, 10.2.3: a whole number of them, or a date); 0 for a
    date that has passed, ``None`` where there is no header or it says neither. `now` is in seconds since 1970."""
    value = (retry_after or "").strip()
    if re.fullmatch(r"[0-9]{1,12}", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidReply(f"it is not JSON ({len(body)} bytes)") from error
    if not isinstance(content, dict):
        raise InvalidReply("it is not a JSON object")
    return content
