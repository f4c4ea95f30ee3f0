"""Reads files of marks, checks them, and joins them with their run.

A line is a JSON object of one annotator and one answer; ``lm_eval_tasks/results/marks/README.md`` describes it. All lines
of all files are checked before anything is computed: one error names the first lines that cannot be used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from custom_metrics.hallucination import flagged_words
from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, covered, span_of
from custom_metrics.reading.words import words
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.secrets import masked
from lm_eval_tasks.data.provenance import mapping
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.data.tables import flag_of, read_json_lines
from lm_eval_tasks.detection.marked import LABELS
from lm_eval_tasks.results.marks.draw import (
    KINDS,
    Draw,
    DrawnAnswer,
    TaskAnswers,
    chance_digest,
    language_of,
    reference_of,
)

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_SHOWN = 5  # faults that an error names


class Mark(NamedTuple):
    """One annotator's marks of an answer, or label of it."""

    where: str  # file and line
    kind: str  # one of draw.KINDS
    task: str
    id: str  # of the document
    annotator: str
    language: str
    reference: str
    run: str  # digest of its answers
    answer: str
    chance: float  # of the document, by one draw
    digest: Any  # of that, as it was drawn
    draw: Draw  # without chances
    spans: tuple[Span, ...] | None  # None: the annotator cannot tell
    labels: Mapping[str, float]  # 1 of the one that was given, 0 of others; empty for spans
    suggested: bool  # whether the detector's spans were shown first

    @property
    def share(self) -> float:
        """The marked share of the answer's words."""
        marked, number = flagged_words(self.answer, self.spans, self.language)
        return marked / number if number else 0.0

    def inclusion(self, number: int) -> tuple[float, float]:
        """Of the document among so many draws: :meth:`Draw.inclusion`."""
        return self.draw.inclusion(self.chance, number)


class MarksOfTask(NamedTuple):
    """People's marks of a run's answers to a task."""

    answers: Mapping[str, DrawnAnswer]  # by the document's id
    description: Mapping[str, Any]  # for the results file: files, seed, annotators, agreement and so on


def read_marks(paths: Iterable[Path]) -> list[Mark]:
    """The marks, of any kind, in files of JSON lines, or exports of Label Studio (``.json``). A line that occurs twice
    counts once. A CorruptSource names lines that are damaged, and answers that an annotator has marked twice."""
    marks: dict[tuple[Any, ...], Mark] = {}
    faults: list[str] = []
    rows = [(f"{path}, line {number}", row) for path in paths for number, row in read_rows(path)]
    draws: dict[str, Draw] = {}  # each draw, with the longest order that a line has
    for _, row in rows:
        with suppress(ValueError):
            record = draw_record(row.get("draw"))
            draws[_draw_key(row)] = max(draws.get(_draw_key(row), record), record, key=lambda each: len(each.order))
    for where, row in rows:
        try:
            mark = _mark(where, row, draws.get(_draw_key(row)))
        except ValueError as error:
            faults.append(f"{where}: {error}")
            continue
        earlier = marks.setdefault((mark.kind, mark.task, mark.run, mark.id, mark.annotator), mark)
        if (earlier.spans, earlier.labels, earlier.answer) != (mark.spans, mark.labels, mark.answer):
            faults.append(f"{where}: {mark.annotator} has marked {mark.id} in {earlier.where}, and otherwise")
    if faults:
        raise CorruptSource(_first_faults("marks that cannot be used", faults))
    if not marks:
        raise CorruptSource(f"{', '.join(map(str, paths))}: no mark in it")
    return [*marks.values()]


def read_rows(path: Path) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """The lines of a file of marks, or of an export, by number; not yet checked."""
    if path.suffix == ".json":
        return enumerate(lines_from_export(path), 1)
    return read_json_lines(path)


def _draw_key(row: Mapping[str, Any]) -> str:
    """A key that lines of one draw share."""
    fields = mapping(row.get("draw"))
    return json.dumps([row.get("task"), row.get("kind"), fields.get("seed"), fields.get("runs")])


