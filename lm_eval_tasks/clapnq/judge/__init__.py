"""CLAPnq's human evaluation with a language model in the people's place (paper, section 5 and appendix A.2)."""

from __future__ import annotations

import logging
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.reading.response import final_answer
from custom_metrics.scores.judging import ASPECTS
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import quote
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.samples import read_samples, samples_files, task_of
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.data.sources import MissingSource as MissingSource
from lm_eval_tasks.definition import Documents, flag, positive, refuse_misspelt

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

RATINGS, PAIRS = "clapnq_judge", "clapnq_judge_pairs"
REFERENCE = "reference"  # the system of the gold answers
_OPTIONS = ("samples", "judge_names", "judge_reference", "judge_orders", "judge_seed")
JUDGED = ("clapnq_gold", "clapnq_rag", "mtragun_")
"""What the names of tasks begin with whose answers are judged: their documents have these columns."""


def load_ratings(samples: Any = None, judge_reference: Any = False, **ignored: Any) -> Documents:
    """Load a run's answers to answerable questions, each to be rated for two aspects. Errors are those of
    :func:`load_pairs`.

    Args:
        samples: the samples file of the run, or the folder it lies in.
        judge_reference: rate the gold answers to the same questions instead.

    Returns:
        ``{"evaluation": documents}``; columns ``id`` (of the question), ``query_id`` (with the aspect), ``aspect``,
        ``system``, ``answer``, and ``quoted``: ``question``, ``passages`` (a list), ``answer``. The two aspects of an
        answer are neighbours.
    """
    refuse_misspelt(ignored, _OPTIONS, RATINGS)
    flag("judge_reference", judge_reference, RATINGS)
    systems = _read_systems(samples, RATINGS)
    if len(systems) > 1:
        files = "\n  ".join(str(system.file) for system in systems)
        raise UsageError(
            f'{RATINGS} rates one run; say which of these with --metadata \'{{"samples": "FILE"}}\':\n  {files}'
        )
    system = _reference(systems) if judge_reference else systems[0]
    if not system.answers:
        raise UsageError(f"{RATINGS}: none of the questions in {systems[0].file} has a gold answer")
    rows = [
        {
            "id": answered.id,
            "query_id": f"{answered.id}/{aspect}",
            "aspect": aspect,
            "system": system.name,
            "answer": answered.answer,
            "quoted": {
                "question": quote(answered.question),
                "passages": answered.passages,
                "answer": quote(answered.answer),
            },
        }
        for answered in system.answers.values()
        for aspect in ASPECTS
    ]
    return _documents(rows, systems, {"judge_reference": judge_reference}, {"ratings": len(rows)}, {})


