"""A report as text: a summary in Markdown for a pull request, and the block ``model-index`` of a model card.

The summary has headlines with bounds, doubts as notes, differences and the command. Everything from the runs is escaped: a
model's name cannot become markup or HTML, mention anybody, or link anywhere. The model card says what the numbers were
measured on, in YAML for the Hugging Face hub.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition.schema import Benchmark
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.compare.tables import render
from lm_eval_tasks.results.formats import ARROWS, UNDEFINED_TEXT, code_block
from lm_eval_tasks.results.formats import escaped_markdown as escaped
from lm_eval_tasks.results.report.documents import described_runs
from lm_eval_tasks.results.report.headlines import (
    Family,
    Headline,
    families,
    headlines,
    headlines_of_family,
    language_name,
)
from lm_eval_tasks.results.report.provenance import command_files
from lm_eval_tasks.runs import Run, labels

_ABSENT = "–"

_SOURCE = "https://github.com/EleutherAI/lm-evaluation-harness"
_SAMPLE = "a miniature of it that lm-eval-grounded wrote, not the published data"
_DIGITS = 6


def markdown_of(runs: Sequence[Run]) -> str:
    """The summary of some runs, with the differences where there are several models."""
    compared = ""
    runs, read_answers = described_runs(runs)
    if len(runs) > 1:
        try:
            comparison = compare_runs(runs, refuse=False, read_answers=read_answers)
            compared = render(comparison, "markdown")
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


# ----------------------------------------------------------------------------------------------------- the model card


def model_card(run: Run) -> str:
    """The YAML block of a run, between lines of three dashes, for the top of a model card: the headlines of each language,
    and their mean. The format needs a value: undefined ones are left out, and those that are not measurable
    (:mod:`custom_metrics.statistics.units`) become comments with their bounds."""
    from huggingface_hub import ModelCardData

    listed = [*_headlines(run)]
    results = [_result(headline, family) for headline, family in listed if headline.is_measurable]
    card = ModelCardData(model_name=run.model, eval_results=results).to_yaml() if results else "model-index: []"
    for headline, family in listed:
        if not headline.is_measurable:
            text = f"{headline.metric} of {family.name} ({headline.filter}), {headline.text}"
            on_one_line = "".join(character if character.isprintable() else "\ufffd" for character in text)
            card += f"\n# left out: {on_one_line}"
    return f"---\n{card}\n---\n"


def _headlines(run: Run) -> Iterator[tuple[Headline, Family]]:
    """The headlines of each language with its own doubts, then those of the mean; each with its tasks. Undefined ones are
    left out."""
    (run,), read_answers = described_runs([run])
    for family in families(run):
        single = [Family(task.task, {language: task}) for language, task in family.tasks.items()]
        for subset in single if len(single) == 1 else (*single, family):
            for headline in headlines_of_family("", subset, read_answers):
                if not math.isnan(headline.figure.value):
                    yield headline, subset


def _result(headline: Headline, family: Family) -> Any:
    """A headline as ``huggingface_hub.EvalResult``."""
    from huggingface_hub import EvalResult

    task, provenance = family.any_task, family.any_task.provenance
    path = str(task.config.get("dataset_path") or task.benchmark or "unknown")
    tasks = len(headline.languages)
    where = f"mean over {tasks} {headline.parts}" if tasks else language_name(task.language)
    title = f"{headline.benchmark if task.benchmark else family.name}{f' ({where})' if where else ''}"
    is_sample = provenance.get("read_from") == "sample"
    files = [file for file in provenance.get("files") or () if isinstance(file, Mapping)]
    # Revisions of the data set itself; none if its files came from elsewhere.
    revisions = [file.get("revision") for file in files if file.get("repository") == path and file.get("host") == "hub"]
    revision = str(revisions[0]) if revisions and revisions[0] and not is_sample else None
    arguments = {"task_version": task.version, "num_few_shot": task.settings.shots}
    if task.settings.limit is not None:
        arguments["limit"] = task.settings.limit
    if elsewhere := {f"{file['repository']}@{file['revision']}" for file in files if file.get("host") == "github"}:
        arguments["github"] = sorted(elsewhere)
    if task.detector:
        arguments["detector"] = f"{task.detector['name']} {task.detector.get('version', '')}".strip()
    bounds = {"bound_95_low": headline.figure.low, "bound_95_high": headline.figure.high}
    measured: dict[str, Any] = {name: round(bound, _DIGITS) for name, bound in bounds.items() if not math.isnan(bound)}
    measured["documents"] = headline.figure.n
    written = task.figures.get(headline.filter, {}).get(headline.metric, {})
    if denominator := str(written.get("denominator") or headline.measured.denominator):
        measured["denominator"] = denominator
    if headline.doubts:
        measured["doubts"] = [doubt.text for doubt in headline.doubts]
    versions = provenance.get("versions")
    version = versions.get("lm-eval-grounded") if isinstance(versions, Mapping) else None
    return EvalResult(
        task_type=task.table.task_type if task.table else Benchmark.task_type,
        task_name=family.name,
        dataset_type=path,
        dataset_name=f"{title}: {_SAMPLE}" if is_sample else title,
        dataset_config=family.name,
        dataset_split=str(provenance.get("split") or "") or None,
        dataset_revision=revision,
        dataset_args=arguments,
        metric_type=headline.metric,
        metric_name=f"{headline.measured.in_prose} ({headline.filter})",
        metric_value=round(headline.figure.value, _DIGITS),
        metric_args=measured,
        source_name=f"lm-eval-grounded {version or ''}".strip(),
        source_url=_SOURCE,
    )
