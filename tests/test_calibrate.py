"""`lm-eval-grounded calibrate`: a calibration file out of detection runs."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.calibration import CalibrationError, load
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.calibrate import calibration_from_runs
from tests.conftest import results_of
from tests.logged_runs import copied, files_of, generate, only_predicted
from tests.shared_once import SharedOnce


@pytest.fixture(scope="module")
def predicted(shared_once: SharedOnce) -> Path:
    return only_predicted(shared_once)


@pytest.fixture(scope="module")
def detected(shared_once: SharedOnce) -> Path:
    def evaluated(folder: Path) -> Path:
        tasks = "mfava_detection_de_gold,mfava_detection_de_silver,mfava_detection_de_gold_category"
        return generate(folder / "out", tasks=tasks, model="hallucination-detector", model_args="detector=lexical")

    return files_of(shared_once("mfava detected", evaluated))


def test_a_calibration_is_made_of_detection_runs(
    detected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.json"
    assert main(["calibrate", str(detected), "-o", str(out), "--note", "sample"]) == 0
    calibration = load(str(out))
    results = results_of(detected)["results"]
    assert calibration.detector["name"] == "lexical"
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
    content = json.loads(out.read_text("utf-8"))["languages"]["de"]["gold"]
    assert set(content) == {
        "source",
        "precision",
        "recall",
        "false_positive_rate",
        "prevalence",
        "documents",
        "clusters",
    }


def test_runs_that_make_no_calibration(detected: Path, predicted: Path, tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"no samples of mushroom_<language>, mfava_detection_<language>_gold"):
        calibration_from_runs([predicted])
    other = copied(detected, tmp_path / "other")
    (results,) = other.glob("results_*.json")
    changed = json.loads(results.read_text("utf-8"))
    changed["config"]["detector"]["version"] = "another"
    results.write_text(json.dumps(changed), "utf-8")
    with pytest.raises(CalibrationError, match="these runs are of several detectors"):
        calibration_from_runs([detected, other])
    few = generate(tmp_path / "few", tasks="mushroom_de", model="hallucination-detector", model_args="detector=lexical")
    with pytest.raises(
        CalibrationError, match=r"samples_mushroom_de_.*: mushroom_de has 3 annotated answers with words"
    ):
        calibration_from_runs([few])
    results.unlink()
    with pytest.raises(UsageError, match="the results file that was written with"):
        calibration_from_runs([other])
    for path in other.glob("samples_*"):
        path.write_text("", "utf-8")
    (other / results.name).write_text(json.dumps(changed), "utf-8")
    with pytest.raises(CalibrationError, match="no sample can be read"):
        calibration_from_runs([other])


def test_a_calibration_on_what_was_learned_is_said_to_be_too_good(
    detected: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        calibration = calibration_from_runs([detected])
    assert "were trained on these documents, so this calibration is too good" in caplog.text
    assert "7 documents only; a calibration of so few says little" in caplog.text
    assert "held-out" not in calibration.detector["version"]
