"""How texts are folded, and where their words begin and end."""

from __future__ import annotations

from string import ascii_letters, digits

import pytest

from custom_metrics.abstention.folding import fold, is_word
from custom_metrics.usage.printable import IGNORABLE


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("", ""),
        ("Straße ΣΑΣ", "strasse σασ"),
        ("İSTANBUL ılık", "istanbul ilik"),
        # width, ligatures and other forms of a character
        ("ＡＢＣ　１２", "abc 12"),
        ("ﬁne ①", "fine 1"),
        ("ｶﾞ", "ガ"),
        ("e\u0301te wait…", "éte wait..."),
        # apostrophes and quotation marks
        *((f"don{mark}t", "don't") for mark in "'’‘ʼ‛`´ʹ′＇"),
        *((f"say {mark}no{mark}", 'say "no"') for mark in '"“”„‟«»‹›「」『』《》〈〉〝〞＂'),
        # hyphens
        *((f"n{mark}a", "n-a") for mark in "-‐‑‒–—―\u05be"),
        # Arabic, Persian, Urdu and Sindhi: one letter for those that are written for each other
        *((f"ب{letter}ب", "باب") for letter in "اأإآٱ"),
        *((f"ب{letter}ب", "بیب") for letter in "یىيےېۓ"),
        ("ك", "ک"),
        *((f"ب{letter}", "به") for letter in "هةہھۀۂ"),
        # vowel marks and tatweel
        *((f"ب{chr(mark)}ب", "بب") for mark in (*range(0x64B, 0x656), 0x640, 0x670)),
        *((f"ב{chr(mark)}ב", "בב") for mark in range(0x5B0, 0x5BE)),
        ("שָׁלוֹם", "שלום"),  # nobody writes the dot of shin without vowels
        # what cannot be seen
        *((f"un{mark}known", "unknown") for mark in "\u200b\u200d\u200f\u2060\ufeff\u00ad\u2069\u202a\u3164\U000e0020"),
        # JSON's escapes
        ("\\u6211\\u4e0d", "我不"),
        ("I don\\u2019t \\ud83d\\ude42 \\ud83d \\u12", "i don't 🙂 \ufffd \\u12"),
        # Romanian with cedillas
        ("Ştiu ţara", "știu țara"),
        # Markdown
        ("**Not** _known_ #1", " not known 1"),
        # white space: blanks are one, a line break stays
        ("a  b   c", "a b c"),
        ("a\tb\r\n c\x00d\x1fe\x7ff", "a b \n c d e f"),
        ("a\u00a0\u2003b", "a b"),
        ("a\n\n b", "a\n\n b"),
        *((f"a{mark}b", "a\nb") for mark in "\n\x85\u2028\u2029"),
        # what stays
        ("no; (n.a.), 3.5 % é ñ ọ ж 我 ก?", "no; (n.a.), 3.5 % é ñ ọ ж 我 ก?"),
    ],
)
def test_a_text_is_folded(text: str, folded: str) -> None:
    assert fold(text) == folded
    assert fold(folded) == folded  # once and for all


@pytest.mark.parametrize(
    ("text", "folded"),
    [("Kò sí Ọ̀rọ̀", "ko si oro"), ("ṣ ñ ā", "s n a"), ("No", "no"), ("don´t", "don't")],
)
def test_marks_are_dropped_where_a_language_drops_them(text: str, folded: str) -> None:
    assert fold(text, marks=True) == folded


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        (ascii_letters + digits + "éßøſıжא我かกक한٣²½", True),
        ("\u0301\u0323\u05b0\u064b\u093f\u0e31\u20dd", True),  # marks: on a letter, beside it, around it
        (" \n\t.,:;!?'\"-_()[]*#&@$%+=<>|/\\~^`“”،؟。।€°¬😀\x00", False),
    ],
)
def test_a_word_is_of_letters_digits_and_their_marks(characters: str, expected: bool) -> None:
    assert {character: is_word(character) for character in characters} == dict.fromkeys(characters, expected)


def test_ignorable_characters_are_those_of_unicode() -> None:
    regex = pytest.importorskip("regex", reason="the library that knows the property; NLTK brings it")
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    assert IGNORABLE.findall(every) == regex.findall(r"\p{Default_Ignorable_Code_Point}", every)
    assert not regex.search(r"\p{Bidi_Control}", IGNORABLE.sub("", every))
