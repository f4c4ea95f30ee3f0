"""Does an answer abstain? ("The passages do not say", "I don't know", "unanswerable")

The phrases live in one readable table a language, ``abstention_phrases/<code>.yaml``; `phrases.py` finds them, this file
decides what they mean. An answer is cut into sentences. A sentence abstains when

- it *is* a ``bare`` phrase ("unknown."), apart from ``openers`` in front;
- it holds a phrase that ``abstains`` by itself ("I don't know"), unless somebody is reported to say it or it is quoted;
- it speaks of the ``material`` and says that it is ``silent`` ("the passages do not mention ...").

A turn inside the sentence ("..., **but** it was built in 1889") or a concession before it makes it an answer again. The
answer as a whole abstains when its first sentence of substance does; when a later one does by itself ("I don't know", also
behind facts that are beside the question); or when a later one finds the material silent and no sentence before it answers
directly. What stands behind a last "Answer:" decides alone. English phrases are looked for in every answer:
models often answer in English whatever they were asked in.

At most the first :data:`HEAD` and the last :data:`TAIL` characters of a text are read, so the time is bounded however long
it is: an abstention stands at the front or at the end of what a model writes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from custom_metrics.folding import EDGE, NO_SPACES, is_boundary
from custom_metrics.matching import Hits
from custom_metrics.phrases import LANGUAGES, Lexicon, known, lexicon_of, likely_languages

__all__ = ["LANGUAGES", "abstains_elsewhere", "affirms_presence", "denies_presence", "is_abstention"]

HEAD, TAIL = 2000, 1000
LONGEST_BARE = 120  # characters of a bare phrase and what opens it
EARLY = 30  # characters at the front of a sentence in which a "however" still turns it
CITATION, CITED = 60, 12  # "According to the given passages" is no longer than that; nor is "[3] and [4]" behind it
MOST_STATEMENTS = 2  # beside one about the material's silence; a text that states more is an essay, not an abstention

_MARKS = re.compile(r"[.!?。؟۔।॥\n;؛｡…]+")
_COMMA = re.compile("[,،、]")
_DOUBLE_QUOTED = re.compile(r'"[^"\n]{0,200}"')
_SINGLE_QUOTED = re.compile(r"(?<![^\W_])'[^\n]{1,120}?'(?![^\W_])")
_TITLE = re.compile(r"\b[A-Z][a-z]*(?:['’][a-z]+)?(?: [A-Z][a-z]*(?:['’][a-z]+)?){2,12}")
_NUMBERED = re.compile(r"(?<=\w)( ?\[?\d)")  # behind a word: "passage 3", "文章[2]"
_TRIGGERS = frozenset(("abstains", "silent", "lacks"))  # without any of these, no sentence abstains
# A digit, a capital inside a sentence, a script without capitals or spaces: what could be a name or a number.
_NAMES = re.compile(r"\d|(?<=[^\W.!?] )[^\W\d_a-z]|(?<=, )[^\W\d_a-z]|" + NO_SPACES.pattern)
_SHORT_NO = 2  # letters
_MASK = "\x00"  # stands for what was quoted


def is_abstention(text: str | None, language: str | None = None) -> bool:
    """Whether an answer says that it cannot answer.

    Reasoning blocks are not looked for: give it what :func:`custom_metrics.response.final_answer` leaves.

    Args:
        text: a model's answer in any language; ``None``, blank and non-text answers do not abstain (they say nothing).
        language: its ISO 639 code (``"de"``, also ``"de-AT"``); phrases of that language and of English count. ``None``
            or a code without a table: those of the two :data:`LANGUAGES` that the text most looks like.

    Returns:
        ``True`` for an abstention, ``False`` for an answer, also for one that contains words of not-knowing
        ("The author is unknown, but the work dates from the 15th century").
    """
    if not isinstance(text, str) or not text:
        return False
    if len(text) > HEAD + TAIL:
        text = text[:HEAD] + "\n" + text[-TAIL:]
    return _reads_as_abstention(text, known(language))


@lru_cache(maxsize=8192)  # models repeat themselves: most abstentions of a run are the same few sentences
def _reads_as_abstention(text: str, language: str | None) -> bool:
    return any(_abstains_in(text, lexicon) for lexicon in _lexicons(text, language))


def abstains_elsewhere(text: str, language: str | None) -> bool:
    """Whether an answer abstains, or says a mere "no", in another language than it was asked for.

    Of all :data:`LANGUAGES`, the two count that the text most looks like; none where it looks most like its own. A "no" of
    two letters ("ne", "la") is as often a name or a symbol, and does not count; one of a single Han character does.

    Args:
        text: an answer that neither affirms nor abstains in its own language and in English.
        language: that language; ``None`` gives ``False``, since :func:`is_abstention` then reads all of them.
    """
    own = known(language)
    if own is None or not text:
        return False
    if len(text) > HEAD + TAIL:
        text = text[:HEAD] + "\n" + text[-TAIL:]
    likely = likely_languages(text)
    if likely[0] == own:
        return False
    lexicons = [lexicon_of(code) for code in likely if code not in (own, "en")]
    if not lexicons or any(_affirms_in(text, lexicon) for lexicon in lexicons):
        return False
    if any(_abstains_in(text, lexicon) for lexicon in lexicons):
        return True
    short = len(text.strip(EDGE)) <= _SHORT_NO and not NO_SPACES.search(text)
    return not short and any(_denies_in(text, lexicon) for lexicon in lexicons)


def _lexicons(text: str, language: str | None) -> list[Lexicon]:
    return [lexicon_of(code) for code in ((language,) if language else likely_languages(text))]


def _abstains_in(text: str, lexicon: Lexicon) -> bool:
    if not _decide(lexicon.fold(text), lexicon):
        return False
    # A title in capitals ("I Don't Know How She Does It is a film") is a name, not a statement.
    masked = _mask_titles(text)
    return masked == text or _decide(lexicon.fold(masked), lexicon)


def denies_presence(text: str, language: str | None = None) -> bool:
    """Whether an answer is a "no" to the answer's being there: bare, with a few words that name nothing ("No, it does
    not"), or with the prompt's own ("No, answer is present")."""
    return any(_denies_in(text[: HEAD + TAIL], lexicon) for lexicon in _lexicons(text[:HEAD], known(language)))


