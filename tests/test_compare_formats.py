"""A comparison as a person reads it: text, Markdown, LaTeX, CSV, JSON, and in words."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from custom_metrics.scores.aggregations import defined_share
from custom_metrics.scores.balanced_error import balanced_error
from custom_metrics.statistics.figures import Figure, Rows
from custom_metrics.statistics.paired_difference import TANGO, PairedDifference, together
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.compare import FORMATS
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.catalogue import metric_of
from lm_eval_tasks.definition.schema import Metric
from lm_eval_tasks.results.board import Cell, Column, PairResults, best_by_cost
from lm_eval_tasks.results.board import tested as compared
from lm_eval_tasks.results.compare import Comparison, DocumentCounts, Refusal
from lm_eval_tasks.results.compare.tables import matrices, render, short_table
from lm_eval_tasks.results.compare.verdicts import verdicts
from lm_eval_tasks.results.doubts import in_short
from lm_eval_tasks.results.formats import FRACTIONS, Section, as_text, number, p_value, render_sections
from lm_eval_tasks.results.measuring import Measured
from tests.changed_runs import written_samples
from tests.golden import golden

Flat = dict[str, Any]

ROW: Flat = {
    **{"task": "nomiracl_de", "benchmark": "nomiracl", "language": "de", "group": False, "tasks": 1},
    **{"metric": metric_of("hallucination_rate"), "filter": "strict", "models": (0, 1), "values": (0.25, 0.5)},
    **{"own": (0.26, 0.5), "measurable": (True, True), "difference": -0.25, "low": -0.4, "high": -0.1},
    **{"p": 0.0004, "p_adjusted": 0.0012, "family": 3, "n": 200, "only": (7, 2), "standard_error": 0.05},
}
EQUAL = ROW | {"task": "nomiracl_fi", "difference": 0.02, "low": -0.1, "high": 0.14, "p": 0.7, "p_adjusted": 1.0}
UNDEFINED = dict.fromkeys(("difference", "low", "high", "p", "p_adjusted", "standard_error"), math.nan)
REVERSE = ROW | {"difference": 0.25, "low": 0.1, "high": 0.4}
MINUS, RATE = "difference -0.250 [-0.400, -0.100]", "hallucination rate"
UNKNOWN = ROW | dict(task="nomiracl_ar", n=0, **UNDEFINED)
GROUP = ROW | {"task": "nomiracl", "group": True, "tasks": 18, "language": "", "p_adjusted": 0.0004, "family": 1}
HIGHER, NEITHER = replace(ROW["metric"], higher_is_better=True), replace(ROW["metric"], higher_is_better=None)


class OfOne:
    """What a column of made differences knows of a task: the documents that count for two models, or for one."""

    unit = "documents"

    def __init__(self, numbers: dict[tuple[int, int], int]) -> None:
        self.common = lambda *pair: numbers[pair]


@dataclass(frozen=True)
class MadeColumn(Column):
    """A column of made differences."""

    rows: dict[Any, Flat] = field(default_factory=dict)

    def shared(self, pair: Any) -> Any:
        row = self.rows[pair]
        counts = {pair: row["n"]} | {(run, run): row["n"] + of for run, of in zip(pair, row["only"], strict=True)}
        return [OfOne(counts)] + (row["tasks"] - 1) * [OfOne(dict.fromkeys(counts, 0))]


def columns_of(rows: Sequence[Flat]) -> list[Column]:
    """Columns that have made differences, each of them once: those of one task are one column's."""
    by_task: dict[str, list[Flat]] = {}
    for row in rows:
        by_task.setdefault(row["task"], []).append(row)
    columns: list[Column] = []
    for name, (first, *others) in by_task.items():
        cells, found, of_pairs = {}, [], {}
        for row in (first, *others):
            for model, own, shown in zip(row["models"], row["own"], row["measurable"], strict=True):
                cells[model] = Cell(own, Figure(own), shown, shown)
            p_exact, error = math.nan, row["standard_error"]
            numbers = [row[key] for key in ("difference", "low", "high", "p", "n")]
            found.append(PairedDifference(*row["values"], *numbers, TANGO, p_exact, error))
            of_pairs[row["models"]] = row
        corrected = (np.array([row[key] for row in of_pairs.values()]) for key in ("p_adjusted", "family"))
        tested = PairResults(np.array([*of_pairs]), together(found), *corrected, np.full(len(found), True))
        parts = {key: first[key] for key in ("group", "benchmark", "language")}
        made = MadeColumn(name, first["metric"], first["filter"], cells, headline=True, tested=tested, **parts)
        columns.append(replace(made, rows=of_pairs))
    return columns


