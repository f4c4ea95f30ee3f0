"""The block for a model card on the Hugging Face hub: ``model-index`` in YAML, with what the numbers were measured on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lm_eval_tasks.definition.schema import Benchmark
from lm_eval_tasks.results.report.answers import read_once
from lm_eval_tasks.results.report.families import Family, families, language_name
from lm_eval_tasks.results.report.headlines import Headline, headlines_of_family
from lm_eval_tasks.runs import Run

_SOURCE = "https://github.com/EleutherAI/lm-evaluation-harness"
_SAMPLE = "a miniature of it that lm-eval-grounded wrote, not the published data"
_DIGITS = 6


def model_card(run: Run) -> str:
    """The YAML block of a run, between lines of three dashes, for the top of a model card: the headlines of each language,
    and their mean. The format wants a value, so undefined ones are left out, and so is what is not measurable
    (:mod:`custom_metrics.statistics.units`), which stands in a comment with its bounds."""
    from huggingface_hub import ModelCardData

    listed = [*_headlines(run)]
    results = [_result(one, part) for one, part in listed if one.is_measurable]
    card = ModelCardData(model_name=run.model, eval_results=results).to_yaml() if results else "model-index: []"
    for one, part in listed:
        if not one.is_measurable:
            said = f"{one.metric} of {part.name} ({one.filter}), {one.text}"
            on_one_line = "".join(each if each.isprintable() else "\ufffd" for each in said)
            card += f"\n# left out: {on_one_line}"
    return f"---\n{card}\n---\n"


def _headlines(run: Run) -> Iterator[tuple[Headline, Family]]:
    """Those of each language with doubts of its own, then those of the mean; each with its tasks. Undefined ones are left
    out."""
    read = read_once([run])
    for family in families(run):
        alone = [Family(task.task, family.benchmark, {language: task}) for language, task in family.tasks.items()]
        for part in alone if len(alone) == 1 else (*alone, family):
            for one in headlines_of_family("", part, read):
                if not math.isnan(one.figure.value):
                    yield one, part


def _result(one: Headline, family: Family) -> Any:
    """A headline as ``huggingface_hub.EvalResult``."""
    from huggingface_hub import EvalResult

    task, provenance = family.any, family.any.provenance
    path = str(task.config.get("dataset_path") or task.benchmark or "unknown")
    where = f"mean over {len(one.languages)} languages" if one.languages else language_name(task.language)
    named = f"{one.benchmark if task.benchmark else family.name}{f' ({where})' if where else ''}"
    is_sample = provenance.get("read_from") == "sample"
    files = [file for file in provenance.get("files") or () if isinstance(file, Mapping)]
    # Of the data set itself; none where its files came from elsewhere.
    revisions = [file.get("revision") for file in files if file.get("repository") == path and file.get("host") == "hub"]
    revision = str(revisions[0]) if revisions and revisions[0] and not is_sample else None
    asked = {"task_version": task.version, "num_few_shot": task.settings.shots}
    if task.settings.limit is not None:
        asked["limit"] = task.settings.limit
    if elsewhere := {f"{file['repository']}@{file['revision']}" for file in files if file.get("host") == "github"}:
        asked["github"] = sorted(elsewhere)
    if task.detector:
        asked["detector"] = f"{task.detector['name']} {task.detector.get('version', '')}".strip()
    bounds = {"bound_95_low": one.figure.low, "bound_95_high": one.figure.high}
    measured: dict[str, Any] = {name: round(part, _DIGITS) for name, part in bounds.items() if not math.isnan(part)}
    measured["documents"] = one.figure.n
    written = task.figures.get(one.filter, {}).get(one.metric, {})
    if denominator := str(written.get("denominator") or one.measured.denominator):
        measured["denominator"] = denominator
    if one.doubts:
        measured["doubts"] = [doubt.text for doubt in one.doubts]
    versions = provenance.get("versions")
    version = versions.get("lm-eval-grounded") if isinstance(versions, Mapping) else None
    return EvalResult(
        task_type=task.table.task_type if task.table else Benchmark.task_type,
        task_name=family.name,
        dataset_type=path,
        dataset_name=f"{named}: {_SAMPLE}" if is_sample else named,
        dataset_config=family.name,
        dataset_split=str(provenance.get("split") or "") or None,
        dataset_revision=revision,
        dataset_args=asked,
        metric_type=one.metric,
        metric_name=f"{one.measured.in_prose} ({one.filter})",
        metric_value=round(one.figure.value, _DIGITS),
        metric_args=measured,
        source_name=f"lm-eval-grounded {version or ''}".strip(),
        source_url=_SOURCE,
    )
