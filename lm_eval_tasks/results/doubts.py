"""Doubts about a run's answers, the same on every page: it gives every question the same verdict, looks broken, or many
of its answers cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from custom_metrics.broken_run import MOST_INVALID, Sign, Signs, count, faults
from lm_eval_tasks.runs import Answers, TaskRun

EQUAL = "all its answers are equal"

Findings = Iterator[tuple[str, str, str]]
"""Kind of a doubt, its summary, which is the same for every language, and a detail for this one."""

_FEWEST = 4  # questions of which equal verdicts say something
_DECLINES, _CLAIMS = "it declines every question", "it claims to see an answer to every question"
_ONE_SIDED: tuple[tuple[str, Mapping[str, float]], ...] = (
    (_DECLINES, {"hallucination_rate": 0.0, "error_rate": 1.0}),
    (_CLAIMS, {"hallucination_rate": 1.0, "error_rate": 0.0}),
    (_DECLINES, {"unanswerable_accuracy": 1.0, "answerable_abstention_rate": 1.0}),
    (_DECLINES, {"abstention_rate": 1.0}),
)
"""Descriptions of runs that give every question the same verdict, with the figures that show it."""

_UNREAD = {
    "invalid_rate": "many answers are Invalid: wrong in the balanced error, and in neither of the two rates",
    "unread_rate": "many replies of the judge could not be read, and are in no denominator",
    "lost_rate": "many replies are not the given answer with tags, and count as if nothing were flagged",
    "repetition_rate": "many answers repeat themselves",
    "abstention_rate": "it declines many questions, and of what it does not say nothing can be made up",
}
"""Metrics that are shares of unusable answers, with the doubt where they are larger than a fifth."""


def doubts_about_answers(task: TaskRun, filter_name: str, signs: Signs) -> Findings:
    """The doubts about a task's answers. Those of kind ``alike`` are about a run that gives every question the same
    verdict: it has the best value of one of two traded rates, whatever it was asked, and no rank."""
    for verdict, ends in _ONE_SIDED:
        figures = [task.figure(metric, filter_name) for metric in ends]
        number = sum(figure.n for figure in figures)
        if number >= _FEWEST and [figure.value for figure in figures] == [*ends.values()]:
            yield "alike", verdict, f"{number}"
            break
    if signs.are_equal:
        yield "alike", EQUAL, f"{signs.total}"
    if wrong := faults(signs, task.settings.prompting):
        yield "broken", "the run looks broken", wrong
    for metric, summary in _UNREAD.items():
        figure = task.figure(metric, filter_name)
        if figure.value > MOST_INVALID:
            counts = f"{round(figure.value * figure.n)} of {figure.n}" if figure.n else f"{100 * figure.value:.1f} %"
            yield "abstains" if metric == "abstention_rate" else "invalid", summary, counts


def equal_answers(answers: Answers) -> Signs:
    """The signs that need no reading of answers: whether all are equal."""
    return count(Sign(None, text) for text in answers.responses.tolist())