def comparison(*rows: Flat, **parts: Any) -> Comparison:
    given = {"models": ("org/small", "org/large"), "joined": (), "notes": (), "refused": ()} | parts
    return Comparison(columns=columns_of(rows), **given)


def test_text_for_a_terminal() -> None:
    """The table, and in words what is better, what the columns are, where bounds and p come from, and all notes."""
    joined = (DocumentCounts("nomiracl_de", 207, (3, 0)),)
    refused = (Refusal("clapnq_rag", "documents", "32 of 32 documents differ"),)
    notes = ("all: another chat template",)
    text = render(comparison(GROUP, ROW, EQUAL, UNKNOWN, joined=joined, notes=notes, refused=refused))
    assert text == golden("comparison.txt", text)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (ROW, f"small has a lower {RATE} than large in German: 0.250 against 0.500, {MINUS}, p = 0.001."),
        (REVERSE, f"large has a lower {RATE} than small in German: 0.500"),
        (REVERSE, f"{MINUS}, p = 0.001."),  # of the better one less the other
        (ROW | {"metric": HIGHER}, f"large has a higher {RATE} than small in German"),
        (ROW | {"metric": NEITHER}, f"large has a higher {RATE} than small in German"),
        (ROW | {"metric": metric_of("balanced_error")}, "small errs less than large in German: 0.250 against"),
        # No value that is unknown.
        (ROW | {"measurable": (False, True)}, f"than large in German: {MINUS}, p = 0.001."),
        (EQUAL, f"No difference in {RATE} is shown between small and large on nomiracl_fi: 0.250 against 0.500, diff"),
        # Of a difference of about nothing no number of documents says anything: up to ten times as many are advised.
        (EQUAL, "[-0.100, +0.140], p = 1.000."),
        (EQUAL | {"difference": 0.06}, "p = 1.000. About 891 more documents would show a difference of this size."),
        (EQUAL | {"difference": 1e-5}, "p = 1.000."),
        (UNKNOWN, "small and large cannot be compared on nomiracl_ar: no document counts for both."),
        (UNKNOWN | {"n": 5}, "cannot be compared on nomiracl_ar: too little is known of the detector's errors."),
        (EQUAL | {"low": math.nan, "high": math.nan}, "difference +0.020, p = 1.000."),
        # p decides: bounds are of one comparison alone, and those of a corrected rate may hold 0 where its p is small.
        (ROW | {"low": -0.4, "high": 0.01}, "difference -0.250 [-0.400, +0.010], p = 0.001."),
        (ROW | {"p_adjusted": 0.06}, f"No difference in {RATE} is shown between small and large in German: 0.250 aga"),
    ],
)
def test_a_sentence_says_who_is_better_or_that_nothing_was_shown(row: Flat, says: str) -> None:
    (found,) = verdicts(comparison(row), FRACTIONS)
    text = " ".join(found.lines)
    assert says in text if says.endswith("size.") or not says.endswith(".") else text.endswith(says)


