"""What the pages name exists: files, headings, modules and their names, commands and their options, make targets."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lm_eval_tasks import commands
from lm_eval_tasks.cli import command_names
from lm_eval_tasks.definition.catalogue import ACROSS, benchmark_of, folders
from tests.architecture import PACKAGES
from tests.conftest import ROOT

PAGES = sorted({*ROOT.glob("*.md"), *(page for room in (*PACKAGES, "tests") for page in (ROOT / room).rglob("*.md"))})
ROOMS = (*PACKAGES, "tests", ".ci")
OF_READERS = ("capitals", "nomiracl_de_pairwise")
"""Tasks that a page asks the reader to make."""
INVENTED = ("lm_eval_tasks.capitals.", "tests/data/abstention/")
"""What a page asks the reader to make: a benchmark, and answers in Dutch (``nl.jsonl``)."""

NO_MODULES = ("lm_eval_grounded.pth", *(f"lm_eval_grounded.{group}" for group in ("detectors", "retrievers", "kinds")))
"""The file that starts the import hook, and groups of entry points."""


class Mention(NamedTuple):
    """What a page names, and where: a page's path below the root, and a line."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"


def test_printed_tables_have_the_version_of_their_task() -> None:
    current = {task.name: str(table.version) for table in map(benchmark_of, folders()) for task in table.tasks}
    printed = [re.findall(r"^\|(\w+) *\| *(\d\.\d)\|", line.text) for line in lines()]
    assert [(task, version) for rows in printed for task, version in rows if current[task] != version] == []


def lines() -> Iterator[Mention]:
    for page in PAGES:
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            yield Mention(page, number, line)


def found(pattern: str) -> list[Mention]:
    return [Mention(page, number, each) for page, number, line in lines() for each in re.findall(pattern, line)]


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub makes links of them."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for mention in found(r"\]\(([^)\s]+)\)"):
        target, _, anchor = mention.text.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        page = (mention.page.parent / target).resolve() if target else mention.page
        if not page.exists() or (anchor and anchor not in anchors(page)):
            broken.append(str(mention))
    assert broken == []


def exists(path: str, page: Path) -> bool:
    """Whether a path, below the root or beside the page, is there; ``*`` and ``<language>`` stand for any text."""
    pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
    return any(next(folder.glob(pattern), None) is not None for folder in (ROOT, page.parent))


def test_every_path_of_the_project_exists() -> None:
    """What stands in backticks or in a block, and begins with a folder of the project."""
    rooms = "|".join(map(re.escape, ROOMS))
    mentions = found(rf"(?<![\w/.-])((?:{rooms})/[\w./*<>-]*[\w/*>])")
    assert len(mentions) > 30
    asked_for = {mention for mention in mentions if mention.text.startswith(INVENTED) and "/nl." in mention.text}
    missing = {mention for mention in mentions if not exists(mention.text, mention.page)}
    assert sorted(map(str, missing - asked_for)) == []


def resolves(dotted: str) -> bool:
    """Whether a dotted name is an attribute of a module, or a module, which may need a tool that is not installed."""
    with suppress(AttributeError, ImportError):
        pkgutil.resolve_name(dotted)
        return True
    with suppress(ImportError):
        return importlib.util.find_spec(dotted) is not None
    return False


def test_every_dotted_name_of_the_project_is_a_module_or_in_one() -> None:
    no_names = ((".py", ".md", ".yaml"), (*INVENTED, *NO_MODULES))
    named = found(rf"(?<![\w/.-])((?:{'|'.join((*PACKAGES, 'tests'))})(?:\.[A-Za-z_]\w*)+)(?![\w/])")
    mentions = [each for each in named if not each.text.endswith(no_names[0]) and not each.text.startswith(no_names[1])]
    assert len(mentions) > 10
    assert [str(mention) for mention in mentions if not resolves(mention.text)] == []


def test_every_command_that_is_named_exists_and_every_command_is_named() -> None:
    named = found(r"lm-eval-grounded ([a-z][a-z-]*)")
    assert [str(mention) for mention in named if mention.text not in command_names()] == []
    assert {*command_names()} - {mention.text for mention in named} == set()


def options_of(name: str) -> set[str]:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"{commands.__name__}.{name.replace('-', '_')}").add_arguments(parser)
    parsers = [parser]  # and those of the kinds of `export`
    for action in parser._actions:
        parsers += action.choices.values() if isinstance(action, argparse._SubParsersAction) else ()
    return {option for each in parsers for option in each._option_string_actions}


def test_every_option_of_a_command_exists() -> None:
    """``check`` takes the options of ``lm_eval``, and is left out."""
    known = {name: options_of(name) for name in command_names() if name != "check"}
    wrong = [
        f"{mention}: {option}"
        for mention in found(r"lm-eval-grounded ([a-z][^`|>#\n]*)")
        for option in re.findall(r"(?<!\S)--?[a-z][\w-]*", mention.text)
        if (name := mention.text.split()[0]) in known and option not in known[name]
    ]
    assert wrong == []


def test_options_of_tasks_are_json_as_every_version_of_the_harness_reads_them() -> None:
    """0.4 reads ``--metadata name=value`` too, 0.5 does not: no page and no message says to type it."""
    sources = [*PAGES, *(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))]
    typed = re.compile(r"--metadata[= ](?!\{)[\w{}]+=")
    assert [(file.name, text) for file in sources for text in typed.findall(file.read_text("utf-8"))] == []


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    mentions = found(r"(?:`|^)make ([a-z][\w-]*)")
    assert len(mentions) > 8
    assert [str(mention) for mention in mentions if mention.text not in targets] == []
    assert targets - {mention.text for mention in mentions} == {"clean"}


def test_every_task_that_is_run_exists() -> None:
    """Tasks and groups behind ``--tasks``; capitals stand for a name of the reader's."""
    tables = [benchmark_of(folder) for folder in folders()]
    known = {entry.name for table in tables for entry in (*table.tasks, *table.groups)}
    known |= {*ACROSS, *(path.stem for path in (ROOT / "lm_eval_tasks" / "clapnq" / "judge").glob("*.yaml"))}
    mentions = [
        mention._replace(text=name)
        for mention in found(r"--tasks[ =]([\w,*]+)")
        for name in mention.text.split(",")
        if name and not name.isupper() and not name.startswith(OF_READERS)
    ]
    assert len(mentions) > 20
    assert [str(mention) for mention in mentions if not fnmatch.filter(known, mention.text)] == []
