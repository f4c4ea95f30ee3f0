"""A judge's metrics as people would have them: their ratings or preferences of some answers, and the judge's of all.

``lm-eval-grounded score --marks`` puts the marks in force (:mod:`lm_eval_tasks.detection.marked`). A judge's task then has
``marked_<metric>`` beside each of its own. Estimator: :func:`custom_metrics.statistics.marked.marked_mean`; questions are
drawn evenly. A reply of the judge that could not be read counts as the judge's mean, which biases nothing: what it is
thought to say of an answer may be anything, as long as it is the same whether that was drawn or not.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any, NamedTuple

from custom_metrics.scores.aggregations import Aggregation, NotMeasured, Source
from custom_metrics.scores.judging import ASPECTS, FIRST, SECOND, TIE
from custom_metrics.statistics.figures import UNDEFINED, Figure, Rows
from custom_metrics.statistics.marked import Draws, MarkedMean, marked_harmonic_mean, marked_mean
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.detection.marked import PREFIX, MarksOfTask, log_kappa

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

WIN_RATE = f"{PREFIX}win_rate_"
HARMONIC = f"{PREFIX}f_plus_a"
_RATINGS, _WINS = (1.0, 4.0), (0.0, 1.0)  # the scales


class RatedAnswer(NamedTuple):
    """The value of a metric for a document; in samples a list."""

    question: str
    name: str  # aspect or system
    judged: float | None  # by the judge; None: not read
    times: int = 0  # how often the question was drawn; 0: it was not
    marked: float | None = None  # mean of the annotators' ratings; None where nobody could tell
    left_out: float = 1.0  # probability that the draw leaves the question out


def scores_of(doc: Mapping[str, Any], verdict: str) -> dict[str, float | None]:
    """The score of a verdict: the rating of the document's aspect; or of each of its two systems 1 where it is preferred,
    and a half for a tie. ``None`` where the verdict could not be read."""
    if "aspect" in doc:
        return {doc["aspect"]: float(verdict) if verdict.isdecimal() else None}
    first = {FIRST: 1.0, TIE: 0.5, SECOND: 0.0}.get(verdict)
    return {doc["first"]: first, doc["second"]: None if first is None else 1 - first}


def metrics_of(marks: MarksOfTask) -> list[str]:
    """The names of the metrics by marks of ratings, or of preferences."""
    systems = marks.description["systems"]
    if len(systems) == 1:
        return [HARMONIC, *(f"{PREFIX}{aspect}" for aspect in ASPECTS)]
    return [f"{WIN_RATE}{system}" for system in systems]


def metric_list(marks: MarksOfTask) -> list[dict[str, Any]]:
    """The metrics as entries of a task's ``metric_list``."""
    return [metric_of(name).entry(MarkedRating(name)) for name in metrics_of(marks)]


def values_of(doc: Mapping[str, Any], verdict: str, marks: MarksOfTask) -> dict[str, Any]:
    """The values of all metrics for a document; ``None`` where it does not count for one."""
    values: dict[str, Any] = dict.fromkeys(metrics_of(marks))
    scores = scores_of(doc, verdict)
    for name, score in scores.items():
        drawn = marks.answers.get(f"{doc['id']}/{name}")
        of_draw = () if drawn is None else (drawn.times, drawn.marked, drawn.left_out)
        value = RatedAnswer(doc["id"], name, score, *of_draw)
        metrics = [f"{PREFIX}{name}", HARMONIC] if "aspect" in doc else [f"{WIN_RATE}{name}"]
        if "aspect" in doc or {*scores} == {*marks.description["systems"]}:
            values |= dict.fromkeys(metrics, value)
    return values


class MarkedScore(NamedTuple):
    """A mean by people's ratings of some answers."""

    questions: tuple[str, ...]  # drawn, that somebody could judge
    draws: Draws
    mean: MarkedMean
    judged: float  # the judge's own mean
    unknown: int  # drawn questions that nobody could judge


def marked_score(
    values: Sequence[RatedAnswer], scale: tuple[float, float], times: Mapping[str, int] | None = None
) -> MarkedScore | None:
    """The mean of an aspect or system over all judged answers; ``None`` without a drawn one that somebody could judge.

    Args:
        values: of the aspect or system.
        scale: of the ratings.
        times: how often each question among the draws was drawn, which has weight 0 where it was not rated here; default:
            those that were rated.
    """
    scores: dict[str, list[float]] = defaultdict(list)
    for value in values:
        if value.judged is not None:
            scores[value.question].append(value.judged)
    judged = {question: fmean(each) for question, each in scores.items()}
    of_all = fmean(judged.values()) if judged else scale[0]
    drawn = {value.question: value for value in values if value.times}
    rated = {question: value for question, value in drawn.items() if value.marked is not None}
    if not rated:
        return None
    if times is None:
        times = {question: value.times for question, value in rated.items()}
    left_out = [rated[question].left_out if question in rated else 0.0 for question in times]
    draws = Draws.of([*times.values()], [float(question in rated) for question in times], None, left_out)
    ratings = [rated[question].marked if question in rated else scale[0] for question in times]
    mean = marked_mean(draws, ratings, [judged.get(question, of_all) for question in times], of_all, scale)  # type: ignore[arg-type]
    return MarkedScore((*rated,), draws, mean, of_all, len(drawn) - len(rated))


@lru_cache(maxsize=64)  # figure, bounds and log line are from one computation
def score_of(metric: str, values: tuple[RatedAnswer, ...]) -> MarkedScore | None:
    """A metric of its documents' values; ``None`` where nobody could judge a drawn answer."""
    if metric != HARMONIC:
        return marked_score(values, _WINS if metric.startswith(WIN_RATE) else _RATINGS)
    score = _harmonic(values)
    alone = _harmonic([value._replace(judged=None) for value in values])
    return score and alone and score._replace(mean=score.mean._replace(alone=alone.mean.figure))


