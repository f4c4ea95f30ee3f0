"""People's ratings and preferences, joined with a judge's: which answers they are of, and how far both agree."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.scores.judging import ASPECTS, UNREAD, read_preference, read_rating
from custom_metrics.statistics.agreement import cohen_kappa, contingency_table, estimate, mean_kappa, quadratic_weights
from custom_metrics.statistics.figures import UNDEFINED
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import quote
from lm_eval_tasks.clapnq.judge.dataset import PAIRS, RATINGS
from lm_eval_tasks.clapnq.judge.marked import scores_of
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.detection.marked import DrawnAnswer, MarksOfTask
from lm_eval_tasks.results.marks.lines import Mark, basis_of, changed_chance, counted_draws, refuse

KINDS = {RATINGS: "ratings", PAIRS: "preferences"}
"""A judge's task to the kind of marks that is joined with it."""


class Judged(NamedTuple):
    """A question as a judge saw and scored it. Texts are without white space and marks of quotation."""

    texts: Mapping[str, str]  # answers by system: one, or two side by side
    passages: str
    scores: dict[str, list[float]]  # by aspect, or by system


JudgedAnswers = Mapping[frozenset[str], Mapping[str, Judged]]
"""By the systems shown together, and by the question's id."""


def judged_answers(samples: Path, task: str) -> JudgedAnswers:
    """The questions in a samples file of a judge; a CorruptSource if a document does not belong to the task."""
    judged: dict[frozenset[str], dict[str, Judged]] = defaultdict(dict)
    for sample in read_samples(samples):
        doc, reply = sample["doc"], sample["resps"][0][0]
        try:
            quoted = doc["quoted"]
            columns = {doc["system"]: "answer"} if task == RATINGS else {doc["first"]: "first", doc["second"]: "second"}
            texts = {str(system): _bare(quoted[column]) for system, column in columns.items()}
            if task == PAIRS and len(texts) < 2:
                raise TypeError("a system beside itself")
            verdict = (read_rating if task == RATINGS else read_preference)(reply)
            scores = scores_of(doc, str(verdict or UNREAD))
            entry = Judged(texts, _bare("\n".join(quoted["passages"])), {})
            of_question = judged[frozenset(texts)].setdefault(str(doc["id"]), entry)
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptSource(f"{samples}: document {doc.get('id')!r} is none of {task} ({error!r})") from error
        for name, score in scores.items():
            if score is not None:
                of_question.scores.setdefault(name, []).append(score)
    if not judged:
        raise CorruptSource(f"{samples}: no sample can be read")
    return judged