def _mark(where: str, row: Mapping[str, Any], draw: Draw | None) -> Mark:
    """The mark of a line; `draw` is its draw as any line has it. A ValueError says what is wrong."""
    kind = _field(row, "kind", lambda value: value in KINDS, f"none of {', '.join(KINDS)}")
    names = ("task", "id", "annotator", "language", "reference")
    texts = {name: _text(row, name, may_be_empty=name == "reference") for name in names}
    chance = _field(row, "chance", lambda it: type(it) in (int, float) and 0 < it <= 1, "not a number between 0 and 1")
    if draw is None or "order" in (row.get("draw") or ()):
        draw = draw_record(row.get("draw"))
    run, answer = _text(row, "run"), _text(row, "answer", may_be_empty=kind == "labels")
    lacking = [texts["id"]] * (texts["id"] not in draw.order) + [run] * (run not in draw.runs)
    if lacking:
        raise ValueError(f"its draw does not have {lacking[0]!r}")
    cannot_tell, suggested = (flag_of(row, name) for name in ("cannot_tell", "suggested"))
    if cannot_tell and row.get("spans"):
        raise ValueError("it has spans, and cannot_tell")
    has_spans = kind == "spans" and not cannot_tell
    return Mark(
        where=where,
        kind=kind,
        **texts,
        run=run,
        answer=answer,
        chance=float(chance),
        digest=row.get("chance_digest"),
        draw=draw,
        spans=_spans(row.get("spans"), len(answer)) if has_spans else None,
        labels=_label(row) if kind == "labels" else {},
        suggested=suggested,
    )


def _field(row: Mapping[str, Any], name: str, is_valid: Callable[[Any], bool], otherwise: str) -> Any:
    value = row.get(name)
    if not is_valid(value):
        raise ValueError(f"{name} is {value!r:.80}, {otherwise}")
    return value


def _text(row: Mapping[str, Any], name: str, may_be_empty: bool = False) -> str:
    return str(_field(row, name, lambda it: isinstance(it, str) and (may_be_empty or it != ""), "not a text"))


def _label(row: Mapping[str, Any]) -> dict[str, float]:
    label = _field(row, "label", lambda value: value in LABELS, f"none of {', '.join(LABELS)}")
    return {name: float(name == label) for name in LABELS}


def draw_record(value: Any) -> Draw:
    """The field ``draw`` of a line with the order; ValueError where it is damaged or has no order."""
    fields = mapping(value)
    if fields and "order" not in fields:
        raise ValueError("no line says the order of its draw; name the whole saved file, whose first line does")
    seed, runs, order, thresholds = (fields.get(name) for name in Draw._fields[:4])
    lists = [values for values in (runs, order) if isinstance(values, list) and values]
    if type(seed) is not int or len(lists) != 2 or not all(isinstance(text, str) for text in (*lists[0], *lists[1])):
        raise ValueError("draw is not an object with seed, runs and order")
    if not isinstance(thresholds, list) or len(thresholds) != len(lists[1]):
        raise ValueError("draw does not have as many thresholds as draws")
    numbers = [math.inf if value is None else value for value in thresholds]
    if not all(type(value) in (int, float) and value > 0 for value in numbers):
        raise ValueError("a threshold of the draw is neither a number above 0 nor null")
    draw = Draw(seed, tuple(lists[0]), tuple(lists[1]), tuple(numbers))
    if fields.get("digest") != draw.digest:
        raise ValueError("order or thresholds of the draw were changed; take the line as the page saved it")
    return draw


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


