"""mFAVA's annotated answers as labelled answers: ``mfava-gold`` and ``mfava-silver``."""

from __future__ import annotations

from functools import partial

from custom_metrics.reading.spans import span_of
from detector_plugin.labelled import TRANSLATED, LabelledAnswer
from lm_eval_tasks.detection.labelled_answers import Collection
from lm_eval_tasks.mfava import detection
from lm_eval_tasks.mfava.languages import LANGUAGES
from lm_eval_tasks.mfava.passages import is_unplaced


def _labelled_answers(kind: str, code: str, mirror: str | None) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=kind,
            spans=tuple(span_of([s["start"], s["end"], s["category"]]) for s in row["spans"]),
            group=TRANSLATED if is_unplaced(row["passage"]) else f"mfava {row['passage']}",
        )
        for row in detection.documents(code, kind, mirror)
    ]


LABELLED = {
    f"mfava-{kind}": Collection(
        tuple(code for code, language in LANGUAGES.items() if (language.gold if kind == "gold" else language.silver)),
        partial(_labelled_answers, kind),
        "mFAVA (Islam et al. 2025)",
        "Creative Commons, version not stated",
    )
    for kind in ("gold", "silver")
}
