"""Dataclasses of a benchmark's table: its tasks, their shared settings, and their metrics.

The folder of a benchmark holds a ``benchmark.py`` whose ``BENCHMARK`` is such a table.
:mod:`lm_eval_tasks.definition.catalogue` finds it, and :mod:`tests.development.generated` writes the folder's
YAML files from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

from custom_metrics.statistics.figures import Unit

DEFINED_MEAN, DEFINED_SCORE, DEFINED_SHARE = "defined_mean", "defined_score", "defined_share"
BALANCED = "balanced_error"
"""Aggregations that the harness knows by name: the mean, or the share, of the documents in the denominator; and
:mod:`custom_metrics.scores.balanced_error`."""

OF_DETECTION = ("detector", "detector_args", "calibration", "calibration_annotations")
"""Options for the detector that tags a task's answers; also columns of the documents."""

Step = str | Mapping[str, str]
"""A step of a filter: the name of its function, or a mapping of ``function`` and its arguments."""


@dataclass(frozen=True)
class Metric:
    """A metric: a row of the harness's table, with its texts for comparisons, reports and plots.

    `title` is a heading in plain words; that of a traded rate says what a model does (``Declines what cannot be
    answered``), and verdicts that it does so more often. `sentence` is the meaning of a value, without its full stop:
    ``{value}`` is the value, ``{<metric>}`` that of another metric, ``{rest}`` the rest of a name after its prefix. A
    report shows metrics with a sentence.
    """

    name: str  # one that ends in ``_`` stands for every metric with this prefix, such as ``win_rate_<system>``
    aggregation: str = ""  # its kind (custom_metrics.scores.aggregations.Aggregation), by its registered or dotted name
    higher_is_better: bool | None = None  # ``None`` where neither is better: the harness's table then has no arrow
    denominator: str = ""  # the documents that count, in words, for ``figures`` in the results file
    definition: str = ""  # in a few words or as a formula, for tables of metrics
    unit: Unit = "share"  # of its values; decides how they are written, and which bounds are too wide to be shown
    wins: str = ""  # what a better model does, before the other: ``errs less than``; default: has a higher one
    label: str = ""  # its name in prose; default the name with spaces
    title: str = ""  # default the name
    sentence: str = ""
    counted: str = "questions"  # the unit of the denominator, in the plural
    headline: bool = False  # whether it is shown first. Where a benchmark marks no metric, all of them are headlines
    prominence: int = 0  # a report's first screen shows the task's metric with the highest; of equals the first
    filter: str = ""  # name of the filter whose values count; empty for the task's first filter
    traded_against: str = ""  # the metric that gets worse when this one is gamed
    balances: tuple[str, ...] = ()  # the two metrics that are traded against each other, of their balanced error
    fallback_for: str = ""  # the metric that is preferred to this one, wherever that is defined
    needs: str = ""  # what makes it measurable where it is not, such as ``marks``
    remedy: str = ""  # the sentence that says how to get that, without its full stop; ``{task}`` stands for tasks
    is_raw: bool = False  # a detector's share, uncorrected for the detector's errors: compared but not ranked
    of_detector: bool = False  # whether it counts what a detector tagged
    rest: str = ""  # of a metric's name after the prefix, in an entry that was looked up by prefix

    @property
    def in_prose(self) -> str:
        return self.label or self.name.replace("_", " ")

    @property
    def heading(self) -> str:
        return self.title or self.name

    @property
    def better(self) -> str:
        """Which values are better: ``higher``, ``lower``, or empty where neither are."""
        return {True: "higher", False: "lower", None: ""}[self.higher_is_better]

    def entry(self, aggregation: Any) -> dict[str, Any]:
        how = {"aggregation": aggregation, "higher_is_better": self.higher_is_better, "denominator": self.denominator}
        return {"metric": self.name, **how}

    @property
    def is_share(self) -> bool:
        """Whether it is a share of its documents, or a mean of such shares; not a mean of numbers or another rate."""
        return self.aggregation in (DEFINED_SHARE, BALANCED)

    def with_cost(self, cost: float) -> Metric:
        """A balanced error in which a made-up answer has another cost; any other metric as it is."""
        if not self.balances:
            return self
        if cost == 1:
            return balanced_error((self.balances[0], self.balances[1]), self.filter)
        weighed = f"a made-up answer costs as much as {cost:g} wrong refusals"
        return replace(
            self,
            denominator=f"all questions; {weighed}",
            label=f"balanced error (cost {cost:g})",
            title=f"Error rate (balanced, cost {cost:g})",
            sentence=f"Its error rate is {{value}}, where {weighed}",
            definition=f"weighted mean of the shares of wrong answers to both kinds of questions: {weighed}",
        )


