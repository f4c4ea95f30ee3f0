"""Secrets in settings: keys, tokens and passwords are blanked wherever a setting is written, shown or hashed.

A secret is known by its name (``api_key``, ``--hf-token``, ``Authorization:``, ``?key=`` of an address) or by its form (the
user of an address, the rows of ``secrets.tsv``). All of them become :data:`BLANK`, so settings that differ in nothing
else are equal, and so are their digests. :func:`blank` is for settings and messages. Prompts and answers are stored as they
are; what a page or a terminal shows of them goes through :func:`blank_text` or :func:`masked`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from custom_metrics.usage import shipped_rows

BLANK = "<secret>"  # stands for a secret
_NONE, _PERHAPS, _SURE = range(3)  # what a name says of its value; of `_PERHAPS` only long random values are secrets
# Names as words in lower case with `_` between, such as my_api_key of myApiKey; a name is known by its last words.
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:accesskey|accesstoken|apikey|auth|authorization|authtoken|bearer|cookie|credentials?|hftoken|jwt|pass"
    r"|passcode|passphrase|passwd|passwords?|pat|pgpass|pwd|secret|secretkey|secrets|sshpass)$"
    r"|(?:password|passwd|passphrase|apikey|secretkey|accesskey)$"  # PGPASSWORD
    r"|(?:^|_)(?:access|account|admin|anthropic|api|auth|azure|client|encryption|google|hf|master|mistral|openai|private"
    r"|secret|service|signing|ssh|subscription)_keys?$"
    r"|(?:^|_)(?:access|api|auth|bearer|client|github|gitlab|hf|hub|huggingface|personal|refresh|session)_tokens?$"
    r"|^(?:x_(?:\w+_)?)?(?:key|token)$"  # of a header, such as X-Gateway-Token
)
_MAYBE_NAME = re.compile(r"(?:^|_)(?:keys?|tokens?|sig|signature)$")
_PLAIN_NAME = re.compile(
    r"(?:^|_)(?:cache|column|dedup|doc|foreign|group|index|join|map|metric|partition|primary|public|sort)_keys?$"
)
_BETWEEN_WORDS = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_RANDOM = re.compile(r"\\*[\"']?([\w.~+/%-]{20,}={0,2})")  # in an address % escapes what is no letter
_HIDDEN = "\U0010fffe"  # no character of any text
_RUN = re.compile(f"{_HIDDEN}+")
_PLAIN = frozenset(("", "auto", "false", "no", "none", "null", "true", "yes", BLANK))
_NUMBER = re.compile(r"[+-]?[0-9]{0,6}(?:\.[0-9]*)?")
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_LONGEST_PLAIN = 64  # characters of a value that is no secret, whatever its name
_SCHEME = re.compile(r"((?:bearer|basic|digest|token)\s+)(.*)", re.IGNORECASE | re.DOTALL)

# Every pattern reads a text once: a part that fails is not tried again from a place within it.
_USER_OF_ADDRESS = re.compile(  # of one that was taken for a path, too, which has a single slash
    r"""(?:(?<=://)|(?<=http:/)|(?<=https:/))(?:[^\s/?#"'<>,;]|[,;](?![\w.-]+=))+(?=@)"""
)
_TABLE = shipped_rows("custom_metrics.usage", "secrets.tsv")
"""Name, form (a regular expression), example and source of each kind of key."""

_FORMS = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(row['form'] for row in _TABLE)})", re.DOTALL)
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
    as the command line has them, JSON, headers and addresses. Booleans, small numbers and names of variables stay."""
    return _blank(value, _NONE)


def blank_text(text: str) -> tuple[str, Callable[[int], int]]:
    """A text without its secrets, and a function from a place in the text to the same place there."""
    marked = _marked(text)
    secrets = [secret.span() for secret in _RUN.finditer(marked)]

    def moved(place: int) -> int:
        before = [(start, end) for start, end in secrets if start < place]
        return place + sum(len(BLANK) - (min(end, place) - start) for start, end in before)

    return _RUN.sub(BLANK, marked), moved


def masked(text: str) -> str:
    """A text of the same length in which the characters of secrets are ``x``, for a page on which people mark places."""
    return "".join(map(lambda new, old: old if new != _HIDDEN or old.isspace() else "x", _marked(text), text))


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
    """What a name says of its value: ``api_key`` and ``myApiKey`` name a secret, not ``max_tokens``."""
    words = _BETWEEN_WORDS.sub("_", name[:200]).strip("_").lower()
    if _PLAIN_NAME.search(words):
        return _NONE
    return _SURE if _SECRET_NAME.search(words) else _PERHAPS if _MAYBE_NAME.search(words) else _NONE


def _named_text(value: str, named: int) -> str:
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


@lru_cache(maxsize=4096)  # results files repeat the settings of their tasks
def _text(text: str) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            read = json.loads(text)
            clean = blank(read)
        except (ValueError, RecursionError):
            pass
        else:
            return text if clean == read else json.dumps(clean)
    return _RUN.sub(BLANK, _marked(text))


def _marked(text: str) -> str:
    """A text of the same length in which the characters of secrets are :data:`_HIDDEN`."""

    def mark(secret: re.Match[str]) -> str:
        return _HIDDEN * len(secret[0])

    text = _FORMS.sub(mark, _USER_OF_ADDRESS.sub(mark, text))
    parts, done, at = [], 0, 0
    while found := _NAMED.search(text, at):
        at = found.end()
        if not (named := _says(found["name"] or found["option"])):
            continue
        start, end = _value_at(text, found, named)
        value = text[start:end]
        scheme = _SCHEME.fullmatch(value)
        # Behind a colon a secret is long, has a scheme or a digit: all else is a word of prose.
        telling = len(value) >= 16 or scheme or any(map(str.isdigit, value))
        # What stays is short, so reading on within it reads no text twice.
        is_plain = _is_plain(value.strip()) or (scheme is not None and _is_plain(scheme[2].strip()))
        if start == end or is_plain or (found["sign"] == ":" and start == at and not telling):
            continue
        start += scheme.end(1) if scheme else 0
        parts += [text[done:start], _HIDDEN * (end - start)]
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
