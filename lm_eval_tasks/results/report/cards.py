"""A report as a summary in Markdown for a pull request: headlines with bounds, doubts as notes, differences, commands.

Everything from the runs is escaped: a model's name cannot become markup or HTML, mention anybody, or link anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.compare.tables import render
from lm_eval_tasks.results.formats import ARROWS, PAGE, UNDEFINED_TEXT, code_block
from lm_eval_tasks.results.formats import escaped_markdown as escaped
from lm_eval_tasks.results.report.documents import described_runs
from lm_eval_tasks.results.report.headlines import Headline, headlines
from lm_eval_tasks.results.report.provenance import command_files
from lm_eval_tasks.runs import Run, labels

_ABSENT = "–"


def markdown_of(runs: Sequence[Run]) -> str:
    """The summary of some runs, with the differences where there are several models."""
    compared = ""
    runs, read_answers = described_runs(runs)
    if len(runs) > 1:
        try:
            comparison = compare_runs(runs, refuse=False, read_answers=read_answers)
            compared = render(comparison, "markdown", notation=PAGE)
        except (ValueError, MissingSource) as error:
            compared = escaped(f"The models are not compared: {error}")
    files = command_files(dict(zip(labels(runs), runs, strict=True)))
    commands = [command for file in files for command in file["commands"]]
    return summary(headlines(runs, read_answers), compared, "\n".join(commands))


def summary(headlines: Sequence[Headline], differences: str = "", command: str = "") -> str:
    """The summary of headlines, with differences, as Markdown of ``lm-eval-grounded compare``, and the command that made
    the runs."""
    notes: dict[str, int] = {}
    title = "Results" if headlines and all(row.parts == "tasks" for row in headlines) else "Grounded generation"
    lines = [f"## {title}", "", *_table(headlines, notes)]
    if notes:
        lines += ["", *(f"{number}. {escaped(text)}." for text, number in notes.items())]
    meanings = [f"- **{escaped(row.model)}**, {escaped(row.family)}: {escaped(row.explanation)}" for row in headlines]
    lines += ["", "<details><summary>What the numbers mean</summary>", "", *meanings, "", "</details>"]
    if differences:
        lines += ["", "### Differences", "", differences.strip()]
    if command:
        lines += ["", "Made with", "", code_block(command)]
    return "\n".join(lines) + "\n"


def _table(headlines: Sequence[Headline], notes: dict[str, int]) -> Iterator[str]:
    """A row for each benchmark and number, a column for each model. Fills `notes`: text to number."""
    models = [*dict.fromkeys(row.model for row in headlines)]
    rows: dict[tuple[str, str], dict[str, Headline]] = {}
    for row in headlines:
        rows.setdefault((row.family, row.metric), {})[row.model] = row
    yield "| " + " | ".join(["benchmark", "number, 95 % bounds", *map(escaped, models)]) + " |"
    yield "|---|---|" + "---:|" * len(models)
    for (family, _), by_model in rows.items():
        head = next(iter(by_model.values()))
        over = len(head.languages)
        mean = f" (mean over {'all ' if head.is_whole else ''}{over} {head.parts})" if over else ""
        title = escaped(head.measured.in_prose) + ARROWS[head.measured.higher_is_better]
        cells = [_cell(by_model.get(model), notes) for model in models]
        yield "| " + " | ".join([escaped(family) + mean, title, *cells]) + " |"


def _cell(headline: Headline | None, notes: dict[str, int]) -> str:
    if headline is None:
        return _ABSENT
    text = headline.text.replace("[", "\\[").replace("]", "\\]")
    numbers = sorted(notes.setdefault(doubt.text, len(notes) + 1) for doubt in headline.doubts)
    marked = f" <sup>{', '.join(map(str, numbers))}</sup>" if numbers else ""
    return text + marked if text != UNDEFINED_TEXT and headline.is_measurable else f"*{text}*{marked}"
