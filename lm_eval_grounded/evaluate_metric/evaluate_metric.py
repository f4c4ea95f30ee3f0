"""A metric of the tasks as an ``evaluate.Metric``: what a task computes, from strings instead of a model's run.

``evaluate.load`` copies this file, so it imports the project by its full names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any, NamedTuple

import datasets
import evaluate

from custom_metrics import relevance
from custom_metrics.abstention import is_abstention
from custom_metrics.filters import CopiedAnswer, NomiraclLabel
from custom_metrics.reading.response import final_answer
from custom_metrics.reading.tagged_text import parse
from custom_metrics.scores import aggregations, detection, grounding
from custom_metrics.usage.options import known_instead, refuse_unknown
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_grounded.answers import rows_of
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.detection.language_tags import with_phrases

_LABELS = {"relevant": relevance.ANSWER, "non_relevant": relevance.NO_ANSWER}

# Values of a prediction with its reference, by the task's filter and its process_results. Further parameters are options.


def _clapnq(prediction: str, reference: Any, *, column: str) -> Mapping[str, Any]:
    grounding.refuse_other_scripts(reference)
    document = {"answerable": True, "answers": [], "groundings": [], column: reference}
    return grounding.process_results(document, [final_answer(prediction)])


def _mfava(prediction: str, reference: None, language: str | None = None) -> Mapping[str, Any]:
    return {"abstention_rate": float(is_abstention(final_answer(prediction), with_phrases(language)))}


def _nomiracl(
    prediction: str,
    reference: str,
    language: str | None = None,
    question: str | None = None,
    passages: Sequence[str] | None = None,
    parser: str = "robust",
) -> Mapping[str, Any]:
    if reference not in _LABELS:
        raise UsageError(f"a reference is {' or '.join(_LABELS)}: what the passages are; got {reference!r:.60}")
    document = {"language": with_phrases(language), "query": question, "passages": passages}
    label = NomiraclLabel(parser).extract(prediction, document)
    return relevance.process_results({"subset": reference, "label": _LABELS[reference]}, [label])


def _mushroom(prediction: str, reference: str) -> Mapping[str, Any]:
    text, spans = parse(reference)
    hard = [{"start": span.start, "end": span.end, "category": span.category} for span in spans]
    soft = [{"start": span.start, "end": span.end, "prob": span.probability} for span in spans]
    document = {"answer": text, "spans": hard, "soft_labels": soft, "language": None}
    return detection.process_character_results(document, [CopiedAnswer().extract(prediction, document)])


class _Metric(NamedTuple):
    benchmark: str
    values: Callable[..., Mapping[str, Any]]
    references: str = ""  # what they are; empty for a metric without
    several: bool = False  # whether each prediction has a list of them


_GOLD = _Metric("clapnq", partial(_clapnq, column="answers"), "gold answers", True)
_GIVEN = _Metric("clapnq", partial(_clapnq, column="groundings"), "passages", True)
_RATE = _Metric("nomiracl", _nomiracl, f"{' or '.join(_LABELS)}: whether one of the passages answers the question")
_MARKS = _Metric("mushroom", _mushroom, "the answer, with <hallucination> tags as predictions have them")
METRICS = {
    **{"rougeL": _GOLD, "recall": _GOLD, "rougeLp": _GIVEN, "k_precision": _GIVEN},
    "abstention_rate": _Metric("mfava", _mfava),
    **{"hallucination_rate": _RATE, "error_rate": _RATE, "accuracy": _RATE, "invalid_rate": _RATE},
    **{"iou": _MARKS, "rho": _MARKS},
}
"""Name to how it is computed."""


class GroundedMetric(evaluate.Metric):  # type: ignore[misc]
    """A metric of :data:`METRICS`. ``compute`` gives its value under its name, ``None`` where no document counts; its 95 %
    bounds, ``<name>_low`` and ``<name>_high``; and how many documents count, ``<name>_n``. An option is one value for all
    predictions, or a list as long."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in METRICS:
            raise UsageError(f"no metric of strings {self.config_name!r}{known_instead(self.config_name, METRICS)}")
        how, text = METRICS[self.config_name], datasets.Value("string")
        benchmark = catalogue.tables()[how.benchmark]
        metric = benchmark.metrics[self.config_name]
        page = (resources.files("lm_eval_tasks") / how.benchmark / "README.md").read_text("utf-8")
        citation = re.search(r"```bibtex\n(.*?)```", page, re.DOTALL)
        about = (
            f"; references: {how.references}, {'a list' if how.several else 'one'} for each" if how.references else ""
        )
        references = {"references": datasets.Sequence(text) if how.several else text} if how.references else {}
        return evaluate.MetricInfo(
            description=f"{metric.name} of {benchmark.title}: {metric.definition}; over {metric.denominator}.",
            citation=citation[1] if citation else "",
            inputs_description=f"predictions: a model's answers{about}",
            features=datasets.Features({"predictions": text, **references}),
        )

    def _compute(self, predictions: Sequence[str], references: Any = None, **options: Any) -> dict[str, Any]:
        name, how = self.config_name, METRICS[self.config_name]
        refuse_unknown(name, options, how.values)
        values = [
            how.values(prediction, reference, **dict(zip(options, row, strict=True)))[name]
            for prediction, reference, *row in rows_of(list(predictions), references=references, **options)
        ]
        figure = getattr(aggregations, catalogue.tables()[how.benchmark].metrics[name].aggregation).figure_of(values)
        numbers = {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
        return {key: value if math.isfinite(value) else None for key, value in numbers.items()} | {
            f"{name}_n": figure.n
        }
