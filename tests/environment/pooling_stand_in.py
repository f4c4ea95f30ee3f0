"""A stand-in for ``vllm serve MODEL --runner pooling`` on this machine, which can fail on demand.

It speaks the same protocol (``/v1/models``, ``/pooling``), and its numbers are those of the real model. The real server
runs in ``tests/test_vllm_engine.py``.
"""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import Condition, Lock, Thread
from typing import Any

import numpy as np

Logits = Callable[[list[int]], Any]

FAULTS: Mapping[str, tuple[int, bytes | None]] = {
    "500": (500, b'{"error": {"message": "CUDA error:\\nan illegal\\u001b[31m access", "code": 500}}'),
    "503": (503, b"<html>no backend</html>"),
    "429": (429, b'{"detail": "slow down"}'),
    "400": (400, b'{"error": {"message": "This model\'s maximum context length is 8 tokens."}}'),
    "401": (401, b'{"error": "Unauthorized"}'),
    "404": (404, b'{"detail": "Not Found"}'),
    "302": (302, b""),
    "empty": (200, b""),
    "text": (200, b"upstream request timeout"),
    "no data": (200, b'{"data": []}'),
    "bad base64": (200, b'{"data": [{"data": "###"}]}'),
    "deep": (200, b"[" * 100_000),
    "another model": (200, b'{"model": "other", "data": [{"data": [[1, 2]]}]}'),
    "hangs up": (200, None),
}
"""Name of a fault to status and body."""


class Server:
    """What a server was asked, and what it is to do."""

    def __init__(self, logits: Logits, model: str, longest: int | None = None) -> None:
        self.address = ""
        self.logits = logits
        # What ``/v1/models`` says.
        self.models: Any = {"object": "list", "data": [{"id": model, "root": model, "max_model_len": longest}]}
        self.faults: Iterator[str] = iter(())  # of the next requests; when none is left, requests are answered
        self.fails_on: Callable[[list[int]], str] = lambda ids: ""  # the fault of an input that always fails
        self.retry_after: str | None = None  # header of the faults that are statuses
        self.asked: list[dict[str, Any]] = []  # bodies of the requests that were answered
        self.kinds: Counter[str] = Counter()  # how often each fault was served
        self.most = self.under_way = 0  # requests at once
        self.hold = 0  # an answer waits until so many requests are under way, or a second has passed
        self.key: str | None = None  # that requests must carry
        self.changed = Condition()
        self.one_at_a_time = Lock()  # torch, in several threads, is no faster

    def answer(self, body: dict[str, Any]) -> bytes:
        with self.one_at_a_time:
            logits = np.asarray(self.logits(body["input"]), np.float32)
            self.asked.append(body)
        assert body["task"] == ("classify" if logits.ndim == 1 else "token_classify")
        assert body["use_activation"] is False
        data: Any = logits.tolist()
        if body.get("encoding_format") == "base64":
            data = base64.b64encode(logits.astype("<f4").tobytes()).decode()
        item = {"index": 0, "object": "pooling", "data": data}
        return json.dumps({"id": "pool-1", "object": "list", "model": body["model"], "data": [item]}).encode()


@contextmanager
def serving(server: Server, port: int = 0) -> Iterator[Server]:
    """The server, as long as the context lasts; then it is gone, with its connections."""

    connections: list[socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, json.dumps(server.models).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.changed:
                server.under_way += 1
                server.most = max(server.most, server.under_way)
                server.changed.notify_all()
                server.changed.wait_for(lambda: server.most >= server.hold, 1)
            try:
                self._answer(body)
            finally:
                with server.changed:
                    server.under_way -= 1

        def _answer(self, body: dict[str, Any]) -> None:
            if server.key is not None and self.headers["Authorization"] != f"Bearer {server.key}":
                return self._send(*FAULTS["401"])
            with server.one_at_a_time:
                fault = next(server.faults, "") or server.fails_on(body["input"])
            if not fault:
                return self._send(200, server.answer(body))
            server.kinds[fault] += 1
            if fault == "late":
                time.sleep(1)
                return self._send(200, server.answer(body))
            if fault in ("short", "NaN"):
                content = json.loads(server.answer({**body, "encoding_format": "float"}))
                rows = content["data"][0]["data"]
                content["data"][0]["data"] = (
                    rows[:-1] if fault == "short" else [[float("nan")] * len(rows[0])] * len(rows)
                )
                return self._send(200, json.dumps(content).encode())
            return self._send(*FAULTS[fault])

        def _send(self, status: int, body: bytes | None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(1000 if body is None else len(body)))
            if status >= 400 and server.retry_after is not None:
                self.send_header("Retry-After", server.retry_after)
            self.end_headers()
            if body is None:  # a part of the body, and the end
                self.wfile.write(b'{"data": ')
                self.close_connection = True
                return
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

        def handle(self) -> None:
            connections.append(self.connection)
            with suppress(OSError):  # who asked has gone
                super().handle()

    class Listening(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    listening = Listening(("127.0.0.1", port), Handler)
    thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    server.address = f"http://127.0.0.1:{listening.server_address[1]}"
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
        for connection in connections:  # their threads would go on answering
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)
