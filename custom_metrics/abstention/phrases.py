"""The phrase tables of `tables/`, one a language, and what is compiled from them.

``tables/README.md`` says how a table is written. A :class:`Lexicon` holds the patterns of a language and of
English, since models often answer in English whatever they were asked in.
"""

from __future__ import annotations

import gc
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from operator import itemgetter
from typing import Any

from custom_metrics.abstention.folding import BEGINS, EDGE, ENDS, boundaries, fold
from custom_metrics.abstention.patterns import Found, Hits, Matcher, Pattern, PhraseReader

__all__ = ["LANGUAGES", "Lexicon", "build_lexicon", "known", "lexicon_of", "likely_languages", "phrases"]

GAP = 45  # characters that " ... " in a phrase may stand for: about seven words
GAP_WITHOUT_SPACES = 18  # in scripts that write no spaces

_STEM = 4  # characters from which a word counts as held where another begins or ends with it: "desconocid" is a stem

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
    """The phrases of a language and of English, ready to be searched."""

    matcher: Matcher
    yes: tuple[str, ...]
    no: tuple[str, ...]
    answer_marker: re.Pattern[str]
    fold_marks: bool
    same: dict[int, str]

    def __post_init__(self) -> None:
        self.respelt = re.compile(f"[{re.escape(''.join(map(chr, self.same)))}]") if self.same else None

    def fold(self, text: str) -> str:
        """Fold a text as the phrases are folded."""
        folded = fold(text, self.fold_marks)
        return folded.translate(self.same) if self.respelt and self.respelt.search(folded) else folded

    def search(self, folded: str, trace: list[Found] | None = None) -> Hits:
        """The phrases in a folded text; see :meth:`custom_metrics.abstention.patterns.Matcher.search`."""
        return self.matcher.search(folded, trace)


@cache
def phrases(language: str) -> dict[str, Any]:
    """The phrase table of one language.

    Raises:
        ValueError: an unknown key, or a value that is not a list of phrases; it names the file and the key.
    """
    import yaml

    name = f"tables/{language}.yaml"
    text = _FOLDER.joinpath(f"{language}.yaml").read_text("utf-8")
    # the safe loader, in C where PyYAML has it: it takes a tenth of the time
    table: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    unknown = set(table) - _KEYS
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}; known are {sorted(_KEYS)}")
    lists = {key: table.get(key, []) for key in (*PATTERN_KEYS, *WORD_KEYS)}
    lists |= {f"parts: {part}": words for part, words in table.get("parts", {}).items()}
    unnamed = [part for part in table.get("parts", {}) if not isinstance(part, str)]
    if unnamed:
        raise ValueError(f"{name}: {unnamed[0]!r} is no name of a part (quote words that YAML reads otherwise)")
    for key, listed in lists.items():
        if not isinstance(listed, list) or not all(isinstance(phrase, str) for phrase in listed):
            raise ValueError(f"{name}: {key!r} must be a list of phrases (quote words that YAML reads otherwise)")
    return table


@lru_cache(maxsize=1024)
def known(language: str | None) -> str | None:
    """The code of a table for a language tag (``"pt-BR"`` is ``"pt"``); ``None`` where there is none."""
    code = re.split(r"[-_]", language.lower(), maxsplit=1)[0] if language else None
    return code if code in LANGUAGES else None


@cache
def lexicon_of(language: str) -> Lexicon:
    """The compiled phrases of a language and of English."""
    with _uncollected():
        return build_lexicon([phrases(code) for code in dict.fromkeys((language, "en"))])


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection while tables are compiled: what is made stays, and looking it through takes a third of the
    time."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def build_lexicon(tables: Sequence[dict[str, Any]]) -> Lexicon:
    """Compile phrase tables. The first one decides how phrases and texts are folded (`fold_marks`, `same`).

    Raises:
        ValueError: a phrase that cannot be read; it names the language, the key and the phrase.
    """
    marks, same = bool(tables[0].get("fold_marks")), _same(tables[0])

    def folded(text: str) -> str:
        return fold(text, marks).translate(same)

    words: dict[str, dict[str, None]] = {key: {} for key in WORD_KEYS}
    for table in tables:
        for key in WORD_KEYS:
            words[key].update(dict.fromkeys(filter(None, (folded(word).strip(EDGE) for word in table.get(key, [])))))
    markers = "|".join(map(re.escape, words["answer_marker"]))
    return Lexicon(
        matcher=Matcher(pattern for table in tables for pattern in patterns(table, folded)),
        yes=tuple(words["yes"]),
        no=tuple(words["no"]),
        answer_marker=re.compile(rf"(?:{markers})\s?:\s?" if markers else r"(?!)"),
        fold_marks=marks,
        same=same,
    )


