"""``marked_rate``: the share of words that people call made up, by their marks of some answers and a detector's reading of
all.

``lm-eval-grounded score --marks`` reads and checks the marks, and runs the tasks while they are :func:`in_force`. A task
with marks then has the metric. The estimator is :func:`custom_metrics.statistics.marked.marked_mean`.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.reading.spans import probabilities, span_of
from custom_metrics.reading.words import words
from custom_metrics.scores.aggregations import Aggregation
from custom_metrics.statistics.figures import UNDEFINED, Figure
from lm_eval_tasks.definition.schema import Metric

if TYPE_CHECKING:
    from custom_metrics.statistics.marked import Draws, MarkedMean

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

PREFIX = "marked_"
"""Of the names of metrics by people's marks."""
METRIC = f"{PREFIX}rate"
LOW_KAPPA = 0.4
"""Cohen's kappa of words below which the log doubts the annotations: "fair" at most (Landis and Koch 1977)."""
MARKED_RATE = Metric(
    METRIC,
    higher_is_better=False,
    denominator="drawn answers that people marked; the rate is of the words of all answers",
    definition="share of words that people call made up: their marks of some answers, joined with the detector's reading "
    "of all (with `lm-eval-grounded score --marks`)",
    title="Words that are made up, by people's marks",
    sentence="About {value} of the words that it writes are made up, by people's marks of some answers and the detector's "
    "reading of all",
    counted="marked answers",
    headline=True,
    prominence=4,
    verdict="makes up less than",
)

NEEDS = "marks"
REMEDY = "People's marks of fifty of its answers would measure it: lm-eval-grounded mark RUN --tasks {task} -o marking"
"""Of corrected rates: what :class:`lm_eval_tasks.definition.schema.Metric` has under these names."""


class DrawnAnswer(NamedTuple):
    """An answer that was drawn, as people marked it."""

    answer: str
    times: int  # how often it was drawn
    weight: float  # its share of all words over the chance of one draw; 0 without words that count; of ratings 1
    marked: float | None  # mean of the annotators' shares of its words, or ratings; None where nobody could tell


class MarksOfTask(NamedTuple):
    """The marks of a task's answers."""

    answers: Mapping[str, DrawnAnswer]  # by the document's id; of ratings by the question's id and aspect or system
    description: Mapping[str, Any]  # for the results file: files, seed, annotators, agreement and so on


_IN_FORCE: ContextVar[Mapping[str, MarksOfTask]] = ContextVar("_IN_FORCE")


@contextmanager
def in_force(marks: Mapping[str, MarksOfTask]) -> Iterator[None]:
    """Give tasks their marks (task to marks) within this context."""
    token = _IN_FORCE.set(marks)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def marks_of(task: str) -> MarksOfTask | None:
    """The marks in force of a task."""
    return _IN_FORCE.get({}).get(task)


class MarkedAnswer(NamedTuple):
    """What an answer adds to the rate: the value of the metric for a document, in samples as a mapping."""

    words: int
    expected: float  # share of its words that the detector expects to be made up
    article: int | str | None  # answers about one article depend on each other
    times: int = 0  # how often it was drawn; 0: it was not
    weight: float = 1.0
    marked: float | None = None  # share of its words that people call made up; None where nobody could tell


def expected_share(answer: str, spans: Sequence[Sequence[Any]] | None, language: str | None) -> float:
    """The share of an answer's words that a detector expects to be made up: the sum of the probabilities of the spans that
    words are in over the number of words; 0 without a word, and where the detector failed."""
    places = words(answer, language)
    if not places or not spans:
        return 0.0
    return sum(probabilities(places, [span_of(span) for span in spans])) / len(places)


def draw_of(provenance: Mapping[str, Any]) -> str:
    """Identity of the draw that a task's marks are of; empty without marks. Rates of runs are comparable where it is the
    same: :mod:`~lm_eval_tasks.results.compare` and leaderboard ask this and :func:`shared_draw`, and nothing else."""
    marks = provenance.get("marks")
    return str(marks.get("draw", "")) if isinstance(marks, Mapping) else ""


def shared_draw(draws: Iterable[str]) -> str:
    """The draw whose rates are compared, of those of several runs: the one that most of them are of; of equally many the
    first by name, so that the order of the runs does not matter."""
    runs = Counter(draws)
    return min(runs, key=lambda draw: (-runs[draw], draw), default="")


def value_of(
    doc: Mapping[str, Any], tagged: Mapping[str, Any], marks: MarksOfTask, counts: bool = True
) -> dict[str, Any] | None:
    """The value of the metric for a document, from its answer as the filter ``hallucination_spans`` returns it.

    Args:
        doc: the document.
        tagged: its answer.
        marks: of the task.
        counts: whether the answer's words count; those of one that abstains do not.

    Returns:
        The fields of a :class:`MarkedAnswer`. ``None`` where no word counts, unless the answer was drawn: it then keeps its
        place among the draws, with weight 0.
    """
    answer, language = tagged["answer"], doc["language"]
    number = len(words(answer, language)) if counts else 0
    drawn = marks.answers.get(str(doc["id"]))
    if not number and drawn is None:
        return None
    expected = expected_share(answer, tagged["spans"], language) if number else 0.0
    if drawn is not None and drawn.answer != answer:  # `score` has checked it, other ways to a task have not
        raise ValueError(f"document {doc['id']}: the marks are of another answer")
    value = MarkedAnswer(number, expected, doc.get("article"), *(drawn[1:] if drawn is not None else ()))
    return {name: field for name, field in value._asdict().items() if field is not None}


