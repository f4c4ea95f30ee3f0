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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_plugin.detector import UnusableDetector, flag, number
from detector_plugin.transformers.engines import Engine, FailingInput, Loop, Setup, direction_probe
from detector_plugin.transformers.repository import first_line, library
from detector_plugin.transformers.windows import Reading

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

IN_FLIGHT = 64  # requests under way
RETRIES = 8  # of a request, with the waits below two minutes
TIMEOUT = 600.0  # seconds until an answer must have come
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; the wait doubles with each failure
LONGEST_ASKED_WAIT = 600.0  # seconds that a server's Retry-After may ask for
_GREETING = 10.0  # seconds for a server to say what it serves
_LONGEST_BODY = 1 << 26
_AGAIN = {408, 425, 429}  # what a server says that may take the request later; and all from 500 on
_NEVER = {400, 413, 422}  # what it says of an input that it cannot take


class Served(NamedTuple):
    """A model that a server has: the name by which it is asked for, where it was loaded from, and the tokens of an input,
    ``None`` where the server does not say."""

    name: str
    root: str
    longest: int | None


class Failed(Exception):
    """A request that may be sent again: what went wrong, in a few words that are counted, and in full; and the seconds
    after which the server wants to be asked again, ``None`` where it does not say."""

    def __init__(self, kind: str, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.after = kind, after


class Garbage(Failed):
    """A body that is no answer of this protocol. The message says what is wrong with it."""

    def __init__(self, why: str) -> None:
        super().__init__("garbled", f"its body is no answer: {why}")


@dataclass
class _Address:
    """A server: requests under way there, and the time before which it is not asked again."""

    url: str
    model: str
    busy: int = 0
    rests_until: float = 0.0


class Server(Engine):
    """Asks servers, and asks again where what went wrong may pass. An input that fails for good, while the server answers a
    short question, is named, or left out with `skip_failing`. ``detector_plugin/README.md`` has a table of its options, and
    of what goes wrong.
    """

    OPTIONS = ("base_url", "served_model", "in_flight", "retries", "timeout", "skip_failing")

    def __init__(self, setup: Setup) -> None:
        usual = {"in_flight": IN_FLIGHT, "retries": RETRIES, "timeout": TIMEOUT, "skip_failing": False}
        options = usual | {name: value for name, value in setup.options.items() if value is not None}
        self.name, self.classes = setup.model.name, len(setup.model.labels)
        self.in_flight: int = number("in_flight", options["in_flight"], int, 1)
        self.retries: int = number("retries", options["retries"], int, 0)
        self.timeout: float = number("timeout", options["timeout"], float, 0.001)
        self.skips_failing = flag("skip_failing", options["skip_failing"])
        if setup.reads_types:
            raise UnusableDetector(
                f"detector {self.name}: tells reference from answer by token types, which a server does not take; use "
                f"engine=vllm or engine=transformers, or the option form=paper if it was trained so"
            )
        found = find(self.name, options)
        self.servers = [_Address(url, served.name) for url, served in found.items()]
        self.longest = min((served.longest for served in found.values() if served.longest), default=None)
        self.sent_again: Counter[str] = Counter()
        self.loop = Loop()
        self._session: Any = None
        atexit.register(self.close)
        self._short = direction_probe(setup.model.config.vocab_size)[0]
        direction = "--hf-overrides '{\"is_causal\": false}'"
        setup.refuse_direction(
            lambda ids: self.loop.run(self._logits(ids)),
            causal=f"start the server with {direction}, or use attention=causal if the model was trained so",
            both_ways=f"start the server without {direction}, or use attention=bidirectional if the model was trained so",
        )

    @staticmethod
    def check(name: str, options: Mapping[str, Any]) -> None:
        """UnusableDetector where no server serves this model."""
        find(name, options)

    def read(self, readings: Iterable[Reading]) -> Iterator[tuple[Reading, NDArray[np.float32] | FailingInput]]:
        from scipy.special import softmax

        async def ask(reading: Reading) -> NDArray[np.float32] | FailingInput:
            try:
                return np.asarray(softmax(await self._logits(reading.ids), axis=-1))
            except FailingInput as failing:
                return failing

        before = self.sent_again.copy()
        try:
            yield from self.loop.each(ask, readings, self.in_flight)
        finally:
            if again := self.sent_again - before:
                kinds = ", ".join(f"{count} {kind}" for kind, count in again.most_common())
                log.warning("detector %s: %d requests were sent again: %s", self.name, again.total(), kinds)

    # Not tenacity, whose waits are each call's own: a server that wants to rest rests from all requests under way.
    async def _logits(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        for failures in range(self.retries + 1):
            server = min(self.servers, key=lambda one: (one.rests_until > time.monotonic(), one.busy))
            await asyncio.sleep(max(0.0, server.rests_until - time.monotonic()))
            server.busy += 1
            try:
                return await self._ask(server, ids)
            except Failed as failed:
                # The server rests as long as it asks for, else the longer, the more often the request has failed.
                rest = min(LONGEST_WAIT, FIRST_WAIT * 2**failures) if failed.after is None else failed.after
                until = time.monotonic() + min(rest, LONGEST_ASKED_WAIT)
                if failed.after is not None and until > server.rests_until + 1:  # once, not for each request under way
                    capped = f", of which {LONGEST_ASKED_WAIT:.0f} are waited" if rest > LONGEST_ASKED_WAIT else ""
                    said = f"{server.url} asks to wait {rest:.0f} seconds (Retry-After){capped}"
                    log.warning("detector %s: %s", self.name, said)
                server.rests_until = max(server.rests_until, until)
                if failures == self.retries:
                    said = f"{server.url}: {failed}; so it went {self.retries + 1} times"
                    if await self._answers_others():
                        raise FailingInput(said) from failed
                    raise UnusableDetector(
                        f"detector {self.name}: {said}. Where spans are kept (`lm-eval-grounded score`, or --use_cache), "
                        f"the same command goes on from here."
                    ) from failed
                self.sent_again[failed.kind] += 1
            finally:
                server.busy -= 1
        raise AssertionError("a request is answered or fails")

    async def _answers_others(self) -> bool:
        """Whether a server answers a short question now: then the input that failed is to blame."""
        for server in self.servers:
            try:
                await self._ask(server, self._short)
            except (Failed, UnusableDetector):
                continue
            return True
        return False

    async def _ask(self, server: _Address, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._session is None:
            self._session = _session(self.timeout)
        request = {
            "model": server.model,
            "task": "token_classify",
            "input": ids.tolist(),
            "use_activation": False,  # the logits of each token, as numbers of four bytes
            "encoding_format": "base64",
            "embed_dtype": "float32",
            "endianness": "little",
        }
        status, body, headers = await _answer(self._session, "POST", f"{server.url}/pooling", json=request)
        if status == 200:
            return logits_of(body, server.model, len(ids), self.classes)
        said = f"status {status}: {message_of(body)}"
        if status >= 500 or status in _AGAIN:
            raise Failed(f"with status {status}", said, seconds_of(headers.get("Retry-After"), time.time()))
        if status in _NEVER and ids is not self._short and await self._answers_others():
            raise FailingInput(f"{server.url}: {said}")
        hints = {
            404: " (a server that tags tokens is started with `vllm serve MODEL --runner pooling`)",
            401: " (a server that wants a key finds it in OPENAI_API_KEY)",
        }
        raise UnusableDetector(f"detector {self.name}: {server.url}: {said}{hints.get(status, '')}")

    def close(self) -> None:
        """Close the connections."""
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


async def _answer(session: Any, method: str, url: str, **options: Any) -> tuple[int, bytes, Mapping[str, str]]:
    """Status, body and headers of the answer to a request; Failed where none comes, or one longer than any answer is."""
    body = bytearray()
    try:
        async with session.request(method, url, allow_redirects=False, **options) as response:
            async for part in response.content.iter_chunked(1 << 16):
                body += part
                if len(body) > _LONGEST_BODY:
                    raise Garbage(f"it has more than {_LONGEST_BODY >> 20} MiB")
            return response.status, bytes(body), response.headers
    except asyncio.TimeoutError as error:
        raise Failed("timed out", f"no answer in {session.timeout.total:g} seconds") from error
    except (library("aiohttp").ClientError, OSError) as error:
        raise Failed("without a connection", first_line(error)) from error


def find(name: str, options: Mapping[str, Any]) -> dict[str, Served]:
    """The servers that answer, and what each calls the model; UnusableDetector where no address was named, none answers, or
    one serves another model.
    """
    start = f"vllm serve {name} --runner pooling"
    urls = addresses(options.get("base_url"))
    if not urls:
        raise UnusableDetector(
            f"detector {name}: engine=server asks a running server: start one with `{start}` and name it with the option "
            f"base_url=http://localhost:8000"
        )
    wanted = str(options.get("served_model") or name).rstrip("/")
    folder = str(Path(wanted).expanduser().resolve()) if Path(wanted).expanduser().is_dir() else None
    loop = Loop()
    try:
        answers = loop.run(_models_of(urls))
    finally:
        loop.close()
    found: dict[str, Served] = {}
    silent: dict[str, str] = {}
    for url, answer in answers.items():
        if isinstance(answer, str):
            silent[url] = answer
            continue
        match = [
            served
            for served in answer
            if wanted in (served.name, served.root) or folder in (served.name.rstrip("/"), served.root.rstrip("/"))
        ]
        if not match:
            others = ", ".join(repr(served.name) for served in answer) or "nothing"
            raise UnusableDetector(
                f"detector {name}: {url} serves {others}, not {wanted!r}. Start `{start}`, or, if it is the same model "
                f"under another name, say so: served_model={answer[0].name if answer else 'NAME'}"
            )
        found[url] = match[0]
    said = "; ".join(f"{url}: {why}" for url, why in silent.items())
    if not found:
        raise UnusableDetector(f"detector {name}: no server answers ({said}). Start one with `{start}`")
    if silent:
        log.warning("detector %s: goes on without the servers that do not answer (%s)", name, said)
    return found


async def _models_of(urls: list[str]) -> dict[str, list[Served] | str]:
    """What each server says that it serves, or what went wrong."""

    async def ask(session: Any, url: str) -> list[Served] | str:
        try:
            status, body, _ = await _answer(session, "GET", f"{url}/v1/models")
            return served_in(body) if status == 200 else f"status {status}: {message_of(body)}"
        except Failed as failed:
            return str(failed)

    async with _session(_GREETING) as session:
        return dict(zip(urls, await asyncio.gather(*(ask(session, url) for url in urls)), strict=True))


# What requests and answers hold


def addresses(option: Any) -> list[str]:
    """The servers' addresses: one, several in a list, or several with ``+`` or white space between them. What an OpenAI
    client would add (``/v1``, ``/pooling``) is taken off. UnusableDetector where one of them is no http address.
    """
    said = [str(one) for one in option] if isinstance(option, (list, tuple)) else [str(option or "")]
    parts = [part.strip() for one in said for part in re.split(r"[\s+|]+(?=https?://)", one) if part.strip()]
    for part in parts:
        if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", part):
            raise UnusableDetector(f"option base_url: {part!r} is no address such as http://localhost:8000")
    return [re.sub(r"(/v1|/pooling)*/*$", "", part.rstrip("/")) for part in dict.fromkeys(parts)]


def logits_of(body: bytes, model: str, tokens: int, classes: int) -> NDArray[np.float32]:
    """The logits in an answer, one row a token; Garbage where the body does not hold those of so many tokens and classes,
    or is of another model."""
    content = _object(body)
    if content.get("model") not in (None, model):
        raise Garbage(f"it is of the model {str(content['model'])[:100]!r}")
    try:
        (item,) = content["data"]
        data = item["data"]
        found = (
            np.frombuffer(base64.b64decode(data, validate=True), "<f4")
            if isinstance(data, str)
            else np.array(data, np.float32).ravel()
        )
    except (KeyError, TypeError, ValueError, binascii.Error, OverflowError) as error:
        raise Garbage(f"it has no data of one input ({type(error).__name__})") from error
    if found.size != tokens * classes:
        raise Garbage(f"it has {found.size} numbers for {tokens} tokens of {classes} classes")
    if not np.isfinite(found).all():
        raise Garbage("not all of its numbers are finite")
    return found.reshape(tokens, classes)


def served_in(body: bytes) -> list[Served]:
    """The models in an answer of ``/v1/models``; Garbage where it is none."""
    content = _object(body)
    try:
        return [
            Served(
                str(model["id"]),
                str(model.get("root") or model["id"]),
                int(model["max_model_len"]) if model.get("max_model_len") else None,
            )
            for model in content["data"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Garbage(f"it lists no models ({type(error).__name__})") from error


def message_of(body: bytes) -> str:
    """What an error's body says, in one line of at most 300 characters."""
    try:
        content = _object(body)
        error = content.get("error", content)
        text = str(error.get("message") or error.get("detail") or error) if isinstance(error, dict) else str(error)
    except Garbage:
        text = body[:2000].decode("utf-8", "replace")
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:300]


def seconds_of(retry_after: str | None, now: float) -> float | None:
    """The seconds that a header ``Retry-After`` asks for (RFC 9110, 10.2.3: a whole number of them, or a date); 0 for a
    date that has passed, ``None`` where there is no header or it says neither. `now` is in seconds since 1970."""
    said = (retry_after or "").strip()
    if re.fullmatch(r"[0-9]{1,12}", said):
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Garbage(f"it is no JSON ({len(body)} bytes)") from error
    if not isinstance(content, dict):
        raise Garbage("it is no JSON object")
    return content
