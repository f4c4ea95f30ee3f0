"""MEMERAG among data to train on, which its authors ask nobody to do: known by name and by content.

``contamination.tsv`` holds digests of the answers, and of the questions with their first passage, of the files in the
mirror that it was made with (German and Spanish): ``python -m lm_eval_tasks.memerag.contamination`` writes it. Files of
other languages are compared where they are in the mirror in force or in the cache. A digest says nothing of its text.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin.labelled import LabelledAnswer
from lm_eval_tasks.data import sources
from lm_eval_tasks.memerag.dataset import FOLDERS, LANGUAGES, REPOSITORY, file_of, judged_answers

_TABLE = "contamination.tsv"
_LETTERS = 40  # that begin a text; more would miss a copy that was cut
_FEWEST = 16  # letters of an answer; many answers begin with fewer
_LINES = 50  # of a reference, in which the first of five passages begins
_ASKS = "MEMERAG asks not to be trained on, so that it can measure (CC BY-NC 4.0, https://github.com/amazon-science/MEMERAG)"


def refuse_name(name: str) -> None:
    """Refuse training data that calls itself MEMERAG, by a UsageError."""
    if Path(name).name.lower().startswith("memerag") or f"{REPOSITORY}/".lower() in name.lower():
        raise UsageError(f"--data {name}: {_ASKS}; `lm-eval-grounded calibrate` reads runs of memerag_<language>")


def refuse_content(documents: Sequence[LabelledAnswer], name: str, mirror: str | None = None) -> None:
    """Refuse training data with answers of MEMERAG, or answers to its questions from its passages, by a UsageError."""
    known = {row["digest"] for row in shipped_rows(__package__, _TABLE)} | _digests_of_files(mirror)
    copied = [d.answer for d in documents if not known.isdisjoint(_digests(d.question, d.reference, d.answer))]
    if copied:
        raise UsageError(
            f"--data {name}: {len(copied)} of its {len(documents)} answers are MEMERAG's, or to its questions from its "
            f"passages, such as {copied[0][:60]!r}. {_ASKS}; leave them out"
        )


def _digests_of_files(mirror: str | None) -> set[str]:
    """The digests of all files of MEMERAG in a mirror, or without one in the cache; damaged files have none."""
    folder = sources.mirror_folder(mirror)
    digests: set[str] = set()
    for name in (file_of(language, annotators) for language in LANGUAGES for annotators in FOLDERS):
        path = sources.local_copy(sources.source_file(REPOSITORY, name), folder)
        with suppress(sources.CorruptSource, OSError):
            for row in judged_answers(path, Counter()) if path else ():
                digests.update(_digests(row.question, row.passages[0].partition("\n")[0], row.answer))
    return digests


def _digests(question: str, reference: str, answer: str) -> Iterator[str]:
    """Forty bits for an answer, and for a question with each of the lines that may begin a passage: enough that a hundred
    thousand lines of other data meet a thousand digests by chance once in ten thousand times."""
    asked, told = _start(question), _start(answer)
    texts = [told] if len(told) >= _FEWEST else []
    texts += [f"{asked} {_start(line)}" for line in reference.splitlines()[:_LINES]] if asked else []
    return (hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:10] for text in texts)


def _start(text: str) -> str:
    """The letters and digits that begin a text, without case."""
    plain = unicodedata.normalize("NFKC", text[: 3 * _LETTERS]).casefold()
    return "".join(filter(str.isalnum, plain))[:_LETTERS]


if __name__ == "__main__":
    lines = ["digest", *sorted(_digests_of_files(None))]
    Path(__file__).with_name(_TABLE).write_text("\n".join(lines) + "\n", "utf-8")
