"""Detectors and retrievers of other packages, which are found by name: a distribution made here stands for anybody's."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.plain_errors import UsageError
from custom_metrics.spans import Span
from detector_plugin import Detector, UnusableDetector, entry_points, load_detector
from detector_plugin.calibration import Calibration as CalibrationFile
from detector_plugin.calibration import CalibrationError, measured
from detector_plugin.loading import calibrated_name, check_detector, has_package, takes
from lm_eval_tasks.autoload import task_folder
from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.dataset import load_task
from lm_eval_tasks.clapnq.retrieval import RETRIEVERS, names, open_retriever
from lm_eval_tasks.clapnq.retrieval.run import read_run
from lm_eval_tasks.clapnq.retrieving import retrieve
from lm_eval_tasks.detector_settings import calibration_of, settings_of
from lm_eval_tasks.models.detector import HallucinationDetector
from tests.conftest import command, evaluate, run
from tests.test_retrieval import asked, ids, write_corpus

MODULE = '''
"""What the package of somebody else holds."""
from custom_metrics.spans import Span

LOADED = []

class Shouting:
    """Flags long words that begin with a capital."""
    name, version, licence = "shouting", "7", "MIT"

    def __init__(self, least=2, device="cpu"):
        if not isinstance(least, int):
            raise ValueError(f"least is a number of letters, got {least!r}")
        LOADED.append((least, device))
        self.least, self.device = least, device

    def detect(self, references, answers, languages, questions=None):
        found = []
        for answer in answers:
            spans, at = [], 0
            for word in answer.split(" "):
                if word[:1].isupper() and len(word) >= self.least:
                    spans.append(Span(at, at + len(word), "entity"))
                at += len(word) + 1
            found.append(spans)
        return found

def check_model(model=None):
    if model is None:
        raise ValueError("model=NAME is missing")

def served(model=None, **options):
    """A function that makes detectors, with both hooks."""
    detector = Shouting()
    detector.name = f"served:{model}"
    return detector

served.check = check_model
served.calibrated_name = lambda options: f"served:{options.get('model')}"

def misnamed():
    return Shouting()

def unprefixed():
    return Shouting()
unprefixed.calibrated_name = lambda options: "lexical"

def nothing():
    return object()

A_NUMBER = 7

def needs_a_library():
    import no_such_library

class ByLength:
    """Ranks the longest passage first, whatever is asked."""
    name = "length"

    def __init__(self, corpus, options):
        if options.get("order", "longest") not in ("longest", "shortest"):
            raise ValueError(f"order is longest or shortest, got {options['order']!r}")
        self.sign = -1 if options.get("order") == "shortest" else 1
        self.corpus, self.options = corpus, options

    def describe(self):
        return {"order": self.options.get("order", "longest")}

    def search(self, questions, k):
        texts = self.corpus.contents(0, len(self.corpus))
        scored = sorted(zip(self.corpus.ids, map(len, texts)), key=lambda one: -self.sign * one[1])
        return [[(id, self.sign * length) for id, length in scored[:k]] for _ in questions]

class Wrong(ByLength):
    def search(self, questions, k):
        (first, *_), = super().search(questions[:1], k)
        rankings = {
            "unknown": [("no-such-passage", 1.0)], "twice": [first, first], "rising": [first, ("p001", 10.0**9)],
            "infinite": [("p001", float("nan"))],
        }
        return [rankings[self.options["how"]]] * len(questions) if self.options["how"] != "few" else []

class Dumb(ByLength):
    def describe(self):
        return {"model": object()}
'''

DETECTORS = """
[lm_eval_grounded.detectors]
shouting = somebodys_module:Shouting
served = somebodys_module:served
misnamed = somebodys_module:misnamed
unprefixed = somebodys_module:unprefixed
nothing = somebodys_module:nothing
number = somebodys_module:A_NUMBER
library = somebodys_module:needs_a_library
absent = somebodys_module:Absent
broken = somebodys_broken_module:Detector
org/model = somebodys_module:Shouting
"""
RETRIEVER_POINTS = """
[lm_eval_grounded.retrievers]
length = somebodys_module:ByLength
wrong = somebodys_module:Wrong
dumb = somebodys_module:Dumb
nothing = somebodys_module:nothing
"""

Package = Callable[..., Path]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Puts a distribution of a name, with entry points, on the path."""

    def put(name: str, points: str) -> Path:
        site = tmp_path / f"site of {name}"
        info = site / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n", "utf-8")
        (info / "entry_points.txt").write_text(points, "utf-8")
        (site / "somebodys_module.py").write_text(MODULE, "utf-8")
        (site / "somebodys_broken_module.py").write_text("raise RuntimeError('no such device\\nand more')\n", "utf-8")
        monkeypatch.syspath_prepend(str(site))
        return site

    yield put
    for module in ("somebodys_module", "somebodys_broken_module"):
        sys.modules.pop(module, None)
    check_detector.cache_clear()