def on_board(
    counts: dict[str, tuple[int, int]], cost: float = 1, task: str = "nomiracl_de", doubts: tuple[str, ...] = ()
) -> Comparison:
    """Models that were wrong about so many of sixty questions without an answer, and of sixty with one. The last one has
    the `doubts`."""
    benchmark = task.partition("_")[0]
    table = catalogue.tables()[benchmark].metrics
    metric = table["balanced_error"].with_cost(cost)
    wrong = {name: [np.arange(60) < number for number in of_model] for name, of_model in counts.items()}
    none = np.full(60, math.nan)

    def column(measured: Metric, kind: Any, values: list[Any]) -> Column:
        rows = {run: Rows(of_run) for run, of_run in enumerate(values)}
        cells = {
            run: Cell.of(kind.figure(of_run), measured, False)._replace(doubts=doubts if run == len(rows) - 1 else ())
            for run, of_run in rows.items()
        }
        parts = {"benchmark": benchmark, "language": "de" if task.endswith("_de") else "", "headline": True}
        return Column(task, measured, "answer", cells, [Measured(kind, rows, "documents")], **parts)

    both = [np.array([[*made_up, *none], [*none, *missed]], float).T for made_up, missed in wrong.values()]
    kind = balanced_error.with_cost(cost)
    columns = [column(metric, kind, both)]
    for place, name in enumerate(metric.balances):
        values = [of_model[place].astype(float) for of_model in wrong.values()]
        values = [1 - each for each in values] if table[name].higher_is_better else values
        columns.append(column(table[name], defined_share, values))
    columns = compared(columns)
    best = best_by_cost(columns[0], cost) if len(counts) > 2 else None
    return Comparison(tuple(counts), columns, (), (), costs={task: best} if best else {})


TRADE = {"A": (26, 9), "B": (7, 45)}


AHEAD = "A errs less than B in German"
FIRST = "29.2 % against 43.3 %, difference −14.2 points [−23.0, −5.2], p = 0.003"
LOOPS = "its run looks broken: 9 of 60 answers are in a loop"
COSTS_B = "If a made-up answer costs about 1.9 wrong refusals or more, B has the lower error rate."


@pytest.mark.parametrize(
    ("board", "says"),
    [
        (  # the costs of both are equal at (45 - 9) / (26 - 7)
            on_board(TRADE),
            f"{AHEAD}: {FIRST}; but it more often answers although no passage does (43.3 % against 11.7 %). {COSTS_B}",
        ),
        (
            on_board(TRADE, task="mtragun_fiqa"),
            f"A errs less than B on mtragun_fiqa: {FIRST}; but it more rarely declines what cannot be answered "
            f"(56.7 % against 88.3 %). {COSTS_B}",
        ),
        (
            on_board(TRADE, cost=5),
            "B errs less than A in German at a cost of 5: 22.2 % against 38.6 %, difference −16.4 points [−27.1, −6.0], "
            "p = 0.002; but it more often misses an answer that is there (75.0 % against 15.0 %). If a made-up answer "
            "costs less than about 1.9 wrong refusals, A has the lower error rate.",
        ),
        (  # neither is better by the mean of both, and each by one rate
            on_board({"A": (26, 9), "B": (12, 25)}, task="clapnq_gold", doubts=(LOOPS,)),
            f"No difference in balanced error is shown between A and B ({LOOPS}) on clapnq_gold: 29.2 % against 30.8 %, "
            "difference −1.7 points [−10.0, +6.7], p = 0.684; but B more often declines what cannot be answered "
            "(80.0 % against 56.7 %) and more often declines what can be answered (41.7 % against 15.0 %). If a made-up "
            "answer costs about 1.1 wrong refusals or more, B has the lower error rate.",
        ),
        (  # as bad in both: no trade
            on_board({"A": (26, 9), "B": (27, 45)}),
            f"{AHEAD}: 29.2 % against 60.0 %, difference −30.8 points [−38.2, −23.7], p < 0.001.",
        ),
        (  # what it pays may be nothing, and then the order never turns
            on_board({"A": (5, 3), "B": (4, 50)}),
            f"{AHEAD}: 6.7 % against 45.0 %, difference −38.3 points [−44.7, −31.4], p < 0.001; but it more often answers "
            "although no passage does (8.3 % against 6.7 %, not significant).",
        ),
    ],
    ids=["traded", "other rates", "at a cost", "no difference", "no trade", "not significant"],
)
def test_a_verdict_tells_the_trade_and_from_which_cost_on_the_other_is_better(board: Comparison, says: str) -> None:
    (found,) = verdicts(board)
    assert found.lines == [says]


