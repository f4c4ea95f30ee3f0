"""Doubts about a run's answers, the same on every page: it gives every question the same verdict, looks broken, its prompts
were cut, or many of its answers cannot be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import compress, repeat
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from custom_metrics.broken_run import MOST_INVALID, Labels, Sign, Signs, as_answered, count, faults, kind_of
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.data.provenance import CUT, mapping
from lm_eval_tasks.runs import Answer, Answers, TaskRun
from lm_eval_tasks.runs.answers import Derive
from lm_eval_tasks.runs.results_file import metadata_of

READINGS = ("strict", "robust")
"""The filters that read NoMIRACL's answers: by the paper's rule, and by meaning."""

EQUAL = "all its answers are equal"
INCOMPLETE = "its samples file lacks answers that its figures count"

Findings = Iterable[tuple[str, str, str]]
"""Kind of a doubt, its summary, which is the same for every language, and a detail for this one."""

_CONCERNED = 0.2  # share of the parts of a run
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
    "lost_rate": "many replies are not the given answer with tags, and count as wrong",
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
    if cut := mapping(metadata_of(task.config, CUT)):
        yield "cut", "prompts were cut, and the model did not see them whole", f"{cut.get('cut')} of {cut.get('of')}"
    if 0 < signs.total < (asked := task.size.get("effective", 0)):
        yield "incomplete", INCOMPLETE, f"{signs.total} of {asked}"
    if wrong := faults(signs, task.settings.prompting):
        yield "broken", "the run looks broken", wrong
    for metric, summary in _UNREAD.items():
        figure = task.figure(metric, filter_name)
        if figure.value > MOST_INVALID:
            counts = f"{round(figure.value * figure.n)} of {figure.n}" if figure.n else f"{100 * figure.value:.1f} %"
            yield "abstains" if metric == "abstention_rate" else "invalid", summary, counts


def by_part(doubts: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The doubts about parts of a run, such as tasks or languages, each once; with the parts concerned if not all are."""
    concerned: dict[str, list[str]] = {}
    for part, texts in doubts.items():
        for text in texts:
            concerned.setdefault(text, []).append(part)
    every = len(doubts)
    return tuple(text if len(parts) == every else f"{text} ({shorten(parts)})" for text, parts in concerned.items())


def in_short(doubts: Sequence[Iterable[tuple[str, str, str]]]) -> tuple[str, ...]:
    """Findings about parts of a run, such as tasks or languages, as they stand behind its name in a sentence: without what
    follows from them, where they usually come from, all kinds but the most common, and those about less than a fifth of the
    parts."""
    concerned: dict[str, list[str]] = {}
    for findings in doubts:
        listed = [*findings]
        broken = any(kind == "broken" for kind, *_ in listed)  # which says how many answers are Invalid
        for kind, summary, detail in (each for each in listed if not (broken and each[0] == "invalid")):
            text = summary.partition(":")[0].replace("the run", "its run")
            commonest = re.sub(r" \((\d+ [^,)]+).*", r", \1", detail)
            concerned.setdefault(text, []).append("" if kind == "alike" else re.split(r"\. |: ", commonest)[0])
    texts, most = [], len(doubts)
    for text, details in concerned.items():
        if len(details) >= _CONCERNED * most:
            where = f" in {len(details)} of {most} tasks" if len(details) < most else ""
            texts.append(f"{text}{where}{f': {details[0]}' if most == 1 and details[0] else ''}")
    return tuple(texts)


# ---------------------------------------------------------------------------------------------- signs of a broken run

_IN_OWN_WORDS = ("detected_rate", "rougeL")  # metrics of tasks whose answers are a model's own words
_KIND, _LABEL = "sign", "label"
_LABELS = (ANSWER, NO_ANSWER, INVALID)
_PLACES = {label: float(place) for place, label in enumerate(_LABELS)}


def read_answers(task: TaskRun) -> Answers:
    """Read the answers of a task, with what :func:`signs_of` counts; errors are those of
    :meth:`lm_eval_tasks.runs.TaskRun.answers`."""
    return task.answers(derive_signs(task))


def signs_of(task: TaskRun, answers: Answers | None) -> Signs:
    """Count the signs of a broken run in the answers of a task, read with :func:`derive_signs`. In other answers, and those
    of other tasks, it is a sign that all are equal. The counts are 0 if no answers were logged (``None``)."""
    if answers is None:
        return count({}, 0)
    if answers not in _COUNTED:
        _COUNTED[answers] = _counted(answers, _is_labelled(task))
    return _COUNTED[answers]


_COUNTED: WeakKeyDictionary[Answers, Signs] = WeakKeyDictionary()
"""A report needs the signs of a task for several of its parts."""


def _is_labelled(task: TaskRun) -> bool:
    return task.table is not None and {*READINGS} <= {*task.filters}


def derive_signs(task: TaskRun) -> Derive:
    """What a reader of answers derives from each, so that :func:`signs_of` can count signs."""
    labelled = _is_labelled(task)
    of_own_words = task.table is not None and any(m.name in _IN_OWN_WORDS for m in task.metrics)
    return _derive_signs(labelled) if labelled or of_own_words else lambda *row: {}


@cache
def _derive_signs(labelled: bool) -> Derive:
    read_already = Labels(*READINGS) if labelled else None

    def derive(answer: Answer, name: str, first: bool) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if first:
            values[_KIND] = kind_of(as_answered(answer.doc, answer.response)._replace(labels=read_already))
        if labelled and name in READINGS:
            label = str(answer.readings[name].answer)
            values[_LABEL] = _PLACES.get(label, label)  # a number takes eight bytes
        return values

    return derive


def _counted(answers: Answers, labelled: bool) -> Signs:
    columns = [filtered.derived[_KIND].values() for filtered in answers.readings.values() if _KIND in filtered.derived]
    kinds = [next((kind for kind in row if kind is not None), None) for row in zip(*columns, strict=True)]
    kinds = kinds if columns else [None] * len(answers)
    texts = answers.responses
    if not (columns and labelled):
        return count(Counter(zip(kinds, repeat(None))), len(np.unique(texts, equal_nan=False)))
    if not {*READINGS} <= answers.readings.keys():
        return count({}, 0)
    readings = [answers.readings[name] for name in READINGS]
    both = readings[0].present & readings[1].present  # of a file that was cut, the last may lack one
    labels = (compress(filtered.derived[_LABEL].values(), both) for filtered in readings)
    signs: dict[Sign, int] = {
        (kind, Labels(*(label if isinstance(label, str) else _LABELS[int(label)] for label in of_both))): number
        for (kind, *of_both), number in Counter(zip(compress(kinds, both), *labels, strict=True)).items()
    }
    return count(signs, len(np.unique(texts[both], equal_nan=False)))
