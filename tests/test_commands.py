"""Commands are the files of a folder, imported when called; errors of ours end them, and ``lm_eval``, in one plain line."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import PlainError, UsageError
from detector_plugin.calibration import CalibrationError
from detector_plugin.detector import UnusableDetector
from lm_eval_tasks import commands
from lm_eval_tasks.cli import GONE, command_names, docstring_of, main, summary
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.harness import short_errors as one_line
from lm_eval_tasks.harness import shorten_errors
from tests.conftest import command, run
from tests.miniature import MINIATURE, MINIATURE_FOLDER

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
def test_what_is_not_known_is_an_error(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
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


SHOWN: dict[str, Any] = {"capture_output": True, "text": True}
BASELINE = ("--model", "grounded-baseline", "--model_args", "strategy=abstain")


def failed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = run([command("lm_eval"), *BASELINE, *arguments], folder, check=False)
    assert done.returncode == 1
    return done


@pytest.fixture(scope="module")
def mirror_without_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(MINIATURE_FOLDER, tmp_path_factory.mktemp("mirror") / "mirror")
    (folder / "miracl" / "nomiracl" / "data" / "german" / "corpus.jsonl.gz").unlink()
    return folder


@pytest.mark.parametrize(
    ("tasks", "metadata", "said"),
    [
        ("nomiracl_de", "mirror={mirror}", "data/german/corpus.jsonl.gz of hub .* at revision .* puts it there."),
        ("nomiracl_de", "split=tets", "nomiracl_de: unknown split 'tets'; known are dev, test"),
        (
            *("nomiracl_de", f"mirror={MINIATURE} --output_path a_file/out"),
            "nothing can be written to a_file/out/baseline-abstain: Not a directory.*",
        ),
        ("mfava_de", f"mirror={MINIATURE},detector=nobody/has-this", ".*"),
        ("nomiracl_ger", f"mirror={MINIATURE}", "Tasks not found: nomiracl_ger; did you mean nomiracl_de\\?"),
    ],
    ids=["a missing file", "an unknown value", "an output folder", "an unknown detector", "an unknown task"],
)
def test_an_error_of_ours_is_one_line(
    tasks: str, metadata: str, said: str, mirror_without_corpus: Path, tmp_path: Path
) -> None:
    metadata = metadata.format(mirror=mirror_without_corpus)
    (tmp_path / "a_file").touch()
    printed = failed(tmp_path, "--tasks", tasks, "--metadata", *metadata.split()).stderr
    assert "Traceback" not in printed
    assert re.fullmatch(f"lm_eval: error: {said}", printed.splitlines()[-1])
    assert printed.count("lm_eval: error: ") == 1


def test_an_error_of_somebody_else_keeps_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("def load(**kwargs):\n    raise ValueError('theirs')\n")
    (tmp_path / "theirs.yaml").write_text(
        "task: theirs\ncustom_dataset: !function theirs.load\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_text: x\ndoc_to_target: x\n"
    )
    said = failed(tmp_path, "--tasks", "theirs", "--include_path", str(tmp_path)).stderr
    assert "Traceback (most recent call last)" in said
    assert said.splitlines()[-1] == "ValueError: theirs"


@pytest.mark.parametrize("kind", [MissingSource, CorruptSource, UnusableDetector, CalibrationError, UsageError])
def test_the_kinds_that_are_shown_so(kind: type[Exception]) -> None:
    assert issubclass(kind, PlainError)
    assert issubclass(kind, (ValueError, FileNotFoundError))  # what callers of the library have caught so far
    assert one_line.one_line(kind("a:\n  one\n\n  two\n")) == "lm_eval: error: a: one two"


def test_only_our_own_classes_are_taken_from_the_hook_that_was_there_and_none_while_debugging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: before.append(kind))
    shorten_errors()
    shorten_errors()
    logger = logging.getLogger("lm_eval")
    monkeypatch.setattr(logger, "level", logger.level)
    for level, error in (
        *((logging.INFO, error) for error in (MissingSource("gone"), ValueError("theirs"), KeyboardInterrupt())),
        (logging.DEBUG, UsageError("x")),  # what LMEVAL_LOG_LEVEL=DEBUG does
    ):
        logger.setLevel(level)
        sys.excepthook(type(error), error, None)
    assert before == [ValueError, KeyboardInterrupt, UsageError]
    assert capsys.readouterr().err == "lm_eval: error: gone\n"


@pytest.mark.parametrize(
    ("module", "raises", "line"),
    [
        ("lm_eval.models.vllm_causallms", "import vllm", "vllm, .*: pip install 'lm-eval-grounded\\[vllm\\]'"),
        ("lm_eval.models.huggingface", "import torch.nn", "torch, .*: pip install 'lm-eval-grounded\\[hf\\]'"),
        ("lm_eval.models.mamba_lm", "import mamba_ssm", "mamba_ssm, which is not installed: pip install mamba_ssm"),
        ("lm_eval.models.api_models", "raise ModuleNotFoundError('needs\\n tenacity')", "needs tenacity"),
        ("lm_eval.models.watsonx", "raise ImportError('install ibm')", "install ibm"),
        ("transformers.models", "import vllm", None),  # a fault of the installation keeps its traceback
        ("lm_eval.models.huggingface", "raise ValueError('x')", None),
    ],
)
def test_a_backend_without_its_package_is_one_line(
    module: str, raises: str, line: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("vllm", "torch", "mamba_ssm"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "torch.nn", raising=False)
    with pytest.raises((ImportError, ValueError)) as caught:
        exec(raises, {"__name__": module})
    said = one_line.as_ours(caught.value)
    if line is None:
        assert said is caught.value
    else:
        assert isinstance(said, UsageError)
        needs = "" if "raise" in raises else "the backend of --model needs "
        assert re.fullmatch(f"lm_eval: error: {needs}{line}", one_line.one_line(said))


@pytest.mark.parametrize("name", command_names())
def test_ctrl_c_is_one_line_in_every_command_of_ours(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    module = importlib.import_module(f"lm_eval_tasks.commands.{name}")
    monkeypatch.setattr(module, "add_arguments", lambda parser: None)
    monkeypatch.setattr(module, "run", interrupted)
    assert main([name]) == 130
    assert capsys.readouterr().err == "lm-eval-grounded: interrupted\n"


def test_an_error_of_writing_names_the_path(tmp_path: Path) -> None:
    """The system's own errors name no file: of a full disk, and of a file that grows over a limit."""
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom lm_eval_tasks.cli import main\n"
        "from lm_eval_tasks.data import whole_file, whole_folder\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "def write(path): path.write_text('x' * 9999)\n"
        "def written():\n  with whole_file(Path('a')) as partial: write(partial)\n"
        "for do in (written, lambda: whole_folder(Path('b'), lambda folder: write(folder / 'c'))):\n"
        "  try: do()\n  except OSError as error: print(error.filename)\n"
        "sys.exit(main(['detect', '-', '--detector', 'lexical']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, input="x" * 9999, **SHOWN)
    assert (done.stdout.split(), done.returncode) == (["a", "b"], 2)
    assert re.fullmatch(r"lm-eval-grounded: /.*/stdin: File too large\n", done.stderr)
    if Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            done = subprocess.run([command("lm-eval-grounded")], cwd=tmp_path, stdout=full, stderr=-1, text=True)
        assert (done.returncode, done.stderr) == (2, "lm-eval-grounded: standard output: No space left on device\n")


@pytest.mark.slow("starts a Python of its own")
def test_a_program_that_uses_the_harness_as_a_library_keeps_its_hook(tmp_path: Path) -> None:
    code = (  # Python 3.10 has a backport of exception groups, which has a hook of its own
        "import sys, lm_eval, lm_eval.tasks; assert sys.excepthook.__module__ != 'lm_eval_tasks.harness'\n"
        "import lm_eval._cli.harness; assert sys.excepthook.__module__ == 'lm_eval_tasks.harness'"
    )
    run([sys.executable, "-c", code], tmp_path)
