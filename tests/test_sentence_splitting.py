"""How an answer is cut into sentences, and what of it is not its own statement."""

from __future__ import annotations

from functools import lru_cache

import pytest

from custom_metrics.abstention.phrases import Lexicon, build_lexicon
from custom_metrics.abstention.sentence_reading import MASK, split, stated_text

M = MASK
# openers of which, with a blank, 60 and 61 characters stand before a quotation
AS_LONG, TOO_LONG = "v" * 59, "w" * 60


@lru_cache
def lexicon() -> Lexicon:
    markers, openers = ["answer", "final answer", "答え"], ["the answer is", AS_LONG, TOO_LONG]
    table = {"language": "xx", "name": "X", "answer_marker": markers, "openers": openers, "bare": ["unknown"]}
    return build_lexicon([table])


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (".", []),
        ("paris", ["paris"]),
        ("paris.", ["paris"]),
        ("paris. rome", ["paris", " rome"]),
        (". paris", [" paris"]),
        # a sentence of one character says nothing
        ("a", []),
        ("no", ["no"]),
        ("one\na\nno\nb", ["one", "no"]),
        # marks in a row are one end
        ("paris... rome?!", ["paris", " rome"]),
        # every mark but ".", "!" and "?" ends a sentence, whatever stands behind
        *((f"paris{mark}rome", ["paris", "rome"]) for mark in "。؟۔।॥\n;؛｡…"),
        ("paris.\nrome", ["paris", "rome"]),
        # ".", "!" and "?" do only before a blank, a closing mark, or the end
        *((f"paris{mark}rome", [f"paris{mark}rome"]) for mark in (".", "!", "?", "...", "?!")),
        *(
            (f"paris{mark}{closing} rome", ["paris", f"{closing} rome"])
            for mark in (".", "!", "...")
            for closing in "\"')]"
        ),
        ("version 3.5 of it", ["version 3.5 of it"]),
        # "!", "?" and "..." also before kana and Han characters, which need no blank
        ("何か!わたし", ["何か", "わたし"]),
        ("何か?\u3040年", ["何か", "\u3040年"]),  # the first place of kana
        ("何か?\u303f年", ["何か?\u303f年"]),
        ("何か!\u9fff年", ["何か", "\u9fff年"]),  # the last place of Han
        ("何か!\ua000年", ["何か!\ua000年"]),
        ("何か...年号", ["何か", "年号"]),
        ("何か.年号", ["何か.年号"]),
    ],
)
def test_a_sentence_ends_at_a_mark(text: str, sentences: list[str]) -> None:
    assert [sentence for sentence, _ in split(text)] == sentences


def test_a_question_ends_with_its_mark() -> None:
    asked = {text: [asks for _, asks in split(text)] for text in ("is it؟", "is it?!", "is it? it is.", "why?not that")}
    assert [*asked.values()] == [[True], [True], [True, False], [False]]


