"""The processes of one launch, by ``accelerate launch`` or ``torchrun``: the rank of this one, and messages between them.

They communicate through gloo, on any processor, and wait for each other as long as it takes.
"""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

_LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables that launchers set. A cluster may set some of these by itself; all of them together mean a launch."""

Value = TypeVar("Value")


class ProcessPlace(NamedTuple):
    """This process among those of its launch."""

    rank: int  # its number, from 0
    number: int  # of all processes, on all machines; 1 where nothing was launched
    local_rank: int  # its number among those of its machine, which is that of its GPU


_GROUP: list[Any] = []  # torch's process group for our messages, once it exists


def here() -> ProcessPlace:
    """The place of this process among those of its launch."""
    if not all(os.environ.get(name) for name in _LAUNCH_VARIABLES):
        return ProcessPlace(0, 1, 0)
    return ProcessPlace(*(int(os.environ[name]) for name in _LAUNCH_VARIABLES[:3]))


def gpu() -> str:
    """The GPU of this process, among those that torch sees: each process of a launch has its own."""
    import torch

    place = here()
    return f"cuda:{place.local_rank % torch.cuda.device_count()}" if place.number > 1 else "cuda"


def all_gather(value: Value) -> list[Value]:
    """The values of all processes, in the order of their ranks, in each process."""
    if here().number == 1:
        return [value]
    import torch.distributed

    values = [value] * here().number
    torch.distributed.all_gather_object(values, value, group=_group())
    return values


def gather(value: Value) -> list[Value] | None:
    """The values of all processes in the first one; ``None`` in the others."""
    values = all_gather(value)
    return values if here().rank == 0 else None


def barrier() -> None:
    """Wait until all processes have called it."""
    all_gather(None)


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
