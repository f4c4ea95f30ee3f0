"""A metric of the tasks as an ``evaluate.Metric``: what a task computes, from strings instead of a model's run.

``evaluate.load`` copies this file, so it imports the project by its full names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pydoc import locate
from typing import Any, NamedTuple

import datasets
import evaluate

from custom_metrics.abstention import is_abstention
from custom_metrics.harness.filters import CopiedAnswer, FinalAnswer, NomiraclLabel
from custom_metrics.reading.tagged_text import parse
from custom_metrics.relevance import ANSWER, NO_ANSWER
from custom_metrics.relevance import process_results as relevance_values
from custom_metrics.scores import aggregations, character_labels, grounding
from custom_metrics.usage.columns import rows_of
from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.detection.language_tags import with_phrases

Document = dict[str, Any]

_LABELS = {"relevant": ANSWER, "non_relevant": NO_ANSWER}


class _Metric(NamedTuple):
    """How a metric comes from strings, as in its task."""

    benchmark: str
    read: Callable[[Any, Document], Any]  # the task's filter: what it makes of a prediction
    values: Callable[[Document, Sequence[Any]], Mapping[str, Any]]  # the task's process_results
    document: Callable[[Any, Document], Document]  # the columns that those read, of a reference and the options
    references: str = ""  # what they are; empty for a metric without
    several: bool = False  # whether one prediction has a list of them
    options: Mapping[str, Any] = {}  # what `compute` takes besides, with its default


def _answerable(**columns: Any) -> Document:
    return {"answerable": True, "answers": [], "groundings": [], **columns}


def _tagged(reference: Any, options: Document) -> Document:
    text, spans = parse(reference)
    hard = [{"start": span.start, "end": span.end, "category": span.category} for span in spans]
    soft = [{"start": span.start, "end": span.end, "prob": span.probability} for span in spans]
    return {"answer": text, "spans": hard, "soft_labels": soft, "language": None}


def _labelled(reference: Any, options: Document) -> Document:
    if reference not in _LABELS:
        raise UsageError(f"a reference is {' or '.join(_LABELS)}: what the passages are; got {reference!r:.60}")
    language = with_phrases(options["language"])
    return {
        **options,
        "subset": reference,
        "label": _LABELS[reference],
        "query": options["question"],
        "language": language,
    }


def _abstention(document: Document, results: Sequence[Any]) -> dict[str, Any]:
    return {"abstention_rate": float(is_abstention(results[0], with_phrases(document["language"])))}


_FINAL = FinalAnswer().extract
_CLAPNQ = "clapnq", _FINAL, grounding.process_results
_NOMIRACL = _Metric(
    "nomiracl",
    lambda response, document: NomiraclLabel(document["parser"]).extract(response, document),
    relevance_values,
    _labelled,
    f"{' or '.join(_LABELS)}: whether one of the passages answers the question",
    options={"language": None, "question": None, "passages": None, "parser": "robust"},
)
_TAGGED = _Metric(
    "mushroom",
    CopiedAnswer().extract,
    character_labels.process_results,
    _tagged,
    "the answer with what is wrong in it between <hallucination> and </hallucination>; so are predictions",
)
METRICS = {
    **dict.fromkeys(
        ("rougeL", "recall"), _Metric(*_CLAPNQ, lambda gold, _: _answerable(answers=gold), "gold answers", True)
    ),
    **dict.fromkeys(
        ("rougeLp", "k_precision"),
        _Metric(*_CLAPNQ, lambda passages, _: _answerable(groundings=passages), "passages", True),
    ),
    "length": _Metric(*_CLAPNQ, lambda *_: _answerable()),
    "abstention_rate": _Metric("mfava", _FINAL, _abstention, lambda _, options: options, options={"language": None}),
    **dict.fromkeys(("hallucination_rate", "error_rate", "accuracy", "invalid_rate"), _NOMIRACL),
    **dict.fromkeys(("iou", "rho"), _TAGGED),
}
"""Name to how it is computed."""


class GroundedMetric(evaluate.Metric):  # type: ignore[misc]
    """A metric of :data:`METRICS`. ``compute`` gives its value under its name, ``None`` where no document counts; its 95 %
    bounds, ``<name>_low`` and ``<name>_high``; and how many documents count, ``<name>_n``.

    ``compute`` also takes options, each one value for all predictions or a list as long: ``language`` (a BCP 47 tag) of
    ``abstention_rate`` and NoMIRACL's rates; and of the latter ``question`` and ``passages``, as they stand in the prompt,
    and ``parser``, ``"robust"`` or ``"strict"``.
    """

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in METRICS:
            raise UsageError(f"no metric of strings {self.config_name!r}{known_instead(self.config_name, METRICS)}")
        how, text = METRICS[self.config_name], datasets.Value("string")
        benchmark = catalogue.tables()[how.benchmark]
        metric = benchmark.metrics[self.config_name]
        page = (resources.files("lm_eval_tasks") / how.benchmark / "README.md").read_text("utf-8")
        citation = re.search(r"```bibtex\n(.*?)```", page, re.DOTALL)
        references = {"references": datasets.Sequence(text) if how.several else text} if how.references else {}
        each = "a list of texts" if how.several else "one text"
        return evaluate.MetricInfo(
            description=f"{metric.name} of {benchmark.title}: {metric.definition or metric.heading}; over "
            f"{metric.denominator}.",
            citation=citation[1] if citation else "",
            inputs_description="predictions: a model's answers, one text each."
            + (f" references: {how.references}; {each} for each prediction." if references else "")
            + (f" Options: {', '.join(how.options)}." if how.options else ""),
            features=datasets.Features({"predictions": text, **references}),
        )

    def _compute(self, predictions: Sequence[str], references: Any = None, **options: Any) -> dict[str, Any]:
        name, how = self.config_name, METRICS[self.config_name]
        if unknown := sorted(options.keys() - how.options.keys()):
            raise UsageError(f"{name}: no option {unknown[0]!r}{known_instead(unknown[0], how.options)}")
        metric = catalogue.tables()[how.benchmark].metrics[name]
        given = {**how.options, **options}
        values = []
        for answer, reference, *row in rows_of(list(predictions), references=references, **given):
            document = how.document(reference, dict(zip(given, row, strict=True)))
            values.append(how.values(document, [how.read(answer, document)])[name])
        aggregation: Any = getattr(aggregations, metric.aggregation, None) or locate(metric.aggregation)
        figure = aggregation.figure(values)
        numbers = {"": figure.value, "_low": figure.low, "_high": figure.high}
        defined = {end: float(number) if math.isfinite(number) else None for end, number in numbers.items()}
        return {**{f"{name}{end}": number for end, number in defined.items()}, f"{name}_n": figure.n}
