"""Mark what is made up in one answer, or in a log of answers.

Marks the spans of an answer that its reference does not bear out: in colours on a terminal, as tags elsewhere.

`detect LOG` reads a log of answers: JSON lines, JSON, CSV, TSV, Parquet or a log of Inspect, gzipped or not. It finds
the fields of known tools by itself, such as RAGAS, LangChain, LlamaIndex, Haystack, OpenAI, OpenTelemetry, Phoenix and
Langfuse, and prints them with an example; `--fields answer=response,passages=contexts[].text` names others (JMESPath). It
writes the spans and shares of each answer, and a run in the folder of the output's name, for `mark`, `score --marks`,
`compare` and `report`. After a kill the same command goes on where it stopped.

Examples:
  lm-eval-grounded detect --reference article.txt --answer answer.txt --language de
  lm-eval-grounded detect rag.jsonl -o out.jsonl
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered
from custom_metrics.reading.tagged_text import render
from custom_metrics.usage.plain_errors import UsageError, naming
from custom_metrics.usage.printable import printable, shell_word
from lm_eval_tasks.commands import add_detector, add_output, print_or_write, say, split_names

# Colours of the terminal's own palette, readable on dark and light backgrounds; underlined for those who see no colour.
_ANSI = dict(zip((*CATEGORIES, HALLUCINATION), (31, 35, 33, 91, 36, 34, 31), strict=True))
_VERDICTS = ("passed", "FAILED", "undecided")  # by exit status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="*", metavar="LOG", help="logs, in place of one answer; `-` reads a pipe")
    parser.add_argument("--reference", metavar="FILE|TEXT", help="text to hold the answer against")
    parser.add_argument("--answer", metavar="FILE|TEXT", help="the answer; `-` reads standard input")
    place = "of logs: spans; the folder of this name gets the run (default: LOG_detected.jsonl)"
    add_output(parser, "FILE.jsonl", place)
    parser.add_argument("--fields", metavar="ROLE=PATH,...", help="where a log has its answer, passages, question, ...")
    without, kinds = "answers of a log without (default: %(default)s)", ("unsupported", "skip")
    parser.add_argument("--no-passages", choices=kinds, default=kinds[0], help=without)
    parser.add_argument("--by", default="", metavar="FIELD,...", help="groups of a log: language, model, any label")
    parser.add_argument("--fail-over", metavar="SHARE", help="exit 1 if more answers are flagged, 2 if undecided: 5%%")
    parser.add_argument(
        "--baseline", type=Path, metavar="RUN", help="exit 1 if more are flagged than in this older run"
    )
    parser.add_argument("--margin", default="5%", metavar="SHARE", help="excess that must be seen (default: 5%%)")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="the checks as JUnit XML")
    parser.add_argument("--calibration", metavar="FILE", help="corrects the rate of a log in one language")
    tag = "BCP 47 tag of the answer: decides what a word is (default: guessed, offline)"
    parser.add_argument("--language", help=tag)
    add_detector(parser)


def run(arguments: argparse.Namespace) -> int:
    from detector_plugin.loading import load_detector
    from lm_eval_tasks.definition import pairs
    from lm_eval_tasks.detection.language_tags import SURE, code_of, guess

    if arguments.logs:
        return _read_logs(arguments)
    if arguments.by or arguments.fail_over or arguments.baseline or arguments.junit:
        raise UsageError("--by, --fail-over, --baseline and --junit are for logs")
    if arguments.reference is None or arguments.answer is None:
        raise UsageError("name --reference and --answer, or a log")
    reference = _text_of(arguments.reference, "--reference")
    answer = sys.stdin.read() if arguments.answer == "-" else _text_of(arguments.answer, "--answer")
    language = arguments.language and code_of(arguments.language)
    if not language:
        language, probability, basis = guess(answer, reference)
        guessed = f"guessed from {basis}: {language} ({probability:.0%} sure)"
        if language is None:
            guessed = f"cannot be guessed from {basis} (less than {SURE:.0%} sure); words are split at spaces"
        _note(f"language {guessed}; --language TAG says it")
    detector = load_detector(arguments.detector, **pairs("detector_args", arguments.detector_args, "detect"))
    (spans,) = detector.detect([reference], [answer], [language])
    if spans is None:
        raise UsageError(f"detector {detector.name}: the answer cannot be read")
    tagged = render(answer, spans)
    text = as_ansi(answer, spans) if _is_coloured() else printable(tagged) if sys.stdout.isatty() else tagged
    sys.stdout.write(f"{text}\n")  # with colours, or as data for another program
    return 0


def _note(text: str) -> None:
    say(f"lm-eval-grounded: {text}", error=True)


def _is_coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _read_logs(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.data import check_place
    from lm_eval_tasks.detection.language_tags import code_of
    from lm_eval_tasks.results.logs import detect_log, gate, given_fields, open_log
    from lm_eval_tasks.results.logs.summary import groups_table, summary_text
    from lm_eval_tasks.runs import read_runs

    if arguments.reference or arguments.answer:
        raise UsageError("a log goes without --reference and --answer")
    language, given = arguments.language and code_of(arguments.language), given_fields(arguments.fields)
    limit = None if arguments.fail_over is None else gate.parse_share(arguments.fail_over, "--fail-over")
    margin = gate.parse_share(arguments.margin, "--margin")
    baseline = arguments.baseline and gate.baseline_run(arguments.baseline)
    if arguments.junit is not None:
        check_place(arguments.junit)
        arguments.junit.unlink(missing_ok=True)  # an earlier verdict must not outlive an error
    names = ["standard input" if name == "-" else name for name in arguments.logs]
    with tempfile.TemporaryDirectory() as folder:
        paths = [_piped(Path(folder)) if name == "-" else Path(name) for name in arguments.logs]
        skips = arguments.no_passages == "skip"
        logs = [open_log(path, name, given, skips) for path, name in zip(paths, names, strict=True)]
        named = arguments.output or Path(f"{paths[0].stem}_detected.jsonl")
        output = named.with_suffix(".jsonl") if named.suffix == ".html" else named
        options = arguments.detector, arguments.detector_args, arguments.calibration, language
        written, summary = detect_log(logs, output, split_names(arguments.by), *options, tell=_note)
    text = summary_text(summary, ", ".join(names), arguments.detector, _is_coloured())
    sys.stdout.write(f"{text}\n")  # with colours
    (made,) = read_runs([written])
    checks = gate.checks_of(made, summary.total.flagged_answers, limit, baseline, margin)
    for check in checks:
        say(f"{_VERDICTS[check.status]}: {check.message}")
    if arguments.junit is not None:
        print_or_write(gate.junit(checks, ", ".join(names)), arguments.junit)
    run_folder = shell_word(str(written.parent))
    say(output, f"  lm-eval-grounded mark {run_folder} -o marking")
    if named == output:
        say(f"  lm-eval-grounded report {run_folder}")
    else:
        from lm_eval_tasks.results.report import write_report

        say(write_report([made], named, by=[groups_table(summary)] if arguments.by else []))
    return gate.exit_status(checks)


def _piped(folder: Path) -> Path:
    """A file with what the standard input holds: logs are read more than once."""
    path = folder / "stdin"
    with naming(path), path.open("wb") as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
    return path


def _text_of(value: str, option: str) -> str:
    """The content of a file, or the value itself where no file has that name and it can hardly be meant for one."""
    if not os.path.isfile(value) and not (value.isascii() and not any(map(str.isspace, value))):
        _note(f"{option}: no such file; reading it as text")
        return value
    try:
        return Path(value).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{value} is not UTF-8 text: {error}") from error


def as_ansi(text: str, spans: Sequence[Span]) -> str:
    """The text with escape sequences for a terminal, and a legend of the colours."""

    def marked(segment: str, kind: str | None) -> str:
        return printable(segment) if kind is None else f"\x1b[4;{_ANSI.get(kind, 31)}m{printable(segment)}\x1b[0m"

    places = [*pairwise(sorted({0, len(text), *(min(at, len(text)) for span in spans for at in span[:2])}))]
    kinds = covered(places, spans)
    body = "".join(marked(text[start:end], kind) for (start, end), kind in zip(places, kinds, strict=True))
    legend = "  ".join(marked(kind, kind) for kind in dict.fromkeys(span.category for span in spans))
    return body + (f"\n\n{legend}" if legend else "")
