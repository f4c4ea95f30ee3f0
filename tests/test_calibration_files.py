"""Calibration files to the letter: what is written, read and said in results, and what is refused and how."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from custom_metrics.scores.detection import WordCounts
from detector_plugin import calibration as calibrations
from detector_plugin.calibration import (
    Calibration,
    CalibrationError,
    LanguageCalibration,
    beside,
    load,
    loaded,
    measured,
    shipped,
    summary,
)

DETECTOR = {"name": "third", "version": "1", "licence": "MIT"}
DE = measured([[1, 2, 3, 4], [0, 0, 0, 9]], "mushroom_de", ["b", "a"])
PAPER = LanguageCalibration(0.5, math.nan, None, "Table 10")
FILE = """\
{
 "format": 1,
 "detector": {
  "name": "third",
  "version": "1",
  "licence": "MIT"
 },
 "note": "Hände",
 "languages": {
  "ar": {
   "silver": {
    "source": "Table 10",
    "precision": 0.5,
    "recall": null
   }
  },
  "de": {
   "real": {
    "source": "mushroom_de",
    "precision": 0.333333,
    "recall": 0.25,
    "false_positive_rate": 0.133333,
    "prevalence": 0.210526,
    "documents": [
     "1 2 3 4",
     "0 0 0 9"
    ],
    "models": [
     "b",
     "a"
    ]
   },
   "gold": {
    "source": "g",
    "precision": null,
    "recall": null,
    "false_positive_rate": 0.0,
    "prevalence": 0.0,
    "documents": [
     "0 0 0 5"
    ]
   }
  }
 }
}
"""
WHOLE = Calibration(
    DETECTOR, {"de": {"gold": measured([[0, 0, 0, 5]], "g"), "real": DE}, "ar": {"silver": PAPER}}, note="Hände"
)


@pytest.fixture(autouse=True)
def of_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of two answers show everything but that they are too few (``test_small_calibrations.py``)."""
    monkeypatch.setattr(calibrations, "FEWEST", 1)


def test_a_file_is_written_to_the_letter_and_read_again(tmp_path: Path) -> None:
    assert WHOLE.to_json() == FILE
    path = tmp_path / "made" / "on the way" / "c.json"
    WHOLE.save(path)
    WHOLE.save(path)
    assert path.read_bytes() == FILE.encode()
    found = load(str(path))
    sha256 = hashlib.sha256(FILE.encode()).hexdigest()
    assert (found.detector, found.note, found.origin) == (DETECTOR, "Hände", str(path))
    assert (found.sha256, found.identity) == (sha256, f"c.json@{sha256[:12]}")
    assert loaded(found.identity) is found
    assert found.to_json() == FILE
    real = found.languages["de"]["real"]
    assert (real.kind, real.source, real.models, real.pooled) == ("real", "mushroom_de", ("b", "a"), None)
    assert (real.precision, real.recall) == (1 / 3, 1 / 4)  # of the counts, not of the rounded figures
    assert real.counts == WordCounts(1, 2, 3, 13)
    assert real.documents is not None
    assert (real.documents.tolist(), real.documents.dtype) == ([[1, 2, 3, 4], [0, 0, 0, 9]], np.int64)
    silver = found.languages["ar"]["silver"]
    assert (silver.precision, silver.documents, silver.counts, silver.models, silver.kind) == (
        0.5,
        None,
        None,
        (),
        "silver",
    )
    assert math.isnan(silver.recall)


def test_a_figure_that_json_has_no_word_for_is_not_written() -> None:
    endless = LanguageCalibration(math.inf, 0.5, None, "Table 10")
    with pytest.raises(ValueError, match="not JSON compliant"):
        Calibration(DETECTOR, {"ar": {"silver": endless}}).to_json()


