"""The summary of a log as plain text for a terminal or a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from custom_metrics.reading.spans import Span
from custom_metrics.usage.printable import on_one_line
from custom_metrics.usage.secrets import blank, blank_text
from lm_eval_tasks.results.formats import Section, render_sections, with_bounds
from lm_eval_tasks.results.logs.fields import NUMBERS
from lm_eval_tasks.results.logs.judged import MOST_GROUPS, FlaggedAnswer, Group, LogSummary

_USAGE_TITLES = dict(zip(NUMBERS, ("tokens in", "tokens out", "cost", "seconds"), strict=True))
_LONGEST_ANSWER, _LONGEST_PASSAGE, _BEFORE = 700, 400, 200  # characters

_BRACKETS, _UNDERLINED_RED = ("[[", "]]"), ("\x1b[4;31m", "\x1b[0m")
_SPACES = str.maketrans("\t\n\r\x0b\x0c\u2028\u2029", " " * 7)


def summary_text(summary: LogSummary, source: str, detector: str, coloured: bool = False) -> str:
    """What ``detect LOG`` prints: a line about the log, the table of groups, and the answers to look at. What is flagged is
    underlined in red, or in double brackets."""
    number = summary.total.answers
    note = f"{on_one_line(source)}: {number:,} answer{'s' * (number != 1)}, read by {on_one_line(detector)}."
    table = render_sections([replace(groups_table(summary), before=(note,))], "text")
    if not summary.to_look_at:
        return table + "\nNo answer is flagged.\n"
    marks = _UNDERLINED_RED if coloured else _BRACKETS
    listed = "\n\n".join(_shown(place, one, marks) for place, one in enumerate(summary.to_look_at, 1))
    return f"{table}\nAnswers to look at, the most suspicious first\n\n{listed}\n"


def groups_table(summary: LogSummary) -> Section:
    """A row for all answers, and one for each of the largest groups."""
    total, groups = summary.total, summary.groups
    rates = "95 % bounds in brackets"
    if total.clusters < total.answers:
        rates += f"; they take the answers of one question or conversation together ({total.clusters:,})"
    if (more := len(groups) - MOST_GROUPS) > 0:
        rates += f"; {more:,} smaller groups are not shown"
    usage = {name: title for name, title in _USAGE_TITLES.items() if name in total.usage}
    header = ("group", "answers", "flagged answers", "flagged words", "declined", *usage.values())
    labels = [", ".join(f"{name}={blank(value)}" for name, value in group.names.items()) for group in groups]
    named = [("all", total), *zip(map(on_one_line, labels), groups, strict=True)][: MOST_GROUPS + 1]
    rows = tuple(_row(label, group, [*usage]) for label, group in named)
    return Section(header, rows, before=("Logged answers",), after=(f"{rates}.",))


def _row(label: str, group: Group, usage: Sequence[str]) -> tuple[str, ...]:
    figures = (with_bounds(figure, "share") for figure in (group.flagged_answers, group.flagged_words))
    means = (f"{group.usage[name]:.3g}" if name in group.usage else "-" for name in usage)
    return (label, f"{group.answers:,}", *figures, f"{group.abstaining:,}", *means)


def _shown(place: int, one: FlaggedAnswer, marks: tuple[str, str]) -> str:
    names = ", ".join(filter(None, (f"line {one.line}", blank(one.id), blank(one.model), one.language)))
    sure = "" if math.isnan(one.probability) else f": {_sure(one.probability)} to hold something unsupported"
    text, moved = blank_text(one.answer)
    spans = [span._replace(start=moved(span.start), end=moved(span.end)) for span in one.spans]
    start = max(0, spans[0].start - _BEFORE) if len(text) > _LONGEST_ANSWER else 0
    end = min(len(text), start + _LONGEST_ANSWER)
    shown = [
        span._replace(start=span.start - start, end=min(span.end, end) - start) for span in spans if span.start < end
    ]
    answer = "... " * (start > 0) + _marked(text[start:end], shown, marks) + " ..." * (end < len(text))
    lines = [f"{place}. {on_one_line(names)}{sure}"]
    lines += [f"   question  {_cut(one.question)}"] if one.question else []
    lines += [f"   answer    {answer}"]
    first, last, probability = one.sentence
    if last - first < len(one.answer.strip()):
        likely = "" if math.isnan(probability) else f" ({_sure(probability)})"
        lines += [f"   sentence  {_cut(one.answer[first:last])}{likely}"]
    return "\n".join([*lines, f"   passage   {_cut(one.passage) or '(none)'}"])


def _sure(probability: float) -> str:
    return f"{100 * probability:.0f} % likely"


def _marked(text: str, spans: Sequence[Span], marks: tuple[str, str]) -> str:
    parts, at = [], 0
    for span in spans:
        parts += [_line(text[at : span.start]), marks[0], _line(text[span.start : span.end]), marks[1]]
        at = span.end
    return "".join([*parts, _line(text[at:])])


def _line(text: str) -> str:
    return on_one_line(text.translate(_SPACES))


def _cut(text: str) -> str:
    text = blank(text)
    return _line(text[:_LONGEST_PASSAGE]) + " ..." * (len(text) > _LONGEST_PASSAGE)
