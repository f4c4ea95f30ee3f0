"""Tasks of the harness that are in no table of ours, compared, reported and ranked by the means of their documents."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import html
from scipy.stats import binomtest

from custom_metrics.scores.aggregations import defined_mean
from custom_metrics.statistics.intervals import wilson
from lm_eval_tasks.cli import main
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.harness import has_scorers
from lm_eval_tasks.results.compare import Comparison, compare_runs
from lm_eval_tasks.results.report import Report, write_report
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.runs import Run, read_runs
from lm_eval_tasks.runs.other_tasks import WHY_NO_MEAN, described_run, is_weighted
from tests.conftest import command, run
from tests.other_tasks import GROUPS, UPSTREAM, run_guesses, write_tasks

Rows = list[dict[str, Any]]
BROKEN = ("wmt_de",) if has_scorers() else ()
"""Tasks that the installed harness cannot score: 0.5.0.dev1 cannot reduce BLEU of a corpus (its api/metrics/corpus.py)."""
ASKED = [*(name for name in UPSTREAM if not name.startswith(("mmlu", "blimp", *BROKEN))), *GROUPS]
NO_NUMBERS = "it is computed over all documents together, of which none has a number of its own"
PERPLEXITY = "it is the perplexity of all documents together, not the mean of their values"


@pytest.fixture(scope="session")
def guesses(shared_once: Callable[..., Path]) -> Path:
    """A folder with the runs of two models on all of :data:`ASKED`."""

    def make(folder: Path) -> None:
        include = write_tasks(folder / "tasks")
        for name, share in (("half", 0.5), ("tenth", 0.1)):
            run_guesses(folder / "runs", ASKED, include, name, share)

    return shared_once("other-tasks", make) / "runs"


@pytest.fixture
def half(guesses: Path, tmp_path: Path) -> Path:
    """A copy of the first run, to be changed, beside one of the second."""
    return Path(shutil.copytree(guesses, tmp_path / "runs")) / "half"


@pytest.fixture
def half_of_few(half: Path) -> Path:
    """The same with the tasks ``arc_easy`` and those of the group ``mmlu_some`` alone."""

    def keep(results: dict[str, Any]) -> None:
        for part in ("results", "configs", "versions", "n-shot", "n-samples", "higher_is_better", "group_subtasks"):
            kept = {name: value for name, value in results[part].items() if "arc_easy" in name or "mmlu" in name}
            results[part] = kept
        results["groups"] = {"mmlu_some": results["groups"]["mmlu_some"]}

    for folder in (half, half.parent / "tenth"):
        change_results(folder, keep)
        for path in folder.glob("samples_*"):
            if "arc_easy" not in path.name and "mmlu" not in path.name:
                path.unlink()
    return half


def as_written(task: str) -> str:
    """The name of a task in the files of the installed harness: 0.5 writes ``group::task`` for a group's."""
    groups = [group for group, (members, _) in GROUPS.items() if task in members]
    return "::".join([*(groups if has_scorers() else ()), task])


def samples_of(folder: Path, task: str) -> Path:
    (path,) = folder.glob(f"samples_{as_written(task)}_2*.jsonl")
    return path


def rows_of(folder: Path, task: str) -> Rows:
    return [json.loads(line) for line in samples_of(folder, task).read_text("utf-8").splitlines()]


def change(folder: Path, task: str, of_rows: Callable[[Rows], Rows]) -> None:
    rows = of_rows(rows_of(folder, task))
    samples_of(folder, task).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def change_results(folder: Path, of_results: Callable[[dict[str, Any]], object]) -> None:
    (path,) = folder.glob("results_*.json")
    results = json.loads(path.read_text("utf-8"))
    of_results(results)
    path.write_text(json.dumps(results), "utf-8")


def read(folder: Path) -> Run:
    return described_run(*read_runs([folder]))


def compared(folder: Path, *tasks: str, **options: Any) -> Comparison:
    return compare_runs(read_runs([folder.parent]), tasks, **options)


def acc_of(folder: Path) -> dict[str, Any]:
    return dict(read(folder).tasks["arc_easy"].figures["none"]["acc"])


