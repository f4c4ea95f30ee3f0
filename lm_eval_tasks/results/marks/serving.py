"""Serves pages of marks to browsers of this machine, and saves into a folder what a person marks, step by step.

The server listens on 127.0.0.1 alone. Other programs and web pages of this machine could reach it there, too: it knows
requests by a random path, by the header ``Host``, which a web page that had its own name point here could not forge, and by
``Origin``.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.atomic import finished, whole_file
from lm_eval_tasks.results.marks.lines import read_marks
from lm_eval_tasks.results.marks.page import marking_page

_LARGEST = 200_000_000  # bytes of a saved file, as the page takes it


class MarkingServer(ThreadingHTTPServer):
    """Serves one page for each content of :func:`lm_eval_tasks.results.marks.page.page_content`.

    Args:
        contents: by the name of their page, such as ``marking.html``.
        folder: where marks are saved, one file for each task and annotator. The pages go on with those it holds.

    Raises:
        UsageError: a file of marks in the folder has answers that its page has not, and would lose them.
    """

    daemon_threads = False  # closing waits for what is being saved

    def __init__(self, contents: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
        self.contents, self.folder, self.lock = contents, folder, Lock()
        self.path = f"/{secrets.token_urlsafe(24)}/"
        for content in contents.values():
            on_page = {_key(item["line"]) for item in content["items"]}
            for file in self.saved_files(content):
                if any(_key(json.loads(line)) not in on_page for line in file.read_text("utf-8").splitlines()):
                    raise UsageError(f"{file} has marks of another draw than this one; name another folder with -o")
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"

    @property
    def addresses(self) -> list[str]:
        return [f"{self.origin}{self.path}{name}" for name in self.contents]

    def saved_files(self, content: Mapping[str, Any]) -> Iterator[Path]:
        """The files of one task's marks, the one saved last first."""
        files = finished(self.folder.glob(f"{content['file']}_*.jsonl"))
        return iter(sorted(files, key=lambda file: file.stat().st_mtime, reverse=True))

    def page(self, content: Mapping[str, Any]) -> str:
        """The page, with the lines of each annotator, and the versions of their files."""
        saved = {}
        for file in self.saved_files(content):
            lines = file.read_text("utf-8").splitlines()
            saved[json.loads(lines[0])["annotator"]] = {"lines": lines, "version": _version(file)}
        return marking_page({**content, "saved": saved}, connects=True)

    def save(self, name: str, version: str, body: bytes) -> tuple[HTTPStatus, str]:
        """Save an annotator's file, or remove it where nothing is left; the answer's status and text, which is the file's
        new version. `version` is the one that the page knows: nothing is saved over what another browser has saved since."""
        is_name = any(name.startswith(f"{content['file']}_") for content in self.contents.values())
        if not is_name or not name.endswith(".jsonl") or name != Path(name).name or "\\" in name:
            return HTTPStatus.NOT_FOUND, "no such file"
        file = self.folder / name
        with self.lock:
            if version != _version(file):
                return HTTPStatus.CONFLICT, "another browser has saved marks of this name since; reload this page"
            if not body:
                file.unlink(missing_ok=True)
                return HTTPStatus.OK, _version(file)
            try:
                with whole_file(file) as partial:
                    partial.write_bytes(body)
                    read_marks([partial])
            except (ValueError, OSError) as error:
                return HTTPStatus.BAD_REQUEST, str(error)
            return HTTPStatus.OK, _version(file)


def _key(line: Mapping[str, Any]) -> str:
    draw = line["draw"]
    return json.dumps([line["task"], line["kind"], line["id"], line.get("run", line.get("runs")), draw["seed"], draw["runs"]])


def _version(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""


class _Handler(BaseHTTPRequestHandler):
    server: MarkingServer

    def do_GET(self) -> None:
        content = self.server.contents.get(self._name() or "")
        if content is None:
            return self._answer(HTTPStatus.NOT_FOUND, "not found")
        self._answer(HTTPStatus.OK, self.server.page(content), "text/html")

    def do_PUT(self) -> None:
        name, length = self._name(), self.headers.get("Content-Length", "")
        if name is None:
            return self._answer(HTTPStatus.NOT_FOUND, "not found")
        if self.headers.get("Origin") != self.server.origin:
            return self._answer(HTTPStatus.FORBIDDEN, "only the page itself may save")
        if not length.isdecimal() or int(length) > _LARGEST:
            return self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too large")
        self._answer(*self.server.save(name, self.headers.get("If-Match", ""), self.rfile.read(int(length))))

    def _name(self) -> str | None:
        """The name below the random path; ``None`` for a request that does not know it, or the host."""
        ...
