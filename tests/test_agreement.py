"""How far raters agree: exact figures, the reference libraries' values, and what becomes of rows that do not fit."""

from __future__ import annotations

import gzip
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custom_metrics.agreement import (
    Estimate,
    any_label,
    cohen_kappa,
    contingency_table,
    equal_share,
    estimate,
    kendall_tau_b,
    quadratic_weights,
)
from lm_eval_tasks.commands.work.agreement import Comparison, Result, compare, table
from tests.conftest import command, run

NAN = math.nan

# ---------------------------------------------------------------------------------------------------------- statistics


@pytest.mark.parametrize(
    ("cells", "exact", "kappa", "weighted", "tau"),
    [
        ([[20, 5], [10, 15]], 0.7, 0.4, 0.4, 0.4082482904638630),  # expected agreement 0.5: (0.7 - 0.5) / 0.5
        ([[45, 15], [25, 15]], 0.6, 3 / 23, 3 / 23, 0.1336306209562122),  # as many equal, but more by chance
        ([[25, 35], [5, 35]], 0.6, 7 / 27, 7 / 27, 0.3118047822311618),
        ([[5, 0], [0, 5]], 1.0, 1.0, 1.0, 1.0),
        ([[0, 5], [5, 0]], 0.0, -1.0, -1.0, -1.0),
        ([[25, 25], [25, 25]], 0.5, 0.0, 0.0, 0.0),
        ([[1, 1, 0], [0, 1, 1], [0, 0, 1]], 0.6, 7 / 17, 11 / 16, 0.75),
        ([[0, 0, 1], [0, 1, 0], [1, 0, 0]], 1 / 3, 0.0, -1.0, -1.0),
        ([[9, 0], [0, 0]], 1.0, NAN, NAN, NAN),  # both constant and equal: no evidence that they agree
        ([[0, 9], [0, 0]], 0.0, 0.0, 0.0, NAN),  # both constant and different
        ([[4, 5], [0, 0]], 4 / 9, 0.0, 0.0, NAN),
        ([[0, 0], [0, 0]], NAN, NAN, NAN, NAN),
        ([[3]], 1.0, NAN, NAN, NAN),
    ],
)
def test_statistics_of_a_table(cells: list[list[int]], exact: float, kappa: float, weighted: float, tau: float) -> None:
    array = np.array(cells)
    found = [
        equal_share(array),
        cohen_kappa(array),
        cohen_kappa(array, quadratic_weights(range(len(cells)))),
        kendall_tau_b(array),
    ]
    assert found == pytest.approx([exact, kappa, weighted, tau], abs=1e-15, nan_ok=True)


PAIRS = st.integers(1, 6).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(st.tuples(*[st.integers(0, k - 1)] * 2), min_size=2, max_size=60))
)