def marked_answers(values: Sequence[Any]) -> tuple[MarkedAnswer, ...]:
    """The answers of the documents' values; ``None`` is left out."""
    return tuple(MarkedAnswer(**{"article": None, **value}) for value in values if value is not None)


@lru_cache(maxsize=128)  # figure, bounds and log line are from one computation
def marked_rate(answers: tuple[MarkedAnswer, ...], unknown: float | None = None) -> tuple[Draws, MarkedMean] | None:
    """The rate over all words of the answers, and its draws; ``None`` without a drawn answer that somebody could judge.

    Args:
        answers: all answers of a task, drawn or not.
        unknown: share of words to take for drawn answers that nobody could judge; default: these have weight 0.
    """
    import numpy as np

    from custom_metrics.statistics.marked import Draws, marked_mean

    drawn = [answer for answer in answers if answer.times]
    shares = [unknown if answer.marked is None else answer.marked for answer in drawn]
    weights = [0.0 if share is None else answer.weight for answer, share in zip(drawn, shares, strict=True)]
    if not any(weights):
        return None
    articles = [answer.article for answer in drawn]
    draws = Draws.of([answer.times for answer in drawn], weights, None if None in articles else articles)
    number, expected = np.array([answer[:2] for answer in answers], float).T
    of_all = float(np.average(expected, weights=number))
    marked = [share or 0.0 for share in shares]
    return draws, marked_mean(draws, marked, [answer.expected for answer in drawn], of_all)


def figure_of(values: Sequence[Any]) -> Figure:
    """The rate of the documents' values; its ``n`` is the number of drawn answers that somebody could judge."""
    answers = marked_answers(values)
    rate = marked_rate(answers)
    if rate is None:
        return UNDEFINED
    return rate[1].figure._replace(n=int((rate[0].weights > 0).sum()))


marked_rate_aggregation = Aggregation(METRIC, figure_of)


def with_metric(config: dict[str, Any], task: str) -> dict[str, Any]:
    """A task's configuration with the metric, before the rate that it is preferred to, if marks are in force."""
    if marks_of(task) is None:
        return config
    metric_list = list(config["metric_list"])
    names = [entry["metric"] for entry in metric_list]
    place = names.index("rogan_gladen_rate") if "rogan_gladen_rate" in names else len(names)
    metric_list.insert(place, MARKED_RATE.entry(marked_rate_aggregation))
    return {**config, "metric_list": metric_list}


def finer_figures(values: Sequence[Any]) -> Iterator[tuple[str, Figure, str]]:
    """The rate by the marks alone; and where some drawn answers could be judged by nobody, the rate if they held nothing
    made up, and if all of their words were."""
    answers = marked_answers(values)
    rate = marked_rate(answers)
    if rate is None:
        return
    yield f"{METRIC}_alone", rate[1].alone, "draws; by the marks alone, without the detector's reading"
    if any(answer.times and answer.marked is None for answer in answers):
        for unknown, name in ((0.0, "lowest"), (1.0, "highest")):
            extreme = marked_rate(answers, unknown)
            if extreme is not None:
                text = f"draws; those that nobody could judge taken for {'wholly' if unknown else 'not'} made up"
                yield f"{METRIC}_{name}", extreme[1].figure, text


def description_of(values: Sequence[Any], marks: MarksOfTask) -> dict[str, Any]:
    """For the results file: what the rate rests on."""
    answers = marked_answers(values)
    rate = marked_rate(answers)
    if rate is None:
        return dict(marks.description)
    judged = [answer for answer in answers if answer.times and answer.weight and answer.marked is not None]
    return {
        **marks.description,
        "design": "with replacement, in proportion to words",
        "draws": rate[1].figure.n,
        "answers": len(judged),
        "words": sum(answer.words for answer in judged),
        "cannot_tell": sum(answer.marked is None and answer.times > 0 for answer in answers),
        "lambda": rate[1].slope,
        "worth": None if math.isnan(rate[1].worth) else rate[1].worth,
    }


def log_basis(task: str, values: Sequence[Any], basis: Mapping[str, Any]) -> None:
    """Log the rate, its bounds and what they rest on (:func:`description_of`); warn where annotators agree little."""
    rate = marked_rate(marked_answers(values))
    if rate is None:
        log.warning("%s: no answer that was drawn could be judged by anybody, so there is no marked_rate", task)
        return
    figure = rate[1].figure
    if math.isnan(figure.low):
        bounds = "without bounds: too few draws, or too few different articles"
    else:
        bounds = f"95 % bounds {100 * figure.low:.1f} to {100 * figure.high:.1f}"
    worth = f"; with the detector's reading as good as {basis['worth']:.0f} draws alone" if basis["worth"] else ""
    unknown = f"; {basis['cannot_tell']} more could be judged by nobody" if basis["cannot_tell"] else ""
    log.info(
        "%s: %.1f %% of the words are made up, by people's marks of %d answers (%d draws, %d words), %s%s%s",
        *(task, 100 * figure.value, basis["answers"], basis["draws"], basis["words"], bounds, worth, unknown),
    )
    kappa = basis["kappa"]
    if kappa is not None:
        message = "%s: %d of the answers were marked by several annotators, who agree with kappa %.2f on words%s"
        low = kappa < LOW_KAPPA
        doubt = ": so little that what they call made up is not one thing; look at the answers they differ on"
        log.log(
            logging.WARNING if low else logging.INFO,
            message,
            *(task, basis["answers_of_several"], kappa, doubt if low else ""),
        )
