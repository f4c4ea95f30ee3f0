"""Tasks of the harness that are in no table of ours, compared, reported and ranked: what is a mean of its documents' values
has bounds and differences, and what is not is shown as its results file has it, with the reason."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import html
from scipy.stats import binomtest

from custom_metrics.statistics.figures import mean_figure
from custom_metrics.statistics.intervals import wilson
from lm_eval_tasks.cli import main
from lm_eval_tasks.results.compare import Comparison, compare_runs
from lm_eval_tasks.results.leaderboard import write_leaderboard
from lm_eval_tasks.results.leaderboard.entry import entry_of
from lm_eval_tasks.results.report import write_report
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.runs import Run, read_runs
from lm_eval_tasks.runs.other_tasks import WHY_NO_MEAN, described_run, is_weighted
from tests.conftest import command, run
from tests.other_tasks import GROUPS, UPSTREAM, run_guesses, write_tasks

Rows = list[dict[str, Any]]
ASKED = [*(name for name in UPSTREAM if not name.startswith(("mmlu", "blimp"))), *GROUPS]
NO_NUMBERS = "it is computed over all documents together, of which none has a number of its own"
NO_MEAN = {
    ("wikitext", "word_perplexity"): NO_NUMBERS,
    ("wikitext", "byte_perplexity"): NO_NUMBERS,
    ("wikitext", "bits_per_byte"): NO_NUMBERS,
    ("lambada_openai", "perplexity"): "it is the perplexity of all documents together, not the mean of their values",
    ("mrpc", "f1"): NO_NUMBERS,
    ("wmt_de", "bleu"): NO_NUMBERS,
    ("wmt_de", "ter"): NO_NUMBERS,
    ("wmt_de", "chrf"): NO_NUMBERS,
}


@pytest.fixture(scope="session")
def guesses(shared_once: Callable[..., Path]) -> Path:
    """A folder with the runs of two models on all of :data:`ASKED`."""

    def make(folder: Path) -> None:
        include = write_tasks(folder / "tasks")
        for name, share in (("half", 0.5), ("third", 0.3)):
            run_guesses(folder / "runs", ASKED, include, name, share)

    return shared_once("other-tasks", make) / "runs"


@pytest.fixture
def half(guesses: Path, tmp_path: Path) -> Path:
    """A copy of the first run, to be changed; the second is in its other folder."""
    import shutil

    shutil.copytree(guesses, tmp_path / "runs")
    return tmp_path / "runs" / "half"


def rows_of(folder: Path, task: str) -> Rows:
    (path,) = folder.glob(f"samples_{task}_2*.jsonl")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def change_rows(folder: Path, task: str, change: Callable[[Rows], Rows]) -> None:
    (path,) = folder.glob(f"samples_{task}_2*.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in change(rows_of(folder, task))), "utf-8")


def change_results(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    (path,) = folder.glob("results_*.json")
    results = json.loads(path.read_text("utf-8"))
    change(results)
    path.write_text(json.dumps(results), "utf-8")


def read(folder: Path) -> Run:
    (one,) = read_runs([folder])
    return described_run(one)


def compared(folder: Path, **options: Any) -> Comparison:
    return compare_runs(read_runs([folder.parent]), **options)


def why_no_mean(folder: Path, task: str, metric: str) -> str:
    return str(read(folder).tasks[task].figures["none"][metric].get(WHY_NO_MEAN, ""))


# -------------------------------------------------------------------------------------------------------- figures of a run


def test_every_figure_is_the_number_of_the_results_file_and_only_means_have_bounds(guesses: Path) -> None:
    (path,) = (guesses / "half").glob("results_*.json")
    results = json.loads(path.read_text("utf-8"))["results"]
    seen = {}
    for name, task in read(guesses / "half").tasks.items():
        for filter_name, by_metric in task.figures.items():
            for metric, entry in by_metric.items():
                assert entry["value"] == pytest.approx(results[name][f"{metric},{filter_name}"], abs=1e-9)
                if reason := entry.get(WHY_NO_MEAN):
                    seen[name, metric] = reason
                    assert (entry["low"], entry["high"]) == (None, None)
                    continue
                logged = results[name][f"{metric}_stderr,{filter_name}"]
                assert entry["standard_error"] == pytest.approx(logged, abs=1e-9)
                rows = [row[metric] for row in rows_of(guesses / "half", name) if row["filter"] == filter_name]
                share = {*rows} <= {0, 1}
                bounds = wilson(sum(rows), len(rows)) if share else mean_figure(rows)[1:3]
                assert [entry["low"], entry["high"]] == pytest.approx(bounds)
                assert (entry["n"], task.metric(metric).higher_is_better) == (len(rows), True)
    assert seen == NO_MEAN
    assert {metric for task in read(guesses / "half").tasks.values() for metric in task.figures} == {
        *("none", "strict-match", "flexible-extract", "score-first", "maj@64", "maj@8")
    }


def test_a_number_that_the_documents_contradict_has_no_bounds(half: Path) -> None:
    change_results(half, lambda results: results["results"]["arc_easy"].update({"acc,none": 0.9}))
    mean = sum(row["acc"] for row in rows_of(half, "arc_easy")) / 24
    reason = f"the mean of its documents' values ({mean:.6g}) is not its number in the results file (0.9)"
    assert why_no_mean(half, "arc_easy", "acc") == reason
    comparison = compared(half, tasks=["arc_easy"])
    assert [row.metric for row in comparison.differences] == ["acc_norm"]
    assert any(
        note.startswith(f"arc_easy: acc is not compared: {reason} (the results files say 0.9 for half")
        for note in comparison.notes
    )


def test_a_document_without_a_number_is_in_no_mean(half: Path) -> None:
    """As of upstream's ``nanmean``, and of functions that leave out ``None``."""
    for nothing in (math.nan, None):
        change_rows(half, "arc_easy", lambda rows, nothing=nothing: [{**rows[0], "acc": nothing}, *rows[1:]])
        mean = sum(row["acc"] for row in rows_of(half, "arc_easy")[1:]) / 23
        change_results(half, lambda results, mean=mean: results["results"]["arc_easy"].update({"acc,none": mean}))
        figure = read(half).tasks["arc_easy"].figures["none"]["acc"]
        assert (figure["n"], figure["value"], WHY_NO_MEAN in figure) == (23, pytest.approx(mean), False)


