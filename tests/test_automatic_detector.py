"""`detector=auto`: which public detector it stands for, what is said of the choice, and that calibrations follow it."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin import UnusableDetector, calibration, filters, load_detector, loading
from detector_plugin.loading import AutomaticDetector, calibrated_name, check_detector, resolve
from lm_eval_tasks.detection.calibrated import settings_of
from lm_eval_tasks.models.detector import HallucinationDetector
from lm_eval_tasks.results.logs import detect_log
from lm_eval_tasks.runs.results_file import provenance_of

ROWS = shipped_rows("detector_plugin", "automatic.tsv")
EUROBERT = "KRLabsOrg/lettucedect-610m-eurobert"
MMBERT, EURO = "KRLabsOrg/lettucedect-v2-mmbert-base", "EuroEval/mmBERT-small-multi-wiki-qa-synthetic-hallucinations-"


@pytest.fixture(autouse=True)
def _asked_anew() -> None:
    loading.chosen.cache_clear()


def test_the_table() -> None:
    assert len({(row["language"], row["task"]) for row in ROWS}) == len(ROWS) == 47
    assert {row["task"] for row in ROWS} == {"closed-book", "rag"}
    for row in ROWS:
        assert re.fullmatch(r"[\w-]+/[\w.-]+", row["detector"])
        assert re.fullmatch(r"(LettuceDetect|EuroEval) \S+@[0-9a-f]{8}", row["source"])
        assert row["licence"] in ("apache-2.0", "mit", "unknown")


def test_the_choice() -> None:
    for options, name, left in (
        ({"language": "de"}, MMBERT, {}),
        ({"language": "zh", "task": "rag", "dtype": "float32"}, f"{EUROBERT}-cn-v1", {"dtype": "float32"}),
        ({"language": "da", "task": "rag"}, f"{EURO}with-ragtruth-da", {}),
        ({"language": "sw", "threshold": 0.4}, "lexical", {"threshold": 0.4}),
    ):
        assert resolve("auto", options) == (name, left)
        assert calibrated_name("auto", options) == name
        assert resolve("lexical", options) == ("lexical", options)  # nothing is chosen where one is named


def test_what_cannot_be_chosen_or_had() -> None:
    with pytest.raises(UnusableDetector, match=r"option task: 'chat' is none of closed-book, rag"):
        load_detector("auto", language="de", task="chat")
    with pytest.raises(UnusableDetector, match=r"detector auto: no option 'treshold'; did you mean 'threshold'"):
        check_detector("auto", '{"treshold": 1}')
    pytest.importorskip("transformers")
    with pytest.raises(UnusableDetector, match=rf"HF_HUB_OFFLINE is set.*'hf download {EURO}with-ragtruth-da'"):
        check_detector("auto", '{"language": "da", "task": "rag"}')


def test_what_lacks_is_said_of_all_languages_at_once() -> None:
    pytest.importorskip("transformers")
    detector = load_detector("auto", task="rag")
    with pytest.raises(
        UnusableDetector, match=rf"'hf download {EUROBERT}-de-v1'.*'hf download {EURO}with-ragtruth-da'"
    ):
        detector.detect(["x"] * 4, ["y"] * 4, ["de", "sw", "da", None])


def by_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in which German goes to flag-all, English to flag-none."""
    row = {"task": "rag", "licence": "mit", "figure": "", "source": "here"}
    rows = [{**row, "language": "de", "detector": "flag-all"}, {**row, "language": "en", "detector": "flag-none"}]
    monkeypatch.setattr(loading, "shipped_rows", lambda package, name: rows)


def test_each_answer_goes_to_the_detector_of_its_language(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    by_language(monkeypatch)
    texts, languages = ["eins zwei", "one", "drei", "moja"], ["de", "en", "de", None]
    with pytest.raises(UnusableDetector, match="detector flag-all: no option 'threshold'"):
        load_detector("auto", task="rag", threshold=0.5).detect(texts, texts, languages)
    detector = load_detector("auto", task="rag")
    assert isinstance(detector, AutomaticDetector)
    spans = detector.detect(texts, texts, languages)
    assert [len(of_answer or ()) > 0 for of_answer in spans[:3]] == [True, False, True]
    names = [(code, each["name"]) for code, each in detector.by_language().items()]
    assert names == [("de", "flag-all"), ("en", "flag-none"), ("und", "lexical")]
    assert "no public one is known for und, rag: lexical" in caplog.text


def test_a_log_in_several_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    by_language(monkeypatch)
    filters._loaded.cache_clear()
    for languages, names in ((["de", "en", "de"], {"de": "flag-all", "en": "flag-none"}), (["de"], {})):
        lines = [{"passages": ["x y"], "answer": "x y", "language": language} for language in languages]
        (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
        results = detect_log(tmp_path / "log.jsonl", tmp_path / "out.jsonl", "auto")
        record = provenance_of(json.loads(results.read_text("utf-8"))["configs"]["logged_answers"])["detector"]
        assert record["name"] == ("auto" if names else "flag-all")
        assert {code: each["name"] for code, each in record.get("by_language", {}).items()} == names
        shares = [json.loads(line)["flagged_share"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert shares == [float(language == "de") for language in languages]
    assert "the shares are of several detectors" in caplog.text
    filters._loaded.cache_clear()


def test_where_none_is_known_lexical_is_said(caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_of("mfava_sw", "auto", language="sw")
    assert settings == settings_of("mfava_sw", "lexical")
    assert settings["calibration"] == calibration.load(calibration.shipped()["lexical"]).identity
    assert "no public one is known for sw, closed-book: lexical" in caplog.text
    model = HallucinationDetector(detector="auto", language="sw")
    assert model.get_model_info()["detector"]["name"] == "lexical"


def test_the_calibration_of_the_chosen_one(
    lookup: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    row = {"language": "en", "task": "rag", "detector": str(lookup), "licence": "mit", "figure": "", "source": "here"}
    monkeypatch.setattr(loading, "shipped_rows", lambda package, name: [row])
    with caplog.at_level(logging.INFO):
        settings = settings_of("clapnq_gold", "auto", {"batch_size": 4}, language="en", kinds=("rag",))
    assert (settings["detector"], settings["detector_args"]) == (str(lookup), '{"batch_size": 4}')
    assert f"for en, rag: {lookup}, licence mit (its authors' figure: none; here)" in caplog.text
    assert load_detector("auto", language="en", task="rag").name == str(lookup)
    file = lookup / "calibration.json"
    wrong = calibration.shipped()["lexical"]
    with pytest.raises(
        calibration.CalibrationError, match=f"of detector 'lexical', and the detector in use is '{lookup}'"
    ):
        settings_of("clapnq_gold", "auto", calibration=str(wrong), language="en", kinds=("rag",))
    assert not file.exists()
