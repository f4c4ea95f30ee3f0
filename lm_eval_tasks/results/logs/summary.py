"""What a log shows at a glance: the shares of flagged answers and words by group, and the answers that deserve a look; and
both as plain text for a terminal or a pipe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.hallucination import Estimates, estimate
from custom_metrics.reading.spans import Span, span_of
from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.unsupported import SENTENCE_CURVES
from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.intervals import sums_by_cluster
from custom_metrics.statistics.random_effects import Errors
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import on_one_line
from custom_metrics.usage.secrets import blank, blank_text
from lm_eval_tasks.clapnq.corpus import Passage
from lm_eval_tasks.models.baseline import best_passage
from lm_eval_tasks.results.formats import Section, render_sections, with_bounds
from lm_eval_tasks.results.logs.answers import Log
from lm_eval_tasks.results.logs.fields import NUMBERS
from lm_eval_tasks.results.logs.judged import EVIDENCE, FLAGGED_ANSWERS, JudgedAnswer

if TYPE_CHECKING:
    import pandas

LANGUAGE, MODEL = "language", "model"
MOST_GROUPS, TO_LOOK_AT = 30, 10
"""Groups that a terminal and a page show, the largest, where Python gets all; and answers that deserve a look."""
_NO_VALUE = "(none)"  # group of answers whose record lacks the field
_USAGE_TITLES = dict(zip(NUMBERS, ("tokens in", "tokens out", "cost", "seconds"), strict=True))
_LONGEST_ANSWER, _LONGEST_PASSAGE, _BEFORE = 700, 400, 200  # characters
_BRACKETS, _UNDERLINED_RED = ("[[", "]]"), ("\x1b[4;31m", "\x1b[0m")
_SPACES = str.maketrans("\t\n\r\x0b\x0c\u2028\u2029", " " * 7)


class FlaggedAnswer(NamedTuple):
    """An answer that deserves a look."""

    line: int
    id: str
    language: str
    model: str
    question: str
    answer: str
    passage: str  # the paragraph that is nearest to the most suspicious sentence
    spans: list[Span]
    probability: float  # that it holds anything unsupported; nan without a curve of the detector
    sentence: tuple[int, int, float]  # the most suspicious: start, end, and the same probability of it

    @classmethod
    def of(cls, judged: JudgedAnswer) -> FlaggedAnswer:
        """A judged answer, with its nearest paragraph."""
        row, doc, answer = judged.row, judged.row["doc"], judged.tagged["answer"]
        start, end, against = max(judged.sentences, key=lambda sentence: sentence[2])
        paragraphs = [Passage("", "", part.strip()) for part in doc["reference"].split("\n\n") if part.strip()]
        nearest = paragraphs[best_passage(answer[start:end], paragraphs)[0]].text if paragraphs else ""
        about = row["doc_id"], str(doc.get("query_id", "")), doc["language"], doc["model"], doc["query"]
        sentence = start, end, judged.probability(against, SENTENCE_CURVES)
        spans = [*map(span_of, judged.tagged["spans"])]
        return cls(*about, answer, nearest, spans, judged.probability(row[EVIDENCE]), sentence)


class Group:
    """Answers of a group. `names` maps each field of the grouping to its value; without any, all answers are meant."""

    def __init__(self, names: Mapping[str, str], frame: pandas.DataFrame) -> None:
        self.names, self.frame, self.answers = names, frame, len(frame)
        self.abstaining = int(frame["declined"].sum())
        self.unread = int(frame["flagged"].isna().sum()) - self.abstaining
        """Answers that have no word, or on which the detector failed."""
        self.clusters = frame["cluster"].nunique()
        """Conversations, documents or questions; bounds take answers of one together."""
        self.usage = {name: float(mean) for name, mean in frame[[*NUMBERS]].mean().items() if mean == mean}
        """Means, over the answers that have a number."""
        self.flagged_answers = self.share("flagged")

        self.flagged_words = self.words("flagged_words").detected

    def share(self, column: str) -> Figure:
        """The share of answers whose value is 1."""
        return defined_share.figure(Rows(self.frame[column].to_numpy(float), self.frame["cluster"].tolist()))

    def words(self, column: str, errors: Errors | None = None) -> Estimates:
        """The rates of words that are flagged, or expected to be wrong, with bounds over clusters."""
        sums = sums_by_cluster(self.frame[[column, "words"]].to_numpy(float), self.frame["cluster"].tolist())
        return Estimates(*(figure._replace(n=self.flagged_answers.n) for figure in estimate(sums, errors)))


class LogSummary:
    """The answers of a log, as they are added: all, the groups by the fields `by` (``language``, ``model``, or labels), and
    the most suspicious, each to another question or with other passages. UsageError for a field that none of the first
    records of the `logs` has."""

    def __init__(self, by: Sequence[str] = (), logs: Sequence[Log] = ()) -> None:
        known = {LANGUAGE, MODEL, *(label for log in logs for label in log.labels)}
        if logs and (unknown := [name for name in by if name not in known]):
            raise UsageError(
                f"--by {on_one_line(', '.join(unknown))}: no such field in the first records; there is "
                f"{on_one_line(', '.join(sorted(known)))}; --fields label=PATH adds one"
            )
        self._by, self._rows = [*by], list[dict[str, Any]]()
        self._worst: dict[tuple[str, str], tuple[float, int, JudgedAnswer]] = {}

    def add(self, judged: JudgedAnswer) -> None:
        """Add an answer."""
        row, doc, worst = judged.row, judged.row["doc"], self._worst
        fields = {name: doc[name] or _NO_VALUE for name in (LANGUAGE, MODEL)} | doc.get("labels", {})
        self._rows.append(
            judged.counts()
            | {name: doc.get(name) for name in (LANGUAGE, MODEL, "guessed", *NUMBERS)}
            | {"untagged": judged.tagged["spans"] is None, "no_passages": not doc["reference"]}
            | {f"by {name}": fields.get(name, _NO_VALUE) for name in self._by}
        )
        asked = doc["query"], doc["reference"]
        if row[FLAGGED_ANSWERS] and row[EVIDENCE] > worst.get(asked, (0.0,))[0]:
            worst[asked] = row[EVIDENCE], -int(row["doc_id"]), judged
            if len(worst) > TO_LOOK_AT:
                del worst[min(worst, key=lambda each: worst[each][:2])]

    @cached_property
    def total(self) -> Group:
        """All answers, once all are added."""
        import pandas

        return Group({}, pandas.DataFrame(self._rows).astype(dict.fromkeys(("flagged", *NUMBERS), float)))

    @property
    def groups(self) -> list[Group]:
        """In falling order of size."""
        parts = self.total.frame.groupby([f"by {name}" for name in self._by]) if self._by else ()
        groups = [Group(dict(zip(self._by, values, strict=True)), part) for values, part in parts]
        return sorted(groups, key=lambda group: (-group.answers, *group.names.values()))

    @property
    def to_look_at(self) -> list[FlaggedAnswer]:
        """The most suspicious first."""
        worst = sorted(self._worst.values(), key=lambda each: each[:2], reverse=True)
        return [FlaggedAnswer.of(judged) for *_, judged in worst]


def summary_text(summary: LogSummary, source: str, detector: str, coloured: bool = False) -> str:
    """What ``detect LOG`` prints: a line about the log, the table of groups, and the answers to look at. What is flagged is
    underlined in red, or in double brackets."""
    number, marks = summary.total.answers, _UNDERLINED_RED if coloured else _BRACKETS
    note = f"{on_one_line(source)}: {number:,} answer{'s' * (number != 1)}, read by {on_one_line(detector)}."
    table = render_sections([replace(groups_table(summary), before=(note,))], "text")
    listed = "\n\n".join(_shown(place, one, marks) for place, one in enumerate(summary.to_look_at, 1))
    heading = "Answers to look at, the most suspicious first\n\n"
    return f"{table}\n{heading}{listed}\n" if listed else f"{table}\nNo answer is flagged.\n"


def groups_table(summary: LogSummary) -> Section:
    """A row for all answers, and one for each of the largest groups."""
    total, groups = summary.total, summary.groups
    rates = "95 % bounds in brackets"
    if total.clusters < total.answers:
        rates += f"; they take the answers of one question or conversation together ({total.clusters:,})"
    if (more := len(groups) - MOST_GROUPS) > 0:
        rates += f"; {more:,} smaller groups are not shown"
    usage = {name: title for name, title in _USAGE_TITLES.items() if name in total.usage}

    def row(group: Group) -> tuple[str, ...]:
        label = ", ".join(f"{name}={blank(value)}" for name, value in group.names.items()) or "all"
        figures = (with_bounds(figure, "share") for figure in (group.flagged_answers, group.flagged_words))
        means = (f"{group.usage[name]:.3g}" if name in group.usage else "-" for name in usage)
        return on_one_line(label), f"{group.answers:,}", *figures, f"{group.abstaining:,}", *means

    header = ("group", "answers", "flagged answers", "flagged words", "declined", *usage.values())
    rows = tuple(map(row, [total, *groups][: MOST_GROUPS + 1]))
    return Section(header, rows, before=("Logged answers",), after=(f"{rates}.",))


def _shown(place: int, one: FlaggedAnswer, marks: tuple[str, str]) -> str:
    def likely(probability: float, form: str) -> str:
        return "" if math.isnan(probability) else form.format(f"{100 * probability:.0f} % likely")

    names = ", ".join(filter(None, (f"line {one.line}", blank(one.id), blank(one.model), one.language)))
    text, moved = blank_text(one.answer)
    at = max(0, moved(one.spans[0].start) - _BEFORE) if len(text) > _LONGEST_ANSWER else 0
    cut = min(len(text), at + _LONGEST_ANSWER)
    answer = ["... " * (at > 0)]
    for start, end in ((moved(span.start), min(moved(span.end), cut)) for span in one.spans):
        if start < cut:
            answer += [_line(text[at:start]), marks[0], _line(text[start:end]), marks[1]]
            at = end
    answer += [_line(text[at:cut]), " ..." * (cut < len(text))]
    lines = [f"{place}. {on_one_line(names)}{likely(one.probability, ': {} to hold something unsupported')}"]
    lines += [f"   question  {_cut(one.question)}"] if one.question else []
    lines += [f"   answer    {''.join(answer)}"]
    first, last, probability = one.sentence
    if last - first < len(one.answer.strip()):
        lines += [f"   sentence  {_cut(one.answer[first:last])}{likely(probability, ' ({})')}"]
    return "\n".join([*lines, f"   passage   {_cut(one.passage) or '(none)'}"])


def _line(text: str) -> str:
    return on_one_line(text.translate(_SPACES))


def _cut(text: str) -> str:
    text = blank(text)
    return _line(text[:_LONGEST_PASSAGE]) + " ..." * (len(text) > _LONGEST_PASSAGE)
