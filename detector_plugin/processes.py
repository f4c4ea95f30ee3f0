"""The processes of one launch, such as ``accelerate launch`` or ``torchrun`` starts: which one this is, and what they tell
each other.

They meet through gloo, on any processor, and wait for each other as long as it takes.
"""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

_SET = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What launchers set. A cluster's own variables, of which some have these names, are no launch without all of them."""

Value = TypeVar("Value")


class Here(NamedTuple):
    """This process among those of its launch."""

    rank: int  # its number, from 0
    number: int  # of all processes, on all machines; 1 where nothing was launched
    on_machine: int  # its number among those of its machine, which is that of its GPU


_STARTED_AS: list[Here] = []
_GROUP: list[Any] = []  # of our own messages


def started_as(place: Here) -> None:
    """Say the place of a process that nothing launched: a worker of ours, which asks and tells the others nothing."""
    _STARTED_AS[:] = [place]


def here() -> Here:
    """The place of this process."""
    if _STARTED_AS:
        return _STARTED_AS[0]
    if not all(os.environ.get(name) for name in _SET):
        return Here(0, 1, 0)
    return Here(*(int(os.environ[name]) for name in _SET[:3]))


def gpu() -> str:
    """The GPU of this process, of those that torch sees: each process of a launch has one of its own."""
    import torch

    place = here()
    return f"cuda:{place.on_machine % torch.cuda.device_count()}" if place.number > 1 else "cuda"


def share(value: Value) -> list[Value]:
    """What each process has, in the order of their ranks, for all of them."""
    if here().number == 1:
        return [value]
    import torch.distributed

    parts = [value] * here().number
    torch.distributed.all_gather_object(parts, value, group=_group())
    return parts


def gather(value: Value) -> list[Value] | None:
    """The same for the first of them; ``None`` for the others."""
    if here().number == 1:
        return [value]
    import torch.distributed

    parts = [value] * here().number if here().rank == 0 else None
    torch.distributed.gather_object(value, parts, dst=0, group=_group())
    return parts


def barrier() -> None:
    """Wait until every process is here."""
    share(None)


def _group() -> Any:
    import torch.distributed

    if not _GROUP:
        forever = timedelta(weeks=52)  # a detector may take days; a process that dies ends the launch
        if torch.distributed.is_initialized():  # by the harness's model, for its own messages
            _GROUP.append(torch.distributed.new_group(backend="gloo", timeout=forever))
        else:
            torch.distributed.init_process_group("gloo", timeout=forever)
            _GROUP.append(torch.distributed.group.WORLD)
        atexit.register(_leave)
    return _GROUP[0]


def _leave() -> None:
    """End the group before Python ends: its threads are of C++, and one that still runs then may abort the process."""
    import torch.distributed

    if _GROUP and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group(_GROUP.pop())
