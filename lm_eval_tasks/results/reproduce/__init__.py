"""The work of ``lm-eval-grounded reproduce``: from a results file to the command that made it and the files it needs.

The harness writes model, arguments, seeds and limit into ``config``, and each task's configuration into ``configs``; what
is missing there stands in ``configs.<task>.metadata.provenance`` (:mod:`lm_eval_tasks.data.provenance`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from custom_metrics.usage.printable import on_one_line
from lm_eval_tasks.results.reproduce.command_lines import commands_of, score_command
from lm_eval_tasks.results.reproduce.compared import ABSENT, DIFFERS, SAME, UNKNOWN, Compared, versions
from lm_eval_tasks.results.reproduce.files import local_files, public_files
from lm_eval_tasks.results.reproduce.models import detectors, encoders
from lm_eval_tasks.results.reproduce.results import chosen_tasks, metadata_of
from lm_eval_tasks.runs.results_file import read_results, record_of

__all__ = ["SAME", "Compared", "Reproduction", "commands_behind", "reproduce", "table"]


@dataclass
class Reproduction:
    """The commands and files that give the numbers of a results file again.

    Attributes:
        tasks: of ours, in the order they were run.
        commands: to be typed one after another; empty where none can be told.
        notes: what the file does not say, and what to look at.
        compared: versions and files, there and here.
        fetch: the command that downloads what is not here; empty where all is, or nothing can be downloaded.
    """

    tasks: list[str]
    commands: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    fetch: str = ""

    @property
    def same(self) -> bool:
        """Whether all is here, and the same."""
        return bool(self.commands) and all(one.state == SAME for one in self.compared)


def reproduce(path: Path, task: str | None = None, mirror: str | None = None) -> Reproduction:
    """Read a results file.

    Args:
        path: ``results_*.json`` of ``lm_eval`` or of ``lm-eval-grounded score``.
        task: one task or group of it; default all.
        mirror: where the public files lie here, if not where the results say.

    Raises:
        ValueError: it is no such file, is damaged, or says nothing of where its numbers come from.
        OSError: it cannot be read.
    """
    results = read_results(path)
    chosen = chosen_tasks(results, task, path)
    configs = {name: results["configs"][name] for name in chosen}
    records = {name: record_of(config) for name, config in configs.items()}
    found = Reproduction(chosen)
    told = metadata_of(results, configs, records)
    place = mirror or told.get("mirror")
    if mirror:
        told = {**told, "mirror": mirror} if "mirror" in told else told
    found.commands, found.notes = _commands(results, configs, records, told, task, mirror)
    public = public_files(records.values(), place)
    found.notes += public.notes
    found.fetch = public.fetch
    found.compared = [
        *versions(results, records.values()),
        *public.compared,
        *local_files(results, records, told, path),
        *encoders(records.values(), told),
        *detectors(results["config"], configs, records),
    ]
    reasons = dict.fromkeys(reason for record in records.values() for reason in record.get("not_comparable", ()))
    if reasons:
        found.notes.append(f"Not comparable with the published figures: {'; '.join(reasons)}.")
    return found


def commands_behind(path: Path) -> tuple[list[str], list[str]]:
    """The commands that made a results file, and what they cannot say. No file of its documents is looked at.

    Raises:
        ValueError: it is no such file, is damaged, or says nothing of where its numbers come from.
        OSError: it cannot be read.
    """
    results = read_results(path)
    configs = {name: results["configs"][name] for name in chosen_tasks(results, None, path)}
    records = {name: record_of(config) for name, config in configs.items()}
    return _commands(results, configs, records, metadata_of(results, configs, records), None, None)


def _commands(
    results: Mapping[str, Any],
    configs: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    told: Mapping[str, Any],
    task: str | None,
    mirror: str | None,
) -> tuple[list[str], list[str]]:
    """The harness's command, and the one that scored its answers where these were logged first."""
    commands, notes = commands_of(results, configs, records, told, task, mirror)
    if commands and any("answers" in record for record in records.values()):
        commands.append(score_command(configs))
    return commands, notes


def table(found: Reproduction) -> str:
    """The report as a script of a shell: the commands; then, in comments, what is the same here and what is not."""
    compared = []
    for one in found.compared:
        compared += [f"{one.state:9} {one.what}", *(f"{'':9}   {detail}" for detail in one.details)]
    counts = {state: sum(one.state == state for one in found.compared) for state in (SAME, DIFFERS, ABSENT, UNKNOWN)}
    compared.append("; ".join(f"{number} {state}" for state, number in counts.items() if number))
    if found.fetch:
        compared.append(f"What is not here: {found.fetch}")
    before, notes, after = (
        [f"# {on_one_line(line)}".rstrip() for line in lines]
        for lines in ([", ".join(found.tasks)], found.notes, compared)
    )
    return "\n".join([*before, *found.commands, *notes, "", *after])
