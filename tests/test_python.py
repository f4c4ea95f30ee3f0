"""The import for Python: every example of its page, its tables and errors, and `evaluate` beside the tasks."""

from __future__ import annotations

import csv
import doctest
import inspect
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import lm_eval_grounded as g
from custom_metrics.reading.spans import HALLUCINATION, Span
from custom_metrics.reading.tagged_text import render
from lm_eval_grounded.evaluate_metric.evaluate_metric import METRICS
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.nomiracl.dataset import load
from tests.conftest import ROOT, evaluate
from tests.logged_runs import ANSWERS, copied, in_this_process
from tests.miniature import MINIATURE
from tests.shared_once import SharedOnce
from tests.test_commands import HEAVY

PAGE = ROOT / "lm_eval_grounded" / "README.md"
RATES = ("hallucination_rate", "error_rate", "accuracy", "invalid_rate")
NOTEBOOK = ROOT / "examples" / "from_sample_to_report.ipynb"
SHELL = re.compile(r"^!((?:.*\\\n)*.*)$", re.MULTILINE)
SAMPLE: dict[str, Any] = {"metadata": {"mirror": "sample"}}
PROMPT = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def results(shared_once: SharedOnce) -> Path:
    """A folder that holds ``results``: two baselines on the sample, as the page makes them."""

    def make(folder: Path) -> None:
        for strategy in ("lexical", "answer"):
            args = f"strategy={strategy}"
            in_this_process(["nomiracl_de", "clapnq_rag"], "grounded-baseline", args, folder / "results", **SAMPLE)

    return shared_once("two baselines", make)


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`evaluate` copies scripts, and writes predictions, into folders of the user's."""
    import evaluate

    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path / "modules")


