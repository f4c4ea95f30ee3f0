"""Agreement of the annotators behind the papers' figures, and of those who mark answers."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score

from custom_metrics.reading.spans import CATEGORIES, covered
from custom_metrics.reading.words import words
from lm_eval_tasks.mfava.annotations import AnnotationReport, annotate
from lm_eval_tasks.results.marks.lines import mean_kappa

CODES = {"Arabic": "ar", "German": "de", "Turkish": "tr"}


@pytest.mark.one_python("what the public data hold")
def test_silver_and_gold_of_mfava_agree_as_in_its_figure_2(hub: str) -> None:
    """Words, hallucinated or not; and their categories."""
    path = Path(hub, "WueNLP", "mHallucination_Detection", "combined_gold_languages.json")
    binary: dict[str, list[tuple[bool, ...]]] = defaultdict(list)
    categories: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    of_word = (None, *CATEGORIES)
    for row in json.loads(path.read_text("utf-8")):
        code, text = CODES[row["language"].capitalize()], row["generated_text"]
        both = [annotate(row[f"{kind}_annotations"], text, AnnotationReport()) for kind in ("gold", "silver")]
        if None not in both:
            places = words(text, code)
            labels = [*zip(*(covered(places, spans or ()) for spans in both), strict=True)]
            binary[code] += [tuple(label is not None for label in pair) for pair in labels]
            categories[code] += [tuple(map(of_word.index, pair)) for pair in labels]
    found = {
        code: tuple(round(float(cohen_kappa_score(*zip(*each[code], strict=True))), 3) for each in (binary, categories))
        for code in sorted(binary)
    }
    assert found == {"ar": (0.594, 0.483), "de": (0.823, 0.689), "tr": (0.703, 0.588)}


@pytest.mark.parametrize(
    ("labels", "kappa", "several"),
    [
        ([{"anna": [1, 1, 0, 0], "bert": [1, 0, 0, 0]}], 0.5, 1),
        ([{"anna": [0], "bert": [1]}, {"anna": [1], "bert": [0]}], -1.0, 2),
        ([{"anna": [0, 0], "bert": [1, 1]}], 0.0, 1),
        ([{"anna": [1], "bert": [1]}], None, 1),  # one label alone: no evidence that they agree
        ([{"anna": [1]}, {"bert": [0]}], None, 0),
        ([{"a": [0, 1], "b": [0, 1], "c": [1, 0]}], -1 / 3, 1),  # the mean of 1, -1 and -1
    ],
)
def test_kappa_is_the_mean_over_pairs_of_annotators(
    labels: list[dict[str, list[int]]], kappa: float | None, several: int
) -> None:
    assert mean_kappa(labels) == (kappa if kappa is None else pytest.approx(kappa), several)
