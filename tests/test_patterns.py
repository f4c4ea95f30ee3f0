"""What a phrase of a table is read as: elements, their joints, and the part of the table that each word comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from custom_metrics.abstention.patterns import GAP, JOINED, MOST, SPACE, Element, Pattern, Word, WordClasses, parse

PARTS: Mapping[str, Sequence[str]] = {
    "yes": ["yes"],
    "not": ["not", "never", "kein*"],
    "mixed": ["a", "b ... c", "d"],
    "far": ["b ... c"],
    "soft": ["(so)? (very)?"],
    "none": [],
}


def read(written: str, kind: str = "abstains") -> list[Pattern]:
    return parse(kind, written, PARTS, str.casefold, {})


def words(*literals: str, part: str = "") -> frozenset[Word]:
    """Closed words, which an item of a part says as they are."""
    return frozenset(Word(word, False, False, ((part, word),) if part else ()) for word in literals)


def rows(written: str) -> list[tuple[Element, ...]]:
    return [pattern.elements for pattern in read(written)]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("No idea", Word("no idea", False, False)),
        ("*no idea", Word("no idea", True, False)),
        ("no idea*", Word("no idea", False, True)),
        ("un-*", Word("un-", False, True)),
        ("X-ray*", Word("x-ray", False, True)),
        ("{yes} sir", Word("yes sir", False, False, (("yes", "yes"),))),
        ("oh {yes}", Word("oh yes", False, False, (("yes", "yes"),))),
        ("{yes}*", Word("yes", False, True, (("yes", "yes"),))),
    ],
)
def test_neighbours_of_one_word_each_are_one_word(written: str, word: Word) -> None:
    assert rows(written) == [(Element(JOINED, frozenset((word,))),)]


@pytest.mark.parametrize(
    ("written", "joint"), [("no *idea", SPACE), ("no* idea", SPACE), ("no ... idea", GAP), ("no*{yes}", JOINED)]
)
def test_an_open_end_or_a_gap_keeps_them_apart(written: str, joint: str) -> None:
    ((first, second),) = rows(written)
    assert (first.joint, second.joint) == (JOINED, joint)


def test_what_is_left_out_leaves_the_wider_joint() -> None:
    assert rows("a (b|c)? ... d") == [
        (Element(JOINED, words("a")), Element(SPACE, words("b", "c")), Element(GAP, words("d"))),
        (Element(JOINED, words("a")), Element(GAP, words("d"))),
    ]
    assert rows("a ... (b|c)? d") == [
        (Element(JOINED, words("a")), Element(GAP, words("b", "c")), Element(SPACE, words("d"))),
        (Element(JOINED, words("a")), Element(GAP, words("d"))),
    ]
    assert rows("(b|c)? d") == [
        (Element(JOINED, words("b", "c")), Element(SPACE, words("d"))),
        (Element(JOINED, words("d")),),
    ]


def test_alternatives_of_one_element_are_one_element() -> None:
    x = Element(SPACE, words("x"))
    (b, c), (ad,) = rows("{mixed}")
    assert {word.literal for word in ad.words} == {"a", "d"}
    assert (b.joint, c.joint) == (JOINED, GAP)
    assert rows("{mixed} x") == [(b, c._replace(words=words_of(c, "c x"))), (ad, x)]
    assert rows("{far}") == [(b._replace(words=sourced(b, "far")), c._replace(words=sourced(c, "far")))]


def words_of(element: Element, literal: str) -> frozenset[Word]:
    (word,) = element.words
    return frozenset((word._replace(literal=literal),))


def sourced(element: Element, part: str) -> frozenset[Word]:
    (word,) = element.words
    return frozenset((word._replace(sources=((part, "b ... c"),)),))


@pytest.mark.parametrize("written", ["", "^", "{none}", "x {none}"])
def test_an_empty_phrase_is_named(written: str) -> None:
    with pytest.raises(ValueError, match=r"the phrase '.*' of 'silent' is empty"):
        read(written, "silent")


def pattern(*sizes: int, joint: str = SPACE) -> Pattern:
    """A pattern whose elements have so many words."""
    elements = tuple(
        Element(joint if place else JOINED, words(*(f"w{place}n{number}" for number in range(size))))
        for place, size in enumerate(sizes)
    )
    return Pattern("abstains", "", elements, False)


@pytest.mark.parametrize(
    ("sizes", "places"),
    [((10, MOST // 10), 1), ((3, MOST // 3 + 1), 2), ((10, 10, 2), 1), ((10, 10, 3), 2), ((1, 1), 1)],
)
def test_small_neighbours_are_multiplied(sizes: tuple[int, ...], places: int) -> None:
    (row,) = WordClasses().rows(pattern(*sizes))
    assert len(row) == places
    (gapped,) = WordClasses().rows(pattern(*sizes, joint=GAP))
    assert len(gapped) == len(sizes)


def test_equal_classes_are_one_object() -> None:
    """So that patterns share the steps of the trie."""
    classes = WordClasses()
    for sizes in ((3, 2), (3, MOST)):
        (first,), (second,) = classes.rows(pattern(*sizes)), classes.rows(pattern(*sizes))
        assert [words for _, words in first] == [words for _, words in second]  # they compare by identity
