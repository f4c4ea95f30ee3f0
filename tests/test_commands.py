"""The commands are the files of a folder: found without being imported, imported when called, one file each."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lm_eval_tasks import commands
from lm_eval_tasks.cli import GONE, command_names, docstring_of, main, summary

FOLDER = Path(commands.__file__).parent
HEAVY = "('torch', 'transformers', 'datasets', 'lm_eval', 'numpy', 'bm25s', 'huggingface_hub', 'yaml', 'pandas')"


def test_the_files_of_the_folder_are_the_commands() -> None:
    files = {path.stem for path in FOLDER.iterdir()} - {"__init__", "__pycache__"}
    assert {name.replace("-", "_") for name in command_names()} == files
    assert command_names() == sorted(command_names())


@pytest.mark.parametrize("name", command_names())
def test_a_command_keeps_the_contract(name: str) -> None:
    module = importlib.import_module(f"lm_eval_tasks.commands.{name.replace('-', '_')}")
    first, _, rest = inspect.cleandoc(module.__doc__ or "").partition("\n")
    assert first.endswith(".")
    assert not rest or rest.startswith("\n")  # the description is a paragraph of its own
    assert [*inspect.signature(module.add_arguments).parameters] == ["parser"]
    assert [*inspect.signature(module.run).parameters] == ["arguments"]


@pytest.mark.parametrize("name", command_names())
def test_two_examples_of_a_command_can_be_typed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = docstring_of(name).partition("\n\nExamples:\n  ")[2].splitlines()
    assert len(examples) == 2
    module = importlib.import_module(f"lm_eval_tasks.commands.{name.replace('-', '_')}")
    typed = []
    monkeypatch.setattr(module, "run", lambda arguments: typed.append(arguments.command) or 0)
    monkeypatch.setattr(commands, "check_output", lambda arguments: None)
    for example in examples:
        assert main([part for part in re.split("[|<]", example)[:1] for part in shlex.split(part)][1:]) == 0
    assert typed == [name] * 2


def test_alone_it_prints_the_commands_in_groups_and_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert sorted(re.findall(r"^  (\S+) .+\n +lm-eval-grounded \1\b", printed, re.M)) == command_names()
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert re.fullmatch(r"lm-eval-grounded \d+\.\d+\.\d+\n", capsys.readouterr().out)


def _after(*command_lines: str) -> tuple[str, set[str], set[str]]:
    """What command lines print in one process of their own, the commands it imports, and the heavy libraries."""
    code = (
        "import sys, custom_metrics.abstention, custom_metrics.scores.grounding, lm_eval_tasks.data.sources\n"
        "from lm_eval_tasks.cli import main\n"
        "for line in sys.argv[1:]:\n    try:\n        main(line.split())\n    except SystemExit:\n        pass\n"
        "print('imported', *(m.split('.')[2] for m in sys.modules if m.startswith('lm_eval_tasks.commands.')))\n"
        f"print('heavy', *(m for m in {HEAVY} if m in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *command_lines], capture_output=True, text=True, check=True)
    *printed, imported, heavy = done.stdout.splitlines()
    return "\n".join(printed), {*imported.split()[1:]}, {*heavy.split()[1:]}


def test_the_list_of_commands_imports_none_of_them() -> None:
    printed, imported, heavy = _after("--help")
    listed = {match[1]: match[2] for match in re.finditer(r"^    (\S+)\s+(\S.*(?:\n {24}.*)*)", printed, re.M)}
    assert {name: " ".join(said.split()) for name, said in listed.items()} == {n: summary(n) for n in command_names()}
    assert (imported, heavy) == (set(), set())


def test_the_help_of_a_command_imports_nothing_heavy() -> None:
    printed, imported, heavy = _after("train --help")
    assert printed.startswith("usage: lm-eval-grounded train [-h]")
    assert (imported, heavy) == ({"train"}, set())
    printed, imported, heavy = _after(*(f"{name} --help" for name in command_names()))
    assert printed.count("usage: lm-eval-grounded ") == len(command_names())
    assert imported == {name.replace("-", "_") for name in command_names()}
    assert heavy == set()


def test_a_new_command_is_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "say_hello.py").write_text(
        '"""Greet 100 % of those who are named.\n\nSays hello\nto everybody."""\n\n'
        "def add_arguments(parser):\n    parser.add_argument('names', nargs='+')\n\n"
        "def run(arguments):\n    print('hello', *arguments.names)\n    return len(arguments.names)\n"
    )
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["say-hello", "Ada", "Grace"]) == 2
    assert capsys.readouterr().out == "hello Ada Grace\n"
    for asked, shown in (
        ([], "\nMore:\n  say-hello   greet 100 % of those who are named\n\n`lm-eval-grounded COMMAND --help`"),
        (["say-hello", "--help"], "\n\nSays hello to everybody.\n\n"),
        (["--help"], "    say-hello           greet 100 % of those who are named\n"),
    ):
        with suppress(SystemExit):
            main(asked)
        assert shown in capsys.readouterr().out
    monkeypatch.delitem(sys.modules, "lm_eval_tasks.commands.say_hello")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["chek"], "there is no command 'chek'; did you mean 'check'?"),
        (["no-such"], "there is no command 'no-such'; there are abstention, "),
        (["sources", "--tasks", "x"], "lm-eval-grounded: error: unrecognized arguments: --tasks x"),
        (["export", "tasks", "x"], "export tasks: error: the following arguments are required: -o/--output"),
    ],
)
def test_what_the_command_line_does_not_know_is_an_error(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("gone", GONE)
def test_what_went_says_in_one_line_what_to_use_instead(gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *more = gone.split()
    assert main([command, "x", *more] if gone.partition(" ")[2].startswith("-") else [*gone.split(), "x"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"lm-eval-grounded: `{gone}` is gone: {GONE[gone]}\n")
