"""The references of Mu-SHROOM's answers as plain text: contexts that a search-backed model wrote for the questions of a
split, one file an answer.

Citation marks and Markdown go; the text itself stays. What only looks like a mark stays, too: ``[1,2]``, ``2*3*4``, and the
year at the beginning of ``1276. urteak 366 egun izan zituen``.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

CELL = " | "  # between the cells of a row
SUFFIX = ".context.txt"
_AS_IT_IS = re.compile(
    r"(`[^`]{1,2000}`|\\\[.{1,2000}?\\\]|\\\(.{1,2000}?\\\)|\$\$.{1,2000}?\$\$)"
)  # code and formulas
_FENCE = re.compile(r"\s*(```|~~~)")
_TARGET = r"\((?:https?://|www\.|mailto:|[/#])[^\s()]*(?:\([^\s()]*\)[^\s()]*)*\)"
_CITATION = re.compile(rf"[ \t]*\[[1-9]\d?\](?:{_TARGET})?")
_LINK = re.compile(rf"!?\[([^\[\]\n]*)\]{_TARGET}")
_EMPHASIS = tuple(
    re.compile(rf"(?<![{word}{mark}])({re.escape(mark)}+)(?=\S)([^{mark}\n]+)(?<=\S)\1(?![{word}{mark}])")
    for mark, word in (("*", "A-Za-z0-9"), ("_", r"\w"))  # `2*3*4` and `snake_case_name` have none
)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+")
_BULLET = re.compile(r"\s*[-*+•][ \t]+(?=\S)")
_NUMBER = re.compile(r"(\s*)(\d{1,3})[.)][ \t]+(?=\S)")
_ROW, _BELOW_HEADER = re.compile(r"\s*\|(.*)\|\s*"), re.compile(r"\s*\|[ \t]*:?-[-:| \t]*\|\s*")
_SENTENCE_GOES_ON = re.compile(r"[\w,;–-]")


def read_contexts(folder: Path, published: bool, counts: Counter[str]) -> dict[str, str]:
    """The contexts of a folder, by the id of their answer. Files that cannot be used are counted in `counts`.

    A file that ends within a sentence was cut, unless the folder is as `published`: there the model ended so.
    """
    contexts = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            markdown = path.read_bytes().decode("utf-8-sig").rstrip()
        except UnicodeDecodeError:
            counts["contexts left out, cut or no UTF-8 text"] += 1
            continue
        if not published and _SENTENCE_GOES_ON.match(markdown[-1:]):
            counts["contexts left out, cut: they are not the published ones, and end within a sentence"] += 1
        elif text := plain_text(markdown):
            contexts[path.name.removesuffix(SUFFIX)] = text
        else:
            counts["contexts left out, empty or only white space"] += 1
    return contexts


def plain_text(markdown: str) -> str:
    """A text without citation marks (``[3]``) and Markdown, one line a heading, paragraph, list item or row.

    Links and emphasis give their text, a table the cells of its rows. Code and formulas stay as they are.
    """
    lines = markdown.splitlines()
    numbered = _numbered(lines)
    plain = []
    in_code = in_table = False
    for at, line in enumerate(lines):
        is_header = bool(at + 1 < len(lines) and _BELOW_HEADER.fullmatch(lines[at + 1]))
        in_table = bool(_ROW.fullmatch(line)) and (in_table or is_header)
        if _FENCE.match(line):
            in_code = not in_code
        elif in_code:
            plain.append(line.strip())
        elif in_table:
            cells = "" if _BELOW_HEADER.fullmatch(line) else line.strip().strip("|")
            plain.append(CELL.join(filter(None, (_without_marks(cell) for cell in cells.split("|")))))
        else:
            if heading := _HEADING.match(line):
                line = line[heading.end() :].rstrip("# \t")
            elif mark := _BULLET.match(line) or (_NUMBER.match(line) if at in numbered else None):
                line = line[mark.end() :]
            plain.append(_without_marks(line))
    return "\n".join(filter(None, plain))


def _numbered(lines: list[str]) -> set[int]:
    """The places of lines whose number is a list's: at one depth they count 1, 2 and so on. Another begins a sentence."""
    numbered: set[int] = set()
    lists: dict[int, list[int]] = {}
    for at, line in enumerate(lines):
        if match := _NUMBER.match(line):
            depth, number = len(match[1]), int(match[2])
            if number == 1:
                lists[depth] = [at]
            elif number == len(lists.get(depth, ())) + 1:
                lists[depth].append(at)
                numbered.update(lists[depth])
    return numbered


def _without_marks(line: str) -> str:
    parts = _AS_IT_IS.split(line)
    parts[1::2] = [part.strip("`") for part in parts[1::2]]
    for at in range(0, len(parts), 2):
        parts[at] = _LINK.sub(r"\1", _CITATION.sub("", parts[at]))
        for emphasis in 2 * _EMPHASIS:  # it may be within emphasis
            parts[at] = emphasis.sub(r"\2", parts[at])
    return "".join(parts).strip()