@pytest.fixture
def theirs(package: Package) -> Path:
    return package("somebodys-package", DETECTORS + RETRIEVER_POINTS)


def loaded() -> list[Any]:
    found: list[Any] = sys.modules["somebodys_module"].LOADED
    return found


# ------------------------------------------------------------------------------------------------------------ detectors


def test_ours_are_entry_points_of_this_distribution() -> None:
    assert entry_points.names(entry_points.DETECTORS) == ["lexical", "llm"]
    assert names() == sorted(RETRIEVERS)
    for group in (entry_points.DETECTORS, entry_points.RETRIEVERS):
        for name in entry_points.names(group):
            offer = entry_points.find(group, name)
            assert offer is not None
            assert offer.ours
            assert callable(entry_points.load(offer))


@pytest.mark.usefixtures("theirs")
def test_a_detector_of_another_package_is_loaded_with_its_options() -> None:
    detector = load_detector("shouting", least=3)
    assert isinstance(detector, Detector)
    assert detector.detect(["x"], ["it is SO GOOD"], ["en"]) == [[Span(9, 13, "entity")]]
    assert calibrated_name("shouting", {}) == "shouting"
    assert load_detector("served", model="m").name == calibrated_name("served", {"model": "m"}) == "served:m"


@pytest.mark.usefixtures("theirs")
def test_it_is_checked_before_it_is_loaded() -> None:
    """By its own check; without one, by the names of its options."""
    check_detector("shouting", '{"least": 3}')
    check_detector("served", '{"model": "m"}')
    assert loaded() == []
    with pytest.raises(UnusableDetector, match=r"^detector shouting: .*unexpected keyword argument 'colour'"):
        check_detector("shouting", '{"colour": "red"}')
    with pytest.raises(UnusableDetector, match=r"^detector served: model=NAME is missing$"):
        check_detector("served", "{}")


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("shouting", {"least": "3"}, r"^detector shouting: least is a number of letters, got '3'$"),
        ("library", {}, r"^detector library: No module named 'no_such_library'$"),
        (
            "broken",
            {},
            r"^detector broken: somebodys-package 1\.5 \(somebodys_broken_module:Detector\) cannot be imported: "
            r"RuntimeError: no such device$",
        ),
        ("absent", {}, r"somebodys_module:Absent\) cannot be imported: AttributeError: .*Absent"),
        ("number", {}, r"somebodys_module:A_NUMBER\) is no class or function that makes a detector$"),
        ("nothing", {}, r"^detector nothing: what was loaded is a object without name, version, licence, detect;"),
        ("misnamed", {}, r"its attribute name is 'shouting', but calibrations know it by 'misnamed'"),
        (
            "unprefixed",
            {},
            r"calibrations know it by 'lexical', says .*must be 'unprefixed', or begin with 'unprefixed:'",
        ),
    ],
)
def test_one_that_cannot_be_used_says_why(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableDetector, match=message):
        load_detector(name, **options)


