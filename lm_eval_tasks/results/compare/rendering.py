"""A comparison as text for a terminal, Markdown, LaTeX, CSV or JSON.

Models' names and notes come from files that others wrote. They cannot become markup, control a terminal, or be a formula of
a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from custom_metrics.statistics.units import NOT_MEASURABLE
from custom_metrics.usage.printable import on_one_line, printable
from lm_eval_tasks.results.compare.comparison import Comparison, Difference
from lm_eval_tasks.results.compare.wording import explanations, number, p_value, sentences

__all__ = ["FORMATS", "Section", "csv_of", "letter_of", "render", "render_sections", "sections"]


@dataclass(frozen=True)
class Section:
    """A table, with what stands before and after it. All texts are printable; they are not escaped for a format.

    Attributes:
        title: of the table.
        header: names of the columns.
        rows: texts.
        before, after: paragraphs.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def render(comparison: Comparison, form: str = "text") -> str:
    """The comparison in one of ``FORMATS``, with a line end."""
    return FORMATS[form](comparison)


# -------------------------------------------------------------------------------------------------------------- tables

_ARROWS = {True: " ↑", False: " ↓", None: ""}


def sections(comparison: Comparison) -> list[Section]:
    """The comparison as tables: one of all differences."""
    names = [on_one_line(name) for name in comparison.models]
    letters = [letter_of(place) for place in range(len(names))]
    legend = tuple(f"{letter} = {name}" for letter, name in zip(letters, names, strict=True))
    two = len(names) == 2
    filters = {(row.benchmark, row.metric, row.filter) for row in comparison.differences}
    several = len(filters) > len({filtered[:2] for filtered in filters})
    dropped = any(row.only_first or row.only_second for row in comparison.differences)
    header = ("task", "metric", *(letters if two else ("pair", "first", "second")), "difference", "p", "n")
    rows = []
    for row in comparison.differences:
        pair = () if two else (f"{letters[row.first]} - {letters[row.second]}",)
        star = "*" if row.significant else ""
        n = f"{row.n}" + ("" if row.unit == "documents" else f" {row.unit}")
        rows.append(
            (
                on_one_line(f"{row.task} (mean of {row.tasks})" if row.group else row.task),
                on_one_line(row.metric) + _ARROWS[row.higher_is_better] + (f" ({row.filter})" if several else ""),
                *pair,
                _value(row.first_value, row.first_own) if row.first_measurable else NOT_MEASURABLE,
                _value(row.second_value, row.second_own) if row.second_measurable else NOT_MEASURABLE,
                _difference(row),
                p_value(row.p_adjusted) + star,
                n,
                *((f"{row.only_first} / {row.only_second}",) if dropped else ()),
            )
        )
    return [
        Section(
            "Paired differences",
            (*header, "only one") if dropped else header,
            tuple(rows),
            before=legend,
            after=(
                *map(on_one_line, sentences(comparison, _short(names))),
                *map(on_one_line, explanations(comparison, letters)),
            ),
        )
    ]


def _short(names: Sequence[str]) -> list[str]:
    """The names without what stands before the last slash, where they are still different."""
    short = [name.rpartition("/")[2] or name for name in names]
    return short if len(set(short)) == len(short) else list(names)


def letter_of(place: int) -> str:
    """What the model of a place is called in tables."""
    return chr(ord("A") + place) if place < 26 else f"M{place + 1}"


def _value(value: float, own: float) -> str:
    shown, of_run = number(value), number(own)
    return shown if shown == of_run else f"{shown} ({of_run})"


def _difference(row: Difference) -> str:
    if row.n == 0:
        return "-"
    if not row.is_measurable and math.isnan(row.low + row.high):
        return NOT_MEASURABLE
    value = number(row.difference, sign=True) if row.is_measurable else NOT_MEASURABLE
    return f"{value} [{number(row.low, sign=True)}, {number(row.high, sign=True)}]"


def _table(section: Section, form: str, escape: Callable[[str], str]) -> str:
    from tabulate import tabulate

    numbers = ("left", "left", *["right"] * (len(section.header) - 2))
    return str(
        tabulate(
            [[escape(cell) for cell in row] for row in section.rows],
            headers=[escape(name) for name in section.header],
            tablefmt=form,
            colalign=numbers if section.rows else None,
            disable_numparse=True,
        )
    )


def _text(tables: Sequence[Section]) -> str:
    parts = []
    for section in tables:
        parts += ["\n".join(section.before), _table(section, "simple", str), "\n".join(section.after)]
    return "\n\n".join(part for part in parts if part) + "\n"


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#|~!&])")


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _markdown(tables: Sequence[Section]) -> str:
    parts = []
    for section in tables:
        parts += [f"- {_escape_markdown(line)}\n" for line in section.before]
        parts += ["\n", _table(section, "pipe", _escape_markdown), "\n\n"]
        parts += [f"- {_escape_markdown(line)}\n" for line in section.after]
    return "".join(parts)


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "[": "{[}",  # after a line break of a table it would be an argument
}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex(tables: Sequence[Section]) -> str:
    """Tables of the package booktabs; the words stand before and after them."""
    parts = []
    for section in tables:
        parts += [_escape_latex(line) + r"\\" for line in section.before]
        parts += ["", _table(section, "latex_raw", _escape_latex), ""]
        parts += [_escape_latex(line) + "\n" for line in section.after]
    text = "\n".join(parts)
    lines = cycle((r"\toprule", r"\midrule", r"\bottomrule"))
    return re.sub(r"^\\hline$", lambda _: next(lines), text, flags=re.MULTILINE)


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as a CSV file; empty without a row."""
    stream = io.StringIO()
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: _cell(value) for name, value in row.items()} for row in rows])
    return stream.getvalue()


def _cell(value: Any) -> Any:
    """A value of a CSV file; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if isinstance(value, str):
        text = on_one_line(value)
        return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
    return "" if value is None else value


def _json(comparison: Comparison) -> str:
    return printable(json.dumps(comparison.as_json(), ensure_ascii=False, indent=1, allow_nan=False)) + "\n"


_FORMS: dict[str, Callable[[Sequence[Section]], str]] = {"text": _text, "markdown": _markdown, "latex": _latex}


def render_sections(tables: Sequence[Section], form: str) -> str:
    """Tables as ``text``, ``markdown`` or ``latex``, with a line end."""
    return _FORMS[form](tables)


FORMATS: dict[str, Callable[[Comparison], str]] = {
    **{form: lambda comparison, form=form: render_sections(sections(comparison), form) for form in _FORMS},  # type: ignore[misc]
    "csv": lambda comparison: csv_of(comparison.as_json()["differences"]),
    "json": _json,
}
"""Name of a format to what makes it."""
