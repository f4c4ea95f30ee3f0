"""``make mutants``: changes the code in one place at a time, and counts the changes that the fast tests notice.

mutmut makes the mutants, maps each function to the tests that call it, and tests each mutant in a forked process with a
limit of CPU time. This driver keeps the copy of the project that mutmut works on, leaves out what is already known, and
prints the table by module. A run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import argparse
import filecmp
import fnmatch
import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from math import ceil
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.mutation import phrase_tables
from tests.mutation.explained import Change, change_of, explanation_of, explanations

ROOT = Path(__file__).parents[2]
STAGE = ROOT / "build" / "mutation"
COPIED = ("custom_metrics", "detector_plugin", "lm_eval_tasks", "tests")
SETTINGS = Path(__file__).with_name("settings.cfg")
SHARED = ROOT.parent / "shared"

LEAST_KILLED = 0.90  # of the mutants that are not explained
LONGEST_TEST = 1.0  # seconds of CPU time; slower tests are not asked about single mutants
LONGEST_TESTS = 3.0  # seconds of CPU time, the tests of one mutant together, the fastest first
LONGEST_COMPILING = 6.0  # the same where they compile phrase tables
SLOWED = 5.0  # mutmut notes which functions a test calls; one that calls many takes so many times as long

STARTS = "starts a process"

QUIET = ("--rootdir=.", "-q")

KILLED, TIMEOUT, SURVIVED, UNTESTED, UNKNOWN = "killed", "timeout", "survived", "no test", "not run"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "modules", nargs="*", help="files, as patterns (custom_metrics/scores/ranking.py); all without one"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants tested at once")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: each N-th mutant of a file")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--report", action="store_true", help="print the table of earlier results, run nothing")
    parser.add_argument("--show", action="store_true", help="print the survivors that nothing explains, too")
    options = parser.parse_args(arguments)
    if options.fresh:
        shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True, exist_ok=True)
    changed = [] if options.report else stage()
    os.chdir(STAGE)
    if not options.report:
        mutate(options.modules, options.jobs, changed, options.every)
    return report(options.modules, options.show)


# ------------------------------------------------------------------------------------------------------------ the copy


def stage() -> list[str]:
    """Bring the copy up to date; the test files that changed since the last time."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *COPIED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    changed = []
    for name in sorted(wanted):
        target = STAGE / name
        if target.is_file() and filecmp.cmp(ROOT / name, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)  # its time is now: mutmut makes the mutants of newer files anew
        changed.append(name)
        if not name.endswith(".py"):
            (STAGE / "mutants" / name).unlink(missing_ok=True)  # mutmut copies what is not there
    for folder in COPIED:
        for place in (STAGE, STAGE / "mutants"):
            for file in (place / folder).rglob("*.py"):
                if str(file.relative_to(place)) not in wanted:
                    file.unlink()
    shutil.copyfile(ROOT / "pyproject.toml", STAGE / "pyproject.toml")
    shutil.copyfile(SETTINGS, STAGE / "setup.cfg")
    link = STAGE / "shared"  # the tests look for it beside the folder that they stand in
    if SHARED.is_dir() and not link.exists():
        link.symlink_to(SHARED)
    return [name for name in changed if name.startswith("tests/")]


class Retests:
    """Test files that changed since the survivors of a module were last tested; kept over runs that were stopped."""

    def __init__(self) -> None:
        self.file = STAGE / "retests.json"
        self.by_module: dict[str, list[str]] = json.loads(self.file.read_text("utf-8")) if self.file.exists() else {}

    def add(self, modules: Iterable[str], files: Sequence[str]) -> None:
        for module in modules:
            self.by_module[module] = sorted({*self.by_module.get(module, ()), *files})
        self._save()

    def done(self, module: str) -> None:
        self.by_module.pop(module, None)
        self._save()

    def _save(self) -> None:
        self.file.write_text(json.dumps(self.by_module, indent=1), "utf-8")


def _forget_tests(files: Sequence[str]) -> None:
    """Take the tests of changed files out of mutmut's map, so that it maps them anew."""
    stats = STAGE / "mutants" / "mutmut-stats.json"
    if not files or not stats.exists():
        return
    kept = json.loads(stats.read_text("utf-8"))

    def stays(test: str) -> bool:
        return test.split("::", maxsplit=1)[0] not in files

    kept["duration_by_test"] = {test: took for test, took in kept["duration_by_test"].items() if stays(test)}
    tests_of = kept["tests_by_mangled_function_name"]
    kept["tests_by_mangled_function_name"] = {name: list(filter(stays, tests)) for name, tests in tests_of.items()}
    stats.write_text(json.dumps(kept), "utf-8")


