"""Test sets in training data: known by digests of their answers, and of their questions with a passage.

A digest says nothing of its text. A benchmark ships those of its public files as a table with the column ``digest``, and
compares other files where they are in the mirror in force or in the cache.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence, Set
from importlib import import_module

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import LabelledAnswer
from lm_eval_tasks.definition import catalogue

_LETTERS = 40  # that begin a text; more would miss a copy that was cut
_FEWEST = 16  # letters of an answer; many answers begin with fewer
_LINES = 50  # of a reference, in which the first of five passages begins


def refuse_test_sets(documents: Sequence[LabelledAnswer], name: str, mirror: str | None = None) -> None:
    """Refuse training data with answers of a benchmark whose table says how these are known (``Benchmark.not_learned``), by
    a UsageError."""
    for table in filter(lambda table: table.not_learned, catalogue.tables().values()):
        module, _, function = table.not_learned.rpartition(".")
        getattr(import_module(module), function)(documents, name, mirror)


def refuse_content(
    documents: Sequence[LabelledAnswer], name: str, known: Set[str], what: str, advice: str, letters: int = _LETTERS
) -> None:
    """Refuse training data of which a digest is known, by a UsageError.

    Args:
        name: of the data, as ``--data`` has it.
        known: digests of a test set, by :func:`digests`, with as many `letters`.
        what: whose the answers are, for the message.
        advice: the end of the message.
    """
    copied = []
    for document in documents:
        found = {*digests(document.question, document.reference, document.answer, letters)}
        found.update(digests("", document.reference, "", letters))  # of a text that is asked no question
        copied += [document.answer] if found & known else []
    if copied:
        raise UsageError(
            f"--data {name}: {len(copied)} of its {len(documents)} answers are {what}, such as {copied[0][:60]!r}. {advice}"
        )


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
