"""Files of marks: read, checked, and joined with the run that they are of.

A line is an object of one annotator and one answer; ``lm_eval_tasks/results/marks/README.md`` describes it. All files are
read and all lines checked before anything is computed: one error names the first lines that cannot be used.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from custom_metrics.hallucination import flagged_words
from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered, span_of
from custom_metrics.reading.words import words
from custom_metrics.statistics.agreement import cohen_kappa, contingency_table
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.data.tables import read_json_lines
from lm_eval_tasks.detection.marked import DrawnAnswer, MarksOfTask
from lm_eval_tasks.results.marks.draw import TaskAnswers, reference_of, run_digest
from lm_eval_tasks.runs import read_runs

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

KINDS = ("spans", "ratings", "preferences")
_SHOWN = 5  # faults that an error names


class DrawRecord(NamedTuple):
    """The draw that a mark is of."""

    seed: int
    runs: tuple[str, ...]  # digests of the runs' answers
    order: tuple[str, ...]  # ids of the documents in the order drawn, with repetitions


class Mark(NamedTuple):
    """What one annotator says of one answer."""

    where: str  # file and line, for messages
    task: str
    id: str  # of the document
    annotator: str
    run: str  # digest of the run's answers
    language: str
    reference: str
    answer: str
    chance: float  # of the document, by one draw
    draw: DrawRecord
    spans: tuple[Span, ...] | None  # None: the annotator cannot tell
    suggested: bool  # whether the detector's spans were shown first

    @property
    def share(self) -> float:
        """The marked share of the answer's words."""
        marked, number = flagged_words(self.answer, self.spans, self.language)
        return marked / number if number else 0.0


class RunAnswer(NamedTuple):
    """An answer of a run, as it is scored."""

    answer: str
    reference: str
    share: float  # of the words of all answers


def run_answers(samples: Path, task: str, marked: Collection[str]) -> dict[str, RunAnswer]:
    """The answers of a samples file, by the document's id; references of the `marked` ones only."""
    (run,) = read_runs([samples])
    answers = TaskAnswers.of(run.model, run.tasks[task])
    shares = answers.shares.tolist()
    return {
        name: RunAnswer(text, reference_of(answers.logged[place].doc) if name in marked else "", shares[place])
        for place, (name, text) in enumerate(zip(answers.ids, answers.texts, strict=True))
    }


def read_marks(paths: Iterable[Path]) -> list[Mark]:
    """The marks of spans in files of JSON lines, or exports of Label Studio (``.json``).

    A line that occurs twice counts once.

    Raises:
        CorruptSource: lines are damaged, or an annotator has marked an answer twice; the message names them.
    """
    marks: dict[tuple[str, str, str, str], Mark] = {}
    faults: list[str] = []
    for path in paths:
        for number, row in _rows(path):
            where = f"{path}, line {number}"
            try:
                mark = _mark(where, row)
            except ValueError as error:
                faults.append(f"{where}: {error}")
                continue
            key = (mark.task, mark.run, mark.id, mark.annotator)
            earlier = marks.setdefault(key, mark)
            if earlier.spans != mark.spans or earlier.answer != mark.answer:
                faults.append(f"{where}: {mark.annotator} has marked {mark.id} in {earlier.where}, and otherwise")
    if faults:
        raise CorruptSource(_listed("marks that cannot be used", faults))
    if not marks:
        raise CorruptSource(f"{', '.join(map(str, paths))}: no mark in it")
    return list(marks.values())


def _rows(path: Path) -> Iterable[tuple[int, Mapping[str, Any]]]:
    if path.suffix == ".json":
        from lm_eval_tasks.results.marks.label_studio import lines_from_export

        return enumerate(lines_from_export(path), 1)
    return read_json_lines(path)