# ------------------------------------------------------------------------------------------------------------- the run


def mutate(modules: Sequence[str], jobs: int, changed_tests: Sequence[str], every: int = 1) -> None:
    """Test every mutant whose outcome is not known."""
    os.environ["PY_IGNORE_IMPORTMISMATCH"] = "1"
    os.environ["TQDM_DISABLE"] = "1"
    from mutmut import __main__ as mutmut
    from mutmut.mutation.trampoline import set_mutant_under_test
    from mutmut.state import state
    from mutmut.utils.file_utils import change_cwd

    if not sys.stdout.isatty():
        mutmut.print_status = lambda *_, **__: None  # mutmut's spinner writes megabytes into a log
    strings_once()
    _forget_tests(changed_tests)
    set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    with mutmut.CatchOutput(spinner_title="Making mutants"):
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.setup_source_paths()
        mutmut.create_mutants(jobs)
    mutmut.load_stats()
    mapped = set(state().duration_by_test)
    in_a_process_of_its_own(partial(map_tests, jobs, mapped))
    mutmut.load_stats()
    set_mutant_under_test("")
    _, files = mutmut.collect_source_file_mutation_data(mutant_names=())
    retests = Retests()
    retests.add(files, sorted({_file_of(test) for test in set(state().duration_by_test) - mapped}))

    def every_module(tester: Forks) -> None:
        began = time.monotonic()
        for module, data in sorted(files.items(), key=lambda entry: (_place(entry[0], modules), entry[0])):
            if not _chosen(module, modules):
                continue
            again = set(retests.by_module.get(module, ()))
            work = []
            for number, (name, outcome) in enumerate(data.exit_code_by_key.items()):
                if outcome is None and number % every:
                    continue
                asked = _tests_of(name, outcome, again)
                if asked is not None:
                    work.append((name, asked))
            tester.test(module, data, work)
            retests.done(module)
            if work:
                found = Counter(status(code) for code in data.exit_code_by_key.values())
                said = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
                took = time.monotonic() - began
                print(f"{module}: {said} ({tester.tested} tested in {took:.0f} s)", file=sys.__stderr__, flush=True)

    with change_cwd("mutants"):
        tester = Forks(jobs, every_module)
        code = pytest.main([*QUIET, *mutmut.config().pytest_add_cli_args, *selected_tests()], plugins=[tester])
    if code != 0 or not tester.ran:
        raise SystemExit(f"the tests could not be collected (pytest said {code})")


def map_tests(jobs: int, mapped: Collection[str]) -> None:
    """Run the tests that are not mapped yet, and note which functions they call and how long they take."""
    from mutmut import __main__ as mutmut
    from mutmut.runners.harness import BadTestExecutionCommandsException
    from mutmut.state import state

    began, used = time.monotonic(), time.process_time()
    try:
        mutmut.collect_or_load_stats(mutmut.get_mutant_runner(jobs))
    except (
        BadTestExecutionCommandsException
    ):  # pytest does not find a test by its name: all are mapped anew, without names
        Path("mutants", "mutmut-stats.json").unlink()
        mapped = ()
        mutmut.collect_or_load_stats(mutmut.get_mutant_runner(jobs))
    share = min(1.0, (time.process_time() - used) / (time.monotonic() - began))
    for test in state().duration_by_test.keys() - set(
        mapped
    ):  # mutmut measures by the clock, which others' work delays
        state().duration_by_test[test] *= share
    mutmut.save_stats()


def in_a_process_of_its_own(work: Callable[[], None]) -> None:
    """Do some work in a fork: what tests leave in caches would hide mutants from the next ones."""
    process = os.fork()
    if not process:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    if os.waitpid(process, 0)[1]:
        raise SystemExit("the tests could not be mapped to functions; do they all pass?")


def _tests_of(mutant: str, outcome: int | None, changed_files: Collection[str]) -> list[str] | None:
    """The tests to run on a mutant; ``None`` where its outcome stands."""
    from mutmut.state import state
    from mutmut.utils.format_utils import mangled_name_from_mutant_name

    tests = sorted(state().tests_by_mangled_function_name.get(mangled_name_from_mutant_name(mutant), set()))
    if outcome is None:
        return tests
    if status(outcome) not in (SURVIVED, UNTESTED):
        return None
    return [test for test in tests if _file_of(test) in changed_files] or None


def _file_of(test: str) -> str:
    return test.split("::", maxsplit=1)[0]


