"""Labelled answers of the benchmarks and of files, for detectors to be trained on; and test sets, which are not.

The table of a benchmark that has some names its collections (``Benchmark.labelled``).

A line of a file is an object with ``question``, ``reference``, ``answer``, ``spans`` (a list of ``[start, end, category]``)
and ``language``. It may have ``model``, ``article``, ``group`` (a key that translations of one text share), ``soft`` (a
list of ``[start, end, share of annotators]``) and ``annotations`` (``real``, ``rag``, ``gold``, or ``silver``, the
default). Places are whole numbers, in characters of the answer. Files of marks (``lm-eval-grounded mark``) have such
lines; those with ``cannot_tell`` are left out.
"""

from __future__ import annotations

import hashlib
import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.reading.spans import CATEGORIES, HALLUCINATION, Span, span_of
from custom_metrics.usage import shipped_rows
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.calibration import ANNOTATIONS
from detector_plugin.labelled import LabelledAnswer, is_unreadable
from lm_eval_tasks.data.sources import CorruptSource, MissingSource, mirror_folder
from lm_eval_tasks.data.tables import flag_of, read_json_lines, text_of
from lm_eval_tasks.definition import catalogue

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

EMPTY = "answers left out, empty or only white space"
UNJUDGED = "answers left out, whose annotator could not tell"
_USUAL = "silver"  # the kind that promises least


class Collection(NamedTuple):
    """A set of labelled answers that has a name."""

    languages: Sequence[str]  # ISO 639 codes of the public files
    read: Callable[[str, str | None], list[LabelledAnswer]]  # by language and mirror; None: the network
    source: str  # who made it
    licence: str  # of the data


def collections() -> Mapping[str, Collection]:
    by_name: dict[str, Collection] = {}
    for table in filter(lambda table: table.labelled, catalogue.tables().values()):
        module, _, name = table.labelled.rpartition(".")
        by_name |= getattr(import_module(module), name)
    return by_name


def labelled_answers(
    mirror: str | None = None, names: Sequence[str] | None = None, languages: Sequence[str] | None = None
) -> list[LabelledAnswer]:
    """The annotated answers of a mirror (default: ``LM_EVAL_GROUNDED_MIRROR``), of all or some collections and
    languages. The log names languages without files; MissingSource where there is no answer."""
    folder = mirror_folder(mirror)
    place = str(folder) if folder else None
    answers: list[LabelledAnswer] = []
    missing: list[str] = []
    for name, collection in collections().items():
        for code in collection.languages:
            if (names is not None and name not in names) or (languages is not None and code not in languages):
                continue
            try:
                answers += collection.read(code, place)
            except (MissingSource, ValueError) as error:  # not there, or without an answer in this language
                log.debug("%s", error)
                missing.append(f"{code} {name}")
    if missing:
        log.warning("without %s, whose files are not there", ", ".join(missing))
    if not answers:
        raise MissingSource("no annotated answer is to be had; name a mirror of the public files with --mirror DIR")
    return answers


def readable(documents: Sequence[LabelledAnswer]) -> list[LabelledAnswer]:
    """The answers whose reference is text, not marks for words that a translation model could not write."""
    return [document for document in documents if not is_unreadable(document.reference)]


def read_labelled_lines(path: Path, left_out: Counter[str]) -> list[LabelledAnswer]:
    """The labelled answers of a file ``.jsonl`` or ``.jsonl.gz``. Lines that are left out are counted in `left_out`. A
    MissingSource where there is no such file; a CorruptSource, with the line and the reason, where one is no labelled
    answer."""
    if not path.is_file():
        raise MissingSource(f"{path}: no such file; --data names collections and files of JSON lines")
    answers = []
    for number, row in read_json_lines(path):
        try:
            if flag_of(row, "cannot_tell"):
                left_out[UNJUDGED] += 1
                continue
            document = _document(row)
        except ValueError as error:
            raise CorruptSource(f"{path}, line {number}: not a labelled answer: {error}") from error
        if document.answer.strip():
            answers.append(document)
        else:
            left_out[EMPTY] += 1
    return answers


def _document(row: Mapping[str, Any]) -> LabelledAnswer:
    answer, language = text_of(row, "answer"), text_of(row, "language").strip()
    annotations = text_of(row, "annotations", needed=False) or _USUAL
    if annotations not in ANNOTATIONS:
        raise ValueError(f"annotations is {annotations!r}, none of {', '.join(ANNOTATIONS)}")
    if not language:
        raise ValueError("language is empty; it is an ISO 639 code such as de")
    return LabelledAnswer(
        reference=text_of(row, "reference"),
        answer=answer,
        language=language,
        annotations=annotations,
        spans=spans_of(row, len(answer)),
        question=text_of(row, "question", needed=False),
        model=text_of(row, "model", needed=False),
        soft=None if row.get("soft") is None else spans_of(row, len(answer), "soft"),
        article=text_of(row, "article", needed=False),
        group=text_of(row, "group", needed=False).strip(),
    )