def _mark(where: str, row: Mapping[str, Any]) -> Mark:
    """The mark of a line; ValueError says what is wrong."""
    kind = row.get("kind")
    if kind != "spans":
        raise ValueError(f"kind is {kind!r}, not 'spans'")
    texts: dict[str, str] = {}
    for name in ("task", "id", "annotator", "run", "language", "reference", "answer"):
        value = row.get(name)
        if not isinstance(value, str) or (not value and name != "reference"):
            raise ValueError(f"{name} is {value!r:.80}, not a text")
        texts[name] = value
    chance, draw = row.get("chance"), row.get("draw")
    if isinstance(chance, bool) or not isinstance(chance, (int, float)) or not 0 < chance <= 1:
        raise ValueError(f"chance is {chance!r:.80}, not a number between 0 and 1")
    record = draw_record(draw)
    if texts["id"] not in record.order or texts["run"] not in record.runs:
        raise ValueError(f"its draw does not have {texts['id'] if texts['id'] not in record.order else texts['run']!r}")
    spans = None if row.get("cannot_tell") is True else _spans(row.get("spans"), len(texts["answer"]))
    suggested = row.get("suggested") is True
    return Mark(where=where, chance=float(chance), draw=record, spans=spans, suggested=suggested, **texts)


def draw_record(value: Any) -> DrawRecord:
    """The field ``draw`` of a line; ValueError where it is damaged."""
    fields = value if isinstance(value, Mapping) else {}
    seed, runs, order = (fields.get(name) for name in DrawRecord._fields)
    lists = [values for values in (runs, order) if isinstance(values, list) and values]
    if type(seed) is not int or len(lists) != 2 or not all(isinstance(text, str) for text in (*lists[0], *lists[1])):
        raise ValueError("draw is no object with seed, runs and order")
    return DrawRecord(seed, tuple(lists[0]), tuple(lists[1]))


def _spans(values: Any, length: int) -> tuple[Span, ...]:
    if not isinstance(values, list):
        raise ValueError(f"spans is {type(values).__name__}, not a list of [start, end, category]")
    spans = tuple(span_of(value if isinstance(value, list) else [value]) for value in values)
    for span in spans:
        if span.end > length:
            raise ValueError(f"a span ends at {span.end}, but the answer has {length} characters")
        if span.category not in (*CATEGORIES, HALLUCINATION):
            raise ValueError(f"category {span.category!r:.80} is none of {', '.join((*CATEGORIES, HALLUCINATION))}")
    return spans


def join(
    marks: Sequence[Mark], task: str, answers: Mapping[str, RunAnswer], complete_to: int | None = None
) -> MarksOfTask:
    """The marks of a task's answers in a run.

    Args:
        marks: of any tasks and runs.
        task: its name.
        answers: id of a document to the run's answer, in the order of the samples file; those that cannot be drawn have
            share 0.
        complete_to: count only the first draws, so many; default: all that were drawn, of which none may lack a mark.

    Returns:
        The marks; without an answer where no mark is of this task and run.

    Raises:
        UsageError: a mark of this task is of another answer, reference or draw; marks are of several draws; or a drawn
            answer has no mark.
    """
    of_task = [mark for mark in marks if mark.task == task]
    digest = run_digest({identity: entry.answer for identity, entry in answers.items()})
    mine = [mark for mark in of_task if mark.run == digest]
    if not mine:
        own_draw = [mark for mark in of_task if digest in mark.draw.runs]
        if of_task and not own_draw:
            raise UsageError(
                f"{of_task[0].where}: this mark of {task} is of another run: its answers have the digest {of_task[0].run}, "
                f"those here {digest}. Name the run that the answers were drawn from"
            )
        return MarksOfTask({}, {})
    faults = [f"{mark.where}: {why}" for mark in mine if (why := _difference(mark, answers.get(mark.id)))]
    if faults:
        raise UsageError(_listed(f"marks that are not of this run of {task}", faults))
    order = _common_order(mine)
    by_id: dict[str, list[Mark]] = defaultdict(list)
    for mark in mine:
        by_id[mark.id].append(mark)
    counted = order if complete_to is None else order[:complete_to]
    # What has words in another run of the draw alone has nothing to mark in this one, and counts nothing.
    needed = {identity for identity in order if identity not in answers or answers[identity].share > 0}
    missing = list(dict.fromkeys(identity for identity in counted if identity in needed and identity not in by_id))
    if missing:
        complete = order.index(missing[0])
        raise UsageError(
            f"{task}: {len(missing)} drawn answers are not marked: {', '.join(missing[:20])}"
            f"{', ...' if len(missing) > 20 else ''}. Mark them, or count only the {complete} draws before the first of "
            f"them: --complete-to {complete}"
        )
    drawn = {}
    for identity in dict.fromkeys(identity for identity in counted if identity in needed):
        shares = [mark.share for mark in by_id[identity] if mark.spans is not None]
        entry, chance = answers[identity], by_id[identity][0].chance
        drawn[identity] = DrawnAnswer(
            entry.answer, counted.count(identity), entry.share / chance, fmean(shares) if shares else None
        )
    counting = [mark for mark in mine if mark.id in drawn]
    kappa, pairs = kappa_of_words(counting)
    return MarksOfTask(
        drawn,
        {
            "files": sorted({Path(mark.where.rpartition(", line ")[0]).name for mark in counting}),
            "draw": hashlib.sha256(repr((mine[0].draw[:2], counted)).encode("utf-8", "surrogatepass")).hexdigest()[:12],
            "seed": mine[0].draw.seed,
            "runs": len(mine[0].draw.runs),
            "annotators": len({mark.annotator for mark in counting}),
            "kappa": kappa,
            "answers_of_several": pairs,
            "suggested": sum(mark.suggested for mark in counting),
        },
    )