def load_pairs(
    samples: Any = None,
    judge_names: Any = None,
    judge_reference: Any = False,
    judge_orders: int = 2,
    judge_seed: int = 1234,
    **ignored: Any,
) -> Documents:
    """Load the answers of two or more runs to the same questions, in pairs.

    Args:
        samples: a folder that holds the runs, or a list of files and folders.
        judge_names: of the runs. Default: their folder (the model), or, where two share it, the differing parts of path
            and task.
        judge_reference: add the gold answers as a further system.
        judge_orders: 2: every pair is shown in both orders; 1: in one, each order for half of the questions.
        judge_seed: of the order of questions, and of the first (or only) order of a pair.

    Returns:
        ``{"evaluation": documents}``; columns ``id`` (of the question), ``query_id``, ``first`` and ``second`` (which
        system's answer is shown as A and B), ``systems`` (all), and ``quoted``: ``question``, ``passages`` (a list: those
        of both runs, each once; gold answers have none of their own), ``first``, ``second``. A MissingSource,
        CorruptSource or UsageError without samples, with those of another task, fewer than two systems, or no question
        that all have answered."""
    refuse_misspelt(ignored, _OPTIONS, PAIRS)
    if positive("judge_orders", judge_orders, PAIRS) > 2:
        raise UsageError(f"{PAIRS}: judge_orders must be 1 or 2, got {judge_orders!r}")
    positive("judge_seed", judge_seed, PAIRS)
    flag("judge_reference", judge_reference, PAIRS)
    runs = _read_systems(samples, PAIRS, judge_names)
    systems = [*runs, _reference(runs)] if judge_reference else runs
    if len(systems) < 2:
        raise UsageError(
            f"{PAIRS}: only one run in {systems[0].file}; name two or more, samples=['one','other'], or add "
            f"judge_reference=true to compare it with the gold answers"
        )
    names = [system.name for system in systems]
    common = [id for id in systems[0].answers if all(id in system.answers for system in systems)]
    if not common:
        raise UsageError(f"{PAIRS}: no question was answered by all of {', '.join(names)}")
    lacking = len({id for system in systems for id in system.answers}) - len(common)
    if lacking:
        log.warning("%s: %d questions that not all runs answered are left out", PAIRS, lacking)
    log.info("%s: %d questions, %s", PAIRS, len(common), " against ".join(names))
    rows = [
        {
            "id": id,
            "query_id": f"{id}/{first.name}/{second.name}",
            "first": first.name,
            "second": second.name,
            "systems": names,
            "quoted": {
                "question": quote(first.answers[id].question),
                "passages": _passages(id, first, second),
                "first": quote(first.answers[id].answer),
                "second": quote(second.answers[id].answer),
            },
        }
        for id, first, second in _presented_pairs(systems, common, judge_orders, judge_seed)
    ]
    options = {"judge_names": [run.name for run in runs], "judge_reference": judge_reference}
    options |= {"judge_orders": judge_orders, "judge_seed": judge_seed}
    left_out = {"questions that not all runs answered": lacking}
    return _documents(rows, runs, options, {"questions": len(common), "pairs": len(rows)}, left_out if lacking else {})


def _passages(id: str, *systems: System) -> list[str]:
    """The passages of a question that some systems were given."""
    given = (system.answers[id].passages for system in systems if system.name != REFERENCE)
    return list(dict.fromkeys(passage for passages in given for passage in passages))


def _documents(
    rows: list[dict[str, Any]],
    runs: Sequence[System],
    options: dict[str, Any],
    kept: dict[str, int],
    left_out: dict[str, int],
) -> Documents:
    files = [{**provenance.local_file("samples", run.file, run.place), "system": run.name} for run in runs]
    record = provenance.Record("samples", local_files=files, options=options, kept=kept, left_out=left_out)
    return {"evaluation": provenance.documents_of(rows, record)}


def _presented_pairs(
    systems: Sequence[System], questions: Sequence[str], orders: int, seed: int
) -> Iterator[tuple[str, System, System]]:
    """The id of a question, and the systems shown as A and B, for each document."""
    shuffled = random.Random(seed).sample(list(questions), len(questions))  # noqa: S311 (an order, no secret)
    for number, id in enumerate(shuffled):
        # The first order of a pair alternates from question to question, and from pair to pair.
        for pair_number, pair in enumerate(combinations(systems, 2)):
            order = pair if (number + pair_number) % 2 == 0 else pair[::-1]
            for first, second in (order, order[::-1])[:orders]:
                yield id, first, second


# ----------------------------------------------------------------------------------------------------- the answers to judge


class AnsweredQuestion(NamedTuple):
    id: str
    question: str
    passages: list[str]  # quoted
    gold: str  # the first gold answer, or empty
    answer: str


class System(NamedTuple):
    """A run whose answers are judged."""

    name: str  # in metrics and documents
    file: Path  # of its answers
    place: Path  # the path that the user named: the file or a folder above it
    answers: dict[str, AnsweredQuestion]  # to answerable questions, by question id (the paper rates no others)


