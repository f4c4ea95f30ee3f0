"""The command line ``lm-eval-grounded``: what is not a harness run.

The commands are the modules of :mod:`lm_eval_tasks.commands`. This module finds them, and imports the one that is called.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import importlib.util
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import PlainError, naming
from custom_metrics.usage.secrets import blank
from lm_eval_tasks import commands
from lm_eval_tasks.harness import short_errors, shorten_errors

ABOUT = (
    "Companion of the harness tasks nomiracl_*, clapnq_*, mfava_*, mushroom_*, memerag_*, mtrag*, ragtruth_*. To "
    "evaluate a model, run `lm_eval`."
)
GROUPS = {
    "Before a run": "check sources retrieve",
    "Answers that exist": "score mark detect abstention",
    "What a run says": "compare report reproduce",
    "Detectors and data": "calibrate train make export",
}
_EXAMPLES = "\n\nExamples:\n"

GONE = {
    "agreement": "use scikit-learn's cohen_kappa_score; `score --marks` logs the kappa of annotators",
    "arena": "run `lm_eval --model hallucination-detector --tasks mushroom,memerag,ragtruth` a detector, then `report`",
    "calibrate --note": "write it into the file, which is JSON: the field `note`",
    "detect --color": "colours are for a terminal, tags for a file; NO_COLOR=1 turns them off",
    "detect --follow": "run it again when the log has grown",
    "detect --input": "name the log without it",
    "detect --question": "a log has the field `question`",
    "detect --workers": "leave it out: one process reads a log",
    "export figures": "in Python, `lm_eval_grounded.read(FOLDER).figures.to_csv(FILE)` writes the table",
    "export model-card": "in Python, `lm_eval_grounded.read(FOLDER).figures` has what a card shows",
    "leaderboard": "`report RUNS... -o FOLDER` writes the page of many runs, and one of each",
    "make --step": "name the samples of one step",
    "mark --marks": "the lines of a marks file have `seconds`",
    "mark --serve": "the page is a file; send it to the person who marks",
    "path": "`check` prints the folder of the tasks",
    "reproduce --mirror": "set LM_EVAL_GROUNDED_MIRROR",
    "reproduce --task": "name it with --tasks in the command that `reproduce` prints",
    "score --workers": "use `accelerate launch -m lm_eval_tasks.cli score ...`, a process a GPU",
    "train --detector": "there is one kind; leave the option out",
}
"""Commands, and options of commands, that went in version 0.1, to what to use instead. The table goes with the next one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status. Without one, print the commands in groups, each with an example. Ctrl-C is
    said in one line, with the status of a shell's."""
    shorten_errors()
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        with naming(commands.STANDARD_OUTPUT):
            sys.stdout.flush()
    except KeyboardInterrupt:
        commands.say("lm-eval-grounded: interrupted", error=True)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # `| head`: the reader has seen enough
        _leave_standard_output()
        return 0
    except (OSError, ValueError, PlainError) as error:
        if isinstance(error, OSError) and error.filename == commands.STANDARD_OUTPUT:
            _leave_standard_output()
        commands.say(short_errors.one_line(error, "lm-eval-grounded"), error=True)
        return 2
    return status


def _leave_standard_output() -> None:
    """Drop what could not be written there, so that Python does not complain of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: Sequence[str]) -> int:
    if not argv:
        commands.say(overview())
        return 0
    parser = _Parser(prog="lm-eval-grounded", description=ABOUT)
    own = version("lm-eval-grounded") if "--version" in argv else ""  # which takes a while to find
    parser.add_argument("--version", action="version", version=f"%(prog)s {own}")
    subparsers = parser.add_subparsers(dest="command", required=True)
    for name in command_names():
        subparser = subparsers.add_parser(name, help=summary(name).replace("%", "%%"))
        if name in argv:  # what nobody calls is not imported
            command = importlib.import_module(_module(name))
            about, _, examples = (command.__doc__ or "").partition("\n")[2].partition(_EXAMPLES)
            subparser.description = about.strip() or None
            subparser.formatter_class = _WithExamples
            subparser.epilog = f"examples:\n{examples.rstrip()}" if examples else None
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.run)
    typed = (argv[0], *(f"{argv[0]} {word.partition('=')[0]}" for word in argv[1:]))
    for gone in filter(GONE.__contains__, typed):
        commands.say(f"lm-eval-grounded: `{gone}` is gone: {GONE[gone]}", error=True)
        return 2
    if not argv[0].startswith("-") and argv[0] not in command_names():
        parser.error(f"there is no command {argv[0]!r}{known_instead(argv[0], command_names())}")
    arguments, unknown = parser.parse_known_args(argv)
    if unknown and not hasattr(arguments, "unknown"):
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    arguments.unknown = unknown
    _show_log()
    commands.check_output(arguments)
    gc.set_threshold(100_000)  # many runs are millions of small objects, none of them in a circle
    status: int = arguments.run(arguments)
    return status


def command_names() -> list[str]:
    """The commands, in alphabetical order: every module of the folder ``commands``."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))


class _Parser(argparse.ArgumentParser):
    """Quotes no secret of what was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(blank(message))


class _WithExamples(argparse.HelpFormatter):
    """Wraps all but the epilog, whose lines are to be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n") if not text.startswith("examples:") else []
        return "\n\n".join(super(_WithExamples, self)._fill_text(each, width, indent) for each in paragraphs) or text


def overview() -> str:
    """The commands in groups, each with the first of its examples."""
    groups = {title: names.split() for title, names in GROUPS.items()}
    more = {*command_names()} - {name for names in groups.values() for name in names}
    lines = [ABOUT]
    for title, names in {**groups, "More": sorted(more)}.items():
        lines += ["", f"{title}:"] if names else []
        for name in names:
            example = docstring_of(name).partition(_EXAMPLES)[2].partition("\n")[0].strip()
            lines += [f"  {name:12}{summary(name)}", *([f"  {'':12}{example}"] if example else [])]
    return "\n".join(
        [*lines, "", "`lm-eval-grounded COMMAND --help` has the options; `lm_eval ls tasks` lists the tasks."]
    )


def docstring_of(name: str) -> str:
    """The docstring of a command; the module is read, not imported."""
    spec = importlib.util.find_spec(_module(name))
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no command {name}")
    return ast.get_docstring(ast.parse(Path(spec.origin).read_bytes())) or ""


def summary(name: str) -> str:
    """The first line of a command's docstring as ``--help`` shows it."""
    first = docstring_of(name).partition("\n")[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _module(name: str) -> str:
    return f"{commands.__name__}.{name.replace('-', '_')}"


def _show_log() -> None:
    """What the tasks and detectors say, on standard error, as `lm_eval` shows it."""
    import logging

    from custom_metrics.usage.printable import printable

    class Printable(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return printable(blank(super().format(record)))

    logger = logging.getLogger("lm_eval")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(Printable("%(levelname)s %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
