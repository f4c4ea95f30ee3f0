"""A Python that has started: it waits with the harness imported, and becomes the command that it is asked for.

``python started.py SOCKET PID`` serves all workers of a test session, until the process PID has ended. For each command it
forks, and the child runs the module or script as Python would: exit status, traceback, ``sys.excepthook``, threads and
``atexit`` are the real ones. Only the start is not repeated (imports, the index of the tasks), nor is memory tidied at
the end.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from filelock import FileLock

ROOT = Path(__file__).parents[2]
MODULES = {"lm_eval", "lm_eval_tasks.cli", "tests.environment.ranks"}
SCRIPTS = {"lm_eval", "lm-eval-grounded"}
UNREAD = ("PYTEST_", "TORCHINDUCTOR_")
"""Starts of variables that no command reads: pytest and torch set them in the process of the tests."""
PRELOADED = """
    lm_eval lm_eval._cli lm_eval._cli.harness lm_eval._cli.run lm_eval.config.evaluate_config lm_eval.evaluator
    lm_eval.evaluator_utils lm_eval.loggers lm_eval.tasks lm_eval.tasks.manager datasets torch transformers
    custom_metrics detector_plugin detector_plugin.lexical lm_eval_tasks.mfava.task lm_eval_tasks.clapnq.retrieval.bm25
    lm_eval_tasks.models.baseline lm_eval_tasks.models.detector lm_eval_tasks.models.replay
    lm_eval_tasks.commands.mark lm_eval_tasks.commands.score lm_eval_tasks.results.compare
    lm_eval_tasks.results.marks.page lm_eval_tasks.results.report lm_eval_tasks.results.score
    bm25s jinja2 lxml.html pandas scipy.stats sklearn.metrics
""".split()
"""What the commands of the tests import; a fork need not do so again."""


class Started:
    """The commands of a test session's worker, run in forks of one Python that starts with the first of the session."""

    def __init__(self, environment: dict[str, str], session: Path) -> None:
        self.environment = environment
        self.socket = session / "started.socket"  # in a folder that the workers share

    def can(self, arguments: list[str], environment: dict[str, str]) -> bool:
        """Whether the command is one of the harness or ours, in the environment that the process has started with, but for
        our own variables, which are read when they are used."""
        differ = {
            name
            for name in self.environment.keys() | environment.keys()
            if self.environment.get(name) != environment.get(name) and not name.startswith(UNREAD)
        }
        if any(not name.startswith("LM_EVAL_GROUNDED_") or name == "LM_EVAL_GROUNDED_AUTOLOAD" for name in differ):
            return False
        if "vllm" in arguments:  # has ideas of its own about how processes start
            return False
        if arguments[0] == sys.executable:
            return arguments[1] == "-m" and arguments[2] in MODULES
        script = Path(arguments[0])
        return script.parent == Path(sys.executable).parent and script.name in SCRIPTS

    def __call__(
        self, arguments: list[str], cwd: Path, environment: dict[str, str], timeout: int
    ) -> subprocess.CompletedProcess[str]:
        asked = {"arguments": arguments, "cwd": str(cwd), "environment": environment, "timeout": timeout}
        with FileLock(f"{self.socket}.lock"):
            if not self.socket.exists():
                session = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
                started = [sys.executable, __file__, str(self.socket), str(session)]
                subprocess.Popen(started, env=self.environment, stdin=subprocess.DEVNULL, cwd=ROOT)
                while not self.socket.exists():
                    time.sleep(0.1)
        with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as line:
            for name in ("stdout", "stderr"):
                asked[name] = f"{folder}/{name}"
                Path(f"{folder}/{name}").touch()
            line.connect(str(self.socket))
            line.sendall(json.dumps(asked).encode() + b"\n")
            status = int(line.makefile().readline())
            stdout, stderr = (Path(f"{folder}/{name}").read_text("utf-8") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(arguments, status, stdout, stderr)


class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks for each command."""

    max_children = 1000

    def service_actions(self) -> None:
        """Every second: end where the session has ended."""
        super().service_actions()
        try:
            os.kill(int(sys.argv[2]), 0)
        except ProcessLookupError:
            sys.exit()


class Command(socketserver.StreamRequestHandler):
    """A command of a worker, which gets the exit status."""

    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        child = os.fork()
        if not child:
            become(asked)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.alarm(asked["timeout"])
        _, status = os.waitpid(child, 0)
        signal.alarm(0)
        self.wfile.write(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def become(asked: dict[str, Any]) -> NoReturn:
    """Take over folder, environment, files and arguments, run, and end."""
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, name in ((0, os.devnull), (1, asked["stdout"]), (2, asked["stderr"])):
        os.dup2(os.open(name, os.O_RDWR if number == 0 else os.O_WRONLY | os.O_TRUNC), number)
    program, *words = asked["arguments"]
    is_module = program == sys.executable  # python -m MODULE ...
    sys.argv = words[1:] if is_module else [program, *words]
    sys.path[0] = asked["cwd"] if is_module else str(Path(program).parent)
    status: Any = 0
    try:
        if is_module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as ended:
        status = ended.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        status = 1
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 255)


def main(place: str) -> None:
    with Server(place, Command) as server:
        for name in PRELOADED:
            with suppress(ImportError):
                importlib.import_module(name)
        from lm_eval.tasks import TaskManager

        from tests.environment.harness_start import remember

        remember()
        TaskManager()
        gc.freeze()  # what is there stays, and is not looked through again in every child
        server.serve_forever(poll_interval=1)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # for the import of tests
    main(sys.argv[1])