def _read_systems(samples: Any, task: str, names: Sequence[str] | None = None) -> list[System]:
    """Read the runs of CLAPnq tasks in samples files or folders; of a folder, the newest file of each task counts."""
    if not samples:
        raise UsageError(
            f'{task} judges the answers of an earlier run: --metadata \'{{"samples": "PATH"}}\', what `lm_eval --tasks '
            f"clapnq_... --log_samples --output_path PATH` wrote"
        )
    files: list[tuple[Path, str, Path]] = []  # with the place that was named
    for place in samples if isinstance(samples, (list, tuple)) else [samples]:
        path = Path(str(place)).expanduser()
        listed = [(file, name, path) for tasks in samples_files(path).values() for name, file in tasks.items()]
        judged = [each for each in listed if each[1].startswith(JUDGED)]
        if not judged:
            raise CorruptSource(
                f"{task}: {path.resolve()} holds samples of {', '.join(sorted({name for _, name, _ in listed}))}; what is "
                f"judged here are answers of {', '.join(f'{name}*' for name in JUDGED)} tasks"
            )
        if len(judged) < len(listed):
            log.info("%s: %s: %d samples files of other tasks were passed over", task, path, len(listed) - len(judged))
        files += judged
    named = zip(_names([each[:2] for each in files], names, task), files, strict=True)
    return [System(name, file, place, _answers(file, task)) for name, (file, _, place) in named]


def _reference(systems: Sequence[System]) -> System:
    """The gold answers to the questions of some runs, as a further system; questions without one are left out."""
    with_gold = [answered for system in systems for answered in system.answers.values() if answered.gold]
    gold = {answered.id: answered._replace(answer=answered.gold) for answered in with_gold}
    return System(REFERENCE, Path(), Path(), gold)


def _answers(file: Path, task: str) -> dict[str, AnsweredQuestion]:
    answers: dict[str, AnsweredQuestion] = {}
    unanswerable = 0
    for sample in read_samples(file):
        doc = sample["doc"]
        try:
            if doc["answerable"] is False:
                unanswerable += 1
                continue
            id, gold = str(doc["id"]), next(iter(doc["answers"]), "")
            passages = [quote(f"{passage['title']}\n{passage['text']}") for passage in doc["passages"]]
            answer = final_answer(sample["resps"][0][0])
            answers[id] = AnsweredQuestion(id, _asked(doc), passages, gold, answer)
        except (KeyError, TypeError) as error:
            raise CorruptSource(f"{task}: {file}: a document is none of {task_of(file)}: {error!r:.200}") from error
    if not answers:
        raise CorruptSource(f"{task}: {file}: no answer to an answerable question can be read; only these are judged")
    log.info("%s: %d answers of %s; %d unanswerable questions are not judged", task, len(answers), file, unanswerable)
    return answers


def _asked(doc: Mapping[str, Any]) -> str:
    turns = doc.get("conversation") or ()
    return "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns) or str(doc["question"])


def _names(files: Sequence[tuple[Path, str]], given: Sequence[str] | None, task: str) -> list[str]:
    """Names in metrics for the runs of some files and tasks: those given; the names of their folders; or, where two share
    one, path below the common folder and task, without the one that all share."""
    folders = [file.parent.resolve() for file, _ in files]
    above = Path(os.path.commonpath(folders))
    places = [".".join(folder.relative_to(above).parts) or above.name for folder in folders]
    tasks = [name for _, name in files]
    combined = [f"{place}.{name}" for place, name in zip(places, tasks, strict=True)]
    differing = tasks if len({*places}) == 1 else places if len({*tasks}) == 1 else combined
    candidates = [[file.parent.name for file, _ in files], differing, combined] if given is None else [given]
    for names in candidates:
        fitting = [re.sub(r"[^\w.-]+", "_", str(name)) for name in names]
        if len({*fitting, REFERENCE}) == len(names) + 1 == len(files) + 1:
            return fitting
    why = "the runs cannot be told apart by folder and task; say judge_names=['one','other']"
    if given is not None:
        why = f"judge_names={list(given)!r} must be {len(files)} different names, none of them {REFERENCE!r}"
    raise UsageError(f"{task}: {why}: {', '.join(str(file) for file, _ in files)}")
