"""Does an answer abstain? ("The passages do not say", "I don't know", "unanswerable")

The phrases live in one readable table a language, ``abstention_phrases/<code>.yaml``; this file is the reading of them.
An answer is folded (case, width, apostrophes, Arabic letter variants), cut into sentences, and searched once with an
Aho-Corasick automaton that holds the phrases of the answer's language and of English. A sentence abstains when

- it *is* a ``bare`` phrase ("unknown."), apart from ``openers`` in front;
- it holds a phrase that ``abstains`` by itself ("I don't know"), unless somebody is reported to say it or it is quoted;
- it speaks of the ``material`` and says that it is ``silent`` ("the passages do not mention ...").

A turn inside the sentence ("..., **but** it was built in 1889") or a concession before it makes it an answer again. The
answer as a whole abstains when its first sentence of substance does, or when a later one does and no sentence before it
answers directly; what stands behind a last "Answer:" decides alone.

Every step is linear in the length of the text, of which at most the first and last :data:`HEAD` and :data:`TAIL`
characters are read: an abstention stands at the front or at the end of what a model writes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

__all__ = ["LANGUAGES", "is_abstention", "starts_with_yes_or_no", "states_presence"]

HEAD, TAIL = 2000, 1000
GAP = 45  # characters that " ... " in a phrase may stand for: about seven words

LANGUAGES: tuple[str, ...] = tuple(
    "ar bn ca cs de en eo es eu fa fi fr he hi hu id it ja ko la lt ms pl pt ro ru sd sr sw te th tr ur vi yo yue zh".split()
)
"""Codes with a phrase table: the union of NoMIRACL's and mFAVA's languages."""

_PHRASE_KEYS = ("material", "silent", "abstains", "but", "although", "reported", "offer", "except", "present")
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
        **dict.fromkeys("ىيےې", "ی"),
        "ك": "ک",
        "ة": "ه",
        "ہ": "ه",
        "ھ": "ه",
        "ۀ": "ه",
        **dict.fromkeys(map(chr, (*range(0x064B, 0x0653), 0x0640, 0x0670)), None),  # vowel marks, tatweel
        **dict.fromkeys(map(chr, range(0x05B0, 0x05C3)), None),  # Hebrew points
        **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad", None),
        **dict.fromkeys("*_#", " "),  # Markdown
        **dict.fromkeys("‐‑‒–—―", "-"),
    }
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_SPACES = re.compile(r"[^\S\n]+")
# Not behind a single letter or a short number: "J. S. Bach", "im 15. Jahrhundert", "V. mendean".
_SENTENCE_END = re.compile(
    r"(?<![.!?])(?<!\W\w)(?<!\W\d\d)(?<!\W[ivx]{2})(?<!\W[ivx]{3})[.!?]+(?=[\s\"')\]]|$)|[。؟۔।॥\n;؛｡…]+"
)
_EDGE = " \t\n.,:;!?\"'()[]{}<>|/\\-=~+&。、،؛؟।॥…·・•✓✗❌✅🤷"
_CLAUSE_STARTS = frozenset(".,:;!?\"'([-،、。؛।\n")
_DOUBLE_QUOTED = re.compile(r'"[^"\n]{0,200}"')
_SINGLE_QUOTED = re.compile(r"(?<![^\W_])'[^\n]{1,120}?'(?![^\W_])")
_TITLE = re.compile(r"\b[A-Z][a-z]*(?:['’][a-z]+)?(?: [A-Z][a-z]*(?:['’][a-z]+)?){2,12}")
_MASK = "\x00"


def is_abstention(text: str | None, language: str | None = None) -> bool:
    """Whether an answer says that it cannot answer.

    Args:
        text: a model's answer in any language; ``None``, blank and non-text answers do not abstain (they say nothing).
        language: its ISO 639 code (``"de"``, also ``"de-AT"``), which adds that language's phrases to the English ones;
            ``None`` or a code without a table: the phrases of all :data:`LANGUAGES`.

    Returns:
        ``True`` for an abstention, ``False`` for an answer, also for one that contains words of not-knowing
        ("The author is unknown, but the work dates from the 15th century").
    """
    if not isinstance(text, str) or not text:
        return False
    if len(text) > HEAD + TAIL:
        text = text[:HEAD] + "\n" + text[-TAIL:]
    return _reads_as_abstention(text, _known(language))


@lru_cache(maxsize=8192)  # models repeat themselves: most abstentions of a run are the same few sentences
def _reads_as_abstention(text: str, language: str | None) -> bool:
    lexicon = _lexicon(language)
    if not _decide(fold(text, lexicon.fold_marks), lexicon):
        return False
    # A title in capitals ("I Don't Know How She Does It is a film") is a name, not a statement.
    masked = _mask_titles(text)
    return masked == text or _decide(fold(masked, lexicon.fold_marks), lexicon)


def starts_with_yes_or_no(text: str, language: str | None = None) -> str | None:
    """``"yes"`` or ``"no"`` where an answer opens with that particle, in its language or in English; else ``None``."""
    lexicon = _lexicon(_known(language))
    head = fold(text[:200], lexicon.fold_marks).lstrip(_EDGE)
    for name, particles in (("yes", lexicon.yes), ("no", lexicon.no)):
        for particle in particles:
            if head.startswith(particle) and (
                len(head) == len(particle) or _boundary(head[len(particle)], particle[-1])
            ):
                return name
    return None


def states_presence(text: str, language: str | None = None) -> bool:
    """Whether an answer says that the passages do answer ("the answer is present in passage 3")."""
    lexicon = _lexicon(_known(language))
    return "present" in _search(fold(text[: HEAD + TAIL], lexicon.fold_marks), lexicon)


def fold(text: str, marks: bool = False) -> str:
    """Fold what does not distinguish phrases: case, width, apostrophes, quotes, Arabic variants, Markdown, white space.

    Args:
        marks: also drop combining marks (tone marks of Yoruba).
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold().translate(_FOLD)
    if marks:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return _SPACES.sub(" ", _CONTROL.sub(" ", text))