def spans_of(row: Mapping[str, Any], length: int, key: str = "spans") -> tuple[Span, ...]:
    """The spans of an answer of `length` characters: ``[start, end, category]``, without one ``hallucination``; in ``soft``
    with a share of annotators instead. A ValueError says what is wrong."""
    values = row.get(key)
    if not isinstance(values, list):
        raise ValueError(f"{key} is {type(values).__name__}, not a list of [start, end, ...]")
    spans = []
    for value in values:
        fields = list(value) if isinstance(value, list) else []
        if key == "spans" and len(fields) == 2:
            fields.append(HALLUCINATION)
        if len(fields) != 3:
            last = "share" if key == "soft" else "category"
            raise ValueError(f"{key} hold{'s' if key == 'soft' else ''} {str(value)[:80]}, not [start, end, {last}]")
        span = span_of([*fields[:2], HALLUCINATION, fields[2]] if key == "soft" else fields)
        if span.end > length:
            raise ValueError(f"a span ends at {span.end}, but the answer has {length} characters")
        if span.category not in (*CATEGORIES, HALLUCINATION):
            raise ValueError(f"category {span.category!r} is none of {', '.join((*CATEGORIES, HALLUCINATION))}")
        spans.append(span)
    return tuple(spans)


# ------------------------------------------------------------------------------------------- test sets in training data
#
# They are known by digests of their answers, and of their questions with a passage. A digest says nothing of its text.
# A benchmark ships those of its public files as a table of ``digests``, and compares other files where they are
# in the mirror in force or in the cache.

_LETTERS = 40  # that begin a text; more would miss a copy that was cut
_FEWEST = 16  # letters of an answer; many answers begin with fewer
_LINES = 50  # of a reference, in which the first of five passages begins


class TestSet(NamedTuple):
    """Answers that nothing is to be trained on (``Benchmark.not_learned``)."""

    package: str  # whose ``contamination.tsv`` has digests of public files
    texts: Callable[
        [Path | None], Iterator[tuple[str, str, str]]
    ]  # question, passage and answer, of the files in a mirror
    what: str  # whose the answers are, and what to do, for messages
    advice: str
    letters: int = _LETTERS  # of each text that are compared
    calibrates: bool = True  # whether a detector's errors on it correct rates

    def digests_of_files(self, mirror: str | None) -> set[str]:
        """The digests of all answers in a mirror, or without one in the cache."""
        rows = self.texts(mirror_folder(mirror))
        return {digest for row in rows for digest in digests(*row, self.letters)}

    def refuse(self, documents: Sequence[LabelledAnswer], name: str, mirror: str | None = None) -> None:
        """Refuse data, as the command line names it, with an answer of the test set, or with one to its questions from its
        passages, by a UsageError."""
        shipped = " ".join(row["digests"] for row in shipped_rows(self.package, "contamination.tsv"))
        known = {*shipped.split()} | self.digests_of_files(mirror)
        copied = []
        for document in documents:
            found = {*digests(document.question, document.reference, document.answer, self.letters)}
            found.update(digests("", document.reference, "", self.letters))  # of a text that is asked no question
            copied += [document.answer] if found & known else []
        if copied:
            raise UsageError(
                f"{name}: {len(copied)} of its {len(documents)} answers are {self.what}, such as "
                f"{copied[0][:60]!r}. {self.advice}"
            )


def refuse_test_sets(
    documents: Sequence[LabelledAnswer], name: str, mirror: str | None = None, to_calibrate: bool = False
) -> None:
    """Refuse data with answers of a benchmark's :class:`TestSet`, by a UsageError; `to_calibrate` allows those that may."""
    for table in filter(lambda table: table.not_learned, catalogue.tables().values()):
        module, _, constant = table.not_learned.rpartition(".")
        test_set: TestSet = getattr(import_module(module), constant)
        if not (to_calibrate and test_set.calibrates):
            test_set.refuse(documents, name, mirror)


def digests(question: str, reference: str, answer: str, letters: int = _LETTERS) -> Iterator[str]:
    """Forty bits for the first `letters` of an answer, and for a question with those of each line that may begin a passage:
    enough that a hundred thousand lines of other data meet a thousand digests by chance once in ten thousand times."""
    asked, told = _start(question), _start(answer, letters)
    texts = [told] if len(told) >= _FEWEST else []
    texts += [f"{asked} {_start(line, letters)}" for line in reference.splitlines()[:_LINES]]
    return (hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:10] for text in texts)


def _start(text: str, letters: int = _LETTERS) -> str:
    """The letters and digits that begin a text, without case."""
    plain = unicodedata.normalize("NFKC", text[: 3 * letters]).casefold()
    return "".join(filter(str.isalnum, plain))[:letters]