def test_every_example_of_the_page_holds(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(results)
    text = PAGE.read_text("utf-8")
    example = doctest.DocTestParser().get_doctest("\n".join(PROMPT.findall(text)), {}, "README.md", str(PAGE), 0)
    assert len(example.examples) > 20
    output: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(example, out=output.append)
    if output:
        pytest.fail("".join(output))
    assert [name for name in g.__all__ if name not in text] == []


@pytest.mark.parametrize("name", [name for name in g.__all__ if name != "__version__"])
def test_what_is_exported_has_an_example_that_holds(name: str, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(results)
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(g, name), name, globs=vars(g).copy())
    output: list[str] = []
    assert doctest.DocTestRunner().run(example, out=output.append).attempted > 0
    assert "".join(output) == ""


def test_a_reference_is_a_text_or_the_passages_of_one_answer() -> None:
    passages, answer = ["The cat sleeps.", "It is a cat."], "The cat is an astronaut."
    (spans,) = g.detect("\n\n".join(passages), [answer], "en")
    same: tuple[Any, ...] = (passages, np.array(passages), pandas.Series(passages), iter(passages))
    assert [g.detect(each, answer, "en", None) for each in same] == [spans] * 4
    assert g.detect([passages, "The cat is an astronaut."], [answer] * 2, "en") == [spans, []]
    with pytest.raises(g.UsageError, match="1 texts, but 2 for reference"):
        g.detect(passages, [answer], "en")


@pytest.mark.slow("two runs of the harness and a report, each a process")
def test_the_notebook_goes_from_the_sample_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    text = NOTEBOOK.read_text("utf-8")
    assert str(ROOT) not in text
    names = {"_shell": lambda line: subprocess.run(line, shell=True, check=True)}
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            exec(SHELL.sub(lambda line: f"_shell({line[1]!r})", "".join(cell["source"])), names)
    assert "baseline-lexical" in (tmp_path / "report.html").read_text("utf-8")


def test_the_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, lm_eval_grounded as g; assert 'evaluate_module' in dir(g)\n"
        f"print(g.__version__, *(m for m in {HEAVY} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{version('lm-eval-grounded')}\n"


def test_figures_are_those_of_the_results_file(results: Path) -> None:
    """Every number of the harness's table, and the finer figures; n and denominator as in the file."""
    runs = g.read(results / "results")
    table = runs.figures.set_index(["model", "task", "filter", "metric"])
    for run in runs:
        for name, task in run.tasks.items():
            listed = {key: value for key, value in task.results.items() if "," in key and "_stderr," not in key}
            assert len(listed) in (10, 11)
            for key, value in listed.items():
                metric, _, filter_name = key.rpartition(",")
                row = table.loc[run.model, name, filter_name, metric]
                figure = task.figures[filter_name][metric]
                assert (row["value"], row["n"], row["denominator"]) == (value, figure["n"], figure["denominator"])
    finer = table.xs("ndcg@3", level="metric").iloc[0]
    assert (finer["n"], finer["unit"], finer["measurable"]) == (30, "score", True)
    assert json.loads(finer["settings"])["options"] == {"split": "validation", "retriever": "bm25", "top_k": 3}


def test_a_group_is_a_mean_and_what_is_not_defined_is_absent(tmp_path: Path) -> None:
    """One document of each language is asked: one of the two rates has no denominator."""
    in_this_process(["nomiracl"], "grounded-baseline", "strategy=answer", tmp_path, limit=1)
    (run,) = runs = g.read([tmp_path])
    table = runs.figures[runs.figures["filter"] == "robust"].set_index(["task", "metric"])
    for name in ("nomiracl", "nomiracl_de"):
        assert [metric for metric in ("balanced_error", *RATES) if metric in table.loc[name].index] == [*RATES[1:]]
    group = table.loc["nomiracl", "accuracy"]
    assert (group["denominator"], group["language"], group["version"]) == ("mean of 18 tasks", "", "")
    assert group["low"] <= group["value"] == run.group_results["nomiracl"]["accuracy,robust"] <= group["high"]
    assert group["n"] == 18
    assert json.loads(group["settings"])["limit"] == 1


def test_answers_are_those_of_the_samples_and_the_rates_follow_from_them(results: Path) -> None:
    runs = g.read(results / "results")
    assert len(runs.answers) == 2 * (2 * 120 + 60)  # NoMIRACL has two filters
    means = runs.answers.groupby(["model", "task", "filter"])[["error_rate", "rougeL"]].mean().stack().dropna()
    figures = runs.figures.set_index(["model", "task", "filter", "metric"])["value"]
    assert len(means) == 6
    assert {key: figures[key] for key in means.index} == pytest.approx(means.to_dict(), abs=1e-15)


def test_answers_not_logged_are_named(results: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = copied(results / "results" / "baseline-answer", tmp_path / "run")
    for path in folder.glob("samples_*"):
        path.unlink()
    assert g.read(folder).answers.empty
    assert "no answers of nomiracl_de, clapnq_rag; they were not logged" in caplog.text


def test_a_comparison_prints_what_the_command_prints(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = results / "results"
    first, second = g.read(folder)
    for options, same in ((["--all"], {"every_metric": True}), (["--filter", "strict"], {"filter": "strict"})):
        assert main(["compare", str(folder), "--tasks", "nomiracl_de", *options]) == 0
        printed = capsys.readouterr().out
        comparison = g.compare(first, second, tasks="nomiracl_de", **same)  # type: ignore[arg-type]
        assert f"{comparison}\n" == printed
    assert repr(comparison).endswith("baseline-lexical: 3 differences>")
    assert main(["compare", str(folder), "--format", "csv"]) == 0
    rows = [*csv.DictReader(capsys.readouterr().out.splitlines())]
    table = g.compare(folder).to_dataframe()
    assert [{*row} for row in rows][:1] == [{*table.columns}]
    assert [float(row["difference"]) for row in rows] == table["difference"].tolist()


def test_no_name_is_markup_in_a_notebook_or_acts_on_a_terminal(results: Path) -> None:
    comparison = g.compare(results / "results", tasks="nomiracl_de")
    comparison.report = replace(
        comparison.report, comparison=replace(comparison.result, models=("<script>alert(1)</script>\x1b[31m", "B&B"))
    )
    page = comparison._repr_html_()
    assert "<script>" not in page
    assert "\x1b" not in f"{page}{comparison}{comparison!r}"
    assert ("B = B&amp;B<" in page, page.count("<table>")) == (True, 1)


RIGHT = [1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1], [1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0]
OF_TWO = [[(value, words) for value, words in zip(side, [1, 2, 4] * 4, strict=True)] for side in RIGHT]


@pytest.mark.parametrize(
    ("lists", "clustered", "kind", "difference", "low", "high", "p", "n"),
    [
        (RIGHT, False, "share", 0.4167, 0.0731, 0.6805, 0.0253, 12),
        (RIGHT, True, "share", 0.4167, 0.0772, 0.7562, 0.0202, 6),
        (RIGHT, False, "mean", 0.4167, 0.0859, 0.7474, 0.0155, 12),
        (OF_TWO, False, "ratio", 0.1786, -0.0020, 0.3592, 0.0520, 12),
        (([1, 1, None, 1], [0, 1, 0, math.nan]), False, "share", 0.5, -0.4864, 0.9055, 0.3173, 2),
        (([1.5] * 4, [1.0] * 4), False, "mean", 0.5, math.nan, math.nan, math.nan, 4),  # too few
        (([], []), False, "ratio", math.nan, math.nan, math.nan, math.nan, 0),
    ],
)
def test_two_lists_are_compared_as_two_runs_are(
    lists: Any, clustered: bool, kind: Any, difference: float, low: float, high: float, p: float, n: int
) -> None:
    clusters = list("aabbccddeeff") if clustered else None
    for a, b in (lists, map(np.array, lists), map(pandas.Series, lists)):
        found = g.difference(a, b, clusters, kind)
        assert found[2:7] == pytest.approx((difference, low, high, p, n), abs=5e-5, nan_ok=True)


@pytest.mark.parametrize(
    ("function", "texts", "columns", "same_for_all"),
    [
        (g.abstains, ["Keine Ahnung.", "<think>I don't know</think> Paris", ""], {"language": ["de", "en", None]}, {}),
        (g.relevance_label, ["Nein.", "Ja.", "???"], {"passages": [["a", "b"], None, "c"]}, {"language": "de"}),
        (g.relevance_label, ["Nein.", "I don't know", "[1]"], {}, {"strict": True}),
        (g.k_precision, ["東京です", "a cat", "Кошка"], {"passages": ["東京", ["a", "dog"], "кошка"]}, {}),
        (g.rouge, ["a cat", "a dog"], {"references": [["a cat", "the cat"], []]}, {"passages": "the cat"}),
        (g.span_iou, ["a", "", "x"], {"annotated": [[(0, 1)], [], [(0, 1, "entity", 0.4)]], "predicted": [[]] * 3}, {}),
        (g.detect, ["A cat.", "Ein Hund."], {"reference": ["A dog.", "Eine Katze."]}, {"detector": "flag-unseen"}),
        (g.detect, ["A cat.", "Ein Hund."], {"language": ["en-GB", None]}, {"reference": "A dog.", "threshold": 0.5}),
    ],
)
def test_a_list_gives_what_its_members_give(
    function: Any, texts: list[str], columns: dict[str, list[Any]], same_for_all: dict[str, Any]
) -> None:
    first = next(iter(inspect.signature(function).parameters)) if function is not g.detect else "answer"
    expected = [
        function(**{first: text}, **{name: values[place] for name, values in columns.items()}, **same_for_all)
        for place, text in enumerate(texts)
    ]
    assert function(**{first: texts}, **columns, **same_for_all) == expected
    assert function(**{first: []}, **dict.fromkeys(columns, ()), **same_for_all) == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: g.abstains(None), "expected a text or a list of texts, got NoneType"),  # type: ignore[call-overload]
        (lambda: g.abstains(["a", "b"], language=["de"]), "2 texts, but 1 for language"),
        (lambda: g.abstains("a", language="German"), "'German' is not a language.* did you mean 'de'"),
        (lambda: g.abstains(["a"], language="mi"), r"text 0: no phrase table for 'mi'; there are \w\w, \w\w"),
        (lambda: g.k_precision("กรุงเทพเป็นเมืองหลวง", "กรุงเทพ", "th"), "none to be found in language 'th'"),
        (lambda: g.rouge("a", {"b": 1}), "references: expected a text or a list of texts, got dict: {'b': 1}"),  # type: ignore[call-overload]
        (lambda: g.k_precision("a", None), "passages: none given; without a text to check an answer against"),
        (lambda: g.k_precision("a", {"x", "y"}), "passages: .*, got set; it has no order"),  # type: ignore[call-overload]
        (lambda: g.abstains(pandas.DataFrame({"a": ["b"]})), "got DataFrame; pass one of its columns"),  # type: ignore[call-overload]
        (lambda: g.detect([], "b"), "reference: none given"),
        (lambda: g.detect("a", "b", detector=3), "detector: expected a name or a loaded detector, got int"),  # type: ignore[call-overload]
        (lambda: g.read(None), "read: expected a list of folders or files, got NoneType"),  # type: ignore[arg-type]
        (lambda: g.read("a", cost="3"), "--cost takes how many wrong refusals a made-up answer costs"),  # type: ignore[arg-type]
        (lambda: g.compare(".", tasks={"a", "b"}), "tasks: expected a list of names, got set; it has no order"),  # type: ignore[arg-type]
        (lambda: g.span_iou("abc", [(0, 4)], []), r"annotated: a span is \(start, end\) in its text of 3 characters"),
        (lambda: g.span_iou("abc", [], [(2, 1)]), r"predicted: .* got \(2, 1\)"),
        (lambda: g.detect("a", "b", "de", threshold=2), "option threshold: 2 is not a number from 0 to 1"),
        (lambda: g.detect("a", "b", "de", thresold=0.2), "no option 'thresold'; did you mean 'threshold'"),
        (lambda: g.compare(3), "takes what read\\(\\) gives, single runs, or paths; got int"),  # type: ignore[arg-type]
        (lambda: g.evaluate_module("k_precison"), "did you mean 'k_precision'"),
        (lambda: g.difference([1], [1, 0]), "1 values_a, but 2 values_b"),
        (lambda: g.difference([0.5], [1]), r"values_a\[0\]: a value is 0 or 1 \(kind='mean' takes numbers\), got 0.5"),
        (lambda: g.difference([1], ["1"], kind="mean"), r"values_b\[0\]: a value is a number, got '1'"),
        (lambda: g.difference([1], [1], kind="ratio"), r"values_a\[0\]: expected a list of numbers, got int: 1"),
        (lambda: g.difference([1], [1], kind="shares"), "kind is share, mean, ratio; got 'shares'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_said_in_one_line(call: Any, error: str) -> None:
    with pytest.raises(g.UsageError, match=error) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


ANYTHING: tuple[Callable[[], Any], ...] = (
    *(lambda: None, lambda: 3, list, str, lambda: b"a", lambda: {"a", "b"}, lambda: {"a": "b"}, object),
    *(lambda: np.array(["a", "b"]), lambda: np.array([["a"]]), lambda: np.array("a"), lambda: np.array([[0, 1]])),
    *(lambda: pandas.Series(["a", "b"], index=[7, 7]), lambda: pandas.DataFrame({"a": ["b"]})),
    *(lambda: Path("nowhere"), lambda: iter("ab"), lambda: [None, 3]),
)
"""What callers hand over: anything."""

ARGUMENTS: dict[Any, dict[str, Any]] = {  # that make sense; the first is what a list may stand for
    g.abstains: {"text": "a", "language": "de"},
    g.relevance_label: {"response": "a", "language": "de", "question": "q", "passages": ["a"], "strict": False},
    g.k_precision: {"answer": "a", "passages": ["a"], "language": "de"},
    g.rouge: {"answer": "a", "references": ["a"], "passages": ["a"]},
    g.span_iou: {"answer": "a", "annotated": [(0, 1)], "predicted": [(0, 1)]},
    g.detect: {"answer": "a", "reference": "b", **dict.fromkeys(["language", "detector", "question", "threshold"])},
    g.evaluate_module: {"name": "k_precision"},
    g.read: {"places": "nowhere"},
    g.compare: {"tasks": "clapnq_rag", "pairs": True, **dict.fromkeys(["metrics", "filter", "across", "pair"])},
}


@pytest.mark.parametrize(
    ("function", "name"), [(function, name) for function in ARGUMENTS for name in ARGUMENTS[function]]
)
def test_anything_is_what_was_meant_or_a_usage_error(
    function: Any, name: str, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [results / "results"] if function is g.compare else []
    for make in ANYTHING:
        first, *_ = given = {**ARGUMENTS[function], name: make()}
        of_list = {**given, first: [given[first]] * 2}
        for arguments in (given, of_list) if first != name and hasattr(function, "__wrapped__") else (given,):
            with suppress(g.UsageError, MissingSource if function is g.read else g.UsageError):
                function(*runs, **arguments)


def module_of(name: str, **inputs: Any) -> Any:
    return g.evaluate_module(name).compute(**inputs)[name]


def answered(samples: list[Any], **columns: str) -> dict[str, Any]:
    """Predictions as the models wrote them, and columns of their documents."""
    inputs = {name: [row["doc"][column] for row in samples] for name, column in columns.items()}
    return {"predictions": [row["resps"][0][0] for row in samples], **inputs}


def once(results: Any, task: str) -> list[Any]:
    """The samples of a task, each document once."""
    return [*{row["doc_id"]: row for row in results["samples"][task]}.values()]


def test_modules_give_what_clapnq_gives() -> None:
    results = evaluate(["clapnq_rag"], "grounded-baseline", "strategy=lexical", metadata={"mirror": MINIATURE})
    samples, numbers = once(results, "clapnq_rag"), results["results"]["clapnq_rag"]
    for row in samples:
        row["doc"]["groundings"] = [f"{passage['title']} {passage['text']}" for passage in row["doc"]["passages"]]
    answerable = [row for row in samples if row["doc"]["answerable"]]
    for name, column in (("rougeL", "answers"), ("recall", "answers"), ("rougeLp", "groundings")):
        assert module_of(name, **answered(answerable, references=column)) == numbers[f"{name},answer"], name
    assert module_of("k_precision", **answered(samples, references="groundings")) == numbers["k_precision,answer"]
    abstained = g.evaluate_module("abstention_rate").compute(**answered(answerable), language="en")
    assert abstained["abstention_rate"] == numbers["answerable_abstention_rate,answer"] > 0
    assert abstained["abstention_rate_n"] == 18


@pytest.mark.parametrize("parser", ["robust", "strict"])
def test_modules_give_what_nomiracl_gives_on_released_answers(parser: str, shared: Path) -> None:
    """The answers of a model that its readers find hard: a third is Invalid."""
    model = f"path={shared / 'reference' / 'nomiracl_outputs'},model=llama-2-7b-chat"
    results = evaluate(["nomiracl_de"], "replay", model, metadata={"mirror": str(shared / "hub")}, limit=120)
    samples, documents = once(results, "nomiracl_de"), load("de", mirror=str(shared / "hub"))["evaluation"]
    for row in samples:
        row["doc"]["passages"] = documents[row["doc_id"]]["passages"]  # which samples do not hold
    inputs = answered(samples, references="subset", question="query", passages="passages", language="language")
    numbers = {name: module_of(name, **inputs, parser=parser) for name in RATES}
    assert numbers == {name: results["results"]["nomiracl_de"][f"{name},{parser}"] for name in RATES}
    assert 0.2 < numbers["invalid_rate"] < 0.5


def test_modules_give_what_the_other_tasks_give() -> None:
    model = ("replay", f"path={ANSWERS}")
    results = evaluate(["mfava_de"], *model, metadata={"mirror": MINIATURE})
    rate = module_of("abstention_rate", **answered(once(results, "mfava_de")), language="de")
    assert rate == results["results"]["mfava_de"]["abstention_rate,answer"]
    detector = ("hallucination-detector", "detector=lexical")
    results = evaluate(["mushroom_de"], *detector, metadata={"mirror": MINIATURE})
    samples, numbers = once(results, "mushroom_de"), results["results"]["mushroom_de"]
    for name, column, p in (("iou", "spans", None), ("rho", "soft_labels", "prob")):
        marked = [[Span(s["start"], s["end"], HALLUCINATION, s.get(p, 1)) for s in r["doc"][column]] for r in samples]
        tagged = [render(row["doc"]["answer"], spans) for row, spans in zip(samples, marked, strict=True)]
        assert module_of(name, **answered(samples), references=tagged) == numbers[f"{name},tags"], name


def test_evaluate_loads_the_folder_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import evaluate

    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    for name in METRICS:
        module = evaluate.load(g.evaluate_folder(), name)
        assert isinstance(module, evaluate.Metric)
        assert name in module.description
        assert module.citation.startswith("@")
    assert module.compute(predictions=["a"], references=["a"])["rho_n"] == 1


@pytest.mark.parametrize(
    ("name", "inputs", "error"),
    [
        ("k_precision", {"predictions": ["a", "b"], "references": [["a"]]}, "Mismatch in the number"),
        ("k_precision", {"predictions": ["a"], "references": ["a"]}, "expected a list"),
        ("error_rate", {"predictions": ["a"], "references": ["yes"]}, "a reference is relevant or non_relevant"),
        ("accuracy", {"predictions": ["a"], "references": ["relevant"], "langage": "de"}, "did you mean 'language'"),
        ("accuracy", {"predictions": ["a"], "references": ["relevant"], "language": ["de"] * 2}, "but 2 for language"),
    ],
)
def test_a_module_refuses_what_it_cannot_score(name: str, inputs: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        g.evaluate_module(name).compute(**inputs)


def test_what_no_document_counts_for_is_none() -> None:
    values = g.evaluate_module("error_rate").compute(predictions=["Ja."], references=["non_relevant"], language="de")
    assert values == {"error_rate": None, "error_rate_low": None, "error_rate_high": None, "error_rate_n": 0}