def _denies_in(text: str, lexicon: Lexicon) -> bool:
    rest = _behind(lexicon.no, lexicon.fold(text).strip(EDGE))
    if rest is None:
        return False
    hits = lexicon.search(rest)
    if not rest or "present" in hits or (len(rest.split()) <= 4 and not _NAMES.search(text.strip())):
        return True
    # "No - the contexts are about something else"; but "No, according to context 3 it is Madrid" answers
    numbered = _numbered(rest)
    return any(end not in numbered for _, end in hits.get("material", ()))


def affirms_presence(text: str, language: str | None = None) -> bool:
    """Whether an answer begins with a "yes" and its first sentence does not take that back ("Yes, I don't know")."""
    return any(_affirms_in(text[: HEAD + TAIL], lexicon) for lexicon in _lexicons(text[:HEAD], known(language)))


def _affirms_in(text: str, lexicon: Lexicon) -> bool:
    head = lexicon.fold(text).strip(EDGE)
    if _behind(lexicon.yes, head) is None:
        return False
    first, _ = next(iter(_sentences(head)), (head, False))
    return not _decide(first, lexicon)


def _behind(particles: tuple[str, ...], text: str) -> str | None:
    """What stands behind a particle and a mark at the start of a text; ``None`` where there is no such start."""
    for particle in particles:
        if text == particle:
            return ""
        if text.startswith(particle):
            rest = text[len(particle) :].lstrip()
            if rest[:1] and rest[0] in EDGE:
                return rest
    return None


@dataclass(slots=True)
class _Sentence:
    text: str
    hits: Hits
    bare: bool  # it is a bare phrase
    asks: bool  # it ends with a question mark

    @property
    def abstains_alone(self) -> bool:
        return self.bare or "abstains" in self.hits

    def opens_with(self, kind: str, within: int) -> bool:
        """Whether a phrase of that kind stands in the first few characters."""
        lead = len(self.text) - len(self.text.lstrip(EDGE))
        return any(start - lead <= within for start, _ in self.hits.get(kind, ()))