MANY = {"A": (26, 9), "B": (7, 45), "C": (59, 20), "D": (50, 50), "E": (55, 50), "F": (50, 55), "G": (55, 55)}


@pytest.mark.parametrize(
    ("board", "says"),
    [
        (
            on_board({"A": (20, 10), "B": (22, 11), "C": (6, 40)}, doubts=(LOOPS, "second", "third")),
            [
                "A has the lowest balanced error in German: 25.0 % (answers although no passage does: 33.3 %; misses an "
                "answer that is there: 16.7 %). Not significantly worse: B 27.5 %. "
                f"Significantly worse: C ({LOOPS}; second) 38.3 %.",
                "Best at a cost of 1 wrong refusal for a made-up answer: A, 25.0 % (not significantly worse: B); of 3: C, "
                "24.2 % (not significantly worse: A and B); of 10: C, 15.2 % (declining everything: 9.1 %).",
            ],
        ),
        (
            on_board(MANY, doubts=(LOOPS,)),
            [
                "A has the lowest balanced error in German: 29.2 % (answers although no passage does: 43.3 %; misses an "
                "answer that is there: 15.0 %). "
                "Significantly worse: all 6 others, from 43.3 % to 91.7 %.",
                "Best at a cost of 1 wrong refusal for a made-up answer: A, 29.2 %; of 3: B, 27.5 % (not significantly "
                "worse: A; declining everything: 25.0 %); of 10: B, 17.4 % (declining everything: 9.1 %).",
                f"To be doubted: G ({LOOPS}).",
            ],
        ),
    ],
    ids=["three", "seven"],
)
def test_of_three_models_and_more_the_verdict_names_the_best_its_equals_and_what_it_costs(
    board: Comparison, says: list[str]
) -> None:
    assert [line for found in verdicts(board) for line in found.lines] == says
    (row,) = short_table(board).rows
    assert row[2:4] == {"C": ("A 25.0 %", "B 27.5 %"), "G": ("A 29.2 %", "B 43.3 %")}[board.models[-1]]
    assert json.loads(render(board, "json"))["verdicts"] == says
    assert says[0].partition(":")[0] in render(board)


EMPTY = ("broken", "the run looks broken", "3 of 9 answers are Invalid (3 empty). Usual reasons: no chat template")
ALIKE, MANY_INVALID = (
    ("alike", "it declines every question", "9"),
    ("invalid", "many answers are Invalid: wrong", "4 of 9"),
)


@pytest.mark.parametrize(
    ("findings", "short"),
    [
        ([[EMPTY]], ["its run looks broken: 3 of 9 answers are Invalid, 3 empty"]),
        ([[ALIKE]], ["it declines every question"]),
        ([[MANY_INVALID]], ["many answers are Invalid: 4 of 9"]),
        ([[EMPTY, MANY_INVALID]], ["its run looks broken: 3 of 9 answers are Invalid, 3 empty"]),
        ([[ALIKE], *4 * [[]]], ["it declines every question in 1 of 5 tasks"]),
        ([[ALIKE], *5 * [[]]], []),  # too little of the mean to be named
        (2 * [[EMPTY]], ["its run looks broken"]),
    ],
)
def test_doubts_behind_a_name_are_short(findings: Any, short: list[str]) -> None:
    assert [*in_short(findings)] == short


