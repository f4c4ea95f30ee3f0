"""The environments that tests need beside the developers' own: other Pythons, other versions of the harness, LangChain and
Inspect, and the converter of the shared leaderboards.

``make test-pythons``, ``make test-next``, ``make test-newest``, ``make test-integrations`` and ``make test-leaderboard``
run it. A Python that the machine lacks is skipped, with that reason.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False

# Pythons that pyenv has made and not put on the path.
os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *map(str, Path.home().glob(".pyenv/versions/3.1*/bin"))])

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
SUPPORTED = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))
OTHERS = [each for each in (SUPPORTED[0], SUPPORTED[-1]) if each != OWN]  # what both ends run, those between run too

# Slow tests of what the harness does for us: its command, several processes, its models, an installation.
OF_HARNESS = """
    backends both_harnesses install making other_tasks ranks reproduce scoring shared_work unfinished
""".split()

# Tools whose own classes write logs in tests/test_log_writers.py.
WRITE_LOGS = """
    ragas>=0.4 langgraph>=1.0 llama-index-core>=0.14 haystack-ai>=2.20 openai>=2.0 deepeval>=3.0 azure-ai-evaluation>=1.13
    langfuse>=3.0 mlflow>=3.4 arize-phoenix>=12 opentelemetry-sdk>=1.30 openinference-semantic-conventions>=0.1.20
""".split()


@nox.session(python=OTHERS)
def tests(session: nox.Session) -> None:
    """The fast tests on the oldest and the newest supported Python, but for the developers'.

    There is no torch, which the base install does not need either. Left out is what is the same on every Python (mark
    ``one_python``), and properties are tried on fewer examples. With HALVES set, each Python takes half of the files.
    """
    session.install("-q", "--no-compile", "-e", ".[report,test]")
    selected = "not slow and not vllm and not browser and not one_python"
    part = {"TESTS_PART": f"{OTHERS.index(session.python)}/{len(OTHERS)}"} if os.environ.get("HALVES") else {}
    session.run("pytest", "-q", "-m", selected, "--hypothesis-profile", "another Python", *session.posargs, env=part)


@nox.session(python=OWN, default=False)
@nox.parametrize("harness", ["lm-eval==0.5.0.dev1", "lm-eval"], ids=["next", "newest"])
def harness(session: nox.Session, harness: str) -> None:
    """The fast tests on the harness that comes: on the version that was tried, and on the newest one if that is another.

    They need no torch. Left out is what is the same on every harness (mark ``one_python``), as on every Python. Then the
    slow tests of OF_HARNESS, with torch.
    """

    def install(*names: str) -> None:
        session.install("-q", "--no-compile", *names)
        session.install("-q", "--no-compile", "--pre", "--upgrade-strategy", "only-if-needed", "--upgrade", harness)

    install("-e", ".[api,report,test]")
    selected = "not slow and not vllm and not browser and not one_python"
    if "newest" in session.name:
        code = "from lm_eval_tasks.harness import installed, untried; print(untried() and installed())"
        if not (version := str(session.run("python", "-c", code, silent=True)).strip()):
            session.skip("no version is newer than those that were tried")
        session.log("lm-eval %s, which was never tried", version)
    session.run("pytest", "-q", "-m", selected, *session.posargs)
    torch = os.environ.get("TORCH", "torch==2.13.0")  # may be a build for CPUs: it comes before what wants any
    session.install("-q", "--no-compile", torch)
    install("-e", ".[api,hf,report,test]", "hatchling", "editables")
    files = [f"tests/test_{name}.py" for name in OF_HARNESS]
    session.run("pytest", "-q", "-m", "slow and not vllm and not browser", *files, *session.posargs)


@nox.session(python="3.12", default=False)
def leaderboard(session: nox.Session) -> None:
    """The environment of the leaderboards' converter, which ``tests/test_every_eval_ever.py`` starts."""
    session.install("-q", "--no-compile", "every-eval-ever==0.3.0")


@nox.session(python=OWN, default=False)
def integrations(session: nox.Session) -> None:
    """The examples of LangChain and Inspect, and a log that Inspect has written, with the real packages."""
    session.install("-q", "--no-compile", "-e", ".", "inspect-ai>=0.3.200", "langchain-core>=1.0", "pytest>=8.3")
    files = "tests/test_integrations.py", "tests/test_log_formats.py"
    session.run("pytest", "-q", "-k", "langchain or inspect", *files, *session.posargs)


@nox.session(python=OWN, default=False)
def writers(session: nox.Session) -> None:
    """Logs that the classes of twelve tools write, and two workers of Ray, with the real packages: gigabytes."""
    session.install("-q", "--no-compile", "-e", ".[ray]", "inspect-ai>=0.3.200", "pytest>=8.3")
    for tool in WRITE_LOGS:  # one after another: all at once takes pip an hour to resolve
        session.install("-q", "--no-compile", tool)
    session.install("-q", "--no-compile", "--no-deps", "langchain-community==0.3.31")  # which ragas imports a part of
    told = {
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    files = "tests/test_log_writers.py", "tests/test_log_batches.py"
    session.run("pytest", "-q", "-k", "ray or without_an_option", *files, *session.posargs, env=told)
