"""Servers on this machine: of chat completions, which marks the last word of each answer, and of plain completions."""

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
        _, to_mark, answer = body["messages"][-1]["content"].partition("[Answer]\n")
        head, _, word = answer.partition("\n\n[Tagged answer]")[0].rpartition(" ")
        said = f"<think>hm</think>{head} <entity>{word}</entity>" if to_mark else "I don't know"
        said = "I cannot do that." if "refuse" in str(body["messages"]) else said
        self.answer([{"index": 0, "message": {"role": "assistant", "content": said}}])

    def answer(self, choices: list[dict[str, Any]]) -> None:
        content = json.dumps({"choices": choices}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Completions(Endpoint):
    """Answers every prompt alike; the prompts are lists of tokens. It tokenizes for nobody (``GET``)."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append(body)
        self.answer([{"index": place, "text": "I don't know"} for place, _ in enumerate(body["prompt"])])


def served(kind: type[Endpoint]) -> Iterator[str]:
    kind.asked.clear()
    kind.addressed.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


@pytest.fixture
def url() -> Iterator[str]:
    for address in served(Endpoint):
        yield f"{address}/chat/completions"


@pytest.fixture
def completions() -> Iterator[str]:
    for address in served(Completions):
        yield f"{address}/completions"
