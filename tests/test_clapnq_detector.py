"""A detector over the answers to CLAPnq's questions: figures counted by hand, and what is there without one."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.abstention import is_abstention
from custom_metrics.hallucination import estimate
from custom_metrics.statistics.random_effects import measured_errors
from detector_plugin import UnusableDetector, filters
from detector_plugin.calibration import Calibration, CalibrationError, from_counts, load
from lm_eval_tasks.clapnq import dataset, hallucination
from lm_eval_tasks.data import sources
from lm_eval_tasks.detection.calibrated import tagged_answer
from lm_eval_tasks.models.baseline import GroundedBaseline
from tests.conftest import Harness, figures_of
from tests.miniature import MINIATURE
from tests.test_mfava_tasks import EveryThirdWord, third

__all__ = ["third"]  # a fixture

SAMPLE, LEXICAL = {"mirror": MINIATURE}, {"detector": "lexical"}
SETTINGS = {"detector": "lexical", "detector_args": "{}", "calibration": "none", "calibration_annotations": ""}
SHARE, CORRECTED = "hallucinated_share", "rogan_gladen_rate"


def english(folder: Path, languages: tuple[str, ...] = ("en",)) -> str:
    path = folder / "calibration.json"
    by_hand = {"rag": from_counts([[6, 2, 4, 8], [5, 2, 3, 20]] * 3, "by hand")}
    of_languages = {"en": {"real": from_counts([[9, 9, 1, 1]] * 5, "closed-book")}, **dict.fromkeys(languages, by_hand)}
    Calibration({"name": "tests/third", "version": "1", "licence": ""}, of_languages).save(path)
    return str(path)


def evaluated(harness: Harness, task: str, **options: Any) -> tuple[dict[str, Any], Any]:
    """Figures of a run over the sample without the filter's name, and all that the harness returns."""
    got = harness([task], "grounded-baseline", "strategy=lexical", **options)
    return {key.removesuffix(",answer"): value for key, value in got["results"][task].items()}, got