def test_every_figure_is_the_number_of_the_results_file_and_only_means_have_bounds(guesses: Path) -> None:
    (path,) = (guesses / "half").glob("results_*.json")
    results, tasks = json.loads(path.read_text("utf-8"))["results"], read(guesses / "half").tasks
    no_mean = {}
    of_filters = [(n, f, m, e) for n, t in tasks.items() for f, by in t.figures.items() for m, e in by.items()]
    for name, filter_name, metric, entry in of_filters:
        assert entry["value"] == pytest.approx(results[as_written(name)][f"{metric},{filter_name}"], abs=1e-9)
        if reason := entry.get(WHY_NO_MEAN):
            no_mean[name, metric] = reason
            assert (entry["low"], entry["high"]) == (None, None)
            continue
        error = results[as_written(name)][f"{metric}_stderr,{filter_name}"]
        assert entry["standard_error"] == pytest.approx(error, abs=1e-9)
        rows = [row[metric] for row in rows_of(guesses / "half", name) if row["filter"] == filter_name]
        bounds = wilson(sum(rows), len(rows)) if {*rows} <= {0, 1} else defined_mean.figure_of(rows)[1:3]
        assert [entry["low"], entry["high"]] == pytest.approx(bounds)
        assert (entry["n"], tasks[name].metric(metric).higher_is_better) == (len(rows), True)
    of_documents = {"wikitext": "word_perplexity byte_perplexity bits_per_byte", "lambada_openai": "perplexity"}
    of_all = {**of_documents, **({} if BROKEN else {"wmt_de": "bleu ter chrf"})}
    why = {"perplexity": PERPLEXITY}
    assert no_mean == {
        (name, metric): why.get(metric, NO_NUMBERS) for name in of_all for metric in of_all[name].split()
    }
    assert tasks["gsm8k_cot_self_consistency"].filters == ("score-first", "maj@64", "maj@8")


def test_a_number_that_the_documents_contradict_has_no_bounds_and_no_difference(half: Path) -> None:
    mean = acc_of(half)["value"]
    change_results(half, lambda results: results["results"]["arc_easy"].update({"acc,none": 0.9}))
    reason = f"the mean of its documents' values ({mean:.6g}) is not its number in the results file (0.9)"
    assert acc_of(half)[WHY_NO_MEAN] == reason
    comparison = compared(half, "arc_easy")
    assert [row.metric.name for row in comparison.differences] == ["acc_norm"]
    assert comparison.notes[0].startswith(f"arc_easy: acc is not compared: {reason} (the results files say 0.9 for")
    change(half, "arc_easy", lambda rows: rows[:10])
    assert acc_of(half)[WHY_NO_MEAN] == "the samples hold 10 of its 24 documents"
    change_results(half, lambda results: results["n-samples"]["wikitext"].update({"original": 2999}))
    doubts = {doubt.text for of in headlines([read(half)]) for doubt in of.cells[0].reasons if of.name == "wikitext"}
    few = "not comparable with published figures (only 24 of 2999 documents were asked)"
    assert doubts == {few, f"it has no bounds: {NO_NUMBERS}"}


@pytest.mark.parametrize("value", [None, "text", {}, [], [0, 0], 0.5, math.inf, 10**400])
def test_any_value_of_a_metric_is_survived(half_of_few: Path, value: Any) -> None:
    change(half_of_few, "arc_easy", lambda rows: [{**rows[0], "acc": value}, *rows[1:]])
    assert acc_of(half_of_few)[WHY_NO_MEAN]
    both = [str(half_of_few), str(half_of_few.parent / "tenth")]
    assert main(["compare", *both, "--tasks", "arc_easy"]) == 0
    assert main(["report", *both, "-o", str(half_of_few.parent / "r.html")]) == 0


TOO_LARGE = "a document's value is {}, too large to compute with"
REPORTED = "its number in the results file is {}"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("value", "reported", "reason"),
    [
        (None, math.inf, REPORTED.format("Infinity")),  # not compared on the documents' values, which are left
        (None, math.nan, REPORTED.format("NaN")),
        (None, None, REPORTED.format("null")),
        (None, 1e200, REPORTED.format("1e+200")),
        pytest.param(None, 10**400, REPORTED.format(f"1{19 * '0'}…"), id="400 digits"),
        (1e308, 1e308, REPORTED.format("1e+308")),
        (1e308, 0.25, TOO_LARGE.format("1e+308")),
        (-math.inf, 0.25, TOO_LARGE.format("-inf")),
    ],
)
def test_numbers_that_cannot_be_computed_with_are_not_compared(
    half_of_few: Path, capsys: pytest.CaptureFixture[str], value: float | None, reported: float | None, reason: str
) -> None:
    for task in ("arc_easy", "mmlu_anatomy", "mmlu_virology"):
        change_results(half_of_few, lambda r, task=task: r["results"][as_written(task)].update({"acc,none": reported}))
        if value is not None:
            change(half_of_few, task, lambda rows: [{**row, "acc": value} for row in rows])
    change_results(half_of_few, lambda results: results["groups"]["mmlu_some"].update({"acc,none": reported}))
    assert acc_of(half_of_few)[WHY_NO_MEAN] == reason
    both = [str(half_of_few), str(half_of_few.parent / "tenth")]
    assert main(["compare", *both]) == 0
    printed = capsys.readouterr().out
    assert f"arc_easy: acc is not compared: {reason}" in printed
    page, site = half_of_few.parent / "r.html", half_of_few.parent / "site"
    assert main(["report", *both, "-o", str(page)]) == 0
    assert main(["report", str(half_of_few.parent / "tenth"), str(half_of_few), "-o", str(site)]) == 0
    text = html.fromstring(page.read_text("utf-8")).text_content()
    assert (f"it has no bounds: {reason}" if reported == 0.25 else f"The acc is undefined: {reason}.") in text
    pages = [page.read_text("utf-8"), printed, *(file.read_text("utf-8") for file in site.glob("**/*.html"))]
    assert not any(re.search(r"\b\d{20,}\.", each) for each in pages)  # of 1e200 no 200 digits


