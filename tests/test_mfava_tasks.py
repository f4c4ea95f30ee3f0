"""mFAVA in the harness: generated files, runs of the estimation and the detection tasks, and what goes wrong loudly."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.registry import get_filter

from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import parse
from detector_plugin import UnusableDetector, filters
from detector_plugin.calibration import Calibration, CalibrationError, from_counts, load
from lm_eval_tasks.detection import calibrated
from lm_eval_tasks.harness import has_scorers
from lm_eval_tasks.harness.llm_detector import detection_prompt
from lm_eval_tasks.mfava import annotations as detection
from lm_eval_tasks.mfava import dataset
from lm_eval_tasks.mfava import task as estimation
from lm_eval_tasks.models.detector import HallucinationDetector
from tests.conftest import Harness, figures_of
from tests.labelled_facts import write_lines
from tests.miniature import MINIATURE, SAMPLE


class EveryThirdWord:
    """A detector whose findings one can count: every third word of a space-separated answer, as an entity."""

    name, version, licence = "tests/third", "1", "CC0"

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.asked: list[tuple[str, str, str | None, str]] = []

    def detect(self, references: Sequence[str], answers: Sequence[str], *others: Any) -> list[list[Span]]:
        self.calls.append(len(answers))
        self.asked += zip(references, answers, *others, strict=True)
        return [[Span(*word.span(), "entity") for word in [*re.finditer(r"\S+", text)][2::3]] for text in answers]


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> EveryThirdWord:
    detector = EveryThirdWord()
    filters._loaded.cache_clear()
    monkeypatch.setattr(filters, "load_detector", lambda name, **options: detector)
    monkeypatch.setattr(calibrated, "check_detector", lambda name, options: None)
    for cache in (calibrated.in_force, estimation._warn_uncalibrated, calibrated.estimates):
        cache.cache_clear()
    yield detector
    filters._loaded.cache_clear()
    calibrated.in_force.cache_clear()


def calibration(path: Path, languages: dict[str, dict[str, list[list[int]]]], name: str, version: str = "1") -> str:
    """A calibration file of word counts by language and kind."""
    by_hand = {c: {kind: from_counts(rows, "by hand") for kind, rows in of.items()} for c, of in languages.items()}
    Calibration({"name": name, "version": version, "licence": "CC0"}, by_hand).save(path)
    return str(path)


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run_third(harness: Harness, third: EveryThirdWord, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Run:
    """Runs of the baseline whose answers are tagged by every third word, with a calibration of some errors."""

    def run(*tasks: str, strategy: str = "answer", errors: Any = None, calibrated: Any = (), **metadata: Any) -> Any:
        given = {**SAMPLE, "detector": third.name, **metadata}
        if errors:
            given["calibration"] = calibration(tmp_path / "c.json", errors, *(calibrated or (third.name,)))
        with caplog.at_level(logging.INFO):
            return harness([*tasks] or ["mfava_de"], "grounded-baseline", f"strategy={strategy}", metadata=given)

    return run


def test_the_rates_of_a_run_are_those_counted_by_hand(run_third: Run, third: EveryThirdWord, tmp_path: Path) -> None:
    got = run_third(strategy="lexical", errors={"de": {"silver": [[6, 2, 4, 8], [5, 2, 3, 20]] * 3}})
    file = tmp_path / "c.json"
    result = {key.removesuffix(",answer"): value for key, value in got["results"]["mfava_de"].items()}

    answers = [sample["resps"][0][0] for sample in got["samples"]["mfava_de"]]
    words = [len(answer.split()) for answer in answers]
    share = sum(number // 3 for number in words) / sum(words)
    assert third.calls == [9]  # all answers in one go
    assert result["detected_rate"] == pytest.approx(share)
    assert result["estimated_rate"] == pytest.approx((11 / 15) * share / (11 / 18))
    assert result["rogan_gladen_rate"] == pytest.approx(min(1, max(0, (share - 4 / 32) / (11 / 18 - 4 / 32))))
    assert result["response_words"] == pytest.approx(sum(words) / 9)
    assert result["hallucinated_words"] == pytest.approx(sum(number // 3 for number in words) / 9)
    assert (result["abstention_rate"], result["repetition_rate"]) == (0, 0)
    figures = figures_of(got, "mfava_de")
    for rate in ("detected_rate", "estimated_rate", "rogan_gladen_rate"):
        assert figures[rate]["low"] <= result[rate] <= figures[rate]["high"]
        assert result[f"{rate}_stderr"] == figures[rate]["standard_error"] > 0
        assert figures[f"{rate}_std"]["value"] > 0
    by_subset: dict[int, list[int]] = {}
    for sample in got["samples"]["mfava_de"]:
        flagged, total = sample["estimated_rate"]["flagged"], sample["estimated_rate"]["words"]
        assert sample["detected_rate"] == flagged / total
        sums = by_subset.setdefault(sample["doc"]["subset"], [0, 0])
        sums[0], sums[1] = sums[0] + flagged, sums[1] + total
    spread = statistics.stdev(f / n for f, n in by_subset.values())
    assert figures["detected_rate_std"]["value"] == pytest.approx(spread)
    hallucination = got["configs"]["mfava_de"]["metadata"]["provenance"]
    described = {"name": "tests/third", "version": "1", "licence": "CC0"}
    assert hallucination["detector"] == {**described, "threshold": "of its weights", "options": {}}
    assert hallucination["calibration"] == {
        **{"file": load(str(file)).identity, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()},
        **{"detector_version": "1", "annotations": "silver", "source": "by hand", "answers": 6},
        **{"precision": round(11 / 15, 6), "recall": round(11 / 18, 6)},
        **{"false_positive_rate": 4 / 32, "prevalence": 0.36},
    }
    tagged = json.loads(got["samples"]["mfava_de"][0]["filtered_resps"][0])
    assert tagged["detector"]["name"] == "tests/third"
    assert tagged["answer"] == answers[0]
    assert tagged["spans"][0] == list(third.detect([""], [answers[0]], ["de"])[0][0])


def test_a_model_that_always_abstains_makes_nothing_up(harness: Harness) -> None:
    got = harness(["mfava_de", "mfava_ja"], "grounded-baseline", "strategy=abstain", metadata=SAMPLE)["results"]
    for task in ("mfava_de", "mfava_ja"):
        assert (got[task]["abstention_rate,answer"], got[task]["detected_rate,answer"]) == (1, 0)


def test_without_calibration_there_are_no_estimates_and_one_warning_says_how(
    run_third: Run, caplog: pytest.LogCaptureFixture
) -> None:
    got = run_third("mfava_de", "mfava_fi")
    result = got["results"]["mfava_de"]
    assert result["detected_rate,answer"] > 0
    for rate in ("estimated_rate", "rogan_gladen_rate"):
        assert not any(name.startswith(rate) for name in (*result, *figures_of(got, "mfava_de")))
    said = [record.message for record in caplog.records if "without a calibration" in record.message]
    assert len(said) == 1
    assert "`lm-eval-grounded calibrate RESULTS -o FILE`" in said[0]


@pytest.mark.parametrize(
    ("documents", "warning"),
    [
        ([[30, 50, 70, 150]], "a difference under 10%"),
        ([[6, 0, 2, 400]], "the answers are unlike the texts that the detector was measured on"),
    ],
)
def test_a_doubtful_estimate_is_said_to_be_one(
    run_third: Run, caplog: pytest.LogCaptureFixture, documents: list[list[int]], warning: str
) -> None:
    run_third(errors={"de": {"gold": documents * 5}})
    assert sum(warning in record.message for record in caplog.records) == 1
    assert "the corrected rates cannot be trusted" in caplog.text


def test_a_calibration_must_be_of_the_detector_and_should_be_of_the_language(
    run_third: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    errors = {"fi": {"silver": [[6, 2, 4, 8]] * 5}}
    got = run_third("mfava_de", "mfava_fi", errors=errors, calibrated=("tests/third", "0"))
    with pytest.raises(CalibrationError, match="it is of detector 'tests/third', and the detector in use is 'lexical'"):
        dataset.load("de", calibration=str(tmp_path / "c.json"), mirror=MINIATURE)
    assert "estimated_rate,answer" not in got["results"]["mfava_de"]
    assert got["results"]["mfava_fi"]["estimated_rate,answer"] > 0
    assert "has no real, gold or silver calibration for this language (it has fi)" in caplog.text
    assert "the calibration is of version 0 of the detector, and version 1 is in use" in caplog.text


@pytest.mark.parametrize(("version", "calibrated"), [("1", 1), ("2", 0)])
def test_a_model_is_known_by_its_version_under_any_name_or_path(
    run_third: Run, caplog: pytest.LogCaptureFixture, version: str, calibrated: int
) -> None:
    """Measured under its name on the hub, used from a folder; another model's errors are not taken for its own."""
    errors = {"de": {"gold": [[6, 2, 4, 8]] * 5}}
    whole = run_third(detector="/models/third", errors=errors, calibrated=("org/third", version))
    got = whole["results"]["mfava_de"]
    assert ("estimated_rate,answer" in got) is bool(calibrated)
    assert ("the calibration is of org/third, version 2" in caplog.text) is not bool(calibrated)


