"""What the harness's 0.5 has of its own: a task has scorers, one for each filter, which filter, score and aggregate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import lm_eval.filters  # noqa: F401 (its own are registered now, before ours: else only when the first is looked up)
from lm_eval.api.metrics import Metric
from lm_eval.api.registry import get_aggregation, metric_registry, register_scorer
from lm_eval.api.task import GenerateTask
from lm_eval.scorers import GenScorer, MetricKey

from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import Figure
from lm_eval_tasks import harness
from lm_eval_tasks.harness import flat

harness.require(GenScorer, ["_resolve_metrics", "aggregate", "set_results"])
harness.require(
    GenerateTask, [*harness.HOOKS.split(), "_build_scorers", "_qualified_name", "aggregate", "process_instances"]
)
SCORER = "grounded"


@register_scorer(SCORER)
@dataclass
class GroundedScorer(GenScorer):  # type: ignore[misc]
    """A scorer whose metrics bring their own standard errors, and may have any name. The harness takes a name such as
    ``f1`` for its own metric, which is of other requests, and refuses it. Where ``process_results`` has the values, no
    metric of that name is computed. `figures`: as ``HostTask.recorded`` has them."""

    figures: dict[str, tuple[Sequence[Any], Figure]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def _resolve_metrics(cls, metric_cfg: Sequence[Any], output_type: str) -> list[Any]:
        metrics = []
        for entry in metric_cfg:
            name = entry if isinstance(entry, Metric) else entry["metric"]
            known = metric_registry.get(name, None) if isinstance(name, str) else None
            of_harness = not isinstance(name, str) or (known is not None and output_type in known.output_type)
            theirs = super()._resolve_metrics([entry], output_type) if of_harness else [_given(entry, output_type)]
            metrics.append(theirs[0])
        return metrics

    def set_results(self, scored_docs: Any) -> None:
        """Store the documents' values, for a run with figures of its own."""
        self.figures.clear()
        super().set_results(scored_docs)

    def aggregate(
        self,
        reduced_docs: Mapping[int, Mapping[str, Any]],
        bootstrap_iters: int | None = 100000,
        aggregation_overrides: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Any], int]:
        """Aggregate as the harness does, and by our aggregations with their own standard errors."""
        ours = {m.name: m.aggregation for m in self.metrics or () if isinstance(m.aggregation, Aggregation)}
        theirs = {doc: {name: values[name] for name in values.keys() - ours} for doc, values in reduced_docs.items()}
        metrics, number = super().aggregate(theirs, bootstrap_iters, aggregation_overrides)
        for name, aggregation in ours.items():
            if values := [each[name] for each in reduced_docs.values() if name in each]:
                self.figures[name] = values, (figure := aggregation.figure_of(values))
                has_error = isinstance(bootstrap_iters, int) and bootstrap_iters > 0 and len(values) > 1
                metrics[str(MetricKey(name, self.name))] = float(figure.value)
                error = float(figure.standard_error) if has_error else "N/A"
                metrics[str(MetricKey(name, self.name, is_stderr=True))] = error
                number = max(number, len(values))
        return metrics, number


def _given(entry: Mapping[str, Any], output_type: str) -> Any:
    """A metric of ``metric_list`` whose values ``process_results`` has."""

    def compute(*_: Any, **__: Any) -> NoReturn:
        raise ValueError(
            f"metric {entry['metric']}: there is none of this name, and process_results has no value for it"
        )

    aggregation = entry.get("aggregation", "mean")
    function = get_aggregation(aggregation) if isinstance(aggregation, str) else aggregation
    if function is None:
        raise ValueError(f"metric {entry['metric']}: there is no aggregation {aggregation!r}")
    better = entry.get("higher_is_better")
    return Metric(entry["metric"], compute, aggregation=function, higher_is_better=better, output_type={output_type})


class _Sent(dict[str, Any]):
    """A document that another process gets without some columns. (Its digest, made before, is of all.)"""

    left_out: Collection[str]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ({column: value for column, value in self.items() if column not in self.left_out},)