def strings_once() -> None:
    """One mutant a string: mutmut's others, in capitals and in small letters, say little that the first does not."""
    from mutmut.mutation import mutators

    def marked(node: Any) -> Iterator[Any]:
        return islice(mutators.operator_string(node), 1)

    mutators.mutation_operators[:] = [
        (kind, marked if operator is mutators.operator_string else operator)
        for kind, operator in mutators.mutation_operators
    ]


class Costs:
    """CPU time of each test in a fresh process, as the processes wrote it down; until then, as mutmut measured it.

    mutmut's own figures are of one process: there the first test that needs a data set loads it for all others.
    """

    def __init__(self, file: str, budget: float) -> None:
        self.file = STAGE / file
        self.file.touch()
        self.budget = budget
        self.read_to = 0
        self.seconds: dict[str, float] = {}

    def fastest_first(self, tests: Sequence[str]) -> list[str]:
        """Some tests in order of their time, without those that are too slow to be asked about single mutants."""
        from mutmut.state import state

        with self.file.open(encoding="utf-8") as stream:
            stream.seek(self.read_to)
            for line in stream:
                test, _, took = line.rstrip("\n").rpartition("\t")
                self.seconds[test] = max(float(took), self.seconds.get(test, 0.0))
            self.read_to = stream.tell()
        mapped = state().duration_by_test
        fast = [test for test in tests if self.seconds.get(test, mapped[test] / SLOWED) <= LONGEST_TEST]
        return sorted(fast, key=lambda test: (self.seconds.get(test, mapped[test]), test))


class Forks:
    """A pytest plugin that collects the tests once and forks a process for each mutant, which runs those it is given.

    mutmut's own runner starts pytest anew in each process. That costs more than most of these tests.
    """

    def __init__(self, jobs: int, work: Callable[[Forks], None]) -> None:
        self.jobs = jobs
        self.work = work
        self.items: dict[str, pytest.Item] = {}
        self.running: dict[int, tuple[Any, str, float]] = {}
        self.tested = 0
        self.cpu = 0.0
        self.costs = {False: Costs("costs.tsv", LONGEST_TESTS), True: Costs("costs_compiling.tsv", LONGEST_COMPILING)}
        """By whether phrase tables are compiled for the mutant: then other tests are slow."""
        self.ran = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        warm_up()
        gc.freeze()
        try:
            self.work(self)
            self.ran = True
        finally:
            for process in self.running:
                os.kill(process, signal.SIGKILL)
        return True

    def test(self, module: str, data: Any, work: Iterable[tuple[str, list[str]]]) -> None:
        """Test mutants of one file; their outcomes are kept as they come."""
        compiles = module in phrase_tables.MODULES
        for name, tests in work:
            if not tests:
                data.exit_code_by_key[name] = 33  # mutmut's number for "no tests"
                continue
            while len(self.running) >= self.jobs:
                self._finish_one()
            asked = self.costs[compiles].fastest_first(tests)
            process = os.fork()
            if not process:
                self._in_child(name, asked, compiles)
            self.running[process] = (data, name, time.monotonic())
        while self.running:
            self._finish_one()
        os.chdir("..")
        data.save()
        os.chdir("mutants")

    def _finish_one(self) -> None:
        process, ended, used = os.wait3(0)
        data, name, began = self.running.pop(process)
        shutil.rmtree(self.folder / str(process), ignore_errors=True)
        self.cpu += used.ru_utime + used.ru_stime
        data.exit_code_by_key[name] = os.waitstatus_to_exitcode(ended)
        data.durations_by_key[name] = time.monotonic() - began
        self.tested += 1
        if self.tested % 25 == 0:
            os.chdir("..")
            data.save()
            os.chdir("mutants")
            print(f"  {self.tested} tested, {self.cpu:.0f} s of CPU time", file=sys.__stderr__, flush=True)

    def _in_child(self, mutant: str, tests: Sequence[str], compiles: bool) -> None:
        from _pytest.runner import runtestprotocol
        from mutmut.mutation.trampoline import set_mutant_under_test

        code = 3
        try:
            gc.disable()
            set_mutant_under_test(mutant)
            if compiles:
                phrase_tables.forget()
            subprocess.Popen.__init__ = no_process  # type: ignore[assignment, method-assign]
            limit = ceil(self.costs[compiles].budget * 4)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(limit * 6)  # of the clock: a mutant may wait for something
            own = self.folder / str(os.getpid())
            own.mkdir()
            next(iter(self.items.values())).config._tmp_path_factory._basetemp = own  # type: ignore[attr-defined]
            items = [self.items[test] for test in tests if test in self.items]
            with self.costs[compiles].file.open("a", buffering=1, encoding="utf-8") as costs:
                asked = 0
                until = time.process_time() + self.costs[compiles].budget
                for item, following in pairwise([*items, None]):
                    began = time.process_time()
                    if began > until:
                        break
                    reports = runtestprotocol(item, nextitem=following, log=False)
                    if any(report.failed for report in reports):
                        os._exit(1)
                    started = any(STARTS in str(report.longrepr) for report in reports if report.skipped)
                    asked += not started
                    took = LONGEST_TEST * 1000 if started else time.process_time() - began
                    costs.write(f"{item.nodeid}\t{took:.3f}\n")
            code = 0 if asked else 33
        finally:
            os._exit(code)


