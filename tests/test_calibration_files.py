"""Calibrations: files to the letter, made of runs or refused; which kind counts; bounds that hold from five answers on."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from custom_metrics.hallucination import estimate
from custom_metrics.scores.detection import WordCounts
from custom_metrics.statistics.random_effects import FEWEST_LANGUAGES, measured_errors
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin import calibration as calibrations
from detector_plugin.calibration import (
    FEWEST,
    KINDS,
    Calibration,
    CalibrationError,
    LanguageCalibration,
    by_identity,
    from_counts,
    in_folder,
    load,
    shipped,
    summary,
)
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.calibrate import calibration_from_runs
from lm_eval_tasks.detection import calibrated
from lm_eval_tasks.detection.calibrated import FEW, errors_of, log_basis_of_rates
from lm_eval_tasks.mfava import dataset
from tests.benchmarks import cells
from tests.changed_runs import written_samples
from tests.conftest import evaluate, figures_of, results_of
from tests.logged_runs import copied, files_of, generate, only_predicted
from tests.miniature import MINIATURE
from tests.shared_once import SharedOnce

DETECTOR = {"name": "third", "version": "1", "licence": "MIT"}
DE = from_counts([[1, 2, 3, 4], [0, 0, 0, 9]], "mushroom_de", ["b", "a"])
PAPER = LanguageCalibration(0.5, math.nan, None, "Table 10")
FILE = (
    json.dumps(
        {
            "format": 1,
            "detector": DETECTOR,
            "note": "Hände",
            "languages": {
                "ar": {"silver": {"source": "Table 10", "precision": 0.5, "recall": None}},
                "de": {
                    "real": {
                        **{"source": "mushroom_de", "precision": 0.333333, "recall": 0.25},
                        **{"false_positive_rate": 0.133333, "prevalence": 0.210526},
                        **{"documents": ["1 2 3 4", "0 0 0 9"], "models": ["b", "a"]},
                    },
                    "gold": {
                        **{"source": "g", "precision": None, "recall": None, "false_positive_rate": 0.0},
                        **{"prevalence": 0.0, "documents": ["0 0 0 5"]},
                    },
                },
            },
        },
        indent=1,
        ensure_ascii=False,
    )
    + "\n"
)
GOLD = from_counts([[0, 0, 0, 5]], "g")
WHOLE = Calibration(DETECTOR, {"de": {"gold": GOLD, "real": DE}, "ar": {"silver": PAPER}}, note="Hände")


@pytest.fixture
def of_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of two answers show everything but that they are too few (``test_calibration_files.py``)."""
    monkeypatch.setattr(calibrations, "FEWEST", 1)


@pytest.mark.usefixtures("of_any_number")
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
    assert by_identity(found.identity) is found
    assert found.to_json() == FILE
    real, silver = found.languages["de"]["real"], found.languages["ar"]["silver"]
    assert (real.kind, real.source, real.models, real.pooled) == ("real", "mushroom_de", ("b", "a"), None)
    assert (real.precision, real.recall) == (1 / 3, 1 / 4)  # of the counts, not of the rounded figures
    assert real.counts == WordCounts(1, 2, 3, 13)
    assert real.documents is not None
    assert (real.documents.tolist(), real.documents.dtype) == ([[1, 2, 3, 4], [0, 0, 0, 9]], np.int64)
    assert (silver.precision, silver.documents, silver.counts, silver.models) == (0.5, None, None, ())
    assert silver.kind == "silver"
    assert math.isnan(silver.recall)


def test_results_have_the_figures_without_the_documents() -> None:
    real = json.loads(FILE)["languages"]["de"]["real"]
    del real["documents"]
    assert summary(DE, documents=False) == {**real, "answers": 2, "models": ["a", "b"]}
    assert "models" not in summary(from_counts([[1, 1, 1, 1]], "x"), documents=False)
    assert summary(PAPER, documents=False) == summary(PAPER) == {"source": "Table 10", "precision": 0.5, "recall": None}


@pytest.mark.usefixtures("of_any_number")
def test_a_file_that_says_little_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    languages = {"de": {"real": {"documents": ["1 2 3 4"]}, "gold": {"precision": 0, "recall": 1}}}
    path.write_text(json.dumps({"format": 1, "detector": {"version": 2}, "languages": languages}), "utf-8")
    found, gold = load(str(path)), load(str(path)).languages["de"]["gold"]
    assert found.detector == {"name": "", "version": "2", "licence": ""}
    assert (found.note, found.languages["de"]["real"].source, gold.source) == ("", "", "")
    assert (gold.precision, gold.recall) == (0.0, 1.0)


