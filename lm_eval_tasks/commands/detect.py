"""Show one answer with its hallucinated spans marked.

Marks the spans of an answer that its reference does not bear out: in colours on a terminal, as tags elsewhere.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lm_eval_tasks.commands import add_detector, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reference", type=Path, required=True, metavar="FILE", help="text to hold the answer against")
    parser.add_argument("--answer", required=True, metavar="FILE", help="the answer; `-` reads standard input")
    parser.add_argument("--question", default="", help="what was asked, for detectors that read it")
    parser.add_argument(
        "--language",
        help="BCP 47 tag of the answer, e.g. de or zh-Hant: decides what a word is (default: guessed, offline)",
    )
    add_detector(parser)
    parser.add_argument("--html", nargs="?", const="-", metavar="FILE", help="an HTML page, printed or written to FILE")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")


def run(arguments: argparse.Namespace) -> int:
    from custom_metrics.reading.tagged_text import render
    from custom_metrics.usage.plain_errors import UsageError
    from custom_metrics.usage.printable import printable
    from detector_plugin import load_detector
    from detector_plugin.display import as_ansi, as_html
    from lm_eval_tasks.detection.detector_settings import read_options

    reference = _text(arguments.reference)
    answer = sys.stdin.read() if arguments.answer == "-" else _text(Path(arguments.answer))
    language = _language(arguments.language, answer, reference)
    detector = load_detector(arguments.detector, **read_options(arguments.detector_args, "detect"))
    (spans,) = detector.detect([reference], [answer], [language], [arguments.question])
    if spans is None:
        raise UsageError(f"detector {detector.name}: the answer cannot be read (option skip_failing)")
    if arguments.html is not None:
        caption = f"Marked by detector {detector.name}, version {detector.version}, against {arguments.reference.name}."
        page = as_html(answer, spans, arguments.language or language, "Answer with hallucinated spans marked", caption)
        if arguments.html in ("-", ""):
            sys.stdout.write(f"{page}\n")  # a file's content, as it is
        else:
            Path(arguments.html).write_text(page, "utf-8")
        return 0
    coloured = arguments.color == "always" or (
        arguments.color == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    )
    tagged = render(answer, spans)
    shown = as_ansi(answer, spans) if coloured else printable(tagged) if sys.stdout.isatty() else tagged
    sys.stdout.write(f"{shown}\n")  # with colours, or as data for another program
    return 0


def _language(tag: str | None, answer: str, reference: str) -> str | None:
    """The code of the language that was named; else of the one that is guessed, and said on standard error."""
    from lm_eval_tasks.detection.language_tags import SURE, code_of, guess

    if tag is not None:
        return code_of(tag)
    found = guess(answer, reference)
    if found.code is None:
        said = f"cannot be guessed from {found.of} (less than {SURE:.0%} sure); words are taken to stand between spaces"
    else:
        said = f"guessed from {found.of}: {found.code} ({found.probability:.0%} sure)"
    say(f"lm-eval-grounded: language {said}; --language TAG says it", error=True)
    return found.code


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error}") from error
