"""mFAVA: public files in all their forms, estimation with every third word flagged, and detection tasks."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.registry import get_filter

from custom_metrics.reading.spans import Span
from custom_metrics.reading.tagged_text import parse
from detector_plugin import UnusableDetector, filters
from detector_plugin.calibration import Calibration, CalibrationError, from_counts, load
from lm_eval_tasks.data.provenance import of_dataset
from lm_eval_tasks.data.sources import MissingSource, source_file
from lm_eval_tasks.definition import pairs
from lm_eval_tasks.detection import calibrated
from lm_eval_tasks.harness import has_scorers
from lm_eval_tasks.harness.llm_detector import detection_prompt
from lm_eval_tasks.mfava import annotations as detection
from lm_eval_tasks.mfava import dataset
from lm_eval_tasks.mfava import task as estimation
from lm_eval_tasks.mfava.dataset import LANGUAGES
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


def test_without_calibration_no_estimates_but_one_warning_how(run_third: Run, caplog: pytest.LogCaptureFixture) -> None:
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
    [([[30, 50, 70, 150]], "difference under 10%"), ([[6, 0, 2, 400]], "texts that the detector was measured on")],
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


REPOSITORY = "github/WorldHellow/mHallucinations-LLM"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    for cache in (dataset._documents, detection._documents, detection._records):
        cache.cache_clear()


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / REPOSITORY / name
    path.parent.mkdir(parents=True)
    path.write_text(content, "utf-8")
    return path


def write_queries(folder: Path, header: str, *rows: str) -> Path:
    return write(folder, LANGUAGES["de"].queries_file, "\n".join([header, *rows]) + "\n")


FIVE = "Category,Article Title,URL,reference_1,reference_2,reference_3,reference_4,reference_5,query_1,query_2"

FORMS = [
    # header, row, questions, reference, left out
    (FIVE, "K,T,http://a,R1,R2,,,,Wer?,Was?", ["Wer?", "Was?"], "R1\nR2", {}),
    (FIVE, "K,T,http://a,R1,,,,,1. Wer?,2. Was?", ["Wer?", "Was?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,1) Wer?,2) Was?", ["Wer?", "Was?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,١. من؟,٢. ما؟", ["من؟", "ما؟"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,1. Wer?,2.", ["Wer?"], "R1", {"questions that are empty in the file": 1}),
    # an ordinal is no numbering
    (FIVE, "K,T,http://a,R1,,,,,1. FC Köln wurde wann Meister?,Wer traf?",
     ["1. FC Köln wurde wann Meister?", "Wer traf?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,2. Wer?,1. Wo?", ["2. Wer?", "1. Wo?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,1. Wer gewann 4:2?,2: Wo?", ["Wer gewann 4:2?", "Wo?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,Wer?,  ", ["Wer?"], "R1", {"questions that are empty in the file": 1}),
    ("Article Title,Category,references,query_1,query_2", "T,K,R1 R2,Wer?,Was?", ["Wer?", "Was?"], "R1 R2", {}),
    ("article title,REFERENCES,Query_1", "T,R1,Wer?", ["Wer?"], "R1", {}),
    ("\ufeffArticle Title,references,query_1", "T,R1,Wer?", ["Wer?"], "R1", {}),
]  # fmt: skip


@pytest.mark.parametrize(("header", "row", "questions", "reference", "left_out"), FORMS)
def test_one_reader_serves_all_forms(
    tmp_path: Path, header: str, row: str, questions: list[str], reference: str, left_out: dict[str, int]
) -> None:
    seen: Counter[str] = Counter()
    articles, total = dataset.read_articles(write_queries(tmp_path, header, row), seen)
    assert total == 1
    assert [question for _, question in articles[0]["queries"]] == questions
    assert articles[0]["reference"] == reference
    assert [articles[0][column] for column in ("row", "title", "category", "url")] == [
        *(0, "T", "K" if "Category" in header else "", "http://a" if "URL" in header else "")
    ]
    assert seen == left_out


def test_articles_without_reference_or_question_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["K,A,u,R,,,,,Wer?,Was?", "K,B,u,,,,,,Wer?,Was?", "K,C,u,R,,,,,,", 'K,D,u,"R ""x"", y\nz",,,,,Wo?,']
    write_queries(tmp_path, FIVE, *rows)
    documents = dataset.load("de", mirror=str(tmp_path))["evaluation"]
    assert documents["title"] == ["A", "D", "A"]  # the subsets in turn: A is in the first, D in the fourth
    assert documents["reference"][1] == 'R "x", y\nz'
    assert "articles left out, without a reference: 1" in caplog.text
    assert "articles left out, without a question: 1" in caplog.text
    assert of_dataset(documents)["left_out"][dataset.EMPTY] == 3


@pytest.mark.parametrize(("articles", "sizes"), [(10, [2, 2, 2, 2, 2]), (12, [3, 3, 2, 2, 2]), (3, [1, 1, 1])])
def test_the_subsets_are_numpys_array_split_of_the_articles(tmp_path: Path, articles: int, sizes: list[int]) -> None:
    write_queries(tmp_path, FIVE, *(f"K,T{number},u,R,,,,,Q{number}a,Q{number}b" for number in range(articles)))
    documents = dataset.load("de", mirror=str(tmp_path))["evaluation"]
    subset_of = dict(zip(documents["article"], documents["subset"], strict=True))
    assert [subset_of[number] for number in range(articles)] == [s for s, size in enumerate(sizes) for _ in range(size)]
    assert documents["subset"][: len(sizes)] == list(range(len(sizes)))  # in turn, so that --limit sees all five
    assert len(set(documents["id"])) == 2 * articles


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("Category,Article Title", ["K,T"], "no columns of references and queries"),
        ("references,query_1", ['R,"Wer?'], "unexpected end of data; delete it and fetch it again"),
        ("references,query_1", [], "no article with a reference and a question"),
        ("references,query_1", [",Wer?"], "no article with a reference and a question"),
    ],
)
def test_damaged_query_files(tmp_path: Path, header: str, rows: list[str], message: str) -> None:
    write_queries(tmp_path, header, *rows)
    with pytest.raises(ValueError, match=message):
        dataset.load("de", mirror=str(tmp_path))


def test_unknown_names_are_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown calibration_annotations 'bronze'; known are gold, pooled, real"):
        dataset.load("de", calibration_annotations="bronze", mirror=MINIATURE)
    with pytest.raises(ValueError, match="detector_args must be JSON or name=value;name=value, got 'x'"):
        dataset.load("de", detector_args="x", mirror=MINIATURE)
    with pytest.raises(ValueError, match=r"^mfava_de: form, threshold belongs into detector_args; put `;` between"):
        dataset.load("de", mirror=MINIATURE, form="pair", threshold=0.7, pretrained="a-model")
    with pytest.raises(MissingSource, match="sources --fetch 'WorldHellow/mHallucinations-LLM/datasets"):
        dataset.load("de", mirror=str(tmp_path))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (None, {}),
        ("", {}),
        ({"threshold": 0.4}, {"threshold": 0.4}),
        ('{"threshold": 0.4, "form": "pair"}', {"threshold": 0.4, "form": "pair"}),
        ("threshold=0.4;form=pair", {"threshold": 0.4, "form": "pair"}),
    ],
)
def test_detector_args(given: object, options: dict[str, object]) -> None:
    assert pairs("detector_args", given, "mfava_de") == options  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", "cut or damaged"),
        ("[1]", "document 0: 'int' object has no attribute 'get'"),
        ('[{"references": "r", "generated_text": null, "silver_annotations": "a"}]', "'generated_text' is NoneType"),
        ('[{"references": "r", "generated_text": "a"}]', "'silver_annotations' is NoneType"),
        ("[]", "no annotated answer in Finnish"),
    ],
)
def test_damaged_annotations(tmp_path: Path, content: str, message: str) -> None:
    write(tmp_path, LANGUAGES["fi"].silver_file, content)
    with pytest.raises(ValueError, match=message):
        detection.load("fi", "silver", mirror=str(tmp_path))


def test_unreadable_references_are_counted(hub: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        detection.load("la", "silver", mirror=hub)
        detection.load("fi", "silver", mirror=hub)
    said = [record.message for record in caplog.records if "unreadable" in record.message]
    assert len(said) == 1
    assert said[0].startswith("mfava_detection_la_silver: 302 of 309 references are mostly unreadable")


def test_an_annotation_of_another_text_is_left_out_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = {"references": "r", "generated_text": "Kissa on astronautti."}
    good = {**text, "silver_annotations": "Kissa <entity>on astronautti</entity>."}
    bad = {**text, "silver_annotations": "Jotain muuta kuin se mikä tuossa edellä luki."}
    write(tmp_path, LANGUAGES["fi"].silver_file, json.dumps([good, bad]))
    with caplog.at_level(logging.INFO):
        (document,) = detection.load("fi", "silver", mirror=str(tmp_path))["evaluation"]
    assert document["spans"] == [{"start": 6, "end": 20, "category": "entity"}]
    assert document["target"] == good["silver_annotations"]
    assert "(annotated text is that of another document: 1)" in caplog.text
    assert "50.00% aligned" in caplog.text


def test_every_language_has_its_public_files() -> None:
    assert len(LANGUAGES) == 31
    assert [code for code, language in LANGUAGES.items() if not language.in_paper] == ["fa"]
    assert [code for code, language in LANGUAGES.items() if language.gold] == ["ar", "zh", "de", "ru", "tr"]
    assert [code for code, language in LANGUAGES.items() if not language.silver] == ["ja"]
    for language in LANGUAGES.values():
        assert source_file("WorldHellow/mHallucinations-LLM", language.queries_file).checksum.startswith("git:")
        if language.silver_file:
            assert source_file("WorldHellow/mHallucinations-LLM", language.silver_file).checksum.startswith("git:")


@pytest.mark.parametrize(("language", "questions"), [("de", 297), ("fi", 230), ("zh", 235), ("tr", 278)])
def test_real_questions(hub: str, language: str, questions: int) -> None:
    """The mirror holds 150 articles of each; the counts are the non-empty questions."""
    documents = dataset.load(language, mirror=hub)["evaluation"]
    assert len(documents) == questions
    assert not any(query[:2] in ("1.", "2.", "1)", "2)") for query in documents["query"])
    subsets = Counter(dict(zip(documents["article"], documents["subset"], strict=True)).values())
    assert sum(subsets.values()) == (148 if language == "tr" else 150)
    assert max(subsets.values()) == 30