def _harmonic(values: Sequence[RatedAnswer]) -> MarkedScore | None:
    """F+A: of the two aspects' means, also where an answer was rated for one of them only."""
    times = {value.question: value.times for value in values if value.times and value.marked is not None}
    by_aspect = [[value for value in values if value.name == aspect] for aspect in ASPECTS]
    scores = [score for of_aspect in by_aspect if (score := marked_score(of_aspect, _RATINGS, times)) is not None]
    if len(scores) < len(ASPECTS):
        return None
    mean = marked_harmonic_mean(scores[0].draws, [score.mean for score in scores], _RATINGS)
    judged = len(scores) / sum(1 / score.judged for score in scores)
    unknown = len({value.question for value in values if value.times}) - len(times)
    return MarkedScore((*times,), scores[0].draws, mean, judged, unknown)


def _parsed(metric: str, values: Sequence[Any]) -> MarkedScore | None:
    return score_of(metric, tuple(RatedAnswer(*value) for value in values if value is not None))


class MarkedRating(Aggregation):
    """The kind of a mean by people's ratings. Its ``n`` is the number of drawn answers that somebody could judge."""

    not_compared = "people rated some of the answers of each run, which nothing pairs between runs of a judge"

    def figure_of(self, values: Sequence[Any]) -> Figure:
        score = _parsed(self.name, values)
        return UNDEFINED if score is None else score.mean.figure._replace(n=len(score.questions))

    def rows(self, values: Sequence[Any], clusters: Sequence[Any] | None = None, source: Source | None = None) -> Rows:
        raise NotMeasured(self.not_compared)


marked_rating = MarkedRating(PREFIX)
"""The kind of every such metric, for readers of results."""


def finer_figures(values: Mapping[str, Sequence[Any]], marks: MarksOfTask | None) -> Iterator[tuple[str, Figure, str]]:
    """Beside each metric the same by people's marks alone; beside a win rate the judge's own of this pair, where a tie is
    half a win, as it is here; and how far the judge agrees with people."""
    for name, agreement in marks.description["agreement"].items() if marks else ():
        yield (
            f"kappa_{name}",
            agreement["judge"],
            "answers or pairs that both judged; Cohen's kappa of judge and people",
        )
    for metric, of_documents in values.items():
        score = _parsed(metric, of_documents) if metric.startswith(PREFIX) else None
        if score is not None:
            yield f"{metric}_alone", score.mean.alone, "draws; by people's marks alone, without the judge's"
            if metric.startswith(WIN_RATE):
                yield f"{metric}_judged", Figure(score.judged), "questions; by the judge, a tie counted as a half"


def description_of(values: Mapping[str, Sequence[Any]], marks: MarksOfTask) -> dict[str, Any]:
    """For the results file: what the metrics rest on."""
    metrics = {}
    for metric, of_documents in values.items():
        score = _parsed(metric, of_documents)
        if score is not None:
            metrics[metric] = {
                "draws": score.mean.figure.n,
                "answers": len(score.questions),
                "cannot_tell": score.unknown,
                "lambda": None if math.isnan(score.mean.slope) else score.mean.slope,
                "worth": None if math.isnan(score.mean.worth) else score.mean.worth,
            }
    agreement = {
        name: {**each, "judge": each["judge"].as_json("answers or pairs that both judged")}
        for name, each in marks.description["agreement"].items()
    }
    design = "with replacement, each answerable question alike"
    return {**marks.description, "agreement": agreement, "design": design, "metrics": metrics}


def log_basis(task: str, values: Mapping[str, Sequence[Any]], basis: Mapping[str, Any]) -> None:
    """Log each metric with its bounds and what they rest on (:func:`description_of`), and the agreement of annotators and
    judge; warn where annotators agree little."""
    is_pairs = any(metric.startswith(WIN_RATE) for metric in values)
    ratings, answers = ("preferences", "pairs of answers") if is_pairs else ("ratings", "answers")
    for metric, of_documents in values.items():
        score = _parsed(metric, of_documents)
        if score is None:
            log.warning("%s: no drawn answer could be judged by anybody, so there is no %s", task, metric)
            continue
        figure, worth = score.mean.figure, basis["metrics"][metric]["worth"]
        bounds = f"95 % bounds {figure.low:.2f} to {figure.high:.2f}"
        log.info(
            "%s: %s %.2f by people's %s of %d %s (%d draws), %s; the judge says %.2f%s%s",
            *(task, metric, figure.value, ratings, len(score.questions), answers, figure.n),
            *("without bounds: too few draws" if math.isnan(figure.low) else bounds, score.judged),
            f"; with the judge's {ratings} as good as {worth:.0f} alone" if worth else "",
            f"; {score.unknown} more could be judged by nobody" if score.unknown else "",
        )
    for name, agreement in basis["agreement"].items():
        of_several, judge = agreement["answers_of_several"], agreement["judge"]
        if judge["value"] is not None:
            bounds = "" if judge["low"] is None else f", 95 % bounds {judge['low']:.2f} to {judge['high']:.2f}"
            message = "%s: on the %s of %d %s the judge agrees with people with kappa %.2f%s"
            log.info(message, task, name, judge["n"], answers, judge["value"], bounds)
        message = f"on the {name} of {of_several} {answers} several annotators agree with kappa {{:.2f}}"
        log_kappa(task, agreement["kappa"], message, "it is not one thing that they rate")
