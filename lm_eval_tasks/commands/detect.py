"""Mark what is made up in one answer, or in a log of answers.

Marks the spans of an answer that its reference does not bear out: in colours on a terminal, as tags elsewhere.

With `--input rag.jsonl -o out.jsonl` it reads a log: lines with `answer`, `passages` (or `reference`), and perhaps
`question`, `language`, `id`, `model`. It writes the spans and shares of each line, and a run in the folder out/, for
`mark`, `score --marks`, `compare` and `report`. After a kill the same command goes on where it stopped.

Examples:
  lm-eval-grounded detect --reference article.txt --answer answer.txt --language de
  lm-eval-grounded detect --input rag.jsonl -o out.jsonl
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered
from custom_metrics.reading.tagged_text import render
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import printable, shell_word
from lm_eval_tasks.commands import add_detector, add_output, say

# Colours of the terminal's own palette, readable on dark and light backgrounds; underlined for those who see no colour.
_ANSI = dict(zip((*CATEGORIES, HALLUCINATION), (31, 35, 33, 91, 36, 34, 31), strict=True))
_SHADES = ("#ffd6d6", "#ecd9ff", "#ffe4c2", "#ffc9de", "#d3ecff", "#dcdfff", "#ffd6d6")
_CSS = dict(zip((*CATEGORIES, HALLUCINATION), _SHADES, strict=True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reference", metavar="FILE|TEXT", help="text to hold the answer against")
    parser.add_argument("--answer", metavar="FILE|TEXT", help="the answer; `-` reads standard input")
    parser.add_argument("--input", type=Path, metavar="FILE.jsonl", help="a log of answers, in place of one answer")
    add_output(parser, "FILE.jsonl", "with --input: spans of each line; the folder of this name gets the run")
    parser.add_argument(
        "--calibration", metavar="FILE", help="with --input: corrects the rate of a log in one language"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="with --input: processes (default: 1)")
    parser.add_argument("--question", default="", help="what was asked, for detectors that read it")
    parser.add_argument(
        "--language",
        help="BCP 47 tag of the answer, e.g. de or zh-Hant: decides what a word is (default: guessed, offline)",
    )
    add_detector(parser)
    parser.add_argument("--html", nargs="?", const="-", metavar="FILE", help="an HTML page, printed or written to FILE")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")


def run(arguments: argparse.Namespace) -> int:
    from detector_plugin.detector import RAG
    from detector_plugin.loading import load_detector, resolve
    from lm_eval_tasks.definition.metadata import pairs
    from lm_eval_tasks.detection.language_tags import SURE, code_of, guess

    if arguments.input is not None:
        return _read_log(arguments)
    if arguments.reference is None or arguments.answer is None:
        raise UsageError("name --reference and --answer, or a log with --input FILE.jsonl -o FILE.jsonl")
    reference = _text_of(arguments.reference, "--reference")
    answer = sys.stdin.read() if arguments.answer == "-" else _text_of(arguments.answer, "--answer")
    if arguments.language is not None:
        language: str | None = code_of(arguments.language)
    else:
        language, probability, basis = guess(answer, reference)
        guessed = f"guessed from {basis}: {language} ({probability:.0%} sure)"
        if language is None:
            guessed = f"cannot be guessed from {basis} (less than {SURE:.0%} sure); words are split at spaces"
        say(f"lm-eval-grounded: language {guessed}; --language TAG says it", error=True)
    options = pairs("detector_args", arguments.detector_args, "detect")
    name, options = resolve(arguments.detector, options, language, RAG)
    detector = load_detector(name, **options)
    (spans,) = detector.detect([reference], [answer], [language], [arguments.question])
    if spans is None:
        raise UsageError(f"detector {detector.name}: the answer cannot be read")
    if arguments.html is not None:
        against = Path(arguments.reference).name if os.path.isfile(arguments.reference) else "a text"
        caption = f"Marked by detector {detector.name}, version {detector.version}, against {against}."
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
    text = as_ansi(answer, spans) if coloured else printable(tagged) if sys.stdout.isatty() else tagged
    sys.stdout.write(f"{text}\n")  # with colours, or as data for another program
    return 0


def _read_log(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.detection.language_tags import code_of
    from lm_eval_tasks.results.logs import detect_log
    from lm_eval_tasks.results.report.cards import markdown_of
    from lm_eval_tasks.runs import read_runs

    if arguments.output is None or arguments.reference or arguments.answer or arguments.question or arguments.html:
        raise UsageError(
            "--input FILE.jsonl goes with -o FILE.jsonl, and without --reference, --answer, --question, --html"
        )
    language = arguments.language and code_of(arguments.language)
    options = (arguments.detector, arguments.detector_args, arguments.calibration, language, arguments.workers)
    written = detect_log(arguments.input, arguments.output, *options)
    folder = shell_word(str(written.parent))
    say(markdown_of(read_runs([written])), arguments.output, f"  lm-eval-grounded mark {folder} -o marking")
    say(f"  lm-eval-grounded report {folder}")
    return 0


def _text_of(value: str, option: str) -> str:
    """The content of a file, or the value itself where no file has that name and it can hardly be meant for one."""
    if not os.path.isfile(value) and not (value.isascii() and not any(map(str.isspace, value))):
        say(f"lm-eval-grounded: {option}: no such file; reading it as text", error=True)
        return value
    try:
        return Path(value).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{value} is not UTF-8 text: {error}") from error


def _segments(text: str, spans: Sequence[Span]) -> list[tuple[str, str | None]]:
    """The text split where a span begins or ends: segments with their category."""
    edges = sorted({0, len(text), *(min(at, len(text)) for span in spans for at in span[:2])})
    places = [(start, end) for start, end in pairwise(edges) if start < end]
    return [(text[start:end], kind) for (start, end), kind in zip(places, covered(places, spans), strict=True)]


def as_ansi(text: str, spans: Sequence[Span]) -> str:
    """The text with escape sequences for a terminal, and a legend of the colours."""

    def marked(segment: str, kind: str | None) -> str:
        return printable(segment) if kind is None else f"\x1b[4;{_ANSI.get(kind, 31)}m{printable(segment)}\x1b[0m"

    body = "".join(marked(segment, kind) for segment, kind in _segments(text, spans))
    legend = "  ".join(marked(kind, kind) for kind in dict.fromkeys(span.category for span in spans))
    return body + (f"\n\n{legend}" if legend else "")


def as_html(text: str, spans: Sequence[Span], language: str | None, title: str, caption: str) -> str:
    """The text as an HTML page without scripts and external content. Text and names are escaped."""

    def marked(segment: str, kind: str | None) -> str:
        style = f'title="{escape(kind)}" style="background:{_CSS.get(kind, "#ffd6d6")}"' if kind is not None else ""
        return f"<mark {style}>{escape(segment)}</mark>" if style else escape(segment)

    body = "".join(marked(segment, kind) for segment, kind in _segments(text, spans))
    legend = " ".join(marked(kind, kind) for kind in dict.fromkeys(span.category for span in spans))
    lang = f' lang="{escape(language)}"' if language else ""
    return f"""<!doctype html>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>
<style>
body {{ max-width: 46rem; margin: 2.5rem auto; padding: 0 1rem; font: 1.05rem/1.7 system-ui, sans-serif; }}
div {{ white-space: pre-wrap; overflow-wrap: anywhere; }} mark {{ border-bottom: 2px solid #b3261e; color: inherit; }}
</style>
<h1>{escape(title)}</h1>
<div dir="auto"{lang}>{body}</div>
<p>{legend}</p>
<p>{escape(caption)}</p>
"""