def join_ratings(
    marks: Sequence[Mark], task: str, judged: JudgedAnswers, complete_to: int | None = None
) -> MarksOfTask:
    """People's ratings or preferences of the answers that a judge has judged, by ``<id>/<aspect>`` or ``<id>/<system>``;
    none where no mark is of this kind.

    Args:
        marks: of any kinds, tasks and runs.
        task: of the judge.
        judged: :func:`judged_answers` of its samples file.
        complete_to: as of :func:`lm_eval_tasks.results.marks.lines.join`.

    Raises:
        UsageError: a mark is of another answer, reference or draw, marks are of several draws or pairs of runs, or a drawn
            answer has no mark.
    """
    groups: dict[tuple[str, ...], list[Mark]] = defaultdict(list)
    for mark in marks:
        if mark.kind == KINDS[task]:
            group_of = (mark.task, *mark.runs)
            groups[group_of].append(mark)
    if not groups:
        return MarksOfTask({}, {})

    orders = [systems for together in judged for systems in permutations(sorted(together))]
    fits = [
        (sum(not _difference(mark, systems, judged) for mark in group), group, systems)
        for group in groups.values()
        for systems in orders
    ]
    number, mine, systems = max(fits, key=lambda fit: fit[0])
    others = [group for fitting, group, _ in fits if fitting == len(group) and group is not mine]
    if others and task == PAIRS and number == len(mine):
        raise UsageError(
            f"{mine[0].where} and {others[0][0].where} are of different pairs of runs; score them one by one"
        )
    refuse(f"marks that are not of the answers judged by {task}", mine, lambda mark: _difference(mark, systems, judged))
    counted, by_id = counted_draws(mine, task, complete_to)
    names = dict(zip(ASPECTS, ASPECTS, strict=True) if task == RATINGS else zip(mine[0].runs, systems, strict=True))
    drawn = {}
    for identity, times in Counter(counted).items():
        texts = by_id[identity][0].answers
        for place, (key, name) in enumerate(names.items()):
            ratings = [rating for mark in by_id[identity] if (rating := mark.ratings[key]) is not None]
            mean = fmean(ratings) if ratings else None
            left_out = by_id[identity][0].inclusion(len(counted))[1]
            drawn[f"{identity}/{name}"] = DrawnAnswer(texts[place % len(texts)], times, 1.0, mean, left_out=left_out)
    counting = [mark for mark in mine if mark.id in {*counted}]
    agreed = {name: name for name in ASPECTS} if task == RATINGS else {"preference": mine[0].runs[0]}
    agreement = {
        what: _agreement(counting, key, names[key], judged[frozenset(systems)]) for what, key in agreed.items()
    }
    more = {"task": mine[0].task, "systems": sorted(systems), "agreement": agreement}
    return MarksOfTask(drawn, {**basis_of(counting, counted), **more})


def _bare(text: str) -> str:
    """A quoted text without white space and marks of quotation: how passages are put together differs."""
    return "".join(re.sub(r"^> ?", "", text, flags=re.M).split())


def _difference(mark: Mark, systems: Sequence[str], judged: JudgedAnswers) -> str:
    """The reason why a mark does not belong to the judged answers of some systems; empty where it does."""
    of_systems = judged[frozenset(systems)]
    entry = of_systems.get(mark.id)
    if entry is None:
        return f"the judge has not judged the answer to {mark.id}"
    for answer, system in zip(mark.answers, systems, strict=True):
        if _bare(quote(answer)) != entry.texts[system]:
            return f"the answer to {mark.id} is another one than that of {system}"
    if _bare(quote(mark.reference)) != entry.passages:
        return f"the reference of {mark.id} is another one"
    if abs(mark.chance * len(of_systems) - 1) > 1e-9:
        return f"{mark.id} was drawn from {round(1 / mark.chance)} questions, but {len(of_systems)} are judged"
    return changed_chance(mark)


def _agreement(marks: Sequence[Mark], key: str, name: str, judged: Mapping[str, Judged]) -> dict[str, Any]:
    """Cohen's kappa of annotators, and of the judge with annotators; of ratings with quadratic weights."""
    labels: dict[str, dict[str, list[int]]] = defaultdict(dict)
    is_rating = key in ASPECTS
    size = 4 if is_rating else 3  # a preference: lost, tie, won
    for mark in marks:
        if (rating := mark.ratings[key]) is not None:
            labels[mark.id][mark.annotator] = [int(rating) - 1 if is_rating else int(2 * rating)]
    kappa, several = mean_kappa(labels.values(), size, is_rating)
    tables = []
    for identity, by_annotator in labels.items():
        if scores := judged[identity].scores.get(name):
            score = fmean(scores)  # of a pair in both orders
            label = round(score) - 1 if is_rating else 1 + (score > 0.5) - (score < 0.5)
            tables.append(contingency_table([(label, each) for (each,) in by_annotator.values()], size))
    weights = quadratic_weights(range(size)) if is_rating else None
    of_judge = estimate(np.array(tables), partial(cohen_kappa, weights=weights)) if tables else UNDEFINED
    return {"kappa": kappa, "answers_of_several": several, "judge": of_judge._replace(n=len(tables))}
