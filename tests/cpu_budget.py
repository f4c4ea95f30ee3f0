"""A fast test that has become slow is seen: ``pytest --cpu-budget SECONDS``.

Counted is processor time, of the test's process and of those that it started and waited for: what else the machine does is
not in it. The report at the end lists tests that used more than the budget and are not marked ``slow``, and the dearest
set-ups. It fails nothing, because processors differ.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environment.started import Started

SHOWN = 15
CPU = "cpu "
"""How the properties of a test begin that hold its processor time, by phase."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu-budget",
        type=float,
        metavar="SECONDS",
        help="list the tests that are not marked slow and used more processor time than this",
    )
    parser.addoption(
        "--cpu-file",
        type=Path,
        metavar="FILE",
        help="write the processor time of every test and every fixture, as they end: seconds, phase and test, by tab",
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--cpu-file")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Written(file))


class _Written:
    """Writes what each test used as soon as it is known: a session that is ended early has said what it knows."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_text("", "utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":  # has the properties of the phases before
            with self.file.open("a", encoding="utf-8") as written:
                for name, seconds in report.user_properties:
                    if name.startswith(CPU):
                        written.write(f"{seconds:.2f}\t{name.removeprefix(CPU)}\t{report.nodeid}\n")


def cpu_seconds() -> float:
    """Of this process, all its threads, the processes that it waited for, and the commands that it had run."""
    return sum(os.times()[:4]) + Started.spent


def _counted(item: pytest.Item, phase: str) -> Generator[None, Any, Any]:
    before = cpu_seconds()
    try:
        return (yield)
    finally:
        item.user_properties.append((f"{CPU}{phase}", cpu_seconds() - before))  # travels from a worker with the report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _counted(item, "set-up"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Of a fixture alone: those that it asks for are made before."""
    return (yield from _counted(request._pyfuncitem, f"fixture {fixturedef.argname}"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _counted(item, "call"))


def _used(terminalreporter: Any) -> Iterator[tuple[float, str, pytest.TestReport]]:
    """Seconds, phase and report of every phase of every test."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                phase = "set-up" if report.when == "setup" else report.when
                for name, seconds in report.user_properties:
                    if name == f"{CPU}{phase}":
                        yield float(seconds), phase, report  # type: ignore[arg-type]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    budget = config.getoption("--cpu-budget")
    if budget is None:
        return
    used = sorted(_used(terminalreporter), key=lambda entry: entry[0], reverse=True)
    over = [(s, phase, report) for s, phase, report in used if s > budget and "slow" not in report.keywords]
    terminalreporter.section(f"processor time ({sum(s for s, *_ in used):.0f} s)")
    for seconds, phase, report in over or used[:SHOWN]:
        terminalreporter.line(f"{seconds:7.1f} s {phase:6} {report.nodeid}")
    if over:
        terminalreporter.line(
            f"These are not marked slow, and each used more than {budget:g} s of the processor: make it faster, or "
            'mark it @pytest.mark.slow("why")',
            red=True,
        )
