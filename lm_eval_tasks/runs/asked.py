"""What a model was asked: the messages of a chat, whichever template rendered them.

The harness logs the prompt of a local model as one text, rendered by the model's chat template, and that of an API as
messages, which the server renders. A template adds marks and the names of roles, and may add a system prompt of its own or
the date; words that stand in its source are therefore no difference between two prompts.
"""

from __future__ import annotations

import calendar
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

Turns = Sequence[tuple[str, str]]
"""Role and text of each message."""

_MARK = re.compile(r"<[^<>\s]{1,40}>")  # special tokens, which a template's source has as variables: bos_token
_WORD = re.compile(r"\w+")
_ROLES = frozenset("agent assistant human model system user".split())  # also of a chat as a transcript
_DATES = frozenset(name.casefold() for names in (calendar.month_name, calendar.month_abbr) for name in names)


class Asked(NamedTuple):
    """A prompt, and the chat template that rendered it."""

    prompt: str  # empty where it was not logged
    turns: Turns  # empty where it was logged as a text
    template: str | None = None  # its source; empty where that is not known, None without a template


def turns_of(logged: Any) -> Turns:
    """The messages of a prompt as the harness logs it: those of an API are JSON, alone or as the only part of a tuple, or a
    list of objects. Empty for any other prompt."""
    if isinstance(logged, list) and len(logged) == 1 and isinstance(logged[0], str):
        (logged,) = logged
    if isinstance(logged, str) and logged.startswith("[{"):
        try:
            logged = json.loads(logged)
        except (ValueError, RecursionError):
            return ()
    is_chat = isinstance(logged, list) and all(isinstance(each, Mapping) and "role" in each for each in logged)
    return [(str(each["role"]), _text_of(each.get("content"))) for each in logged] if is_chat else ()


def _text_of(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def asked_alike(first: Asked, second: Asked) -> bool:
    """Whether two prompts ask the same.

    Two lists of messages do if roles and texts are equal, and two texts without a chat template if they are equal. Others
    do if each has all words of the other, but for those that its template may add: in any order, as templates place system
    prompts differently. A prompt that was not logged is like that of another template only, of which nothing is known."""
    if not (first.prompt and second.prompt):
        return first.template != second.template
    if first.template is None and second.template is None and bool(first.turns) == bool(second.turns):
        turns = [[(role, text.strip()) for role, text in each.turns] for each in (first, second)]
        return turns[0] == turns[1] if first.turns else first.prompt == second.prompt
    own, other = (Counter(_WORD.findall(_MARK.sub(" ", each.prompt).casefold())) for each in (first, second))
    return _may_add(first.template, own - other) and _may_add(second.template, other - own)


def _may_add(template: str | None, words: Iterable[str]) -> bool:
    """Whether a chat template may have put words into a prompt; any where its source is not known."""
    if template == "":
        return True
    has_date, in_source = _words_of(template or "")
    return all(word in in_source or (has_date and (word.isdigit() or word in _DATES)) for word in words)


@lru_cache(maxsize=16)
def _words_of(template: str) -> tuple[bool, frozenset[str]]:
    """Whether a template prints the date, and the words of its source, with names of roles."""
    return "date" in template or "strftime" in template, _ROLES | {*_WORD.findall(template.casefold())}
