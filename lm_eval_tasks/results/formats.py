"""The formats of results: numbers as text, and tables as text, Markdown, LaTeX, HTML, CSV or JSON.

Names and notes come from files that others wrote. Each format has one escaper, so that they cannot become markup, control a
terminal, mention or link anybody, or be a formula of a spreadsheet.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, groupby
from typing import Any, NamedTuple

from custom_metrics.statistics.figures import NOT_MEASURABLE, Figure, Unit, fixed, is_measurable, small_n
from custom_metrics.usage.printable import on_one_line, printable

UNDEFINED_TEXT = "undefined"
ARROWS = {True: " ↑", False: " ↓", None: ""}
"""What follows a metric's name, by whether higher is better."""

# ------------------------------------------------------------------------------------------------------------- numbers

_DECIMALS = {"score": 3, "correlation": 3, "rating": 2, "number": 3}


def number(value: float, sign: bool = False) -> str:
    """A number of a comparison: three decimals, one from ten on; ``-`` if it is undefined."""
    if not math.isfinite(value):
        return "-"
    text = fixed(value, 1 if abs(value) >= 10 else 3, "+" if sign else "")
    return text.replace("-0.000", "0.000") if float(text) == 0 else text


def with_range(value: str, low: float, high: float, sign: bool = False) -> str:
    """A text with bounds of a comparison in brackets, if they are known."""
    return value if math.isnan(low) else f"{value} [{number(low, sign)}, {number(high, sign)}]"


def p_value(p: float) -> str:
    """Three decimals, ``<0.001`` below."""
    return "-" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def as_text(value: float, unit: Unit) -> str:
    """A number of a page, with its unit: ``20.8 %``, ``0.379``, ``191``, ``3.21``."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    if unit == "share":
        return f"{fixed(100 * value, 1)} %"
    return fixed(value, 1 if unit == "number" and abs(value) >= 10 else _DECIMALS.get(unit, 0))


def points(value: float, unit: Unit) -> str:
    """A difference on a page: ``+12.3 points`` of percent, else the number with its sign."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    sign = "\N{MINUS SIGN}" if value < 0 else "+"
    return sign + (f"{fixed(100 * abs(value), 1)} points" if unit == "share" else as_text(abs(value), unit))


def range_of_points(low: float, high: float, unit: Unit) -> str:
    """The bounds of a difference on a page: ``-1.0 to +3.2 points``; empty if they are unknown."""
    if math.isnan(low + high):
        return ""
    return f"{points(low, unit).removesuffix(' points')} to {points(high, unit)}"


