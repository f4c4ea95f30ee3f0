"""Runs beside the published figures: both values, in what they were measured otherwise, and their difference where they
measure the same."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import newcombe
from custom_metrics.statistics.units import is_measurable
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.harness import WEIGHTLESS
from lm_eval_tasks.published import PublishedRow, Source, rows_for
from lm_eval_tasks.runs import Run, TaskRun, labels

_LONG = 15
"""Rows up to which a source is shown whole."""

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
class Against:
    """A run's figure less a published one; ``nan`` where it is not computed."""

    run: str
    difference: float
    low: float  # 95 % bounds; nan where they are not known
    high: float
    by: str  # what the bounds are
    why_none: tuple[str, ...]  # why no difference is computed; empty where it is
    said: tuple[str, ...]  # what else differs, in how the answers were made


@dataclass(frozen=True)
class BesidePaper:
    """A metric of a task: the runs' figures and the published ones.

    Of a long ranking the first, the middle, the last and those next to the runs are in `rows`.
    """

    task: str
    metric: str
    source: Source
    own: Mapping[str, Figure]  # by the label of the run; read by the source's filter
    rows: tuple[tuple[PublishedRow, tuple[Against, ...]], ...]  # with every run that has this task
    of: int  # how many published figures there are
    measured: Metric
    run_filters: tuple[str, ...] = ()  # all that the runs have


def beside_paper(runs: Sequence[Run]) -> list[BesidePaper]:
    """Every task and metric of runs that a source has a figure for, in the order of the runs' tasks.

    Rows of another split than the runs' are left out where the source has rows of theirs.
    """
    named = list(zip(labels(runs), runs, strict=True))
    found = []
    for task in dict.fromkeys(name for run in runs for name in run.tasks):
        of_task = [(label, run, run.tasks[task]) for label, run in named if task in run.tasks]
        metrics = dict.fromkeys(
            metric for _, _, part in of_task for figures in part.figures.values() for metric in figures
        )
        for metric in metrics:
            by_source: dict[str, list[PublishedRow]] = {}
            for row in rows_for(task, metric):
                by_source.setdefault(row.source.name, []).append(row)
            found += [_of_source(task, metric, rows, of_task) for rows in by_source.values()]
    return [beside for beside in found if beside.own]


def _of_source(
    task: str, metric: str, rows: Sequence[PublishedRow], runs: Sequence[tuple[str, Run, TaskRun]]
) -> BesidePaper:
    source = rows[0].source
    own: dict[str, Figure] = {}
    for label, _, part in runs:  # of metrics without an answer, the figure of any filter
        figures = [part.figure(metric, name) for name in part.figures if name == source.filter or not source.filter]
        if known := [figure for figure in figures if not math.isnan(figure.value)]:
            own[label] = known[0]
    having = [(label, run, part) for label, run, part in runs if label in own]
    splits = {str(part.provenance.get("split") or "") for _, _, part in having}
    kept = [row for row in rows if row.split in splits] or list(rows)
    shown = _of_interest(kept, [figure.value for figure in own.values()])
    return BesidePaper(
        task=task,
        metric=metric,
        source=source,
        own=own,
        rows=tuple(
            (row, tuple(_against(row, label, own[label], run, part) for label, run, part in having)) for row in shown
        ),
        of=len(kept),
        measured=runs[0][2].metric(metric),
        run_filters=tuple(dict.fromkeys(name for _, _, part in having for name in part.figures)),
    )


