"""``mark --serve``: a page on 127.0.0.1 for its own browser and nobody else, and marks in a folder, step by step."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.results.marks.lines import read_marks
from lm_eval_tasks.results.marks.serving import MarkingServer
from tests.conftest import command
from tests.marking_pages import content

FILE = "marks_mfava_de_Anna.jsonl"
Serve = Callable[..., MarkingServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves a page of three answers, or of another content, from a folder."""
    with ExitStack() as stack:

        def start(page: Any = None) -> MarkingServer:
            server = stack.enter_context(MarkingServer({"marking.html": page or content("de", "ja", "ar")}, tmp_path))
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            return server

        yield start


def asked(server: MarkingServer, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
    """The status and the text of an answer. A header of the page itself is sent unless another is given."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    own = {"Host": f"127.0.0.1:{server.server_port}", "Origin": server.origin}
    connection.request(
        method, path, body.encode("utf-8"), {**own, **{k.replace("_", "-"): v for k, v in headers.items()}}
    )
    answer = connection.getresponse()
    return answer.status, answer.read().decode("utf-8")


def line_of(place: int, annotator: str = "Anna", **changes: Any) -> str:
    line = content("de", "ja", "ar")["items"][place]["line"]
    order = {"order": content("de", "ja", "ar")["items"][0]["line"]["draw"]["order"]}
    marks = {
        "annotator": annotator,
        "spans": [[0, 3, "hallucination"]],
        "cannot_tell": False,
        "note": "",
        "seconds": 1.5,
    }
    return json.dumps({**line, "draw": {**line["draw"], **order}, **marks, **changes}, ensure_ascii=False) + "\n"


REFUSED: list[tuple[str, str, dict[str, str], int]] = [
    ("GET", "/", {}, 404),
    ("GET", "/marking.html", {}, 404),
    ("GET", "/{known}", {}, 404),  # without the slash at its end
    ("GET", "/{other}/marking.html", {}, 404),
    ("GET", "/{known}/other.html", {}, 404),
    ("GET", f"/{{known}}/{FILE}", {}, 404),
    ("GET", "/{known}/marking.html", {"Host": "attacker.example"}, 404),
    ("GET", "/{known}/marking.html", {"Host": "localhost"}, 404),
    ("PUT", f"/{FILE}", {}, 404),
    ("PUT", f"/{{other}}/{FILE}", {}, 404),
    ("PUT", f"/{{known}}/{FILE}", {"Origin": "http://attacker.example"}, 404),
    ("PUT", f"/{{known}}/{FILE}", {"Origin": "null"}, 404),
    ("PUT", f"/{{known}}/{FILE}", {"Host": "attacker.example"}, 404),
    ("PUT", "/{known}/other.jsonl", {}, 404),
    ("PUT", "/{known}/marks_mfava_de_x.html", {}, 404),
    ("PUT", "/{known}/marks_mfava_de_..%2Fx.jsonl", {}, 404),
    ("PUT", "/{known}/marks_mfava_de_%5Cx.jsonl", {}, 404),
    ("POST", f"/{{known}}/{FILE}", {}, 501),
    ("OPTIONS", f"/{{known}}/{FILE}", {}, 501),  # as a browser asks before a request to another site
]


@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
def test_what_is_not_its_page_is_refused(
    serve: Serve, tmp_path: Path, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    server = serve()
    known = server.path.strip("/")
    path = path.format(known=known, other="x" * len(known))
    assert asked(server, method, path, line_of(0), **headers)[0] == status
    assert [*tmp_path.iterdir()] == []


def test_it_listens_on_127_0_0_1_alone_and_its_path_is_another_each_time(serve: Serve) -> None:
    first, second = serve(), serve()
    assert first.socket.getsockname()[0] == second.socket.getsockname()[0] == "127.0.0.1"
    assert len({first.path, second.path}) == 2
    assert re.fullmatch(r"/[\w-]{32}/", first.path)


def test_a_file_is_saved_as_sent_whole_or_not_at_all(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    path, lines = f"{server.path}{FILE}", line_of(0) + line_of(2)
    status, version = asked(server, "PUT", path, lines)
    assert (status, (tmp_path / FILE).read_text("utf-8")) == (200, lines)
    assert [mark.id for mark in read_marks([tmp_path / FILE])] == ["de_0_1", "ar_2_1"]
    refused = {
        "other version": (line_of(1), "", 409),
        "no line": ("{", version, 400),
        "damaged": (line_of(1, spans=[[0, 999, "hallucination"]]), version, 400),
    }
    for name, (body, known, status) in refused.items():
        assert asked(server, "PUT", path, body, If_Match=known)[0] == status, name
        assert (tmp_path / FILE).read_text("utf-8") == lines, name
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    assert asked(server, "PUT", path, "", If_Match=version) == (200, "")  # nothing is marked any more
    assert [*tmp_path.iterdir()] == []


def test_marks_of_another_draw_are_not_overwritten(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "marks_mfava_de_x_Ben.jsonl").write_text(line_of(0, "Ben", task="mfava_de_x"), "utf-8")  # another task
    (tmp_path / FILE).write_text(line_of(2), "utf-8")
    serve()
    serve(content("de", "ja", "ar", "hi"))  # a longer draw, of the same beginning
    with pytest.raises(UsageError, match=f"{FILE} has marks of another draw; name another folder with -o"):
        serve(content("de", "ja"))
    (tmp_path / FILE).write_text(line_of(1, draw={"seed": 7, "runs": ["9f86d081884c7d65"]}), "utf-8")
    with pytest.raises(UsageError, match="another draw"):
        serve()


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_page_saves_each_step_and_goes_on_from_the_folder(serve: Serve, tmp_path: Path, chromium: Any) -> None:
    def done(do: Callable[[], Any]) -> list[tuple[str, str, Any]]:
        """What the folder has when the page has saved a step."""
        with page.expect_response(lambda answer: answer.request.method == "PUT"):
            do()
        page.wait_for_function("document.getElementById('warning').hidden")
        marks = read_marks([*tmp_path.iterdir()])
        return [(mark.annotator, mark.id, None if mark.spans is None else len(mark.spans)) for mark in marks]

    def opened(server: MarkingServer) -> Any:
        tab = chromium.new_context().new_page()
        tab.goto(f"{server.origin}{server.path}marking.html")
        return tab

    server = serve()
    page = opened(server)
    page.fill("#name", "Anna")
    page.click("#naming button.main")
    page.locator(".answer").press("End")
    page.locator(".answer").press("Enter")
    assert done(lambda: page.click("#next")) == [("Anna", "de_0_1", 1)]
    assert done(lambda: page.click("#unknown")) == [("Anna", "de_0_1", 1), ("Anna", "ja_1_1", None)]
    stale = opened(server)  # another browser, which knows two answers
    assert stale.inner_text("#progress").startswith("2 of 3 done")
    three = done(lambda: page.click("#nothing"))
    assert three == [("Anna", "de_0_1", 1), ("Anna", "ja_1_1", None), ("Anna", "ar_2_1", 0)]
    stale.click("#back")
    stale.click("#nothing")
    stale.locator("#warning:has-text('this name has marks from elsewhere; reload the page')").wait_for()
    server.shutdown()
    page.context.close()

    page = opened(serve())  # the same command, later
    assert page.inner_text("#who") == "Anna"
    assert page.inner_text("#end-title") == "Everything is done"
    page.click("#who")
    page.fill("#name", "Anne")
    page.click("#naming button.main")
    page.click("#again")
    assert done(lambda: page.click("#unknown")) == [("Anne", *mark[1:]) for mark in three[:2]] + [
        ("Anne", "ar_2_1", None)
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["marks_mfava_de_Anne.jsonl"]


@pytest.mark.slow("starts the command twice")
def test_the_command_serves_until_ctrl_c_and_goes_on_later(closed_book: Path, tmp_path: Path) -> None:
    typed = [command("lm-eval-grounded"), "mark", str(closed_book), "--tasks", "mfava_de", "--serve", "-o", "out"]
    for saved in ({}, {"Anna": 1}):
        with Popen(typed, cwd=tmp_path, stdout=PIPE, text=True) as process:
            assert process.stdout
            address = next(line for line in process.stdout if line.startswith("http"))
            host, path = re.fullmatch(r"http://(127\.0\.0\.1:\d+)(/[\w-]{32}/)marking\.html\n", address).groups()
            connection = HTTPConnection(host, timeout=60)
            connection.request("GET", f"{path}marking.html")
            page = connection.getresponse().read().decode("utf-8")
            written = json.loads(page.partition('id="content">')[2].partition("</script>")[0])
            assert {name: len(file["lines"]) for name, file in written["saved"].items()} == saved
            line = {**written["items"][0]["line"], "annotator": "Anna", "spans": [], "cannot_tell": False}
            version = written["saved"].get("Anna", {}).get("version", "")
            own = {"Origin": f"http://{host}", "If-Match": version}
            connection = HTTPConnection(host, timeout=60)
            connection.request("PUT", f"{path}{FILE}", json.dumps(line) + "\n", own)
            assert connection.getresponse().status == 200
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
        assert process.returncode == 0
        assert rest.splitlines()[-1] == (
            f"  lm-eval-grounded score {shlex.quote(str(closed_book))} --marks out{os.sep}marks_mfava_de_*.jsonl"
        )
        assert [mark.id for mark in read_marks([tmp_path / "out" / FILE])] == [line["id"]]
