"""Replies of the making tasks, read: what is kept of them, and what is left out for which reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.reading.spans import CATEGORIES, Span
from custom_metrics.reading.tagged_text import render
from lm_eval_tasks.making import steps
from lm_eval_tasks.making.steps import other_language

ELBE = (
    "Die Elbe ist ein Strom in Mitteleuropa, der im tschechischen Teil des Riesengebirges entspringt. Auf rund 1.090 "
    "Kilometern fließt sie durch Tschechien und Deutschland und mündet bei Cuxhaven in die Nordsee. Bei Mělník nimmt die "
    "Elbe die Moldau auf, die bis zu dieser Stelle länger ist und mehr Wasser führt als der Hauptfluss selbst."
)
LENGTH = "Welcher Nebenfluss der Elbe ist bei der Vereinigung länger und führt mehr Wasser als der Hauptfluss?"
MOUTH = "In welchem Teil Mitteleuropas entspringt die Elbe, und wo mündet sie in die Nordsee?"
LOOP = "hol über hol über hol über hol über"
GERMAN = {"language": "de", "reference": ELBE, "step": steps.QUERIES}


@pytest.mark.parametrize(
    ("reply", "questions", "reasons"),
    [
        (f"{LENGTH}\n{MOUTH}", [LENGTH, MOUTH], {}),
        (f"1. {LENGTH}\n\n2) **{MOUTH}**\n", [LENGTH, MOUTH], {}),
        (f"Hier sind zwei Fragen:\n- {LENGTH}\n- {MOUTH}", [LENGTH, MOUTH], {"a line that is no question": 1}),
        (f"Sure! I made them hard.\nQuestion 1: {LENGTH}", [LENGTH], {"another language": 1}),
        ("Erläutern Sie den Weg der Elbe in Sachsen.", ["Erläutern Sie den Weg der Elbe in Sachsen."], {}),
        (f"{LENGTH}\n{LENGTH[:-1]} ?", [LENGTH], {"a double": 1}),
        ("Which tributary of the Elbe carries more water than the main river?", [], {"another language": 1}),
        ("Wer gewann 2014 die Weltmeisterschaft im Fußball der Männer?", [], {"not about the article": 1}),
        (f"{LENGTH}\n{MOUTH}\nDurch welche Länder fließt die Elbe?", [LENGTH, MOUTH], {"more than were asked for": 1}),
        ("Wo?\n" * 3000, [], {"too short": 20, "more than were asked for": 2980}),
        ("Auf rund 1.090 Kilometern fließt sie durch Tschechien und Deutschland", [], {"copied from the article": 1}),
        ("Wo?", [], {"too short": 1}),
        ("Elbe " * 200 + "?", [], {"too long": 1}),
        ("Ich kann diese Frage nicht beantworten.", [], {"a refusal": 1}),
        ("die Elbe die Elbe die Elbe die Elbe die Elbe die Elbe", [], {"no text (a loop, markup, code, noise)": 1}),
        (" \n--\n", [], {"an empty reply": 1}),
    ],
)
def test_questions_are_read_a_line_each(reply: str, questions: list[str], reasons: dict[str, int]) -> None:
    reading = steps.read_queries(reply, GERMAN)
    assert [row["question"] for row in reading.rows] == questions
    assert dict(reading.reasons) == reasons


@pytest.mark.parametrize(
    ("question", "reference", "possible"),
    [
        (LENGTH, ELBE, True),
        ("¿Cuándo nació Goya?", ELBE, False),
        ("易北河流入哪个海？", "易北河是中欧的一条河流，流入北海。", True),
        ("谁赢得了世界杯？", "易北河是中欧的一条河流，流入北海。", False),
        ("1090?", "1090", True),
        ("?", ELBE, False),
    ],
)
def test_a_question_is_about_a_text_with_a_quarter_of_its_words(question: str, reference: str, possible: bool) -> None:
    assert steps.answerable(question, reference) is possible


@pytest.mark.parametrize(
    ("text", "language", "beside", "other"),
    [
        (LENGTH, "de", ELBE, None),
        (LENGTH, "fr", "", "de"),
        ("Koja rijeka je duža od Labe i ima više vode?", "sr", "", None),  # Croatian is near
        # not a language that py3langid knows; its script speaks
        ("دریائے سندھ کی لمبائی کتنی ہے؟", "sd", ELBE, "arabic"),
        ("易北河流入哪个海？", "de", ELBE, "cjk"),
        ("Die 河 der Σ на ש ist العربية und 한국", "de", "", "a mixture"),
    ],
)
def test_only_another_language_for_sure_is_refused(text: str, language: str, beside: str, other: str | None) -> None:
    assert other_language(text, language, beside) == other


@pytest.mark.parametrize(
    ("reply", "answer", "reason"),
    [
        ("Das ist die Moldau bei Mělník.", "Das ist die Moldau bei Mělník.", None),
        ("**Answer:** Das ist die Moldau bei Mělník.\n", "Das ist die Moldau bei Mělník.", None),
        ("", None, "an empty reply"),
        (LENGTH, None, "no text (a loop, markup, code, noise)"),  # the question once more
        ("Der Text beantwortet die Frage nicht.", None, "the reference does not answer the question"),
        ("It is the Vltava, which joins the river near Mělník.", None, "another language"),
        ("der der der der der der der der", None, "no text (a loop, markup, code, noise)"),
        ("Le texte ne répond pas à la question.", None, "another language"),  # before it is read as a refusal
        ("Влтава", None, "another language"),  # a name, in a script that the reference has not
        (LOOP, None, "no text (a loop, markup, code, noise)"),
    ],
)
def test_an_answer_is_faithful_text_in_the_language(reply: str, answer: str | None, reason: str | None) -> None:
    doc = {**GERMAN, "question": LENGTH}
    holding = {**doc, "reference": f"{ELBE} Der Fährmann ruft: {LOOP}"}
    assert steps.read_answer(LOOP, holding).rows == [{"answer": LOOP, "spans": []}]  # as in the reference
    reading = steps.read_answer(reply, doc)
    assert reading.rows == ([] if answer is None else [{"answer": answer, "spans": []}])
    assert dict(reading.reasons) == ({} if reason is None else {reason: 1})


SECOND = "Sie mündet bei Cuxhaven in die Nordsee."
TEXT = f"Die Elbe entspringt in Tschechien. {SECOND}"


def document(answer: str = TEXT, spans: Any = (), categories: Any = CATEGORIES) -> dict[str, Any]:
    listed = [{"start": span.start, "end": span.end, "category": span.category} for span in spans]
    return {"answer": answer, "spans": listed, "categories": list(categories), "step": steps.SILVER, "language": "de"}


@pytest.mark.parametrize(
    ("reply", "tagged"),
    [
        ("Die Elbe entspringt in <entity>Polen</entity>. Sie mündet bei Cuxhaven in die Nordsee.", ["Polen"]),
        ("Edited: die Elbe entspringt in <Entity>Polen</Entity>. Sie mündet bei Cuxhaven in die Nordsee", ["Polen"]),
        (f"{TEXT} <subjective>Sie ist schön.</subjective>", ["Sie ist schön."]),
        (f"{TEXT[:22]} <relation>aus</relation><entity> Polen</entity>. {SECOND}", ["aus", " Polen"]),
        (
            "Die Elbe <relation>endet</relation> in <entity><delete>Tschechien</delete><mark>Polen</mark></entity>. Sie "
            "mündet bei <entity>Kiel</entity> in die <entity>Ostsee</entity>.",
            ["endet", "Polen", "Kiel", "Ostsee"],
        ),
        ("<contradictory>Die Elbe endet in Polen.</contradictory>", ["Die Elbe endet in Polen."]),  # all is replaced
    ],
)
def test_inserted_errors_are_read_with_their_places(reply: str, tagged: list[str]) -> None:
    reading = steps.read_silver(reply, document())
    ((row,), reasons) = reading
    assert not reasons
    assert [row["answer"][start:end] for start, end, _ in row["spans"]] == tagged
    assert "<" not in row["answer"]


CHANGED = "changed outside of the tags"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "an empty reply"),
        (TEXT, "no error inserted"),
        (f"Die Elbe entspringt in <entity>Polen. {SECOND}", "tags that cannot be read"),
        (f"Die Elbe entspringt in <entity>Polen</relation>. {SECOND}", "tags that cannot be read"),
        (f"{TEXT} <entity></entity>", "tags that cannot be read"),
        (f"Die Oder entspringt in <entity>Polen</entity>. {SECOND}", CHANGED),
        ("Die Elbe entspringt in <entity>Polen</entity>. Sie mündet in die Nordsee.", CHANGED),
        (f"Here is the text: {TEXT} <subjective>Toll.</subjective>", CHANGED),
        (f"Die Elbe entspringt in <entity>Tschechien</entity>. {SECOND}", "a tag around words that were not changed"),
        (f"{TEXT} <hallucination>Sie ist lang.</hallucination>", "a kind of error that was not asked for"),
    ],
)  # fmt: skip
def test_what_is_no_text_with_tagged_errors_is_left_out(reply: str, reason: str) -> None:
    rows, reasons = steps.read_silver(reply, document())
    assert rows == []
    assert reasons == {reason: 1}


def test_errors_that_were_there_stay_and_only_kinds_that_were_asked_for_come() -> None:
    """As the paper goes: one kind after the other."""
    at = TEXT.index("Tschechien")
    had = document(TEXT, [Span(at, at + len("Tschechien"), "entity")], ["subjective"])
    passage = render(TEXT, [Span(at, at + len("Tschechien"), "entity")])
    ((row,), _) = steps.read_silver(f"{passage} <subjective>Schön!</subjective>", had)
    assert [category for _, _, category in row["spans"]] == ["entity", "subjective"]
    for reply, reason in (
        (f"{TEXT} <subjective>Schön!</subjective>", "errors that were there already are gone"),
        (f"{passage} <invented>Schön!</invented>", "a kind of error that was not asked for"),
        (passage, "no error inserted"),
    ):
        assert steps.read_silver(reply, had).reasons == {reason: 1}


words = st.lists(st.sampled_from("Elbe fließt durch Polen nach Norden 1090 km".split()), min_size=1, max_size=12)

errors = st.lists(st.tuples(st.integers(0, 11), st.sampled_from(CATEGORIES), st.booleans()), min_size=1, max_size=4)


@given(words, errors)
def test_a_text_with_replaced_or_added_words_is_read_back(text: list[str], errors: list[tuple[int, str, bool]]) -> None:
    """New words never stand in the original; whatever the places of the errors, the answer and its spans come back."""
    pieces = list(text)
    for number, (place, category, replaces) in enumerate(errors):
        at = place % len(text)
        if "<" not in pieces[at]:
            new = f"<{category}>xyz{number}</{category}>"
            pieces[at] = new if replaces else f"{pieces[at]} {new}"
    reply = " ".join(pieces)
    (row,), reasons = steps.read_silver(reply, document(" ".join(text)))
    assert not reasons
    assert len(row["spans"]) == reply.count("</")
    assert all(row["answer"][start:end].startswith("xyz") for start, end, _ in row["spans"])


SOURCE = "The Elbe rises in <entity>Poland</entity>. <subjective>It is lovely.</subjective>"
FRENCH = "L'Elbe prend sa source en <entity>Pologne</entity>. <subjective>Elle est belle.</subjective>"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Die Elbe entspringt in <entity>Polen</entity>. <subjective>Sie ist schön.</subjective>", None),
        ("<subjective>Schön ist sie.</subjective> In <entity>Polen</entity> entspringt die Elbe.", None),
        ("", "an empty reply"),
        (SOURCE, "not translated"),
        ("Die Elbe entspringt in Polen. Sie ist schön.", "other tags than before"),
        (f"<entity>Prag</entity>: {SOURCE.replace('The Elbe rises', 'Die Elbe entspringt')}", "other tags than before"),
        ("Die Elbe entspringt in <entity>Polen</entity>. Sie ist schön.", "other tags than before"),
        ("Die Elbe entspringt in <entity>Polen. <subjective>Sie ist schön.</subjective>", "other tags than before"),
        ("Die Elbe entspringt in <ort>Polen</ort>. <subjektiv>Sie ist schön.</subjektiv>", "other tags than before"),
        (FRENCH, "another language"),
    ],
)
def test_a_translation_has_the_tags_of_its_source(reply: str, reason: str | None) -> None:
    doc = {"part": "answer", "text": SOURCE, "language": "de", "source_language": "en", "step": steps.TRANSLATE}
    rows, reasons = steps.read_translation(reply, doc)
    assert reasons == ({} if reason is None else {reason: 1})
    if reason is None:
        (row,) = rows
        assert sorted(row["text"][start:end] for start, end, _ in row["spans"])[0] == "Polen"
        assert {category for _, _, category in row["spans"]} == {"entity", "subjective"}


DO_NOT_KNOW = "Das weiß ich nicht."


@pytest.mark.parametrize(
    ("part", "text", "language", "reply", "reason"),
    [
        ("question", "Where does the Elbe rise?", "en", " Wo entspringt die Elbe? \n", None),
        ("question", "Where does the Elbe rise?", "en", "where does the ELBE rise?", "not translated"),
        ("question", "Where is it?", "en", "wo wo wo wo wo wo wo wo wo wo", "no text (a loop, markup, code, noise)"),
        ("question", "Where is it?", "en", "Wo <b>entspringt</b> die Elbe?", None),  # its tags are its text
        ("question", "Where is it?", "en", "Das kann ich leider nicht beantworten.", "a refusal"),
        ("answer", "I do not know.", "en", DO_NOT_KNOW, None),  # the source says so, too
        ("answer", "Je ne sais pas.", "en", DO_NOT_KNOW, "a refusal"),  # not so in the source's language
        ("answer", "Where does it rise?", "en", "Le texte ne répond pas à la question.", "another language"),
    ],
)
def test_a_translation_without_tags(part: str, text: str, language: str, reply: str, reason: str | None) -> None:
    doc = {"part": part, "text": text, "language": "de", "source_language": language}
    rows, reasons = steps.read_translation(reply, doc)
    expected = ([{"text": reply.strip(), "spans": []}], {}) if reason is None else ([], {reason: 1})
    assert (rows, reasons) == expected