SWAHILI = ROW | {"task": "nomiracl_sw", "language": "sw"}
OF_TWO = GROUP | {"tasks": 2}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([GROUP, ROW, SWAHILI], ["nomiracl"]),  # of many languages the mean
        ([GROUP, ROW, ROW | {"task": "nomiracl_de_role"}], ["nomiracl", "nomiracl_de_role"]),  # which is of no mean
        ([OF_TWO, ROW, SWAHILI], ["nomiracl_de", "nomiracl_sw"]),  # of two models, each of a few languages
        (  # of three models the mean, and the language that the third has alone
            [OF_TWO, ROW, ROW | {"models": (0, 2)}, ROW | {"models": (1, 2)}, SWAHILI],
            ["nomiracl", "nomiracl_de"],
        ),
    ],
)
def test_a_verdict_is_on_languages_or_on_their_mean(rows: list[Flat], told: list[str]) -> None:
    assert [each.task for each in verdicts(comparison(*rows, models=("a", "b", "c")))] == told


def test_three_models_are_compared_in_pairs() -> None:
    rows = [ROW | {"models": (one, other)} for one, other in ((0, 1), (0, 2), (1, 2))]
    text = render(comparison(*rows, models=("a", "b", "c")), pairs=True)
    pairs = ["".join(line.split()[3:6]) for line in text.splitlines() if line.startswith("nomiracl_de")]
    assert pairs == ["A-B", "A-C", "B-C"]
    assert "p is corrected by Holm over all pairs of models on a task or group (3 comparisons)" in text
    assert "c is better" not in text


def test_of_many_models_a_matrix_has_values_ranks_and_whom_each_is_better_than() -> None:
    """Values .1, .2, .3 and one that is not measurable; the first is better than the second and third, which tie."""
    name = "organisation/" + "m" * 60 + "-instruct"
    values, p_values = (0.2, 0.1, 0.3, 0.05), {(0, 1): 0.01, (0, 2): 0.4, (1, 2): 0.0001}
    cells = {
        run: Cell(value, Figure(value), run < 3, run < 3, rank=(2, 1, 2, None)[run]) for run, value in enumerate(values)
    }
    pairs = {pair: p_values.get(pair, 0.5) for pair in combinations(range(4), 2)}
    rows = [
        GROUP
        | {"task": task, "group": task == "nomiracl", "models": (a, b)}
        | {"difference": values[a] - values[b], "p_adjusted": p}
        for task in ("nomiracl", "nomiracl_de")
        for (a, b), p in pairs.items()
    ]

    def tables(rows: list[Flat], **changes: Any) -> list[Section]:
        columns = [replace(column, cells=cells, **changes) for column in columns_of(rows)]
        return matrices(Comparison(("a", "b", name, "unsure"), columns, (), ()))

    (section,) = tables(rows)
    assert section.rows == (
        ("1", "b", "0.100", "1", "2-3"),
        ("2", "a", "0.200", "2", "-"),
        ("3", "organisation/mmmmmm…mmmmmmmmmmm-instruct", "0.300", "2", "-"),
        ("4", "unsure", "not measurable", "-", "-"),
    )
    assert section.before == (
        f"{ROW['metric'].heading}: hallucination_rate, strict, lower is better",
        "nomiracl (mean of 18 tasks)",
        "200 documents show a difference of 0.140 (power 80 %, one comparison)",
    )
    assert max(map(len, render_sections([section], "text").partition(section.after[0])[0].splitlines())) <= 100
    (partly,) = tables([*rows[1:], rows[0] | {"tasks": 17}])
    assert partly.before[1].endswith("(mean of 18 tasks, or of those that a model has)")
    (alone,) = tables(rows[6:], benchmark="")  # of no benchmark of ours: each task has a table
    assert alone.rows == section.rows


def test_numbers() -> None:
    assert [*map(number, (0.12345, -0.0001, 185.77, math.nan, math.inf))] == ["0.123", "0.000", "185.8", "-", "-"]
    for value, text in ((9999999.94, "9999999.9"), (1.23456e40, "1.235e+40"), (-1e8, "-1e+08")):
        assert (number(value), as_text(value, "number")) == (text, text)
    assert [*map(p_value, (0.0004, 0.001, 0.25, math.nan))] == ["<0.001", "0.001", "0.250", "-"]