def patterns(table: dict[str, Any], folded: Callable[[str], str]) -> Iterator[Pattern]:
    """The patterns of a table.

    Raises:
        ValueError: a phrase that cannot be read; it names the language, the key and the phrase.
    """
    parts = {**{key: table[key] for key in PATTERN_KEYS if key in table}, **table.get("parts", {})}
    spaces = bool(table.get("spaces", True))
    reader = PhraseReader(parts, folded, spaces, GAP if spaces else GAP_WITHOUT_SPACES)
    for kind in PATTERN_KEYS:
        for written in table.get(kind, []):
            try:
                yield from reader.patterns(kind, written)
            except ValueError as error:
                raise ValueError(f"{table['language']}: {kind!r}: {error}") from None


def _same(table: dict[str, Any]) -> dict[int, str]:
    """Spellings that are one: the first character of each item is read as the others."""
    return {ord(item[0]): item[1:] for item in str(table.get("same", "")).split()}


def likely_languages(text: str) -> tuple[str, ...]:
    """The two languages of whose phrases a text holds most characters, English where there are none.

    For answers whose language nobody said. Each is then read by its own rules: "data" is a date in one language and
    material in another, so all tables as one would contradict each other.
    """
    automaton, groups, with_marks, without_marks = _words_of_all()
    held: dict[str, int] = defaultdict(int)
    folded = fold(text)
    bare = folded if folded.isascii() else fold(text, marks=True)
    none: frozenset[str] = frozenset()
    for read, passed_over in ((folded, none),) if bare == folded else ((folded, without_marks), (bare, with_marks)):
        padded = read + " "
        sizes: dict[int, int] = defaultdict(int)  # of each group
        for last, (size, lefts, rights, group) in automaton.iter(read):
            bounds = lefts[padded[last - size]] + rights[padded[last + 1]]
            if bounds == BEGINS + ENDS or (bounds and size >= _STEM):
                sizes[group] += size
        for group, size in sizes.items():
            for language in groups[group] - passed_over:
                held[language] += size
    return tuple(sorted(held, key=lambda language: (-held[language], language))[:2]) or ("en",)


@cache
def _words_of_all() -> tuple[Any, tuple[frozenset[str], ...], frozenset[str], frozenset[str]]:
    """An automaton of all tables' words, the groups of languages that have words in common, the languages that are read
    with marks, and those that are read without."""
    import ahocorasick

    languages: dict[str, list[str]] = {}
    groups: dict[frozenset[str], int] = {}
    automaton = ahocorasick.Automaton()
    with _uncollected():
        for language in LANGUAGES:
            for literal in _literals(phrases(language)):
                languages.setdefault(literal, []).append(language)
        for literal, spoken in languages.items():
            group = groups.setdefault(frozenset(spoken), len(groups))
            automaton.add_word(literal, (len(literal), *boundaries(literal), group))
    automaton.make_automaton()
    without_marks = frozenset(language for language in LANGUAGES if phrases(language).get("fold_marks"))
    return automaton, tuple(groups), frozenset(LANGUAGES) - without_marks, without_marks


def _literals(table: dict[str, Any]) -> set[str]:
    """The words and phrases of a table, in both spellings, folded as texts are for it."""
    listed = (*table.get("parts", {}).values(), *(table.get(key, ()) for key in (*PATTERN_KEYS, *WORD_KEYS)))
    # all at once, one a line: folding each by itself would take ten times as long
    lines = _PIECES.sub("\n", "\n".join(phrase for one in listed for phrase in one))
    same = _same(table)
    folded = fold(lines, bool(table.get("fold_marks")))
    return {line.strip() for spelt in {folded, _spelt(folded, same)} for line in spelt.split("\n")} - {""}


def _spelt(text: str, same: dict[int, str]) -> str:
    """A folded text in the other spelling of its table."""
    for character, read_as in sorted(filter(itemgetter(1), same.items()), key=lambda item: -len(item[1])):
        text = text.replace(read_as, chr(character))
    return text


_PIECES = re.compile(r"\.\.\.|\{[^{}]*\}\??|\)\?|[()|^*]")
