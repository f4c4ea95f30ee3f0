"""A chat whose system turn survives the model's chat template.

Templates without a system role, such as Gemma's, raise an error or leave the turn out. The harness's models then drop it,
with all that stands in it: the instruction, and in MTRAG-UN the passages. Here its text goes before that of the first user
turn, as the makers of such models advise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from custom_metrics.usage.plain_errors import UsageError

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

Turns = Sequence[dict[str, Any]]
_PROBE = "turn-{}-of-the-probe"


def with_system_turn(template: Callable[..., Any], task: str) -> Callable[..., Any]:
    """A model's chat template that renders every turn of a task's chats, the system's before the first user's where the
    template has no system role. What it does is found out once for each order of roles.

    Raises:
        UsageError: the template refuses the chat all the same, or leaves out a turn.
    """
    has_role: dict[tuple[str, ...], bool] = {}

    def render(turns: Turns, **more: Any) -> Any:
        roles = tuple(turn["role"] for turn in turns)
        if roles not in has_role:
            renders = not _lost(template, roles, more)
            if not renders and (lost := _lost(template, roles, more, merge=True)):
                raise UsageError(
                    f"{task}: the model's chat template does not render a chat of {', '.join(roles)}: {', '.join(lost)}. "
                    f"Name another template, or leave out --apply_chat_template"
                )
            if not renders and all(has_role.values()):  # once
                log.warning("%s: the chat template has no system role; its text is in the first user turn", task)
            has_role[roles] = renders
        return template(turns if has_role[roles] else _merged(turns), **more)

    return render


def _merged(turns: Turns) -> list[dict[str, Any]]:
    """The turns with the text of the system before that of the first user turn, which begins the chat."""
    system = [turn["content"].strip() for turn in turns if turn["role"] == "system"]
    others = [turn for turn in turns if turn["role"] != "system"]
    if not system:
        return others
    begins = bool(others) and others[0]["role"] == "user"
    first, behind = (others[0], others[1:]) if begins else ({"role": "user", "content": ""}, others)
    return [{**first, "content": "\n\n".join(filter(None, [*system, first["content"]]))}, *behind]


def _lost(template: Callable[..., Any], roles: Iterable[str], more: dict[str, Any], merge: bool = False) -> list[str]:
    """The turns that a template leaves out of a chat with these roles (number and role), or the error that it raises."""
    from jinja2.exceptions import TemplateError

    turns = [{"role": role, "content": _PROBE.format(number)} for number, role in enumerate(roles)]
    try:
        prompt = str(template(_merged(turns) if merge else turns, **more))  # a server's is the list of turns
    except TemplateError as error:
        return [f"it says {str(error)!r}"]
    return [f"turn {n + 1} ({turn['role']})" for n, turn in enumerate(turns) if turn["content"] not in prompt]