HOSTILE = (
    "\x1b[2J\x07evil",  # clears a terminal
    "a|b\n| c | <script>alert(1)</script> ![x](http://x)",
    r"\input{/etc/passwd} $x$ 100% #1 _y_ ^2 ~",
    "=cmd|' /C calc'!A0",
    "\u202egnirts",  # turns the direction of text
    "\ud800",
)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", FORMATS)
def test_no_name_becomes_markup_or_a_command(name: str, form: str) -> None:
    if form == "json" and name == "\ud800":
        name = "plain"
    found = comparison(ROW | {"task": name}, models=(name, "other"), notes=(name,))
    text = render(found, form)
    text.encode("utf-8")
    if form == "json":
        assert json.loads(text)["models"] == [name, "other"]
        return
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", text)
    if form == "markdown":
        assert not re.search(r"(?<!\\)<", text)
        assert not re.search(r"(?<!\\)!\[|(?<!\\)\]\(", text)
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert len(rows) == 3  # header, line, one row
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {10}
    if form == "latex":
        allowed = r"begin|end|toprule|midrule|bottomrule|text\w+|downarrow|uparrow"
        assert not re.sub(rf"\\(?:{allowed}|[&%$#_{{}}\\])", "", text).count("\\")
    if form == "csv":
        (row,) = csv.DictReader(io.StringIO(text))
        assert row["first"][:1] not in ("=", "+", "-", "@")


def test_markdown_and_latex_are_tables() -> None:
    lines = render(comparison(ROW), "markdown").splitlines()
    assert lines[0] == "- A = org/small"
    assert r"| nomiracl\_de | hallucination\_rate ↓ |" in lines[5]
    text = render(comparison(ROW), "latex")
    assert re.findall(r"\\(\w+rule)", text) == ["toprule", "midrule", "bottomrule"]
    assert r"& hallucination\_rate $\downarrow$ & 0.250 (0.260) & 0.500 & -0.250 {[}-0.400, -0.100] &" in text


def test_csv_and_json_hold_every_number_and_null_for_none() -> None:
    found = comparison(ROW, UNKNOWN)
    first, unknown = csv.DictReader(io.StringIO(render(found, "csv")))
    found_first = [first[name] for name in ("first", "second", "p", "significant")]
    assert found_first == ["org/small", "org/large", "0.0004", "True"]
    assert (unknown["p"], unknown["difference"], unknown["n"]) == ("", "", "0")
    read = json.loads(render(found, "json"))
    assert read["differences"][0]["low"] == -0.4
    assert read["differences"][1]["low"] is None
    names = "models differences joined notes refused across paired doubts costs signatures verdicts"
    assert set(read) == {*names.split()}


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    one = written_samples(tmp_path / "one", "mine", [{"acc": float(i % 4 > 0), "f": i / 40} for i in range(40)])
    other = written_samples(tmp_path / "other", "mine", [{"acc": float(i % 4 == 0), "f": i / 50} for i in range(40)])
    return str(one), str(other)


def test_the_command_prints_or_writes_a_file(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *runs, "--metrics", "acc"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("A = one\nB = other\n\n")
    assert ") on mine: 0.750 against 0.250, difference +0.500 [+0.196, +0.716], p = 0.002." in text
    assert "one (all its answers are equal) has a higher acc than other (all its answers are equal) on mine" in text
    file = tmp_path / "new" / "differences.json"
    assert main(["compare", *runs, "--format", "json", "-o", str(file)]) == 0
    assert capsys.readouterr().out == ""
    found = json.loads(file.read_text("utf-8"))
    assert ([row["metric"] for row in found["differences"]], found["models"]) == (["acc", "f"], ["one", "other"])


def test_the_command_says_what_is_wrong(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, says in (
        (["--tasks", "yours"], "no two runs have the task yours"),
        (["--calibration", "x"], "x"),
        (["--short", "--format", "csv"], "--short is for readers"),
    ):
        assert main(["compare", *runs, *arguments]) == 2
        assert says in capsys.readouterr().err
