"""Logged answers tagged by several processes, each of which does a part; nothing is scored here.

Each process keeps its spans in a file of its own (:class:`detector_plugin.span_store.StoredDetector`). The process that
scores afterwards reads them all.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import sys
import threading
from collections.abc import Mapping
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple

from detector_plugin import filters, processes
from detector_plugin.detector import UnusableDetector
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.detection.detector_settings import read_options
from lm_eval_tasks.models.answering import DocumentAnswerer

__all__ = ["LoggedAnswers", "Work", "in_workers", "tag_part"]


class Work(NamedTuple):
    """What is to be tagged, and how: task to samples file; the metadata of the tasks, with the detector and its
    options; and the folder where spans are kept."""

    files: Mapping[str, Path]
    metadata: Mapping[str, Any]
    folder: Path

    def samples(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Task to its samples by their position in the file, which is what the harness numbers documents by."""
        return {
            task: dict(enumerate(sorted(read_samples(path), key=lambda sample: int(sample["doc_id"]))))
            for task, path in self.files.items()
        }

    def stores(self) -> list[Path]:
        """Files of spans that are there, of this detector, whatever the number of processes that wrote them."""
        mine = re.compile(re.escape(self._stem()) + r"(\.part\d+)?\.jsonl")
        return sorted(path for path in self.folder.glob(".spans_*.jsonl") if mine.fullmatch(path.name))

    def store(self, number: int) -> Path:
        """The file of one process; that of the first has no number."""
        return self.folder / f"{self._stem()}{f'.part{number}' if number else ''}.jsonl"

    def stored(self, detector: Any, number: int = 0, of: int = 1) -> StoredDetector:
        """A detector that does the part of one process, and knows what all have found."""
        options = read_options(self.metadata.get("detector_args"), "score")
        mine = self.store(number)
        others = [path for path in self.stores() if path != mine]
        return StoredDetector(detector, mine, options, others, (number, of))

    def _stem(self) -> str:
        return f".spans_{re.sub(r'[^A-Za-z0-9.-]+', '_', self.metadata['detector'])}"


class LoggedAnswers(DocumentAnswerer):
    """A harness model that answers what was answered before."""

    SHARED = False

    def __init__(self, samples: Mapping[str, Mapping[int, dict[str, Any]]]) -> None:
        super().__init__()
        self.samples = samples

    def respond(self, requests: Any, disable_tqdm: bool) -> list[str]:
        answers = []
        for request in requests:
            response = self.samples[request.task_name][request.doc_id]["resps"][0][0]
            answers.append(response if isinstance(response, str) else "")
        return answers


def tag_part(work: Work, number: int, of: int) -> None:
    """Tag the part of one process.

    Raises:
        UnusableDetector: the detector cannot be had, or fails; what it found is kept.
    """
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.harness.autoload import task_folder

    answerer = LoggedAnswers(work.samples())
    manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata=dict(work.metadata))
    tasks = manager.load(list(work.files))["tasks"]
    with filters.wrapped(lambda made: work.stored(made, number, of)):
        for task in tasks.values():
            task.build_all_requests()
            requests = list(task.instances)
            for request, answer in zip(requests, answerer.generate_until(requests), strict=True):
                request.resps.append(answer)
            task.apply_filters()


def in_workers(work: Work, of: int) -> None:
    """Tag all in so many processes of this machine, each with a GPU of its own where there are any.

    Raises:
        Exception: what the first process raised that failed; the others are ended, and what they found is kept.
        UnusableDetector: a process was killed.
    """
    context = get_context("spawn")
    failures = context.SimpleQueue()
    workers = [
        context.Process(target=_worker, args=(work, number, of, failures), daemon=True, name=f"worker {number}")
        for number in range(of)
    ]
    try:
        for worker in workers:
            worker.start()
        left = list(workers)
        while left:
            connection.wait([worker.sentinel for worker in left])
            for worker in [worker for worker in left if not worker.is_alive()]:
                left.remove(worker)
                if worker.exitcode:
                    if not failures.empty():
                        raise failures.get()
                    raise UnusableDetector(
                        f"detector {work.metadata['detector']}: {worker.name} of {of} ended with status {worker.exitcode} "
                        f"(was it killed, for want of memory?); what was tagged is kept, and the same command goes on"
                    )
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
        for worker in workers:
            if worker.pid is not None:
                worker.join()


def _worker(work: Work, number: int, of: int, failures: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    processes.started_as(processes.Here(number, of, number))
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // of)))  # before torch is imported
    if number:
        logging.getLogger("lm_eval").setLevel(logging.ERROR)  # the first process says what all would
    try:
        tag_part(work, number, of)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - our own, on its way to the process that started this one
            failures.put(error)
        except Exception:
            failures.put(RuntimeError(f"{type(error).__name__}: {error}"))
        sys.exit(1)


def _end_with_parent() -> None:
    """A worker whose parent was killed would go on alone, and write where a second run writes."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