FOUR = "ValueError documents are one or more of four numbers each, tp fp fn tn"
SHARES = "ValueError precision and recall are shares between 0 and 1"


@pytest.mark.usefixtures("of_any_number")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "cannot be read as a calibration: JSONDecodeError"),
        ('{"format": 1}', "KeyError 'languages'"),
        ('{"format": 2}', "format 1; make one with `lm-eval-grounded calibrate RESULTS -o FILE`"),
        ({"bronze": {"documents": ["1 2 3 4"]}}, "bronze; known are real, gold, silver, rag. Is it of a later version"),
        ({"gold": {"documents": []}}, FOUR),
        ({"gold": {"documents": ["1 2 3 4", "1 2 3 -1"]}}, FOUR),
        ({"gold": {"documents": ["1 2 3 x"]}}, "ValueError invalid literal for int() with base 10: 'x'"),
        ({"gold": {"documents": ["1 2 3 4"] * 2, "models": ["m"]}}, "ValueError 2 documents, but the models of 1"),
        ({"gold": {"documents": ["1 2 3 4"] * 2, "clusters": "1"}}, "ValueError 2 documents, but the texts of 1"),
        ({"gold": {"precision": 0.5, "recall": 1.5}}, SHARES),
        ({"gold": {"precision": 0.5}}, "KeyError 'recall'"),
        ([], "AttributeError 'list' object has no attribute 'items'"),
    ],
)
def test_what_is_no_calibration_is_refused_with_its_reason(tmp_path: Path, content: Any, says: str) -> None:
    path = tmp_path / "c.json"
    whole = {"format": 1, "detector": {}, "languages": {"de": content}}
    path.write_text(content if isinstance(content, str) else json.dumps(whole), "utf-8")
    with pytest.raises(CalibrationError, match=f"^{path}.*{re.escape(says)}") as refused:
        load(str(path))
    assert type(refused.value) is CalibrationError


def test_a_name_is_a_file_or_a_detector_whose_calibration_ships(tmp_path: Path) -> None:
    ours, missing = shipped(), str(tmp_path / "none.json")
    assert list(ours) == ["lexical", "mfava-llama-3-8b-multi-bidirect"]
    assert all(Path(file).name == f"{name}.json" and load(name).origin == file for name, file in ours.items())
    for read, name, says in (
        (load, "nobody", f"calibrate`, or one that ships: {', '.join(ours)}."),
        (load, missing, f"calibration {missing!r}: no such file. Name a file of `lm-eval-grounded calibrate`."),
        (load, 7, "calibration: name a file, or a detector whose calibration ships, not 7"),
        (by_identity, "x@1", "calibration x@1 has not been loaded in this run; name its file"),
    ):
        with pytest.raises(CalibrationError, match=f"{re.escape(says)}$"):
            read(name)  # type: ignore[operator]


@pytest.mark.usefixtures("of_any_number")
def test_files_at_home_and_beside_a_detector_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    WHOLE.save(tmp_path / "c.json")
    assert load("~/c.json").origin == str(tmp_path / "c.json")
    folder = tmp_path / "mine"
    WHOLE.save(folder / "other.json")
    assert in_folder(str(folder)) is None
    WHOLE.save(folder / "calibration.json")
    assert in_folder(str(folder)) == in_folder("~/mine") == str(folder / "calibration.json")


def test_pooled_errors_are_by_language_and_model() -> None:
    alone = LanguageCalibration(0.5, 0.5, None, "no counts")
    zh, de, ar = {"real": from_counts([[5, 5, 5, 5]], "u")}, {"real": DE, "gold": PAPER}, {"silver": DE}
    calibration = Calibration(DETECTOR, {"zh": zh, "de": de, "ar": ar, "fi": {"real": alone}})
    pooled = calibration.for_language("it")
    assert pooled is not None
    assert pooled.pooled is not None
    assert (pooled.kind, pooled.source) == ("pooled", "real answers in de, zh")
    by_model = {code: {name: of.tolist() for name, of in models.items()} for code, models in pooled.pooled.items()}
    assert by_model == {"de": {"a": [[0, 0, 0, 9]], "b": [[1, 2, 3, 4]]}, "zh": {"": [[5, 5, 5, 5]]}}
    assert pooled.models == ("a", "b", "")  # in the order of the documents
    assert pooled.documents is not None
    assert pooled.documents.tolist() == [[0, 0, 0, 9], [1, 2, 3, 4], [5, 5, 5, 5]]
    assert (pooled.counts, pooled.precision) == (WordCounts(6, 7, 8, 18), 6 / 13)
    assert calibration.for_language("de", "pooled") is None  # one other language


