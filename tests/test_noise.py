"""What makes a text noise, one number at a time: neighbours, their mean, words of the question, marks, scripts."""

from __future__ import annotations

import pytest

from custom_metrics.reading.noise import is_noise

RUSSIAN = "Берлин является столицей Германии и самым большим городом страны."
SINGLE = "a b c d e f g h i j k l m"  # letters without a neighbour
OTHER = "жщф щцъ ъэю чщж хцщ фъы ыщц эщж юъф ьщц"  # ten runs of three letters, none of them in RUSSIAN


@pytest.mark.parametrize(
    ("text", "alone", "asked"),
    [
        # 8 neighbours: their sum must be 4 * 8 = 32, or 4.3 * 8 = 34.4 beside a question that holds none of it
        ("pebwiyxjl", True, True),  # 31
        ("qzrhwmpsa", False, True),  # 32
        ("ikhdgzcff", False, True),  # 34
        ("bamkxvikp", False, False),  # 35
        # 12: 4.5 * 12 = 54, or 57.6
        ("lxihulzwwsfrp", True, True),  # 48
        ("scwlltplhmagv", True, True),  # 53
        ("zduyguhunmdqs", False, True),  # 54
        # 24: never more than 5.9 * 24 = 141.6, or 148.8
        ("iukngxothoapmgerrwszjanip", True, True),  # 141
        ("hvfrzryocbiiszslabicrpekw", False, True),  # 142
    ],
)
def test_the_mean_of_the_neighbours_decides(text: str, alone: bool, asked: bool) -> None:
    assert is_noise(text) is alone
    assert is_noise(text, "Wo?") is asked


@pytest.mark.parametrize("text", ["qzxkvbjqzxkvbj", f"trhqsmx {SINGLE} # $ + * ="])
def test_a_text_with_a_word_of_question_or_passages_is_no_noise(text: str) -> None:
    word = text.split()[0]
    assert is_noise(text, "Wer?", ["Niemand."])
    assert not is_noise(text, f"Was ist {word.upper()}?")
    assert not is_noise(text, "Was?", ["Nichts.", f"Es ist {word}."])
    assert is_noise(text, f"Was ist {word[:4]}", [word[4:]])


def test_a_text_with_a_few_latin_letters_is_held_against_the_passages_too() -> None:
    assert is_noise(f"{OTHER} яъщ щщж ab", "Что такое Берлин?", [RUSSIAN])
    assert not is_noise(f"{OTHER} яъщ щщж ab", "Что такое Берлин?", [])
    assert not is_noise(f"{OTHER} яъщ щщж ab")


@pytest.mark.parametrize("text", ["…", "१२३ — ४५६", "12 · 34"])
def test_a_text_without_a_letter_makes_no_words_and_is_no_noise(text: str) -> None:
    assert not is_noise(text)
    assert not is_noise(text, "Wo?", [RUSSIAN])


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
        # neighbours must be many
        ("xqzjkvwqx 德国的首都是", True),  # 8 neighbours are more than half of 15 characters
        ("xqzjkvwqx 德国的首都是柏", False),  # and not of 16
        ("xqzjkvwqxzj 7", False),  # with a digit, 10 neighbours are too few
        ("xqzjkvwqxzjk 7", False),  # 11
        ("xqzjkvwqxzjkv 7", True),  # 12
        ("xqzjkvwqxzj_kx", True),  # with a symbol, 13
        ("xqzjkvwq_xz", False),
        # what counts as a word
        ("xqzj kvwq xzqj", True),  # short words count when they are small
        ("XQZJKVWQX", True),  # a long one also in capitals
        ("XQZJK XQZJK XQZJK", False),  # up to five capitals are an abbreviation
        ("XQZJKV XQZJKV XQZJKV", True),
        ("NATO xqzjkvwqx", True),  # what follows an abbreviation is read
        ("NATO", False),
        ("XXXVIII XXXVIII XXXVIII", False),  # a Roman number
        ("ZnCl2 ZnSO4 ZnBr2 ZnCl2", False),  # formulas, also of the last element
        ("H2SO4 xqzjkvwqxzjkv", True),  # what follows a formula is read
        ("#is# #it# #is# #it# #is# #it# #is# #it#", False),  # marks at the ends of a word do not count
        ("(XQZJK) (XQZJK) (XQZJK)", False),
        # a text full of marks
        # five kinds of marks, "#" and "$" in no formula, and 20 letters: a fifth
        (f"trhqsmx {SINGLE} # $ + * =", True),  # 6 neighbours with a sum of 17
        (f"trhqsmx {SINGLE} n # $ + * =", False),  # less than a fifth
        (f"udcvvla {SINGLE} # $ + * =", False),  # their mean is 3
        (f"trhqsm {SINGLE} n # $ + * =", False),  # 5 neighbours
        (f"trhqsmx {SINGLE} # + + * =", False),  # four kinds
        (f"trhqsmx {SINGLE} # + - * =", False),  # five, one of them in no formula
        (f"trhqsmx {SINGLE} # $ + * = \\alpha", False),  # LaTeX
        ("xqz#kvw$jq", False),  # two kinds; 9 neighbours are too few beside a symbol
    ],
)
def test_a_text_makes_words_or_is_noise(text: str, noise: bool) -> None:
    assert is_noise(text) is noise
