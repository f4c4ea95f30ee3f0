"""Foreign text as quoted lines of a judge's prompt."""

from __future__ import annotations

import re
import unicodedata

# <|im_end|>, </s>, <start_of_turn>, <｜User｜>, ◁think▷, [INST], [gMASK], [|endofturn|], ]~b]: a bracket that touches what
# follows, also in full width, which some tokenizers make plain. [1] is none.
_OPENING = re.compile(r"[<＜﹤◁](?=\S)|[\[［](?=[^\s\d])|\](?=~)")
# Format characters that scripts need; all others (direction overrides, tag characters) carry text that no reader sees.
_NEEDED = "\u200c\u200d\u00ad"
# Variation selectors beyond those of emoji: marks by category, but unseen, and 256 of them spell any byte.
_SELECTORS = {*map(chr, range(0xFE00, 0xFE0E)), *map(chr, range(0xE0100, 0xE01F0))}


def quote(text: str) -> str:
    """The text as quoted lines. Invisible and other non-text characters are removed, tabs become spaces.

    A judge's prompt holds answers from untrusted sources. Each of their lines is prefixed with ``> ``, so that none can
    pass for a line of the prompt, and text that a tokenizer could take for a special token (the end of a turn, say) is
    broken up. An empty text is one empty quoted line.
    """
    lines = []
    for line in text.splitlines() or [""]:
        visible = "".join(filter(_is_visible, line.replace("\t", " ")))
        lines.append(f"> {_OPENING.sub(lambda match: f'{match[0]} ', visible)}".rstrip())
    return "\n".join(lines)


def _is_visible(character: str) -> bool:
    return character not in _SELECTORS and (unicodedata.category(character)[0] != "C" or character in _NEEDED)