def _known(language: str | None) -> str | None:
    code = re.split(r"[-_]", language.lower(), maxsplit=1)[0] if language else None
    return code if code in LANGUAGES else None


# --------------------------------------------------------------------------------------------------- the phrase tables


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
    fold_marks: bool = False
    languages: tuple[str, ...] = field(default=())


@lru_cache(maxsize=None)
def phrases(language: str) -> dict[str, Any]:
    """The phrase table of one language.

    Raises:
        ValueError: an unknown key, or a value that is not a list of phrases; it names the file and the key.
    """
    import yaml

    name = f"abstention_phrases/{language}.yaml"
    table = yaml.safe_load(resources.files("custom_metrics").joinpath(name).read_text("utf-8"))
    unknown = set(table) - _KEYS
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}; known are {sorted(_KEYS)}")
    for key in (*_PHRASE_KEYS, *_LINE_KEYS):
        if not isinstance(table.get(key, []), list) or not all(isinstance(p, str) for p in table.get(key, [])):
            raise ValueError(f"{name}: {key!r} must be a list of phrases (quote words that YAML reads otherwise)")
    return table


@lru_cache(maxsize=None)
def _lexicon(language: str | None) -> Lexicon:
    codes = LANGUAGES if language is None else tuple(dict.fromkeys((language, "en")))
    return build_lexicon([phrases(code) for code in codes])


def build_lexicon(tables: Sequence[dict[str, Any]]) -> Lexicon:
    """Compile phrase tables; `fold_marks` is honoured where the first table asks for it or all are searched."""
    import ahocorasick

    marks = len(tables) <= 2 and bool(tables[0].get("fold_marks"))
    closing: dict[str, list[_Phrase]] = {}
    opening: set[str] = set()
    lines: dict[str, dict[str, None]] = {key: {} for key in _LINE_KEYS}
    for table in tables:
        spaces = table.get("spaces", True)
        foldings = (marks, True) if table.get("fold_marks") else (marks,)
        for kind in _PHRASE_KEYS:
            for phrase in table.get(kind, []):
                for pieces in {_pieces(phrase, spaces, folded) for folded in foldings}:
                    if not pieces:
                        raise ValueError(f"{table['language']}: the phrase {phrase!r} of {kind!r} is empty")
                    *before, last = pieces
                    closing.setdefault(last.literal, []).append(_Phrase(kind, last, tuple(before)))
                    opening.update(piece.literal for piece in before)
        for key in _LINE_KEYS:
            for phrase in table.get(key, []):
                folded = fold(phrase, marks).strip(_EDGE)
                if folded:
                    lines[key][folded] = None
    automaton = ahocorasick.Automaton()
    for literal in opening | closing.keys():
        automaton.add_word(literal, (literal, literal in opening, tuple(dict.fromkeys(closing.get(literal, ())))))
    automaton.make_automaton()
    markers = "|".join(sorted(map(re.escape, lines["answer_marker"]), key=len, reverse=True))
    return Lexicon(
        automaton=automaton,
        bare=frozenset(lines["bare"]),
        openers=_grouped(lines["openers"], 0),
        openers_by_end=_grouped(lines["openers"], -1),
        yes=tuple(lines["yes"]),
        no=tuple(lines["no"]),
        answer_marker=re.compile(rf"(?:{markers})\s?:\s?" if markers else r"(?!)"),
        fold_marks=marks,
        languages=tuple(table["language"] for table in tables),
    )


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


