"""Labels of answers that people are to label: ours, whether it is doubtful, and the chances of a draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.words import words
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, nomiracl_label, robust_label
from lm_eval_tasks.results import is_tagged
from lm_eval_tasks.results.report.readers import tagged_answer
from lm_eval_tasks.runs import Answer, TaskRun

_OURS = (ANSWER, NO_ANSWER, INVALID)  # in the order of lm_eval_tasks.detection.marked_labels.LABELS
_SHORT = 3  # words of an answer that may be a fragment
_DOUBTED = 2.0  # the chance of a doubtful label over that of another


def can_be_labelled(task: TaskRun) -> bool:
    """Whether the answers of a task claim an answer or decline: those of NoMIRACL and CLAPnq, not a judge's."""
    return task.benchmark == "nomiracl" or (task.benchmark == "clapnq" and is_tagged(task.task))


def labelled(task: TaskRun, answer: Answer, filter_name: str) -> dict[str, Any]:
    """An ``answer`` as a person reads it; whether it was ``asked`` what can be answered; the number of the ``label`` that
    counts in the task's rates; and whether that is ``doubtful``, as our other readers say something else.

    Of NoMIRACL the other reader is the released parser, which finds an answer with several verdicts Invalid. CLAPnq's label
    is whether the answer abstains; the others are NoMIRACL's reader, and one that takes a partial answer for none. Invalid
    is always in doubt, and so are CLAPnq's answers of three words or less.
    """
    reading = answer.readings[filter_name].answer
    if task.benchmark == "nomiracl":
        text, asked = answer.response, answer.doc.get("subset") == "relevant"
        ours = reading if reading in _OURS else INVALID
        others = {nomiracl_label(text)}
    else:
        text, asked = tagged_answer(reading, answer.response)[0], bool(answer.doc.get("answerable"))
        ours, whole = (NO_ANSWER if is_abstention(text, "en", partial) else ANSWER for partial in (True, False))
        others = {whole, robust_label(text, "en"), ours if len(words(text, "en")) > _SHORT else INVALID}
    return {
        "answer": text,
        "asked": asked,
        "label": _OURS.index(ours),
        "doubtful": {ours, *others} != {ours} - {INVALID},
    }


def label_chances(answerable: NDArray[np.bool_], doubtful: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(answers,) chances of a draw: half for each kind of question, and twice as much for a doubtful label."""
    chances = np.where(doubtful, _DOUBTED, 1.0)
    for kind in (answerable, ~answerable):
        chances[kind] /= max(1.0, chances[kind].sum())
    return np.asarray(chances / max(1.0, chances.sum()))
