"""mFAVA's annotated answers as labelled answers: ``mfava-gold`` and ``mfava-silver``."""

from __future__ import annotations

from functools import partial

from custom_metrics.spans import span_of
from detector_plugin.labelled import TRANSLATED, LabelledAnswer
from lm_eval_tasks.labelled_answers import Collection
from lm_eval_tasks.mfava import detection
from lm_eval_tasks.mfava.languages import LANGUAGES

__all__ = ["LABELLED"]

SILVER_ROWS, GOLD_ROWS = 309, 824
"""Of the public files, whose texts are the same in every language. A silver file has them in the same order: of those
with a number, 96 to 99 % share many with the Finnish one in their place (Latin, mostly unreadable, 68 %). The gold file
has most of them in each language, in another order. A file of another length says nothing of its texts."""


def _read(kind: str, code: str, mirror: str | None) -> list[LabelledAnswer]:
    rows = detection.documents(code, kind, mirror)
    in_file = detection.rows_of_file(code, mirror)
    silver = not LANGUAGES[code].gold and in_file == SILVER_ROWS
    unplaced = TRANSLATED if LANGUAGES[code].gold and in_file == GOLD_ROWS else ""
    return [
        LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=kind,
            spans=tuple(span_of([s["start"], s["end"], s["category"]]) for s in row["spans"]),
            group=f"mfava {row['id'].rpartition('_')[2]}" if silver else unplaced,
        )
        for row in rows
    ]


def _collection(kind: str) -> Collection:
    languages = tuple(code for code, known in LANGUAGES.items() if (known.gold if kind == "gold" else known.silver))
    return Collection(
        languages, partial(_read, kind), "mFAVA (Islam et al. 2025)", "Creative Commons, version not stated"
    )


LABELLED = {f"mfava-{kind}": _collection(kind) for kind in ("gold", "silver")}