def ranges(numbers: Iterable[int], dash: str = "-") -> str:
    """Rising numbers, with runs of them as ranges: ``2, 4-11``."""
    runs = [[at for _, at in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}{dash}{run[-1]}" for run in runs)


class Notation(NamedTuple):
    """How numbers are written: pages have percent, with units; terminals and files have fractions."""

    value: Callable[[float, Unit], str]
    difference: Callable[[float, Unit], str]
    range: Callable[[float, float, Unit], str]  # the bounds of a difference

    def size(self, difference: float, unit: Unit) -> str:
        """A difference without its sign."""
        return self.difference(abs(difference), unit).removeprefix("+")


PAGE = Notation(as_text, points, range_of_points)
FRACTIONS = Notation(
    lambda value, unit: number(value),
    lambda value, unit: number(value, sign=True),
    lambda low, high, unit: f"{number(low, sign=True)}, {number(high, sign=True)}",
)


def bounds(figure: Figure, unit: Unit) -> str:
    """The 95 % bounds on a page: ``13.3 to 31.1 %``; empty if they are unknown."""
    if math.isnan(figure.low + figure.high):
        return ""
    return f"{as_text(figure.low, unit).removesuffix(' %')} to {as_text(figure.high, unit)}"


def range_of(figure: Figure, unit: Unit) -> str:
    """The number; of a figure that is not measurable the bounds, in whole percent for shares: ``0 to 100 %``."""
    if is_measurable(figure, unit):
        return as_text(figure.value, unit)
    return f"{100 * figure.low:.0f} to {100 * figure.high:.0f} %" if unit == "share" else bounds(figure, unit)


def not_measurable(figure: Figure, unit: Unit, needs: str = "") -> str:
    """``not measurable (0 to 100 %)`` if a figure is not (:mod:`custom_metrics.statistics.figures`), with what it `needs`:
    ``not measurable without marks (0 to 100 %)``; empty for any other figure."""
    without = f" without {needs}" if needs else ""
    return "" if is_measurable(figure, unit) else f"{NOT_MEASURABLE}{without} ({range_of(figure, unit)})"


def interval(figure: Figure, unit: Unit) -> str:
    """The bounds to show beside a number, and the number of documents if these are few; empty without either."""
    return ", ".join(filter(None, (bounds(figure, unit) if is_measurable(figure, unit) else "", small_n(figure))))


def with_bounds(figure: Figure, unit: Unit) -> str:
    """The number with its :func:`interval` in brackets, if it has one; or :func:`not_measurable`."""
    beside, value = interval(figure, unit), as_text(figure.value, unit)
    return not_measurable(figure, unit) or (f"{value} [{beside}]" if beside else value)


# -------------------------------------------------------------------------------------------------------------- tables


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name to a shorter one on one line, without the organisation before ``/`` if the names stay different."""
    plain = {name: on_one_line(name) for name in names}
    without = {name: text.rpartition("/")[2] or text for name, text in plain.items()}
    return without if len({*without.values()}) == len(plain) else plain


@dataclass(frozen=True)
class Section:
    """A table, with the paragraphs before and after it. All texts are printable; they are not escaped for a format."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def render_sections(tables: Sequence[Section], form: str) -> str:
    """Tables as ``text``, ``markdown``, ``latex`` (of the package booktabs) or ``html``, with their paragraphs before and
    after, and a line end."""
    return {"text": _text, "markdown": _markdown, "latex": _latex, "html": _html}[form](tables)


def _table(section: Section, form: str, escape: Callable[[str], str]) -> str:
    from tabulate import tabulate

    rows = [[escape(cell) for cell in row] for row in section.rows]
    align = ("left", "left", *["right"] * (len(section.header) - 2)) if rows else None
    return str(tabulate(rows, [*map(escape, section.header)], form, colalign=align, disable_numparse=True))


def _text(tables: Sequence[Section]) -> str:
    parts = [("\n".join(each.before), _table(each, "simple", str), "\n".join(each.after)) for each in tables]
    return "\n\n".join(block for blocks in parts for block in blocks if block) + "\n"


_MARKUP = re.compile(r"([\\`*_\[\]<>#|~$]|^[-+])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def escaped_markdown(text: str) -> str:
    """A text as Markdown that shows it, on one line: no markup, no HTML, no mention, no link."""
    text = html.escape(_CONTROL.sub(" ", text), quote=False)
    text = _MARKUP.sub(lambda match: f"\\{match[1]}", text.replace("&lt;", "<").replace("&gt;", ">"))
    text = text.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("@", "&#64;")
    return re.sub(r"(?i)(https?|ftp)(:)", r"\1&#58;", re.sub(r"(?i)\bwww\.", "www&#46;", text))


def code_block(text: str) -> str:
    """A text as a block of code in Markdown, behind a fence that is longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text.strip()}\n{fence}"


def _markdown(tables: Sequence[Section]) -> str:
    blocks = []
    for section in tables:
        blocks += [f"- {escaped_markdown(line)}\n" for line in section.before]
        blocks += ["\n", _table(section, "pipe", escaped_markdown), "\n\n"]
        blocks += [f"- {escaped_markdown(line)}\n" for line in section.after]
    return "".join(blocks)


_LATEX = str.maketrans(
    {
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
)


def _latex(tables: Sequence[Section]) -> str:
    blocks = []
    for section in tables:
        blocks += [line.translate(_LATEX) + r"\\" for line in section.before]
        blocks += ["", _table(section, "latex_raw", lambda text: text.translate(_LATEX)), ""]
        blocks += [line.translate(_LATEX) + "\n" for line in section.after]
    lines = cycle((r"\toprule", r"\midrule", r"\bottomrule"))
    return re.sub(r"^\\hline$", lambda _: next(lines), "\n".join(blocks), flags=re.MULTILINE)


def _html(tables: Sequence[Section]) -> str:
    blocks = []
    for section in tables:
        before, after = ("<br>\n".join(map(html.escape, lines)) for lines in (section.before, section.after))
        blocks.append(f"<p>{before}</p>\n{_table(section, 'unsafehtml', html.escape)}\n<p>{after}</p>")
    return "\n".join(blocks) + "\n"


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as a CSV file; empty without rows. An apostrophe is put before texts that a spreadsheet would
    take for a formula."""
    stream = io.StringIO()
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            texts = {name: on_one_line(value) for name, value in row.items() if isinstance(value, str)}
            safe = {name: f"'{text}" if text[:1] in ("=", "+", "-", "@") else text for name, text in texts.items()}
            writer.writerow({**row, **safe})
    return stream.getvalue()


def json_of(content: Mapping[str, Any]) -> str:
    """An object as a JSON file; nothing in it can act on a terminal."""
    return printable(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)) + "\n"