def test_the_harnesses_default_device_is_nobodys_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval_tasks.models import detector as module

    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "load_detector", lambda name, **options: seen.append(options) or EveryThirdWord())
    for device in ("cuda:0", "cuda:1", "cpu", None):
        HallucinationDetector("org/model", device=device, batch_size=1)
    assert seen == [{}, {"device": "cuda:1"}, {"device": "cpu"}, {}]


def test_a_detector_that_does_not_exist_is_an_error() -> None:
    pytest.importorskip("torch", reason="without it no model of the hub is looked for")
    with pytest.raises(UnusableDetector, match="no-such/detector"):
        dataset.load("de", detector="no-such/detector", mirror=MINIATURE)
    with pytest.raises(UnusableDetector, match=r"detector lexical: .*colour"):
        dataset.load("de", detector_args="colour=red", mirror=MINIATURE)


def test_a_document_without_reference_is_named() -> None:
    spans = get_filter("hallucination_spans")
    with pytest.raises(ValueError, match=r"the document has no 'reference', only \['query'\]"):
        spans().apply([["a"]], [{"query": "q"}])
    passages = {"passages": [{"title": "Titel", "text": "Ein Text."}], "language": "de"}
    ((tagged,),) = spans(reference="passages").apply([["Ein Text."]], [passages])
    assert json.loads(tagged)["detector"]["name"] == "lexical"


