"""The phrase tables of `abstention_phrases/`: folded, compiled into one automaton, and found in a text.

A phrase is a list of pieces with gaps between them; every piece is a literal in an Aho-Corasick automaton, so one pass
over a text finds the phrases of all kinds, whatever their number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

__all__ = [
    "EDGE",
    "LANGUAGES",
    "NO_SPACES",
    "Hits",
    "Lexicon",
    "fold",
    "known",
    "lexicon_of",
    "opener_of",
    "phrases",
    "search",
]

GAP = 45  # characters that " ... " in a phrase may stand for: about seven words
GAP_WITHOUT_SPACES = 18  # in scripts that write no spaces

_FOLDER = resources.files("custom_metrics").joinpath("abstention_phrases")

LANGUAGES: tuple[str, ...] = tuple(
    sorted(file.name.removesuffix(".yaml") for file in _FOLDER.iterdir() if file.name.endswith(".yaml"))
)
"""Codes with a phrase table: the union of NoMIRACL's and mFAVA's languages."""

Hits = dict[str, list[tuple[int, int]]]
"""Kind of phrase to the (start, end) of those found, in order of their ends."""

_Seen = dict[
    str, list[tuple[int, int, bool, bool]]
]  # literal to where it stands, and whether words begin and end there

_PHRASE_KEYS = ("material", "silent", "lacks", "abstains", "but", "although", "reported", "offer", "except", "present")
_LINE_KEYS = ("bare", "openers", "answer_marker", "yes", "no")
_KEYS = frozenset(("language", "name", "spaces", "fold_marks", *_PHRASE_KEYS, *_LINE_KEYS))

_QUOTES = "“”„‟«»‹›「」『』《》〈〉〝〞＂"
_FOLD = str.maketrans(
    {
        **dict.fromkeys("’‘ʼ‛`´ʹ′", "'"),
        **dict.fromkeys(_QUOTES, '"'),
        "ı": "i",
        "\u0307": None,  # left behind when Turkish İ is lowered
        **dict.fromkeys("أإآٱ", "ا"),
        **dict.fromkeys("ىيےېۓ", "ی"),
        "ك": "ک",
        "ة": "ه",
        "ہ": "ه",
        "ھ": "ه",
        "ۀ": "ه",
        "ۂ": "ه",
        **dict.fromkeys(map(chr, (*range(0x064B, 0x0656), 0x0640, 0x0670)), None),  # vowel marks, tatweel
        **dict.fromkeys(map(chr, range(0x05B0, 0x05BE)), None),  # Hebrew points
        "\u05be": "-",
        **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad", None),
        "ş": "ș",  # Romanian with the cedillas of old keyboards
        "ţ": "ț",
        **dict.fromkeys("*_#", " "),  # Markdown
        **dict.fromkeys("‐‑‒–—―", "-"),
        **dict.fromkeys(map(chr, (*range(10), *range(11, 32), 127)), " "),  # control characters; a line break stays
        **dict.fromkeys("\x85\u2028\u2029", "\n"),
    }
)
NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff]+")
"""Runs of scripts that put no space between words: Thai, Lao, Burmese, Khmer, Han, kana."""
_SPACES = re.compile(" {2,}")
_MARKS = re.compile("[\u0300-\u036f]+")  # combining: tones, dots below, macrons, circumflexes
EDGE = " \t\n.,:;!?\"'()[]{}<>|/\\-=~+&。、،؛؟।॥…·・•¿¡✓✗❌✅🤷"
"""Marks that do not count at the ends of a sentence."""
_CLAUSE_STARTS = frozenset(".,:;!?¿¡\"'([-،、。؛।\n")


@lru_cache(maxsize=16)  # an answer is folded for each question that is asked of it
def fold(text: str, marks: bool = False) -> str:
    """Fold what does not distinguish phrases: case, width, apostrophes, quotes, Arabic variants, Markdown, white space.

    Args:
        marks: also drop combining marks (tone marks of Yoruba).
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold().translate(_FOLD)
    if marks:
        text = _MARKS.sub("", unicodedata.normalize("NFD", text))
    return _SPACES.sub(" ", text) if "  " in text else text


