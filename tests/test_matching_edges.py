"""Where a pattern begins and ends in a text, and which of several places counts."""

from __future__ import annotations

from typing import Any

import pytest

from custom_metrics.abstention.explained import matches
from custom_metrics.abstention.matching import Found, Hits
from custom_metrics.abstention.phrases import build_lexicon
from tests.test_matching import found

FILL = "y" * 25


def hits(text: str, **table: Any) -> Hits:
    """What a table finds in a folded text."""
    return build_lexicon([{"language": "xx", "name": "X", **table}]).search(text)


def traced(text: str, **table: Any) -> list[str]:
    """The patterns that an explanation names."""
    trace: list[Found] = []
    build_lexicon([{"language": "xx", "name": "X", **table}]).search(text, trace)
    return sorted(pattern.written for pattern, _, _ in trace)


@pytest.mark.parametrize(
    ("phrase", "text", "reads"),
    [
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
        ("passag* text", "passages-text", []),
        ("passag* *text", "passages-text", []),
        ("passag* *text", "passages context", ["passages context"]),
        # the phrase's own words inside its last one
        ("not ... be not here", "not to be not here", ["not to be not here"]),
    ],
)
def test_where_a_phrase_begins_and_ends(phrase: str, text: str, reads: list[str]) -> None:
    assert found(phrase, text) == reads


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("{stem}(*miyor) ... not", "bilmiyor bilxmiyor not"),
        ("passag* *text ... not", f"passages text {FILL} passag x text not"),
        ("*passag* *text ... not", f"passages text {FILL} xpassag y text not"),
    ],
)
def test_behind_a_gap_a_word_that_nothing_leads_to_hides_none_before_it(phrase: str, text: str) -> None:
    assert found(phrase, text) == [text]


@pytest.mark.parametrize(
    ("phrase", "text", "reads"),
    [
        ("ok", "xokx", ["ok"]),
        ("ok*", "okay", ["ok"]),
        ("没*", "没有", ["没"]),
        ("没有 ... 信息", "没有信息", ["没有信息"]),
    ],
)
def test_where_no_spaces_are_written_words_have_no_borders(phrase: str, text: str, reads: list[str]) -> None:
    assert found(phrase, text, spaces=False) == reads


def test_one_word_may_be_open_in_one_pattern_and_closed_in_another() -> None:
    for silent, abstains, kinds in (("idea*", "idea", {"silent"}), ("idea", "idea*", {"abstains"})):
        assert hits("ideas", silent=[silent], abstains=[abstains]) == {key: [(0, 5)] for key in kinds}
    for silent, abstains, kinds in (("*idea", "idea", {"silent"}), ("idea", "*idea", {"abstains"})):
        assert hits("noidea", silent=[silent], abstains=[abstains]) == {key: [(0, 6)] for key in kinds}


@pytest.mark.parametrize("phrases", [["say: *not", "say:* *not"], ["say:* *not", "say: *not"]])
def test_a_phrase_that_ends_with_a_mark_may_go_on_in_another_pattern(phrases: list[str]) -> None:
    assert hits("say:x not", abstains=phrases) == {"abstains": [(0, 9)]}
    assert hits("say: not", abstains=phrases) == {"abstains": [(0, 8)]}


def test_a_turn_that_is_the_end_of_a_word_is_that_end_alone() -> None:
    """The word before it may be the abstention ("없지만")."""
    found = hits("eopjiman", but=["*jiman"], abstains=["*jiman"])
    assert found == {"abstains": [(0, 8)], "but": [(3, 8)]}


def test_before_a_gap_the_nearest_place_counts() -> None:
    assert hits("not not say", bare=["not ... say"]) == {"bare": [(4, 11)]}


def test_one_abstention_is_enough_at_one_end_but_every_bare_phrase_counts() -> None:
    patterns = ["not ... say", "never ... say"]
    assert hits("never not say", abstains=patterns) == {"abstains": [(6, 13)]}
    assert sorted(hits("never not say", bare=patterns)["bare"]) == [(0, 13), (6, 13)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("well no", True),
        ("well  no", True),
        ("well, no", True),
        ("well hm no", False),
        ("well " + "x " * 30 + "no", False),
        ("x no", False),
    ],
)
def test_a_clause_starts_behind_a_mark_or_an_opener(text: str, read: bool) -> None:
    assert ("abstains" in hits(text, abstains=["^no"], openers=["well"])) is read


def test_an_opener_within_the_phrase_hides_none_before_it() -> None:
    assert hits("well hm no", abstains=["^hm no"], openers=["well", "hm"])["abstains"] == [(5, 10)]


def test_an_exception_spares_only_what_lies_within_it() -> None:
    table = {"abstains": ["i don't know"], "except": ["don't know", "know all"]}
    assert hits("i don't know all", **table)["abstains"] == [(0, 12)]
    assert "abstains" not in hits("i don't know", abstains=["don't know"], **{"except": ["i don't know"]})


def test_a_trace_names_a_phrase_for_the_start_of_a_clause_only_there() -> None:
    assert traced("juan no sé", abstains=["^no sé", "sé"]) == ["sé"]
    assert traced("no sé", abstains=["^no sé", "sé"]) == ["^no sé", "sé"]


def test_a_match_is_the_whole_word() -> None:
    lexicon = build_lexicon([{"language": "xx", "name": "X", "abstains": ["tell*", "*idea"]}])
    assert [(match.pattern, match.text) for match in matches("it telleth noidea", lexicon)] == [
        ("tell*", "telleth"),
        ("*idea", "noidea"),
    ]