def balanced_error(balances: tuple[str, str], filter_name: str = "", counted: str = "questions") -> Metric:
    """The balanced error of two metrics that are traded against each other. It leads wherever they stand."""
    return Metric(
        BALANCED,
        BALANCED,
        False,
        "all questions" if counted == "questions" else f"answerable and unanswerable {counted}",
        definition="1 less the mean of the shares of right answers: to questions that can be answered, and that cannot",
        title="Error rate (balanced)",
        label="balanced error",
        wins="errs less than",
        sentence=f"It is wrong in {{value}} of the cases, where {counted} that can be answered and those that cannot count "
        "the same; declining everything, or nothing, would be 50 %",
        counted=counted,
        headline=True,
        prominence=1,
        filter=filter_name,
        balances=balances,
    )


def abstention_metrics(counted: str = "questions") -> tuple[Metric, ...]:
    """How often a model abstains where nothing answers, and where something does, after the balanced error of the two."""
    return (
        balanced_error(("unanswerable_accuracy", "answerable_abstention_rate"), counted=counted),
        Metric(
            "unanswerable_accuracy",
            DEFINED_SHARE,
            True,
            f"unanswerable {counted}",
            definition="share that abstains",
            title="Declines what cannot be answered",
            sentence=f"It rightly declines {{value}} of the {counted} that cannot be answered",
            counted=counted,
            headline=True,
            prominence=1,
            traded_against="answerable_abstention_rate",
        ),
        Metric(
            "answerable_abstention_rate",
            DEFINED_SHARE,
            False,
            f"answerable {counted} whose answer can be read",
            definition="share that abstains: the price of caution",
            title="Declines what can be answered",
            sentence=f"It declines {{value}} of the {counted} that can be answered, which is the price of its caution",
            counted=counted,
            headline=True,
        ),
    )


def preferred_first(metrics: Sequence[Metric]) -> list[Metric]:
    """Metrics in their order, except that a fallback follows the metric that it replaces."""
    by_name = {metric.name: metric for metric in metrics}

    def steps(metric: Metric) -> int:
        chain = [metric]  # and its successively preferred metrics
        while (above := by_name.get(chain[-1].fallback_for)) and above not in chain:
            chain.append(above)
        return len(chain)

    return sorted(metrics, key=steps)


def headline_filter(filters: Sequence[str], metrics: Sequence[Metric]) -> str:
    """The filter whose numbers compare models: the one that a metric's table names, else the first; the harness calls it
    ``none`` where a task has no filters."""
    named = (metric.filter for metric in metrics if metric.filter in filters)
    return next(iter((*named, *filters)), "none")


@dataclass(frozen=True)
class Base:
    """Settings that several tasks share: a file that their YAML files include. Functions and classes have dotted names:
    ``package.module.name``, or ``module.name`` of a file of the folder."""

    file: str  # its name
    comment: str  # on top of the file, what the tasks ask
    task: str  # a subclass of lm_eval_tasks.harness.task.GroundedTask, or that class
    documents: str  # the task's ``custom_dataset``, a lm_eval_tasks.definition.TaskLoader
    dataset_path: str  # the public data set's name on the hub
    filters: Mapping[str, tuple[Step, ...]]  # name to steps; every metric is computed once for each
    process_results: str  # from a document and a filtered answer to the values of the metrics
    metrics: tuple[Metric, ...]  # in the order of the harness's table
    include: tuple[str, ...] = ()  # hand-written YAML files beside this one, which users' own tasks can include, too
    prompt: Mapping[str, Any] = field(default_factory=dict)  # further settings of the harness, as ``doc_to_text``


@dataclass(frozen=True)
class Task:
    name: str  # as users type it
    base: Base  # its shared settings
    options: Mapping[str, str]  # arguments of the loader of its documents, which win over model arguments
    folder: str = ""  # of its YAML file, below the benchmark's; empty for that folder itself
    include: tuple[str, ...] = ()  # files that it includes, later ones overriding; default the base alone


@dataclass(frozen=True)
class Group:
    """Tasks, with the unweighted averages of their metrics where they share a base."""

    name: str  # as users type it
    tasks: tuple[Task, ...]  # in the order of the harness's table
    folder: str = ""  # of its YAML file, below the benchmark's

    @property
    def averaged(self) -> tuple[Base, ...]:
        """The base of its tasks, whose metrics are averaged; none where they have several."""
        by_file = {task.base.file: task.base for task in self.tasks}
        return tuple(by_file.values()) if len(by_file) == 1 else ()


