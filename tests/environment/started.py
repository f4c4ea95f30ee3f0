"""A Python that has started: it waits with the harness imported, and becomes the command that it is asked for.

``python started.py`` is one process for all workers of a test session. It prints the path of a socket, and forks for each
worker that connects there. This fork reads a line of JSON for each command: arguments, folder, environment, and the files
for output and errors. It forks again. The child takes all of that over and runs the module or script as Python would: exit
status, traceback, ``sys.excepthook``, threads and ``atexit`` are the real ones. Only the start is not repeated (4 s of
imports, 7 s of the harness's index), nor is memory tidied at the end. The answer is a line: the exit status.

``Started`` asks it, and says which commands it can take: those whose environment variables are the ones it started with,
but for ours that are read when they are used. A test of the start itself asks for a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NoReturn

from filelock import FileLock

ROOT = Path(__file__).parents[2]
MODULES = {"lm_eval", "lm_eval_tasks.cli", "tests.environment.ranks"}
UNREAD = ("PYTEST_", "TORCHINDUCTOR_")
"""Starts of variables that no command reads: pytest and torch set them in the process of the tests."""
SCRIPTS = {"lm_eval", "lm-eval-grounded"}

PRELOADED = """
    lm_eval lm_eval._cli lm_eval._cli.harness lm_eval._cli.run lm_eval.config.evaluate_config lm_eval.evaluator
    lm_eval.evaluator_utils lm_eval.loggers lm_eval.tasks lm_eval.tasks.manager datasets torch transformers
    custom_metrics detector_plugin lm_eval_tasks.mfava.estimation
""".split()


def preload() -> None:
    import importlib

    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    from tests.environment.harness_start import remember

    remember()
    from lm_eval.tasks import TaskManager

    TaskManager()
    with suppress(ImportError):
        from torch.utils.collect_env import get_pretty_env_info

        get_pretty_env_info()


def next_worker(listener: socket.socket) -> TextIOWrapper | None:
    """The line to a worker that connects, in a child of this process; None in this process, when its input is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a worker's child ended
    while True:
        ready, _, _ = select.select([sys.stdin, listener], [], [])
        if sys.stdin in ready:  # nothing is ever written there: the worker that started this process has ended
            return None
        connection, _ = listener.accept()
        if not _fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return connection.makefile("rw", encoding="utf-8")
        connection.close()


def next_command(worker: TextIOWrapper) -> dict[str, Any] | None:
    """The worker's next command, in a child of this process; None in this process, when there is no more."""
    for line in worker:
        asked: dict[str, Any] = json.loads(line)
        child = _fork()
        if not child:
            worker.close()
            return asked
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))  # noqa: B023
        signal.alarm(asked["timeout"])
        _, status = os.waitpid(child, 0)
        signal.alarm(0)
        worker.write(f"{os.waitstatus_to_exitcode(status)}\n")
        worker.flush()
    return None


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: those of OpenBLAS, which minds forks
        return os.fork()


def become(asked: dict[str, Any]) -> NoReturn:
    """Take over folder, environment, files and arguments, run, and end."""
    status: Any = 0
    try:
        _run(asked)
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


def _run(asked: dict[str, Any]) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, name in ((0, os.devnull), (1, asked["stdout"]), (2, asked["stderr"])):
        opened = os.open(name, os.O_RDWR if number == 0 else os.O_WRONLY | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    arguments = asked["arguments"]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = asked["cwd"]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).parent)
        runpy.run_path(arguments[0], run_name="__main__")


class Started:
    """The commands of a test session's worker, run in forks of one Python that starts with the session's first."""

    def __init__(self, environment: dict[str, str], session: Path) -> None:
        self.environment = environment
        self.session = session  # a folder that the workers share: it says where the socket is
        self.process: subprocess.Popen[bytes] | None = None  # in the worker that was first
        self.line: TextIOWrapper | None = None

    def can(self, arguments: list[str], environment: dict[str, str]) -> bool:
        """Whether the command is one of the harness or ours, in an environment that needs no start of its own."""
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
        if arguments[0] == sys.executable:
            arguments = arguments[1:]
        with TemporaryDirectory() as folder:
            asked = {"stdout": f"{folder}/stdout", "stderr": f"{folder}/stderr", "cwd": str(cwd), "timeout": timeout}
            for name in ("stdout", "stderr"):
                Path(asked[name]).touch()
            status = self._ask({**asked, "arguments": arguments, "environment": environment})
            stdout, stderr = (Path(asked[name]).read_text("utf-8") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(arguments, status, stdout, stderr)

    def _ask(self, asked: dict[str, Any]) -> int:
        """The exit status of a command."""
        if self.line is None:
            self.line = self._connected().makefile("rw", encoding="utf-8")
        self.line.write(json.dumps(asked) + "\n")
        self.line.flush()
        status = self.line.readline()
        if not status:
            raise RuntimeError(f"{__file__} ended")
        return int(status)

    def _connected(self) -> socket.socket:
        """To the Python that another worker has started, or that starts now where there is none, or where it has ended."""
        address = self.session / "started.address"
        with FileLock(self.session / "started.lock"):
            with suppress(OSError):
                return _connection(address.read_text("utf-8"))
            self.process = subprocess.Popen(
                [sys.executable, __file__],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )
            assert self.process.stdout is not None
            address.write_text(self.process.stdout.readline().decode().strip(), "utf-8")
            return _connection(address.read_text("utf-8"))

    def end(self) -> None:
        if self.line is not None:
            self.line.close()
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()  # for its end alone: its children hold its output open, while others use them


def _connection(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def main() -> None:
    first = os.getpid()
    folder = mkdtemp()  # no TemporaryDirectory: the atexit of a command would remove it
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/socket")
            listener.listen()
            print(f"{folder}/socket", flush=True)  # workers may connect, and wait
            preload()
            gc.freeze()  # what is there stays, and is not looked through again in every child
            worker = next_worker(listener)
    finally:
        if os.getpid() == first:
            shutil.rmtree(folder)
    command = next_command(worker) if worker is not None else None
    if command is not None:
        become(command)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # for the import of tests
    main()
