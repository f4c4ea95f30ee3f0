"""Serves marking pages to a browser of this machine, and saves what a person marks into a folder, step by step.

The server listens on 127.0.0.1 alone. What else runs on the machine reaches it there, too: a request needs the random path,
the ``Host`` (another one where a web page lets its name point here) and, to save, the ``Origin`` of the page itself.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.results.marks.lines import read_marks, read_rows
from lm_eval_tasks.results.marks.page import marking_page


class MarkingServer(ThreadingHTTPServer):
    """Serves a page for each content that ``page_content`` gives, by its name. Saves a file for each task and annotator in
    `folder`, and goes on with those there; a UsageError names one with marks of another draw."""

    def __init__(self, contents: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
        self.contents, self.folder, self.lock = contents, folder, Lock()
        for content in contents.values():
            on_page = {_key(item["line"]) for item in content["items"]}
            for file, rows in self._saved(content).items():
                if not on_page.issuperset(map(_key, rows)):
                    raise UsageError(f"{file} has marks of another draw; name another folder with -o")
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin, self.path = f"http://127.0.0.1:{self.server_port}", f"/{secrets.token_urlsafe(24)}/"

    def _saved(self, content: Mapping[str, Any]) -> dict[Path, list[Mapping[str, Any]]]:
        """The lines of each file of the task's marks, the latest at the end. Other tasks' files may be named alike."""
        files = sorted(self.folder.glob(f"{content['file']}_*.jsonl"), key=lambda file: file.stat().st_mtime)
        rows = {file: [row for _, row in read_rows(file)] for file in files}
        task = content["items"][0]["line"]["task"]
        return {file: lines for file, lines in rows.items() if lines and lines[0].get("task") == task}

    def page(self, name: str) -> tuple[HTTPStatus, str]:
        """A status and the HTML of a page, with the saved lines of each annotator and the version of their file."""
        if name not in self.contents:
            return HTTPStatus.NOT_FOUND, "not found"
        with self.lock:
            files = self._saved(self.contents[name]).items()
            saved = {rows[0]["annotator"]: {"lines": rows, "version": _version(file)} for file, rows in files}
        return HTTPStatus.OK, marking_page({**self.contents[name], "saved": saved}, is_served=True)

    def save(self, name: str, body: bytes, version: str) -> tuple[HTTPStatus, str]:
        """Save an annotator's file, or remove it where no mark is left; a status, and the new version or what is wrong. The
        page knows `version`, and does not save over what another browser has saved since."""
        prefixes = tuple(f"{content['file']}_" for content in self.contents.values())
        if not (name.startswith(prefixes) and name.endswith(".jsonl")) or {*name} & {*"/\\:"}:
            return HTTPStatus.NOT_FOUND, "not found"
        file = self.folder / name
        try:
            with self.lock:
                if version != _version(file):
                    return HTTPStatus.CONFLICT, "this name has marks from elsewhere; reload the page"
                if body:
                    with whole_file(file) as partial:
                        partial.write_bytes(body)
                        read_marks([partial])
                else:
                    file.unlink(missing_ok=True)
                return HTTPStatus.OK, _version(file)
        except (ValueError, OSError) as error:
            return HTTPStatus.BAD_REQUEST, str(error)


def _key(row: Mapping[str, Any]) -> str:
    draw = {**row.get("draw", {}), "order": None}  # which a line of a longer draw has longer
    return json.dumps([*map(row.get, ("task", "kind", "id", "run", "runs")), draw], sort_keys=True)


def _version(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""


class _Handler(BaseHTTPRequestHandler):
    server: MarkingServer

    def log_message(self, *_: Any) -> None:
        """Log nothing: requests hold the random path."""

    def do_GET(self) -> None:
        server, is_page, size = self.server, self.command == "GET", self.headers.get("Content-Length", "0")
        is_own = is_page or self.headers.get("Origin") == server.origin
        path, name = self.path[: len(server.path)], unquote(self.path[len(server.path) :])
        is_known = secrets.compare_digest(path.encode(), server.path.encode())
        if not is_known or not is_own or self.headers.get("Host") != server.origin.removeprefix("http://"):
            status, text = HTTPStatus.NOT_FOUND, "not found"
        elif is_page:
            status, text = server.page(name)
        else:
            status, text = server.save(name, self.rfile.read(int(size)), self.headers.get("If-Match", ""))
        self.send_response(status)
        self.send_header("Content-Type", f"text/{'html' if is_page else 'plain'}; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(text.encode("utf-8"))

    do_PUT = do_GET