@dataclass(frozen=True)
class Benchmark:
    """All tasks of a benchmark. The YAML files of `tasks` and `groups` are generated."""

    version: float  # of its tasks and groups, in results files. It rises when scores can change
    tasks: tuple[Task, ...]
    groups: tuple[Group, ...] = ()
    languages: Mapping[str, str] = field(default_factory=dict)  # code to English name, for the languages of the tasks
    title: str = ""  # as in its paper
    questions: Mapping[str, str] = field(default_factory=dict)  # prefix of a name to its question; the longest counts
    detection: str = ""  # prefix in `questions` of tasks that measure detectors; empty where none do
    more_metrics: tuple[Metric, ...] = ()  # that tasks add at run time, or that hand-written YAML files list
    labelled: str = ""  # dotted name of a mapping of names to collections (detection.labelled_answers), or empty
    not_learned: str = ""  # dotted name of the test set (detection.labelled_answers) that nobody may train on, or empty

    @property
    def bases(self) -> tuple[Base, ...]:
        by_file = {task.base.file: task.base for task in self.tasks}
        return tuple(by_file.values())

    @cached_property
    def metrics(self) -> Mapping[str, Metric]:
        """Name to metric, for the metrics of all tasks."""
        metrics: dict[str, Metric] = {}
        for metric in (*(metric for base in self.bases for metric in base.metrics), *self.more_metrics):
            metrics.setdefault(metric.name, metric)
        return metrics

    def question(self, name: str) -> str:
        starts = [start for start in self.questions if name.startswith(start)]
        return self.questions[max(starts, key=len)] if starts else ""

    def measures_detectors(self, task: str) -> bool:
        return bool(self.detection) and self.question(task) == self.questions.get(self.detection)

    def as_json(self) -> dict[str, Any]:
        """The table without its tasks, for results files."""
        return {
            "title": self.title,
            "questions": dict(self.questions),
            "detection": self.detection,
            "metrics": [asdict(metric) for metric in self.metrics.values()],
        }

    @classmethod
    def from_json(cls, content: Any) -> Benchmark:
        """The inverse of :meth:`as_json`; values of a wrong type, from a damaged file, are left out."""
        record = content if isinstance(content, Mapping) else {}
        questions, metrics = record.get("questions"), record.get("metrics")
        by_prefix = questions.items() if isinstance(questions, Mapping) else ()
        return cls(
            version=0,
            tasks=(),
            title=_text(record.get("title")),
            questions={_text(key): _text(value) for key, value in by_prefix},
            detection=_text(record.get("detection")),
            more_metrics=tuple(
                _metric(entry) for entry in (metrics if isinstance(metrics, list) else ()) if isinstance(entry, Mapping)
            ),
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _metric(entry: Mapping[str, Any]) -> Metric:
    metric = Metric("")
    defaults = {name: value for name, value in vars(metric).items() if isinstance(value, (str, bool, int))}
    fields = {name: entry[name] for name, value in defaults.items() if type(entry.get(name)) is type(value)}
    if fields.get("unit", metric.unit) not in get_args(Unit):
        fields.pop("unit")
    balances, higher = entry.get("balances"), entry.get("higher_is_better")
    balanced = tuple(map(_text, balances)) if isinstance(balances, (list, tuple)) else ()
    return replace(metric, **fields, higher_is_better=higher if isinstance(higher, bool) else None, balances=balanced)


PREFIX = "marked_"  # of the names of metrics by people's marks
WRONG_LABELS = "wrong_label_rate"
_BY_LABELS = "lm_eval_tasks.detection.marked"  # which has their kinds
_LABELLED = (
    *("hallucination_rate", "error_rate", "balanced_error"),
    *("unanswerable_accuracy", "answerable_abstention_rate"),
)


def by_labels(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics by people's labels that a table has beside its own, and how often our label is wrong."""
    beside = [
        replace(
            metric,
            name=f"{PREFIX}{metric.name}",
            aggregation=f"{_BY_LABELS}.{PREFIX}{metric.name}",
            denominator=f"{metric.denominator}; annotators labelled some of the answers",
            definition=f"{metric.in_prose} as annotators would read the answers: their labels of some, joined with ours "
            "of all (with `lm-eval-grounded score --marks`)",
            label=f"{metric.in_prose} by annotators' labels",
            title=f"{metric.title}, by annotators' labels",
            sentence=f"As annotators would read its answers, {metric.sentence[0].lower()}{metric.sentence[1:]}",
            counted="labelled answers",
            prominence=4 if metric.balances else 0,
            traded_against=metric.traded_against and f"{PREFIX}{metric.traded_against}",
            balances=(),
        )
        for metric in metrics
        if metric.name in _LABELLED
    ]
    wrong = Metric(
        WRONG_LABELS,
        f"{_BY_LABELS}.{WRONG_LABELS}",
        False,
        "all answers; annotators labelled some of them",
        "share whose label annotators would not give (with `lm-eval-grounded score --marks`)",
        filter=beside[0].filter,
    )
    return (*beside, wrong)