class _Piece(NamedTuple):
    """One part of a phrase between gaps."""

    literal: str
    bound_left: bool  # a word must begin where it begins
    bound_right: bool
    clause_start: bool


class _Phrase(NamedTuple):
    """A phrase as its last piece knows it: what must stand before that piece."""

    kind: str
    last: _Piece
    before: tuple[_Piece, ...]
    gap: int


class _Literal(NamedTuple):
    """What the automaton knows of a literal."""

    literal: str
    whole_words: bool  # no phrase wants it as a part of a word
    opens: bool  # it is a piece that others follow
    phrases: tuple[_Phrase, ...]  # those that consist of it alone
    gapped: dict[str, tuple[_Phrase, ...]]  # those that end with it, by the piece before


@dataclass
class Lexicon:
    """The phrases of one or several languages, ready to be searched."""

    automaton: Any
    bare: frozenset[str]
    openers: dict[str, tuple[str, ...]]  # by their first character, the longest first
    openers_by_end: dict[str, tuple[str, ...]]  # by their last
    yes: tuple[str, ...]
    no: tuple[str, ...]
    answer_marker: re.Pattern[str]
    citing: tuple[str, ...]  # how openers lead up to the material: "according to the", "laut"
    fold_marks: bool


@cache
def phrases(language: str) -> dict[str, Any]:
    """The phrase table of one language.

    Raises:
        ValueError: an unknown key, or a value that is not a list of phrases; it names the file and the key.
    """
    import yaml

    name = f"abstention_phrases/{language}.yaml"
    text = _FOLDER.joinpath(f"{language}.yaml").read_text("utf-8")
    # the safe loader, in C where PyYAML has it: the tables are long
    table: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    unknown = set(table) - _KEYS
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}; known are {sorted(_KEYS)}")
    for key in (*_PHRASE_KEYS, *_LINE_KEYS):
        if not isinstance(table.get(key, []), list) or not all(isinstance(p, str) for p in table.get(key, [])):
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
    return build_lexicon([phrases(code) for code in dict.fromkeys((language, "en"))])


def likely_languages(text: str) -> tuple[str, ...]:
    """The two languages of whose phrases a text holds most characters, English where there are none.

    For answers whose language nobody said. Each is then read by its own rules: "data" is a date in one language and
    material in another, so all tables as one would contradict each other.
    """
    folded = fold(text)
    size = len(folded)
    held: dict[str, int] = {}
    for last, (literal, languages) in _literals_of_all().iter(folded):
        end = last + 1
        start = end - len(literal)
        left = start == 0 or folded[start - 1] == " " or is_boundary(folded[start - 1], literal[0])
        if left and (end == size or folded[end] == " " or is_boundary(folded[end], literal[-1])):
            for language in languages:
                held[language] = held.get(language, 0) + len(literal)
    return tuple(sorted(held, key=lambda language: (-held[language], language))[:2]) or ("en",)


@cache
def _literals_of_all() -> Any:
    import ahocorasick

    languages: dict[str, list[str]] = {}
    for language in LANGUAGES:
        table = phrases(language)
        spaces = table.get("spaces", True)
        literals: dict[str, None] = {}
        for marks in {False, bool(table.get("fold_marks"))}:
            for kind in (*_PHRASE_KEYS, *_LINE_KEYS):
                for phrase in table.get(kind, []):
                    literals.update(dict.fromkeys(piece.literal for piece in _pieces(phrase, spaces, marks)))
        for literal in literals:
            languages.setdefault(literal, []).append(language)
    automaton = ahocorasick.Automaton()
    for literal, spoken in languages.items():
        automaton.add_word(literal, (literal, tuple(spoken)))
    automaton.make_automaton()
    return automaton


