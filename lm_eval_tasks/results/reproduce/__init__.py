"""The work of ``lm-eval-grounded reproduce``: from a results file to the command that made it and the files it needs.

The harness writes model, arguments, seeds and limit into ``config``, and each task's configuration into ``configs``; what
is missing there stands in ``configs.<task>.metadata`` (:mod:`lm_eval_tasks.data.provenance`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.results.reproduce.differences import (
    SAME,
    STATES,
    Compared,
    detectors,
    encoders,
    local_files,
    public_files,
    versions,
)
from lm_eval_tasks.results.reproduce.recorded import commands_of, read_recorded

__all__ = ["Compared", "Reproduction", "commands_behind", "reproduce", "table"]


@dataclass
class Reproduction:
    """The commands and files that give the numbers of a results file again.

    Attributes:
        tasks: of ours, in the order they were run.
        commands: to be typed one after another; empty where none can be told.
        notes: what the commands cannot say, and what to look at.
        compared: versions and files, there and here.
        fetch: the command that downloads what is not here; empty where all is, or nothing can be downloaded.
    """

    tasks: list[str]
    commands: list[str]
    notes: list[str]
    compared: list[Compared]
    fetch: str

    @property
    def same(self) -> bool:
        """Whether all is here, and the same."""
        return bool(self.commands) and all(compared.state == SAME for compared in self.compared)


def reproduce(path: Path, task: str | None = None, mirror: str | None = None) -> Reproduction:
    """What gives the numbers of a results file again.

    Args:
        path: ``results_*.json`` of ``lm_eval`` or of ``lm-eval-grounded score``.
        task: one task or group of it; default all.
        mirror: where the public files lie here, if not where the results say.

    Raises:
        ValueError: it is no such file, is damaged, or says nothing of where its numbers come from.
        OSError: it cannot be read.
    """
    run = read_recorded(path, task)
    if mirror and "mirror" in run.metadata:
        run = replace(run, metadata={**run.metadata, "mirror": mirror})
    commands, notes = commands_of(run, task, mirror)
    public, of_mirror, fetch = public_files(run, mirror or run.metadata.get("mirror"))
    compared = [*versions(run), *public, *local_files(run, path), *encoders(run), *detectors(run)]
    notes += of_mirror
    reasons = dict.fromkeys(reason for record in run.records.values() for reason in record.get("not_comparable", ()))
    if reasons:
        notes.append(f"Not comparable with the published figures: {'; '.join(reasons)}.")
    return Reproduction(list(run.configs), commands, notes, compared, fetch)


def commands_behind(path: Path) -> tuple[list[str], list[str]]:
    """The commands that made a results file, and what they cannot say. No file of its documents is looked at.

    Raises:
        ValueError, OSError: as of :func:`reproduce`.
    """
    return commands_of(read_recorded(path))


def table(reproduction: Reproduction) -> str:
    """The report as a script of a shell: the commands; then, in comments, what is the same here and what is not."""
    lines = []
    for compared in reproduction.compared:
        lines += [f"{compared.state:9} {compared.what}", *(f"{'':9}   {detail}" for detail in compared.details)]
    counts = Counter(compared.state for compared in reproduction.compared)
    lines.append("; ".join(f"{counts[state]} {state}" for state in STATES if counts[state]))
    if reproduction.fetch:
        lines.append(f"What is not here: {reproduction.fetch}")
    tasks, notes, report = (
        [f"# {on_one_line(line)}".rstrip() for line in comments]
        for comments in ([", ".join(reproduction.tasks)], reproduction.notes, lines)
    )
    return "\n".join([*tasks, *reproduction.commands, *notes, "", *report])