def test_results_have_the_figures_without_the_documents() -> None:
    assert summary(DE, documents=False) == {
        **{"source": "mushroom_de", "precision": 0.333333, "recall": 0.25, "false_positive_rate": 0.133333},
        **{"prevalence": 0.210526, "answers": 2, "models": ["a", "b"]},
    }
    assert "models" not in summary(measured([[1, 1, 1, 1]], "x"), documents=False)
    assert summary(PAPER, documents=False) == summary(PAPER) == {"source": "Table 10", "precision": 0.5, "recall": None}


def test_a_file_that_says_little_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    languages = {"de": {"real": {"documents": ["1 2 3 4"]}, "gold": {"precision": 0, "recall": 1}}}
    path.write_text(json.dumps({"format": 1, "detector": {"version": 2}, "languages": languages}), "utf-8")
    found = load(str(path))
    assert found.detector == {"name": "", "version": "2", "licence": ""}
    assert (found.note, found.languages["de"]["real"].source, found.languages["de"]["gold"].source) == ("", "", "")
    assert (found.languages["de"]["gold"].precision, found.languages["de"]["gold"].recall) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("languages", "says"),
    [
        ({"de": {"gold": {"documents": []}}}, "ValueError documents are one or more of four numbers each, tp fp fn tn"),
        (
            {"de": {"gold": {"documents": ["1 2 3"]}}},
            "ValueError documents are one or more of four numbers each, tp fp fn tn",
        ),
        (
            {"de": {"gold": {"documents": ["1 2 3 4", "1 2 3 -1"]}}},
            "ValueError documents are one or more of four numbers each, tp fp fn tn",
        ),
        ({"de": {"gold": {"documents": ["1 2 3 x"]}}}, "ValueError invalid literal for int() with base 10: 'x'"),
        (
            {"de": {"gold": {"documents": ["1 2 3 4"] * 2, "models": ["m"]}}},
            "ValueError 2 documents, but the models of 1",
        ),
        (
            {"de": {"gold": {"precision": 1.5, "recall": 0.5}}},
            "ValueError precision and recall are shares between 0 and 1",
        ),
        (
            {"de": {"gold": {"precision": 0.5, "recall": -0.5}}},
            "ValueError precision and recall are shares between 0 and 1",
        ),
        ({"de": {"gold": {"precision": 0.5}}}, "KeyError 'recall'"),
        ({"de": {"gold": 5}}, "TypeError argument of type 'int' is not iterable"),
        ({"de": []}, "AttributeError 'list' object has no attribute 'items'"),
    ],
)
def test_what_is_no_calibration_is_refused_with_its_reason(tmp_path: Path, languages: Any, says: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"format": 1, "detector": {}, "languages": languages}), "utf-8")
    with pytest.raises(CalibrationError) as refused:
        load(str(path))
    if "argument of type" not in says:  # Python's own words, which change
        assert str(refused.value) == f"{path} cannot be read as a calibration: {says}"
    assert type(refused.value) is CalibrationError


def test_other_formats_and_kinds_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"format": 2}', "utf-8")
    with pytest.raises(CalibrationError) as refused:
        load(str(path))
    assert str(refused.value) == (
        f"{path} is no calibration file of format 1; make one with `lm-eval-grounded calibrate RESULTS -o FILE`"
    )
    other = tmp_path / "d.json"
    kinds = {
        "pooled": {"documents": ["1 2 3 4"]},
        "bronze": {"documents": ["1 2 3 4"]},
        "real": {"documents": ["1 2 3 4"]},
    }
    other.write_text(json.dumps({"format": 1, "detector": {}, "languages": {"de": kinds}}), "utf-8")
    with pytest.raises(CalibrationError) as refused:
        load(str(other))
    assert str(refused.value) == (
        f"{other} has calibrations of a kind that is not known: bronze, pooled; known are real, gold, silver. Is it of a "
        f"later version of lm-eval-grounded?"
    )