def test_samples_that_were_cut_and_runs_of_a_part_say_so(half: Path) -> None:
    change_rows(half, "arc_easy", lambda rows: rows[:10])
    assert why_no_mean(half, "arc_easy", "acc") == "the samples hold 10 of its 24 documents"
    change_results(half, lambda results: results["n-samples"]["mrpc"].update({"original": 1725}))
    (row, *_) = [row for row in headlines([read(half)]) if row.family == "mrpc"]
    assert [doubt.text for doubt in row.doubts] == ["only 24 of 1725 documents were asked (--limit)"]


def test_samples_of_early_versions_name_no_metrics_and_no_filter_and_hold_arguments_in_lists(half: Path) -> None:
    def early(row: dict[str, Any]) -> dict[str, Any]:
        arguments = [[request["arg_0"], request["arg_1"]] for request in row["arguments"].values()]
        resps = [[[float(number), greedy == "True"] for number, greedy in each] for each in row["resps"]]
        kept = {key: value for key, value in row.items() if key not in ("metrics", "filter")}
        return {**kept, "arguments": arguments, "resps": resps}

    before = read(half).tasks["arc_easy"]
    answers = [*before.answers()]
    change_rows(half, "arc_easy", lambda rows: [*map(early, rows)])
    assert read(half).tasks["arc_easy"].figures == before.figures
    for old, new in zip(answers, read(half).tasks["arc_easy"].answers(), strict=True):
        assert (new.options, new.response, new.prompt) == (old.options, old.response, old.prompt)
        assert new.response == max(old.options, key=lambda option: option[1])[0]
        assert new.target in "0123"


@pytest.mark.parametrize("value", [None, "text", {}, [], [1, 2], 0.5, math.inf, 10**400])
def test_any_value_of_a_metric_is_survived(half: Path, value: Any) -> None:
    change_rows(half, "arc_easy", lambda rows: [{**rows[0], "acc": value}, *rows[1:]])
    assert why_no_mean(half, "arc_easy", "acc")
    assert main(["compare", str(half), str(half.parent / "third"), "--tasks", "arc_easy"]) == 0


# -------------------------------------------------------------------------------------------------------------- comparison


