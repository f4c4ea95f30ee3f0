"""A server of chat completions on this machine, which marks the last word of each answer."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Tags the last word as wrong; says what it likes of an answer with "refuse" in it."""

    asked: list[dict[str, Any]] = []  # noqa: RUF012 (one server, one list)
    addressed: list[tuple[str, ...]] = []  # noqa: RUF012 (paths, and what the headers say of who asks)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append(body)
        who = (self.headers.get(name, "") for name in ("Authorization", "X-Gateway-Token"))
        type(self).addressed.append((self.path, *who))
        answer = body["messages"][-1]["content"].split("[Answer]\n", 1)[1].split("\n\n[Tagged answer]", 1)[0]
        head, _, word = answer.rpartition(" ")
        said = f"<think>hm</think>{head} <entity>{word}</entity>"
        said = "I cannot do that." if "refuse" in str(body["messages"]) else said
        content = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": said}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Endpoint.asked.clear()
    Endpoint.addressed.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    server.shutdown()
