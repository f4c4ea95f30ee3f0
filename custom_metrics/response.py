"""What of a model's output is its answer: without reasoning blocks, special tokens and further invented turns."""

from __future__ import annotations

import re
from collections import deque

__all__ = ["after_reasoning", "final_answer"]

# Reasoning blocks as models write them; an opening tag may be missing (it stood in the prompt) or the closing one (the
# output was cut while the model was still thinking, so there is no answer).
_THINKING_TAGS = ("think", "thinking", "thought", "reasoning", "reflection")
_OPENING = re.compile(rf"<(?:{'|'.join(_THINKING_TAGS)})>|◁think▷|\[THINK\]", re.IGNORECASE)
_CLOSING = re.compile(rf"</(?:{'|'.join(_THINKING_TAGS)})>|◁/think▷|\[/THINK\]", re.IGNORECASE)
_FINAL_CHANNEL = re.compile(r"<\|channel\|>\s*final\s*<\|message\|>")
_ANY_CHANNEL = "<|channel|>"
# The start of a turn that is not the model's: what follows was invented.
_NEXT_TURN = re.compile(
    r"<\|im_start\|>\s*(?:user|system)|<\|start_header_id\|>\s*(?:user|system)|<\|user\|>|<start_of_turn>\s*user|"
    r"\[INST\]|<\|(?:im_end|eot_id|end|endoftext|end_of_text|return|eom_id)\|>\s*\S|"
    r"\n[^\S\n]*\n(?:user|human|### ?(?:user|human|instruction)):\s"
    r"|\nQUESTION:[^\S\n]*\n",
    re.IGNORECASE,
)
# Tokens no text holds, wherever they stand; and those that are also HTML or ordinary brackets, at the ends only.
_TOKENS = re.compile(r"<\|[a-zA-Z_]{1,30}\|>|<\uff5c[^<>\n]{1,40}\uff5c>|<end_of_turn>|<start_of_turn>|<</?SYS>>")
_EDGE_TOKEN = re.compile(r"</?s>|<eos>|<bos>|<pad>|\[/?INST\]")
_LEAD = re.compile(r"(?:\s|<\|[a-zA-Z_]{1,30}\|>|</?s>)*")
_SPACE = re.compile(r"\s+")
_ROLE = re.compile(r"^\s*(?:(?:assistant|### ?(?:assistant|response))\s*(?::|\n|$)|model\s*\n)\s*", re.IGNORECASE)


def final_answer(response: str | None) -> str:
    """A model's answer without its reasoning and without the debris of chat templates.

    A response in which none of these occur comes back as it was, to the last space (lengths count it); where something
    was taken away, white space at the ends goes too. ``None`` and anything else that is no text become ``""``, and so
    does a reasoning block that never ends.
    """
    if not isinstance(response, str):
        return ""
    text = after_reasoning(response)
    text = text[_lead(text) :]
    turn = _NEXT_TURN.search(text)
    if turn:
        text = text[: turn.start()]
    text = _ROLE.sub("", _without_edge_tokens(_TOKENS.sub("", text)), count=1).strip()
    return response if text == response.strip() else text


def _lead(text: str) -> int:
    """Length of what opens a text before the answer: special tokens, and a repeated instruction in ``[INST]``."""
    lead = _LEAD.match(text)
    end = lead.end() if lead else 0
    if text.startswith("[INST]", end):
        closing = text.find("[/INST]", end)
        end = closing + len("[/INST]") if closing >= 0 else end
    return end


def _without_edge_tokens(text: str) -> str:
    start, end = 0, len(text)
    while start < end and (token := _EDGE_TOKEN.match(text, start) or _SPACE.match(text, start)):
        start = token.end()
    while start < end:
        if text[end - 1].isspace():
            end -= 1
            continue
        opening = max(text.rfind("<", start, end), text.rfind("[", start, end))
        if opening < 0 or not _EDGE_TOKEN.fullmatch(text, opening, end):
            break
        end = opening
    return text[start:end]


def after_reasoning(text: str) -> str:
    """A model's output without its reasoning; empty where that never ends."""
    final = deque(_FINAL_CHANNEL.finditer(text), maxlen=1)
    if final:
        return text[final[0].end() :]
    if _ANY_CHANNEL in text:
        return ""
    closing = deque(_CLOSING.finditer(text), maxlen=1)
    if closing:
        text = text[closing[0].end() :]
    opening = _OPENING.search(text)
    return text if opening is None else text[: opening.start()]
