"""The phrase tables of `tables/`, one a language, and the lexicons compiled from them.

``tables/README.md`` describes the format of a table. A :class:`Lexicon` holds the patterns of a language and of
English, since models often answer in English, whatever the language of the question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from custom_metrics.abstention.folding import EDGE, fold, is_boundary
from custom_metrics.abstention.patterns import Hits, Matcher, Pattern, PhraseReader
from custom_metrics.usage import shipped_yaml

GAP = 45  # characters that " ... " in a phrase may stand for: about seven words
GAP_WITHOUT_SPACES = 18  # in scripts that write no spaces

_PIECES = re.compile(r"\.\.\.|\{[^{}]*\}\??|\)\?|[()|^*]")  # between the words of a phrase
_STEM = 4  # characters from which a word counts where another begins or ends with it: "desconocid" is a stem

_FOLDER = resources.files("custom_metrics.abstention").joinpath("tables")

LANGUAGES: tuple[str, ...] = tuple(
    sorted(file.name.removesuffix(".yaml") for file in _FOLDER.iterdir() if file.name.endswith(".yaml"))
)
"""Codes with a phrase table: the union of NoMIRACL's and mFAVA's languages."""

PATTERN_KEYS = (
    *("material", "silent", "lacks", "abstains", "bare", "openers", "citing"),
    *("beside", "part", "but", "although", "reported", "offer", "except", "present", "affirms"),
)
"""Keys whose phrases may hold parts and gaps."""
WORD_KEYS = ("answer_marker", "yes", "no")
_KEYS = frozenset(("language", "name", "spaces", "fold_marks", "same", "parts", *PATTERN_KEYS, *WORD_KEYS))


@dataclass
class Lexicon:
    """The phrases of a language and of English, ready to be searched; see
    :meth:`custom_metrics.abstention.patterns.Matcher.search`."""

    search: Callable[..., Hits]
    fold: Callable[[str], str]  # folds a text as the phrases were folded
    yes: tuple[str, ...]
    no: tuple[str, ...]
    answer_marker: re.Pattern[str]


@cache
def phrase_table(language: str) -> dict[str, Any]:
    """The phrase table of one language. ValueError for a key that is unknown, or whose value is no list of phrases."""
    name = f"tables/{language}.yaml"
    table = shipped_yaml("custom_metrics.abstention", name)
    unknown = set(table) - _KEYS
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}; known are {sorted(_KEYS)}")
    lists = {key: table.get(key, []) for key in (*PATTERN_KEYS, *WORD_KEYS)}
    for part, listed in table.get("parts", {}).items():
        if not isinstance(part, str):
            raise ValueError(f"{name}: {part!r} is no name of a part (quote words that YAML reads otherwise)")
        lists[f"parts: {part}"] = listed
    for key, listed in lists.items():
        if not isinstance(listed, list) or not all(isinstance(phrase, str) for phrase in listed):
            raise ValueError(f"{name}: {key!r} must be a list of phrases (quote words that YAML reads otherwise)")
    return table


@lru_cache(maxsize=1024)
def supported_language(language: str | None) -> str | None:
    """The code of a table for a language tag (``"pt-BR"`` is ``"pt"``); ``None`` where there is none."""
    code = re.split(r"[-_]", language.lower(), maxsplit=1)[0] if language else None
    return code if code in LANGUAGES else None


@cache
def lexicon_of(language: str) -> Lexicon:
    """The compiled phrases of a language and of English."""
    return build_lexicon([phrase_table(code) for code in dict.fromkeys((language, "en"))])


def build_lexicon(tables: Sequence[dict[str, Any]], keys: Sequence[str] = PATTERN_KEYS) -> Lexicon:
    """Compile phrase tables. The first one decides how phrases and texts are folded (`fold_marks`, `same`). A
    ValueError names the language, the key and the phrase that cannot be read."""
    marks, respellings = bool(tables[0].get("fold_marks")), _respellings(tables[0])

    def folded(text: str) -> str:
        return fold(text, marks).translate(respellings) if respellings else fold(text, marks)

    words: dict[str, dict[str, None]] = {key: {} for key in WORD_KEYS}
    patterns: list[Pattern] = []
    for table in tables:
        for key in WORD_KEYS:
            words[key].update(dict.fromkeys(filter(None, (folded(word).strip(EDGE) for word in table.get(key, [])))))
        spaces = bool(table.get("spaces", True))
        parts = {**{key: table[key] for key in keys if key in table}, **table.get("parts", {})}
        reader = PhraseReader(parts, folded, spaces, GAP if spaces else GAP_WITHOUT_SPACES)
        for kind in keys:
            try:
                patterns += (pattern for written in table.get(kind, ()) for pattern in reader.patterns(kind, written))
            except ValueError as error:
                raise ValueError(f"{table['language']}: {kind!r}: {error}") from None
    markers = "|".join(map(re.escape, words["answer_marker"]))
    return Lexicon(
        search=Matcher(patterns).search,
        fold=folded,
        yes=tuple(words["yes"]),
        no=tuple(words["no"]),
        answer_marker=re.compile(rf"(?:{markers})\s?:\s?" if markers else r"(?!)"),
    )


def _respellings(table: dict[str, Any]) -> dict[int, str]:
    """Equivalent spellings: the first character of each item to the others, as which it is read."""
    return {ord(item[0]): item[1:] for item in str(table.get("same", "")).split()}


def likely_languages(text: str) -> tuple[str, ...]:
    """The two languages of whose phrases a text holds most characters, English where there are none.

    They are for answers whose language is not known. Each language is then read by its own rules: "data" is a date in one
    and material in another, so all tables as one would contradict each other.
    """
    automaton, with_marks, without_marks = _all_words()
    folded = fold(text)
    bare = folded if folded.isascii() else fold(text, marks=True)
    counted = {folded: with_marks}
    counted[bare] = counted.get(bare, frozenset()) | without_marks
    counts: dict[str, int] = defaultdict(int)
    for variant, languages in counted.items():
        padded = variant + " "
        sizes: dict[frozenset[str], int] = defaultdict(int)  # by the languages that have the words in common
        for last, (literal, codes) in automaton.iter(variant):
            begins = is_boundary(padded[last - len(literal)], literal[0])
            ends = is_boundary(padded[last + 1], literal[-1])
            if (begins and ends) or ((begins or ends) and len(literal) >= _STEM):
                sizes[codes] += len(literal)
        for codes, size in sizes.items():
            for language in codes & languages:
                counts[language] += size
    return tuple(sorted(counts, key=lambda language: (-counts[language], language))[:2]) or ("en",)


@cache
def _all_words() -> tuple[Any, frozenset[str], frozenset[str]]:
    """An automaton of all tables' words, the languages whose texts keep combining marks, and those that drop them."""
    import ahocorasick

    by_literal: dict[str, list[str]] = defaultdict(list)
    for language in LANGUAGES:
        table = phrase_table(language)
        listed = [*table.get("parts", {}).values(), *(table.get(key, ()) for key in (*PATTERN_KEYS, *WORD_KEYS))]
        # all at once, one a line: folding each by itself would take ten times as long
        lines = _PIECES.sub("\n", "\n".join(phrase for group in listed for phrase in group))
        folded = respelt = fold(lines, bool(table.get("fold_marks")))
        # in the other spelling of the table, too
        for character, read_as in sorted(_respellings(table).items(), key=lambda item: -len(item[1])):
            respelt = respelt.replace(read_as, chr(character)) if read_as else respelt
        for literal in {line.strip() for line in (folded + "\n" + respelt).split("\n")} - {""}:
            by_literal[literal].append(language)
    automaton = ahocorasick.Automaton()
    for literal, languages in by_literal.items():
        automaton.add_word(literal, (literal, frozenset(languages)))
    automaton.make_automaton()
    without_marks = frozenset(language for language in LANGUAGES if phrase_table(language).get("fold_marks"))
    return automaton, frozenset(LANGUAGES) - without_marks, without_marks
