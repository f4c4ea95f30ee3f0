"""The random draw of answers that people mark, from which a rate of all answers is estimated.

Answers are drawn without replacement, in proportion to their words, so that few answers with most of the words are among
those drawn. Labels are half of questions that can be answered, and drawn twice as often where ours is doubtful. All runs
get the same documents, so that differences between models are paired.

Each document has an exponential random number, over its chance; documents are marked in the order of these quotients. So a
longer draw begins with a shorter one, and ``score --complete-to`` counts as many of the first as are marked. The threshold
of a draw is the quotient of the next document. It says with which probability each document is drawn, which the estimator
needs (:mod:`custom_metrics.statistics.marked`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.abstention import is_abstention
from custom_metrics.reading.words import words
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, nomiracl_label, robust_label
from custom_metrics.statistics.marked import FEWEST_DRAWS, Draws, marked_mean
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.filters import as_text
from lm_eval_tasks.clapnq.corpus import Passage
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.detection.marked import expected_share, marked_balanced_error
from lm_eval_tasks.results import LOGGED, is_tagged
from lm_eval_tasks.results.report.readers import passages_of, tagged_answer
from lm_eval_tasks.runs import Answer, Answers, TaskRun, differing_columns

KINDS = ("spans", "labels")
"""Kinds of marks: the made-up parts of an answer, and whether an answer answers or declines."""


class DrawnAnswer(NamedTuple):
    """An answer that was drawn, as people marked it."""

    weight: float  # its share of all words over its probability; 0 without words that count
    # the mean of the annotators' shares of its words, of labels of those who say that it answers; None: nobody could tell
    marked: float | None
    declines: float = 0.0  # of labels the share of those who say that it declines
    spans: Sequence[Sequence[Any]] = ()  # that any annotator marked
    left_out: float = 1.0  # probability that the draw leaves it out


class TaskAnswers(NamedTuple):
    """A run's answers to a task. Arrays are (answers,), in the order of the documents."""

    task: str
    model: str
    language: str
    logged: Answers
    ids: Sequence[str]  # of the documents
    texts: Sequence[str]  # of the answers, as a detector gets them
    words: NDArray[np.float64]  # that count, of labels chances; 0 for an answer that abstains from given passages
    expected: NDArray[np.float64]  # share of an answer's words that the detector expects to be made up
    answerable: NDArray[np.bool_]  # of labels whether a question has an answer in its passages
    is_tagged: bool  # whether a detector has read the answers
    digest: str
    kind: str = "spans"
    filter: str = "answer"  # whose reading counts
    labels: NDArray[np.float64] = np.empty(0)  # where people are to label the answers, the number of our label
    doubtful: NDArray[np.bool_] = np.empty(0, bool)  # whether that is less sure than others

    @classmethod
    def of(cls, model: str, task: TaskRun, kind: str = "spans") -> TaskAnswers:
        """The answers of a model's run, for a kind of marks.

        Raises:
            UsageError: the task is none whose answers are held against a text.
            MissingSource: the answers were not logged.
            CorruptSource: the samples file is damaged, empty, or has a document twice.
        """
        if kind == "labels" and not can_be_labelled(task):
            raise UsageError(f"{task.task}: people label answers of nomiracl_*, clapnq_gold* and clapnq_rag*")
        if kind != "labels" and not is_tagged(task.task):
            raise UsageError(
                f"{task.task}: people mark answers of mfava_<language>, clapnq_gold*, clapnq_rag* and {LOGGED}, which are "
                f"held against a text{'; --kind labels is for this task' if can_be_labelled(task) else ''}"
            )
        given = task.benchmark == "clapnq" or task.task == LOGGED  # passages, from which an answer may abstain

        def measure(answer: Answer, filter_name: str, _: bool) -> dict[str, Any]:
            if kind == "labels":
                return labelled(task, answer, filter_name)
            text, spans = tagged_answer(answer.readings[filter_name].answer, answer.response)
            language = language_of(answer, task.language or "en")
            number = 0 if given and is_abstention(text, language) else len(words(text, language))
            try:
                share = expected_share(text, spans, language)
            except ValueError as error:
                raise CorruptSource(f"{task.samples}, document {answer.doc.get('id')!r}: {error}") from error
            return {"answer": text, "words": number, "expected": share, "tagged": spans is not None}

        logged = task.answers(measure)
        if not len(logged):
            raise CorruptSource(f"{logged.path}: no sample can be read")
        ids = [*(logged.ids or logged.keys)]
        if len({*ids}) < len(ids):
            twice = next(name for place, name in enumerate(ids) if name in ids[:place])
            raise CorruptSource(f"{logged.path}: two documents have the id {twice!r}; marks name a document by its id")
        name = task.headline_filter if task.headline_filter in logged.readings else next(iter(logged.readings))
        values = logged.readings[name].derived
        texts = [text if isinstance(text, str) else "" for text in values["answer"].values()]
        numbers = {key: np.nan_to_num(column.numbers) for key, column in values.items()}
        none = np.zeros(len(ids))
        asked, doubtful = (numbers.get(key, none) > 0 for key in ("asked", "doubtful"))
        return cls(
            *(task.task, model, task.language or "en", logged, ids, texts),
            *(label_chances(asked, doubtful) if kind == "labels" else numbers["words"], numbers.get("expected", none)),
            *(asked, bool(numbers.get("tagged", none).any())),
            run_digest(dict(zip(ids, texts, strict=True))),
            *(kind, name),
            *(numbers.get("label", none), doubtful),
        )

    @property
    def shares(self) -> NDArray[np.float64]:
        """(answers,) of the words of all answers."""
        return np.asarray(self.words / max(1.0, self.words.sum()))

    def label_values(self, drawn: Mapping[str, DrawnAnswer]) -> list[dict[str, Any]]:
        """The value of each answer for rates by labels, which are those of `drawn` documents (id to answer)."""
        columns = (column.astype(int).tolist() for column in (self.answerable, self.labels, self.doubtful))
        values = []
        for name, answerable, label, doubtful in zip(self.ids, *columns, strict=True):
            value = {"answerable": answerable, "label": label, "doubtful": doubtful}
            if (mark := drawn.get(name)) is not None:
                of_people = {"answers": mark.marked, "declines": mark.declines}
                value |= {"times": 1, "weight": mark.weight, **of_people}
            values.append(value)
        return values