@pytest.mark.usefixtures("theirs")
def test_an_unknown_name_lists_those_that_there_are() -> None:
    there = r"absent, broken, lexical, library, llm, misnamed, nothing, number, served, shouting, unprefixed"
    with pytest.raises(UnusableDetector, match=rf"^name a detector: {there}, or the name or path of a Hugging Face"):
        load_detector(" ")
    pytest.importorskip("torch", reason="models of the hub need the extra hf")
    with pytest.raises(
        UnusableDetector, match=rf"^detector shoutin: .*Detectors with a name of their own are {there}\."
    ):
        load_detector("shoutin")


@pytest.mark.usefixtures("theirs")
def test_a_name_that_a_model_could_have_stays_the_models() -> None:
    assert "org/model" not in entry_points.names(entry_points.DETECTORS)
    assert entry_points.find(entry_points.DETECTORS, "org/model") is None


def test_two_packages_of_one_name_are_both_named(package: Package) -> None:
    package("one", "[lm_eval_grounded.detectors]\nshouting = somebodys_module:Shouting\n")
    package("other", DETECTORS)
    with pytest.raises(UnusableDetector) as refused:
        load_detector("shouting")
    assert re.fullmatch(
        r"detector shouting: 2 installed packages give this name to one of theirs: "
        r"other 1\.5 \(somebodys_module:Shouting\), one 1\.5 \(somebodys_module:Shouting\)\. Uninstall all but one",
        str(refused.value),
    )
    assert load_detector("served", model="m").name == "served:m"


def test_ours_are_not_replaced_in_silence(package: Package) -> None:
    package(
        "eager",
        "[lm_eval_grounded.detectors]\nlexical = somebodys_module:Shouting\n"
        "[lm_eval_grounded.retrievers]\nbm25 = somebodys_module:ByLength\n",
    )
    with pytest.raises(
        UnusableDetector, match=r"^detector lexical: 2 .*eager 1\.5 .*lm-eval-grounded [\d.]+ \(detector_pl"
    ):
        load_detector("lexical")
    with pytest.raises(UsageError, match=r"^retriever bm25: 2 installed packages .*eager 1\.5 .*lm-eval-grounded "):
        open_retriever("bm25", corpus=None)  # type: ignore[arg-type]


def test_a_stale_installation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a checkout that is not installed, or was before it had entry points."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    monkeypatch.setattr(sys, "path", [*sys.path, "another"])
    with pytest.raises(
        UnusableDetector, match=r"^detector lexical: lm-eval-grounded is not installed, or .*Install it agai"
    ):
        load_detector("lexical")


def test_nothing_is_looked_up_before_it_is_asked_for(theirs: Path, tmp_path: Path) -> None:
    """And then the installed packages are read once."""
    code = (
        "import sys, detector_plugin, lm_eval_tasks.clapnq.retrieval\n"
        "from detector_plugin import entry_points, load_detector\n"
        "print(entry_points._offers.cache_info().misses, 'somebodys_module' in sys.modules)\n"
        "load_detector('shouting'); load_detector('lexical'); load_detector('shouting')\n"
        "print(entry_points._offers.cache_info().misses, 'somebodys_module' in sys.modules, 'torch' in sys.modules)"
    )
    done = run([sys.executable, "-c", code], tmp_path, PYTHONPATH=str(theirs))
    assert done.stdout == "0 False\n1 True False\n"


@pytest.mark.usefixtures("theirs")
def test_the_harness_device_goes_to_detectors_that_have_one() -> None:
    assert takes("shouting", "device")
    assert not takes("served", "device")
    assert not takes("lexical", "device")
    HallucinationDetector("shouting", device="cuda:3", batch_size=8, least=4)
    HallucinationDetector("lexical", device="cuda:3", batch_size=8)
    assert loaded() == [(4, "cuda:3")]


@pytest.mark.usefixtures("theirs")
def test_a_calibration_is_held_against_its_name(tmp_path: Path) -> None:
    assert has_package("shouting")
    assert has_package("served:some/model")
    assert not has_package("somebody/model")
    described = {"name": "shouting", "version": "7", "licence": "MIT"}
    file = tmp_path / "shouting.json"
    CalibrationFile(described, {"de": {"gold": measured([[1, 1, 1, 5]], "mine")}}).save(file)
    found = settings_of("mfava_de", "shouting", "least=4", str(file))
    assert found["detector_args"] == '{"least": 4}'
    assert found["calibration"].startswith("shouting.json@")
    with pytest.raises(
        CalibrationError, match="is of detector 'shouting', and the detector in use is 'somebody/model'"
    ):
        calibration_of("somebody/model", {}, str(file))