def _difference(mark: Mark, entry: RunAnswer | None) -> str:
    """Why a mark is not of the run's answer; empty where it is."""
    if entry is None:
        return f"the run has no document {mark.id}"
    if mark.answer != entry.answer:
        return f"the answer to {mark.id} is another one"
    if mark.reference != entry.reference:
        return f"the reference of {mark.id} is another one"
    if len(mark.draw.runs) == 1 and abs(mark.chance - entry.share) > 1e-9:
        return f"{mark.id} was drawn with chance {mark.chance:.6f}, but has {entry.share:.6f} of the words"
    return ""


def _common_order(marks: Sequence[Mark]) -> tuple[str, ...]:
    """The longest draw of the marks, which begins with all others."""
    longest = max((mark for mark in marks), key=lambda mark: len(mark.draw.order))
    for mark in marks:
        seed, runs, order = mark.draw
        if (seed, runs) != longest.draw[:2] or order != longest.draw.order[: len(order)]:
            raise UsageError(
                f"{mark.where} and {longest.where} are of different draws; marks can be joined that are of one draw, with "
                f"the same --seed and runs"
            )
    return longest.draw.order


def kappa_of_words(marks: Sequence[Mark]) -> tuple[float | None, int]:
    """Cohen's kappa of words, marked or not, as the mean over pairs of annotators; and how many answers several marked.
    ``None`` where no two marked the same, or it is not defined."""
    by_answer: dict[tuple[str, str], dict[str, Mark]] = defaultdict(dict)
    for mark in marks:
        if mark.spans is not None:
            by_answer[mark.run, mark.id][mark.annotator] = mark
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for of_annotators in by_answer.values():
        for first, second in combinations(sorted(of_annotators), 2):
            labels = (_labels(of_annotators[name]) for name in (first, second))
            pairs[first, second] += zip(*labels, strict=True)
    kappas = [float(cohen_kappa(contingency_table(labels, 2))) for labels in pairs.values()]
    defined = [kappa for kappa in kappas if kappa == kappa]
    return (fmean(defined) if defined else None), sum(len(each) > 1 for each in by_answer.values())


def _labels(mark: Mark) -> list[int]:
    return [int(category is not None) for category in covered(words(mark.answer, mark.language), mark.spans or ())]


def _listed(what: str, faults: Sequence[str]) -> str:
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return f"{what}: {'; '.join(faults[:_SHOWN])}{more}"