class Draw(NamedTuple):
    """Documents in the order drawn."""

    seed: int
    runs: tuple[str, ...]  # digests of the runs' answers
    order: tuple[str, ...]  # ids, one for each draw
    thresholds: tuple[float, ...]  # of each number of draws; inf: that is all
    chances: Mapping[str, float] = {}  # id of each document to the probability that it is drawn first

    def inclusion(self, chance: float, number: int) -> tuple[float, float]:
        """The probability that a document with this chance is among the first draws, and the other that it is not."""
        reach = chance * self.thresholds[number - 1]
        return -math.expm1(-reach), math.exp(-reach)

    def fields(self, name: str) -> dict[str, Any]:
        """The fields of a document's line about the draw; one line of a file has :attr:`listed`, too."""
        chance = self.chances[name]
        digest = chance_digest(name, chance, self.seed, self.runs)
        return {"chance": chance, "chance_digest": digest, "draw": {"seed": self.seed, "runs": [*self.runs]}}

    @property
    def listed(self) -> dict[str, Any]:
        """The order of the draw, its thresholds (``None``, as JSON has no infinity, where all are drawn), and the digest of
        seed, runs, and both."""
        thresholds = [None if math.isinf(value) else float(value) for value in self.thresholds]
        digest = _digest([self.seed, [*self.runs], [*self.order], thresholds])
        return {"order": [*self.order], "thresholds": thresholds, "digest": digest}