@pytest.mark.parametrize("task", ["clapnq_gold_gpt", "clapnq_rag"])
def test_the_figures_are_counted_by_hand(harness: Harness, third: EveryThirdWord, tmp_path: Path, task: str) -> None:
    calibration = english(tmp_path)
    result, got = evaluated(harness, task, metadata={**SAMPLE, "detector": "tests/third", "calibration": calibration})
    samples = got["samples"][task]
    answers = [sample["resps"][0][0] for sample in samples]
    abstaining = [is_abstention(answer, "en") for answer in answers]
    assert 0 < sum(abstaining) < len(answers) == 32

    # All answers in one go, each with its passages and its question.
    asked = []
    for doc, answer in zip((sample["doc"] for sample in samples), answers, strict=True):
        reference = "\n\n".join(f"{passage['title']} {passage['text']}" for passage in doc["passages"])
        asked.append((reference, answer, "en", doc["question"]))
    assert (third.calls[:1], third.asked[:32]) == ([32], asked)
    lengths = [len(answer.split()) for answer, no in zip(answers, abstaining, strict=True) if not no]
    of_questions = [(number // 3, number) for number in lengths]
    expected = estimate(of_questions, measured_errors(load(calibration).languages["en"]["rag"].documents))
    share = sum(number // 3 for number in lengths) / sum(lengths)
    assert result[CORRECTED] == pytest.approx((share - 4 / 32) / (11 / 18 - 4 / 32))
    for name, interval in ((SHARE, expected.detected), (CORRECTED, expected.rogan_gladen)):
        figure = figures_of(got, task)[name]
        assert tuple(figure[part] for part in ("value", "low", "high", "standard_error")) == interval[:4]
        assert (figure["n"], result[f"{name}_stderr"]) == (len(lengths), interval.standard_error)
    assert expected.detected.low < share == result[SHARE] < expected.detected.high

    # The other metrics are those of a run without a detector.
    filters._loaded.cache_clear()
    plain, without = evaluated(harness, task, metadata=SAMPLE)
    assert str({key: result[key] for key in plain}) == str(plain)
    assert {key for key in result.keys() - plain.keys() if "_stderr" not in key} == {SHARE, CORRECTED}
    assert [sample["filtered_resps"] for sample in without["samples"][task]] == [[answer] for answer in answers]

    # Spans in the samples, and what made them in the results.
    named = {"name": "tests/third", "version": "1", "licence": "CC0"}
    for sample, answer, no in zip(samples, answers, abstaining, strict=True):
        spans = [list(span) for span in EveryThirdWord().detect([""], [answer], [None])[0]]
        assert json.loads(sample["filtered_resps"][0]) == {"answer": answer, "detector": named, "spans": spans}
        words = len(answer.split())
        assert sample[SHARE] == (None if no else (words // 3) / words)
        counted = {key: sample[CORRECTED][key] for key in ("flagged", "words")} if sample[CORRECTED] else None
        assert counted == (None if no else {"flagged": words // 3, "words": words})
    described = got["configs"][task]["metadata"]["provenance"]
    assert described["detector"] == {**named, "threshold": "of its weights", "options": {}}
    assert described["calibration"]["file"] == load(calibration).identity
    assert (described["calibration"]["false_positive_rate"], described["words"]) == (4 / 32, "whitespace")
    assert ("retrieval" in described) is task.startswith("clapnq_rag")


ALONE = """
import sys
from tests.conftest import evaluate
from tests.miniature import MINIATURE
got = evaluate(["clapnq_gold", "clapnq_rag"], "grounded-baseline", "strategy=lexical", metadata={"mirror": MINIATURE})
tasks = ("detection.calibrated", "mfava", "clapnq.hallucination")
ours = ("detector_plugin", *(f"lm_eval_tasks.{name}" for name in tasks))
interface = {"detector_plugin", *(f"detector_plugin.{name}" for name in ("detector", "loading", "processes"))}
print([name for name in sys.modules if name.startswith(ours) and name not in interface])
print([key for task in got["results"].values() for key in task if "halluc" in key or "rogan" in key])
print(["detector" in got["configs"][task]["metadata"]["provenance"] for task in got["configs"]])
print([step["function"] for step in got["configs"]["clapnq_rag"]["filter_list"][0]["filter"]])
print({column for sample in got["samples"]["clapnq_rag"] for column in sample["doc"]} & {"detector", "language"})
"""


@pytest.mark.slow("starts a Python of its own")
def test_without_a_detector_nothing_of_it_is_there() -> None:
    root = Path(sources.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", ALONE], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-5:] == ["[]", "[]", "[False, False]", "['final_answer', 'take_first']", "set()"]


@pytest.mark.slow("a model of transformers reads two settings")
def test_a_token_classifier_reads_the_passages_that_were_given(harness: Harness, lookup: Path, tmp_path: Path) -> None:
    """A model of transformers, rigged to flag the words that its reference lacks: of one passage and of three."""
    said, path = "a cold hot sun is the big moon", tmp_path / "said.jsonl"
    shares = {}
    for task, retriever in (("clapnq_gold", None), ("clapnq_rag", "bm25")):
        documents = dataset.load(retriever=retriever, mirror=MINIATURE)["evaluation"]
        path.write_text("\n".join(json.dumps({"query_id": doc["id"], "response": said}) for doc in documents), "utf-8")
        got = harness([task], "replay", f"path={path}", metadata={**SAMPLE, "detector": str(lookup)})
        given = [re.findall(r"\w+", " ".join(doc["groundings"])) for doc in documents]
        lacking = [sum(word not in words for word in said.split()) for words in given]
        assert [sample["hallucinated_share"] for sample in got["samples"][task]] == [number / 8 for number in lacking]
        shares[task] = got["results"][task]["hallucinated_share,answer"]
        assert shares[task] == sum(lacking) / (8 * 32)
        assert got["configs"][task]["metadata"]["provenance"]["detector"]["name"] == "lookup"  # no place
    assert 0 < shares["clapnq_rag"] < shares["clapnq_gold"] < 1  # three passages hold more words than one


CALIBRATED = {**SETTINGS, "calibration": "c@1", "language": "en"}
DETECTOR = {"name": "a", "version": "1", "licence": ""}


@pytest.mark.parametrize(
    ("answer", "spans", "flagged", "words"),
    [
        ("one two three four", [[4, 7, "hallucination"]], 1, 4),
        ("one two three four", [[2, 9, "entity", 0.5]], 3, 4),  # a word counts with any of its characters
        ("one two three four", [], 0, 4),
        ("one two three four", None, None, 4),  # the detector failed
        ("I don't know.", [[0, 13, "hallucination"]], None, 0),
        ("unanswerable", None, None, 0),
        (" \n\t", [], None, 0),
    ],
)
def test_words_are_counted_over_answers_that_do_not_abstain(
    answer: str, spans: list[Any] | None, flagged: int | None, words: int
) -> None:
    tagged = {"answer": answer, "spans": spans, "detector": DETECTOR}
    values = hallucination.process_results(CALIBRATED, tagged)
    expected = None if flagged is None else {"flagged": flagged, "words": words, "calibration": "c@1|en||a|1"}
    assert values == {SHARE: None if flagged is None else flagged / words, CORRECTED: expected}
    assert expected is None or tagged_answer(values[SHARE]) == tagged_answer(expected)
    uncorrected = hallucination.process_results({**CALIBRATED, "calibration": "none"}, tagged)
    assert uncorrected == {SHARE: values[SHARE]}


class Unasked(GroundedBaseline):
    def respond(self, requests: Sequence[Any], disable_tqdm: bool) -> list[str]:
        raise AssertionError("it must not come to this")


@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        # without torch it is told that models of the hub need the extra, before it is looked for
        ({"detector": "no-such/detector"}, UnusableDetector, "no-such/detector|lm-eval-grounded"),
        ({"detector": ""}, UnusableDetector, "name a detector"),
        ({"detector": ["a", "b"]}, ValueError, r"clapnq_gold: detector takes one value, got \['a', 'b'\]"),
        ({**LEXICAL, "detector_args": "colour=red"}, UnusableDetector, "detector lexical: .*colour"),
        ({**LEXICAL, "held_out": True}, ValueError, "clapnq_gold: held_out belongs into detector_args"),
        ({**LEXICAL, "calibration": "nobody"}, CalibrationError, "calibration 'nobody': no such file"),
        ({**LEXICAL, "calibration_annotations": "real"}, ValueError, "unknown calibration_annotations 'real'; .* rag$"),
        ({"samples": "nowhere"}, FileNotFoundError, "no samples file"),
        ({"samples": ["a"]}, ValueError, r"clapnq_gold: samples takes one value, got \['a'\]"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_word_is_generated(
    harness: Harness, named: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        harness(["clapnq_gold"], Unasked("answer"), metadata={**SAMPLE, **named})


def test_settings_that_are_of_something_else(tmp_path: Path) -> None:
    """A calibration of another detector; the baseline's threshold, which the harness mixes with what the user named."""
    with pytest.raises(CalibrationError, match="it is of detector 'tests/third', and the detector in use is 'lexical'"):
        dataset.load(mirror=MINIATURE, detector="lexical", calibration=english(tmp_path))
    options = {"mirror": MINIATURE, "detector": "lexical", "threshold": 0.3}
    assert dataset.load(**options, strategy="lexical")["evaluation"][0]["detector_args"] == "{}"
    with pytest.raises(ValueError, match="clapnq: threshold belongs into detector_args"):
        dataset.load(**options)


@pytest.mark.parametrize("calibration", ["none", "of German"])
def test_without_a_calibration_for_english_there_is_the_share_alone(
    harness: Harness, third: EveryThirdWord, tmp_path: Path, caplog: pytest.LogCaptureFixture, calibration: str
) -> None:
    named = calibration if calibration == "none" else english(tmp_path, ("de",))
    metadata = {**SAMPLE, "detector": "tests/third", "calibration": named}
    with caplog.at_level(logging.INFO):
        result, got = evaluated(harness, "clapnq_gold", metadata=metadata)
    assert result["hallucinated_share"] > 0
    assert CORRECTED not in result
    assert got["configs"]["clapnq_gold"]["metadata"]["provenance"].get("calibration") is None
    if calibration == "none":
        assert "calibrat" not in caplog.text
    else:
        assert (
            f"clapnq_gold: calibration {load(named).identity} has no errors on RAG answers in English (it has some in "
            f"de), so there is no rogan_gladen_rate" in caplog.text
        )