@settings(deadline=None)  # the first example imports both libraries
@given(PAIRS)
def test_statistics_equal_scikit_learns_and_scipys(case: tuple[int, list[tuple[int, int]]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    stats = pytest.importorskip("scipy.stats")
    labels, pairs = case
    first, second = zip(*pairs, strict=True)
    cells = contingency_table(pairs, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is not defined
        expected = [
            metrics.cohen_kappa_score(first, second, labels=range(labels)),
            metrics.cohen_kappa_score(first, second, labels=range(labels), weights="quadratic"),
            stats.kendalltau(first, second).statistic,
        ]
    found = [cohen_kappa(cells), cohen_kappa(cells, quadratic_weights(range(labels))), kendall_tau_b(cells)]
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert equal_share(cells) == pytest.approx(np.mean([a == b for a, b in pairs]))


@given(st.lists(PAIRS.map(lambda case: contingency_table(case[1], 6)), min_size=1, max_size=5))
def test_many_tables_at_once_are_each_as_alone(tables: list[Any]) -> None:
    for statistic in (equal_share, cohen_kappa, kendall_tau_b, lambda t: cohen_kappa(any_label(t))):
        together = statistic(np.array(tables))
        assert together == pytest.approx([float(statistic(one)) for one in tables], nan_ok=True)


def test_a_label_that_nobody_uses_changes_nothing() -> None:
    used = np.array([[4, 1], [2, 6]])
    wide = np.zeros((4, 4))
    wide[np.ix_([0, 3], [0, 3])] = used
    assert cohen_kappa(wide) == cohen_kappa(used)
    assert kendall_tau_b(wide) == kendall_tau_b(used)


@pytest.mark.parametrize(
    ("scores", "last_row"),
    [
        ([1, 2, 3], [1, 0.25, 0]),
        ([1, 2, 4], [1, 4 / 9, 0]),  # a scale of four of which 3 was never used
        ([-1e308, 0, 1e308], [1, 0.25, 0]),
        ([7], [0]),
        ([], None),
    ],
)
def test_quadratic_weights_are_of_the_scores_and_not_of_their_rank(scores: list[float], last_row: Any) -> None:
    weights = quadratic_weights(scores)
    assert weights.shape == (len(scores), len(scores))
    assert last_row is None or weights[-1] == pytest.approx(last_row)


def test_any_label_sets_the_first_against_the_others() -> None:
    assert any_label(np.arange(9).reshape(3, 3)).tolist() == [[0, 1 + 2], [3 + 6, 4 + 5 + 7 + 8]]


@pytest.mark.parametrize("pairs", [[(0, 2)], [(-1, 0)], [(5, 5)]])
def test_labels_out_of_range_are_refused(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="labels must be between 0 and 1, got"):
        contingency_table(pairs, 2)
    assert contingency_table([], 2).tolist() == [[0, 0], [0, 0]]


def test_bounds_are_seeded_and_of_whole_clusters() -> None:
    items = np.array([np.eye(4)[cell].reshape(2, 2) for cell in [0] * 20 + [1] * 5 + [2] * 10 + [3] * 15])
    found = estimate(items, cohen_kappa)
    assert found == estimate(items, cohen_kappa)
    # Fleiss, Cohen and Everitt 1969: the standard error of this kappa is 0.1276; 1.96 of it either side
    assert found == pytest.approx((0.4, 0.4 - 0.250, 0.4 + 0.250), abs=0.02)
    documents = np.array([items[at : at + 10].sum(axis=0) for at in range(0, 50, 10)])  # whose items are all alike
    wider = estimate(documents, cohen_kappa, iterations=500)
    assert wider.value == found.value
    assert wider.high - wider.low > found.high - found.low


def test_one_cluster_has_no_bounds() -> None:
    assert estimate(np.array([[[20, 5], [10, 15]]]), cohen_kappa) == pytest.approx((0.4, NAN, NAN), nan_ok=True)


# ------------------------------------------------------------------------------------------------------------- ratings


def rows(*said: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"q{number}", "rating": one, **more} for number, one in enumerate(said)]


def written(path: Path, content: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    name = path.name.lower()
    if name.endswith((".csv", ".tsv")):
        mark = "," if name.endswith(".csv") else "\t"
        lines = [mark.join(content[0]), *(mark.join(map(str, row.values())) for row in content)]
        path.write_text("\n".join(lines) + "\n", "utf-8-sig")
    elif name.endswith(".json"):
        path.write_text(json.dumps(content), "utf-8")
    else:
        text = "".join(json.dumps(row) + "\n" for row in content)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def two(folder: Path, first: list[dict[str, Any]], second: list[dict[str, Any]], **options: Any) -> Comparison:
    return compare([written(folder / "a.jsonl", first), written(folder / "b.jsonl", second)], **options)


def values(result: Result) -> dict[str, float]:
    return {name: found.value for name, found in result.estimates.items()}


A, B = (1, 2, 3, 4, 4, 2), (1, 2, 4, 4, 3, 1)
OF_A_AND_B = {"exact": 0.5, "kappa": 1 / 3, "weighted kappa": 14 / 17, "tau-b": 9 / 13}


def test_ratings_of_two_raters(tmp_path: Path) -> None:
    found = two(tmp_path, rows(*A), rows(*B)[::-1])
    (result,) = found.results
    assert (found.kind, found.notes, result.raters, result.group) == ("ratings", (), "a.jsonl, b.jsonl", "-")
    assert result.counts == {"items": 6, "unread": 0}
    assert values(result) == pytest.approx(OF_A_AND_B)
    assert all(one.low <= one.value <= one.high for one in result.estimates.values())


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json", "x.csv", "x.tsv", "X.CSV"])
def test_formats_give_the_same_figures(tmp_path: Path, name: str) -> None:
    found = compare([written(tmp_path / "a.jsonl", rows(*A)), written(tmp_path / name, rows(*B))])
    assert values(found.results[0]) == pytest.approx(OF_A_AND_B)


@pytest.mark.parametrize(
    ("ids", "same"),
    [
        ((1, "1"), True),  # JSON numbers, CSV texts
        ((1.0, 1), True),  # as pandas writes a column with gaps
        ((" q ", "q"), True),
        (("9" * 4000, int("9" * 4000)), True),
        (("01", 1), False),
        (("Q", "q"), False),
        (("1.5", 1), False),
    ],
)
def test_ids_are_texts_whatever_their_type(tmp_path: Path, ids: tuple[Any, Any], same: bool) -> None:
    both = [[{"id": one, "rating": 1}, {"id": "other", "rating": 2}] for one in ids]
    assert two(tmp_path, *both).results[0].counts["items"] == 1 + same


@pytest.mark.parametrize("unread", [None, "", "  ", "unread", "Unread", NAN, "nan", "NaN"])
def test_what_is_unread_is_counted_and_left_out(tmp_path: Path, unread: Any) -> None:
    (result,) = two(tmp_path, rows(*A, 3, unread), rows(*B, unread, unread)).results
    assert result.counts == {"items": 6, "unread": 2}
    assert values(result) == pytest.approx(OF_A_AND_B)


def test_where_nothing_is_read_nothing_is_known(tmp_path: Path) -> None:
    (result,) = two(tmp_path, rows("unread", None), rows(1, 2)).results
    assert result.counts == {"items": 0, "unread": 2}
    assert all(map(math.isnan, values(result).values()))
    (result,) = two(tmp_path, rows(None, None), rows("", "")).results
    assert result.counts == {"items": 0, "unread": 2}


def test_only_items_of_both_count_and_the_others_are_said(tmp_path: Path) -> None:
    found = two(tmp_path, rows(*A, 1, 2, 3), [*rows(*B), {"id": "elsewhere", "rating": 4}])
    assert found.results[0].counts["items"] == 6
    assert found.notes == ("a.jsonl, b.jsonl: 6 in both; 3 in a.jsonl alone, 1 in b.jsonl alone.",)


@pytest.mark.parametrize(
    ("first", "second", "exact", "says"),
    [
        (("4", 4, 4.0, " 4 "), (4, "4.0", "4e0", "٤"), 1.0, None),  # equal numbers however written
        (("good", "bad", "good"), ("good", "good", "good"), 2 / 3, "'good' in a.jsonl is no number"),
        ((1, 2, "x"), (1, 2, 3), 2 / 3, "'x' in a.jsonl is no number"),
        ((True, False), (True, True), 0.5, "'True' in a.jsonl is no number"),
        ((1, 0), (True, False), 0.0, "'True' in b.jsonl is no number"),  # a truth value is no number
        ((1, math.inf), (1, 1), 0.5, "'inf' in a.jsonl is no number"),
        ((1, 10), (1, "1_0"), 0.5, "'1_0' in b.jsonl is no number"),
        ((1, 10**400), (1, 10**400), 1.0, "is no number"),  # of no float
        (("\x1b[31mred", "b"), ("b", "b"), 0.5, r"'\x1b[31mred' in a.jsonl"),
    ],
)
def test_ratings_have_an_order_where_all_are_numbers(
    tmp_path: Path, first: tuple[Any, ...], second: tuple[Any, ...], exact: float, says: str | None
) -> None:
    found = two(tmp_path, rows(*first), rows(*second))
    assert values(found.results[0])["exact"] == pytest.approx(exact)
    if says is None:
        assert found.notes == ()
    else:
        assert all(math.isnan(values(found.results[0])[name]) for name in ("weighted kappa", "tau-b"))
        assert "no weighted kappa, no tau-b" in found.notes[0]
        assert says in found.notes[0]


def test_aspects_are_compared_apart_and_together(tmp_path: Path) -> None:
    first = rows(*A, aspect="faithfulness") + rows(1, 2, 2, aspect="appropriateness")
    second = rows(*B, aspect="faithfulness") + rows(1, 2, 1, aspect="appropriateness")
    found = two(tmp_path, first, second)
    assert [(result.group, result.counts["items"]) for result in found.results] == [
        ("appropriateness", 3),
        ("faithfulness", 6),
        ("all aspects", 9),
    ]
    assert values(found.results[1]) == pytest.approx(OF_A_AND_B)
    assert values(found.results[2])["exact"] == pytest.approx(5 / 9)


def test_a_harness_samples_file_is_read_as_it_is(tmp_path: Path) -> None:
    people = [
        {"question": f"d{n}", "aspect": a, "score": s} for a, said in (("f", A), ("g", B)) for n, s in enumerate(said)
    ]
    judge = [
        {
            "doc_id": 10 * len(a) + n,
            "doc": {"id": f"d{n}", "aspect": a, "rating": "not this one"},
            "resps": [["Rating: 4"]],
            "filtered_resps": [str(s) if n else "unread"],
            "filter": "rating",
        }
        for a, said in (("f", B), ("g", A))
        for n, s in enumerate(said)
    ]
    files = [
        written(tmp_path / "people.csv", people),
        written(tmp_path / "samples_clapnq_judge_2026-01-01T00-00-00.jsonl", judge),
    ]
    found = compare(files, id_column="question", columns=["score"])
    assert [(result.group, dict(result.counts)) for result in found.results] == [
        ("f", {"items": 5, "unread": 1}),
        ("g", {"items": 5, "unread": 1}),
        ("all aspects", {"items": 10, "unread": 2}),
    ]
    assert values(found.results[2])["exact"] == 0.4


def test_two_judges_comparisons_agree_on_the_system_whatever_the_letter(tmp_path: Path) -> None:
    """Samples of `clapnq_judge_pairs`: an item is a pair in one order, what is said of it the name of a system."""

    def judged(*verdicts: str) -> list[dict[str, Any]]:
        orders = [("one", "other"), ("other", "one")] * 2
        return [
            {
                "doc": {"id": f"q{n // 2}", "query_id": f"q{n // 2}/{a}/{b}", "first": a, "second": b},
                "filtered_resps": [said],
            }
            for n, ((a, b), said) in enumerate(zip(orders, verdicts, strict=True))
        ]

    files = [
        written(tmp_path / judge / "samples_clapnq_judge_pairs_2026-01-01T00-00-00.jsonl", judged(*verdicts))
        for judge, verdicts in (("x", ("A", "B", "tie", "B")), ("y", ("A", "A", "tie", "unread")))
    ]
    (result,) = compare(files).results
    assert dict(result.counts) == {"items": 3, "unread": 1}
    assert values(result)["exact"] == pytest.approx(
        2 / 3
    )  # the second pair: "one" in the eyes of x, "other" in those of y


def test_more_than_two_raters_are_compared_in_pairs_and_on_average(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{name}.csv", rows(*said)) for name, said in (("a", A), ("b", B), ("c", A))]
    found = compare(files)
    assert [result.raters for result in found.results] == [
        *("a.csv, b.csv", "a.csv, c.csv", "b.csv, c.csv", "mean of 3 pairs"),
    ]
    mean = found.results[-1]
    assert values(mean)["kappa"] == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)
    assert math.isnan(mean.estimates["kappa"].low)


def test_raters_without_a_common_item_are_left_out_of_the_pairs(tmp_path: Path) -> None:
    other = [{"id": "z", "rating": 1}]
    files = [
        written(tmp_path / f"{name}.json", content)
        for name, content in (("a", rows(*A)), ("b", rows(*B)), ("c", other))
    ]
    found = compare(files)
    assert [result.raters for result in found.results] == ["a.json, b.json"]
    assert "a.json, c.json: 0 in both; 6 in a.json alone, 1 in c.json alone." in found.notes


def test_one_file_may_hold_two_raters(tmp_path: Path) -> None:
    content = [{"id": n, "anna": a, "ben": b} for n, (a, b) in enumerate(zip(A, B, strict=True))]
    path = written(tmp_path / "both.tsv", content)
    found = compare([path, path], columns=["anna", "ben"])
    assert found.results[0].raters == "anna, ben"
    assert values(found.results[0]) == pytest.approx(OF_A_AND_B)


def test_a_row_that_stands_twice_counts_once(tmp_path: Path) -> None:
    found = two(tmp_path, rows(*A) + rows(*A[:2]), rows(*B) + rows(None))
    assert found.results[0].counts == {"items": 6, "unread": 0}
    assert found.notes == (
        "a.jsonl: 2 rows say again what was said before; they count once.",
        "b.jsonl: 1 rows say again what was said before; they count once.",
    )


@pytest.mark.parametrize(
    ("first", "options", "says"),
    [
        (
            rows(1, 2) + rows(3),
            {},
            r"a\.jsonl, line 3: 'q0' stands here a second time and differs \(1 before, 3 here\)",
        ),
        (
            [{"id": "x", "rating": 1}, {"id": "y\x1b", "rating": 1}],
            {},
            r"a.jsonl has 'x', 'y\\x1b'; b.jsonl has 'q0', 'q1'",
        ),
        ([{"id": "q0", "rating": 1, "aspect": "f"}], {}, r"no item was judged by two raters: a.jsonl has 'q0' \('f'\)"),
        (
            [{"rating": 1}],
            {},
            r"line 1: the id in 'id' must be a text or a number, found None; the columns are 'rating'",
        ),
        ([{"id": True, "rating": 1}], {}, r"must be a text or a number, found True"),
        ([{"id": " ", "rating": 1}], {}, r"must be a text or a number, found ' '"),
        ([{"id": NAN, "rating": 1}], {}, r"must be a text or a number, found nan"),
        ([{"id": ["q0"], "rating": 1}], {}, r"must be a text or a number, found \['q0'\]"),
        ([{"id": "q0", "rating": [4]}], {}, r"line 1: a rating is a number or a label, found \[4\]"),
        ([{"id": "q0", "score": 4}], {}, r"a.jsonl has no column 'rating'; it has 'id', 'score' \(--column NAME\)"),
        (rows(*range(200)), {}, r"200 different ratings \(0, 1, 2, ...\) are no scale"),
        (rows(1), {"columns": ["a", "b", "c"]}, r"names 3 columns for 2 files"),
        (rows(1), {"text_column": "t"}, r"did you mean --kind tags"),
        (rows(1), {"kind": "words"}, r"unknown kind 'words'; known are ratings, tags"),
        ([{"id": "i" * 100_000, "rating": 1}, {"id": "i" * 100_000, "rating": 2}], {}, r"'i{50,60}\.\.\. stands here"),
    ],
)
def test_what_cannot_be_compared_is_said(
    tmp_path: Path, first: list[dict[str, Any]], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says) as error:
        two(tmp_path, first, rows(1, 2), **options)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.jsonl", b"", r"x\.jsonl has no rows"),
        ("x.json", b"[]", r"x\.json has no rows"),
        ("x.csv", b"", r"x\.csv has no rows"),
        ("x.csv", b"id,rating\n", r"x\.csv has no rows"),
        ("x.json", b"", r"x\.json, whole file: no JSON"),
        ("x.json", b'{"id": 1}', r"expected a list of objects, found dict"),
        ("x.json", b'[{"id": 1, "rating": 1}, 2]', r"row 2: expected a JSON object, found int"),
        ("x.jsonl", b'{"id": 1, "rating": 1}\n[1]\n', r"line 2: expected a JSON object, found list"),
        ("x.jsonl", b'{"id": 1, "rating": 1}\n{"id": 2, "rat', r"line 2: no JSON"),
        ("x.jsonl", b'{"id": "a\x00b", "rating": 1}\n', r"line 1: no JSON \(Invalid control character"),
        ("x.jsonl", b'{"id": 1, "rating": ' + b"9" * 5000 + b"}", r"line 1: no JSON"),
        ("x.jsonl", b"[" * 100_000, r"line 1: no JSON"),
        ("x.jsonl", b'{"id": "\xff"}', r"no UTF-8 text"),
        ("x.json", b'[{"id": "\xff"}]', r"no UTF-8 text"),
        ("x.csv", b"id,rating\n\xff,1\n", r"x\.csv, line \d: .*can't decode"),
        ("x.csv", b"id,rating\n1,2\n3\n", r"line 3: not as many fields as the header has"),
        ("x.csv", b"id,rating\n1,2,3\n", r"line 2: not as many fields"),
        ("x.csv", b'id,rating\n"1,2\n', r"x\.csv, line \d: unexpected end of data"),
        ("x.csv", b"id;rating\n1;2\n", r"no column 'rating'; it has 'id;rating'"),
        ("x.jsonl.gz", b"no gzip", r"cut or damaged"),
        ("x.xlsx", b"PK", r"which format\? The name of a file must end in .jsonl"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        compare([written(tmp_path / "a.jsonl", rows(1)), path])


def test_one_rater_is_none_too_many(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", rows(*A))
    with pytest.raises(ValueError, match="name two files or more"):
        compare([path])
    with pytest.raises(ValueError, match="one column of one file is named twice"):
        compare([path, path])


# ---------------------------------------------------------------------------------------------------------------- tags


def tagged(*texts: str | None, **more: Any) -> list[dict[str, Any]]:
    return [{"id": number, "annotated": text, "language": "german", **more} for number, text in enumerate(texts)]


def test_words_of_tagged_texts_are_compared(tmp_path: Path) -> None:
    first = tagged("Die <entity>Katze schläft</entity> nie.", "Alles <invented>frei erfunden</invented>.")
    second = tagged("Die <entity>Katze</entity> schläft nie.", "Alles frei <subjective>erfunden</subjective>.")
    (result,) = two(tmp_path, first, second, kind="tags").results
    assert (result.group, dict(result.counts)) == ("de", {"documents": 2, "words": 7, "unread": 0, "dropped": 0})
    # 3 words neither marks, 2 both do, 2 only the first; chance: (4 * 2 + 3 * 5) / 49, by category (2 * 1 + 3 * 5) / 49
    assert values(result) == pytest.approx(
        {"binary kappa": (5 / 7 - 23 / 49) / (1 - 23 / 49), "category kappa": (4 / 7 - 17 / 49) / (1 - 17 / 49)}
    )


def test_tags_are_carried_onto_the_text_that_was_tagged(tmp_path: Path) -> None:
    text = "Die Katze schläft nie."
    first = tagged("Die <Entitty>Katze</entity>  schläft nie .", text=text)
    second = tagged("Die <entity>Katze schläft nie.")  # never closed: to the end of the sentence
    (result,) = two(tmp_path, first, second, kind="tags", text_column="text").results
    assert result.counts["words"] == 4
    assert values(result)["binary kappa"] == pytest.approx((2 / 4 - 6 / 16) / (1 - 6 / 16))
    (result,) = two(tmp_path, first, second, kind="tags").results
    assert result.counts["words"] == 5  # of the first rater's text


def test_documents_that_cannot_be_compared_are_counted(tmp_path: Path) -> None:
    same = "Ein <entity>Satz</entity> steht hier."
    found = two(tmp_path, tagged(same, same, same, None), tagged(same, "", "Об ином идёт речь", same), kind="tags")
    (result,) = found.results
    assert result.counts == {"documents": 1, "words": 4, "unread": 2, "dropped": 1}
    assert found.notes == ("Dropped: one of the tagged texts has next to nothing in common with the text.",)
    assert result.estimates["binary kappa"] == pytest.approx((1.0, NAN, NAN), nan_ok=True)


@pytest.mark.parametrize(
    ("language", "option", "group", "count"),
    [
        ("german", None, "de", 2),
        ("DE", None, "de", 2),
        ("german", "zh", "zh", 3),
        ("chinese", None, "zh", 3),
        ("Cantonese", None, "yue", 3),
        ("english", None, "en", 2),
        (None, "German", "de", 2),
        (None, None, "-", 2),
    ],
)
def test_the_language_decides_what_a_word_is(
    tmp_path: Path, language: str | None, option: str | None, group: str, count: int
) -> None:
    content = tagged("我们 喜欢猫", language=language)
    found = two(tmp_path, content, content, kind="tags", language=option)
    assert (found.results[0].group, found.results[0].counts["words"]) == (group, count)
    assert any("white space" in note for note in found.notes) == (group == "-")


def test_each_language_has_its_row(tmp_path: Path) -> None:
    content = tagged("<entity>a</entity> b", "c <entity>d</entity>")
    content[1]["language"] = "turkish"
    found = two(tmp_path, content, content, kind="tags")
    assert [(result.group, result.counts["words"]) for result in found.results] == [("de", 2), ("tr", 2)]


@pytest.mark.parametrize("which", ["x.json", "x.jsonl", "x.csv"])
def test_without_ids_rows_of_one_number_are_one_document(
    tmp_path: Path, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    content = [{"one": "a <entity>b</entity>", "two": "a b"}, {"one": "c d", "two": "c <entity>d</entity>"}]
    path = written(tmp_path / which, content)
    with caplog.at_level("INFO"):
        found = compare([path, path], "tags", ["one", "two"], language="de")
    assert found.results[0].counts["documents"] == 2
    assert "rows with the same number are taken for the same document" in caplog.text
    longer = written(tmp_path / "longer.json", [*content, content[0]])
    with pytest.raises(ValueError, match=r"not equally many \(x\.\w+ 2, longer.json 3\); --id NAME"):
        compare([path, longer], "tags", ["one"])
    with pytest.raises(ValueError, match="the id in 'nr' must be"):
        compare([path, path], "tags", ["one", "two"], id_column="nr")


@pytest.mark.parametrize(
    ("first", "options", "says"),
    [
        (tagged("a", language="turkish"), {}, "0' is of two languages, de and tr; are these the same documents"),
        (tagged("a", language="klingon empire"), {}, "line 1: unknown language 'klingon empire'"),
        (tagged("a"), {"language": "tlhIngan Hol"}, "unknown language 'tlhIngan Hol'"),
        (tagged("a"), {"text_column": "text"}, "'0' has no 'text' in either"),
        ([{"id": 0, "annotated": 7}], {}, "line 1: 'annotated' is no text but 7"),
        (tagged("a") + tagged("b"), {}, r"'0' stands here a second time and differs \('a' before, 'b' here\)"),
        ([{"annotated": "a"}], {}, "line 1: the id in 'id' must be a text or a number, found None"),
    ],
)
def test_tagged_texts_that_cannot_be_compared_are_named(
    tmp_path: Path, first: list[dict[str, Any]], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        two(tmp_path, first, tagged("a"), kind="tags", **options)


def test_silver_and_gold_of_the_public_data(hub: str) -> None:
    path = Path(hub) / "WueNLP/mHallucination_Detection/combined_gold_languages.json"
    found = compare([path, path], "tags", ["gold_annotations", "silver_annotations"], text_column="generated_text")
    # The same words' labels in scikit-learn 1.9.1's cohen_kappa_score give these to the last digit.
    assert {
        result.group: (*result.counts.values(), *(round(value, 6) for value in values(result).values()))
        for result in found.results
    } == {
        "ar": (248, 24528, 0, 0, 0.594373, 0.482840),
        "de": (331, 52730, 0, 0, 0.822784, 0.689154),
        "tr": (244, 30160, 0, 1, 0.703043, 0.588279),
    }
    assert [line.split("  ", 1)[1].split() for line in table(found).splitlines()[1:4]] == [
        "ar 248 24528 0 0 0.594 [0.555, 0.636] 0.483 [0.445, 0.523]".split(),
        "de 331 52730 0 0 0.823 [0.798, 0.846] 0.689 [0.665, 0.713]".split(),
        "tr 244 30160 0 1 0.703 [0.663, 0.740] 0.588 [0.553, 0.622]".split(),
    ]


# ------------------------------------------------------------------------------------------------------------ the shell


def test_the_table_cannot_act_on_a_terminal() -> None:
    sly = Result("a\x1b[2J, b\nc", "\u202ef" * 100, {"items": 1}, {"kappa": Estimate(NAN, NAN, NAN)})
    shown = table(Comparison("ratings", (sly,), ()))
    assert not {"\x1b", "\u202e"} & {*shown}
    assert len(shown.splitlines()) == 4
    assert max(map(len, shown.splitlines())) < 160


def test_the_users_command(tmp_path: Path) -> None:
    written(tmp_path / "people.csv", rows(*A, ""))
    written(tmp_path / "judge.jsonl", rows(*B, 1))
    done = run([command("lm-eval-grounded"), "agreement", "people.csv", "judge.jsonl"], tmp_path)
    head, line, _, note = done.stdout.splitlines()
    assert head.split() == ["raters", "aspect", "items", "unread", "exact", "kappa", "weighted", "kappa", "tau-b"]
    assert line.startswith("people.csv, judge.jsonl  -           6       1  0.500 [0.167, 0.833]  0.333 [")
    assert line.split("]  ")[2].startswith("0.824 [")
    assert line.split("]  ")[3].startswith("0.692 [")
    assert note == "In brackets: 95 % bounds, from a bootstrap over ids."


def test_the_users_command_on_tagged_texts(tmp_path: Path) -> None:
    content = [
        {"a": "x <entity>y</entity>", "b": "x y", "text": "x y"},
        {"a": "z", "b": "<entity>z</entity>", "text": "z"},
    ]
    written(tmp_path / "x.json", content)
    arguments = ["x.json", "x.json", "--kind", "tags", "--column", "a", "b", "--text", "text", "--language", "German"]
    done = run([command("lm-eval-grounded"), "agreement", *arguments], tmp_path)
    assert done.stdout.splitlines()[1].startswith("a, b    de                2      3       0        0  -0.500 [")


def test_the_users_mistakes(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", rows(*A))
    written(tmp_path / "b.csv", [{"id": "other", "rating": 1}])
    for files, says in ((["a.csv", "b.csv"], "'q0', 'q1'; b.csv has 'other'"), (["a.csv", "none.csv"], "none.csv")):
        done = run([command("lm-eval-grounded"), "agreement", *files], tmp_path, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert "Traceback" not in done.stderr
