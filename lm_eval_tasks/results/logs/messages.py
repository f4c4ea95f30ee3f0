"""Messages of all tools: who said what, whatever wraps it.

A message is a text, a list of parts, a choice, a candidate, an event, an item of a response, or what LangChain, Haystack
and others serialise. :func:`last_said` and :func:`given_by_tools` take from them what a role wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from lm_eval_tasks.results.logs.values import text_of

# What a message or a part of one is, by its role, type or kind: the first whose pattern is in the name.
_KINDS = {
    "tool": r"(?:tool|function).?(?:call.?)?(?:output|response|result|return|message)|^(?:tool|function)$"
    r"|observation|ipython|search.?(?:call|result)|^document$",
    "thought": r"call|tool.?use|reason|think|thought|image|audio|video|file",
    "user": r"^(?:user|human|request$)|\.user\.",
    "assistant": r"^(?:assistant|ai(?:message|$)|model|bot|chatbot|gpt|response)|\.assistant\.|gen_ai\.choice",
    "system": r"^(?:system|developer)|\.system\.",
}
_SPEAKERS = ("user", "assistant", "system")
_NAMES = ("role", "_role", "type", "part_kind", "kind", "block_type", "from", "name")
_TOOLS = ("tool_call_result", "toolResult", "functionResponse", "function_response", "function_call_output")
# Where content stands: the first that has any, after what a role is called.
_CONTENT = """
    content _content contents parts blocks text refusal message messages choices candidates generations message_content
    kwargs output outputs response data body attributes value event
""".split()
_FIRST = {
    "answer": ["answer", "output_text", "final_output", *_CONTENT, "result", "results", "completion", "replies"],
    "question": ["question", "query", "user_input", *_CONTENT, "input", "inputs", "prompt"],
    "output": [*_CONTENT, "result", "results"],
}
_ALTERNATIVES = ("choices", "candidates", "generations")  # of which the first is read


class Message(NamedTuple):
    """What was said. `kind` is user, assistant, system, tool, or empty where nothing says it; `value` what a tool gave."""

    kind: str
    text: str
    value: Any = None


def messages(value: Any, role: str = "answer") -> list[Message]:
    """The messages of a value in order; thoughts, calls of tools and pictures are none. `role` says which fields count
    where an object is no message."""
    found = [message for message in _read(value, "", _FIRST[role]) if message.kind == "tool" or message.text.strip()]
    if len(found) > 1 and not any(message.kind for message in found):  # parts
        return [Message("", "\n".join(message.text for message in found))]
    return found


def last_said(value: Any, role: str) -> str:
    """The last thing that an assistant says, without tool calls, or of a question a user; else what nobody is named for.
    Empty where it is nothing."""
    found = messages(value, role)
    kinds = ("assistant", "") if role == "answer" else ("user",) if any(each.kind for each in found) else ("",)
    return next((message.text for message in reversed(found) if message.kind in kinds), "")


def given_by_tools(value: Any) -> Any:
    """What tools gave since the last question, or before it if they gave nothing since; the value where nobody speaks."""
    found = [] if isinstance(value, str) else messages(value)
    if not any(message.kind in _SPEAKERS for message in found):
        return value
    asked = max((place for place, message in enumerate(found) if message.kind == "user"), default=0)
    outputs = ([message.value for message in part if message.kind == "tool"] for part in (found[asked:], found))
    return next(filter(None, outputs), [])


def _read(value: Any, kind: str, names: list[str]) -> Iterator[Message]:
    text = text_of(value)
    parts = value if isinstance(value, list) else [value]
    if text is not None and not (parts and all(map(_wraps, parts))):
        yield Message(kind, text)  # what somebody said, be it JSON
    elif isinstance(value, list):
        for part in value:
            yield from _read(part, kind, names)
    elif isinstance(value, dict):
        found = [*_of_object(value, kind, names)]
        yield from found if found or text is None else [Message(kind, text)]


def _wraps(value: Any) -> bool:
    """Whether a text that holds this is a message."""
    others = {"type", "kwargs", *_ALTERNATIVES, "message", "messages"}
    return isinstance(value, dict) and bool(_kind(value) or not others.isdisjoint(value))


def _of_object(value: dict[str, Any], kind: str, names: list[str]) -> Iterator[Message]:
    own = _kind(value)
    if own == "thought" or (value.get("tool_calls") and own != "tool"):
        return
    kind = own or kind
    yield from (Message("tool", "", value[name]) for name in _TOOLS if name in value)
    if kind == "tool":
        yield Message("tool", "", next((value[name] for name in _FIRST["output"] if value.get(name)), value))
        return
    for name in names:
        part = value.get(name)
        found = [*_read(part[:1] if name in _ALTERNATIVES and isinstance(part, list) else part, kind, names)]
        if any(message.kind == "tool" or message.text for message in found):
            said = [message for message in found if message.kind == own]
            yield from (message for message in found if message.kind != own)
            yield from [Message(own, "\n".join(message.text for message in said))] if own and said else said
            return


def _kind(value: dict[str, Any]) -> str:
    class_name = value["id"][-1:] if isinstance(value.get("id"), list) else []  # of LangChain's dumpd
    names = [name for name in (*map(value.get, _NAMES), *class_name) if isinstance(name, str)]
    return "thought" if value.get("thought") is True else next(filter(None, map(_kind_of, names)), "")


@lru_cache(maxsize=4096)
def _kind_of(name: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, name, re.IGNORECASE)), "")