def _of_interest(rows: Sequence[PublishedRow], values: Sequence[float]) -> list[PublishedRow]:
    if len(rows) <= _LONG:
        return list(rows)
    ranked = sorted(rows, key=lambda row: row.value, reverse=True)
    kept = {0, len(ranked) // 2, len(ranked) - 1}
    for value in values:
        above = sum(row.value >= value for row in ranked)
        kept |= {at for at in (above - 1, above) if 0 <= at < len(ranked)}
    return [ranked[at] for at in sorted(kept)]


def _against(row: PublishedRow, label: str, figure: Figure, run: Run, part: TaskRun) -> Against:
    reasons = tuple(differs(row, part))
    if not reasons and not is_measurable(figure, part.metric(row.metric).unit):
        reasons = ("the run's figure is not measurable: its bounds span more than half of the scale",)
    if reasons:
        return Against(label, math.nan, math.nan, math.nan, "", reasons, ())
    said = tuple(answered_otherwise(row, part, str(run.config.get("model") or "")))
    if row.count is not None and row.n is not None and figure.n:
        difference = newcombe(round(figure.value * figure.n), figure.n, row.count, row.n)
        return Against(label, *difference, NEWCOMBE, (), said)
    by = EXACT if math.isnan(figure.low) else OWN_BOUNDS
    value, low, high = (end - row.value for end in figure[:3])
    return Against(label, value, low, high, by, (), said)


# --------------------------------------------------------------------------------------------------------- what differs


def differs(row: PublishedRow, run: TaskRun) -> list[str]:
    """In what the number of a run is another one than the published: documents, prompt, passages, detector, counting.

    Empty where both numbers measure the same, so that their difference says something about the two models. How the answers
    were made is not part of it: :func:`answered_otherwise`. The row is one of :func:`lm_eval_tasks.published.rows_for`.
    """
    source = row.source
    if not run.provenance:
        return ["the results do not say what they were measured on: they have no provenance"]
    given = run.provenance.get("options")
    options: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    counted = source.subset.get(row.metric, "")  # what the run lacks of the other subset is not said
    subset = str(options.get("subset") or "")
    found = [f"the {subset.replace('_', '-')} questions alone"] if subset in _SUBSETS and not counted else []
    for reason in run.not_comparable:
        lacking = _LACKING.fullmatch(reason)
        if not (counted and lacking and lacking["subset"] != counted):
            found.append(reason)
    split = str(run.provenance.get("split") or "")
    if row.split and split != row.split and not any(split and split in reason for reason in found):
        found.append(f"split {split or 'unknown'}, this figure is of split {row.split}")
    generated = not _OF_RETRIEVAL.fullmatch(row.metric)
    if generated and row.model not in source.any_prompt and row.num_fewshot is not None:
        theirs, ours = _prompt_of(row.task), _prompt_of(run.task)
        if theirs != ours:
            found.append(f"prompt {ours}, theirs for this model is {theirs}")
        if row.num_fewshot != run.settings.shots:
            found.append(f"{run.settings.shots} shots, theirs are {row.num_fewshot}")
    if generated and source.passages_given is not None:
        theirs, ours = _retriever_of(row.task), str(options.get("retriever") or _retriever_of(run.task))
        if ours != theirs:
            found.append(f"retriever {ours}, theirs is {theirs}")
        if options.get("top_k") not in (None, source.passages_given):
            found.append(f"top {options['top_k']} passages, theirs are {source.passages_given}")
    if source.detector and source.of != "detector" and run.detector.get("name") != source.detector:
        found.append(f"detector {run.detector.get('name') or 'unknown'}, theirs is {source.detector}")
    if row.metric in source.counting:
        found.append(source.counting[row.metric])
    return list(dict.fromkeys(found))


def answered_otherwise(row: PublishedRow, run: TaskRun, model: str = "") -> list[str]:
    """What is known to differ in how answers were made, which counts to a model as it was used: the difference is computed,
    and this is said beside it. `model` is as of ``lm_eval --model``: how the answers of ``replay`` were made is not known.
    """
    said = []
    generation = run.settings.generation
    sampled = bool(generation.get("do_sample")) and generation.get("temperature") != 0
    if row.source.sampled is not None and model not in WEIGHTLESS and sampled != row.source.sampled:
        theirs = f"theirs {'was sampled' if row.source.sampled else 'was greedy'} ({row.source.decoding})"
        said.append(f"decoding is {'sampled' if sampled else 'greedy'}, {theirs}")
    if row.source.of == "model" and run.settings.system_instruction:
        said.append("this run has a system instruction")
    return said


def _prompt_of(task: str) -> str:
    match = _PROMPT.search(task)
    return _PROMPTS.get(match[1], match[1]) if match else _USUAL_PROMPT.get(task.partition("_")[0], "")


def _retriever_of(task: str) -> str:
    return _PROMPT.sub("", task).removeprefix("clapnq_rag").lstrip("_") or "bm25"