def chance_digest(name: str, chance: float, seed: int, runs: Sequence[str]) -> str:
    """The digest of a document's chance in a draw. Of several runs the chance cannot be computed from one of them."""
    return _digest([name, float(chance), seed, [*runs]])


def _digest(fields: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]


def run_digest(answers: Mapping[str, str]) -> str:
    """The digest of a run's answers to a task: id of a document to answer, in the order of the documents."""
    digest = hashlib.sha256()
    for name, answer in answers.items():
        text = hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()
        digest.update(f"{name}\t{text}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def reference_of(answer: Answer) -> str:
    """The text that an answer is held against. Samples of CLAPnq lack its column, and have the passages; those of NoMIRACL
    have them in the prompt."""
    doc = answer.doc
    try:
        if "docids" in doc and "passages" not in doc:
            shown = passages_of(answer.prompt, len(doc["docids"]))
            texts = ("".join(piece.text for piece in passage.text.pieces) for passage in shown)
            return "\n\n".join(f"[{each.number}] {each.title}\n{text}" for each, text in zip(shown, texts, strict=True))
        if "reference" in doc or "groundings" in doc:
            return as_text(doc.get("reference", doc.get("groundings")))
        return as_text([Passage("", passage["title"], passage["text"]).grounding for passage in doc["passages"]])
    except (KeyError, TypeError) as error:
        raise CorruptSource(f"document {doc.get('id')!r} has neither reference nor passages") from error


def language_of(answer: Answer, of_task: str) -> str:
    """The language in which the words of an answer are counted."""
    return str(answer.doc.get("language") or of_task)


def draw(runs: Sequence[TaskAnswers], number: int, seed: int) -> Draw:
    """Draw documents. For spans a document's chance is its share of the words of all answers, the mean over the runs; for
    labels that of :func:`label_chances`.

    Args:
        runs: of one task, with the same documents.
        number: of draws; of fewer documents all are drawn.
        seed: with the same one, a longer draw begins with this one.

    Raises:
        UsageError: there are too few draws for bounds, the documents of the runs differ, two runs have the same answers, or
            there is nothing to draw.
    """
    if number < FEWEST_DRAWS:
        raise UsageError(f"{number} answers: draw {FEWEST_DRAWS} or more, or there are no bounds")
    if seed < 0:
        raise UsageError(f"seed {seed}: give 0 or more")
    first = runs[0]
    for place, run in enumerate(runs[1:], 1):
        _check_same_documents(first, run)
        if twin := next((other for other in runs[:place] if other.digest == run.digest), None):
            raise UsageError(f"{run.task}: {twin.model} and {run.model} gave the same answers; name a run once")
    shares = [dict(zip(run.ids, run.shares.tolist(), strict=True)) for run in runs]
    chances = np.array([math.fsum(share[name] for share in shares) / len(runs) for name in first.ids])
    if not chances.any():
        raise UsageError(f"{first.task}: nothing to draw: no answer has a word to mark")
    places, thresholds = ranking(chances, seed)
    order, digests = tuple(first.ids[place] for place in places[:number]), tuple(run.digest for run in runs)
    return Draw(seed, digests, order, thresholds[:number], dict(zip(first.ids, chances.tolist(), strict=True)))


def ranking(chances: NDArray[np.float64], seed: int) -> tuple[list[int], tuple[float, ...]]:
    """The places of all documents that can be drawn, in the order drawn, and the threshold of each number of draws."""
    possible = np.flatnonzero(chances)
    quotients = np.random.default_rng(seed).standard_exponential(len(chances))[possible] / chances[possible]
    order = np.argsort(quotients, kind="stable")
    return possible[order].tolist(), (*quotients[order].tolist()[1:], math.inf)


def _check_same_documents(first: TaskAnswers, second: TaskAnswers) -> None:
    """UsageError where two runs do not have the same documents; it names what differs."""
    where = f"{first.task}: the runs of {first.model} and {second.model} cannot be marked together"
    alone = sorted({*first.ids} ^ {*second.ids})
    if alone:
        owner = first if alone[0] in {*first.ids} else second
        raise UsageError(f"{where}: {len(alone)} documents are in one of them only, such as {alone[0]} ({owner.model})")
    places = {name: place for place, name in enumerate(second.ids)}
    for place, name in enumerate(first.ids):
        if first.logged.content(place) != second.logged.content(places[name]):
            docs = first.logged[place].doc, second.logged[places[name]].doc
            if columns := [column for column in differing_columns(*docs) if column != "language"]:
                raise UsageError(f"{where}: document {name} differs in {', '.join(columns)}")


# ------------------------------------------------------------------------------------------------------ what to expect

NUMBERS = (25, 50, 100, 200)
_SIMULATIONS = 40


class Expectation(NamedTuple):
    """The work and the precision of a number of answers."""

    answers: int  # of a run
    items: int  # to mark, of all runs
    width: float  # approximate width of the rate's 95 % bounds, of the run where they are widest


def expectations(runs: Sequence[TaskAnswers], seed: int, numbers: Sequence[int] = NUMBERS) -> list[Expectation]:
    """Forecasts for numbers of answers, or for all answers where there are fewer. The other arguments are those of
    :func:`draw`."""
    to_mark = [{name for name, number in zip(run.ids, run.words, strict=True) if number} for run in runs]
    width_of = _width if runs[0].kind == "spans" else _width_of_labels
    expected = {}
    for number in sorted(numbers):
        drawn = draw(runs, number, seed)
        items = sum(name in names for name in drawn.order for names in to_mark)
        width = max(width_of(run, drawn) for run in runs)
        expected[len(drawn.order)] = Expectation(len(drawn.order), items, width)
    return [*expected.values()]


def _width_of_labels(run: TaskAnswers, drawn: Draw) -> float:
    """The width of the balanced error's bounds if people label the drawn answers as we do."""
    same = {
        name: DrawnAnswer(
            1 / drawn.inclusion(drawn.chances[name], len(drawn.order))[0], *np.eye(3)[int(label), :2].tolist()
        )
        for name, label in zip(run.ids, run.labels.tolist(), strict=True)
        if name in {*drawn.order}
    }
    figure = marked_balanced_error.figure_of(run.label_values(same))
    return figure.high - figure.low


def _width(run: TaskAnswers, drawn: Draw) -> float:
    """The mean width of these draws' bounds, with their articles, over simulated marks, whose shares have the
    spread of Mu-SHROOM's annotated answers.

    There the detector's reading leaves a variance of a quarter of m (1 - m) (eight languages: 0.13 to 0.45), where m is
    the share of all words: that of a beta distribution with parameters 3 m and 3 (1 - m). A detector's expectation is only
    a hint at m (14 % where people mark 48 %, 44 % where they mark 10 %), so m is halfway between it and a half. Without a
    detector the shares are uniform.
    """
    share = (float(run.shares @ run.expected) + 0.5) / 2 if run.is_tagged else 0.5
    size = 3 if run.is_tagged else 2
    at = {name: place for place, name in enumerate(run.ids)}
    places = [at[name] for name in drawn.order]
    included, left_out = zip(*(drawn.inclusion(drawn.chances[name], len(places)) for name in drawn.order), strict=True)
    weights = run.shares[places] / included
    if not any(weights):
        return math.nan
    articles = run.logged.articles
    clusters = None if articles is None else [articles[place] for place in places]
    draws, rng = Draws.of(weights, clusters, left_out), np.random.default_rng(0)
    nothing, widths = np.zeros(len(places)), []
    for _ in range(_SIMULATIONS):
        shares = rng.beta(size * share, size * (1 - share), len(places))
        figure = marked_mean(draws, shares, nothing, 0.0).figure
        widths.append(figure.high - figure.low)
    return float(np.mean(widths))


_OURS = (ANSWER, NO_ANSWER, INVALID)  # in the order of lm_eval_tasks.detection.marked.LABELS
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
