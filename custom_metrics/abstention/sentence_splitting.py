"""Splitting of an answer into sentences.

Text that is not the answer's own statement is removed first: quotations, titles, and the steps before a last "Answer:".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from custom_metrics.abstention.folding import EDGE, NO_SPACES, is_boundary
from custom_metrics.abstention.phrases import Lexicon
from custom_metrics.abstention.sentence_reading import TRIGGERS, sources_of

MASK = "\x00"  # stands for what was quoted
ABSTENTION = "\x01"  # for a quoted abstention, until it is known whether the text denies it
_LONGEST_VERDICT = 60  # characters
_DENIED_AFTER, _DENIED_BEFORE = 40, 24  # characters between a "not" and the quotation that it denies
_NEXT_TO = 2
_CLOSES = 12
_REASON = 200  # characters behind a quotation in which a passage is named
_CLAUSE_END = re.compile(r"[.!?;:\n。؟۔।\x00\x01]| - ")
_PART_END = re.compile(_CLAUSE_END.pattern + "|[,،、]")
_CLOSING = r".!?。؟۔।॥\n;؛｡…"
_MARKS = re.compile(f"[{_CLOSING}]+")
_PIECE = re.compile(f"[^{_CLOSING}]*([{_CLOSING}]*)")
_ITEM = re.compile(r" (?=\d{1,2}\) )")
_BEHIND = frozenset(" \"')]")  # what may stand behind a sentence
_NUMERALS = frozenset("ivx")
_IN_QUOTES = re.compile(r"""(['"])([^"]*)\1\.*""")
_DOUBLE_QUOTED = re.compile(r'"[^"\n]{0,200}"')
_SINGLE_QUOTED = re.compile(r"(?<![^\W_])'[^\n]{1,120}?'(?![^\W_\uac00-\ud7a3])")  # Korean: "'...'고"
# "[A-Z](?<!\w[A-Z])" is "\b[A-Z]", found three times as fast: the search can go by the first character
_TITLE = re.compile(r"[A-Z](?<!\w[A-Z])[a-z]*(?:['’][a-z]+)?(?: [A-Z][a-z]*(?:['’][a-z]+)?){2,12}")


def stated_text(text: str, lexicon: Lexicon) -> str:
    """The part of a folded text that the speaker states: the text after the last "Answer:", or all of it where there is
    none. Quotations are replaced by :data:`MASK`, unless they are the speaker's own verdict."""
    marker = deque(lexicon.answer_marker.finditer(text), maxlen=1) if ":" in text else None
    if marker and (not (at := marker[0].start()) or is_boundary(text[at - 1], text[at])):
        behind = text[marker[0].end() :]
        text = behind if behind.strip(EDGE) else text
    return without_quotations(text.strip(), lexicon)


def without_quotations(text: str, lexicon: Lexicon) -> str:
    """A folded text with :data:`MASK` in place of quotations."""
    if quoted := _IN_QUOTES.fullmatch(text):  # as a whole
        text = quoted[2]
    if '"' in text:
        text = _DOUBLE_QUOTED.sub(lambda match: _quoted(match, lexicon), text)
    if text.count("'") > 1:
        text = _SINGLE_QUOTED.sub(lambda match: _quoted(match, lexicon), text)
    return _without_denied(text, lexicon) if ABSTENTION in text else text


def _without_denied(text: str, lexicon: Lexicon) -> str:
    """A text without quoted abstentions that it denies (`Not "I don't know": passage 7 says 1932`)."""
    kept, at = [], 0
    for quoted in re.finditer(ABSTENTION, text):
        if quoted.start() >= at and (denied := _denial(text, *quoted.span(), lexicon)):
            kept.append(text[at : max(at, denied[0])])
            at = denied[1]
    return "".join((*kept, text[at:])).replace(ABSTENTION, MASK).strip(EDGE)


def denies_quotation(text: str, lexicon: Lexicon) -> bool:
    """Whether a folded text without quotations denies one of them (`I would not say "Yes, ..."`)."""
    return any(_denial(text, *quoted.span(), lexicon) for quoted in re.finditer(MASK, text))


def _denial(text: str, start: int, end: int, lexicon: Lexicon) -> tuple[int, int] | None:
    """The (start, end) of a quotation at [start, end) and of the "not" that denies it, in front of it or behind it in the
    same clause.

    A "not" that may find the material silent denies only the quotation beside it (`As nobody is named, "I don't know"`),
    unless what follows names a passage that answers (`I'd rather not reply "I don't know", as context 2 ...`).
    """
    before = _CLAUSE_END.split(text[max(0, start - _DENIED_AFTER) : start])[-1]
    behind = _PART_END.split(text[end : end + _DENIED_BEFORE], maxsplit=1)[0]
    clause = before + " " + behind
    denials = lexicon.details(clause).get("denies", ())
    beside = [
        (first, last)
        for first, last in denials
        if 0 <= len(before) - last <= _NEXT_TO or 0 <= first - len(before) - 1 <= _NEXT_TO
    ]
    if not beside and denials:
        hits = lexicon.search(clause)
        silent = [place for kind in (*TRIGGERS, "bare") for place in hits.get(kind, ())]
        rest = text[end + len(behind) : end + _REASON]
        if "material" in hits or not _reports_passage(rest, lexicon):
            denials = [place for place in denials if not any(a <= place[0] and place[1] <= b for a, b in silent)]
    if not denials:
        return None
    first, last = min(first for first, _ in denials), max(last for _, last in denials)
    return min(start, start - len(before) + first), max(end, end + last - len(before) - 1)


def _reports_passage(text: str, lexicon: Lexicon) -> bool:
    hits = lexicon.search(text)
    sources = sources_of(text, hits)
    return TRIGGERS.isdisjoint(hits) and any(end in sources for _, end in hits.get("material", ()))


def split(text: str) -> Iterator[tuple[str, bool]]:
    """Each sentence of a text without its closing marks, and whether it ends with a question mark; those of one character
    are left out."""
    text = _ITEM.sub("\n", text) if ")" in text else text
    start, end, size = 0, 0, len(text)
    while end < size and (piece := _PIECE.match(text, end)):
        stop, end = piece.span(1)
        if end == size or _ends_sentence(text, stop, end):
            if stop - start > 1:
                yield text[start:stop], "?" in piece[1] or "؟" in piece[1]
            start = end


def _ends_sentence(text: str, start: int, end: int) -> bool:
    """Whether the marks at [start, end) end a sentence, with text behind them: not in "3.5", and not behind "J.", "15." or
    "V." ("V. mendean")."""
    marks, after = text[start:end], text[end]
    if marks != ".":
        return bool(marks.strip(".!?")) or after in _BEHIND or "\u3040" <= after <= "\u9fff"
    if after not in _BEHIND:
        return False
    word = text[max(0, start - 4) : start].split(" ")[-1]
    short = len(word) < 2 or (len(word) < 3 and word.isdigit()) or (len(word) < 4 and _NUMERALS.issuperset(word))
    return not (word and short)


def _quoted(match: re.Match[str], lexicon: Lexicon) -> str:
    """Keep a quotation that is the speaker's own verdict (``the answer is "unknown".``), mask any other."""
    before = match.string[max(0, match.start() - 60) : match.start()].rstrip(" :,-\"'")
    after = match.string[match.end() : match.end() + 3].strip(" .!\"')")
    before = _MARKS.split(before)[-1].strip()
    if match[0][1:-1].strip(EDGE) in (*lexicon.yes, *lexicon.no):
        return f" {match[0][1:-1]} "
    ends = not after or match.string[match.end() : match.end() + 1] in "\n.。"
    quoted = match[0][1:-1]
    clause = _PART_END.split(before)[-1]
    if ends and (
        not before
        or (
            any(end == len(before) for _, end in lexicon.search(before).get("openers", ()))
            and "denies" not in lexicon.details(clause)
        )
    ):
        return f" {quoted} "
    if not ends and NO_SPACES.match(after):  # "判定は「なし」**です**"
        rest = _MARKS.split(match.string[match.end() : match.end() + _CLOSES])[0]
        ends = (0, len(rest)) in lexicon.details(rest).get("verdict", ())
    lead = match.string[: match.start()]
    if ends and '"' not in lead and lead.count("(") == lead.count(")"):  # `I would go with "I don't know"`
        details = lexicon.details(clause)
        if "verdict" in details and "denies" not in details and "offer" not in lexicon.search(clause):
            return f" {quoted} "
    known = quoted.startswith("yes,") or len(quoted) > _LONGEST_VERDICT  # most quotations of a run
    mask = MASK if known or {"bare", "abstains"}.isdisjoint(lexicon.search(quoted)) else ABSTENTION
    return mask + "." if match[0][-2] in ".!?" and match.string[match.end() : match.end() + 1] == " " else mask


def mask_titles(text: str) -> str:
    """A text, not folded, with :data:`MASK` in place of three or more capitalised words in a row, unless they are all of
    it."""
    if not _TITLE.search(text):
        return text
    alone = text.strip(" .!*\"'“”")
    return _TITLE.sub(lambda match: match[0] if match[0] == alone else MASK, text)