# ------------------------------------------------------------------------------------------------------- the decision


@dataclass(slots=True)
class _Sentence:
    """A sentence and the phrases in it: kind to their (start, end), in order of their ends."""

    text: str
    bare: bool
    hits: dict[str, list[tuple[int, int]]]

    def first(self, kind: str) -> tuple[int, int] | None:
        found = self.hits.get(kind)
        return found[0] if found else None

    @property
    def abstains_alone(self) -> bool:
        return self.bare or "abstains" in self.hits


def _decide(text: str, lexicon: Lexicon) -> bool:
    text = _unquote(_last_answer(text, lexicon).strip())
    text = _mask_quotes(text, lexicon)
    sentences = [
        _Sentence(part, _is_bare(part, lexicon), _search(part, lexicon))
        for part in _SENTENCE_END.split(text)
        if len(part) > 1
    ]
    if not any(s.abstains_alone or "silent" in s.hits for s in sentences):
        return _is_bare(text, lexicon)
    spoke_of_material = abstained = False
    answers = 0  # sentences that answer directly
    for sentence in sentences:
        material = "material" in sentence.hits
        if _abstains(sentence, spoke_of_material):
            turns = answers == 1 and _opens(sentence, "but", 4)
            if not answers or turns or sentence.abstains_alone:
                abstained, answers = True, 0
        elif not sentence.text.strip(_EDGE + _MASK):
            pass
        elif abstained:
            # After an abstention only a turn ("However, ...") can still be an answer.
            if _opens(sentence, "but", 30) and not material and "offer" not in sentence.hits:
                return False
        elif "present" in sentence.hits or not (
            material or "offer" in sentence.hits or _only_openers(sentence.text, lexicon)
        ):
            answers += 1
        spoke_of_material = spoke_of_material or material
    return abstained


def _last_answer(text: str, lexicon: Lexicon) -> str:
    """What stands behind the last "Answer:", where something does."""
    if ":" not in text:
        return text
    last = None
    for last in lexicon.answer_marker.finditer(text):
        pass
    if last is None:
        return text
    start = last.start()
    if start and _is_word(text[start - 1]) and text[start - 1].isascii() == text[start].isascii():
        return text
    tail = text[last.end() :]
    return tail if tail.strip(_EDGE) else text


def _unquote(text: str) -> str:
    if len(text) > 2 and text[0] in "\"'" and text[-1] in "\"'." and text.count('"') <= 2:
        return text.strip(_EDGE)
    return text


def _is_bare(text: str, lexicon: Lexicon) -> bool:
    """Whether a sentence is a bare phrase, behind at most three openers."""
    text = text.strip(_EDGE)
    if text in lexicon.bare:
        return True
    if not text or len(text) > 120:
        return False
    for _ in range(3):
        opener = _opener(text, lexicon)
        if opener is None:
            return False
        text = text[len(opener) :].strip(_EDGE)
        if text in lexicon.bare:
            return True
    return False


def _opener(text: str, lexicon: Lexicon) -> str | None:
    """The longest opener that a text begins with, something behind it."""
    candidates = lexicon.openers.get(text[:1], ())
    if not text.startswith(candidates):
        return None
    for opener in candidates:
        if text.startswith(opener):
            rest = text[len(opener) :]
            if rest and (rest[0] in _EDGE or not opener[-1].isascii()):
                return opener
    return None


def _only_openers(text: str, lexicon: Lexicon) -> bool:
    text = text.strip(_EDGE)
    return text in lexicon.openers.get(text[:1], ())


def _mask_quotes(text: str, lexicon: Lexicon) -> str:
    if '"' in text:
        text = _DOUBLE_QUOTED.sub(lambda match: _quoted(match, lexicon), text)
    if text.count("'") > 1:
        text = _SINGLE_QUOTED.sub(lambda match: _quoted(match, lexicon), text)
    return text


def _quoted(match: re.Match[str], lexicon: Lexicon) -> str:
    """Keep a quotation that is the speaker's own verdict (``the answer is "unknown".``), mask any other."""
    before = match.string[max(0, match.start() - 60) : match.start()].rstrip(" :,-\"'")
    after = match.string[match.end() : match.end() + 3].strip(" .!\"')")
    before = _SENTENCE_END.split(before)[-1].strip()
    own = not before or _ends_with_opener(before, lexicon)
    if own and (not after or match.string[match.end() : match.end() + 1] in "\n.。"):
        return " " + match[0][1:-1] + " "
    return _MASK


