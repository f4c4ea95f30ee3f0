"""Messages of a service that failed, which stand where a model's answer should: "Unable to generate response.", `null`,
"429 Too Many Requests", an error body in JSON, in any language of ``service_failures.yaml``."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["is_service_failure"]

_LONGEST = 200  # characters
_REST = 60  # characters behind an entry of several words
_WILD = 40
_KEY = 2  # characters by which entries are looked up
_CLAUSE = re.compile(r"[.!?…,;:\n。！？，、；：।۔؟،]+(?=\s|$)|[。！？，、；：।۔؟،\n]+|\s[-–—]\s")
_EDGE = " \t\"'`*_#()[]<>{}!¡¿⚠️❌️"
# A number alone is an answer; a code has its reason behind it, or says before it what it is.
_CODE = re.compile(
    r"(?P<said>(?:(?:https?|status|error|code)\W+){0,3})[45]\d\d(?:\W+|$)"
    r"(?P<reason>bad request|unauthorized|forbidden|not found|request timeout|payload too large|unprocessable entity)?"
)
_EXCEPTION = re.compile(
    r"Traceback \(most|<html>\s*<head>\s*<title>\s*[45]\d\d|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?::|\(|$)"
)
_JSON = re.compile(
    r'\{\s*(?:"(?:status|code|type|success)"\s*:\s*[\w"]{1,20}\s*,\s*)?"(?:(?:errors?|exception)"\s*:|choices"\s*:\s*\[\s*\])'
)
_WORD = re.compile(r"[^\W\d_]{5,}")


@cache
def _entries() -> tuple[frozenset[str], dict[str, re.Pattern[str]], frozenset[str]]:
    """Apologies, the pattern of the entries that begin with the same two characters, and how any of it begins."""
    import yaml

    text = resources.files("custom_metrics.reading").joinpath("service_failures.yaml").read_text("utf-8")
    table: dict[str, list[Any]] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    apologies = frozenset(table.pop("apologies"))
    patterns: dict[str, set[str]] = {}
    for entry in dict.fromkeys(entry for entries in table.values() for entry in entries):
        pattern = re.escape(entry).replace(r"\*", f".{{0,{_WILD}}}")
        if " " in entry.removesuffix(" *") and not entry.endswith("*"):
            pattern += f"(?:\\b.{{0,{_REST}}})?"
        patterns.setdefault(entry[:_KEY], set()).add(pattern)
    codes = {word[:_KEY] for word in ("http", "status", "error", "code")} | {f"{a}{b}" for a in "45" for b in range(10)}
    begins = frozenset({apology[:_KEY] for apology in apologies} | codes | patterns.keys())
    return apologies, {key: re.compile("|".join(sorted(some))) for key, some in patterns.items()}, begins


def is_service_failure(text: str, question: str | None = None) -> bool:
    """Whether a text is nothing but the message of a service that failed.

    Each clause must be an entry of the table, an apology beside one, or a code of HTTP (400 to 599). No word of the text
    may stand in the question: "An error occurred in the navigation system" answers what is wrong with the system. A text
    that begins as an exception of Python ("RateLimitError: ...") or as a JSON object with an error is a failure as a whole.

    Args:
        text: the answer; one of more than 200 characters is read only for exceptions and JSON.
        question: what was asked.
    """
    start = text.lstrip()
    if (start[:1] == "{" and _JSON.match(start)) or _EXCEPTION.match(start):
        return True
    if len(text) > _LONGEST:
        return False
    apologies, entries, begins = _entries()
    if start.lstrip(_EDGE)[:_KEY].lower() not in begins:  # as nearly all answers
        return False
    failed = False
    for clause in _CLAUSE.split(text.replace("’", "'").lower()):
        clause = clause.strip(_EDGE)
        if code := _CODE.match(clause):
            clause, failed = clause[code.end() :].strip(_EDGE), failed or bool(code["said"] or code["reason"])
        if not clause or clause in apologies:
            continue
        pattern = entries.get(clause[:_KEY])
        if pattern is None or not pattern.fullmatch(clause):
            return False
        failed = True
    if failed and question:
        asked = question.casefold()
        return not any(word in asked for word in _WORD.findall(text.casefold()))
    return failed