def join(marks: Sequence[Mark], answers: TaskAnswers, complete_to: int | None = None) -> MarksOfTask:
    """The marks of spans in a run's answers to a task; without an answer where no mark is of this task and run.

    Args:
        marks: of any kinds, tasks and runs.
        answers: of the run.
        complete_to: the number of draws that count, from the first; default all, of which none may lack a mark.

    Raises:
        UsageError: a mark of this task is of another answer, reference or draw; marks are of several draws; or a drawn
            answer has no mark.
    """
    task = answers.task
    mine = _marks_of_run(marks, answers, "spans")
    if not mine:
        return MarksOfTask({}, {})
    # An answer without words that count has nothing to mark in this run. Another run of the draw may have answered: it
    # stays among the draws of both, with weight 0.
    shares = dict(zip(answers.ids, answers.shares.tolist(), strict=True))
    counted, by_id = counted_draws(mine, task, complete_to, {name for name, share in shares.items() if not share})
    drawn = {}
    for name in counted:
        if not shares[name]:
            drawn[name] = DrawnAnswer(0.0, 0.0)
            continue
        marked = [mark.share for mark in by_id[name] if mark.spans is not None]
        included, left_out = by_id[name][0].inclusion(len(counted))
        weight, spans = shares[name] / included, sorted({s for mark in by_id[name] for s in mark.spans or ()})
        mean = fmean(marked) if marked else None
        drawn[name] = DrawnAnswer(weight, mean, spans=spans, left_out=left_out)
    counting = [mark for mark in mine if mark.id in drawn]
    kappa, several = kappa_of_words(counting)
    more = {"kappa": kappa, "answers_of_several": several, "suggested": sum(mark.suggested for mark in counting)}
    return MarksOfTask(drawn, {**basis_of(counting, counted), **more})


def join_labels(marks: Sequence[Mark], answers: TaskAnswers, complete_to: int | None = None) -> MarksOfTask:
    """People's labels of a run's answers; the arguments and errors are those of
    :func:`join`."""
    mine = _marks_of_run(marks, answers, "labels")
    if not mine:
        return MarksOfTask({}, {})
    counted, by_id = counted_draws(mine, answers.task, complete_to)
    drawn = {}
    for name in counted:
        answered, declined = (fmean(mark.labels[label] for mark in by_id[name]) for label in LABELS[:2])
        included, _ = by_id[name][0].inclusion(len(counted))
        drawn[name] = DrawnAnswer(1 / included, answered, declined)
    counting = [mark for mark in mine if mark.id in drawn]
    by_annotator: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for mark in counting:
        by_annotator[mark.id][mark.annotator] = [max(range(len(LABELS)), key=lambda at: mark.labels[LABELS[at]])]
    kappa, several = mean_kappa(by_annotator.values())
    return MarksOfTask(drawn, {**basis_of(counting, counted), "kappa": kappa, "answers_of_several": several})


def _marks_of_run(marks: Iterable[Mark], answers: TaskAnswers, kind: str) -> list[Mark]:
    """The marks of a kind that are of a run's answers to a task; a UsageError where they are of others."""
    task, digest, places = answers.task, answers.digest, {name: place for place, name in enumerate(answers.ids)}
    of_task = [mark for mark in marks if mark.task == task and mark.kind == kind]
    mine = [mark for mark in of_task if mark.run == digest]
    if of_task and not any(digest in mark.draw.runs for mark in of_task):
        raise UsageError(
            f"{of_task[0].where}: this mark of {task} is of another run: its answers have the digest {of_task[0].run}, "
            f"those here {digest}. Name the run that the answers were drawn from"
        )
    refuse(f"marks that are not of this run of {task}", mine, lambda mark: _difference(mark, answers, places))
    return mine


def refuse(what: str, marks: Iterable[Mark], why: Callable[[Mark], str]) -> None:
    """Raise a UsageError that names the first marks that cannot be used, where `why` has a reason."""
    faults = [f"{mark.where}: {reason}" for mark in marks if (reason := why(mark))]
    if faults:
        raise UsageError(_first_faults(what, faults))


