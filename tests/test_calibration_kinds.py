"""Calibrations of real answers, and what is expected of a language that has none: kinds, their order, pooled errors whose
bounds hold the differences between languages and models."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from custom_metrics.statistics.random_effects import FEWEST_LANGUAGES
from detector_plugin import calibration as calibrations
from detector_plugin.calibration import KINDS, Calibration, LanguageCalibration, from_counts, load
from lm_eval_tasks.commands.calibrate import calibration_from_runs
from lm_eval_tasks.detection import calibrated
from lm_eval_tasks.mfava import dataset
from tests.benchmarks import cells
from tests.changed_runs import written_samples
from tests.miniature import MINIATURE

NAME = {"name": "third", "version": "1", "licence": ""}


@pytest.fixture(autouse=True)
def of_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of two answers show everything but that they are too few (``test_small_calibrations.py``)."""
    monkeypatch.setattr(calibrations, "FEWEST", 1)


def real(*rows: list[int], model: str = "m") -> LanguageCalibration:
    return from_counts(rows, "mushroom_xx", [model] * len(rows))


# Kinds


def test_real_answers_come_first_and_pooled_ones_before_inserted_errors() -> None:

    gold, silver = from_counts([[5, 1, 1, 9]], "gold"), from_counts([[4, 1, 1, 9]], "silver")
    two = {"fi": {"real": real([6, 2, 2, 10])}, "it": {"real": real([3, 2, 5, 10])}}
    calibration = Calibration(NAME, {"de": {"real": real([1, 2, 3, 4]), "gold": gold}, "tr": {"gold": gold}, **two})

    def kind_of(language: str, kind: str | None = None) -> str | None:
        found = calibration.for_language(language, kind)
        return found and found.kind

    assert [kind_of(language) for language in ("de", "tr", "fi", "xx")] == ["real", "pooled", "real", "pooled"]
    assert [kind_of("de", kind) for kind in KINDS] == ["real", "pooled", "gold", None]
    assert [kind_of("tr", kind) for kind in KINDS] == [None, "pooled", "gold", None]
    few = Calibration(NAME, {"de": {"silver": silver, "gold": gold}, "fi": {"real": real([6, 2, 2, 10])}})
    assert [found and found.kind for found in map(few.for_language, ("de", "xx"))] == ["gold", None]  # of one language
    assert FEWEST_LANGUAGES == 2


def test_runs_on_real_answers_make_a_calibration(tmp_path: Path) -> None:
    values = [{"precision": [number + 1, 1, 2, 9]} for number in range(3)]
    docs = [{"language": "fi", "model": model, "answer": "x"} for model in ("a", "b", "a")]
    samples = written_samples(tmp_path, "mushroom_fi", values, docs)
    results = samples.with_name(samples.name.replace("samples_mushroom_fi", "results")).with_suffix(".json")
    results.write_text(json.dumps({"results": {}, "configs": {}, "config": {"detector": NAME}}), "utf-8")
    calibration = calibration_from_runs([tmp_path])
    assert calibration.detector == NAME
    assert list(calibration.languages["fi"]) == ["real"]
    assert calibration.languages["fi"]["real"].models == ("a", "b", "a")
    assert calibration.languages["fi"]["real"].counts == (6, 3, 6, 27)


# Cells of real answers


def test_the_bounds_hold_the_truth_of_nine_cells_in_ten_of_real_answers() -> None:
    """Of the calibration that ships: counts of weights that saw neither language nor family, corrected by the other
    languages and models. MEASUREMENTS.md prints the same table."""
    found = cells.cells(load("lexical"))
    assert len(found) == 28
    held = [cell.rates.rogan_gladen.low <= cell.truth <= cell.rates.rogan_gladen.high for cell in found]
    assert sum(held) >= 0.9 * len(found)
    page = Path(dataset.__file__).with_name("MEASUREMENTS.md").read_text("utf-8")
    assert cells.table(found).splitlines()[-4:] == page.split("mean of other languages")[0].splitlines()[-3:] + [
        line for line in page.splitlines() if line.startswith("mean of other languages")
    ]


# In the harness


@pytest.fixture
def calibration(tmp_path: Path) -> str:
    """Errors on real answers of two models in three languages, in which a detector finds 90, 40 and 60 % of the words."""
    rng, languages = np.random.default_rng(3), {}
    for code, rate in {"fi": 0.9, "it": 0.4, "es": 0.6}.items():
        total = rng.integers(20, 120, 25)
        wrong = rng.binomial(total, rng.beta(1, 1, 25))
        tp, fp = rng.binomial(wrong, rate), rng.binomial(total - wrong, 0.2)
        counts = np.stack([tp, fp, wrong - tp, total - wrong - fp], axis=1)
        languages[code] = {"real": from_counts(counts, f"mushroom_{code}", ["a"] * 10 + ["b"] * 15)}
    path = tmp_path / "c.json"
    Calibration({**NAME, "name": "lexical"}, languages).save(path)
    for cached in (calibrated.in_force, calibrated.estimates):
        cached.cache_clear()
    return str(path)


def test_what_an_estimate_rests_on_is_said_once_and_is_in_the_results(
    calibration: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors in other languages, and own real answers where there are some."""
    from tests.conftest import evaluate, figures_of

    metadata = {"mirror": MINIATURE, "calibration": calibration, "detector_args": "threshold=0.01"}
    with caplog.at_level(logging.INFO):
        got = evaluate(["mfava_de", "mfava_fi"], "grounded-baseline", "strategy=lexical", metadata=metadata)
    said = sorted(record.getMessage() for record in caplog.records if "calibrated on" in record.getMessage())
    assert len(said) == 2
    own = "calibrated on answers that models wrote on their own and people marked (real, mushroom_fi; texts: 25"
    assert own in said[1]
    assert got["configs"]["mfava_fi"]["metadata"]["provenance"]["calibration"]["annotations"] == "real"
    assert "how many of the words are hallucinated is not measurable, 95 % bounds 0.0 to 100.0;" in said[0]
    assert said[0].endswith(
        "calibrated on real answers in other languages, as none are annotated in this one (pooled, real answers in es, fi, "
        "it; texts: 75 of 2 models). People's marks of fifty of these answers would measure it: `lm-eval-grounded mark "
        "RESULTS --tasks mfava_de -o marking`"
    )
    used = got["configs"]["mfava_de"]["metadata"]["provenance"]["calibration"]
    assert (used["annotations"], used["answers"], used["models"]) == ("pooled", 75, ["a", "b"])

    rate = figures_of(got, "mfava_de")["rogan_gladen_rate"]
    assert rate["value"] is None
    assert rate["low"] <= rate["not_measurable"] <= rate["high"]
    assert [key for key in got["results"]["mfava_de"] if key.startswith("rogan_gladen_rate")] == []  # not measurable
