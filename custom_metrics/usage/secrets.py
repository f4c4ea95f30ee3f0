"""Secrets in settings: keys, tokens and passwords are blanked wherever a setting is written, shown or hashed.

A secret is known by its name (``api_key``, ``--hf-token``, ``Authorization:``, ``?key=`` of an address) or by its form (the
user of an address, ``hf_...``, ``sk-...``). All of them become :data:`BLANK`, so settings that differ in nothing else are
equal, and so are their digests. :func:`blank` is for settings and messages. Prompts and answers are stored as they are;
what a page or a terminal shows of them goes through :func:`blank_text`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

BLANK = "<secret>"
"""Stands for a secret."""

_NONE, _PERHAPS, _SURE = range(3)  # what a name says of its value; of `_PERHAPS` only long random values are secrets
_SECRET = frozenset(
    "accesskey accesstoken apikey auth authorization authtoken bearer cookie credential credentials hftoken passcode "
    "passphrase passwd password passwords pwd secret secretkey secrets".split()
)
_OF_KEY = frozenset(
    "access account admin anthropic api auth azure client encryption google hf master mistral openai private secret "
    "service signing ssh subscription".split()
)
_OF_TOKEN = frozenset("access api auth bearer client github gitlab hf hub huggingface personal refresh session".split())
_NO_SECRET = frozenset(
    "cache column dedup doc foreign group index join map metric partition primary public sort".split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_RANDOM = re.compile(r"\\*[\"']?([\w.~+/%-]{20,}={0,2})")  # in an address % escapes what is no letter
_PLAIN = frozenset(("", "auto", "false", "no", "none", "null", "true", "yes", BLANK))
_NUMBER = re.compile(r"[+-]?[0-9]{0,6}(?:\.[0-9]*)?")
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_LONGEST_PLAIN = 64  # characters of a value that is no secret, whatever its name
_SCHEME = re.compile(r"((?:bearer|basic|digest|token)\s+)(.*)", re.IGNORECASE | re.DOTALL)

# Every pattern reads a text once: a part that fails is not tried again from a place within it.
_USER_OF_ADDRESS = re.compile(  # of one that was taken for a path, too, which has a single slash
    r"""(?:(?<=://)|(?<=http:/)|(?<=https:/))(?:[^\s/?#"'<>,;]|[,;](?![\w.-]+=))+(?=@)"""
)
_FORMS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      hf_[A-Za-z0-9]{20,}
      | sk-(?:[A-Za-z0-9]{1,40}[-_]){0,8}(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{16,}[\w-]*
      | [rs]k_(?:live|test)_[A-Za-z0-9]{16,}
      | gh[opsru]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{20,}
      | xox[a-z]-[\w-]{10,}
      | (?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])
      | AIza[\w-]{30,}
      | (?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+
      | (?<=[Bb]earer[ ])(?=[^\s0-9]*[0-9])[\w.~+/=-]{16,}
    ) | -----BEGIN[ ][A-Z ]{0,40}PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]{0,40}-----|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(
    r"""(?<![\w-])(?:
      -{0,2}(?P<name>[A-Za-z][\w-]*)(?:\\*["'])?[\])]?\s*(?P<sign>={1,2}|:(?!//))\s*
      | --?(?P<option>[A-Za-z][\w-]*)[ \t]+(?!-)
    )""",
    re.VERBOSE,
)
_QUOTED = {quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*)", re.DOTALL) for quote in "\"'"}
_OPENING = re.compile(r"""(\\+)(["'])""")
_LISTED = re.compile(r"[\[(]([^\])]*)")
_OF_ADDRESS = re.compile(r"""([^\s&#"'<>,;]*)""")
_ONE_WORD = re.compile(r"""((?:(?:bearer|basic|digest|token)[ ]+)?[^\s,;"']*)""", re.IGNORECASE)
_WORDS = re.compile(  # to the next setting, as passwords can have spaces
    r"""((?:[^\s,;"'&]|&(?![\w.%-]+=))*(?:[ \t]+(?!-|[\w.-]+\s*[=:])(?:[^\s,;"'&]|&(?![\w.%-]+=))+)*)"""
)


def blank(value: Any) -> Any:
    """A setting, settings in mappings and lists, a command line, or a message, without its secrets. Text may hold settings
    as the command line has them, JSON, headers and addresses. Booleans, small numbers and the names of environment
    variables stay, whatever their name."""
    return _blank(value, _NONE)


def blank_text(text: str) -> tuple[str, Callable[[int], int]]:
    """A text without its secrets, and a function from a place in the text to the same place there."""
    shown, kept, at, to = _text(text), [(0, 0, 0)], 0, 0
    for part in shown.split(BLANK):  # what stands between the secrets: its place in both texts, and its length
        at = max(at, text.find(part, at))
        kept.append((at, to, len(part)))
        at, to = at + len(part), to + len(part) + len(BLANK)

    def moved(place: int) -> int:
        start, to, length = kept[bisect_right(kept, place, key=lambda part: part[0]) - 1]
        return to + min(place - start, length)

    return shown, moved