def _decide(text: str, lexicon: Lexicon) -> bool:
    text = _stated(text, lexicon)
    sentences = [_read(part, asks, lexicon) for part, asks in _sentences(text)]
    for sentence in sentences:
        if sentence.bare or not _TRIGGERS.isdisjoint(sentence.hits):
            break
    else:
        return len(sentences) != 1 and len(text) <= LONGEST_BARE and _is_bare(text, lexicon.search(text))
    spoke_of_material = abstained = only_bare = alone = False
    answers = 0  # sentences that answer directly, since the last abstention
    statements = 0  # all that do
    for sentence in sentences:
        material = "material" in sentence.hits
        if _abstains(sentence, spoke_of_material, lexicon):
            turns = answers == 1 and sentence.opens_with("but", 4)
            if not answers or turns or sentence.abstains_alone:
                only_bare = sentence.bare and "abstains" not in sentence.hits and (only_bare or not abstained)
                alone = alone or sentence.abstains_alone
                abstained, answers = True, 0
        elif sentence.asks or not sentence.text.strip(EDGE + _MASK):
            continue
        elif material and _cites(sentence, lexicon):
            answers += 1
            statements += 1
            material = False  # named as a source, not spoken of
        elif _says_something(sentence, lexicon):
            # After an abstention only a turn ("However, ...") can still be an answer; after a mere "None." anything.
            if abstained and (only_bare or sentence.opens_with("but", EARLY)):
                return False
            answers += 1
            statements += 1
        spoke_of_material = spoke_of_material or material
    return abstained and (alone or statements <= MOST_STATEMENTS)


def _stated(text: str, lexicon: Lexicon) -> str:
    """What a folded text says for itself: behind the last "Answer:", without what it quotes."""
    return _mask_quotes(_unquote(_last_answer(text, lexicon).strip()), lexicon)


def sentences_of(text: str, lexicon: Lexicon) -> list[str]:
    """The folded sentences that decide about a text, and the text as a whole."""
    stated = _stated(lexicon.fold(text), lexicon)
    sentences = [sentence for sentence, _ in _sentences(stated)]
    return [*sentences, stated] if len(sentences) > 1 else sentences


def _sentences(text: str) -> list[tuple[str, bool]]:
    """Sentences without their ends, and whether each asks."""
    found, start = [], 0
    for mark in _MARKS.finditer(text):
        if _ends_sentence(text, mark.start(), mark.end()):
            if mark.start() - start > 1:
                found.append((text[start : mark.start()], "?" in mark[0] or "؟" in mark[0]))
            start = mark.end()
    if len(text) - start > 1:
        found.append((text[start:], False))
    return found


def _ends_sentence(text: str, start: int, end: int) -> bool:
    """Whether a run of marks ends a sentence: not in "3.5", and not behind "J.", "15." or "V." ("V. mendean")."""
    marks = text[start:end]
    if marks != "." and marks.strip(".!?"):
        return True
    after = text[end : end + 1]
    if after and after not in " \n\"')]" and not (marks != "." and "\u3040" <= after <= "\u9fff"):
        return False
    if marks != "." or not after:
        return True
    word = text[max(0, start - 4) : start].split(" ")[-1]
    short = len(word) < 2 or (len(word) < 3 and word.isdigit()) or (len(word) < 4 and set(word) <= set("ivx"))
    return not (word and short)


def _read(text: str, asks: bool, lexicon: Lexicon) -> _Sentence:
    hits = lexicon.search(text)
    return _Sentence(text, hits, _is_bare(text, hits), asks)


def _says_something(sentence: _Sentence, lexicon: Lexicon) -> bool:
    """Whether a sentence that does not abstain could be an answer: not about the material, not to the user."""
    if "present" in sentence.hits:
        return True
    return not (
        "material" in sentence.hits
        or "offer" in sentence.hits
        or _only_openers(sentence.text, len(sentence.text), sentence.hits)
    )


def _cites(sentence: _Sentence, lexicon: Lexicon) -> bool:
    """Whether a sentence names the material as its source ("According to passage 3, ...") and says more than that."""
    start, end = sentence.hits["material"][0]
    lead = _skip_edge(sentence.text, 0)
    comma = _COMMA.search(sentence.text, end, end + CITED)  # "passage [3]," may stand before it
    return (
        start < CITATION
        and comma is not None
        and any(begin == lead for begin, _ in sentence.hits.get("citing", ()))
        and len(sentence.text) - comma.end() > 8
        and "offer" not in sentence.hits
    )


def _last_answer(text: str, lexicon: Lexicon) -> str:
    """What stands behind the last "Answer:", where something does."""
    if ":" not in text:
        return text
    markers = deque(lexicon.answer_marker.finditer(text), maxlen=1)
    if not markers:
        return text
    last = markers[0]
    if last.start() and not is_boundary(text[last.start() - 1], text[last.start()]):
        return text
    tail = text[last.end() :]
    return tail if tail.strip(EDGE) else text


