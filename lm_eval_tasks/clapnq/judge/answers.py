"""The answers to judge: those in logged samples of CLAPnq runs, or the gold answers."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.reading.response import final_answer
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.samples import read_samples, samples_files, task_of
from lm_eval_tasks.data.sources import CorruptSource, MissingSource

__all__ = ["REFERENCE", "Answered", "System", "read_reference", "read_systems"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

REFERENCE = "reference"
_COLUMNS = ("id", "question", "answerable", "passages", "answers")
_UNFIT = re.compile(r"[^\w.-]+")


class Answered(NamedTuple):
    """A question as it was asked, and the answer; ``gold`` is the first gold answer, empty where there is none."""

    id: str
    question: str
    passages: list[dict[str, str]]
    gold: str
    answer: str


class System(NamedTuple):
    """A run whose answers are judged.

    Attributes:
        name: in metrics and documents.
        task: which of the CLAPnq tasks it was.
        file: where its answers were read.
        answers: its answers to answerable questions, by question id (the paper rates no others).
        place: what was named, the file or a folder above it; empty where nothing was.
    """

    name: str
    task: str
    file: str
    answers: dict[str, Answered]
    place: str = ""


def read_systems(places: Sequence[str | Path], task: str, names: Sequence[str] | None = None) -> list[System]:
    """Every run of a CLAPnq task below some places: files or folders that ``lm_eval --log_samples`` wrote.

    Args:
        places: each a samples file, or a folder of them; of a folder, the newest file of each task counts.
        task: for messages.
        names: what to call the runs, in the order of their files. Default: their folder (the model), or, where two share
            it, what differs in path and task.

    Raises:
        MissingSource: a place does not exist or has no samples.
        CorruptSource: samples of no CLAPnq task, or damaged ones.
        ValueError: `names` does not fit the runs.
    """
    files: list[tuple[Path, str]] = []
    found_in: list[str] = []
    for place in map(Path, places):
        path = place.expanduser()
        if not path.exists():
            raise MissingSource(
                f"{task}: {path.resolve()} does not exist (--metadata samples=PATH: a samples file or folder)"
            )
        found = [(file, name) for tasks in samples_files(path).values() for name, file in tasks.items()]
        clapnq = [(file, name) for file, name in found if _is_answering(name)]
        if not clapnq:
            raise CorruptSource(
                f"{task}: {path.resolve()} holds samples of {', '.join(sorted({name for _, name in found}))}; what is "
                f"judged here are answers of clapnq_gold* and clapnq_rag* tasks"
            )
        if len(clapnq) < len(found):
            log.info("%s: %s: %d samples files of other tasks were passed over", task, path, len(found) - len(clapnq))
        files += clapnq
        found_in += [str(path)] * len(clapnq)
    called = _names(files, names, task)
    systems = [
        System(name, of, str(file), _answers(file, task), place)
        for name, (file, of), place in zip(called, files, found_in, strict=True)
    ]
    for system in systems:
        log.info("%s: %s: %d answers of %s", task, system.name, len(system.answers), system.file)
    return systems


def read_reference(systems: Sequence[System]) -> System:
    """The gold answers to the questions of some runs, as one more system; questions without one are left out."""
    answers = {
        id: answered._replace(answer=answered.gold)
        for system in systems
        for id, answered in system.answers.items()
        if answered.gold
    }
    return System(REFERENCE, "", "", answers)


def _is_answering(task: str) -> bool:
    return task.startswith(("clapnq_gold", "clapnq_rag"))


def _answers(file: Path, task: str) -> dict[str, Answered]:
    answers: dict[str, Answered] = {}
    unanswerable = 0
    for sample in read_samples(file):
        doc = sample["doc"]
        missing = [column for column in _COLUMNS if column not in doc]
        if missing:
            raise CorruptSource(
                f"{task}: {file}: a document has no {', '.join(missing)}; it is none of {task_of(file)}"
            )
        id = str(doc["id"])
        if doc["answerable"] is False:
            unanswerable += 1
            continue
        if id in answers:
            raise CorruptSource(f"{task}: {file}: two documents have the id {id!r}")
        try:
            answers[id] = _answered(id, doc, final_answer(sample["resps"][0][0]))
        except (KeyError, TypeError) as error:
            raise CorruptSource(f"{task}: {file}: document {id!r} is no CLAPnq document ({error!r})") from error
    if not answers:
        raise CorruptSource(f"{task}: {file}: no answer to an answerable question can be read; only these are judged")
    if unanswerable:
        log.info("%s: %s: %d unanswerable questions are not judged", task, file, unanswerable)
    return answers


def _answered(id: str, doc: Mapping[str, Any], answer: str) -> Answered:
    passages = [{"title": passage["title"], "text": passage["text"]} for passage in doc["passages"]]
    gold = next(iter(doc["answers"]), "")
    texts = [doc["question"], gold, *(text for passage in passages for text in passage.values())]
    if doc["answerable"] is not True or not all(isinstance(text, str) for text in texts):
        raise TypeError("answerable must be true or false, questions, passages and answers must be texts")
    return Answered(id, doc["question"], passages, gold, answer)


def _names(files: Sequence[tuple[Path, str]], given: Sequence[str] | None, task: str) -> list[str]:
    if given is not None:
        names = [_UNFIT.sub("_", str(name)) for name in given]
        if len(names) != len(files) or not _usable(names):
            raise UsageError(
                f"{task}: judge_names={list(given)!r} must be {len(files)} different names, none of them {REFERENCE!r} or "
                f"ending in _stderr, for {', '.join(str(file) for file, _ in files)}"
            )
        return names
    for candidates in ([file.parent.name for file, _ in files], _what_differs(files)):
        names = [_UNFIT.sub("_", name) for name in candidates]
        if _usable(names):
            return names
    raise UsageError(
        f"{task}: the runs cannot be told apart by folder and task ({', '.join(str(file) for file, _ in files)}); "
        f"say judge_names=['one','other']"
    )


def _what_differs(files: Sequence[tuple[Path, str]]) -> list[str]:
    """The path of each run below the folder that holds all, and its task, without what is the same for all."""
    folders = [file.parent.resolve() for file, _ in files]
    above = Path(os.path.commonpath(folders))
    places = [".".join(folder.relative_to(above).parts) or above.name for folder in folders]
    tasks = [of for _, of in files]
    if len(set(places)) == 1:
        return tasks
    if len(set(tasks)) == 1 and _usable(places):
        return places
    return [f"{place}.{of}" for place, of in zip(places, tasks, strict=True)]


def _usable(names: Sequence[str]) -> bool:
    """Whether metrics can be named after systems of these names."""
    return len({*names, REFERENCE}) == len(names) + 1 and not any(name.endswith("_stderr") for name in names)
