"""The notation of phrase tables, rule by rule, and the search for its patterns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custom_metrics.abstention.folding import fold
from custom_metrics.abstention.patterns import MAX_WORD_END, Hits
from custom_metrics.abstention.phrases import GAP, GAP_WITHOUT_SPACES, build_lexicon, lexicon_of
from tests.growth import LINEAR, exponent
from tests.test_abstention import HOSTILE

PARTS = {
    **{"not": ["not", "never", "kein*"], "say": ["say", "says", "tell*"], "softly": ["really", "quite so"]},
    **{"to_say": ["to {say}", "in order to say"], "stem": ["bil", "gör"], "ending": ["miyor", "mez"]},
    "mixed": ["a", "b ... c", "d"],
}
FILL = "y" * 25


def table(**changed: Any) -> dict[str, Any]:
    return {"language": "xx", "name": "X", "parts": PARTS, **changed}


def hits(text: str, **changed: Any) -> Hits:
    """What a table finds in a folded text."""
    return build_lexicon([table(**changed)]).search(text)


def found(phrase: str, text: str, **changed: Any) -> list[str]:
    """What a phrase reads in a text."""
    lexicon = build_lexicon([table(abstains=[phrase], **changed)])
    folded = lexicon.fold(text)
    return [folded[start:end] for start, end in lexicon.search(folded).get("abstains", [])]


@pytest.mark.parametrize(
    ("phrase", "text", "reads"),
    [
        ("no idea", "i have no idea at all", ["no idea"]),
        ("no idea", "casino idea", []),
        ("no idea*", "i have no ideas", ["no ideas"]),
        ("*idea", "noidea", ["noidea"]),
        ("passag* text", "passages text", ["passages text"]),
        ("do not ... say", "they do not clearly say", ["do not clearly say"]),
        ("do not ... say", "they say they do not", []),
        ("^no sé", "no sé", ["no sé"]),
        ("^no sé", "juan no sé", []),
        ("^no sé", "bueno, no sé", ["no sé"]),
        ("{say} {not}", "it says not", ["says not"]),
        ("{say} {not}", "it says: not", []),
        ("{say} {not}", "it says keinesfalls", ["says keinesfalls"]),
        ("{say} {softly}? {not}", "it says not", ["says not"]),
        ("{say} {softly}? {not}", "it says quite so not", ["says quite so not"]),
        ("{say} {softly}? {not}", "it says hardly not", []),
        ("{say} ... {softly}? ... {not}", "it says all of it not", ["says all of it not"]),
        ("{say|stem} {not}", "bil never", ["bil never"]),
        ("(will|shall) {not}", "we shall never", ["shall never"]),
        ("(we)? (will|shall)", "we shall", ["we shall", "shall"]),
        ("{not} {to_say}", "never in order to say", ["never in order to say"]),
        ("{stem}{ending}", "bilmiyor", ["bilmiyor"]),
        ("{stem}{ending}", "bilmiyorum", []),
        ("{stem}{ending}*", "bilmiyorum", ["bilmiyorum"]),
        ("un{say}", "unsay", ["unsay"]),
        (", not", "here, not there", [", not"]),
        ("({say|stem}|ask) {not}", "gör not", ["gör not"]),
        # a mark at the end of a phrase stands beside any word
        ("say:", "say:not now", ["say:"]),
        ("'tis so", "o'tis so", ["'tis so"]),
        ("not ... ,", "not, here", ["not,"]),
        # an open end goes to the end of the word, not into another script
        ("idea*", "idea我的", ["idea"]),
        ("*idea", ",noidea", ["noidea"]),
        ("*idea ... not", "noidea is not", ["noidea is not"]),
        ("not ... tell*", "not to telleth it", ["not to telleth"]),
        # the parts of one word: an open end beside another part takes nothing
        ("{stem}(*miyor)", "bilmiyor", ["bilmiyor"]),
        ("{stem}(*miyor)", "bilxmiyor", []),
        ("(bil*){ending}", "bilmiyor", ["bilmiyor"]),
        ("(bil*){ending}", "bilxmiyor", []),
        # a space is a space
        ("passag* *text", "passages-text", []),
        ("passag* *text", "passages context", ["passages context"]),
        # the phrase's own words inside its last one
        ("not ... be not here", "not to be not here", ["not to be not here"]),
        # what is left out leaves the wider of the joints around it
        ("a (b|c)? ... d", "a x d", ["a x d"]),
        ("a (b|c)? ... d", "a b x d", ["a b x d"]),
        ("a ... (b|c)? d", "a x d", ["a x d"]),
        ("a ... (b|c)? d", "a x b d", ["a x b d"]),
        ("(b|c)? (e)?  d", "c d", ["c d", "d"]),
        # a part of phrases with gaps
        ("{mixed} x", "b y c x", ["b y c x"]),
        ("{mixed} x", "d x", ["d x"]),
        # behind a gap a word that nothing leads to hides none before it
        ("{stem}(*miyor) ... not", "bilmiyor bilxmiyor not", ["bilmiyor bilxmiyor not"]),
        ("pas* *text ... not", f"passages text {FILL} pas x text not", [f"passages text {FILL} pas x text not"]),
        ("*pas* *text ... not", f"passages text {FILL} xpas y text not", [f"passages text {FILL} xpas y text not"]),
    ],
)
def test_a_phrase_reads_what_the_notation_says(phrase: str, text: str, reads: list[str]) -> None:
    assert sorted(set(found(phrase, text))) == sorted(reads)


@pytest.mark.parametrize(("spaces", "gap"), [(True, GAP), (False, GAP_WITHOUT_SPACES)])
def test_a_gap_has_a_width(spaces: bool, gap: int) -> None:
    wide = f"not{'-' * gap}say"
    assert found("not ... say", wide, spaces=spaces) == [wide]
    assert found("not ... say", f"not{'-' * (gap + 1)}say", spaces=spaces) == []


def test_a_second_spelling_is_read_as_the_first() -> None:
    assert found("ne znam, ljudi", "Не знам, људи", same="нn еe зz нn аa мm љlj уu дd иi") == ["ne znam, ljudi"]


def test_an_exception_spares_what_lies_within_it() -> None:
    phrases = {"abstains": ["don't know"], "except": ["don't know how to thank"]}
    assert "abstains" not in hits("i don't know how to thank you", **phrases)
    assert hits("i don't know. i don't know how to thank you", **phrases)["abstains"] == [(2, 12)]


WORDS = ["not", "never", "say", "tells", "keine", "really", "bil", "bilmiyor", "to", "in order to say", ".", ",", "我"]


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_what_is_found_is_what_a_regular_expression_finds(text: str) -> None:
    """The same patterns, written out for `re`, on texts of the patterns' own words."""
    import re

    word = r"(?<![^\W_])(?:{})(?![^\W_])"
    says, nots = word.format(r"say|says|tell\w*"), word.format(r"not|never|kein\w*")
    expected = {
        "{say} {not}": re.search(rf"{says} {nots}", text),
        "{not} ... {say}": re.search(rf"{nots}(?=(.{{0,{GAP}}}?)({says}))", text),
        "{stem}{ending}": re.search(word.format("(?:bil|gör)(?:miyor|mez)"), text),
    }
    for pattern, match in expected.items():
        assert bool(found(pattern, text)) is bool(match), (pattern, text)


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize("unit", [*HOSTILE, "nicht sagt nennt der text ", "sag" * 30, "nichtnicht"])
@pytest.mark.slow("texts that are long enough to take measurable time")
def test_the_search_is_linear(unit: str) -> None:
    assert exponent(lexicon_of("de").search, lambda size: fold(unit * (size // len(unit))), 2_000) < LINEAR


def test_an_open_end_is_no_longer_than_a_word() -> None:
    assert found("{say}", "tell" + "x" * 100) == ["tell" + "x" * MAX_WORD_END]


@pytest.mark.parametrize(
    ("phrase", "text", "reads"),
    [
        ("ok*", "okay", ["ok"]),
        ("没*", "没有", ["没"]),
        ("没有 ... 信息", "没有信息", ["没有信息"]),
        ("没有{info}", "文章没有信息吗", ["没有信息"]),
    ],
)
def test_where_no_spaces_are_written_words_have_no_borders(phrase: str, text: str, reads: list[str]) -> None:
    assert found(phrase, text, spaces=False, parts={"info": ["信息"]}) == reads


def test_a_turn_that_is_the_end_of_a_word_is_that_end_alone() -> None:
    """The word before it may be the abstention ("없지만")."""
    found = hits("eopjiman", but=["*jiman"], abstains=["*jiman"])
    assert found == {"abstains": [(0, 8)], "but": [(3, 8)]}


def test_before_a_gap_the_nearest_place_counts() -> None:
    assert hits("not not say", bare=["not ... say"]) == {"bare": [(4, 11)]}


@pytest.mark.parametrize(
    ("text", "read"),
    [("well no", True), ("well, no", True), ("well h no", False), ("well " + "x " * 30 + "no", False), ("x no", False)],
)
def test_a_clause_starts_behind_a_mark_or_an_opener(text: str, read: bool) -> None:
    assert ("abstains" in hits(text, abstains=["^no"], openers=["well"])) is read


@pytest.mark.parametrize(
    ("changed", "text", "folded"),
    [
        ({}, "Ọjọ́  KẸTA", "ọjọ́ kẹta"),
        ({"fold_marks": False}, "Ọjọ́  KẸTA", "ọjọ́ kẹta"),
        ({"fold_marks": True}, "Ọjọ́  KẸTA", "ojo keta"),
        ({"same": "дd аa"}, "Да, da", "da, da"),
        ({"same": "љlj џdž"}, "Људи, УЏБЕНИК", "ljуди, уdžбеник"),
        ({"same": "x"}, "Cxu ŝi scias?", "cu ŝi scias?"),  # a character alone is dropped
        ({"same": "x", "fold_marks": True}, "Cxu ŝi scias?", "cu si scias?"),
        ({"same": "]a ^b -c"}, "\\ ] ^ - [ ,", "\\ a b c [ ,"),  # characters that a class of characters reads otherwise
        ({"same": "дd"}, "nothing to respell", "nothing to respell"),
    ],
)
def test_a_text_is_folded_as_its_table_says(changed: dict[str, Any], text: str, folded: str) -> None:
    assert build_lexicon([table(**changed)]).fold(text) == folded


@pytest.mark.parametrize("changed", [{"fold_marks": True}, {"same": "дd аa"}, {"fold_marks": True, "same": "x"}])
def test_phrases_and_words_are_folded_as_texts_are(changed: dict[str, Any]) -> None:
    text = "Да, Ọjọ́ Cxu"
    lexicon = build_lexicon([table(abstains=[text], yes=[text], no=[text], answer_marker=[text], **changed)])
    folded = lexicon.fold(text)
    assert lexicon.search(folded) == {"abstains": [(0, len(folded))]}
    assert lexicon.yes == lexicon.no == (folded,)
    assert lexicon.answer_marker.fullmatch(f"{folded}:")


@pytest.mark.parametrize(
    ("text", "introduced"),
    [
        ("answer: four", "four"),
        ("answer:four", "four"),
        ("answer  : four", None),  # one blank at most, as texts are folded
        ("answer:  four", " four"),
        ("answer four", None),
        ("answer in short: four", "four"),  # a marker that begins with another
        ("final answer: four", "four"),  # a marker that ends with another
        ("c++ (or c) says: four", "four"),
        ("so: four", "four"),  # of the second table
        ("ccc or c says: four", None),  # a marker is no regular expression
        ("concluding: four", None),
    ],
)
def test_an_answer_marker_is_a_word_before_a_colon(text: str, introduced: str | None) -> None:
    first = table(answer_marker=["Answer", "Final answer", "answer in short", "C++ (or C) says"])
    lexicon = build_lexicon([first, table(answer_marker=["so", "¡answer!"])])
    found = lexicon.answer_marker.search(text)
    assert (text[found.end() :] if found else None) == introduced