def test_a_document_without_a_number_is_in_no_mean(half: Path) -> None:
    """As of upstream's ``nanmean``."""
    mean = sum(row["acc"] for row in rows_of(half, "arc_easy")[1:]) / 23
    change(half, "arc_easy", lambda rows: [{**rows[0], "acc": math.nan}, *rows[1:]])
    change_results(half, lambda results: results["results"]["arc_easy"].update({"acc,none": mean}))
    figure = acc_of(half)
    assert (figure["n"], figure["value"], WHY_NO_MEAN in figure) == (23, pytest.approx(mean), False)


def test_samples_of_early_versions_name_no_metrics_and_hold_arguments_in_lists(half: Path) -> None:
    def early(row: dict[str, Any]) -> dict[str, Any]:
        arguments = [[request["arg_0"], request["arg_1"]] for request in row["arguments"].values()]
        resps = [[[float(number), greedy == "True"] for number, greedy in each] for each in row["resps"]]
        kept = {key: value for key, value in row.items() if key not in ("metrics", "filter")}
        return {**kept, "arguments": arguments, "resps": resps}

    before, answers = acc_of(half), [*read(half).tasks["arc_easy"].answers()]
    change(half, "arc_easy", lambda rows: [*map(early, rows)])
    now = [*read(half).tasks["arc_easy"].answers()]
    assert [(new.prompt, new.options, new.response) for new in now] == [
        (old.prompt, old.options, max(old.options, key=lambda option: option[1])[0]) for old in answers
    ]
    assert acc_of(half) == before
    with pytest.raises(CorruptSource, match="its answers are log-likelihoods, not texts"):
        [*read_samples(samples_of(half, "arc_easy"))]


def test_shares_are_compared_by_mcnemars_test_and_means_by_a_bootstrap(guesses: Path) -> None:
    name = "gsm8k_cot_self_consistency"
    rows = {
        row.metric.name: row
        for row in compared(guesses / "half", name, "truthfulqa_gen", every_metric=True).differences
    }
    values = [[row["exact_match"] for row in rows_of(guesses / run, name)[:24]] for run in ("half", "tenth")]
    b, c = (sum(x > y for x, y in zip(*pair, strict=True)) for pair in (values, values[::-1]))
    share = rows["exact_match"]
    assert (share.column.filter, share.result.difference) == ("score-first", pytest.approx((b - c) / 24))
    assert share.result.p_exact == pytest.approx(binomtest(b, b + c).pvalue)
    assert rows["bleu_max"].result.method == "paired bootstrap-t"
    assert len(rows) == 13
    comparison = compared(guesses / "half", "truthfulqa_gen")
    assert [row.metric.name for row in comparison.differences] == ["bleu_max", "bleu_acc", "bleu_diff"]
    assert comparison.notes == ("truthfulqa_gen: 3 of 12 metrics are compared (--all)",)


def test_a_group_is_the_mean_that_its_results_file_has(half: Path) -> None:
    """Of blimp the unweighted one of its tasks; of mmlu the one over all documents, where 24 count twice as much as 12."""
    rows = {row.column.name: row for row in compared(half, *GROUPS).differences}
    for group, (members, weighted) in GROUPS.items():
        row = rows[group]
        assert (row.column.group, row.tasks, row.result.n) == (True, 2, 36 if weighted else 48)
        values = [read(half.parent / name).group_results[group]["acc,none"] for name in ("half", "tenth")]
        assert [*row.result[:2]] == [cell.value for cell in row.cells] == pytest.approx(values)
        assert {rows[member].family for member in members} == {2}
    change_results(half, lambda results: results["groups"]["mmlu_some"].update({"acc,none": 0.99}))
    comparison = compared(half, "mmlu_some")
    assert not any(row.column.group for row in comparison.differences)
    assert "mmlu_some: its acc is not compared: no mean of what can be read of its tasks" in comparison.notes
    weights = {(0.5, 10, 10): False, (0.65, 10, 40): True, (0.6, 10, 40): None, (0.5, 0, 0): False, (0.6, 0, 0): None}
    assert {key: is_weighted(key[0], [0.25, 0.75], key[1:]) for key in weights} == weights


