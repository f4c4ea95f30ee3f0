"""A comparison in words and as a table: text for a terminal, Markdown, LaTeX, CSV or JSON.

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
from html import escape
from itertools import cycle
from typing import Any

from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.units import NOT_MEASURABLE, fixed
from custom_metrics.usage.printable import on_one_line, printable
from lm_eval_tasks.results.compare.comparison import Comparison, Difference


@dataclass(frozen=True)
class Section:
    """A table, with the paragraphs before and after it. All texts are printable; they are not escaped for a format."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def render(comparison: Comparison, form: str = "text") -> str:
    """The comparison as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``, with a line end."""
    if form == "csv":
        return csv_of(comparison.as_json()["differences"])
    if form == "json":
        return json_of(comparison.as_json())
    return render_sections(sections(comparison), form)


# --------------------------------------------------------------------------------------------------------------- words


def number(value: float, sign: bool = False) -> str:
    """Three decimals, one from ten on (:func:`~custom_metrics.statistics.units.fixed`); ``-`` for what is not defined."""
    if not math.isfinite(value):
        return "-"
    text = fixed(value, 1 if abs(value) >= 10 else 3, "+" if sign else "")
    return text.replace("-0.000", "0.000") if float(text) == 0 else text


def p_value(p: float) -> str:
    """Three decimals, ``<0.001`` below."""
    return "-" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def sentences(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """A sentence for each headline metric and pair of models: which is better and by how much, or that no difference is
    shown. `names` are the models' names to print."""
    by_pair: dict[tuple[Any, ...], list[Difference]] = {}
    for row in comparison.differences:
        key = (row.benchmark or row.task, row.metric, row.filter, row.first, row.second)
        by_pair.setdefault(key, []).append(row)
    texts = []
    for rows in by_pair.values():
        if not any(row.headline for row in rows):
            continue
        first, second = names[rows[0].first], names[rows[0].second]
        groups, tasks = [row for row in rows if row.group], [row for row in rows if not row.group]
        clauses = [_row_sentence(row, first, second) for row in groups or tasks if groups or len(tasks) < 2]
        if len(tasks) > 1:
            by_task = _languages_sentence(tasks, first, second)
            clauses.append(f"{'Of' if clauses else 'of'} {by_task}")
        about = f", {first} against {second}" if len(names) > 2 else ""
        texts.append(f"{rows[0].metric}{about}: {' '.join(clauses)}")
    return texts


def _row_sentence(row: Difference, first: str, second: str) -> str:
    where = f"over {row.task} (mean of {row.tasks} tasks)" if row.group else f"on {row.task}"
    if row.n == 0:
        return f"{where} nothing can be said: no document counts for both models."
    if math.isnan(row.p):
        return f"{where} nothing can be said of the difference: the detector's errors are too little known."
    p = p_value(row.p_adjusted)
    if not row.significant:
        bounds = f"95 % bounds {number(row.low)} to {number(row.high)}" if not math.isnan(row.low) else "no bounds"
        difference = number(row.difference, sign=True) if row.is_measurable else NOT_MEASURABLE
        return f"no difference is shown {where}: {difference}, {bounds}, p = {p}."
    size, low, high = abs(row.difference), *sorted((abs(row.low), abs(row.high)))
    bounds = f" ({number(low)} to {number(high)})" if row.low * row.high > 0 else ""
    p = f"p {p[0]} {p[1:]}" if p.startswith("<") else f"p = {p}"
    if row.better is None:
        return f"{first if row.difference > 0 else second} has {number(size)}{bounds} more {where}, {p}."
    return f"{first if row.better == row.first else second} is better by {number(size)}{bounds} {where}, {p}."


def _languages_sentence(tasks: Sequence[Difference], first: str, second: str) -> str:
    """How many tasks show which model ahead, to follow "of"."""
    significant = [row for row in tasks if row.significant]
    directed = tasks[0].higher_is_better is not None
    up = [row for row in significant if (row.difference > 0) == (tasks[0].higher_is_better is not False)]
    counts = [(first, len(up)), (second, len(significant) - len(up))]
    clauses = [f"{model} is {'better' if directed else 'higher'} in {n}" for model, n in counts if n]
    unknown = sum(math.isnan(row.p) for row in tasks)
    not_shown = len(tasks) - len(significant) - unknown
    clauses += [f"no difference is shown in {not_shown}"] if not_shown else []
    clauses += [f"nothing can be said in {unknown}"] if unknown else []
    return f"{len(tasks)} tasks, {', '.join(clauses)}."


WITH_POWER = f"with a power of 80 % (two-sided p < {SIGNIFICANCE}, this comparison alone)"


def across_of(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """The settings that the runs are compared across, and the tasks of other names that are compared, as lines."""
    lines = [
        f"Compared across {setting}: "
        + "; ".join(f"{name} has {value or 'none'}" for name, value in zip(names, values, strict=True))
        for setting, values in comparison.across.items()
    ]
    if pairs := [" with ".join(tasks) for tasks in comparison.paired.values()]:
        lines.append(f"Paired: {', '.join(pairs[:2])}{f' and {len(pairs) - 2} more' if len(pairs) > 2 else ''}")
    return lines


def explanations(comparison: Comparison, names: Sequence[str], pairs: bool = True) -> list[str]:
    """Notes below a table: what its columns mean (of one of `pairs`), the methods behind bounds and p, and the notes of the
    comparison."""
    rows = comparison.differences
    lines = []
    if pairs:
        lines = [
            f"Difference: first minus second, over what both models have, with 95 % bounds. * p < {SIGNIFICANCE}.",
            f"Shows: the smallest difference that so many documents show {WITH_POWER}.",
        ]
    if sizes := sorted({row.family for row in rows if row.family > 1}):
        of_many = len(comparison.models) > 2
        family = (
            "all pairs of models on a task or group" if of_many else "the languages of a task, or the tasks of a group"
        )
        lines.append(
            f"p is corrected by Holm over {family} ({', '.join(map(str, sizes))} comparisons). Metrics are not corrected "
            f"for each other. Bounds are those of each comparison alone."
        )
    balanced = dict.fromkeys(f"{row.metric}: {row.measured.definition}." for row in rows if row.measured.balances)
    lines += [
        *balanced,
        *(f"Doubts about {names[model]}: {'; '.join(doubts)}." for model, doubts in comparison.doubts.items()),
    ]
    if not all(row.first_measurable and row.second_measurable and row.is_measurable for row in rows):
        lines.append("Not measurable: the 95 % bounds span more than half of the scale (--format json has the value).")
    if pairs and any(row.only_first or row.only_second for row in rows):
        lines.append("Only one: documents that count for one of both models alone, and are left out of both values.")
    values = [pair for row in rows for pair in ((row.first_value, row.first_own), (row.second_value, row.second_own))]
    if pairs and any(abs(value - run_value) > 1e-9 for value, run_value in values):
        lines.append("In brackets: the run's own value, over all documents that count for that model.")
    if methods := dict.fromkeys(row.method for row in rows if row.method):
        lines.append(f"Methods: {'; '.join(methods)}.")
    unshared = [
        f"{task.task}: {', '.join(f'{n} in {name} only' for name, n in zip(names, task.only, strict=True) if n)}"
        for task in comparison.joined
        if any(task.only)
    ]
    if unshared:
        more = f"; and {len(unshared) - 5} more tasks" if len(unshared) > 5 else ""
        lines.append(f"Documents that are not compared: {'; '.join(unshared[:5])}{more}.")
    lines += [f"{note}." for note in comparison.notes]
    return lines + [f"{refusal.task} is left out: {refusal.reason}." for refusal in comparison.refused]


# -------------------------------------------------------------------------------------------------------------- tables

_ARROWS = {True: " ↑", False: " ↓", None: ""}


def letter_of(index: int) -> str:
    """The letter that stands for a model in tables."""
    return chr(ord("A") + index) if index < 26 else f"M{index + 1}"


def legend(models: Sequence[str]) -> tuple[str, ...]:
    """The letters of the models, with their names."""
    return tuple(f"{letter_of(index)} = {on_one_line(model)}" for index, model in enumerate(models))


def sections(comparison: Comparison) -> list[Section]:
    """The comparison as tables: one of all differences."""
    names = [on_one_line(name) for name in comparison.models]
    letters = [letter_of(index) for index in range(len(names))]
    two = len(names) == 2
    filters = {(row.benchmark, row.metric, row.filter) for row in comparison.differences}
    several = len(filters) > len({filtered[:2] for filtered in filters})
    dropped = any(row.only_first or row.only_second for row in comparison.differences)
    header = ["task", "metric", *(letters if two else ("pair", "first", "second")), "difference", "p", "n", "shows"]
    rows = []
    for row in comparison.differences:
        cells = [
            f"{row.task} (mean of {row.tasks})" if row.group else row.task,
            row.metric + _ARROWS[row.higher_is_better] + (f" ({row.filter})" if several else ""),
            *([] if two else [f"{letters[row.first]} - {letters[row.second]}"]),
            _value(row.first_value, row.first_own) if row.first_measurable else NOT_MEASURABLE,
            _value(row.second_value, row.second_own) if row.second_measurable else NOT_MEASURABLE,
            _difference(row),
            p_value(row.p_adjusted) + ("*" if row.significant else ""),
            f"{row.n}" + ("" if row.unit == "documents" else f" {row.unit}"),
            number(row.detectable),
            *([f"{row.only_first} / {row.only_second}"] if dropped else []),
        ]
        rows.append(tuple(map(on_one_line, cells)))
    short = [name.rpartition("/")[2] or name for name in names]  # where they are still different
    texts = sentences(comparison, short if len(set(short)) == len(short) else names)
    after = map(on_one_line, (*texts, *explanations(comparison, letters)))
    columns = (*header, "only one") if dropped else (*header,)
    before = (*legend(comparison.models), *map(on_one_line, across_of(comparison, letters)))
    return [Section(columns, tuple(rows), before, tuple(after))]


def _value(value: float, run_value: float) -> str:
    text, own_text = number(value), number(run_value)
    return text if text == own_text else f"{text} ({own_text})"


def _difference(row: Difference) -> str:
    if row.n == 0:
        return "-"
    if not row.is_measurable and math.isnan(row.low + row.high):
        return NOT_MEASURABLE
    value = number(row.difference, sign=True) if row.is_measurable else NOT_MEASURABLE
    return f"{value} [{number(row.low, sign=True)}, {number(row.high, sign=True)}]"


# ------------------------------------------------------------------------------------------------------------- formats


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
    blocks = []
    for section in tables:
        blocks += ["\n".join(section.before), _table(section, "simple", str), "\n".join(section.after)]
    return "\n\n".join(block for block in blocks if block) + "\n"


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#|~!&])")


def _markdown(tables: Sequence[Section]) -> str:
    def escape(text: str) -> str:
        return _MARKDOWN.sub(r"\\\1", text)

    blocks = []
    for section in tables:
        blocks += [f"- {escape(line)}\n" for line in section.before]
        blocks += ["\n", _table(section, "pipe", escape), "\n\n"]
        blocks += [f"- {escape(line)}\n" for line in section.after]
    return "".join(blocks)


_LATEX: dict[str, str | int | None] = {
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


def _latex(tables: Sequence[Section]) -> str:
    """Tables of the package booktabs, with their paragraphs before and after."""

    def escape(text: str) -> str:
        return text.translate(str.maketrans(_LATEX))

    blocks = []
    for section in tables:
        blocks += [escape(line) + r"\\" for line in section.before]
        blocks += ["", _table(section, "latex_raw", escape), ""]
        blocks += [escape(line) + "\n" for line in section.after]
    lines = cycle((r"\toprule", r"\midrule", r"\bottomrule"))
    return re.sub(r"^\\hline$", lambda _: next(lines), "\n".join(blocks), flags=re.MULTILINE)


def _html(tables: Sequence[Section]) -> str:
    """Tables with their paragraphs, for a notebook."""
    blocks = []
    for section in tables:
        before, after = ("<br>\n".join(map(escape, lines)) for lines in (section.before, section.after))
        blocks.append(f"<p>{before}</p>\n{_table(section, 'unsafehtml', escape)}\n<p>{after}</p>")
    return "\n".join(blocks) + "\n"


def render_sections(tables: Sequence[Section], form: str) -> str:
    """Tables as ``text``, ``markdown``, ``latex`` or ``html``, with a line end."""
    return {"text": _text, "markdown": _markdown, "latex": _latex, "html": _html}[form](tables)


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