def counted_draws(
    marks: Sequence[Mark], task: str, complete_to: int | None, unneeded: Collection[str] = ()
) -> tuple[tuple[str, ...], dict[str, list[Mark]]]:
    """The draws of one draw's marks that count, the first `complete_to` or all, and the marks, which all have this draw, by
    the document's id.

    Raises:
        UsageError: the marks are of several draws, or a drawn answer has none and is not among the `unneeded`.
    """
    longest = max(marks, key=lambda mark: len(mark.draw.order))  # begins with all other draws
    order = longest.draw.order
    for mark in marks:
        number = len(mark.draw.order)
        if mark.draw != longest.draw._replace(order=order[:number], thresholds=longest.draw.thresholds[:number]):
            raise UsageError(
                f"{mark.where} and {longest.where} are of different draws; marks can be joined that are of one draw, with "
                f"the same --seed and runs"
            )
    if not 1 <= (1 if complete_to is None else complete_to) <= len(order):
        raise UsageError(f"{task}: --complete-to {complete_to}, of {len(order)} draws: name one of 1 to {len(order)}")
    by_id: dict[str, list[Mark]] = defaultdict(list)
    for mark in marks:
        by_id[mark.id].append(mark._replace(draw=longest.draw))
    counted = order if complete_to is None else order[:complete_to]
    missing = list(dict.fromkeys(name for name in counted if name not in unneeded and name not in by_id))
    if missing:
        names = f"{', '.join(missing[:20])}{', ...' if len(missing) > 20 else ''}"
        before = order.index(missing[0])
        advice = f", or count the draws before them: --complete-to {before}" if before else ""
        raise UsageError(f"{task}: {len(missing)} drawn answers are not marked: {names}. Mark them{advice}")
    return counted, by_id


def basis_of(marks: Sequence[Mark], counted: Sequence[str]) -> dict[str, Any]:
    """Files, draw and annotators of the marks that count, for the results file."""
    draw = marks[0].draw
    return {
        "files": sorted({Path(mark.where.rpartition(", line ")[0]).name for mark in marks}),
        "draw": hashlib.sha256(repr((draw[:2], counted)).encode("utf-8", "surrogatepass")).hexdigest()[:12],
        "seed": draw.seed,
        "runs": len(draw.runs),
        "annotators": len({mark.annotator for mark in marks}),
    }


def _difference(mark: Mark, answers: TaskAnswers, places: Mapping[str, int]) -> str:
    """The reason why a mark does not belong to a run's answer; empty where it does. `places` are those of the documents."""
    if mark.id not in places:
        return f"the run has no document {mark.id}"
    place = places[mark.id]
    if masked(mark.answer) != masked(answers.texts[place]):
        return f"the answer to {mark.id} is another one"
    logged = answers.logged[place]
    if masked(mark.reference) != masked(reference_of(logged)):
        return f"the reference of {mark.id} is another one"
    if mark.language != (language := language_of(logged, answers.language)):  # it decides what a word is
        return f"the language of {mark.id} is {language}, not {mark.language}"
    if mark.digest == chance_digest(mark.id, mark.chance, mark.draw.seed, mark.draw.runs):
        return ""
    return f"chance {mark.chance:g} of {mark.id} is not that of its draw; take the line as the page saved it"


def kappa_of_words(marks: Sequence[Mark]) -> tuple[float | None, int]:
    """:func:`mean_kappa` of words, marked or not."""
    by_answer: dict[tuple[str, str], dict[str, Sequence[int]]] = defaultdict(dict)
    for mark in marks:
        if mark.spans is not None:
            categories = covered(words(mark.answer, mark.language), mark.spans)
            by_answer[mark.run, mark.id][mark.annotator] = [int(category is not None) for category in categories]
    return mean_kappa(by_answer.values())


