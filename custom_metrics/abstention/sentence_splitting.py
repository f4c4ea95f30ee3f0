"""Splitting of an answer into sentences.

Text that is not the answer's own statement is removed first: quotations, and the steps before a last "Answer:".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from custom_metrics.abstention.folding import EDGE, is_boundary
from custom_metrics.abstention.phrases import Lexicon

MASK = "\x00"  # stands for what was quoted
_CLOSING = r".!?。؟۔।॥\n;؛｡…"
_MARKS = re.compile(f"[{_CLOSING}]+")
_PIECE = re.compile(f"[^{_CLOSING}]*([{_CLOSING}]*)")
_ITEM = re.compile(r" (?=\d{1,2}\) )")
_BEHIND = frozenset(" \"')]")  # what may stand behind a sentence
_NUMERALS = frozenset("ivx")
_IN_QUOTES = re.compile(r"""(['"])([^"]*)\1\.*""")
_DOUBLE_QUOTED = re.compile(r'"[^"\n]{0,200}"')
_SINGLE_QUOTED = re.compile(r"(?<![^\W_])'[^\n]{1,120}?'(?![^\W_\uac00-\ud7a3])")  # Korean: "'...'고"


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
    return text


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
    if ends and (not before or any(end == len(before) for _, end in lexicon.search(before).get("openers", ()))):
        return f" {quoted} "
    behind = ends and match.string[: match.start()].rstrip().endswith(":")
    if behind and any(lexicon.answer_marker.fullmatch(f"{word}:") for word in before.split()):
        hits = lexicon.search(quoted)
        if (0, len(quoted)) in (*hits.get("bare", ()), *hits.get("abstains", ())):
            return f"\n{quoted} "  # `The answer to this question is: "unanswerable"`
    return MASK + "." if match[0][-2] in ".!?" and match.string[match.end() : match.end() + 1] == " " else MASK