@pytest.mark.usefixtures("theirs")
def test_it_tags_the_answers_of_a_run() -> None:
    """As the second model beside a language model, and as the model that is measured."""
    beside = evaluate(
        ["mfava_de"],
        "grounded-baseline",
        "strategy=full_passage",
        metadata={"mirror": "sample", "detector": "shouting", "detector_args": "least=3"},
        log_samples=True,
        bootstrap_iters=0,
    )
    filtered = [json.loads(sample["filtered_resps"][0]) for sample in beside["samples"]["mfava_de"]]
    assert {json.dumps(one["detector"]) for one in filtered} == {
        '{"name": "shouting", "version": "7", "licence": "MIT"}'
    }
    flagged = [one["answer"][start:end] for one in filtered for start, end, *_ in one["spans"]]
    assert len(flagged) > 20
    assert all(word[0].isupper() and len(word) >= 3 for word in flagged)
    task = "mfava_detection_de_gold"
    tagged = evaluate([task], "hallucination-detector", "detector=shouting,least=1", metadata={"mirror": "sample"})
    assert 0 < tagged["results"][task]["recall,tags"] < 1
    assert tagged["results"][task]["precision,tags"] > 0


def test_the_command_marks_with_it(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "reference.txt").write_text("x", "utf-8")
    (tmp_path / "answer.txt").write_text("it is SO GOOD", "utf-8")
    done = run(
        [
            *(
                command("lm-eval-grounded"),
                "detect",
                "--reference",
                "reference.txt",
                "--answer",
                "answer.txt",
                "--language",
                "en",
            ),
            *("--detector", "shouting", "--detector_args", "least=3"),
        ],
        tmp_path,
        PYTHONPATH=str(theirs),
    )
    assert done.stdout == "it is SO <entity>GOOD</entity>\n"


# ----------------------------------------------------------------------------------------------------------- retrievers


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    rows = [("p001", "short", "A"), ("p002", "a much longer text", "B"), ("p003", "a longer text", "C")]
    return Corpus.open(write_corpus(tmp_path / "passages.tsv", rows))


