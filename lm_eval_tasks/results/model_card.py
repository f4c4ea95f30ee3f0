"""The block ``model-index`` of a model's card on the Hugging Face hub: headlines, and what they were measured on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lm_eval_tasks.definition.schema import Benchmark
from lm_eval_tasks.results.report.documents import described_runs
from lm_eval_tasks.results.report.headlines import Family, Headline, families, headlines_of_family, language_name
from lm_eval_tasks.runs import Run
from lm_eval_tasks.runs.run import recorded_settings

_SOURCE = "https://github.com/EleutherAI/lm-evaluation-harness"
_SAMPLE = "the excerpt that lm-eval-grounded bundles"
_DIGITS = 6


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
    recorded = recorded_settings(task)
    path = str(task.config.get("dataset_path") or task.benchmark or "unknown")
    tasks = len(headline.languages)
    where = f"mean over {tasks} {headline.parts}" if tasks else language_name(task.language)
    title = f"{headline.benchmark if task.benchmark else family.name}{f' ({where})' if where else ''}"
    is_sample = recorded["read_from"] == "sample"
    files = [file for file in provenance.get("files") or () if isinstance(file, Mapping)]
    # Revisions of the data set itself; none if its files came from elsewhere.
    revisions = [file.get("revision") for file in files if file.get("repository") == path and file.get("host") == "hub"]
    revision = str(revisions[0]) if revisions and revisions[0] and not is_sample else None
    arguments = {"task_version": recorded["version"], "num_few_shot": recorded["shots"]}
    if recorded["limit"] is not None:
        arguments["limit"] = recorded["limit"]
    if elsewhere := {f"{file['repository']}@{file['revision']}" for file in files if file.get("host") == "github"}:
        arguments["github"] = sorted(elsewhere)
    if detector := recorded["detector"]:
        arguments["detector"] = f"{detector['name']} {detector.get('version', '')}".strip()
    bounds = {"bound_95_low": headline.figure.low, "bound_95_high": headline.figure.high}
    measured: dict[str, Any] = {name: round(bound, _DIGITS) for name, bound in bounds.items() if not math.isnan(bound)}
    measured["documents"] = headline.figure.n
    written = task.figures.get(headline.filter, {}).get(headline.metric, {})
    if denominator := str(written.get("denominator") or headline.measured.denominator):
        measured["denominator"] = denominator
    if headline.doubts:
        measured["doubts"] = [doubt.text for doubt in headline.doubts]
    return EvalResult(
        task_type=task.table.task_type if task.table else Benchmark.task_type,
        task_name=family.name,
        dataset_type=path,
        dataset_name=f"{title}: {_SAMPLE}" if is_sample else title,
        dataset_config=family.name,
        dataset_split=str(recorded["split"] or "") or None,
        dataset_revision=revision,
        dataset_args=arguments,
        metric_type=headline.metric,
        metric_name=f"{headline.measured.in_prose} ({headline.filter})",
        metric_value=round(headline.figure.value, _DIGITS),
        metric_args=measured,
        source_name=f"lm-eval-grounded {recorded['versions'].get('lm-eval-grounded') or ''}".strip(),
        source_url=_SOURCE,
    )
