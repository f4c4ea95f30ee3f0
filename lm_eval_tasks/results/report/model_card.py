"""The block for a model card on the Hugging Face hub: ``model-index`` in YAML, with what the numbers were measured on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval_tasks.definition.schema import Benchmark
from lm_eval_tasks.results.report.families import Family, families, language_name
from lm_eval_tasks.results.report.headlines import Headline, headlines_of_family, signs_of_family
from lm_eval_tasks.runs import Run, TaskRun

__all__ = ["eval_results", "model_card"]

_SOURCE = "https://github.com/EleutherAI/lm-evaluation-harness"
_SAMPLE = "a miniature of it that lm-eval-grounded wrote, not the published data"
_DIGITS = 6


def model_card(run: Run, name: str = "") -> str:
    """The YAML block, between lines of three dashes, for the top of a model card.

    Args:
        run: of a model.
        name: of the model on the hub; default the run's.
    """
    from huggingface_hub import ModelCardData

    found, unknown = _listed(run)
    card = ModelCardData(model_name=name or run.model, eval_results=found).to_yaml() if found else "model-index: []"
    left_out = "".join(f"\n# left out: {_one_line(said)}" for said in unknown)
    return f"---\n{card}{left_out}\n---\n"


def eval_results(run: Run) -> list[Any]:
    """The headlines of a run as ``huggingface_hub.EvalResult``: of each language, and their mean. The format wants a value,
    so undefined ones are left out, and those that are not measurable (:mod:`custom_metrics.statistics.units`).

    Args:
        run: of a model.
    """
    return _listed(run)[0]


def _listed(run: Run) -> tuple[list[Any], list[str]]:
    """The results, and what is left out although it has a value, with its bounds."""
    found, unknown = [], []
    for family in families(run):
        for one, part in _results(family):
            if one.is_measurable:
                found.append(_result(one, part))
            else:
                unknown.append(f"{one.metric} of {part.name} ({one.filter}), {one.text}")
    return found, unknown


def _one_line(text: str) -> str:
    """A text that no character of it ends as a comment."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _results(family: Family) -> Iterator[tuple[Headline, Family]]:
    """Those of each language with doubts of its own, then those of the mean."""
    broken = signs_of_family(family)
    alone = [Family(task.task, family.benchmark, {language: task}) for language, task in family.tasks.items()]
    for part in alone if len(alone) == 1 else (*alone, family):
        for one in headlines_of_family("", part, broken):
            if not math.isnan(one.figure.value):
                yield one, part


def _result(one: Headline, family: Family) -> Any:
    from huggingface_hub import EvalResult

    task = family.any
    path = str(task.config.get("dataset_path") or task.benchmark or "unknown")
    where = f"mean over {len(one.languages)} languages" if one.languages else language_name(task.language)
    named = f"{one.benchmark or family.name}{f' ({where})' if where else ''}"
    is_sample = task.provenance.get("read_from") == "sample"
    return EvalResult(
        task_type=task.table.task_type if task.table else Benchmark.task_type,
        task_name=family.name,
        dataset_type=path,
        dataset_name=f"{named}: {_SAMPLE}" if is_sample else named,
        dataset_config=family.name,
        dataset_split=str(task.provenance.get("split") or "") or None,
        dataset_revision=None if is_sample else _revision(task.provenance, path),
        dataset_args=_asked(task),
        metric_type=one.metric,
        metric_name=f"{one.measured.in_prose} ({one.filter})",
        metric_value=round(one.figure.value, _DIGITS),
        metric_args=_measured(one),
        source_name=_source(task.provenance),
        source_url=_SOURCE,
    )


def _revision(provenance: Mapping[str, Any], path: str) -> str | None:
    """The revision of the data set on the hub that was read; ``None`` where its files came from elsewhere."""
    files = [file for file in provenance.get("files") or () if isinstance(file, Mapping)]
    revisions = [file.get("revision") for file in files if file.get("repository") == path and file.get("host") == "hub"]
    return str(revisions[0]) if revisions and revisions[0] else None


def _asked(task: TaskRun) -> dict[str, Any]:
    """How the task was put to the model, and the files that were read elsewhere."""
    files = [file for file in task.provenance.get("files") or () if isinstance(file, Mapping)]
    elsewhere = {f"{file['repository']}@{file['revision']}" for file in files if file.get("host") == "github"}
    settings = task.settings
    return {
        "task_version": task.version,
        "num_few_shot": settings.shots,
        **({"limit": settings.limit} if settings.limit is not None else {}),
        **({"github": sorted(elsewhere)} if elsewhere else {}),
        **(
            {"detector": f"{task.detector['name']} {task.detector.get('version', '')}".strip()} if task.detector else {}
        ),
    }


def _measured(one: Headline) -> dict[str, Any]:
    """Bounds, denominator and doubts."""
    bounds: Sequence[tuple[str, float]] = (("low", one.figure.low), ("high", one.figure.high))
    return {
        **{f"bound_95_{side}": round(part, _DIGITS) for side, part in bounds if not math.isnan(part)},
        "documents": one.figure.n,
        **({"denominator": one.denominator} if one.denominator else {}),
        **({"doubts": [doubt.text for doubt in one.doubts]} if one.doubts else {}),
    }


def _source(provenance: Mapping[str, Any]) -> str:
    versions = provenance.get("versions")
    version = versions.get("lm-eval-grounded") if isinstance(versions, Mapping) else None
    return f"lm-eval-grounded {version or ''}".strip()
