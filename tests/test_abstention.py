"""Abstention in 37 languages: phrase tables, the rules by example, figures on answers nobody tuned on, hostile text."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

import pytest
import yaml

from custom_metrics.abstention import HEAD, LANGUAGES, TAIL, excerpt, is_abstention, phrases, read_abstention
from custom_metrics.abstention.phrases import PATTERN_KEYS, WORD_KEYS, build_lexicon, lexicon_of, phrase_table
from tests.conftest import run
from tests.table_use import examples, misread, unused

DATA = Path(__file__).parent / "data" / "abstention"

ABSTENTIONS = [
    ("en", "I don't know"),
    ("en", "**I DON’T KNOW.**"),
    ("en", '"I don\'t know"'),
    ("en", "Answer: not mentioned"),
    ("en", "The passages do not explicitly mention who built the tower."),
    ("en", "The passages discuss the tower's height. They do not say who built it."),
    ("en", "None of the contexts answers the question. If you provide more, I can help."),
    ("en", "Although the passages mention the tower, they do not say when it was built."),
    ("en", '## Explanation: [2] names the city only.\n## Answer: "I don\'t know"'),
    ("en", "It is 2,850 km long and flows through ten countries. I don't know its discharge."),
    ("de", "Das geht aus den Texten nicht hervor."),
    ("de", "The text does not mention it."),
    ("zh", "文中没有提到！"),
    ("yo", "N ko mo."),
    ("de-AT", "Keine Angabe"),
    ("xx", "Das geht aus den Texten nicht hervor."),
    (None, "В тексте об этом не говорится."),
]

STAFF = "While its staff cannot provide you with legal advice, they can suggest it."
ANSWERS = [
    ("en", "The author is unknown, but the work dates from the 15th century."),
    ("en", "He answered 'I don't know' to every question."),
    ("en", "I don't know exactly, but it was Paris."),
    ("en", "The passages do not give the exact date, but it was built in the 12th century."),
    ("en", "The passages do not say it outright. However, Paris was the capital in 1800."),
    ("en", "Paris, although the text does not mention it directly."),
    ("en", "No, Lisbon is not the capital of Spain."),
    ("en", "The drink contains no alcohol."),
    ("en", "The text of the treaty does not mention fishing."),
    (None, "The Freedom of Information Act was passed in 1966."),
    (None, "No se sabe quién lo escribió, pero data del siglo XV."),
    ("en", "Yes, answer is present in [3]."),
    ("en", f"Yes, you can visit a law library. {STAFF}"),
    ("en", "   "),
    (None, None),
    ("de", "Er antwortete auf jede Frage „Ich weiß nicht“."),
    ("fr", "Le film « Je ne sais pas » date de 1966."),
    ("zh", "作者不详,但作品出自15世纪。"),
    ("en", "He wrote the handbook of the company."),  # about what could be a source
    ("en", "The database holds 4,000 songs."),
    ("de", "Das Handbuch erschien 1990."),
    ("zh", "报告是1990年写的。"),
]


@pytest.mark.parametrize(("language", "text"), ABSTENTIONS)
def test_an_abstention_is_read_as_one(language: str | None, text: str) -> None:
    assert is_abstention(text, language)


@pytest.mark.parametrize(("language", "text"), ANSWERS)
def test_an_answer_with_words_of_not_knowing_is_an_answer(language: str | None, text: str | None) -> None:
    assert not is_abstention(text, language)


def rows(kind: str, language: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / kind / f"{language}.jsonl").read_text("utf-8").splitlines()]


def f1(pairs: Iterable[tuple[bool, bool]]) -> float:
    """Of the abstentions, from (expected, found)."""
    pairs = list(pairs)
    hit = sum(e and f for e, f in pairs)
    return 2 * hit / (sum(e for e, _ in pairs) + sum(f for _, f in pairs))


LEARNED = pytest.mark.slow("2,400 answers that the tables were written for; those that nobody tuned on are fast")


@pytest.mark.parametrize(
    ("kind", "told", "least", "least_language"),
    [
        pytest.param("unseen", True, 0.978, 0.94, id="unseen, language told"),
        pytest.param("unseen", False, 0.97, 0.85, id="unseen, language unknown"),
        pytest.param("tuning", True, 0.985, 0.95, id="tuning, language told", marks=LEARNED),
        pytest.param("tuning", False, 0.98, 0.90, id="tuning, language unknown", marks=LEARNED),
    ],
)
@pytest.mark.xdist_group("phrase tables")  # one worker reads all of them
@pytest.mark.one_python("how good the tables are; the code reads the cases above")
def test_f1_over_all_languages_and_in_the_worst(kind: str, told: bool, least: float, least_language: float) -> None:
    pairs = {
        language: [
            (bool(row["abstains"]), is_abstention(str(row["text"]), language if told else None))
            for row in rows(kind, language)
        ]
        for language in LANGUAGES
    }
    by_language = {language: f1(found) for language, found in pairs.items()}
    assert f1(pair for found in pairs.values() for pair in found) >= least, by_language
    assert {language: value for language, value in by_language.items() if value < least_language} == {}


def test_gold_answers_and_passages_are_no_abstentions(hub: str) -> None:
    """1,000 real texts: full passages and human answers; only an answer that says "NA" abstains."""
    texts = set()
    for path in Path(hub, "PrimeQA", "clapnq").glob("clapnq_dev_*answerable.jsonl"):
        for record in map(json.loads, path.read_text("utf-8").splitlines()):
            texts |= {f"{each['title']} {each['text']}" for each in record["passages"]}
            texts |= {each["answer"] for each in record["output"]}
    assert len(texts) > 900
    assert {text for text in texts if is_abstention(text, "en")} == {"NA"}


HOSTILE = [
    *("i don't know, but the text does not say ", '"', "' '", ". ", ".", "?!", "\n", "I Don't Know ", "answer: "),
    *("although the text, ", "不知道，但", "م", "\u0301", "\x00", "ﷺ", "does not " * 3),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_of_a_hundred_kilobytes_only_the_ends_are_read(unit: str) -> None:
    """Hostile text costs no more than its ends do; see also `test_patterns.py`."""
    text = unit * (100_000 // len(unit))
    assert len(excerpt(text)) == HEAD + 1 + TAIL
    for language in ("de", "zh", None):
        assert is_abstention(text, language) is is_abstention(excerpt(text), language)


def test_the_metric_is_the_share_that_abstains() -> None:
    from lm_eval_tasks.harness import has_scorers
    from lm_eval_tasks.harness.metrics import abstention

    said = abstention(["x", "x"], ["Ich weiß es nicht.", "Paris"], language="de")
    assert said == ({"abstention": [1.0, 0.0]} if has_scorers() else 0.5)


def test_an_abstention_names_whatever_source_it_has(shared: Path, tmp_path: Path) -> None:
    """The case is a program, and prints `ok` before each text that is read as an abstention."""
    done = run([sys.executable, str(shared / "cases" / "36_abstention_sources.py")], tmp_path, fresh=True)
    read = done.stdout.splitlines()
    assert len(read) == 34
    assert [line for line in read if not line.startswith("ok ")] == []


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("The handbook does not mention it.", True),
        ("I'm not certain, but it was Paris.", True),  # a phrase, and a turn behind it
        ("Paris", False),  # nothing decides
        ("", True),
    ],
)
def test_a_decision_is_sure_where_a_phrase_decides(text: str, sure: bool) -> None:
    assert read_abstention(text, "en").sure is sure


FOLDER = resources.files("custom_metrics.abstention").joinpath("tables")
pytestmark = pytest.mark.xdist_group("phrase tables")  # one worker reads all of them
NEEDED = ("material", "silent", "abstains", "bare", "openers", "but", "although", "reported", "yes", "no", "present")


def test_tables_have_fifteen_kilobytes_on_average_and_none_but_the_english_is_over_twenty_one() -> None:
    sizes = {language: len(FOLDER.joinpath(f"{language}.yaml").read_bytes()) for language in LANGUAGES}
    assert sum(sizes.values()) <= 15_200 * len(sizes)
    assert {language: size for language, size in sizes.items() if size > (35_000 if language == "en" else 21_000)} == {}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.one_python("what the tables hold")
def test_a_table_is_complete_and_says_nothing_twice(language: str) -> None:
    table = phrase_table(language)
    assert table["language"] == language
    assert table["name"]
    assert [key for key in NEEDED if not table[key]] == []
    lists = {key: table.get(key, []) for key in (*PATTERN_KEYS, *WORD_KEYS)} | table.get("parts", {})
    twice = {key: {p for p in listed if listed.count(p) > 1} for key, listed in lists.items()}
    assert {key: found for key, found in twice.items() if found} == {}
    lexicon_of(language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_yaml_reader_reads_the_same(language: str) -> None:
    """libyaml, where it is, and PyYAML's own."""
    text = FOLDER.joinpath(f"{language}.yaml").read_text("utf-8")
    assert yaml.safe_load(text) == phrase_table(language)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.one_python("what the tables hold")
