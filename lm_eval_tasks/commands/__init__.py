"""The commands of ``lm-eval-grounded``: each module in this folder is one, which :mod:`lm_eval_tasks.cli` finds by
itself.

A command has a docstring (its first line stands in ``lm-eval-grounded --help``, the rest in the command's own, and the
first of two examples at its end is shown by ``lm-eval-grounded`` alone), ``add_arguments(parser)``, and ``run(arguments)
-> int``, which does the work, prints by :func:`say`, and returns the exit status. Work that only the command does is
below ``run``, as functions of paths and values that print nothing; work that is shared is in ``results`` and ``making``.
``--help`` must be fast, so a command imports heavy modules (numpy and all that needs it) within its functions.

This module has the options that several commands share.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.plain_errors import naming
from custom_metrics.usage.printable import printable

if TYPE_CHECKING:
    from lm_eval_tasks.runs import Run

STANDARD_OUTPUT = "standard output"
_OF_RETRIEVER = "retriever_"  # prefix of the retrievers' options, one of which is `run`


def say(*lines: object, error: bool = False) -> None:
    """Print lines on standard output, or standard error. Terminal control characters are removed, as many lines quote files
    of others (:mod:`custom_metrics.usage.printable`)."""
    with naming("standard error" if error else STANDARD_OUTPUT):
        for line in lines:
            print(printable(str(line)), file=sys.stderr if error else sys.stdout, flush=True)


def split_names(listed: str | None) -> list[str]:
    return [name.strip() for name in (listed or "").split(",") if name.strip()]


def print_or_write(text: str, output: Path | None) -> None:
    from lm_eval_tasks.data import whole_file

    if output is None:
        say(text.removesuffix("\n"))
        return
    with whole_file(output) as partial:
        partial.write_text(text, "utf-8")


def add_mirror(parser: argparse.ArgumentParser, reads: str = "folder of the public files") -> None:
    """Add ``--mirror``: the folder of public files. `reads` describes it in the help."""
    parser.add_argument("--mirror", help=f"{reads} (default: LM_EVAL_GROUNDED_MIRROR)")


def add_detector(parser: argparse.ArgumentParser) -> None:
    """Add ``--detector`` and ``--detector_args``: the detector that tags answers, and its options."""
    from detector_plugin.detector import DEFAULT_DETECTOR

    parser.add_argument(
        "--detector",
        default=DEFAULT_DETECTOR,
        help=f"lexical, llm, one of another package, or a Hugging Face model (default: {DEFAULT_DETECTOR})",
    )
    parser.add_argument("--detector_args", "--detector-args", metavar="NAME=VALUE,...", help="the detector's options")


def add_runs(parser: argparse.ArgumentParser, what: str = "") -> None:
    """Add the runs that :func:`runs_of` reads, and ``--cost``. `what` ends the help."""
    help_text = f"folder, results file or samples file{what}"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=help_text)
    add_cost(parser)


def runs_of(arguments: argparse.Namespace) -> list[Run]:
    """The runs of a command line, their balanced errors by its ``--cost``."""
    from lm_eval_tasks.runs import read_runs
    from lm_eval_tasks.runs.run import with_cost

    return [with_cost(run, arguments.cost) for run in read_runs(arguments.runs)]


def add_cost(parser: argparse.ArgumentParser) -> None:
    """Add ``--cost``: what a made-up answer counts in the balanced error."""
    parser.add_argument(
        "--cost",
        type=float,
        default=1.0,
        metavar="C",
        help="a made-up answer costs as much as C wrong refusals in the balanced error (default: 1)",
    )


def add_output(
    parser: argparse.ArgumentParser, metavar: str = "DIR", help: str | None = None, required: bool = False
) -> None:
    """Add ``-o``, ``--output``: a path to write to, which :func:`check_output` checks before the command's work. The
    metavar says what it is: ``DIR`` and ``SITE`` are folders, ``PATH`` may be one, all others are files."""
    parser.set_defaults(output_is=metavar)
    parser.add_argument("-o", "--output", type=Path, metavar=metavar, required=required, help=help)


def check_output(arguments: argparse.Namespace) -> None:
    """Raise a UsageError unless the path of ``--output`` can be written."""
    from lm_eval_tasks.data import check_place, check_writable

    output: Path | None = getattr(arguments, "output", None)
    if output is None:
        return
    if arguments.output_is in ("DIR", "SITE") or (arguments.output_is == "PATH" and output.is_dir()):
        check_writable(output)
    else:
        check_place(output)


def add_retriever_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of CLAPnq's retrievers, which :func:`retriever_options` reads."""
    from lm_eval_tasks.clapnq.retrieval import OPTIONS

    options = parser.add_argument_group("options of the retrievers", "in lm_eval: --metadata '{\"NAME\": VALUE}'")
    for name, (retrievers, means) in OPTIONS.items():
        help_text = f"{', '.join(retrievers)}: {means}"
        flags = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        if name == "bm25_split":
            options.add_argument(*flags, dest=_OF_RETRIEVER + name, action="store_true", default=None, help=help_text)
        else:
            kind = int if name == "encoder_batch_size" else str
            options.add_argument(*flags, dest=_OF_RETRIEVER + name, type=kind, metavar="VALUE", help=help_text)


def retriever_options(arguments: argparse.Namespace) -> dict[str, Any]:
    from lm_eval_tasks.clapnq.retrieval import OPTIONS

    return {name: value for name in OPTIONS if (value := getattr(arguments, _OF_RETRIEVER + name)) is not None}
