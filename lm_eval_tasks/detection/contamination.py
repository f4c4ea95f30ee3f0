"""Test sets in training data: known by digests of their answers, and of their questions with a passage.

A digest says nothing of its text. A benchmark ships those of its public files as a table with the column ``digest``, and
compares other files where they are in the mirror in force or in the cache.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin.labelled import LabelledAnswer
from lm_eval_tasks.data import sources
from lm_eval_tasks.definition import catalogue

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

    def digests_of_files(self, mirror: str | None) -> set[str]:
        """The digests of all answers in a mirror, or without one in the cache."""
        rows = self.texts(sources.mirror_folder(mirror))
        return {digest for row in rows for digest in digests(*row, self.letters)}

    def refuse(self, documents: Sequence[LabelledAnswer], name: str, mirror: str | None = None) -> None:
        """Refuse training data, by its name in ``--data``, with an answer of the test set, or with one to its questions
        from its passages, by a UsageError."""
        known = {row["digest"] for row in shipped_rows(self.package, "contamination.tsv")} | self.digests_of_files(
            mirror
        )
        copied = []
        for document in documents:
            found = {*digests(document.question, document.reference, document.answer, self.letters)}
            found.update(digests("", document.reference, "", self.letters))  # of a text that is asked no question
            copied += [document.answer] if found & known else []
        if copied:
            raise UsageError(
                f"--data {name}: {len(copied)} of its {len(documents)} answers are {self.what}, such as "
                f"{copied[0][:60]!r}. {self.advice}"
            )


def refuse_test_sets(documents: Sequence[LabelledAnswer], name: str, mirror: str | None = None) -> None:
    """Refuse training data with answers of a benchmark's :class:`TestSet`, by a UsageError."""
    for table in filter(lambda table: table.not_learned, catalogue.tables().values()):
        module, _, constant = table.not_learned.rpartition(".")
        getattr(import_module(module), constant).refuse(documents, name, mirror)


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
