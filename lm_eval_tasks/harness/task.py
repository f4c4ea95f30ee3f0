"""Base class of all our harness tasks."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from custom_metrics import broken_run
from custom_metrics.broken_run import Labels, Prompting, as_answered, signs_of
from custom_metrics.filters import label_of
from custom_metrics.reading.response import with_opening
from custom_metrics.relevance import nomiracl_label
from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import FEW, Figure, Rows, is_measurable, within_scale
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import without_surrogates
from custom_metrics.usage.secrets import blank
from lm_eval_tasks import harness
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.provenance import CUT, LEFT_OUT, NO_STATEMENT
from lm_eval_tasks.definition import ALLOW, CUT_PROMPTS, TaskLoader, catalogue, choice, require_files
from lm_eval_tasks.definition.schema import headline_filter
from lm_eval_tasks.definition.signature import parts_of_task, signature
from lm_eval_tasks.harness import Unanswered, autoload, filtered, flat, harness_results, unfit
from lm_eval_tasks.harness.harness_results import ordered, with_errors

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

if TYPE_CHECKING:
    from lm_eval_tasks.harness.context_window import Cut
    from lm_eval_tasks.harness.v0_5 import HostTask
else:
    HostTask = harness.part(f"lm_eval_tasks.harness.{'v0_5' if harness.has_scorers() else 'v0_4'}", "HostTask")

autoload.register()  # the harness imports a task's class before it looks up the task's filters and aggregations


class GroundedTask(HostTask):
    """A harness task that checks its requests, answers and results, and adds their provenance to the results file.

    - Before the first request, it checks that the results can be written and that the model will see each prompt whole
      (:mod:`lm_eval_tasks.harness.context_window`), and one message names all missing public files. If a rank of a
      distributed run has no question, every rank ends with an error: the harness raises it on that rank alone, and the
      others wait for it. The key of cached requests (``--cache_requests``) covers documents and prompts.
    - Documents that a model left unanswered (:class:`lm_eval_tasks.harness.Unanswered`) are counted and left out of all
      figures. Lone surrogates in answers are replaced: with one, the harness would lose every sample after it.
    - The log warns of unusable answers and of too few questions (:mod:`custom_metrics.broken_run`), each rank of its own.
    - The results have, in ``configs.<task>.metadata``: ``provenance``, ``figures`` (:meth:`figures`), how many prompts were
      cut (``prompts_cut``), and for a benchmark outside of this package its table (``benchmark``)."""

    is_generated = False
    """Whether the answers are free text, not a label or a copy of a given text with tags."""
    _instances: Any
    _left_out: frozenset[int] = frozenset()
    _processes = 1
    _asked = 0  # documents of the run
    not_measurable: frozenset[str] = frozenset()  # after a run, keys (``metric,filter``) that only marks could measure
    _templates = "", ""  # digest of the chat template, and the system instruction

    def __init__(self, config: dict[str, Any]) -> None:
        if unfit:
            raise unfit[0]
        self.run_settings: dict[str, Any] = {}  # that the harness does not write into its results
        super().__init__({key: value for key, value in config.items() if key != "class"})
        if self.config.repeats != 1:
            raise UsageError(
                f"{self.config.task}: repeats={self.config.repeats}, but every document is scored by one response, and the "
                f"others would count nowhere; leave `repeats` out of the YAML, and run the task once for each --seed"
            )
        if (allowed := (self.config.metadata or {}).get(CUT_PROMPTS)) is not None:
            choice(CUT_PROMPTS, allowed, (ALLOW,), self.config.task)
        self.may_cut_prompts = allowed is not None
        loader = self.config.custom_dataset
        self._table_elsewhere = catalogue.table_elsewhere(loader.folder) if isinstance(loader, TaskLoader) else None

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the documents as the harness does, after :func:`lm_eval_tasks.definition.require_files`."""
        loader = self.config.custom_dataset
        require_files(loader, {**(self.config.metadata or {}), **(self.config.dataset_kwargs or {})})
        super().download(dataset_kwargs, **kwargs)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests as the harness does, or load them from its cache. A UsageError where there are fewer
        questions than processes, the results cannot be written, or prompts would be cut or lose a turn."""
        self._leave_out(frozenset())
        self.config.metadata.pop(CUT, None)
        chosen, limit = options.get("samples"), options.get("limit")
        templated = bool(options.get("apply_chat_template"))
        self.run_settings = {"apply_chat_template": templated, "limit": limit, "samples": chosen}
        self._templates = harness.chat_template_digest(options), str(options.get("system_instruction") or "")
        number = len(chosen) if chosen else len(self.eval_docs)
        number = self._asked = number if limit is None else min(number, limit)
        processes = self._processes = options.get("world_size", 1)
        if number < processes:
            raise UsageError(
                f"{self.config.task}: {number} questions for {processes} processes, and each needs one; raise --limit, or "
                f"start at most {number}"
            )
        if options.get("rank", 0) == 0:
            harness_results.try_output()
            if number < FEW:
                docs = list(self.eval_docs)
                evaluated = [doc for at, doc in enumerate(docs) if at in (chosen or range(number))]
                if line := broken_run.few_warning(evaluated, docs):
                    log.warning("%s: %s", self.config.task, line)
        if (template := options.get("chat_template")) is not None:
            options["chat_template"] = with_system_turn(template, self.config.task)
        if options.get("cache_requests"):
            alone = {"cache_requests": False, "limit": 1, "samples": None, "rank": 0, "world_size": 1}
            super().build_all_requests(**{**options, **alone})
            options = _with_content_key(options, self._instances, self.eval_docs)
        super().build_all_requests(**options)
        harness_results.requests_built(self)

    def note_cut_prompts(self, cut: Cut) -> None:
        """Record, and log, how many prompts of this run the model does not see whole."""
        self.config.metadata[CUT] = cut._asdict()
        log.warning(
            "%s: %d of %d prompts are cut: what stands there is not known to the model", self.config.task, *cut[:2]
        )

    def apply_filters(self) -> Any:
        """Apply the filters to the answers, without lone surrogates. Documents without an answer are left out.

        A thought that the prompt's end opened (its chat template did) and the answer never closes is logged with that
        opening, so that filters, scores and logs alike see an unfinished thought. Not so with ``think_end_token``: then
        the backend has cut the thought, with what closed it.
        """
        requests = self._instances or ()
        unanswered = (each.doc_id for each in requests if any(isinstance(r, Unanswered) for r in each.resps))
        self._leave_out(frozenset(unanswered))
        mended = 0
        thoughts_are_cut = bool((self.config.metadata or {}).get("think_end_token"))
        for request in self._instances or ():
            shown = not (thoughts_are_cut or getattr(request, "is_unprompted", False))
            for number, answer in enumerate(request.resps):
                if shown and isinstance(answer, str) and request.arguments:
                    request.resps[number] = answer = with_opening(request.arguments[0], answer)
                if isinstance(answer, str) and (writable := without_surrogates(answer)) != answer:
                    request.resps[number] = writable
                    mended += 1
        if mended:
            log.warning(
                "%s: %d answers held halves of surrogate pairs, which no file can hold; each is U+FFFD now",
                *(self.config.task, mended),
            )
        result = super().apply_filters()
        self._warn_of_replies()
        return result

    def _warn_of_replies(self) -> None:
        """Log one line where many replies do not have the form that the task wants, and one where answers look like those
        of a broken run. Of these only tasks with labels and tasks with free text are checked."""
        requests, filters = self._instances or (), self.filter_steps()
        unprompted = any(getattr(request, "is_unprompted", False) for request in requests)  # no weights
        prompting = Prompting(not unprompted, bool(self.run_settings.get("apply_chat_template")))
        labelled = False
        for listed in filters:
            replies = [(request.doc, filtered(request, listed["name"])) for request in requests]
            steps = {step["function"] for step in listed["filter"]}
            line = None
            if verdicts := [verdict for name, verdict in _VERDICT.items() if name in steps]:
                line = broken_run.unread_warning(verdicts[0], [reply for _, reply in replies], prompting)
            elif replies and {"answer", "spans", "target"} <= replies[0][0].keys():
                line = broken_run.copy_warning(replies, prompting)
            if line:
                log.warning("%s: %s", self.config.task, line)
            labelled |= "nomiracl_label" in steps
        if labelled or self.is_generated:
            answers = []
            for doc, answer in [(request.doc, answer) for request in requests for answer in request.resps]:
                labels = Labels(nomiracl_label(answer), label_of(answer, doc)) if labelled else None
                answers.append(as_answered(doc, answer)._replace(labels=labels))
            signs = signs_of(answers)
            counts = {**signs.kinds, "refusal": signs.refusal, "salad": signs.salad}
            counts = {kind: number for kind, number in counts.items() if number}
            if counts and self._processes == 1:  # those of one of several processes would say too little
                self.config.metadata = {**(self.config.metadata or {}), NO_STATEMENT: counts}
            if line := broken_run.warning(self.config.task, signs, prompting):
                log.warning("%s", line)

    def _leave_out(self, docs: frozenset[int]) -> None:
        """Leave some documents out of all that follows, in place of those that were left out before."""
        self._left_out = docs
        given = (self.config.metadata or {}).items()
        metadata = {key: value for key, value in given if key not in (LEFT_OUT, NO_STATEMENT)}
        if docs:
            self._instances = [request for request in self._instances or () if request.doc_id not in docs]
            metadata[LEFT_OUT] = {"no stored answer": len(docs)}
        self.config.metadata = metadata

    def provenance(self) -> dict[str, Any]:
        """The record of the documents' loader. Subclasses add to it."""
        return provenance.of_dataset(self.eval_docs)

    def doc_iterator(self, **options: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        """Number and copy of each document that the harness chooses, without those left unanswered."""
        for number, doc in super().doc_iterator(**options):
            if number not in self._left_out:
                yield number, dict(doc)

    def filter_steps(self) -> list[dict[str, Any]]:
        """The task's filters as its YAML has them: ``name`` and ``filter``, with each step's options in it."""
        return [{**each, "filter": [flat(step) for step in each["filter"]]} for each in self.config.filter_list or ()]

    def reported(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """The harness's metrics of this task (``metric,filter`` and ``metric_stderr,filter`` to numbers), in the order of
        its YAML, without undefined ones, and corrected rates that are not measurable (:attr:`not_measurable`)."""
        names = list(super().aggregation())
        metrics = ordered(metrics, names)
        undefined = [key for key, value in metrics.items() if _is_undefined(value) and key.partition(",")[0] in names]
        if undefined:
            log.warning(
                "%s: left out of the results, because no document is in their denominator or nothing corrects them: %s",
                *(self.config.task, ", ".join(undefined)),
            )
        self.not_measurable = frozenset(self._unmeasurable() & metrics.keys())
        gone = with_errors({*undefined, *self.not_measurable})
        return {k: "N/A" if _is_undefined(v) else v for k, v in metrics.items() if k not in gone}

    def _unmeasurable(self) -> set[str]:
        """The keys of rates that only marks could measure; the log has said why (``log_basis_of_rates``)."""
        return {
            f"{metric},{name}"
            for number, name in enumerate(self.filter_names)
            for metric, (_, figure) in self.recorded(number).items()
            if not self._is_measurable(metric, figure)
        }

    def _is_measurable(self, metric: str, figure: Figure) -> bool:
        kind = self._kind_of(metric)
        return not (kind and kind.corrected) or is_measurable(figure, "share")

    def rows_of(self, metric: str, filter_name: str) -> Rows | None:
        """The linearised values of a metric in the last run; ``None`` where it has none that other tasks share clusters
        with."""
        names = self.filter_names
        recorded = self.recorded(names.index(filter_name)) if filter_name in names else {}
        kind = self._kind_of(metric)
        return kind.shared_rows(recorded[metric][0]) if kind and metric in recorded else None

    def _kind_of(self, metric: str) -> Aggregation | None:
        """The kind of a metric; ``None`` for one that is none of ours."""
        kind = self.aggregation().get(metric)
        return kind if isinstance(kind, Aggregation) else None

    def denominator_of(self, metric: str) -> str:
        """The denominator of a metric in words, from its YAML's ``metric_list``; empty where it has none there."""
        entries = map(flat, self.config.metric_list or ())
        texts = (entry.get("denominator") for entry in entries if entry["metric"] == metric)
        return str(next(texts, None) or "")

    def finer_figures(self, values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Figure, str]]:
        """Further figures of a filter (name, figure, denominator in words), from the values of each metric, all in the same
        order of documents."""
        return ()

    def figures(self) -> dict[str, dict[str, Any]]:
        """Filter to name to figure with its bounds, after a run; without undefined figures. (The harness's table holds a
        number and a standard error only.) The value of one that is not measurable is under ``not_measurable``."""
        by_filter: dict[str, dict[str, Any]] = {}
        own = next(iter(catalogue.tables_of([self.config.task]).values()), None)
        table = self._table_elsewhere[1] if self._table_elsewhere else own
        for number, filter_name in enumerate(self.filter_names):
            calls = self.recorded(number)
            figures = [(metric, figure, self.denominator_of(metric)) for metric, (_, figure) in calls.items()]
            if calls:
                figures += self.finer_figures({metric: values for metric, (values, _) in calls.items()})
            for name, figure, denominator in figures:
                if not math.isnan(figure.value):
                    shown = within_scale(figure, catalogue.metric_of(name, table).unit)
                    entry = shown.as_json(denominator, self._is_measurable(name, figure))
                    by_filter.setdefault(filter_name, {})[name] = entry
        return by_filter

    def dump_config(self) -> dict[str, Any]:
        """The task's configuration for the results file, with the provenance and figures of its metrics."""
        config: dict[str, Any] = dict(super().dump_config())
        record = provenance.of_task(self)
        config["metadata"] = {**blank(config.get("metadata") or {}), "provenance": record}  # with the model's arguments
        if config.get("generation_kwargs"):  # with those of the command line
            config["generation_kwargs"] = blank(config["generation_kwargs"])
        if typed := provenance.command_line():
            config["metadata"][provenance.COMMAND_LINE] = typed
        # Of the public data set, where it is known: converters link it beside `dataset_path`. The harness's is ours alone.
        config["test_split"] = record.get("split")
        config["metadata"]["signature"] = self._signature(config)
        if figures := self.figures():
            config["metadata"]["figures"] = figures
        if self._table_elsewhere:
            name, table = self._table_elsewhere
            config["metadata"]["benchmark"] = {"name": name, **table.as_json()}
        return config

    def _signature(self, config: Mapping[str, Any]) -> str:
        """The signature of the task's figures, from its configuration for the results file."""
        metadata, base = config["metadata"], catalogue.base_of(str(self.config.task))
        run = (
            metadata.get("version"),
            self._asked,
            harness.installed(),
            self.config.num_fewshot or 0,
            *self._templates,
        )
        parts = parts_of_task(str(self.config.task), config, *run)
        return signature(parts, headline_filter(self.filter_names, base.metrics if base else ()))


# Filter to what it reads.
_VERDICT = {"judge_rating": "rating", "judge_preference": "preference", "judge_support": "verdict"}


def _is_undefined(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _with_content_key(
    options: Mapping[str, Any], first: Iterable[Any], docs: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The options of ``build_all_requests``, with a digest of the prompts in the tokenizer's name: of all documents, of the
    requests for the first (template, shots, system prompt, generation settings), and of the version that pickles them.

    The harness uses that name for the key of its request cache only. Its own keys are the task's name, shots and chat
    template: with these alone it would reuse requests of other options, another mirror or another version of the prompt.
    """
    settings = [harness.installed(), [request.arguments for request in first], options.get("samples")]
    digest = hashlib.sha256(json.dumps(settings, default=str).encode())
    for doc in docs:
        digest.update(json.dumps(doc, sort_keys=True, default=str).encode())
    return {**options, "tokenizer_name": f"{options.get('tokenizer_name', '')}-content{digest.hexdigest()[:32]}"}


Turns = Sequence[dict[str, Any]]
_PROBE = "turn-{}-of-the-probe"


def with_system_turn(template: Callable[..., Any], task: str) -> Callable[..., Any]:
    """A model's chat template that renders every turn of a task's chats, the system's before the first user's where the
    template has no system role. What it does is found out once for each order of roles. A UsageError where it refuses
    the chat all the same, or leaves out a turn.

    Templates without a system role, such as Gemma's, raise an error or leave the turn out. The harness's models then
    drop it, with all that stands in it: the instruction, and in MTRAG-UN the passages.
    """
    has_role: dict[tuple[str, ...], bool] = {}

    def render(turns: Turns, **more: Any) -> Any:
        roles = tuple(turn["role"] for turn in turns)
        if roles not in has_role:
            renders = not _lost(template, roles, more)
            if not renders and (lost := _lost(template, roles, more, merge=True)):
                raise UsageError(
                    f"{task}: the model's chat template does not render a chat of {', '.join(roles)}: {', '.join(lost)}. "
                    f"Name another template, or leave out --apply_chat_template"
                )
            if not renders and all(has_role.values()):  # once
                log.warning("%s: the chat template has no system role; its text is in the first user turn", task)
            has_role[roles] = renders
        return template(turns if has_role[roles] else _merged(turns), **more)

    return render


def _merged(turns: Turns) -> list[dict[str, Any]]:
    """The turns with the text of the system before that of the first user turn, which begins the chat."""
    system = [turn["content"].strip() for turn in turns if turn["role"] == "system"]
    others = [turn for turn in turns if turn["role"] != "system"]
    if not system:
        return others
    begins = bool(others) and others[0]["role"] == "user"
    first, behind = (others[0], others[1:]) if begins else ({"role": "user", "content": ""}, others)
    return [{**first, "content": "\n\n".join(filter(None, [*system, first["content"]]))}, *behind]


def _lost(template: Callable[..., Any], roles: Iterable[str], more: dict[str, Any], merge: bool = False) -> list[str]:
    """The turns that a template leaves out of a chat with these roles (number and role), or the error that it raises."""
    from jinja2.exceptions import TemplateError

    turns = [{"role": role, "content": _PROBE.format(number)} for number, role in enumerate(roles)]
    try:
        prompt = str(template(_merged(turns) if merge else turns, **more))  # a server's is the list of turns
    except TemplateError as error:
        return [f"it says {str(error)!r}"]
    return [f"turn {n + 1} ({turn['role']})" for n, turn in enumerate(turns) if turn["content"] not in prompt]
