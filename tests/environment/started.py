"""A Python that has started: it waits with the harness imported, and becomes the command that it is asked for.

``python started.py`` reads a line of JSON for each command from standard input: arguments, folder, environment, and the
files for output and errors. It forks. The child takes all of that over and runs the module or script as Python would:
exit status, traceback, ``sys.excepthook``, threads and ``atexit`` are the real ones. Only the start is not repeated (2 s of
imports, 7 s of the harness's index), nor is memory tidied at the end. The answer is a line of JSON: exit status and
processor time.

``Started`` asks it, and says which commands it can take: those whose environment variables are the ones it started with,
but for ours that are read when they are used. A test of the start itself asks for a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NoReturn

ROOT = Path(__file__).parents[2]
MODULES = {"lm_eval", "lm_eval_tasks.cli", "tests.environment.ranks"}
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


def next_command() -> dict[str, Any] | None:
    """The next command, in a child of this process; None in this process, when there is no more."""
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: those of OpenBLAS, which minds forks
            child = os.fork()
        if not child:
            return asked
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))  # noqa: B023
        signal.alarm(asked["timeout"])
        _, status, usage = os.wait4(child, 0)
        signal.alarm(0)
        answer = {"returncode": os.waitstatus_to_exitcode(status), "cpu": usage.ru_utime + usage.ru_stime}
        print(json.dumps(answer), flush=True)
    return None


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
    """The commands of a test session's worker, run in forks of one Python that starts with the first."""

    spent: ClassVar[float] = 0.0
    """Seconds of processor time that the commands used so far; the start is nobody's."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None

    def can(self, arguments: list[str], environment: dict[str, str]) -> bool:
        """Whether the command is one of the harness or ours, in an environment that needs no start of its own."""
        differ = {
            name
            for name in self.environment.keys() | environment.keys()
            if self.environment.get(name) != environment.get(name) and not name.startswith("PYTEST_")
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
            answer = self._ask({**asked, "arguments": arguments, "environment": environment})
            stdout, stderr = (Path(asked[name]).read_text("utf-8") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(arguments, answer["returncode"], stdout, stderr)

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.process is None:
            command = [sys.executable, __file__]
            self.process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            self._answer()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{__file__} ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        Started.spent += answer["cpu"]
        return answer

    def end(self) -> None:
        if self.process is not None:
            self.process.communicate()


if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # for the import of tests
    preload()
    gc.freeze()  # what is there stays, and is not looked through again in every child
    print(json.dumps({"cpu": 0}), flush=True)
    command = next_command()
    if command is not None:
        become(command)