def test_documents_hang_together_only_where_the_task_says_so(half: Path) -> None:
    """`passage` is a cluster of our tasks, and of others a column like any."""

    def with_passage(rows: Rows) -> Rows:
        return [{**row, "doc": {**row["doc"], "passage": str(row["doc_id"] // 3)}} for row in rows]

    for folder in (half, half.parent / "tenth"):
        change(folder, "arc_easy", with_passage)
    assert {(row.result.n, row.unit) for row in compared(half, "arc_easy").differences} == {(24, "documents")}
    for folder in (half, half.parent / "tenth"):
        change_results(folder, lambda results: results["configs"]["arc_easy"]["metadata"].update(cluster="passage"))
    assert {(row.result.n, row.unit) for row in compared(half, "arc_easy").differences} == {(8, "clusters")}
    change(half, "arc_easy", lambda rows: [{**row, "doc": {**row["doc"], "passage": "x"}} for row in rows])
    with pytest.raises(ValueError, match="24 of 24 documents differ"):
        compared(half, "arc_easy")


def test_without_a_direction_no_model_is_better_and_none_has_a_rank(half: Path) -> None:
    def silent(results: dict[str, Any]) -> None:
        del results["higher_is_better"], results["configs"]["lambada_openai"]["metric_list"]

    for folder in (half, half.parent / "tenth"):
        change_results(folder, silent)
    (row,) = compared(half, "lambada_openai").differences
    assert (row.metric.name, row.significant, row.better) == ("acc", True, None)
    (each,) = (each for each in Report.of(read_runs([half.parent])).overviews if each.family == "lambada_openai")
    assert [shown.rank for shown in each.rows] == [None, None]


def test_the_report_has_a_part_for_each_task_and_group_with_what_was_chosen(guesses: Path, tmp_path: Path) -> None:
    path = write_report(read_runs([guesses]), tmp_path / "r.html", documents=None, at_most=None)
    page = html.fromstring(path.read_text("utf-8"))
    first = {p.xpath("string(h3)"): p.xpath("string(table//th[3]/text())") for p in page.find_class("overview")}
    assert [*first] == ASKED
    assert (first["arc_easy"].strip(), first["lambada_openai"].strip()) == ("acc", "acc")  # perplexity is no mean
    assert page.xpath("string(//h1)") == "Which model does better?"
    row = rows_of(guesses / "half", "arc_easy")[5]
    choices = row["doc"]["choices"]["text"]
    (shown,) = page.xpath(f"//details[summary//bdi[.='{row['doc']['question']}'] and starts-with(@id, 'arc_easy')]")
    answer = shown.find_class("answer")[0]
    chosen = max(range(4), key=lambda option: float(row["resps"][option][0][0]))
    assert answer.find_class("text")[0].text_content() == choices[chosen]
    assert answer.find_class("label")[0].text_content() == ("right (acc)" if row["acc"] else "wrong (acc)")
    assert shown.find_class("source")[0].text_content().strip() == choices[int(row["target"])]


def test_the_report_ranks_other_tasks(guesses: Path) -> None:
    cells = {(row["column"], row["metric"], row["model"]): row for row in Report.of(read_runs([guesses])).figures()}
    assert {row["benchmark"] for row in cells.values()} == {*ASKED}
    assert [cells["lambada_openai", "acc", name]["rank"] for name in ("half", "tenth")] == [1, 2]
    assert cells["wikitext", "word_perplexity", "half"]["rank"] is None
    for group in ("mmlu_some", "blimp_some"):
        reported = read(guesses / "half").group_results[group]["acc,none"]
        assert cells[group, "acc", "half"]["value"] == pytest.approx(reported)


@pytest.mark.slow("a language model is made, and answers through the harness's command")
def test_samples_of_a_real_model(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    include = ["--include_path", str(write_tasks(tmp_path / "tasks"))]
    names = [name for name in ("arc_easy", "wikitext", "lambada_openai", "mmlu_some", "wmt_de") if name not in BROKEN]
    tasks = ["--tasks", ",".join(names), "--limit", "8", "--gen_kwargs", "max_gen_toks=8"]
    for dtype in ("float32", "bfloat16"):
        model = ["--model", "hf", "--model_args", f"pretrained={llama},dtype={dtype}"]
        run([command("lm_eval"), *model, *tasks, *include, "--output_path", dtype, "--log_samples"], tmp_path)
    runs = [str(tmp_path / "float32"), str(tmp_path / "bfloat16")]
    assert main(["report", *runs, "-o", str(tmp_path / "r.html")]) == 0
    assert main(["report", *runs, "-o", str(tmp_path / "site")]) == 0
    assert main(["compare", *runs]) == 0
    printed = capsys.readouterr().out
    assert "mmlu_some (mean of 2)" in printed
    assert "wikitext: word_perplexity is not compared" in printed
    assert acc_of(tmp_path / "float32")["n"] == 8