def test_shares_are_compared_by_mcnemars_test_and_means_by_a_bootstrap(guesses: Path) -> None:
    comparison = compared(guesses / "half", tasks=["gsm8k", "truthfulqa_gen"], every_metric=True, filter_name=None)
    rows = {(row.task, row.metric): row for row in comparison.differences}
    assert len(rows) == 13
    share = rows["gsm8k", "exact_match"]
    values = [
        {
            row["doc"]["question"]: row["exact_match"]
            for row in rows_of(guesses / name, "gsm8k")
            if row["filter"] == share.filter
        }
        for name in ("half", "third")
    ]
    b, c = (
        sum(v > w for v, w in zip(x, y, strict=True))
        for x, y in ((a.values(), z.values()) for a, z in (values, values[::-1]))
    )
    assert share.filter == "strict-match"
    assert share.difference == pytest.approx((b - c) / 24)
    assert share.p_exact == pytest.approx(binomtest(b, b + c).pvalue)
    assert rows["truthfulqa_gen", "bleu_max"].method == "paired bootstrap-t"
    assert [row.metric for row in compared(guesses / "half", tasks=["truthfulqa_gen"]).differences] == [
        "bleu_max",
        "bleu_acc",
        "bleu_diff",
    ]


def test_a_group_is_the_mean_that_its_results_file_has(half: Path) -> None:
    """Of blimp the unweighted one of its tasks; of mmlu the one over all documents, where 24 count twice as much as 12."""
    rows = {row.task: row for row in compared(half, tasks=["mmlu_some", "blimp_some"]).differences}
    both = {name: read(half.parent / name) for name in ("half", "third")}
    for group, (members, weighted) in GROUPS.items():
        row = rows[group]
        assert (row.group, row.tasks, row.n) == (True, 2, 36 if weighted else 48)
        values = [both[name].group_results[group]["acc,none"] for name in ("half", "third")]
        assert [row.first_value, row.second_value, row.difference] == pytest.approx([*values, values[0] - values[1]])
        assert {rows[member].family for member in members} == {2}
    change_results(half, lambda results: results["groups"]["mmlu_some"].update({"acc,none": 0.99}))
    comparison = compared(half, tasks=["mmlu_some"])
    assert not any(row.group for row in comparison.differences)
    assert "mmlu_some: its acc is not compared: it is not the mean of what can be read of its tasks" in comparison.notes


def test_weights() -> None:
    assert is_weighted(0.5, [0.25, 0.75], [10, 10]) is False
    assert is_weighted(0.5, [0.25, 0.75], [0, 0]) is False
    assert is_weighted(0.65, [0.25, 0.75], [10, 40]) is True
    assert is_weighted(0.6, [0.25, 0.75], [10, 40]) is None
    assert is_weighted(0.6, [0.25, 0.75], [0, 0]) is None