def no_process(*_: object, **__: object) -> NoReturn:
    """In place of the start of a process, which no mutant gets: it costs seconds of imports that no clock here sees."""
    pytest.skip(STARTS)


def warm_up() -> None:
    """What takes long to load and is no part of what is tested: each process inherits it."""
    from custom_metrics.abstention import is_abstention
    from custom_metrics.reading.words import words

    is_abstention("I do not know.")
    for language in ("ar", "de", "en", "es", "fi", "fr", "zh"):  # tables of phrases, which no mutant is in
        is_abstention("1.", language)
    for language in ("zh", "ja"):
        words("\u732b", language)


def selected_tests() -> list[str]:
    from mutmut.configuration import config

    return list(config().pytest_add_cli_args_test_selection)


def _chosen(module: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(module, pattern) for pattern in patterns)


def _place(module: str, patterns: Sequence[str]) -> int:
    """The number of the first pattern that a module fits: they are run in the order in which they are named."""
    return next((place for place, pattern in enumerate(patterns) if fnmatch.fnmatch(module, pattern)), len(patterns))


def status(exit_code: int | None) -> str:
    """What became of a mutant, from the exit status of its process."""
    if exit_code is None:
        return UNKNOWN
    if exit_code == 0:
        return SURVIVED
    if exit_code in (5, 33):  # pytest's and mutmut's number for "no tests"
        return UNTESTED
    return TIMEOUT if exit_code in (-24, -14, -9) else KILLED


# ---------------------------------------------------------------------------------------------------------- the report


def report(patterns: Sequence[str], show: bool) -> int:
    """Print the table; 1 where too few mutants are killed, some were not run, or an explanation has lost its mutant."""
    known, used = explanations(), set()
    total: Counter[str] = Counter()
    lines, left = [], []
    for module, outcomes in _outcomes():
        if not _chosen(module, patterns):
            continue
        counts: Counter[str] = Counter()
        for name, code in outcomes.items():
            outcome = status(code)
            if outcome in (SURVIVED, UNTESTED):
                change = change_of(name, module)
                line = explanation_of(change, known)
                if line is not None:
                    used.add(line)
                    outcome = "explained"
                else:
                    left.append((outcome, name, change))
            counts[outcome] += 1
        total += counts
        lines.append((module, counts))
    if not lines:
        print("no results; run `make mutants` first")
        return 1
    columns = (KILLED, TIMEOUT, SURVIVED, UNTESTED, "explained", UNKNOWN)
    print(f"{'module':<44}{'mutants':>8}" + "".join(f"{name:>10}" for name in columns) + f"{'share':>8}")
    for module, counts in [*lines, ("all", total)]:
        print(
            f"{module:<44}{counts.total():>8}"
            + "".join(f"{counts[name]:>10}" for name in columns)
            + (f"{share_killed(counts):>8.1%}" if counts.total() > counts[UNKNOWN] else f"{'-':>8}")
        )
    if show:
        for outcome, name, change in left:
            print(f"\n{outcome}: {name}\n  - {change.removed}\n  + {change.added}")
    stale = [] if patterns or total[UNKNOWN] else [change for change in known if change not in used]
    for change in stale:
        print(f"explained, but no survivor: {change.module} {change.function}: {change.removed} -> {change.added}")
    return int(share_killed(total) < LEAST_KILLED or bool(stale) or bool(total[UNKNOWN]))


def share_killed(counts: Counter[str]) -> float:
    """Killed and timed out, of all mutants that were run and whose survival is not explained."""
    counted = counts.total() - counts["explained"] - counts[UNKNOWN]
    return (counts[KILLED] + counts[TIMEOUT]) / counted if counted else 1.0


def _outcomes() -> Iterator[tuple[str, dict[str, int | None]]]:
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.utils.file_utils import walk_mutatable_files

    for path in sorted(walk_mutatable_files()):
        data = SourceFileMutationData(path=path)
        data.load()
        if data.exit_code_by_key:
            yield str(path), data.exit_code_by_key


__all__ = ["Change", "main", "share_killed", "status"]

if __name__ == "__main__":
    sys.exit(main())
