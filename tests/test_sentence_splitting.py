"""How an answer is cut into sentences, what of it is not its own statement, and whether a sentence abstains."""

from __future__ import annotations

from functools import lru_cache

import pytest

from custom_metrics.abstention.phrases import Lexicon, build_lexicon
from custom_metrics.abstention.sentence_reading import (
    ALONE,
    BARE,
    CONCEDED,
    MASK,
    NOTHING,
    SILENT,
    TURNED,
    Sentence,
    SentenceLabel,
    is_bare,
    split,
    stated_text,
)

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
        *((text, "paris") for text in ("paris", "  paris \n", "answer: paris", "i look. my answer: paris")),
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


TABLE = {
    **{"language": "xx", "name": "X", "material": ["text", "per source", "though scripture"]},
    **{"silent": ["silent", "mute ... here"], "lacks": ["lacks"]},
    "abstains": ["no idea", "nothing was said", "while clueless", "none yet", "nay", "없*"],
    **{"bare": ["unknown", "n/a"], "openers": ["sorry", "well", "alas", "hmm", "the answer is"]},
    **{"citing": ["according to", "according to (the|those)", "per"], "but": ["but", "yet", "nay", "*yet", "*지만"]},
    **{"although": ["although", "though", "while"], "reported": ["said"], "offer": ["please"]},
    **{"present": ["answer is present"], "no": ["no"]},
}
WITHOUT_SPACES = {
    **{"language": "yy", "name": "Y", "spaces": False, "material": ["文章"], "abstains": ["不知道", "不明但"]},
    **{"bare": ["未知"], "openers": ["答案是", "是"], "citing": ["根据"], "but": ["但"], "reported": ["说"]},
}


@lru_cache
def small() -> Lexicon:
    return build_lexicon([TABLE, WITHOUT_SPACES])


def sentence(text: str, asks: bool = False) -> Sentence:
    return Sentence(text, asks, small())


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        *((text, True) for text in ("unknown", "(unknown).", "well, unknown", "the answer is: n/a")),
        ("sorry, well, alas, unknown", True),
        ("hmm, sorry, well, alas, unknown", False),  # three openers at most
        ("paris", False),
        ("well", False),
        ("a man, well, unknown", False),  # the opener does not open
        ("unknown, well, unknown to him", False),
        ("unknown and unknown", False),
        ("答案是未知", True),  # nothing stands between words in this script
        ("是n/a", True),  # it begins with such a script
    ],
)
def test_a_bare_phrase_is_all_there_is_but_for_openers(text: str, bare: bool) -> None:
    assert is_bare(text, small().search(text)) is bare


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("unknown", BARE),
        ("the author is unknown", NOTHING),
        ("no idea", ALONE),
        ("it was paris", NOTHING),
        ("the text is silent", SILENT),
        ("monks are silent", NOTHING),
        ("the text lacks it", SILENT),
        ("according to the text, coffee lacks sugar", NOTHING),  # the material is its source
        ("according to the text, coffee is silent", SILENT),
        # what somebody is reported to say does not abstain
        ("he said no idea", NOTHING),
        ("no idea, he said", ALONE),
        ("nothing was said", ALONE),  # the verb is part of the phrase
        ("他说不知道", NOTHING),
        ("he said, no idea", NOTHING),  # the comma opens what he said
        ("he said a, no idea", ALONE),
        ("he said nothing at all, no idea", ALONE),  # another clause
        ("he said hello, then he said no idea", NOTHING),
        ("he said the text is silent", SILENT),
        # a turn with an answer behind it answers
        ("no idea, but it was paris", TURNED),
        ("no idea but", ALONE),
        ("no idea, but 7", ALONE),  # one character is no answer
        ("but no idea", ALONE),
        ("no idea, but please ask again", ALONE),
        ("no idea, but the text is long", ALONE),
        ("no idea, but please, yet it was paris", TURNED),  # the second turn
        ("the text is mute but only here on paris", SILENT),  # inside the phrase that abstains
        ("不知道但巴黎", TURNED),  # right behind it
        # a turn may be the end of the word that abstains
        ("없지만 파리다", TURNED),  # "I have none" and "but" in one word
        ("없어요 파리다", ALONE),
        ("none yet in paris", ALONE),  # two words
        ("nay paris", ALONE),  # the whole phrase, not its end
        ("不明但巴黎", ALONE),  # in a script without spaces a phrase's end is no suffix
        # a source behind a turn is no word about the material
        ("no idea, but text 5 names paris", TURNED),
        ("no idea, but text five names paris", ALONE),
        ("no idea, but text 5 names paris and the text does not", ALONE),
        ("no idea, but please 5 times", ALONE),  # a number makes no source of a request
        ("no idea, but according to the text it was paris", TURNED),
        ("no idea, but per source it was paris", TURNED),  # one phrase cites and names the material
        ("不知道但根据文章 it was paris", TURNED),
        ("no idea, but paris according to the text, it seems", ALONE),  # not in front
        ("according to the man no idea, but the text is about paris", ALONE),
        ("no idea, but according to the text it is in the text", ALONE),
        # a concession beside an answer answers
        ("paris, although the text is silent", CONCEDED),
        ("7 although no idea", ALONE),  # one character is no answer
        ("although no idea", ALONE),
        ("text of paris, although silent", SILENT),
        ("paris though scripture is silent", CONCEDED),  # the material stands behind the answer
        ("although the text is silent, it was paris", CONCEDED),
        ("although the text is silent, 7", SILENT),
        ("although the text is mute, alas, here", SILENT),  # the comma stands inside the phrase
        ("although it rained, no idea", ALONE),  # over before
        ("no idea, although it was paris", ALONE),
        ("the text is silent although it lacks pictures, it was paris", SILENT),
        ("while clueless, it was paris", ALONE),  # part of the phrase
        ("although rome although the text is silent", SILENT),  # the first one counts
    ],
)
def test_whether_a_sentence_abstains_and_why(text: str, why: SentenceLabel) -> None:
    assert sentence(text).classify(False) == why