def test_every_part_is_referred_to(language: str) -> None:
    table = phrase_table(language)
    lists = [*(table.get(key, []) for key in PATTERN_KEYS), *table.get("parts", {}).values()]
    written = " ".join(phrase for listed in lists for phrase in listed)
    named = {name.strip() for names in re.findall(r"\{([^{}]*)\}", written) for name in names.split("|")}
    assert set(table.get("parts", {})) - named == set()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.one_python("what the tables hold")
def test_every_pattern_and_word_is_used_by_an_example(language: str) -> None:
    assert unused(language) == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.one_python("what the tables hold")
def test_the_examples_are_read_as_they_say(language: str) -> None:
    """Those that were written for the table; `tuning/` has figures, not examples that must hold."""
    written = set(examples(language, ("examples",)))
    assert written
    assert [example for example in misread(language) if example in written] == []


def table(**changed: object) -> dict[str, object]:
    return {"language": "xx", "name": "X", "abstains": ["no idea"], "answer_marker": ["answer"], **changed}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"abstains": ["*"]}, r"xx: 'abstains': '\*' has a `\*` beside no word"),
        ({"abstains": ["{who} knows"]}, r"xx: 'abstains': no part is named 'who'; there are abstains, not"),
        ({"abstains": ["{not"]}, r"xx: 'abstains': '\{not' has a bracket that is not closed, or not opened"),
        ({"abstains": ["not)"]}, r"xx: 'abstains': 'not\)' has a bracket that is not closed, or not opened"),
        ({"silent": [""]}, "xx: 'silent': the phrase '' of 'silent' is empty"),
        ({"silent": ["^"]}, r"the phrase '\^' of 'silent' is empty"),
        ({"parts": {"none": []}, "silent": ["x {none}"]}, r"the phrase 'x \{none\}' of 'silent' is empty"),
    ],
)
def test_a_phrase_that_cannot_be_read_says_where(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_lexicon([table(**{"parts": {"not": ["not"]}, **changed})])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"abstain": ["x"]}, r"tables/de\.yaml: unknown keys \['abstain'\]"),
        ({"no": [False]}, r"tables/de\.yaml: 'no' must be a list of phrases"),
        ({"parts": {False: ["nein"]}}, r"tables/de\.yaml: False is no name of a part"),
        ({"parts": {"not": "nicht"}}, r"tables/de\.yaml: 'parts: not' must be a list of phrases"),
    ],
)
def test_a_broken_table_says_where(broken: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    phrase_table.cache_clear()
    monkeypatch.setattr(phrases, "shipped_yaml", lambda *_: table(**broken))
    with pytest.raises(ValueError, match=message):
        phrase_table("de")
    phrase_table.cache_clear()
