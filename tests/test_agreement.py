"""How far raters agree: on ratings, and on hallucinated spans word by word; and what becomes of rows that do not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.statistics.figures import UNDEFINED
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.agreement import Comparison, Result, compare, render_table

NAN = math.nan
A, B = (1, 2, 3, 4, 4, 2), (1, 2, 4, 4, 3, 1)
OF_A_AND_B = {"exact": 0.5, "kappa": 1 / 3, "weighted kappa": 14 / 17, "tau-b": 9 / 13}


def rows(*said: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"q{number}", "rating": one, **more} for number, one in enumerate(said)]


def written(path: Path, content: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    if path.suffix in (".csv", ".tsv"):
        mark = "," if path.suffix == ".csv" else "\t"
        lines = [mark.join(content[0]), *(mark.join(map(str, row.values())) for row in content)]
        path.write_text("\n".join(lines) + "\n", "utf-8-sig")
    else:
        path.write_text(json.dumps(content) if path.suffix == ".json" else "\n".join(map(json.dumps, content)), "utf-8")
    return path


def two(folder: Path, first: list[dict[str, Any]], second: list[dict[str, Any]], **options: Any) -> Comparison:
    return compare([written(folder / "a.jsonl", first), written(folder / "b.jsonl", second)], **options)


def values(result: Result) -> dict[str, float]:
    return {name: found.value for name, found in result.estimates.items()}


def test_ratings_of_two_raters_in_every_format(tmp_path: Path) -> None:
    for name in ("x.jsonl", "x.json", "x.csv", "x.tsv"):
        found = compare([written(tmp_path / "a.jsonl", rows(*A)), written(tmp_path / name, rows(*B)[::-1])])
        (result,) = found.results
        assert (found.kind, found.notes, result.raters, result.group) == ("ratings", (), f"a.jsonl, {name}", "-")
        assert result.counts == {"items": 6, "unread": 0}
        assert values(result) == pytest.approx(OF_A_AND_B)
        assert all(one.low <= one.value <= one.high for one in result.estimates.values())


def test_ids_are_texts_whatever_their_type(tmp_path: Path) -> None:
    """JSON numbers, CSV texts, and whole numbers as pandas writes a column with gaps."""
    for *ids, same in ((1, "1", True), (1.0, 1, True), (" q ", "q", True), ("01", 1, False), ("1.5", 1, False)):
        both = [[{"id": one, "rating": 1}, {"id": "other", "rating": 2}] for one in ids]
        assert two(tmp_path, *both).results[0].counts["items"] == 1 + same


def test_what_is_unread_is_counted_and_left_out(tmp_path: Path) -> None:
    for unread in (None, "", "  ", "unread", "Unread", NAN, "nan", "NaN"):
        (result,) = two(tmp_path, rows(*A, 3, unread), rows(*B, unread, unread)).results
        assert result.counts == {"items": 6, "unread": 2}
        assert values(result) == pytest.approx(OF_A_AND_B)


def test_only_items_of_both_count_and_the_others_are_said(tmp_path: Path) -> None:
    found = two(tmp_path, rows(*A, 1, 2, 3), [*rows(*B), {"id": "elsewhere", "rating": 4}])
    assert found.results[0].counts["items"] == 6
    assert found.notes == ("a.jsonl, b.jsonl: 6 in both; 3 in a.jsonl alone, 1 in b.jsonl alone.",)


@pytest.mark.parametrize(
    ("first", "second", "exact", "says"),
    [
        (("4", 4, 4.0, " 4 "), (4, "4.0", "4e0", "٤"), 1.0, None),  # equal numbers however written
        ((1, 2, "x"), (1, 2, 3), 2 / 3, "'x' in a.jsonl is not a number"),
        ((1, 0), (True, False), 0.0, "'True' in b.jsonl is not a number"),  # a truth value is no number
        ((1, 10), (1, "1_0"), 0.5, "'1_0' in b.jsonl is not a number"),
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


def test_a_harness_samples_file_is_read_as_it_is(tmp_path: Path) -> None:
    people = [
        {"question": f"d{n}", "aspect": a, "score": s} for a, said in (("f", A), ("g", B)) for n, s in enumerate(said)
    ]
    judge = [
        {
            "doc": {"id": f"d{n}", "aspect": a, "rating": "not this one"},
            "resps": [["Rating: 4"]],
            "filtered_resps": [str(s) if n else "unread"],
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
    orders = [("one", "other"), ("other", "one")] * 2
    docs = [
        {"id": f"q{n // 2}", "query_id": f"q{n // 2}/{a}/{b}", "first": a, "second": b}
        for n, (a, b) in enumerate(orders)
    ]
    files = []
    for judge, verdicts in (("x", ("A", "B", "tie", "B")), ("y", ("A", "A", "tie", "unread"))):
        judged = [{"doc": doc, "filtered_resps": [said]} for doc, said in zip(docs, verdicts, strict=True)]
        files.append(written(tmp_path / judge / "samples_clapnq_judge_pairs_2026-01-01T00-00-00.jsonl", judged))
    (result,) = compare(files).results
    assert dict(result.counts) == {"items": 3, "unread": 1}
    # the second pair: "one" in the eyes of x, "other" in those of y
    assert values(result)["exact"] == pytest.approx(2 / 3)


def test_more_than_two_raters_are_compared_in_pairs_and_on_average(tmp_path: Path) -> None:
    """Those without a common item are left out."""
    raters = {"a": rows(*A), "b": rows(*B), "c": rows(*A), "d": [{"id": "z", "rating": 1}]}
    found = compare([written(tmp_path / f"{name}.csv", content) for name, content in raters.items()])
    pairs = ["a.csv, b.csv", "a.csv, c.csv", "b.csv, c.csv"]
    assert [result.raters for result in found.results] == [*pairs, "mean of 3 pairs"]
    assert "a.csv, d.csv: 0 in both; 6 in a.csv alone, 1 in d.csv alone." in found.notes
    mean = found.results[-1]
    assert values(mean)["kappa"] == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)
    assert math.isnan(mean.estimates["kappa"].low)


def test_one_file_may_hold_two_raters(tmp_path: Path) -> None:
    content = [{"id": n, "anna": a, "ben": b} for n, (a, b) in enumerate(zip(A, B, strict=True))]
    path = written(tmp_path / "both.tsv", content)
    (result,) = compare([path, path], columns=["anna", "ben"]).results
    assert (result.raters, values(result)) == ("anna, ben", pytest.approx(OF_A_AND_B))
    with pytest.raises(ValueError, match="name two files or more"):
        compare([path])
    with pytest.raises(ValueError, match="one column of one file is named twice"):
        compare([path, path], columns=["anna"])


def test_a_row_that_stands_twice_counts_once(tmp_path: Path) -> None:
    found = two(tmp_path, rows(*A) + rows(*A[:2]), rows(*B) + rows(None))
    assert found.results[0].counts == {"items": 6, "unread": 0}
    assert found.notes == (
        "a.jsonl: 2 rows repeat an item; they count once.",
        "b.jsonl: 1 rows repeat an item; they count once.",
    )


@pytest.mark.parametrize(
    ("first", "options", "says"),
    [
        (rows(1, 2) + rows(3), {}, r"a\.jsonl, line 3: 'q0' is there a second time and differs"),
        ([{"id": "y\x1b", "rating": 1}], {}, r"a.jsonl has 'y\\x1b'; b.jsonl has 'q0', 'q1'"),
        ([{"id": "q0", "rating": 1, "aspect": "f"}], {}, r"no item was judged by two raters: a.jsonl has 'q0' \('f'\)"),
        *(
            ([{"id": bad, "rating": 1}], {}, r"line 1: the id in 'id' must be a text or a number")
            for bad in (None, True, " ")
        ),
        ([{"id": "q0", "rating": [4]}], {}, r"line 1: a rating is a number or a label, got \[4\]"),
        ([{"id": "q0", "score": 4}], {}, r"a.jsonl has no column 'rating'; it has 'id', 'score' \(--column NAME\)"),
        (rows(*range(200)), {}, r"200 different ratings \(.*\) are no scale"),
        (rows(1), {"columns": ["a", "b", "c"]}, r"3 columns for 2 files"),
        (rows(1), {"text_column": "t"}, r"did you mean --kind tags"),
        ([{"id": "i" * 100_000, "rating": 1}, {"id": "i" * 100_000, "rating": 2}], {}, r"'i{50,60}'?\.\.\. is there"),
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
        ("x.csv", b"id,rating\n", r"x\.csv has no rows"),
        ("x.jsonl", b'{"id": 1, "rating": 1}\n{"id": 2, "rat', r"line 2: not JSON"),
        ("x.csv", b'id,rating\n"1,2\n', r"x\.csv, line 2: a quoted cell without an end"),
        ("x.xlsx", b"PK", r"neither JSON lines, JSON, CSV"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        compare([written(tmp_path / "a.jsonl", rows(1)), path])


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
    assert found.notes == ("Dropped: one of the tagged texts has almost nothing in common with the text.",)
    assert result.estimates["binary kappa"][:3] == pytest.approx((1.0, NAN, NAN), nan_ok=True)


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
    assert any("White space" in note for note in found.notes) == (group == "-")


def test_without_ids_rows_of_one_number_are_one_document(tmp_path: Path) -> None:
    content = [{"one": "a <entity>b</entity>", "two": "a b"}, {"one": "c d", "two": "c <entity>d</entity>"}]
    path = written(tmp_path / "x.json", content)
    assert compare([path, path], "tags", ["one", "two"], language="de").results[0].counts["documents"] == 2
    longer = compare([path, written(tmp_path / "longer.json", [*content, content[0]])], "tags", ["one"])
    assert "x.json, longer.json: 2 in both; 0 in x.json alone, 1 in longer.json alone." in longer.notes
    with pytest.raises(ValueError, match="the id in 'nr' must be"):
        compare([path, path], "tags", ["one", "two"], id_column="nr")


@pytest.mark.parametrize(
    ("first", "options", "says"),
    [
        (tagged("a", language="turkish"), {}, "'0' is in two languages, de and tr; are these the same documents"),
        (tagged("a", language="klingon empire"), {}, "line 1: unknown language 'klingon empire'"),
        (tagged("a"), {"language": "tlhIngan Hol"}, "unknown language 'tlhIngan Hol'"),
        (tagged("a"), {"text_column": "text"}, "'0' has no 'text' in either"),
        ([{"id": 0, "annotated": 7}], {}, "line 1: 'annotated' must be a text, got 7"),
        (tagged("a") + tagged("b"), {}, "'0' is there a second time and differs"),
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
    kappas = [(0.594373, 0.482840), (0.822784, 0.689154), (0.703043, 0.588279)]
    assert [tuple(values(result).values()) for result in found.results] == [
        pytest.approx(of, abs=5e-7) for of in kappas
    ]
    assert [line.split("  ", 1)[1].split() for line in render_table(found).splitlines()[2:5]] == [
        "ar 248 24528 0 0 0.594 [0.555, 0.636] 0.483 [0.445, 0.523]".split(),
        "de 331 52730 0 0 0.823 [0.795, 0.847] 0.689 [0.661, 0.716]".split(),
        "tr 244 30160 0 1 0.703 [0.664, 0.740] 0.588 [0.553, 0.621]".split(),
    ]


def test_the_table_cannot_act_on_a_terminal() -> None:
    sly = Result("a\x1b[2J, b\nc", "\u202ef" * 100, {"items": 1}, {"kappa": UNDEFINED})
    shown = render_table(Comparison("ratings", (sly,), ()))
    assert not {"\x1b", "\u202e"} & {*shown}
    assert max(map(len, shown.splitlines())) < 160


def test_the_users_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "people.csv", rows(*A, ""))
    written(tmp_path / "judge.jsonl", rows(*B, 1))
    monkeypatch.chdir(tmp_path)
    assert main(["agreement", "people.csv", "judge.jsonl"]) == 0
    head, _, line, _, note = capsys.readouterr().out.splitlines()
    assert head.split() == ["raters", "aspect", "items", "unread", "exact", "kappa", "weighted", "kappa", "tau-b"]
    first = "people.csv, judge.jsonl - 6 1 0.500 [0.167, 0.833] 0.333 ["
    assert " ".join(line.split()).startswith(first)
    assert [part.split()[0] for part in line.split("]  ")[2:]] == ["0.824", "0.692"]
    assert note == "In brackets: 95 % bounds, from a bootstrap over ids."
    marked = {"a": "x <entity>y</entity>", "b": "x y", "text": "x y"}
    written(tmp_path / "x.json", [marked, {"a": "z", "b": "<entity>z</entity>", "text": "z"}])
    arguments = ["x.json", "x.json", "--kind", "tags", "--column", "a", "b", "--text", "text", "--language", "German"]
    assert main(["agreement", *arguments]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert " ".join(line.split()).startswith("a, b de 2 3 0 0 -0.500 [")