def test_documents_hang_together_only_where_the_task_says_so(half: Path) -> None:
    """`passage` is a cluster of our tasks, and of others a column like any."""

    def grouped(rows: Rows) -> Rows:
        return [{**row, "doc": {**row["doc"], "passage": str(row["doc_id"] // 3)}} for row in rows]

    def told(results: dict[str, Any]) -> None:
        results["configs"]["arc_easy"]["metadata"]["cluster"] = "passage"

    for folder in (half, half.parent / "third"):
        change_rows(folder, "arc_easy", grouped)
    assert {(row.n, row.unit) for row in compared(half, tasks=["arc_easy"]).differences} == {(24, "documents")}
    for folder in (half, half.parent / "third"):
        change_results(folder, told)
    assert {(row.n, row.unit) for row in compared(half, tasks=["arc_easy"]).differences} == {(8, "clusters")}
    change_rows(half, "arc_easy", lambda rows: [{**row, "doc": {**row["doc"], "passage": "x"}} for row in rows])
    with pytest.raises(ValueError, match="24 of 24 documents differ"):
        compared(half, tasks=["arc_easy"])


def test_without_a_direction_no_model_is_better_and_none_has_a_rank(half: Path) -> None:
    def silent(results: dict[str, Any]) -> None:
        del results["higher_is_better"]["lambada_openai"]
        for entry in results["configs"]["lambada_openai"]["metric_list"]:
            del entry["higher_is_better"]

    for folder in (half, half.parent / "third"):
        change_results(folder, silent)
    (row,) = compared(half, tasks=["lambada_openai"]).differences
    assert (row.significant, row.better) == (True, None)
    assert "lambada_openai" in entry_of(*read_runs([half]), "half").others


# ------------------------------------------------------------------------------------------------- report and leaderboard


def test_the_report_has_a_card_for_each_task_and_group_with_what_was_chosen(guesses: Path, tmp_path: Path) -> None:
    page = html.fromstring(
        write_report(read_runs([guesses]), tmp_path / "r.html", documents=None, at_most=None).read_text("utf-8")
    )
    cards = [card.text_content().split()[:2] for card in page.find_class("card")]
    assert cards[0] == ["arc_easy", "acc"]
    assert [name for name, _ in cards] == ASKED
    assert ["lambada_openai", "acc"] in cards  # the first that is a mean
    assert page.xpath("//h1")[0].text_content() == "Which model does better?"
    (mmlu,) = (each for each in page.find_class("family") if each.get("id") == "mmlu_some")
    assert "36 documents" in mmlu.text_content()
    row = rows_of(guesses / "half", "arc_easy")[5]
    chosen = max(range(4), key=lambda option: float(row["resps"][option][0][0]))
    (shown,) = (
        each
        for each in page.find_class("document")
        if each.get("id").startswith("arc_easy") and row["doc"]["question"] in each.xpath("summary")[0].text_content()
    )
    answer = shown.find_class("answer")[0]
    assert answer.find_class("text")[0].text_content() == row["doc"]["choices"]["text"][chosen]
    assert answer.find_class("label")[0].text_content() == ("right (acc)" if row["acc"] else "wrong (acc)")
    assert f"{row['doc']['choices']['text'][int(row['target'])]}" in shown.find_class("source")[0].text_content()


def test_the_leaderboard_ranks_other_tasks_in_tables_of_their_own(guesses: Path, tmp_path: Path) -> None:
    site = write_leaderboard(guesses, tmp_path / "site")
    rows = json.loads((tmp_path / "site" / "leaderboard.json").read_text("utf-8"))["rows"]
    ranks = {(row["benchmark"], row["column"], row["metric"], row["model"]): row["rank"] for row in rows}
    assert {benchmark for benchmark, *_ in ranks} == {*ASKED}
    assert [ranks["lambada_openai", "lambada_openai", "acc", name] for name in ("half", "third")] == [1, 2]
    assert ranks["wmt_de", "wmt_de", "bleu", "half"] is None
    for group in GROUPS:
        columns = {row["column"]: row for row in rows if (row["benchmark"], row["model"]) == (group, "half")}
        reported = read(guesses / "half").group_results[group]["acc,none"]
        value = columns.get("mean", columns.get(group, {}))["value"]
        assert value == pytest.approx(reported)
    assert site.overviews.startswith("| Other tasks of the harness")


def test_names_from_files_cannot_become_markup(half: Path, tmp_path: Path) -> None:
    name = "<script>{value}{{7*7}}"

    def renamed(results: dict[str, Any]) -> None:
        for key in ("acc", "acc_stderr"):
            results["results"]["arc_easy"][f"{key.replace('acc', name)},none"] = results["results"]["arc_easy"].pop(
                f"{key},none"
            )

    change_results(half, renamed)
    change_rows(half, "arc_easy", lambda rows: [{**row, name: row["acc"], "metrics": [name]} for row in rows])
    text = write_report(read_runs([half]), tmp_path / "r.html").read_text("utf-8")
    assert "<script>{" not in text
    assert "&lt;script&gt;{value}{{7*7}}" in text
    write_leaderboard(half, tmp_path / "site")


@pytest.mark.slow("a language model is made, and answers through the harness's command")
def test_samples_of_a_real_model(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    include = write_tasks(tmp_path / "tasks")
    for shots in ("0", "1"):
        arguments = ["--model", "hf", "--model_args", f"pretrained={llama},dtype=float32", "--num_fewshot", shots]
        tasks = [
            "--tasks",
            "arc_easy,wikitext,lambada_openai,mmlu_some,wmt_de",
            "--include_path",
            str(include),
            "--limit",
            "8",
        ]
        run(
            [
                command("lm_eval"),
                *arguments,
                *tasks,
                "--output_path",
                str(tmp_path / shots),
                "--log_samples",
                "--gen_kwargs",
                "max_gen_toks=8",
            ],
            tmp_path,
        )
    assert main(["report", str(tmp_path / "0"), "-o", str(tmp_path / "r.html")]) == 0
    assert main(["leaderboard", str(tmp_path), "-o", str(tmp_path / "site")]) == 0
    assert main(["compare", str(tmp_path / "0"), str(tmp_path / "0"), "--tasks", "arc_easy,mmlu_some"]) == 0
    assert "mmlu_some (mean of 2)" in capsys.readouterr().out
    (one,) = read_runs([tmp_path / "1"])
    figure = described_run(one).tasks["arc_easy"].figures["none"]["acc"]
    assert (figure["n"], WHY_NO_MEAN in figure) == (8, False)
