"""A stand-in for the part of the Hugging Face hub that ``lm_eval --hf_hub_log_args`` uses: datasets, kept in memory.

Files are always stored as plain ones: the store for large files is another service, which nothing here stands in for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_stand_in"
REVISION = "0" * 40
_API = re.compile(
    r"/api/datasets/(?P<repository>[^/]+/[^/]+)/(?P<what>preupload|commit|paths-info|revision|tree)/[^/]+(?:/(?P<below>.+))?"
)
_FILE = re.compile(r"/datasets/(?P<repository>[^/]+/[^/]+)/resolve/[^/]+/(?P<path>.+)")


class Hub:
    """What has been pushed.

    Attributes:
        address: for ``HF_ENDPOINT``.
        files: repository to path to content.
        private: repository to whether it was made private.
        messages: of the commits.
        unknown: requests that nothing here answers.
        anonymous: requests that carried no token.
    """

    def __init__(self) -> None:
        self.address = ""
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.messages: list[str] = []
        self.unknown: list[str] = []
        self.anonymous: list[str] = []

    def post(self, path: str, body: bytes) -> tuple[int, Any]:
        """Status and answer."""
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'somebody'}/{asked['name']}"
            if name in self.files:
                return 409, {"error": "exists", "url": f"{self.address}/datasets/{name}"}
            self.files[name], self.private[name] = {}, bool(asked.get("private"))
            return 200, {"url": f"{self.address}/datasets/{name}", "name": name, "id": name}
        match = _API.fullmatch(path)
        if match and match["what"] == "preupload":
            asked = json.loads(body)["files"]
            return 200, {
                "files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in asked]
            }
        if match and match["what"] == "commit":
            for line in body.splitlines():
                entry = json.loads(line)
                value = entry["value"]
                if entry["key"] == "header":
                    self.messages.append(value["summary"])
                elif entry["key"] == "file":
                    self.files[match["repository"]][value["path"]] = base64.b64decode(value["content"])
            oid = hashlib.sha1(body, usedforsecurity=False).hexdigest()
            url = f"{self.address}/datasets/{match['repository']}/commit/{oid}"
            return 200, {"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""}
        if match and match["what"] == "paths-info":
            asked = parse_qs(body.decode())["paths"] if body[:1] != b"{" else json.loads(body)["paths"]
            return 200, self.entries(match["repository"], lambda path: path in asked)
        return 404, None

    def get(self, path: str) -> tuple[int, Any]:
        if path == "/api/whoami-v2":
            return 200, {"name": "somebody", "type": "user", "orgs": []}
        match = _API.fullmatch(path)
        if match and match["what"] == "tree":
            return 200, self.entries(match["repository"], lambda path: path.startswith(match["below"] or ""))
        if match and match["what"] == "revision":
            return 200, {"id": match["repository"], "sha": REVISION, "siblings": [], "private": False, "tags": []}
        match = _FILE.fullmatch(path)
        if match and match["path"] in self.files.get(match["repository"], {}):
            return 200, self.files[match["repository"]][match["path"]]
        return 404, None

    def entries(self, repository: str, wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha256(content).hexdigest()[:40]}
            for path, content in self.files[repository].items()
            if wanted(path)
        ]


@contextmanager
def hub() -> Iterator[Hub]:
    """A hub that answers on a free port of this machine."""
    stand_in = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(*stand_in.get(self.place))

        def do_HEAD(self) -> None:
            self.reply(*stand_in.get(self.place))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b"".join(iter(self.chunk, b""))
            self.reply(*stand_in.post(self.place, body))

        def chunk(self) -> bytes:
            content = self.rfile.read(int(self.rfile.readline(), 16))
            self.rfile.readline()
            return content

        @property
        def place(self) -> str:
            return unquote(urlsplit(self.path).path)

        def reply(self, status: int, answer: Any) -> None:
            if answer is None:
                stand_in.unknown.append(f"{self.command} {self.path}")
                answer = {"error": "not here"}
            if "/api/" in self.path and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                stand_in.anonymous.append(f"{self.command} {self.path}")
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/octet-stream" if answer is content else "application/json")
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()[:40]}"')
            self.send_header("X-Repo-Commit", REVISION)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