def build_lexicon(tables: Sequence[dict[str, Any]]) -> Lexicon:
    """Compile phrase tables.

    The first table decides by its `fold_marks` whether marks are folded, in phrases and in texts.

    Raises:
        ValueError: a phrase that folds to nothing.
    """
    import ahocorasick

    marks = bool(tables[0].get("fold_marks"))
    closing: dict[str, list[_Phrase]] = {}
    opening: set[str] = set()
    whole_words: set[str] = set()
    in_words: set[str] = set()
    lines: dict[str, dict[str, None]] = {key: {} for key in _LINE_KEYS}
    for table in tables:
        spaces = table.get("spaces", True)
        for kind in _PHRASE_KEYS:
            for phrase in table.get(kind, []):
                pieces = _pieces(phrase, spaces, marks)
                if not pieces:
                    raise ValueError(f"{table['language']}: the phrase {phrase!r} of {kind!r} is empty")
                *before, last = pieces
                gap = GAP if spaces else GAP_WITHOUT_SPACES
                closing.setdefault(last.literal, []).append(_Phrase(kind, last, tuple(before), gap))
                opening.update(piece.literal for piece in before)
                for piece in pieces:
                    bound = piece.bound_left and piece.bound_right
                    (whole_words if bound else in_words).add(piece.literal)
        for key in _LINE_KEYS:
            for phrase in table.get(key, []):
                folded = fold(phrase, marks).strip(EDGE)
                if folded:
                    lines[key][folded] = None
    whole_words -= in_words
    automaton = ahocorasick.Automaton()
    for literal in opening | closing.keys():
        ending = dict.fromkeys(closing.get(literal, ()))
        gapped: dict[str, list[_Phrase]] = {}
        for phrase in ending:
            if phrase.before:
                gapped.setdefault(phrase.before[-1].literal, []).append(phrase)
        automaton.add_word(
            literal,
            _Literal(
                literal,
                literal in whole_words,
                literal in opening,
                tuple(phrase for phrase in ending if not phrase.before),
                {before: tuple(group) for before, group in gapped.items()},
            ),
        )
    automaton.make_automaton()
    markers = "|".join(sorted(map(re.escape, lines["answer_marker"]), key=len, reverse=True))
    lexicon = Lexicon(
        automaton=automaton,
        bare=frozenset(lines["bare"]),
        openers=_grouped(lines["openers"], 0),
        openers_by_end=_grouped(lines["openers"], -1),
        yes=tuple(lines["yes"]),
        no=tuple(lines["no"]),
        answer_marker=re.compile(rf"(?:{markers})\s?:\s?" if markers else r"(?!)"),
        citing=(),
        fold_marks=marks,
    )
    lexicon.citing = tuple(_citing(lines["openers"], lexicon))
    return lexicon


def _citing(openers: Iterable[str], lexicon: Lexicon) -> set[str]:
    found = set()
    for opener in openers:
        material = search(opener, lexicon).get("material")
        if material and len(opener[: material[0][0]].strip()) > 2:
            found.add(opener[: material[0][0]].strip())
    return found


def _grouped(openers: Iterable[str], at: int) -> dict[str, tuple[str, ...]]:
    grouped: dict[str, list[str]] = {}
    for opener in sorted(openers, key=len, reverse=True):
        grouped.setdefault(opener[at], []).append(opener)
    return {character: tuple(group) for character, group in grouped.items()}


_GAPS = re.compile(r"\.\.\.|(?<=\S\*) ")  # "..." and, in the middle of a phrase, the end of a word with any ending


def _pieces(phrase: str, spaces: bool, marks: bool) -> tuple[_Piece, ...]:
    pieces: list[_Piece] = []
    for part in _GAPS.split(phrase.lstrip("^")):
        part = part.strip()
        literal = fold(part.strip("*"), marks).strip()
        if literal:
            starts_clause = phrase.startswith("^") and not pieces
            left, right = spaces and not part.startswith("*"), spaces and not part.endswith("*")
            pieces.append(_Piece(literal, left, right, starts_clause))
    return tuple(pieces)