class HostTask(GenerateTask):  # type: ignore[misc]
    _has_errors = True

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__({"scorer": SCORER, **config})
        _ = self.dataset  # here, as in 0.4: what is missing shows before the requests of any task are made

    @property
    def _qualified_name(self) -> str:
        """The task's name also as a member of a group, where 0.5 has ``group::task`` in its results."""
        return str(self.task_name)

    @property
    def filter_names(self) -> list[str]:
        return [scorer.name for scorer in self._scorers]

    def recorded(self, filter_number: int = 0) -> dict[str, tuple[Sequence[Any], Figure]]:
        return dict(getattr(self._scorers[filter_number], "figures", {}))

    def add_metrics(self, aggregations: Mapping[str, Any]) -> None:
        added = [{"metric": name, "aggregation": each, "higher_is_better": True} for name, each in aggregations.items()]
        for scorer in self._scorers:
            scorer.metrics = [*(_given(entry, self.OUTPUT_TYPE) for entry in added), *(scorer.metrics or ())]

    def doc_iterator(self, **options: Any) -> Iterator[tuple[int, Any]]:
        """Number and document of those that the harness chooses; of ``--samples`` that among them, as logs read it."""
        chosen = {number: place for place, number in enumerate(sorted({*(options.get("samples") or ())}))}
        for number, doc in super().doc_iterator(**options):
            yield chosen.get(number, number), doc

    def set_filters(self, filter_list: list[dict[str, Any]]) -> None:
        self.config.filter_list = filter_list
        self._scorers = self._build_scorers()

    def override_metric(self, metric_name: str) -> None:
        """Compute this metric alone (``--predict_only``), with the task's filters: the harness's drops them, and goes on to
        compute what ``process_results`` does."""
        self._has_errors = False
        entries = [{"metric": metric_name}]
        self.config.process_results = lambda doc, results: {metric_name: None}
        self.config.metric_list = entries
        self.set_filters([{**pipeline, "metric_list": entries} for pipeline in self.config.filter_list])

    def process_results(self, doc: dict[str, Any], results: Any) -> Any:
        """The values of a document; a list is one value, not one of each repetition."""
        values = super().process_results(doc, results)
        return values and {name: [value] if isinstance(value, list) else value for name, value in values.items()}

    def process_instances(self) -> None:
        """Filter and score. Then the one filtered answer of a document is no list, in samples as in those of 0.4."""
        super().process_instances()
        for request in self._instances or ():
            request.doc = _Sent(request.doc)
            request.doc.left_out = getattr(self.config.custom_dataset, "logged_elsewhere", ())
            for name, filtered in request.filtered_resps.items():
                request.filtered_resps[name] = filtered[0] if len(filtered) == 1 else filtered

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> Any:
        """The target of a document, as it is: text that looks like a number or a list is text."""
        target = self.config.doc_to_target if doc_to_target is None else doc_to_target
        return doc[target] if isinstance(target, str) and target in doc else str(super().doc_to_target(doc, target))

    def aggregate(self, bootstrap_iters: int | None = 100000) -> tuple[dict[str, Any], int]:
        """The metrics that are reported. Columns whose text a sample has elsewhere are removed from the samples: they hold
        the documents of the requests, with their digests by now."""
        metrics, number = super().aggregate(bootstrap_iters if self._has_errors else 0)
        for request in self._instances or ():
            for column in request.doc.left_out:
                request.doc.pop(column, None)
        return self.reported(metrics), number

    def dump_config(self) -> dict[str, Any]:
        """The configuration for the results file, in the form of the YAML."""
        config = {"num_fewshot": 0, **super().dump_config()}
        config.pop("_qualified_name", None)
        config["metric_list"] = [flat(entry) for entry in config.get("metric_list") or ()]
        filters = config.get("filter_list") or ()
        config["filter_list"] = [{"name": f["name"], "filter": [flat(step) for step in f["filter"]]} for f in filters]
        return config
