"""How far raters agree on hallucinated spans, word by word."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.results.agreement import compare, table
from tests.raters import two, values, written

NAN = math.nan


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
        "de 331 52730 0 0 0.823 [0.795, 0.847] 0.689 [0.661, 0.716]".split(),
        "tr 244 30160 0 1 0.703 [0.664, 0.740] 0.588 [0.553, 0.621]".split(),
    ]