def _unquote(text: str) -> str:
    """An answer that stands in quotation marks as a whole, without them."""
    if text[:1] not in ("'", '"'):
        return text
    inner = text.rstrip(".")[1:-1]
    return inner if text.rstrip(".")[-1:] == text[0] and '"' not in inner else text


def _is_bare(text: str, hits: Hits) -> bool:
    """Whether a sentence is a bare phrase, behind at most three openers."""
    if "bare" not in hits:
        return False
    ends = len(text.rstrip(EDGE))
    whole = {start for start, end in hits["bare"] if end == ends}
    if not whole:
        return False
    starts = {_skip_edge(text, 0)}
    openers = hits.get("openers", ()) if ends <= LONGEST_BARE else ()
    for _ in range(3):
        if whole & starts:
            return True
        starts = {
            _skip_edge(text, end)
            for start, end in openers
            if start in starts and (text[end : end + 1] in EDGE or NO_SPACES.match(text[end - 1]))
        }
    return bool(whole & starts)


def _skip_edge(text: str, start: int) -> int:
    """Where the first character from a place on stands that is no mark."""
    return len(text) - len(text[start:].lstrip(EDGE))


def _only_openers(text: str, end: int, hits: Hits) -> bool:
    """Whether a sentence up to some place is an opener and no more."""
    return (_skip_edge(text, 0), len(text[:end].rstrip(EDGE))) in hits.get("openers", ())


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
    before = _MARKS.split(before)[-1].strip()
    own = not before or any(end == len(before) for _, end in lexicon.search(before).get("openers", ()))
    if own and (not after or match.string[match.end() : match.end() + 1] in "\n.。"):
        return " " + match[0][1:-1] + " "
    return _MASK


def _abstains(sentence: _Sentence, spoke_of_material: bool, lexicon: Lexicon) -> bool:
    """Whether one sentence abstains, given whether one before it spoke of the material."""
    if sentence.bare:
        return True
    text, hits = sentence.text, sentence.hits
    spans = [span for span in hits.get("abstains", ()) if not _is_reported(span[0], sentence)]
    if "material" in hits or spoke_of_material:
        spans += hits.get("silent", [])
        if "lacks" in hits and not ("material" in hits and _cites(sentence, lexicon)):
            spans += hits["lacks"]
    if not spans:
        return False
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    for start, end in hits.get("but", ()):
        if start >= last and _is_answer(text[end:], end, hits):
            return False
    for start, end in hits.get("although", ())[:1]:
        lead = text[:start]
        if start >= first or _COMMA.search(text, end, first):
            break  # the concession is over before the abstention begins
        if len(lead.strip(EDGE)) > 1 and not _only_openers(text, start, hits) and not _speaks_of(0, start, hits):
            return False  # "Paris, although the text does not say so."
        comma = _COMMA.search(text, last)
        if comma and _is_answer(text[comma.end() :], comma.end(), hits):
            return False
    return True


def _is_reported(start: int, sentence: _Sentence) -> bool:
    """Whether a verb of saying stands before a phrase in its clause ("he said I don't know")."""
    return any(
        end <= start and not _COMMA.search(sentence.text, end + 2, start)
        for _, end in sentence.hits.get("reported", ())
    )


def _is_answer(rest: str, offset: int, hits: Hits) -> bool:
    """Whether what follows a turn answers: some words, and nothing of the material, of not knowing or to the user.

    A numbered passage ("but context 5 says that ...") is a source, not the material as such.
    """
    numbered = {offset + end for end in _numbered(rest)}
    return len(rest.strip(EDGE)) > 1 and not _speaks_of(offset, offset + len(rest), hits, numbered)


def _numbered(text: str) -> set[int]:
    """Where words end that a number follows."""
    return {match.start(1) for match in _NUMBERED.finditer(text)}


def _speaks_of(start: int, end: int, hits: Hits, numbered: Collection[int] = ()) -> bool:
    """Whether between two places the material (passages with a number apart), not knowing or the user comes up."""
    return any(
        start <= first < end and not (kind == "material" and last in numbered)
        for kind in ("material", "offer", *_TRIGGERS)
        for first, last in hits.get(kind, ())
    )


def _mask_titles(text: str) -> str:
    alone = text.strip(" .!*\"'“”")
    return _TITLE.sub(lambda match: match[0] if match[0] == alone else _MASK, text)
