"""The processes of one launch, such as ``accelerate launch`` or ``torchrun`` starts: which one this is, and what they tell
each other.

They meet through gloo, on any processor, and wait for each other as long as it takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

__all__ = ["Here", "barrier", "gather", "here", "together"]

_SET = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What launchers set. A cluster's own variables, of which some have these names, are no launch without all of them."""

Value = TypeVar("Value")


class Here(NamedTuple):
    """This process among those of its launch.

    Attributes:
        rank: its number, from 0.
        number: of all processes, on all machines; 1 where nothing was launched.
        on_machine: its number among those of its machine, which is that of its GPU.
    """

    rank: int
    number: int
    on_machine: int


def here() -> Here:
    """The place of this process."""
    if not all(os.environ.get(name) for name in _SET):
        return Here(0, 1, 0)
    return Here(*(int(os.environ[name]) for name in _SET[:3]))


def gather(value: Value) -> list[Value] | None:
    """What each process has, in the order of their ranks, for the first of them; ``None`` for the others."""
    if here().number == 1:
        return [value]
    parts: list[Value] | None = [value] * here().number if here().rank == 0 else None
    _distributed().gather_object(value, parts, dst=0, group=_group())
    return parts


def barrier() -> None:
    """Wait until every process is here."""
    if here().number > 1:
        _distributed().barrier(group=_group())


def together(first: Callable[[], Value]) -> Value | None:
    """Call something in the first process; the others go on when it has returned, with ``None``.

    Raises:
        Exception: what it raised, in the first process. The others end without a word: one message is enough.
    """
    if here().number == 1:
        return first()
    failed: Exception | None = None
    value = None
    if here().rank == 0:
        try:
            value = first()
        except Exception as error:  # the others wait to be told
            failed = error
    told = [failed is None]
    _distributed().broadcast_object_list(told, src=0, group=_group())
    if failed is not None:
        raise failed
    if not told[0]:
        raise SystemExit(1)
    return value


def _distributed() -> Any:
    import torch.distributed

    return torch.distributed


_OURS: list[Any] = []  # the group of our own messages


def _group() -> Any:
    if not _OURS:
        distributed = _distributed()
        forever = timedelta(weeks=52)  # a detector may take days; a process that dies ends the launch
        if distributed.is_initialized():  # by the harness's model, for its own messages
            _OURS.append(distributed.new_group(backend="gloo", timeout=forever))
        else:
            distributed.init_process_group("gloo", timeout=forever)
            _OURS.append(distributed.group.WORLD)
    return _OURS[0]