def test_a_detector_that_fails_in_the_middle_costs_no_answers(
    run_third: Run, third: EveryThirdWord, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(third, "detect", fail)
    got = run_third()
    assert "CUDA out of memory" in caplog.text
    assert "9 answers stay untagged" in caplog.text
    assert "detected_rate,answer" not in got["results"]["mfava_de"]
    assert got["results"]["mfava_de"]["response_words,answer"] > 0
    assert got["samples"]["mfava_de"][0]["resps"][0][0]
    assert json.loads(got["samples"]["mfava_de"][0]["filtered_resps"][0])["spans"] is None


def test_a_calibration_of_a_prompted_model_is_found_by_its_name(tmp_path: Path) -> None:
    file = calibration(tmp_path / "c.json", {"de": {"gold": [[6, 2, 4, 8]] * 5}}, "llm:Q")
    options = {"pretrained": "Q", "model": "local-chat-completions"}
    assert calibrated.calibration_of("llm", options, file) == load(file).identity
    with pytest.raises(CalibrationError, match="of detector 'llm:Q', and the detector in use is 'llm:R'"):
        calibrated.calibration_of("llm", {"pretrained": "R"}, file)


def test_a_language_model_that_tags_as_people_did_is_perfect(harness: Harness, tmp_path: Path) -> None:
    """Through `replay`: what a model said is scored; the target itself scores 1."""
    tasks = [f"mfava_detection_{language}_gold{suffix}" for language in ("ar", "zh") for suffix in ("", "_category")]
    rows = [
        {"id": doc["id"], "response": f"Sure! Here it is:\n{doc['target']}"}
        for language in ("ar", "zh")
        for doc in detection.load(language, "gold", mirror=MINIATURE)["evaluation"]
    ]
    whole = harness(tasks, "replay", f"path={write_lines(tmp_path / 'a.jsonl', rows)}", metadata=SAMPLE)
    got = whole["results"]
    for task in tasks:
        figures = figures_of(whole, task)
        assert got[task]["precision,tags"] == got[task]["recall,tags"] == figures["f1"]["value"] == 1
        assert ("f1_entity" in figures) is task.endswith("_category")
        assert got[task]["altered_rate,tags"] == 1  # the preamble is other text
        assert got[task]["lost_rate,tags"] == 0


def test_a_detector_is_a_model(harness: Harness) -> None:
    tasks = ["mfava_detection_gold", "mfava_detection_de_gold_category"]
    got = harness(tasks, "hallucination-detector", "detector=lexical", metadata=SAMPLE)
    assert got["config"]["detector"]["name"] == "lexical"
    assert got["config"]["detector"]["licence"].startswith("Apache-2.0")
    assert 0 < got["groups"]["mfava_detection_gold"]["f1,tags"] <= 1
    binary = got["results"]["mfava_detection_de_gold"]
    f1 = figures_of(got, "mfava_detection_de_gold")["f1"]
    assert f1["low"] <= binary["f1,tags"] <= f1["high"]
    assert got["results"]["mfava_detection_de_gold_category"]["f1,tags"] == 0  # it knows no categories
    sample = got["samples"]["mfava_detection_de_gold"][0]
    text, spans = parse(sample["resps"][0][0])
    assert text == sample["doc"]["answer"]
    assert all(span.category == "hallucination" for span in spans)


def test_a_detector_writes_no_answers() -> None:
    from lm_eval.api.instance import Instance

    model = HallucinationDetector()
    options: dict[str, Any] = {"doc_id": 0} if has_scorers() else {}
    request = Instance("generate_until", {"query": "q", "reference": "r"}, ("p", {}), 0, **options)
    with pytest.raises(ValueError, match=r"""the document has no answer.*--metadata '{"detector": "NAME"}'"""):
        model.generate_until([request])
    with pytest.raises(ValueError, match="no likelihoods"):
        model.loglikelihood([])


def test_tasks_and_detector_ask_the_same_question(harness: Harness) -> None:
    got = harness(["mfava_detection_fi_silver"], "grounded-baseline", "strategy=abstain", metadata=SAMPLE)
    sample = got["samples"]["mfava_detection_fi_silver"][0]
    documents = detection.load("fi", "silver", mirror=MINIATURE)["evaluation"]
    assert sample["arguments"][0][0] == detection_prompt(documents[0]["reference"], sample["doc"]["answer"])
    assert not {"reference", "target"} & sample["doc"].keys()  # they stand in the prompt and in the target
    assert sample["target"] == documents[0]["target"]