def search(text: str, lexicon: Lexicon) -> Hits:
    """The phrases in a folded text."""
    hits: Hits = {}
    seen: _Seen = {}
    size = len(text)
    for last, (literal, whole_words, opens, phrases, gapped) in lexicon.automaton.iter(text):
        end = last + 1
        start = end - len(literal)
        left = start == 0 or text[start - 1] == " " or is_boundary(text[start - 1], literal[0])
        if whole_words and not left:
            continue
        right = end == size or text[end] == " " or is_boundary(text[end], literal[-1])
        if whole_words and not right:
            continue
        for phrase in phrases:
            piece = phrase.last
            if (left or not piece.bound_left) and (right or not piece.bound_right):
                if piece.clause_start and not _at_clause_start(text, start, lexicon):
                    continue
                hits.setdefault(phrase.kind, []).append((start, end))
        if gapped and seen:
            for before in seen:  # in the order of the text, so that hits come in the same order every time
                for phrase in gapped.get(before, ()):
                    piece = phrase.last
                    if (left or not piece.bound_left) and (right or not piece.bound_right):
                        begin = _begin(phrase, start, seen)
                        if begin is not None and (
                            not phrase.before[0].clause_start or _at_clause_start(text, begin, lexicon)
                        ):
                            hits.setdefault(phrase.kind, []).append((begin, end))
        if opens:
            seen.setdefault(literal, []).append((start, end, left, right))
    spared = hits.get("except")
    if spared:
        for kind in list(hits):
            if kind != "except":
                kept = [h for h in hits[kind] if not any(a <= h[0] and h[1] <= b for a, b in spared)]
                if kept:
                    hits[kind] = kept
                else:
                    del hits[kind]
    return hits


def _begin(phrase: _Phrase, start: int, seen: _Seen) -> int | None:
    """Where a phrase begins whose last piece starts at `start`; ``None`` where its earlier pieces are not near."""
    for piece in reversed(phrase.before):
        near = next(
            (
                (begin, end)
                for begin, end, left, right in reversed(seen.get(piece.literal, ()))
                if end <= start and (left or not piece.bound_left) and (right or not piece.bound_right)
            ),
            None,
        )
        if near is None or start - near[1] > phrase.gap:
            return None
        start = near[0]
    return start


def opener_of(text: str, lexicon: Lexicon) -> str | None:
    """The longest opener that a text begins with, something behind it."""
    candidates = lexicon.openers.get(text[:1], ())
    if not text.startswith(candidates):
        return None
    for opener in candidates:
        if text.startswith(opener):
            rest = text[len(opener) :]
            if rest and (rest[0] in EDGE or NO_SPACES.match(opener[-1])):
                return opener
    return None


def _at_clause_start(text: str, start: int, lexicon: Lexicon) -> bool:
    before = text[:start].rstrip(" ")
    return not before or before[-1] in _CLAUSE_STARTS or ends_with_opener(before, lexicon)


def ends_with_opener(text: str, lexicon: Lexicon) -> bool:
    """Whether a text ends with an opener, as a word of its own."""
    for opener in lexicon.openers_by_end.get(text[-1:], ()):
        if text.endswith(opener) and (len(text) == len(opener) or is_boundary(text[-len(opener) - 1], opener[0])):
            return True
    return False


def is_word(char: str) -> bool:
    """Whether a character belongs to a word: letters, digits, and the marks that stand on or beside letters."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


@lru_cache(maxsize=16384)
def is_boundary(outside: str, inside: str) -> bool:
    """Whether a word may end between two characters: at a character that belongs to no word, between scripts without
    spaces, and where such a script or any other than Latin begins behind an ASCII letter."""
    if not is_word(outside) or NO_SPACES.match(outside):
        return True
    return inside.isascii() and outside > "ɏ" and not "Ḁ" <= outside <= "ỿ"
