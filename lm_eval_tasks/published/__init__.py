"""Published figures: tables of the papers, and whether a run's figures can be compared with them.

README.md lists the tables. A table has the columns ``model``, ``task``, ``split`` (as a run's provenance names it;
empty where the benchmark has one), ``num_fewshot``, and one for each metric, named as our tasks name it. A cell holds
what the source prints: a ``value``, ``value±spread``, or ``count/n``, whose quotient is the share. An empty cell: the
source has no such figure, or it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources

from custom_metrics.usage.shipped_tables import shipped_rows

__all__ = ["PublishedRow", "Source", "all_rows", "family_of", "rows_for", "sources"]

_KEYS = ("model", "task", "split", "num_fewshot")
_IN_CHARACTERS = ("length",)
_CALIBRATED = "mfava_table10"
"""The table whose precision and recall are in the calibration of its detector, which corrects rates."""


@dataclass(frozen=True)
class Source:
    """A table or figure of a paper, and what it was measured on; ``sources.yaml`` describes the fields."""

    name: str
    citation: str
    where: str
    url: str
    licence: str
    unit: str
    of: str
    documents: str
    prompt: str = ""
    decoding: str = ""
    filter: str = ""
    sampled: bool | None = None
    passages_given: int | None = None
    any_prompt: tuple[str, ...] = ()
    detector: str = ""
    subset: Mapping[str, str] = field(default_factory=dict)
    counting: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.citation}, {self.where.partition(';')[0]}"


@dataclass(frozen=True)
class PublishedRow:
    """A published figure."""

    source: Source
    model: str  # or the retriever, detector or team, as the source names it
    task: str  # the task of ours that asks the same
    split: str  # of the public data; empty where there is one only
    num_fewshot: int | None  # examples before the question; None where none can be
    metric: str
    value: float  # as our tasks report it: a share in [0, 1], or characters
    spread: float | None = None  # standard deviation, as the source defines it
    count: int | None = None  # of a share and its denominator, in documents, where they are published
    n: int | None = None

    @property
    def measured_on(self) -> str:
        """Documents, prompt, decoding and detector, in words."""
        source = self.source
        split = f"split {self.split}" if self.split else ""
        shots = f"{self.num_fewshot} shots" if self.num_fewshot else ""
        texts = (split, source.documents, source.prompt and f"prompt: {source.prompt}", shots, source.decoding)
        return "; ".join(text for text in (*texts, source.detector and f"detector {source.detector}") if text)


def rows_for(task: str, metric: str) -> list[PublishedRow]:
    """The published figures of a metric for a task, in the order of the sources; empty where there are none.

    Some have another prompt, number of shots, retriever or split; :func:`~lm_eval_tasks.published.beside.mismatches` says
    so."""
    return list(_by_family().get((family_of(task), metric), ()))


def family_of(task: str) -> str:
    """The common name of tasks that differ only in prompt or retriever."""
    nomiracl = re.fullmatch(r"(nomiracl_[a-z]+?)(_role|_repeat|_explanation)?", task)
    if nomiracl:
        return nomiracl[1]
    return next((family for family in ("clapnq_gold", "clapnq_rag") if f"{task}_".startswith(f"{family}_")), task)


@lru_cache(maxsize=1)
def sources() -> dict[str, Source]:
    """Table to source, in the order of ``sources.yaml``."""
    import yaml

    content = yaml.safe_load(resources.files("lm_eval_tasks.published").joinpath("sources.yaml").read_text("utf-8"))
    return {
        name: Source(name=name, **{**fields, "any_prompt": tuple(fields.get("any_prompt", ()))})
        for name, fields in content.items()
    }


@lru_cache(maxsize=1)
def all_rows() -> tuple[PublishedRow, ...]:
    """Every published figure, in the order of the sources."""
    return tuple(row for source in sources().values() for row in _rows(source))


@lru_cache(maxsize=1)
def _by_family() -> dict[tuple[str, str], list[PublishedRow]]:
    rows: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in all_rows():
        rows.setdefault((family_of(row.task), row.metric), []).append(row)
    return rows


def _rows(source: Source) -> Iterator[PublishedRow]:
    for line in shipped_rows("lm_eval_tasks.published", f"{source.name}.tsv"):
        shots = int(line["num_fewshot"]) if line["num_fewshot"] else None
        for metric, cell in line.items():
            if metric not in _KEYS and cell:
                scale = 100 if source.unit == "percent" and metric not in _IN_CHARACTERS else 1
                yield PublishedRow(
                    source, line["model"], line["task"], line["split"], shots, metric, *_parse_cell(cell, scale)
                )
    if source.name == _CALIBRATED:
        yield from _calibration_rows(source)


def _parse_cell(cell: str, scale: int) -> tuple[float, float | None, int | None, int | None]:
    """Value, spread, count and denominator of a cell: ``value``, ``value±spread`` or ``count/n``."""
    count, slash, n = cell.partition("/")
    if slash:
        return int(count) / int(n), None, int(count), int(n)
    value, plus_minus, spread = cell.partition("±")
    return float(value) / scale, float(spread) / scale if plus_minus else None, None, None


def _calibration_rows(source: Source) -> Iterator[PublishedRow]:
    """Precision and recall of Table 10, from the calibration."""
    from detector_plugin import calibration  # it brings numpy, which the other tables can do without

    for language, kinds in calibration.load(source.detector).languages.items():
        for kind, rates in kinds.items():
            for metric in ("precision", "recall"):
                task = f"mfava_detection_{language}_{kind}"
                yield PublishedRow(source, source.detector, task, "", None, metric, getattr(rates, metric))
