"""The phrase tables: small enough to be read by a native speaker, and nothing in them that no example needs."""

from __future__ import annotations

import re
from importlib import resources

import pytest
import yaml

from custom_metrics.abstention import LANGUAGES, phrases
from custom_metrics.abstention.phrases import PATTERN_KEYS, WORD_KEYS, build_lexicon, lexicon_of, phrase_table
from tests.table_use import examples, misread, unused

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
