"""Where a text stops being noise, a loop, code or another script: the number just before and the one just after."""

from __future__ import annotations

import pytest

from custom_metrics.reading.no_answer import behind_prompt, no_answer
from custom_metrics.reading.noise import is_noise, script_of, scripts

RUSSIAN = "Берлин является столицей Германии и самым большим городом страны."
QUESTION = "Was ist die Hauptstadt?"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("well no no no no", None),  # five words are too few to say that most of them go round
        ("so well no no no no no no", "loop"),
        ("so well then no no no no no", None),
        ("Berlin Berlin Berlin", None),
        ("Berlin Berlin Berlin Berlin", "loop"),
        ("12 12 12 12", None),  # numbers need twice as many copies
        ("12 12 12 12 12 12 12 12", "loop"),
        ("aaaaa", None),
        ("aaaaaa", "loop"),
        ("ababab", None),
        ("abababab", "loop"),
        ("11111111111", None),
        ("111111111111", "loop"),
        ("1234123412341", None),  # three copies and a digit
        ("1234123412341234", "loop"),
        ("." * 900 + "Berlin", None),  # nothing but marks in the 800 characters
        ("12" * 400 + "7", "loop"),  # 800 characters are read
        ("12" * 399 + "7" * 3, None),
        ("print(1)\n", "code"),
        ("print(1)```Das ist ein ganzer Satz.", None),
        ("print(1)```Ein Satz.", "code"),  # two words are no sentence
        ("print(1)\nDas ist {kein} Satz.", "code"),
        ("print(1)\n1. Das ist kein Satz.", "code"),
        ("print(1)\nDas ist ein Satz.```", None),
        ("print(1)\nDas ist ein Satz.  ", None),
        ("print(1)\nDas ist Plan X", "code"),
        ("print(1)\nI know it.", None),  # its first word has one letter
        ("\n \tdef f(x):", "code"),
        ("<b>&nbsp;</b>", "markup"),
        ("&nbsp;&nbsp;", "markup"),
        ("<b>x</b>", None),
        ("\\begin{a}\\end{a}", "markup"),
        ("<|im_end|>", "debris"),
        ("<0x0A>Ġ", "debris"),
        ("", "empty"),
        (" .,! ", "empty"),
    ],
)
def test_a_text_that_is_no_answer(text: str, kind: str | None) -> None:
    assert no_answer(text) == kind


def test_a_loop_behind_a_first_sentence_is_an_answer() -> None:
    assert no_answer("Berlin ist es. " + "ja ja " * 9) is None
    assert no_answer("ja. " + "ja ja " * 9) == "loop"  # the sentence is of the loop


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("столица " * 3 + "ab cd", "script"),
        ("Берлин город также ab cdefg hijkl mnop", None),  # 16 letters of 32 are not more than half
        ("Берлин город также ab cdefg hijkl mno", "script"),
        ("Берлин город также", None),  # three words, thirty letters: it may be a name
        ("Берлин город также да", "script"),
        ("а" * 10 + "б" * 20, None),
        ("국립중앙박물관역사전시실", None),  # twelve syllables
        ("국립중앙박물관역사전시실들", "script"),
        ("ℂ ℝ ℕ ℚ ℤ", None),  # symbols
        ("۱۲۳۴ ۵۶ ۷۸ ۹۰", None),  # digits are of no script
        ("абвгдежзиклмнопрстуфхцчшщэюя" + "абв", "script"),
    ],
)
def test_another_script_than_that_of_question_and_passages(text: str, kind: str | None) -> None:
    assert no_answer(text, QUESTION, ["Berlin ist die Hauptstadt."]) == kind
    assert no_answer(text, QUESTION, [f"{RUSSIAN} {text.upper()}"]) in (None, "loop")
    assert no_answer(text) != "script"


def test_latin_is_foreign_to_no_question() -> None:
    text = "The capital of Germany is the city of Berlin (柏林)."
    assert no_answer(text, "德国的首都是什么？", ["柏林：柏林是德国的首都。"]) is None