@pytest.mark.parametrize("before", ["", "a ", "to ", "born in "])
def test_no_sentence_ends_behind_an_initial_or_a_short_number(before: str) -> None:
    for word in ("j", "7", "é", "15", "99", "v", "i", "x", "vi", "xx", "ivx", "xiv", "iii"):
        assert [*split(f"{before}{word}. rome")] == [(f"{before}{word}. rome", False)]
        assert [*split(f"rome {before}{word}.")] == [(f"rome {before}{word}", False)]  # the end of the text does
    for word in ("ab", "de", "vc", "cv", "1a", "115", "1999", "12345", "viii", "xxiv", "ixc", "paris", "a-b"):
        assert [*split(f"{before}{word}. rome")] == [(before + word, False), (" rome", False)]


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("paris", "paris"),
        ("  paris \n", "paris"),
        ("answer: paris", "paris"),
        ("i look. my answer: paris", "paris"),
        ("i look.\nfinal answer: paris", "paris"),
        ("(answer: paris)", "paris)"),
        ("note: paris", "note: paris"),
        # the last one counts
        ("answer: rome answer: paris", "paris"),
        # where something stands behind it
        ("is it paris? answer:", "is it paris? answer:"),
        ("is it paris? answer: ...", "is it paris? answer: ..."),
        ("is it paris? answer: 7", "7"),
        # a word begins with it
        ("no reanswer: paris", "no reanswer: paris"),
        ("is it: answer: paris", "paris"),
        ("私の答え: パリ", "パリ"),
        ("x答え: パリ", "x答え: パリ"),
        # a text that stands in quotation marks loses them
        ('"unknown"', " unknown "),
        ("'unknown'", " unknown "),
        ('"unknown".', " unknown ."),
        ('answer: "unknown"', " unknown "),
        ('"it is unknown. sorry."', " it is unknown. sorry. "),
        ('"it\'s unknown"', " it's unknown "),
        # not as a whole
        ("\"unknown'", "\"unknown'"),
        ('"rome" is not "paris"', f"{M} is not {M}"),
        # a quotation has a length
        # an opener counts in the 60 characters before the quotation
        (f'{AS_LONG} "no idea"', f"{AS_LONG}  no idea "),
        (f'{TOO_LONG} "no idea"', f"{TOO_LONG} {M}"),
        # 200 characters between double marks, 120 between single ones, and no line break
        (f'he wrote "{"x" * 200}"', f"he wrote {M}"),
        (f'he wrote "{"x" * 201}"', f'he wrote "{"x" * 201}"'),
        (f"he wrote '{'x' * 120}'", f"he wrote {M}"),
        (f"he wrote '{'x' * 121}'", f"he wrote '{'x' * 121}'"),
        ('he wrote "two\nlines"', 'he wrote "two\nlines"'),
        ("he wrote 'two\nlines'", "he wrote 'two\nlines'"),
        ('he wrote ""', f"he wrote {M}"),
        ("he wrote ''", "he wrote ''"),
        # an apostrophe is no quotation mark
        ("he doesn't and can't say", "he doesn't and can't say"),
        ("he can't, she wrote 'no idea' then", f"he can't, she wrote {M} then"),
    ],
)
def test_what_a_text_states(text: str, states: str) -> None:
    assert stated_text(text, lexicon()) == states


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize(
    ("text", "states"),
    [
        # somebody's words
        ("he wrote Qi don't knowQ", f"he wrote {M}"),
        ("QunknownQ is a film", f"{M} is a film"),
        ("see Qone twoQ, Qno ideaQ here", f"see {M}, {M} here"),
        ("he said: the answer is wrong, Qi don't knowQ", f"he said: the answer is wrong, {M}"),
        # the speaker's own verdict: behind an opener or at the start of a sentence, and the sentence ends with it
        ("the answer is Qno ideaQ", "the answer is  no idea "),
        ("the answer is Qno ideaQ.", "the answer is  no idea ."),
        ("the answer is Qno ideaQ. paris", "the answer is  no idea . paris"),
        ("the answer is Qno ideaQ\nparis", "the answer is  no idea \nparis"),
        ("the answer is Qno ideaQ。これ", "the answer is  no idea 。これ"),
        ("the answer is Qno ideaQ of it", f"the answer is {M} of it"),
        ("the answer is Qno ideaQ, paris", f"the answer is {M}, paris"),
        ("so the answer is: Qno ideaQ", "so the answer is:  no idea "),
        # or all that an answer is said to be
        ("the answer to all this: QunknownQ", "the answer to all this: \nunknown "),
        ("the film about all this: Qno ideaQ", f"the film about all this: {M}"),
        ("i look! the answer is Qno ideaQ.", "i look! the answer is  no idea ."),
        ("i look QunknownQ", f"i look {M}"),
        ("the answer is not QunknownQ", f"the answer is not {M}"),
        # in the three characters behind it no other word begins
        ("the answer is Qno ideaQ!", "the answer is  no idea !"),
        ("the answer is Qno ideaQ !) then", "the answer is  no idea  !) then"),
        ("the answer is Qno ideaQ )then", f"the answer is {M} )then"),
    ],
)
def test_a_quotation_is_masked_unless_it_is_the_verdict(quote: str, text: str, states: str) -> None:
    assert stated_text(text.replace("Q", quote), lexicon()) == states
