"""Quoted text of others: a judge can read it, and it cannot act as a part of the prompt.

A judge's prompt holds answers that anyone may have written. Each of their lines stands behind ``> ``, so that none can pass
for a line of the prompt, and what a tokenizer could take for a special token (the end of a turn, say) is broken.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["quote"]

# <|im_end|>, </s>, <start_of_turn>, <｜User｜>, ◁think▷, [INST], [gMASK], [|endofturn|], ]~b]: a bracket that touches what
# follows, also in full width, which some tokenizers make plain. [1] is none.
_OPENING = re.compile(r"[<＜﹤◁](?=\S)|[\[［](?=[^\s\d])|\](?=~)")
# Format characters that scripts need; all others (direction overrides, tag characters) say things that no reader sees.
_NEEDED = "\u200c\u200d\u00ad"
# Variation selectors beyond those of emoji: marks by category, but unseen, and 256 of them spell any byte.
_SELECTORS = {*map(chr, range(0xFE00, 0xFE0E)), *map(chr, range(0xE0100, 0xE01F0))}


def quote(text: str) -> str:
    """The text as quoted lines. Invisible and other non-text characters are removed, tabs become spaces.

    An empty text is one empty quoted line.
    """
    lines = text.splitlines() or [""]
    return "\n".join(f"> {_OPENING.sub(_apart, _visible(line))}".rstrip() for line in lines)


def _apart(match: re.Match[str]) -> str:
    return f"{match[0]} "


def _visible(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    kept = []
    for character in line:
        category = unicodedata.category(character)
        if character == "\t":
            kept.append(" ")
        elif character not in _SELECTORS and (category[0] != "C" or character in _NEEDED):
            kept.append(character)
    return "".join(kept)
