"""The processes of one launch, by ``accelerate launch`` or ``torchrun``: the rank of this one, and messages between them;
and workers of our own, which exchange none.

Those of a launch communicate through gloo, on any processor, and wait for each other as long as it takes.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import connection, get_context, parent_process
from typing import Any, NamedTuple, TypeVar

from custom_metrics.usage.plain_errors import PlainError
from detector_plugin.detector import UnusableDetector

_LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables that launchers set. A cluster may set some of these by itself; all of them together mean a launch."""

Value = TypeVar("Value")


class ProcessPlace(NamedTuple):
    """This process among those of its launch."""

    rank: int  # its number, from 0
    number: int  # of all processes, on all machines; 1 where nothing was launched
    local_rank: int  # its number among those of its machine, which is that of its GPU


_PLACE: list[ProcessPlace] = []
_GROUP: list[Any] = []  # torch's process group for our messages, once it exists


def set_place(place: ProcessPlace) -> None:
    """Set the place of a worker of ours, which no launcher started."""
    _PLACE[:] = [place]


def here() -> ProcessPlace:
    """The place of this process among those of its launch."""
    if _PLACE:
        return _PLACE[0]
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
    if here().number == 1:
        return [value]
    import torch.distributed

    values = [value] * here().number if here().rank == 0 else None
    torch.distributed.gather_object(value, values, dst=0, group=_group())
    return values


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


# ------------------------------------------------------------------------------------------------------ workers of ours


def in_workers(work: Callable[[int, int], None], size: int, what: str) -> None:
    """Do the work (of a process's number and the number of all) in `size` processes of this machine, each with a GPU of its
    own if there are any. The error of the first process that fails is raised here; the others are ended. `what` begins the
    message where one is killed.
    """
    context = get_context("spawn")
    failures = context.SimpleQueue()
    workers = [
        context.Process(target=_worker, args=(work, number, size, failures), daemon=True, name=f"worker {number}")
        for number in range(size)
    ]
    try:
        for worker in workers:
            worker.start()
        running = list(workers)
        while running:
            connection.wait([worker.sentinel for worker in running])
            for worker in [worker for worker in running if not worker.is_alive()]:
                running.remove(worker)
                if worker.exitcode and not failures.empty():
                    is_plain, text = failures.get()
                    raise (UnusableDetector if is_plain else RuntimeError)(text)
                if worker.exitcode:
                    raise UnusableDetector(
                        f"{what}: {worker.name} of {size} ended with status {worker.exitcode} (was it killed, for want of "
                        f"memory?); what was tagged is kept, and the same command goes on"
                    )
    finally:
        started = [worker for worker in workers if worker.pid is not None]
        for worker in started:
            worker.terminate()
        for worker in started:
            worker.join()


def _worker(work: Callable[[int, int], None], number: int, size: int, failures: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_place(ProcessPlace(number, size, number))
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // size)))  # before torch is imported
    if number:
        logging.getLogger("lm_eval").setLevel(logging.ERROR)  # the first process says what all would
    try:
        work(number, size)
    except Exception as error:  # not every error survives the way to another process
        is_plain = isinstance(error, (OSError, ValueError, PlainError))
        failures.put((is_plain, str(error) if is_plain else f"{type(error).__name__}: {error}"))
        sys.exit(1)


def _end_with_parent() -> None:
    """End a worker whose parent was killed; else it would write to the files of a second run."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
