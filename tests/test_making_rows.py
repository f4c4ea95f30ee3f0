"""Rows of a user's own files, and the edges of reading what a model made of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.spans import Span
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.detection.language_tags import code_of, guess
from lm_eval_tasks.making import answers, translation
from lm_eval_tasks.making.articles import read_rows, spans_in

EMPTY = {
    "title": "",
    "url": "",
    "question": "",
    "reference": "",
    "answer": "",
    "model": "",
    "language": "de",
    "spans": [],
}


def read(tmp_path: Path, *rows: Any) -> tuple[list[dict[str, Any]], Counter[str]]:
    path = tmp_path / "articles.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    seen: Counter[str] = Counter()
    return list(read_rows(path, "de", seen)), seen


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": " The Elbe. \n"}, {"reference": "The Elbe."}),
        ({"text": "a", "reference": "b"}, {"reference": "b"}),
        ({"text": "a", "reference": None}, {"reference": "a"}),
        (
            {"title": " T ", "url": "u", "question": "q ", "model": "m"},
            {"title": "T", "url": "u", "question": "q", "model": "m"},
        ),
        ({"id": "x", "language": "fi"}, {"id": "x", "language": "fi"}),
        ({"id": 7, "language": ""}, {"id": "7"}),
        ({"id": "", "title": None, "more": 3}, {}),
        ({"title": "half \ud800"}, {"title": "half \ufffd"}),
        # An answer keeps its white space: spans are places in it.
        ({"answer": " a b ", "spans": [[1, 2, "entity"]]}, {"answer": " a b ", "spans": [Span(1, 2, "entity")]}),
        ({"answer": "ab", "spans": None}, {"answer": "ab"}),
        (
            {"answer": "a b", "spans": [[2, 3, "relation"], [0, 1, "entity"]]},
            {"answer": "a b", "spans": [Span(0, 1, "entity"), Span(2, 3, "relation")]},
        ),
    ],
)
def test_a_row_has_every_field(tmp_path: Path, row: dict[str, Any], expected: dict[str, Any]) -> None:
    found, seen = read(tmp_path, "", row)
    assert found == [EMPTY | {"id": "2"} | expected]
    assert seen == {"blank lines": 1}


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    fields = [{"title": 1}, {"text": ["a"]}, {"language": 3}, {"answer": {"a": 1}, "text": "a"}]
    spans = [
        *(
            {"answer": "ab", "spans": spans}
            for spans in ([[0, 3, "entity"]], [[1, 1, "entity"]], [[0, 1, "odd"]], [["a"]], 5)
        ),
        {"spans": [[0, 1, "entity"]]},
    ]
    found, seen = read(tmp_path, *fields, {"text": "kept"}, *spans)
    assert [row["id"] for row in found] == ["5"]
    assert seen == {
        "rows left out, with a field that is no text": 4,
        "rows left out, with spans that do not fit their answer": 6,
    }
    assert spans_in("ab", [[0, 2, "entity"]]) == [Span(0, 2, "entity")]


def test_an_id_names_one_row(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"articles\.jsonl: lines 1 and 3 have the same id '2'; an id names one row$"):
        read(tmp_path, {"id": 2}, {"id": "a"}, {"id": "2"})
    with pytest.raises(UsageError, match="lines 1 and 2 have the same id '2'"):  # its line is the name of the second
        read(tmp_path, {"id": "2"}, {"text": "a"})
    assert [row["id"] for row in read(tmp_path, {"title": 1, "id": "a"}, {"id": "a"})[0]] == ["a"]
    with pytest.raises(CorruptSource, match="line 2: expected a JSON object"):
        read(tmp_path, {}, "[]")
    with pytest.raises(MissingSource, match=r"none\.jsonl: no such file \(--metadata articles=FILE, JSON lines with"):
        list(read_rows(tmp_path / "none.jsonl", "de", Counter()))


def test_a_reply_that_says_the_question_again_is_no_answer() -> None:
    doc = {
        "language": "de",
        "question": "Wo entspringt die Elbe?",
        "reference": "Die Elbe entspringt im Riesengebirge.",
    }
    for reply, reason in (
        ("Wo entspringt die Elbe?", "no text (a loop, markup, code, noise)"),
        ("Answer: \n", "an empty reply"),
        ("Die Elbe entspringt im Riesengebirge.", None),  # word for word from the passage
    ):
        rows, reasons = answers.read(reply, doc)
        assert (bool(rows), dict(reasons)) == (reason is None, {reason: 1} if reason else {})


# --------------------------------------------------------------------------------------------------------- translations


def translated(reply: str, text: str = "Where does the Elbe rise?", part: str = "question", source: str = "en") -> Any:
    doc = {"part": part, "text": text, "language": "de", "source_language": source}
    rows, reasons = translation.read(reply, doc)
    return rows or dict(reasons)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (" Wo entspringt die Elbe? \n", [{"text": "Wo entspringt die Elbe?", "spans": []}]),
        (" \n", {"an empty reply": 1}),
        ("where does the ELBE rise?", {"not translated": 1}),
        ("wo wo wo wo wo wo wo wo wo wo", {"no text (a loop, markup, code, noise)": 1}),
        # The tags of a question are its text.
        ("Wo <b>entspringt</b> die Elbe?", [{"text": "Wo <b>entspringt</b> die Elbe?", "spans": []}]),
        ("Das kann ich leider nicht beantworten.", {"a refusal": 1}),
    ],
)
def test_a_translated_question(reply: str, found: Any) -> None:
    assert translated(reply) == found


def test_a_translated_refusal_is_a_translation() -> None:
    reply = "Ich weiß es nicht."
    assert translated(reply, "I don't know.", "answer") == [{"text": reply, "spans": []}]
    assert translated(reply, "En tiedä sitä.", "answer", "fi") == [{"text": reply, "spans": []}]
    assert translated(reply, "It rises in Bohemia.", "answer") == {"a refusal": 1}


def test_places_of_a_translations_spans_are_in_its_text_without_tags() -> None:
    source = "It rises in <entity>Poland</entity>, they <unverifiable>say</unverifiable>."
    reply = " Sie entspringt in <entity>Polen</entity>, wie man <unverifiable>sagt</unverifiable>."
    assert translated(reply, source, "answer") == [
        {
            "text": "Sie entspringt in Polen, wie man sagt.",
            "spans": [[18, 23, "entity"], [33, 37, "unverifiable"]],
        }
    ]
    twice = reply.replace("Polen", "Polen</entity> und <entity>Böhmen")
    assert translated(twice, source, "answer") == {"other tags than before": 1}


# ------------------------------------------------------------------------------------------------------- language tags


@pytest.mark.parametrize(
    ("tag", "says"),
    [
        ("German", "'German' is no language; give a BCP 47 tag, such as de, pt-BR, zh-Hant or yue; did you mean 'de'?"),
        (
            " finnish ",
            "' finnish ' is no language; give a BCP 47 tag, such as de, pt-BR, zh-Hant or yue; did you mean 'fi'?",
        ),
        ("klingonisch", "'klingonisch' is no language; give a BCP 47 tag, such as de, pt-BR, zh-Hant or yue"),
        ("und", "'und' names no one language; give its BCP 47 tag, or none to have it guessed"),
        ("mul", "'mul' names no one language; give its BCP 47 tag, or none to have it guessed"),
        ("x-mine", "'x-mine' names no one language; give its BCP 47 tag, or none to have it guessed"),
    ],
)
def test_a_tag_that_is_no_language(tag: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        code_of(tag)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("tag", "code"), [("de", "de"), ("de-CH", "de"), ("DE", "de"), ("zh-Hant", "zh"), ("wuu", "zh"), ("tlh", "tlh")]
)
def test_a_tag_is_a_code(tag: str, code: str) -> None:
    assert code_of(tag) == code


def test_a_short_answer_is_guessed_with_its_reference() -> None:
    reference = "Die Elbe ist ein Strom in Mitteleuropa, der im Riesengebirge entspringt und in die Nordsee mündet."
    found = guess("Sie mündet in die Nordsee, wie es im Text heißt.", "")
    assert (found.code, found.of) == ("de", "the answer")
    assert 0.9 < found.probability <= 1
    short = guess("Elbe", reference)
    assert (short.code, short.of) == ("de", "the answer and its reference")
    unsure = guess("12", "34")
    assert (unsure.code, unsure.of) == (None, "the answer and its reference")
    assert unsure.probability < 0.9
