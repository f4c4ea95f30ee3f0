"""Mu-SHROOM's annotated answers as labelled answers: ``mushroom``."""

from __future__ import annotations

from custom_metrics.reading.spans import Span, span_of
from detector_plugin.labelled import REAL, LabelledAnswer
from lm_eval_tasks.detection.labelled_answers import Collection
from lm_eval_tasks.mushroom import dataset
from lm_eval_tasks.mushroom.families import family
from lm_eval_tasks.mushroom.languages import LANGUAGES

__all__ = ["LABELLED"]


def _read(code: str, mirror: str | None) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=REAL,
            spans=tuple(span_of([s["start"], s["end"], s["category"]]) for s in row["spans"]),
            question=row["query"],
            family=family(row["model"]),
            model=row["model"],
            soft=tuple(Span(s["start"], s["end"], probability=s["prob"]) for s in row["soft_labels"]),
            article=row["url"],
            group=row["passage"],
        )
        for row in dataset.load(code, mirror=mirror)["evaluation"]
    ]


LABELLED = {"mushroom": Collection(tuple(LANGUAGES), _read, "Mu-SHROOM (Vázquez et al. 2025)", "CC BY 4.0")}
