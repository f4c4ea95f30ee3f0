"""Base class of all our harness tasks."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lm_eval.api.task import ConfigurableTask

from custom_metrics.broken_run import Prompting
from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import without_surrogates
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.provenance import LEFT_OUT
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.loading import TaskLoader, require_files
from lm_eval_tasks.harness import Unanswered, autoload, harness_results, run_warnings
from lm_eval_tasks.harness.harness_results import ordered

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

autoload.register()  # the harness imports a task's class before it looks up the task's filters and aggregations


class Remembering(Aggregation):
    """An aggregation that keeps what it was given and made of it: one computation for value, standard error and bounds.

    Attributes:
        seen: all documents' values and their figure, for each of the task's filters in turn.
    """

    def __init__(self, aggregation: Aggregation) -> None:
        super().__init__(aggregation.name, aggregation.figure, aggregation.rows)
        self.seen: list[tuple[Sequence[Any], Figure]] = []

    def __call__(self, values: Sequence[Any]) -> Any:
        found = self.figure(values)
        self.seen.append((values, found))
        return float(found.value)

    def standard_error(self, values: Sequence[Any]) -> float:
        known = next((found for seen, found in self.seen if seen is values), None)
        return super().standard_error(values) if known is None else float(known.standard_error)


class GroundedTask(ConfigurableTask):  # type: ignore[misc]
    """A harness task whose requests, answers and results are checked, and whose results say where they come from.

    - Before the first request, the folder of the results is tried, and one message names all public files that are missing.
      If a rank of a distributed run has no question, every rank ends with an error: the harness raises it on that rank
      alone, and the others wait for it. Cached requests (``--cache_requests``) are known by their documents and prompts.
    - Documents that a model left unanswered (:class:`lm_eval_tasks.harness.Unanswered`) are left out of all figures, and
      counted. Answers that no file can hold are made writable: the harness would lose every sample after one.
    - The log warns of what the figures may suffer from (:mod:`lm_eval_tasks.harness.run_warnings`). Every rank looks at its
      own answers; none waits for another.
    - The results have, in ``configs.<task>.metadata``: ``provenance`` (:mod:`lm_eval_tasks.data.provenance`), ``figures``
      (:meth:`figures`), and what the table says of a benchmark outside of this package, which reports and comparisons read
      there (``benchmark``).

    Attributes:
        asked: settings of the run that the harness does not write into its results.
    """

    is_generated = False
    """Whether the answers are a model's own words, not a label or a text that is given back with tags."""
    _instances: Any
    _left_out: frozenset[int] = frozenset()

    def __init__(self, config: dict[str, Any]) -> None:
        self.asked: dict[str, Any] = {}
        self._scored: tuple[Any, Any] = (None, None)  # the last document, and its target
        super().__init__(config={key: value for key, value in config.items() if key != "class"})
        if self.config.repeats != 1:
            raise UsageError(
                f"{self.config.task}: repeats={self.config.repeats}, but every document is scored by one response, and the "
                f"others would count nowhere; leave `repeats` out of the YAML, and run the task once for each --seed"
            )
        self._aggregations: dict[str, Remembering] = {}
        loader = self.config.custom_dataset
        self._table_elsewhere = catalogue.table_elsewhere(loader.folder) if isinstance(loader, TaskLoader) else None

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """The documents, as the harness loads them, after :func:`lm_eval_tasks.definition.loading.require_files`."""
        loader = self.config.custom_dataset
        require_files(loader, {**(self.config.metadata or {}), **(self.config.dataset_kwargs or {})})
        super().download(dataset_kwargs, **kwargs)

    def build_all_requests(self, **options: Any) -> None:
        """The requests, as the harness builds them or takes them from its cache.

        Raises:
            UsageError: there are fewer questions than processes, or the results could not be written.
        """
        self._leave_out(frozenset())
        chosen, limit = options.get("samples"), options.get("limit")
        templated = bool(options.get("apply_chat_template"))
        self.asked = {"apply_chat_template": templated, "limit": limit, "samples": chosen}
        number = len(chosen) if chosen else len(self.eval_docs)
        number = number if limit is None else min(number, limit)
        processes = options.get("world_size", 1)
        if number < processes:
            raise UsageError(
                f"{self.config.task}: {number} questions for {processes} processes, and each needs one; raise --limit, or "
                f"start at most {number}"
            )
        if options.get("rank", 0) == 0:
            harness_results.try_output()
            if number < run_warnings.FEW:
                docs = list(self.eval_docs)
                evaluated = [doc for at, doc in enumerate(docs) if at in (chosen or range(number))]
                run_warnings.warn_few_questions(self.config.task, evaluated, docs)
        if options.get("cache_requests"):
            alone = {"cache_requests": False, "limit": 1, "samples": None, "rank": 0, "world_size": 1}
            super().build_all_requests(**{**options, **alone})
            options = _with_content_key(options, self._instances, self.eval_docs)
        super().build_all_requests(**options)

    def apply_filters(self) -> Any:
        """Apply the filters to the answers, made writable. Documents without an answer are left out."""
        self._aggregations.clear()
        requests = self._instances or ()
        self._leave_out(
            frozenset(each.doc_id for each in requests if any(isinstance(r, Unanswered) for r in each.resps))
        )
        mended = 0
        for request in self._instances or ():
            for number, answer in enumerate(request.resps):
                if isinstance(answer, str) and (writable := without_surrogates(answer)) != answer:
                    request.resps[number] = writable
                    mended += 1
        if mended:
            log.warning(
                "%s: %d answers held halves of surrogate pairs, which no file can hold; each is U+FFFD now",
                *(self.config.task, mended),
            )
        filtered = super().apply_filters()
        answered = self.config.task, self.config.filter_list or (), self._instances or ()
        unprompted = any(getattr(request, "is_unprompted", False) for request in self._instances or ())  # no weights
        prompting = Prompting(not unprompted, bool(self.asked.get("apply_chat_template")))
        run_warnings.warn_unreadable(*answered, prompting)
        run_warnings.warn_broken(*answered, self.is_generated, prompting)
        return filtered

    def _leave_out(self, docs: frozenset[int]) -> None:
        """Leave these out from now on; nothing is kept of those of an earlier run."""
        self._left_out = docs
        said = {key: value for key, value in (self.config.metadata or {}).items() if key != LEFT_OUT}
        if docs:
            self._instances = [request for request in self._instances or () if request.doc_id not in docs]
            said[LEFT_OUT] = {"no stored answer": len(docs)}
        self.config.metadata = said

    def provenance(self) -> dict[str, Any]:
        """The record that the documents carry. Subclasses add to it."""
        return provenance.of_dataset(self.eval_docs)

    def doc_iterator(self, **options: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        """Documents as the harness chooses them, but for those left unanswered, each a copy of its own."""
        for number, doc in super().doc_iterator(**options):
            if number not in self._left_out:
                yield number, dict(doc)

    def process_results(self, doc: dict[str, Any], results: Any) -> Any:
        """The values of a document. Columns that a sample has elsewhere are removed from the document
        afterwards."""
        values = super().process_results(doc, results)
        self._scored = doc, self.doc_to_target(doc)
        loader = self.config.custom_dataset
        for column in loader.logged_elsewhere if isinstance(loader, TaskLoader) else ():
            doc.pop(column, None)
        return values

    def doc_to_target(self, doc: Any, *args: Any, **kwargs: Any) -> Any:
        """The target, also of the document that was scored last and no longer holds it."""
        scored, target = self._scored
        return target if doc is scored else super().doc_to_target(doc, *args, **kwargs)

    def aggregation(self) -> dict[str, Any]:
        """The metrics' aggregations; those of ours remember what they are given, for the figures beside the table."""
        found = dict(super().aggregation())
        for name, function in found.items():
            if isinstance(function, Aggregation):
                found[name] = self._aggregations.setdefault(name, Remembering(function))
        return found

    def reported(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """The harness's metrics of this task (``metric,filter`` and ``metric_stderr,filter`` to numbers) as they are
        reported: in the order of its YAML, without undefined ones."""
        names = list(super().aggregation())
        undefined = [key for key, value in metrics.items() if _is_undefined(value) and key.partition(",")[0] in names]
        if undefined:
            log.warning(
                "%s: left out of the results, because no document is in their denominator or nothing corrects them: %s",
                *(self.config.task, ", ".join(undefined)),
            )
        gone = {*undefined, *(key.replace(",", "_stderr,", 1) for key in undefined)}
        return ordered({k: "N/A" if _is_undefined(v) else v for k, v in metrics.items() if k not in gone}, names)

    def rows_of(self, metric: str, filter_name: str) -> Rows | None:
        """The linearised values of a metric in the last run; ``None`` where there are none."""
        names = [pipeline.name for pipeline in self._filters]
        known = self._aggregations.get(metric)
        seen = known.seen[names.index(filter_name) :] if known is not None and filter_name in names else []
        return known.rows(seen[0][0]) if known is not None and known.rows is not None and seen else None

    def denominator_of(self, metric: str) -> str:
        """The documents that a metric counts, in words, from its YAML's ``metric_list``; empty where it says nothing."""
        said = (entry.get("denominator") for entry in self.config.metric_list or () if entry["metric"] == metric)
        return str(next(said, None) or "")

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        """Further figures of a filter, from metric to all documents' values, in one order of the documents: name, figure,
        and the documents that count in words."""
        return ()

    def figures(self) -> dict[str, dict[str, Any]]:
        """Filter to name to figure, with its bounds, after a run; without undefined figures. The harness's table has room
        for a number and a standard error."""
        found: dict[str, dict[str, Any]] = {}
        for place, pipeline in enumerate(self._filters):
            seen = {metric: each.seen[place] for metric, each in self._aggregations.items() if len(each.seen) > place}
            figures = [(metric, figure, self.denominator_of(metric)) for metric, (_, figure) in seen.items()]
            if seen:
                figures += self.finer_figures({metric: values for metric, (values, _) in seen.items()})
            defined = [each for each in figures if not math.isnan(each[1].value)]
            if defined:
                found[pipeline.name] = {name: figure.as_json(denominator) for name, figure, denominator in defined}
        return found

    def dump_config(self) -> dict[str, Any]:
        """The task's configuration for the results file, with where its numbers come from, and the metrics' figures."""
        config: dict[str, Any] = dict(super().dump_config())
        found = provenance.of_task(self)
        config["metadata"] = {**(config.get("metadata") or {}), "provenance": found}
        if typed := provenance.command_line():
            config["metadata"][provenance.COMMAND_LINE] = typed
        # Of the public data set, where it is known: converters link it beside `dataset_path`. The harness's is ours alone.
        config["test_split"] = found.get("split")
        if figures := self.figures():
            config["metadata"]["figures"] = figures
        if self._table_elsewhere:
            name, table = self._table_elsewhere
            config["metadata"]["benchmark"] = {"name": name, **table.as_json()}
        return config


def _is_undefined(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _with_content_key(
    options: Mapping[str, Any], first: Iterable[Any], docs: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The options of ``build_all_requests``, with a tokenizer's name that holds a digest of what is asked: the requests of
    the first document (template, shots, system prompt, generation settings) and all documents.

    The harness uses that name for the key of its request cache only. Its own keys are the task's name, shots and chat
    template: with these alone it would reuse requests of other options, another mirror or another version of the prompt.
    """
    digest = hashlib.sha256(
        json.dumps([[request.arguments for request in first], options.get("samples")], default=str).encode()
    )
    for doc in docs:
        digest.update(json.dumps(doc, sort_keys=True, default=str).encode())
    return {**options, "tokenizer_name": f"{options.get('tokenizer_name', '')}-content{digest.hexdigest()[:32]}"}