@pytest.fixture(scope="module")
def detected(shared_once: SharedOnce) -> Path:
    def evaluated(folder: Path) -> Path:
        tasks = "mfava_detection_de_gold,mfava_detection_de_silver,mfava_detection_de_gold_category"
        return generate(folder / "out", tasks=tasks, model="hallucination-detector", model_args="detector=lexical")

    return files_of(shared_once("mfava detected", evaluated))


def test_a_calibration_is_made_of_detection_runs(
    detected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "c.json"
    with caplog.at_level(logging.WARNING):
        assert main(["calibrate", str(detected), "-o", str(out)]) == 0
    assert "were trained on these documents, so this calibration is too good" in caplog.text
    assert "7 documents only; a calibration of so few says little" in caplog.text
    calibration = load(str(out))
    results = results_of(detected)["results"]
    assert calibration.detector["name"] == "lexical"
    assert "held-out" not in calibration.detector["version"]
    assert {code: list(kinds) for code, kinds in calibration.languages.items()} == {"de": ["gold", "silver"]}
    for kind, entry in calibration.languages["de"].items():
        result = results[f"mfava_detection_de_{kind}"]
        assert entry.precision == pytest.approx(result["precision,tags"])
        assert entry.recall == pytest.approx(result["recall,tags"])
        assert entry.documents is not None
        assert entry.documents.shape == (7, 4)
        assert (entry.clusters, entry.texts) == ((0, 1, 2, 3, 4, 5, 0), 6)  # two people marked one text
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["language", "docs", "precision", "recall", "f1", "FPR", "prevalence"]
    assert printed[1].split()[:3] == ["de", "gold", "7"]


def test_runs_that_make_no_calibration(detected: Path, shared_once: SharedOnce, tmp_path: Path) -> None:
    other = copied(detected, tmp_path / "other")
    (results,) = other.glob("results_*.json")
    changed = json.loads(results.read_text("utf-8"))
    changed["config"]["detector"]["version"] = "another"
    results.write_text(json.dumps(changed), "utf-8")
    few = generate(tmp_path / "few", tasks="mushroom_de", model="hallucination-detector", model_args="detector=lexical")
    unnamed, empty = copied(detected, tmp_path / "unnamed"), copied(other, tmp_path / "empty")
    (unnamed / results.name).unlink()
    for path in empty.glob("samples_*"):
        path.write_text("", "utf-8")
    for runs, error, message in (
        ([only_predicted(shared_once)], CalibrationError, "no samples of mushroom_<language>, mfava_detection_<"),
        ([detected, other], CalibrationError, "these runs are of several detectors"),
        ([few], CalibrationError, r"samples_mushroom_de_.*: mushroom_de has 3 annotated answers with words"),
        ([unnamed], UsageError, "the results file that was written with"),
        ([empty], CalibrationError, "no sample can be read"),
    ):
        with pytest.raises(error, match=message):
            calibration_from_runs(runs)


NAME = {"name": "third", "version": "1", "licence": ""}


def real(*rows: list[int], model: str = "m") -> LanguageCalibration:
    return from_counts(rows, "mushroom_xx", [model] * len(rows))


@pytest.mark.usefixtures("of_any_number")
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


@pytest.mark.usefixtures("of_any_number")
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


@pytest.mark.usefixtures("of_any_number")
def test_what_an_estimate_rests_on_is_said_and_recorded(calibration: str, caplog: pytest.LogCaptureFixture) -> None:
    """Errors in other languages, and own real answers where there are some."""
    metadata = {"mirror": MINIATURE, "calibration": calibration, "detector_args": "threshold=0.01"}
    with caplog.at_level(logging.INFO):
        got = evaluate(["mfava_de", "mfava_fi"], "grounded-baseline", "strategy=lexical", metadata=metadata)
    pooled, own = sorted(message for message in caplog.messages if "calibrated on" in message)
    said = "calibrated on answers that models wrote on their own and people marked (real, mushroom_fi; texts: 25"
    assert said in own
    assert "how many of the words are hallucinated is not measurable, 95 % bounds 0.0 to 100.0;" in pooled
    assert pooled.endswith(
        "calibrated on real answers in other languages, as none are annotated in this one (pooled, real answers in es, fi, "
        "it; texts: 75 of 2 models). People's marks of fifty of these answers would measure it: `lm-eval-grounded mark "
        "RESULTS --tasks mfava_de -o marking`"
    )
    used = {task: got["configs"][task]["metadata"]["provenance"]["calibration"] for task in ("mfava_de", "mfava_fi")}
    assert used["mfava_fi"]["annotations"] == "real"
    assert [used["mfava_de"][name] for name in ("annotations", "answers", "models")] == ["pooled", 75, ["a", "b"]]
    rate = figures_of(got, "mfava_de")["rogan_gladen_rate"]
    assert rate["value"] is None
    assert rate["low"] <= rate["not_measurable"] <= rate["high"]
    assert [key for key in got["results"]["mfava_de"] if key.startswith("rogan_gladen_rate")] == []  # not measurable


HOLD = 0.93
NUMBERS = [5, *(pytest.param(number, marks=pytest.mark.slow("400 estimates")) for number in (10, 20))]


def share_held(language: str, kind: str, answers: int, runs: int) -> float:
    """How often bounds hold the true rate: of Equation 1 where corpora are as the calibration, else by Rogan and Gladen.

    A run draws a calibration of so many answers, and a corpus of 200, from the answers of a shipped calibration, whose
    errors are the true ones. Hallucinated words and others of the corpus are weighted for the true rate.
    """
    counts = load("lexical").languages[language][kind].documents
    assert counts is not None
    tp, fp, fn, tn = counts.T.astype(float)
    prevalence = (tp + fn).sum() / counts.sum()
    hits = []
    for rate in (None, 0.1, 0.3, 0.6):  # None: that of the calibration, which Equation 1 wants
        truth = prevalence if rate is None else rate
        more, less = truth / prevalence, (1 - truth) / (1 - prevalence)
        wild = np.column_stack([more * tp + less * fp, more * (tp + fn) + less * (fp + tn)])
        rng = np.random.default_rng(answers)
        for seed in range(runs):
            drawn, corpus = rng.integers(len(counts), size=answers), rng.integers(len(counts), size=200)
            rates = estimate(wild[corpus], measured_errors(counts[drawn], 300, seed))
            figure = rates.estimated if rate is None else rates.rogan_gladen
            undefined = math.isnan(figure.value)  # misses nothing
            hits.append(undefined or figure.low - 1e-9 <= truth <= figure.high + 1e-9)
    return float(np.mean(hits))


SLOW = pytest.mark.slow("some ten seconds a case: 600 estimates")
OTHERS = [pytest.param(counts, 150, marks=SLOW) for counts in ("de real", "fi real", "ko silver", "es real")]


@pytest.mark.one_python("how often bounds hold the truth")
@pytest.mark.parametrize("answers", NUMBERS)
@pytest.mark.parametrize(("counts", "runs"), [("de gold", 100), *OTHERS])
def test_bounds_hold_with_few_answers(counts: str, runs: int, answers: int) -> None:
    # With 500 runs 20 German answers hold 0.95. With a bootstrap over the answers: 0.84, 0.89, 0.92.
    least = HOLD - 2 * math.sqrt(HOLD * (1 - HOLD) / (4 * runs))
    assert share_held(*counts.split(), answers, runs) >= least


@pytest.mark.parametrize(
    ("documents", "rate"),
    [
        ([[1, 2, 3, 40], [0, 1, 0, 30], [0, 3, 0, 50], [0, 0, 0, 20], [0, 2, 0, 30]], 0),  # 1 of 4, all in one answer
        ([[1, 2, 0, 40], [1, 1, 0, 30], [1, 3, 0, 50], [1, 0, 0, 20], [0, 2, 0, 30]], 0),  # 4 of 4
        ([[2, 0, 1, 40], [1, 0, 1, 30], [3, 0, 2, 50], [4, 0, 3, 20], [2, 0, 2, 30]], 1),  # no slip in 170
    ],
    ids=["found in one answer", "all found", "no false positive"],
)
def test_no_error_is_certain(documents: list[list[int]], rate: int) -> None:
    """Every answer of which a rate is has the same one, so that no resample of answers differs."""
    errors = measured_errors(np.array(documents), 2000, 1)
    low, high = np.percentile(errors.draws[:, rate], [2.5, 97.5])
    assert low <= errors[rate] <= high or errors[rate] in (0.0, 1.0)
    of_words = [sum(row[0] + row[2] for row in documents), sum(row[1] + row[3] for row in documents)][rate]
    assert high - low > 1.5 / of_words
    again = measured_errors(np.array(documents), 2000, 1)
    assert np.array_equal(errors.draws, again.draws)
    assert not np.array_equal(errors.draws, measured_errors(np.array(documents), 2000, 2).draws)


def test_answers_of_one_text_are_drawn_as_one() -> None:
    """Marked by three people each: as sure as ten texts, not as thirty."""
    rows = np.random.default_rng(1).integers(1, 30, (10, 4))
    thrice, names = np.repeat(rows, 3, axis=0), np.repeat([*"abcdefghij"], 3)
    alone, together, apart = (
        measured_errors(counts, 4000, 1, clusters).draws.std(axis=0)
        for counts, clusters in ((rows * 3, None), (thrice, names), (thrice, None))
    )
    assert together == pytest.approx(alone)
    assert (apart < 0.7 * together).all()
    with pytest.raises(ValueError, match="the clusters of 2 rows, but 10 rows"):
        measured_errors(rows, 10, 1, ["a", "b"])


def of(number: int, clusters: tuple[int, ...] = ()) -> LanguageCalibration:
    rows = [[6, 2, 3, 40], [4, 3, 2, 30], [7, 1, 5, 25]] * 7
    return from_counts(rows[:number], "mushroom_de", clusters=clusters)


def test_a_file_with_fewer_than_five_answers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    for number, empty in ((4, 0), (FEWEST, 0), (4, 3)):
        entry = from_counts([[6, 2, 3, 40]] * number + [[0, 0, 0, 0]] * empty, "mushroom_de")
        Calibration(NAME, {"de": {"real": entry}}).save(path)
        load.cache_clear()
        if number >= FEWEST:
            assert load(str(path)).languages["de"]["real"].texts == FEWEST
            continue
        with pytest.raises(CalibrationError) as refused:
            load(str(path))
        assert str(refused.value) == (
            f"{path}: mushroom_de has 4 annotated answers with words, and of fewer than 5 no bounds of a corrected rate "
            "hold; measure the detector on more"
        )


def test_which_answers_are_of_one_text_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    entry = from_counts(of(6).documents, "g", clusters=["x", "y", "x", "z", "u", "v"])  # type: ignore[arg-type]
    assert (entry.clusters, entry.texts) == ((0, 1, 0, 2, 3, 4), 5)
    Calibration(NAME, {"de": {"gold": entry}}).save(path)
    load.cache_clear()
    again = load(str(path)).languages["de"]["gold"]
    assert (again.clusters, again.texts) == (entry.clusters, 5)
    wild = np.array([[3, 20], [5, 31], [9, 40]])
    of_texts = estimate(wild, measured_errors(entry.documents, clusters=entry.clusters))  # type: ignore[arg-type]
    assert estimate(wild, errors_of(again)) == of_texts != estimate(wild, measured_errors(entry.documents))  # type: ignore[arg-type]
    assert from_counts(of(6).documents, "g", clusters=[*"abcdef"]).clusters == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "clusters", "said"),
    [(FEW, (), "texts: 20)"), (FEW - 1, (), "texts: 19, so few"), (FEW, (0, *range(FEW - 1)), "texts: 19, so few")],
)
def test_the_line_after_a_run_says_that_there_are_few(
    number: int, clusters: tuple[int, ...], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    calibration = of(number, clusters)
    with caplog.at_level(logging.INFO):
        found = estimate(np.array([[3, 20], [5, 31], [9, 40]]), errors_of(calibration))
        log_basis_of_rates("mfava_de", found, calibration)
    assert said in caplog.text