def mean_kappa(labels: Iterable[Mapping[str, Sequence[int]]]) -> tuple[float | None, int]:
    """Cohen's kappa, the mean over pairs of annotators, and the number of items that several labelled, from the labels of
    each item by annotator. ``None`` for a kappa without two annotators of one item, or without two labels."""
    from sklearn.metrics import cohen_kappa_score

    pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    several = 0
    for by_annotator in labels:
        several += len(by_annotator) > 1
        for first, second in combinations(sorted(by_annotator), 2):
            pairs[first, second] += zip(by_annotator[first], by_annotator[second], strict=True)
    kappas = [float(cohen_kappa_score(*zip(*each, strict=True))) for each in pairs.values() if len({*chain(*each)}) > 1]
    return (fmean(kappas) if kappas else None), several


def _first_faults(what: str, faults: Sequence[str]) -> str:
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return f"{what}: {'; '.join(faults[:_SHOWN])}{more}"


# ---------------------------------------------------------------------------------------------------- Label Studio

# Marking of spans in Label Studio (https://labelstud.io/guide/task_format): its tasks' data are lines of a marks file.

_INTERFACE = """<View>
  <Style>.htx-text { white-space: pre-wrap; }</Style>
  <Header value="$question"/>
  <Text name="answer" value="$answer" valueType="text" saveTextResult="yes"/>
  <Labels name="spans" toName="answer">%s</Labels>
  <Header size="6" value="Nothing made up: submit without a mark."/>
  <Choices name="verdict" toName="answer"><Choice value="cannot tell"/></Choices>
  <TextArea name="note" toName="answer" placeholder="note" maxSubmissions="1"/>
  <Text name="reference" value="$reference" valueType="text"/>
</View>
"""  # without `pre-wrap` spaces are trimmed, and offsets shift
_NOT_COMPARED = re.compile(r"\s|\\n")  # Label Studio stores a line feed of a marked text as `\n`


def project(content: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The tasks of a page's content, each with the order of the draw, and the labelling interface, XML."""
    tasks = [{"data": {**item["line"], "draw": content["items"][0]["line"]["draw"]}} for item in content["items"]]
    return tasks, _INTERFACE % "".join(f'<Label value="{name}"/>' for name in content["categories"] or [HALLUCINATION])


def lines_from_export(path: Path) -> list[dict[str, Any]]:
    """The lines of a marks file in a JSON export, one for each annotation that was not cancelled; else CorruptSource."""
    try:
        annotated = [
            (task["data"], each) for task in json.loads(path.read_text("utf-8-sig")) for each in task["annotations"]
        ]
        return [_line(data, annotation) for data, annotation in annotated if not annotation.get("was_cancelled")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptSource(f"{path}: not a JSON export of Label Studio ({error!r})") from error


def _line(data: Mapping[str, Any], annotation: Mapping[str, Any]) -> dict[str, Any]:
    """The line of an annotation. Regions of the answer may stand under a tag of any name; what is neither a region, nor
    under a tag of our interface, is a ValueError."""
    values = [(result.get("from_name"), result["value"]) for result in annotation["result"]]
    regions = []
    for result, (name, value) in zip(annotation["result"], values, strict=True):
        if "labels" in value and result.get("to_name", "answer") == "answer":
            regions.append(value)
        elif name not in ("verdict", "note"):
            raise ValueError(f"{data['id']} has a result of the tag {name!r:.80}, which is no region of the answer")
    for start, end, text in ((value["start"], value["end"], value["text"]) for value in regions):
        if _NOT_COMPARED.sub("", marked := data["answer"][start:end]) != _NOT_COMPARED.sub("", text):
            raise ValueError(f"a region of {data['id']} is {marked!r:.80}, not {text!r:.80}")
    cannot_tell, person = any(name == "verdict" for name, _ in values), annotation["completed_by"]
    return {
        **data,
        "annotator": str(person["email"] if isinstance(person, dict) else person),
        "spans": None if cannot_tell else [[at["start"], at["end"], label] for at in regions for label in at["labels"]],
        "cannot_tell": cannot_tell,
        "note": "\n".join(text for name, value in values if name == "note" for text in value["text"]),
        "seconds": annotation.get("lead_time") or 0,
    }