def _search(text: str, lexicon: Lexicon) -> dict[str, list[tuple[int, int]]]:
    """The phrases in a text: kind to their (start, end), in order of their ends."""
    hits: dict[str, list[tuple[int, int]]] = {}
    seen: dict[str, list[tuple[int, int, bool, bool]]] = {}  # literal -> where, and whether words begin and end there
    size = len(text)
    for last, (literal, opens, phrases) in lexicon.automaton.iter(text):
        end = last + 1
        start = end - len(literal)
        left = start == 0 or _boundary(text[start - 1], literal[0])
        right = end == size or _boundary(text[end], literal[-1])
        if opens:
            seen.setdefault(literal, []).append((start, end, left, right))
        for kind, piece, before in phrases:
            if (piece.bound_left and not left) or (piece.bound_right and not right):
                continue
            begin = _begin(before, start, seen) if before else start
            if begin is None:
                continue
            if (before[0] if before else piece).clause_start and not _at_clause_start(text, begin, lexicon):
                continue
            hits.setdefault(kind, []).append((begin, end))
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


def _begin(before: tuple[_Piece, ...], start: int, seen: dict[str, list[tuple[int, int, bool, bool]]]) -> int | None:
    """Where a phrase begins whose last piece starts at `start`; ``None`` where its earlier pieces are not near."""
    for piece in reversed(before):
        for begin, end, left, right in reversed(seen.get(piece.literal, ())):
            if end <= start and (left or not piece.bound_left) and (right or not piece.bound_right):
                break
        else:
            return None
        if start - end > GAP:
            return None
        start = begin
    return start


def _abstains(sentence: _Sentence, spoke_of_material: bool) -> bool:
    """Whether one sentence abstains, given whether one before it spoke of the material."""
    if sentence.bare:
        return True
    text, hits = sentence.text, sentence.hits
    spans = list(hits.get("abstains", ()))
    reported = sentence.first("reported")
    if reported:
        spans = [span for span in spans if span[0] < reported[0]]
    if "silent" in hits and ("material" in hits or spoke_of_material):
        spans += hits["silent"]
    if not spans:
        return False
    last = max(end for _, end in spans)
    first = min(start for start, _ in spans)
    for start, end in hits.get("but", ()):
        if start >= last and _is_answer(text[end:], end, hits):
            return False
    although = sentence.first("although")
    if although and although[0] < first:
        if not _speaks_of(0, although[0], hits) and len(text[: although[0]].strip(_EDGE)) > 1:
            return False  # "Paris, although the text does not say so."
        comma = min((i for i in (text.find(c, last) for c in ",،、，") if i >= 0), default=-1)
        if comma >= 0 and _is_answer(text[comma + 1 :], comma + 1, hits):
            return False
    return True


def _is_answer(rest: str, offset: int, hits: dict[str, list[tuple[int, int]]]) -> bool:
    """Whether what follows a turn answers: some words, and nothing of the material, of not knowing or to the user."""
    return len(rest.strip(_EDGE)) > 2 and not _speaks_of(offset, offset + len(rest), hits)


def _speaks_of(start: int, end: int, hits: dict[str, list[tuple[int, int]]]) -> bool:
    """Whether between two places the material, not knowing or the user comes up."""
    return any(
        start <= at < end for kind in ("material", "offer", "abstains", "silent") for at, _ in hits.get(kind, ())
    )


def _opens(sentence: _Sentence, kind: str, within: int) -> bool:
    lead = len(sentence.text) - len(sentence.text.lstrip(_EDGE))
    return any(start - lead <= within for start, _ in sentence.hits.get(kind, ()))


def _at_clause_start(text: str, start: int, lexicon: Lexicon) -> bool:
    before = text[:start].rstrip(" ")
    return not before or before[-1] in _CLAUSE_STARTS or _ends_with_opener(before, lexicon)


def _ends_with_opener(text: str, lexicon: Lexicon) -> bool:
    for opener in lexicon.openers_by_end.get(text[-1:], ()):
        if text.endswith(opener) and (len(text) == len(opener) or _boundary(text[-len(opener) - 1], opener[0])):
            return True
    return False


@lru_cache(maxsize=4096)
def _is_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def _boundary(outside: str, inside: str) -> bool:
    """Whether a word may end between two characters. Latin letters next to another script end where it begins."""
    return not _is_word(outside) or (inside.isascii() and outside > "ɏ" and not "Ḁ" <= outside <= "ỿ")


def _mask_titles(text: str) -> str:
    def mask(match: re.Match[str]) -> str:
        alone = match[0] == text.strip(" .!*\"'“”")
        return match[0] if alone else _MASK

    return _TITLE.sub(mask, text)
