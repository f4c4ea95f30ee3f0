"""The command line ``lm-eval-grounded``: what is not a harness run.

The commands are the modules of :mod:`lm_eval_tasks.commands`. This module finds them, and imports the one that is called.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import PlainError
from custom_metrics.usage.secrets import blank
from lm_eval_tasks import commands
from lm_eval_tasks.harness import short_errors

ABOUT = (
    "Companion of the harness tasks nomiracl_*, clapnq_*, mfava_*, mushroom_*, memerag_*, mtragun_*, ragtruth_*. To "
    "evaluate a model, run `lm_eval`."
)
GROUPS = {
    "Before a run": "check sources path retrieve",
    "Answers that exist": "score mark detect abstention",
    "What a run says": "compare report leaderboard agreement reproduce",
    "Detectors and data": "arena calibrate train make export",
}
_EXAMPLES = "\n\nExamples:\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status. Without one, print the commands in groups, each with an example."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        commands.say(overview())
        return 0
    short_errors.install()
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
    if not argv[0].startswith("-") and argv[0] not in command_names():
        parser.error(f"there is no command {argv[0]!r}{known_instead(argv[0], command_names())}")
    arguments, unknown = parser.parse_known_args(argv)
    if unknown and not hasattr(arguments, "unknown"):
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    arguments.unknown = unknown
    _show_log()
    try:
        commands.check_output(arguments)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`: the reader has seen enough; Python must not complain at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, PlainError) as error:
        commands.say(short_errors.one_line(error, "lm-eval-grounded"), error=True)
        return 2
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