def _blank(value: Any, named: int) -> Any:
    if isinstance(value, str):
        return _named_text(value, named) if named else _text(value)
    if isinstance(value, Mapping):
        return {
            _text(key) if isinstance(key, str) else key: _blank(part, max(named, _says(str(key))))
            for key, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        parts, option = [], ""
        for part in value:
            parts.append(_blank(part, max(named, _says(option))))
            is_option = isinstance(part, str) and part.startswith("-") and not set(part) & set("= :,")
            option = part.lstrip("-") if is_option else ""
        return tuple(parts) if isinstance(value, tuple) else parts
    if named == _SURE and isinstance(value, int) and abs(value) > 999_999:  # a password of digits; True is 1
        return BLANK
    return value


@lru_cache(maxsize=4096)
def _says(name: str) -> int:
    """What the name of a setting says of its value, by its last words: ``api_key`` and ``myApiKey`` name a secret, not
    ``api_key_file``, ``max_tokens`` and ``tokenizer``."""
    words = [word.lower() for word in _WORD.findall(name[:200])]
    *before, last = words or [""]
    previous = before[-1] if before else ""
    is_alone = not before or before[0] == "x"  # of a header, such as X-Gateway-Token
    if last in _SECRET:
        return _SURE
    if last in ("key", "keys") and previous not in _NO_SECRET:
        return _SURE if previous in _OF_KEY or (is_alone and last == "key") else _PERHAPS
    if last in ("token", "tokens"):
        return _SURE if previous in _OF_TOKEN or (is_alone and last == "token") else _PERHAPS
    return _PERHAPS if last in ("sig", "signature") else _NONE


def _named_text(value: str, named: int) -> str:
    """The value of a name that says it is a secret, or may be one."""
    if named == _PERHAPS and not ((run := _RANDOM.fullmatch(value)) and _is_random(run[1])):
        return _text(value)
    match = _SCHEME.fullmatch(value)
    scheme, secret = match.groups() if match else ("", value)
    return value if _is_plain(secret.strip()) else f"{scheme}{BLANK}"


def _is_random(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_plain(value: str) -> bool:
    """Whether a value is no secret, whatever its name: a switch, a small number, the name of an environment variable."""
    if len(value) > _LONGEST_PLAIN:
        return False
    is_variable = _VARIABLE.fullmatch(value) and (value[0] == "$" or _says(value) == _SURE)
    return value.lower() in _PLAIN or bool(_NUMBER.fullmatch(value) or is_variable)


def _text(text: str) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            read = json.loads(text)
            clean = blank(read)
        except (ValueError, RecursionError):
            pass
        else:
            return text if clean == read else json.dumps(clean)
    text = _FORMS.sub(BLANK, _USER_OF_ADDRESS.sub(BLANK, text))
    parts, done, at = [], 0, 0
    while found := _NAMED.search(text, at):
        at = found.end()
        if not (named := _says(found["name"] or found["option"])):
            continue
        start, end = _value_at(text, found, named)
        value = text[start:end]
        # Behind a colon a secret is long, has a scheme or a digit: all else is a word of prose.
        telling = len(value) >= 16 or _SCHEME.fullmatch(value) or any(map(str.isdigit, value))
        # What stays is short, so reading on within it reads no text twice.
        if start == end or _is_plain(value.strip()) or (found["sign"] == ":" and start == at and not telling):
            continue
        parts += [text[done:start], _named_text(value, _SURE)]
        done = at = end
    return "".join([*parts, text[done:]])


def _value_at(text: str, found: re.Match[str], named: int) -> tuple[int, int]:
    """Where the value of a name begins and ends; of a name that may be a secret's, a random one."""
    at = found.end()
    if named == _PERHAPS:
        run = _RANDOM.match(text, at)
        return run.span(1) if run and _is_random(run[1]) else (at, at)
    if opening := _OPENING.match(text, at):  # JSON within JSON
        end = text.find(opening[2], opening.end())
        end = len(text) if end < 0 else end
        return opening.end(), max(opening.end(), opening.end() + len(text[opening.end() : end].rstrip("\\")))
    if text[at : at + 1] in ("'", '"'):
        pattern = _QUOTED[text[at]]
    elif text[at : at + 1] in ("[", "("):
        pattern = _LISTED
    elif found.start() and text[found.start() - 1] in "?&":
        pattern = _OF_ADDRESS
    else:
        pattern = _ONE_WORD if found["sign"] != "=" else _WORDS
    value = pattern.match(text, at)
    return value.span(1) if value else (at, at)