def test_a_name_is_a_file_or_a_detector_whose_calibration_ships(tmp_path: Path) -> None:
    ours = shipped()
    assert list(ours) == ["lexical", "mfava-llama-3-8b-multi-bidirect"]
    assert all(Path(file).name == f"{name}.json" and load(name).origin == file for name, file in ours.items())
    with pytest.raises(CalibrationError) as refused:
        load("nobody")
    assert str(refused.value) == (
        f"calibration 'nobody': no such file. Name a file of `lm-eval-grounded calibrate`, or one that ships: "
        f"{', '.join(ours)}."
    )
    missing = str(tmp_path / "none.json")
    with pytest.raises(CalibrationError) as refused:
        load(missing)
    assert str(refused.value) == f"calibration {missing!r}: no such file. Name a file of `lm-eval-grounded calibrate`."
    with pytest.raises(
        CalibrationError, match=r"^calibration: name a file, or a detector whose calibration ships, not 7$"
    ):
        load(7)  # type: ignore[arg-type]
    with pytest.raises(CalibrationError, match=r"^calibration x@1 has not been loaded in this run; name its file$"):
        loaded("x@1")


def test_a_file_in_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    WHOLE.save(tmp_path / "c.json")
    assert load("~/c.json").origin == str(tmp_path / "c.json")


def test_the_calibration_beside_a_detector_is_the_file_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "mine"
    assert beside(str(folder)) is None
    WHOLE.save(folder / "other.json")
    assert beside(str(folder)) is None
    WHOLE.save(folder / "calibration.json")
    assert beside(str(folder)) == beside("~/mine") == str(folder / "calibration.json")


def test_pooled_errors_are_by_language_and_model() -> None:
    unnamed = measured([[5, 5, 5, 5]], "u")
    alone = LanguageCalibration(0.5, 0.5, None, "no counts")
    languages = {
        "zh": {"real": unnamed},
        "de": {"real": DE, "gold": PAPER},
        "ar": {"silver": DE},
        "fi": {"real": alone},
    }
    found = Calibration(DETECTOR, languages).of("it")
    assert found is not None
    kind, pooled = found
    assert (kind, pooled.kind, pooled.source) == ("pooled", "pooled", "real answers in de, zh")
    assert pooled.pooled is not None
    assert {
        code: {name: counts.tolist() for name, counts in models.items()} for code, models in pooled.pooled.items()
    } == {
        "de": {"a": [[0, 0, 0, 9]], "b": [[1, 2, 3, 4]]},
        "zh": {"": [[5, 5, 5, 5]]},
    }
    assert pooled.models == ("a", "b", "")  # in the order of the documents
    assert pooled.documents is not None
    assert pooled.documents.tolist() == [[0, 0, 0, 9], [1, 2, 3, 4], [5, 5, 5, 5]]
    assert pooled.counts == WordCounts(6, 7, 8, 18)
    assert pooled.precision == 6 / 13
    assert Calibration(DETECTOR, languages).of("de", "pooled") is None  # one other language


def test_counts_of_one_document_after_another_are_a_table() -> None:
    flat = measured(np.array([1, 2, 3, 4, 0, 0, 0, 9]), "x")
    assert flat.documents is not None
    assert flat.documents.tolist() == [[1, 2, 3, 4], [0, 0, 0, 9]]
    assert flat.source == "x"


@pytest.mark.parametrize("rows", [[], np.zeros((0, 4)), [[1.0, 2.0, 3.0, 4.0]], np.array([[1, 2, 3, 4]], np.uint8)])
def test_counts_are_whole_numbers_of_64_bits_in_four_columns(rows: Any) -> None:
    found = measured(rows, "x").documents
    assert found is not None
    assert (found.shape, found.dtype) == ((len(rows), 4), np.int64)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as a calibration: JSONDecodeError"),
        ("[]", "cannot be read as a calibration: AttributeError"),
        ('{"format": 2}', "no calibration file of format 1"),
        ('{"format": 1}', "KeyError 'languages'"),
    ],
)
def test_a_file_that_is_no_calibration_at_all(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(content, "utf-8")
    with pytest.raises(CalibrationError, match=message):
        load(str(path))
    with pytest.raises(CalibrationError, match=r"no such file.*one that ships: lexical, mfava-llama"):
        load("nobody")