@pytest.mark.usefixtures("theirs")
def test_a_retriever_of_another_package_has_its_own_options_and_says_whose_it_is(corpus: Corpus) -> None:
    assert names() == sorted([*RETRIEVERS, "length", "wrong", "dumb", "nothing"])
    longest = open_retriever("length", corpus)
    assert longest.search(asked("x", "y"), 2) == [[("p002", 20.0), ("p003", 15.0)]] * 2
    assert longest.describe() == {"retriever": "length", "order": "longest", "package": "somebodys-package 1.5"}
    for said in ("order=shortest", '{"order": "shortest"}'):
        shortest = open_retriever("length", corpus, {"retriever_args": said, "encoder": "not for it"})
        assert ids(shortest.search(asked("x"), 3)[0]) == ["p001", "p003", "p002"]
        assert shortest.describe()["order"] == "shortest"
    with pytest.raises(ValueError, match="4 passages were asked for, but the corpus has only 3"):
        longest.search(asked("x"), 4)


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("length", "order=random", r"^clapnq: retriever length: order is longest or shortest, got 'random'$"),
        ("length", "shortest", r"^clapnq: retriever_args must be JSON or name=value;name=value, got 'shortest'$"),
        ("nothing", None, r"^clapnq: retriever nothing: nothing\(\) takes 0 positional arguments"),
        ("wrong", "how=few", r"wrong of somebodys-package 1\.5: 0 rankings for 2 questions$"),
        ("wrong", "how=unknown", r"question q1: passage 'no-such-passage' is not in the corpus$"),
        ("wrong", "how=twice", r"question q1: more than k=2 passages, or one of them twice$"),
        ("wrong", "how=rising", r"question q1: scores are not finite, or rise$"),
        ("wrong", "how=infinite", r"question q1: scores are not finite, or rise$"),
        ("lenght", None, r"^clapnq: unknown retriever 'lenght'; known are bge, bm25, dense, .*length, "),
    ],
)
def test_a_retriever_that_cannot_be_used_says_why(corpus: Corpus, name: str, said: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_retriever(name, corpus, {"retriever_args": said}).search(asked("x", "y"), 2)


@pytest.mark.usefixtures("theirs")
def test_what_it_says_of_itself_must_go_into_a_results_file(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=r"dumb of somebodys-package 1\.5: describe\(\) gives what is no JSON"):
        open_retriever("dumb", corpus).describe()


@pytest.mark.usefixtures("theirs")
def test_it_is_half_of_a_hybrid(corpus: Corpus) -> None:
    found = open_retriever("hybrid", corpus, {"hybrid": "length+bm25", "retriever_args": "order=shortest"})
    assert ids(found.search(asked("short"), 3)[0])[0] == "p001"
    assert found.describe()["halves"][0]["package"] == "somebodys-package 1.5"


@pytest.mark.usefixtures("theirs")
def test_its_run_is_what_the_tasks_read(tmp_path: Path) -> None:
    """The way to evaluate a model with any retriever, and a task of one's own that retrieves by itself."""
    file = tmp_path / "length.run"
    retrieved = retrieve("length", "validation", 10, file, {"retriever_args": "order=shortest"}, "sample")
    assert retrieved.described["package"] == "somebodys-package 1.5"
    rows = load_task("clapnq_rag_run", "run", mirror="sample", run=str(file))["evaluation"]
    assert all(row["retrieved_ids"] == ids_of_run(file) for row in rows)
    with pytest.raises(
        UsageError, match=r"length has none: `lm-eval-grounded retrieve --retriever length -o FILE` writes"
    ):
        load_task("clapnq_rag", "bm25", retriever="length")
    with pytest.raises(ValueError, match=r"option bm25_split is for bm25, not for length$"):
        retrieve("length", "dev", 10, None, {"bm25_split": True}, "sample")
    with pytest.raises(ValueError, match=r"option retriever_args is for those of other packages, not for bm25$"):
        retrieve("bm25", "dev", 10, None, {"retriever_args": "order=shortest"}, "sample")

    bases = [str(Path(task_folder(), "clapnq", base)) for base in ("_rag_base", "_prompt_flan")]
    (tmp_path / "mine.yaml").write_text(
        f"include: {json.dumps(bases)}\ntask: clapnq_rag_length\n"
        "dataset_kwargs:\n  task_name: clapnq_rag_length\n  task_retriever: length\n"
    )
    results = evaluate(
        ["clapnq_rag_length"],
        "grounded-baseline",
        "strategy=full_passage",
        include_path=[str(tmp_path)],
        metadata={"mirror": "sample", "retriever_args": "order=shortest", "top_k": 2},
        log_samples=True,
        bootstrap_iters=0,
    )
    docs = [sample["doc"] for sample in results["samples"]["clapnq_rag_length"]]
    assert {tuple(doc["retrieved_ids"]) for doc in docs} == {tuple(ids_of_run(file))}
    assert {json.loads(doc["retriever"])["package"] for doc in docs} == {"somebodys-package 1.5"}


def ids_of_run(file: Path) -> list[str]:
    """The ranking that all questions of a run have."""
    (ranking,) = {tuple(id for id, _ in ranking) for ranking in read_run(file).values()}
    return [*ranking]


def test_the_command_ranks_with_it(theirs: Path, tmp_path: Path) -> None:
    arguments = ["retrieve", "--mirror", "sample", "--retriever", "length", "--retriever-args", "order=shortest"]
    done = run([command("lm-eval-grounded"), *arguments], tmp_path, PYTHONPATH=str(theirs))
    assert re.search(r"^metric +length +95 % bounds$", done.stdout, re.MULTILINE)
    assert "of 32 questions; 60 passages" in done.stdout
