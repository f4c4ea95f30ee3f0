"""Published figures: tables of the papers, and whether a run's figures can be compared with them.

README.md lists the tables. A table has the columns ``model``, ``task``, ``split`` (as a run's provenance names it;
empty where the benchmark has one), ``num_fewshot``, and one for each metric, named as our tasks name it. A cell holds
what the source prints: a ``value``, ``value±spread``, or ``count/n``, whose quotient is the share. An empty cell: the
source has no such figure, or it cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources

from custom_metrics.statistics.figures import Figure, is_measurable
from custom_metrics.statistics.intervals import newcombe
from custom_metrics.usage import shipped_rows
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.runs import Run, TaskRun, labels

_KEYS = ("model", "task", "split", "num_fewshot")
_IN_CHARACTERS = ("length",)
_FAMILIES = ("clapnq_gold", "clapnq_rag", "mtrag_ratings")
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
    of_parts: bool = False
    passages_given: int | None = None
    any_prompt: tuple[str, ...] = ()
    detector: str = ""
    subset: Mapping[str, str] = field(default_factory=dict)
    counting: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.citation}, {self.where.partition(';')[0]}"


@dataclass(frozen=True)
class PublishedRow:
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
    """The published figures of a metric for a task, in the order of the sources; empty where there are none. Of a source
    of parts they include those of the group, over all of its tasks together. Some have another prompt, number of shots,
    retriever or split; :func:`mismatches` says so."""
    of_task = _by_family().get((family_of(task), metric), ())
    groups = [group for group, tasks in catalogue.groups().items() if task in tasks]
    of_group = [row for group in groups for row in _by_family().get((group, metric), ()) if row.source.of_parts]
    return [*of_task, *of_group]


def family_of(task: str) -> str:
    """The common name of tasks that differ only in prompt or retriever."""
    nomiracl = re.fullmatch(r"(nomiracl_[a-z]+?)(_role|_repeat|_explanation)?", task)
    if nomiracl:
        return nomiracl[1]
    return next((family for family in _FAMILIES if f"{task}_".startswith(f"{family}_")), task)


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


# ------------------------------------------------------------------------------------ runs compared with published figures
#
# Both values, and their difference; or, where they do not measure the same, the reasons why not.

_LONG = 15  # largest number of rows of a source that are all shown

NEWCOMBE = (
    "Newcombe's interval for independent shares (the questions are the same, but the published answers are not paired with "
    "this run's)"
)
OWN_BOUNDS = "this run's bounds; the published figure counts as exact"
EXACT = "no bounds are known"

_PROMPT = re.compile(r"_(role|repeat|explanation|gpt|llama)$")
_USUAL_PROMPT = {"nomiracl": "vanilla", "clapnq": "FLAN-T5's"}
_PROMPTS = {"gpt": "GPT's", "llama": "Llama's"}
_OF_RETRIEVAL = re.compile(r"(ndcg|recall)@\d+|gold_retrieved")
_SUBSETS = ("relevant", "non_relevant")
_LACKING = re.compile(r"\d+ of \d+ (?P<subset>relevant|non-relevant) questions")


@dataclass(frozen=True)
class PublishedDifference:
    """A run's figure minus a published one; ``nan`` where it is not computed."""

    run: str
    difference: float
    low: float  # 95 % bounds; nan where they are not known
    high: float
    method: str  # of the bounds
    why_none: tuple[str, ...]  # why no difference is computed; empty where it is
    differs_in: tuple[str, ...]  # how the generation of the answers differs


@dataclass(frozen=True)
class PublishedComparison:
    """The runs' figures and the published ones for a metric of a task. `rows` holds only the first, the middle, the last
    and those next to the runs of a long ranking."""

    task: str
    metric: str
    source: Source
    figures: Mapping[str, Figure]  # by the label of the run; read by the source's filter
    rows: tuple[tuple[PublishedRow, tuple[PublishedDifference, ...]], ...]  # with every run that has this task
    total: int  # number of published figures, of which `rows` may hold a part
    measured: Metric
    run_filters: tuple[str, ...] = ()  # all filters of the runs


def compare_with_published(runs: Sequence[Run]) -> list[PublishedComparison]:
    """Compare every task and metric of some runs that has a published figure, in the order of the runs' tasks. If a
    source has rows of the runs' split, its rows of other splits are left out."""
    labelled = list(zip(labels(runs), runs, strict=True))
    comparisons = []
    for task in dict.fromkeys(name for run in runs for name in run.tasks):
        task_runs = [(label, run, run.tasks[task]) for label, run in labelled if task in run.tasks]
        metrics = dict.fromkeys(
            metric for _, _, task_run in task_runs for figures in task_run.figures.values() for metric in figures
        )
        for metric in metrics:
            by_source: dict[str, list[PublishedRow]] = {}
            for row in rows_for(task, metric):
                by_source.setdefault(row.source.name, []).append(row)
            comparisons += [_compare_source(task, metric, rows, task_runs) for rows in by_source.values()]
    return [comparison for comparison in comparisons if comparison.figures]


def _compare_source(
    task: str, metric: str, rows: Sequence[PublishedRow], runs: Sequence[tuple[str, Run, TaskRun]]
) -> PublishedComparison:
    source = rows[0].source
    figures: dict[str, Figure] = {}
    for label, _, task_run in runs:  # of metrics without an answer, the figure of any filter
        filters = (name for name in task_run.figures if name == source.filter or not source.filter)
        if defined := [figure for name in filters if not math.isnan((figure := task_run.figure(metric, name)).value)]:
            figures[label] = defined[0]
    measured = [(label, run, task_run) for label, run, task_run in runs if label in figures]
    splits = {str(task_run.provenance.get("split") or "") for _, _, task_run in measured}
    of_split = [row for row in rows if row.split in splits] or list(rows)
    notable = _notable_rows(of_split, [figure.value for figure in figures.values()])
    return PublishedComparison(
        task=task,
        metric=metric,
        source=source,
        figures=figures,
        rows=tuple((row, tuple(_difference(row, figures[entry[0]], *entry) for entry in measured)) for row in notable),
        total=len(of_split),
        measured=runs[0][2].metric(metric),
        run_filters=tuple(dict.fromkeys(name for _, _, task_run in measured for name in task_run.figures)),
    )


