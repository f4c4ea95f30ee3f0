"""Mu-SHROOM's annotated answers as labelled answers: ``mushroom``, with each language's default reference,
``mushroom-context`` and ``mushroom-page``."""

from __future__ import annotations

from functools import partial

from custom_metrics.reading.spans import Span, span_of
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin.labelled import REAL, LabelledAnswer
from lm_eval_tasks.detection.labelled_answers import Collection
from lm_eval_tasks.mushroom import dataset
from lm_eval_tasks.mushroom.dataset import CONTEXT, LANGUAGES, PAGE

_FAMILIES = [(row["part"], row["family"]) for row in shipped_rows("lm_eval_tasks.mushroom", "families.tsv")]


def _family(model: str) -> str:
    """The family of a model's id: models trained from one base model, which give similar answers.

    It is that of the first row of ``families.tsv`` whose part is in the model's name, else the name.
    """
    name = model.rsplit("/", 1)[-1].lower()
    return next((family for pattern, family in _FAMILIES if pattern in name), name)


def _labelled_answers(code: str, mirror: str | None, reference: str | None = None) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=REAL,
            spans=tuple(span_of([s["start"], s["end"], s["category"]]) for s in row["spans"]),
            question=row["query"],
            family=_family(row["model"]),
            model=row["model"],
            soft=tuple(Span(s["start"], s["end"], probability=s["prob"]) for s in row["soft_labels"]),
            article=row["url"],
            group=row["passage"],
        )
        for row in dataset.load(code, reference=reference, mirror=mirror)["evaluation"]
    ]


_OURS = "Mu-SHROOM (Vázquez et al. 2025), contexts of nlp-ucsc/semeval-2025-task3", "CC BY 4.0, contexts Apache-2.0"
LABELLED = {"mushroom": Collection(tuple(LANGUAGES), _labelled_answers, *_OURS)}
for _kind in (CONTEXT, PAGE):
    _codes = tuple(code for code, language in LANGUAGES.items() if _kind in language.references)
    LABELLED[f"mushroom-{_kind}"] = Collection(
        _codes, partial(_labelled_answers, reference=_kind), *_OURS, by_default=False
    )
