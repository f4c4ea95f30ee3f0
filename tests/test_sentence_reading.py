"""One sentence: what it holds, whether it abstains, and why. All with two small tables of phrases."""

from __future__ import annotations

from functools import lru_cache

import pytest

from custom_metrics.abstention.phrases import Lexicon, build_lexicon
from custom_metrics.abstention.sentence_reading import (
    ALONE,
    BARE,
    CONCEDED,
    NOTHING,
    SILENT,
    TURNED,
    Sentence,
    SentenceLabel,
    is_bare,
)

TABLE = {
    "language": "xx",
    "name": "X",
    "material": ["text", "per source", "though scripture"],
    "silent": ["silent", "mute ... here"],
    "lacks": ["lacks"],
    "abstains": ["no idea", "nothing was said", "while clueless", "none yet", "nay", "없*"],
    "bare": ["unknown", "n/a"],
    "openers": ["sorry", "well", "alas", "hmm", "the answer is"],
    "citing": ["according to", "according to (the|those)", "per"],
    "but": ["but", "yet", "nay", "*yet", "*지만"],
    "although": ["although", "though", "while"],
    "reported": ["said"],
    "offer": ["please"],
    "present": ["answer is present"],
    "no": ["no"],
}
WITHOUT_SPACES = {
    "language": "yy",
    "name": "Y",
    "spaces": False,
    "material": ["文章"],
    "abstains": ["不知道", "不明但"],
    "bare": ["未知"],
    "openers": ["答案是", "是"],
    "citing": ["根据"],
    "but": ["但"],
    "reported": ["说"],
}


@lru_cache
def lexicon() -> Lexicon:
    return build_lexicon([TABLE, WITHOUT_SPACES])


def sentence(text: str, asks: bool = False) -> Sentence:
    return Sentence(text, asks, lexicon())


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("unknown", True),
        ("(unknown).", True),
        ("well, unknown", True),
        ("the answer is: n/a", True),
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
    assert is_bare(text, lexicon().search(text)) is bare


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