def _notable_rows(rows: Sequence[PublishedRow], values: Sequence[float]) -> list[PublishedRow]:
    if len(rows) <= _LONG:
        return list(rows)
    ranked = sorted(rows, key=lambda row: row.value, reverse=True)
    chosen = {0, len(ranked) // 2, len(ranked) - 1}
    for value in values:
        above = sum(row.value >= value for row in ranked)
        chosen |= {index for index in (above - 1, above) if 0 <= index < len(ranked)}
    return [ranked[index] for index in sorted(chosen)]


def _difference(row: PublishedRow, figure: Figure, label: str, run: Run, task_run: TaskRun) -> PublishedDifference:
    reasons = tuple(mismatches(row, task_run))
    if not reasons and not is_measurable(figure, task_run.metric(row.metric).unit):
        reasons = ("the run's figure is not measurable: its bounds span more than half of the scale",)
    if reasons:
        return PublishedDifference(label, math.nan, math.nan, math.nan, "", reasons, ())
    differs_in = tuple(generation_notes(row, task_run, str(run.config.get("model") or "")))
    if row.count is not None and row.n is not None and figure.n:
        difference = newcombe(round(figure.value * figure.n), figure.n, row.count, row.n)
        return PublishedDifference(label, *difference, NEWCOMBE, (), differs_in)
    method = EXACT if math.isnan(figure.low) else OWN_BOUNDS
    value, low, high = (end - row.value for end in figure[:3])
    return PublishedDifference(label, value, low, high, method, (), differs_in)


# --------------------------------------------------------------------------------------------------------- what differs


def mismatches(row: PublishedRow, run: TaskRun) -> list[str]:
    """Reasons why a run's figure does not measure what the published one does: documents, prompt, passages, detector,
    counting. Empty where both measure the same, so that their difference says something about the two models.
    :func:`generation_notes` says how the answers were generated. `row` is one of
    :func:`lm_eval_tasks.published.rows_for`."""
    source = row.source
    if not run.provenance:
        return ["the results do not say what they were measured on: they have no provenance"]
    options = mapping(run.provenance.get("options"))
    counted = source.subset.get(row.metric, "")  # missing questions of the other subset do not matter
    subset = str(options.get("subset") or "")
    reasons = [f"the {subset.replace('_', '-')} questions alone"] if subset in _SUBSETS and not counted else []
    for reason in run.not_comparable:
        match = _LACKING.fullmatch(reason)
        if not (counted and match and match["subset"] != counted):
            reasons.append(reason)
    split = str(run.provenance.get("split") or "")
    if source.of_parts and row.task in catalogue.groups():
        reasons.append(f"this figure is of all tasks of {row.task} together")
    if row.split and split != row.split and not any(split and split in reason for reason in reasons):
        reasons.append(f"split {split or 'unknown'}, this figure is of split {row.split}")
    generated = not _OF_RETRIEVAL.fullmatch(row.metric)
    if generated and row.model not in source.any_prompt and row.num_fewshot is not None:
        theirs, ours = _prompt_of(row.task), _prompt_of(run.task)
        if theirs != ours:
            reasons.append(f"prompt {ours}, theirs for this model is {theirs}")
        if row.num_fewshot != run.settings.shots:
            reasons.append(f"{run.settings.shots} shots, theirs are {row.num_fewshot}")
    if generated and source.passages_given is not None:
        theirs, ours = _retriever_of(row.task), str(options.get("retriever") or _retriever_of(run.task))
        if ours != theirs:
            reasons.append(f"retriever {ours}, theirs is {theirs}")
        if options.get("top_k") not in (None, source.passages_given):
            reasons.append(f"top {options['top_k']} passages, theirs are {source.passages_given}")
    if source.detector and source.of != "detector" and run.detector.get("name") != source.detector:
        reasons.append(f"detector {run.detector.get('name') or 'unknown'}, theirs is {source.detector}")
    if row.metric in source.counting:
        reasons.append(source.counting[row.metric])
    return list(dict.fromkeys(reasons))


def generation_notes(row: PublishedRow, run: TaskRun, model: str = "") -> list[str]:
    """Known differences in how answers were generated. They belong to a model as it was used, so they are noted beside
    the difference. `model` is that of ``lm_eval --model``: how the answers of ``replay`` were generated is not known."""
    differences = []
    generation = run.settings.generation
    sampled = bool(generation.get("do_sample")) and generation.get("temperature") != 0
    if row.source.sampled is not None and model not in WEIGHTLESS and sampled != row.source.sampled:
        theirs = f"theirs {'was sampled' if row.source.sampled else 'was greedy'} ({row.source.decoding})"
        differences.append(f"decoding is {'sampled' if sampled else 'greedy'}, {theirs}")
    if row.source.of == "model" and run.settings.system_instruction:
        differences.append("this run has a system instruction")
    return differences


def _prompt_of(task: str) -> str:
    match = _PROMPT.search(task)
    return _PROMPTS.get(match[1], match[1]) if match else _USUAL_PROMPT.get(task.partition("_")[0], "")


def _retriever_of(task: str) -> str:
    return _PROMPT.sub("", task).removeprefix("clapnq_rag").lstrip("_") or "bm25"
