"""How texts are folded, what sentences make of an answer, in which language, and why; on small tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from string import ascii_letters, digits
from typing import Any

import pytest

from custom_metrics import abstention
from custom_metrics.abstention import HEAD, TAIL, affirms_presence, decide, denies_presence, is_abstention, phrases
from custom_metrics.abstention.folding import fold, is_word
from custom_metrics.abstention.phrases import Lexicon, build_lexicon, likely_languages
from custom_metrics.usage.printable import IGNORABLE
from lm_eval_tasks.commands.abstention import Match, decisions_on, matches

TABLE = {
    **{"language": "en", "name": "English", "material": ["passage", "text"], "silent": ["not say", "not there"]},
    "abstains": ["i don't know", "i have no idea"],
    **{"bare": ["none", "unknown", "i have no idea", "not here. not there", "x"], "openers": ["sorry"]},
    **{"citing": ["according to"], "but": ["but", "however"], "reported": ["said"], "offer": ["please"]},
    **{"present": ["answer is present"], "answer_marker": ["answer"], "yes": ["y", "yes"], "no": ["no", "no way"]},
}


def small() -> Lexicon:
    return build_lexicon([TABLE])


BARE = "it is a bare phrase of abstention"
ALONE = "it abstains by itself"
SILENT = "it finds the material silent"
NOTHING = "it holds no phrase that abstains here"
ANSWERS = f"{NOTHING}; it answers"
CITES = f"{NOTHING}; it answers and names the material as its source"
SKIPPED = f"{NOTHING}; it asks, or is empty"
TOO_LATE = f"{SILENT}, but behind an answer that does not count"

ABSTENTION = "a sentence abstains"
NO_SENTENCE = "no sentence abstains"
TAKEN_BACK = "an answer follows the abstention and takes it back"
AS_A_WHOLE = "the text as a whole is a bare phrase"
THREE_OTHERS = "it finds the material silent, but states 3 other things"

CITING = "According to the passage, it was in Paris."

READ = [
    # one sentence
    ("He said I don't know.", [ANSWERS], NO_SENTENCE),
    ("Was it Paris?", [SKIPPED], NO_SENTENCE),
    ("Please ask again.", [NOTHING], NO_SENTENCE),
    ("The text does not say. Answer: Paris", [ANSWERS], NO_SENTENCE),
    # an answer, then an abstention: it counts where it stands alone, or where "but" turns the one answer round
    ("It was Paris. I don't know it.", [ANSWERS, ALONE], ABSTENTION),
    ("It was Paris. The text does not say.", [ANSWERS, TOO_LATE], NO_SENTENCE),
    ("It was Paris. But the text does not say.", [ANSWERS, SILENT], ABSTENTION),
    ("It was Paris. Oh, but the text does not say.", [ANSWERS, SILENT], ABSTENTION),  # four characters before it
    ("It was Paris. Yet, but the text does not say.", [ANSWERS, TOO_LATE], NO_SENTENCE),  # five
    ("It was Paris. It was big. But the text does not say.", [ANSWERS, ANSWERS, TOO_LATE], NO_SENTENCE),
    # an abstention, then an answer: it takes back a mere bare phrase, or turns round
    ("None. It was Paris.", [BARE, ANSWERS], TAKEN_BACK),
    ("I have no idea. It was Paris.", [BARE, ANSWERS], ABSTENTION),  # bare, and abstains by itself
    ("None. The text does not say. It was Paris.", [BARE, SILENT, ANSWERS], ABSTENTION),
    ("I don't know it. However, it was Paris.", [ALONE, ANSWERS], TAKEN_BACK),
    ("I don't know it. " + "a" * 29 + " however Paris", [ALONE, ANSWERS], TAKEN_BACK),  # thirty characters before it
    ("I don't know it. " + "a" * 30 + " however Paris", [ALONE, ANSWERS], ABSTENTION),
    ("\"It was Paris\" 'and Rome'! None.", [SKIPPED, BARE], ABSTENTION),  # quotations alone
    (f"None. {CITING}", [BARE, CITES], ABSTENTION),
    # a sentence about the material tells what the next ones speak of; one that names it as a source does not
    ("The text is about Rome. It does not say.", [NOTHING, SILENT], ABSTENTION),
    (f"{CITING} It does not say.", [CITES, ANSWERS], NO_SENTENCE),
    # three statements beside the silence are an essay, but not beside what stands alone
    ("The text does not say. It was Paris. It was big.", [SILENT, ANSWERS, ANSWERS], ABSTENTION),
    ("The text does not say. It was Paris. It was big. It was old.", [SILENT, *[ANSWERS] * 3], THREE_OTHERS),
    (f"The text does not say. {CITING} It was old. It was big.", [SILENT, CITES, ANSWERS, ANSWERS], THREE_OTHERS),
    ("I don't know it. It was Paris. It was big. It was old.", [ALONE, *[ANSWERS] * 3], ABSTENTION),
    # several sentences, or none, that are one bare phrase
    ("Not here. Not there.", [ANSWERS, ANSWERS], AS_A_WHOLE),
    ("It was not here. Not there.", [ANSWERS, ANSWERS], NO_SENTENCE),
    ("Not here. Not there" + "." * 101, [ANSWERS, ANSWERS], AS_A_WHOLE),  # 120 characters
    ("Not here. Not there" + "." * 102, [ANSWERS, ANSWERS], NO_SENTENCE),  # 121
    ("x", [], AS_A_WHOLE),
    ("", [], NO_SENTENCE),
]


@pytest.mark.parametrize(("text", "readings", "verdict"), READ)
def test_a_text_abstains_by_its_sentences(text: str, readings: list[str], verdict: str) -> None:
    lexicon = small()
    decision = decide(lexicon.fold(text), lexicon)
    whole = [BARE] if verdict == AS_A_WHOLE else []
    assert [why for _, why in decision.sentences] == [*readings, *whole]
    assert decision.reason == verdict
    assert decision.abstains is (verdict in (ABSTENTION, AS_A_WHOLE))
    assert decision.sure is any(not why.startswith(NOTHING) for _, why in decision.sentences)


def speak(monkeypatch: pytest.MonkeyPatch, likely: tuple[str, ...] = ("en",)) -> None:
    """Small tables for some languages; `likely` are those that any text looks like."""
    german = {"abstains": ["weiß nicht"], "yes": ["ja"], "no": ["nein"]}
    tables = {"en": TABLE, "de": german, "fr": {"abstains": ["sais pas"], "yes": ["oui"], "no": ["non"]}}
    spoken = {code: build_lexicon([{"language": code, "name": code, **table}]) for code, table in tables.items()}
    monkeypatch.setattr(abstention, "lexicon_of", spoken.__getitem__)
    monkeypatch.setattr(abstention, "likely_languages", lambda text: likely)
    # without its cache, which other tests fill and read
    monkeypatch.setattr(abstention, "_read", abstention._read.__wrapped__)


@pytest.mark.parametrize(
    ("text", "language", "likely", "abstains"),
    [
        ("Weiß nicht.", "de", ("fr",), True),
        ("Weiß nicht.", "fr", ("de",), False),
        ("Weiß nicht.", None, ("fr", "de"), True),
        ("Weiß nicht.", None, ("fr",), False),
        ("Weiß nicht.", "tlh", ("de",), True),  # a language without a table
        (None, "de", ("de",), False),
        (5, "de", ("de",), False),
        ("a" * HEAD + " Weiß nicht. " + "a" * TAIL, "de", ("de",), False),  # in the middle, which is not read
    ],
)
def test_an_abstention_is_looked_for_in_the_language_asked_for(
    text: str | None, language: str | None, likely: tuple[str, ...], abstains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    speak(monkeypatch, likely)
    assert is_abstention(text, language) is abstains


@pytest.mark.parametrize(
    ("text", "denies"),
    [
        ("- No.", True),
        ("No, it does not", True),  # three words and a mark
        ("No, it does not say", False),  # four: they could be an answer
        ("No, it was Paris", False),  # a name
        ("No, answer is present in all that was given here", True),
        ("No, all of it is about the passage as such", True),
        ("No, as we read in the passage 3 it was old", False),  # a passage with a number is a source
        ("No, as we read in the passage 3 the text is old", True),
        ("Norway", False),
        ("", False),
    ],
)
def test_a_no_denies_where_it_names_nothing(text: str, denies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch)
    assert denies_presence(text, "en") is denies


@pytest.mark.parametrize(
    ("text", "affirms"),
    [
        ("y", True),  # too short for a sentence
        ("Yes, it was Paris", True),
        ("Yes, I don't know it", False),
        ("Yes. I don't know it.", True),  # the next sentence does not take it back
        ("Yesterday", False),
        ("", False),
    ],
)
def test_a_yes_affirms_unless_its_sentence_abstains(text: str, affirms: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch)
    assert affirms_presence(text, "en") is affirms


NOTATION = {
    **{"language": "en", "name": "English"},
    "parts": {"not": ["not", "never"], "say": ["say*", "tell*"], "to_say": ["to {say}"]},
    **{"material": ["passage", "text"], "silent": ["{not} ... {say}", "silent"]},
    **{"abstains": ["i don't know", "{not} ... able ... {to_say}"], "bare": ["none", "not here. not there"]},
    **{"openers": ["sorry"], "but": ["but"], "offer": ["how to"]},
    **{"except": ["text message", "i don't know how to thank"], "answer_marker": ["answer"]},
}
GERMAN = {"language": "de", "name": "Deutsch", "abstains": ["weiß nicht"]}

KINDS, THREE = ("openers", "material", "silent"), "sorry text silent"
NOT_SAYS = (("not", "not"), ("say", "say*"))
REST, NEVER_TELLS = "never quite able here to tells", (("not", "never"), ("say", "tell*"))


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("it was paris", []),
        # two places, of a part each: the whole word, where the table gives its beginning
        ("it does not really saying so", [("silent", "{not} ... {say}", "not really saying", NOT_SAYS)]),
        # three; the last one is of a part within a part
        (
            "we are never quite able here to tells",
            [
                ("abstains", "{not} ... able ... {to_say}", REST, (*NEVER_TELLS, ("to_say", "to {say}"))),
                ("silent", "{not} ... {say}", REST, NEVER_TELLS),
            ],
        ),
        # several, by their ends
        (THREE, [(kind, *[word] * 2, ()) for kind, word in zip(KINDS, THREE.split(), strict=True)]),
        # an exception spares the text, but not another one
        ("a text and a text message", [("material", *["text"] * 2, ()), ("except", *["text message"] * 2, ())]),
    ],
)
def test_a_sentence_holds_phrases_of_a_table(sentence: str, found: list[tuple[Any, ...]]) -> None:
    assert list(matches(sentence, build_lexicon([NOTATION]))) == [Match(*each) for each in found]


@pytest.mark.parametrize(("language", "codes"), [("de-AT", ["de"]), (None, ["de", "en"]), ("tlh", ["de", "en"])])
def test_it_is_explained_in_the_languages_that_it_is_read_in(
    monkeypatch: pytest.MonkeyPatch, language: str | None, codes: list[str]
) -> None:
    """On small tables, with two languages that every text looks like."""
    spoken = {"en": build_lexicon([NOTATION]), "de": build_lexicon([GERMAN])}
    monkeypatch.setattr(abstention, "lexicon_of", spoken.__getitem__)
    monkeypatch.setattr(abstention, "likely_languages", lambda text: ("de", "en"))
    assert [(code, decision.abstains) for code, _, decision in decisions_on("Weiß nicht.", language)] == [
        (code, code == "de") for code in codes
    ]


Guess = Callable[..., tuple[str, ...]]


@pytest.fixture
def guess(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guess]:
    """The languages that a text looks like, among tables of these words; a code in capitals ignores marks."""

    def guessed(text: str, **words: list[str]) -> tuple[str, ...]:
        tables = {
            code.lower(): {"language": code, "name": code, "yes": listed, "fold_marks": code.isupper()}
            for code, listed in words.items()
        }
        monkeypatch.setattr(phrases, "LANGUAGES", tuple(tables))
        monkeypatch.setattr(phrases, "phrase_table", tables.__getitem__)
        phrases._all_words.cache_clear()
        return likely_languages(text)

    yield guessed
    phrases._all_words.cache_clear()


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("", ("en",)),
        ("42 mice", ("en",)),
        ("a horse and a cat", ("bb", "aa")),  # the one with most characters first
        ("cat, horse, cat", ("aa", "bb")),  # each time counts: 6 and 5
        ("dog and cat", ("aa", "cc")),  # as many: by their codes
        ("dog, elephant, horse and cat", ("dd", "bb")),  # two at most
        ("the same", ("aa", "bb")),  # a word of several languages
        ("no good idea", ("en",)),  # a phrase counts as a whole
        ("no idea", ("aa",)),
    ],
)
def test_a_text_is_of_the_languages_whose_words_it_holds(guess: Guess, text: str, likely: tuple[str, ...]) -> None:
    tables = {"dd": ["elephant"], "cc": ["dog"], "bb": ["same", "horse"], "aa": ["cat", "same", "no idea"]}
    assert guess(text, **tables) == likely


@pytest.mark.parametrize(
    ("text", "language"),
    [("Neznámo.", "cs"), ("Bilinmiyor.", "tr"), ("Неизвестно.", "ru"), ("根据文章，无法回答", "zh")],
)
def test_an_answer_of_a_few_words_is_read_in_its_language(text: str, language: str) -> None:
    assert language in likely_languages(text)


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
    ("text", "folded"), [("Kò sí Ọ̀rọ̀", "ko si oro"), ("ṣ ñ ā", "s n a"), ("No", "no"), ("don´t", "don't")]
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