@pytest.mark.parametrize("question", [None, "Wer?"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<i>Angela</i> <b>Merkel</b>", None),
        ("Berlin&nbsp;liegt&nbsp;an&nbsp;der&nbsp;Spree", None),  # entities without a tag
        ("<i>qzxkvbj</i> wpfgh &amp; trmdkjxq", "noise"),
    ],
)
def test_tags_and_entities_are_no_noise(text: str, kind: str | None, question: str | None) -> None:
    assert no_answer(text, question) == kind


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Was ist die Hauptstadt? Berlin", "Berlin"),
        ("was ist die hauptstadt Berlin", "Berlin"),
        ("Was ist die Hauptstadtregion", "Was ist die Hauptstadtregion"),
        ("Was ist die Hauptstadt2 ist Berlin", "Was ist die Hauptstadt2 ist Berlin"),
        ("Was ist die Hauptstadt?", ""),
        (" Berlin", " Berlin"),  # the text itself
        ("QUESTION: Was ist die Hauptstadt?\nOUTPUT: Berlin", "Berlin"),
        ("CONTEXTS: [1] Berlin: eine Stadt", ""),
        ("CONTEXTS: [1] Berlin: eine Stadt OUTPUT: Berlin", "Berlin"),
        ("Was ist die Hauptstadt? CONTEXTS: [1] Eine Stadt", ""),  # also without the title
        ("OUTPUT: QUESTION: Wer ist das?", ""),  # it stands before the question
        ("[3] Berlin: eine Stadt", ""),  # two were given
        ("[2] Berlin: eine Stadt", "[2] Berlin: eine Stadt"),
        ("Berlin", "Berlin"),
        ("Yes, answer is present", "Yes, answer is present"),
    ],
)
def test_what_stands_behind_a_copied_prompt(text: str, left: str) -> None:
    assert behind_prompt(text, QUESTION, ["Berlin: eine Stadt", "Paris: eine Stadt"]) == left


# --------------------------------------------------------------------------------------------------------------- noise


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("xqzjkvw", False),  # six neighbours are too few
        ("xqzjkvwqx", True),
        ("The capital is Berlin.", False),
        ("\ufffd\ufffd\ufffdab", False),  # three of five are not more than six of ten
        ("\ufffd\ufffd\ufffd\ufffdab", True),
        ("\u200b\u200c\u200d\ufeff\u00ad", False),  # joiners are text
        ("\x01\x02\ue000\U000e0fffa", True),
        ("a\n\t b\n\t", False),
        ("аб bc", False),  # two scripts, each in words of its own
        ("абbc def", False),  # one touch; without a question it could be a name
        ("абbc деfg", True),
        ("абbc كل", True),  # one touch, three scripts
        ("αbc βde γ", False),  # Greek letters that stand alone are symbols
        ("NHKの番組でWindowsを", False),  # no spaces there
        ("ab\ufffdc d\ufffd", True),
        ("ab\ufffd", False),
        ("東\ufffd京\ufffd都", False),  # a byte of a Chinese character is lost: the rest is read
        ("ab (аб, γδ)", False),
        ("ab аб γδε cd דא كل ef", True),
        ("ab аб cd γδε ef gh ij", False),  # one word outside the two commonest scripts
    ],
)
def test_characters_that_make_no_words(text: str, noise: bool) -> None:
    assert is_noise(text) == noise


def test_letters_of_an_alphabet_are_held_against_the_passages() -> None:
    """Runs of three letters: of twelve or more, a quarter must stand in question or passages."""
    other = "жщф щцъ ъэю чщж хцщ фъы ыщц эщж юъф ьщц"  # ten runs, none of them there
    question = "Что такое Берлин?"
    assert not is_noise(f"{other} яъщ", question, [RUSSIAN])
    assert is_noise(f"{other} яъщ щщж", question, [RUSSIAN])
    assert is_noise(f"{other} бер лин", question, [RUSSIAN])  # two of twelve
    assert not is_noise(f"{other[:35]} бер лин сто", question, [RUSSIAN])  # three of twelve
    assert not is_noise(f"{other} яъщ щщж", question, [])
    assert not is_noise(f"{other} яъщ щщж", None, [RUSSIAN])
    assert not is_noise(f"{other} яъщ щщж", "Was ist Berlin?", ["Berlin is a city."])


@pytest.mark.parametrize(
    ("char", "script"),
    [
        *(
            ("a", "LATIN"),
            ("ａ", "LATIN"),
            ("б", "CYRILLIC"),
            ("か", "KATAKANA"),
            ("カ", "KATAKANA"),
            ("ｶ", "KATAKANA"),
        ),
        *(("猫", "CJK"), ("〆", "CJK"), ("한", "HANGUL"), ("1", ""), (" ", ""), ("\u0301", "")),
    ],
)
def test_the_script_of_a_letter(char: str, script: str) -> None:
    assert script_of(char) == script
    assert scripts(char * 2 + "1 ") == ({script: 2} if script else {})
