"""Documents of ``clapnq_judge`` and ``clapnq_judge_pairs``: what a judge is asked."""

from __future__ import annotations

import logging
import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.scores.judging import ASPECTS
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.judge.answers import REFERENCE, Answered, System, read_reference, read_systems
from lm_eval_tasks.data import provenance
from lm_eval_tasks.definition import metadata

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["load_pairs", "load_ratings", "quote"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

RATINGS, PAIRS = "clapnq_judge", "clapnq_judge_pairs"
_OPTIONS = ("samples", "judge_names", "judge_reference", "judge_orders", "judge_seed")


def load_ratings(samples: Any = None, judge_reference: Any = False, **ignored: Any) -> dict[str, Dataset]:
    """One run's answers to answerable questions, each to be rated for two aspects.

    Args:
        samples: the samples file of the run, or the folder it lies in.
        judge_reference: rate the gold answers to the same questions instead.
        ignored: the model's arguments, which the harness passes as well.

    Returns:
        ``{"evaluation": documents}``; columns ``id`` (of the question), ``query_id`` (with the aspect), ``aspect``,
        ``system``, ``answer``, and ``quoted``: ``question``, ``passages`` (a list), ``answer``. The two aspects of an
        answer follow one another.

    Raises:
        MissingSource, CorruptSource, ValueError: no samples, samples of another task, or of several runs.
    """
    metadata.refuse_misspelt(ignored, _OPTIONS, RATINGS)
    metadata.flag("judge_reference", judge_reference, RATINGS)
    systems = read_systems(_places(samples, RATINGS), RATINGS)
    if len(systems) > 1:
        files = "\n  ".join(system.file for system in systems)
        raise UsageError(f"{RATINGS} rates one run; say which of these with --metadata samples=FILE:\n  {files}")
    system = read_reference(systems) if judge_reference else systems[0]
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
                "passages": [_passage(passage) for passage in answered.passages],
                "answer": quote(answered.answer),
            },
        }
        for answered in system.answers.values()
        for aspect in ASPECTS
    ]
    record = _record(systems, {"judge_reference": judge_reference}, {"ratings": len(rows)})
    return {"evaluation": provenance.documents_of(rows, record)}


def load_pairs(
    samples: Any = None,
    judge_names: Any = None,
    judge_reference: Any = False,
    judge_orders: int = 2,
    judge_seed: int = 1234,
    **ignored: Any,
) -> dict[str, Dataset]:
    """The answers of two or more runs to the same questions, in pairs.

    Args:
        samples: a folder that holds the runs, or a list of files and folders.
        judge_names: what to call the runs, a list.
        judge_reference: the gold answers take part as a system of their own.
        judge_orders: 2: every pair is shown in both orders; 1: in one, each order for half of the questions.
        judge_seed: decides the order of questions, and which order of a pair comes first (or at all).
        ignored: the model's arguments, which the harness passes as well.

    Returns:
        ``{"evaluation": documents}``; columns ``id`` (of the question), ``query_id``, ``first`` and ``second`` (which
        system's answer is shown as A and B), ``systems`` (all), and ``quoted``: ``question``, ``passages`` (a list: those
        of both runs, each once; gold answers have none of their own), ``first``, ``second``.

    Raises:
        MissingSource, CorruptSource, ValueError: no samples, samples of another task, fewer than two systems, or no
            question that all have answered.
    """
    metadata.refuse_misspelt(ignored, _OPTIONS, PAIRS)
    if metadata.positive("judge_orders", judge_orders, PAIRS) > 2:
        raise UsageError(f"{PAIRS}: judge_orders must be 1 or 2, got {judge_orders!r}")
    metadata.positive("judge_seed", judge_seed, PAIRS)
    metadata.flag("judge_reference", judge_reference, PAIRS)
    if judge_names is not None and not isinstance(judge_names, (list, tuple)):
        raise UsageError(f"{PAIRS}: judge_names must be a list, as in judge_names=['one','other'], got {judge_names!r}")
    systems = read_systems(_places(samples, PAIRS), PAIRS, judge_names)
    if judge_reference:
        systems.append(read_reference(systems))
    if len(systems) < 2:
        raise UsageError(
            f"{PAIRS}: only one run in {systems[0].file}; name two or more, samples=['one','other'], or add "
            f"judge_reference=true to compare it with the gold answers"
        )
    common = [id for id in systems[0].answers if all(id in system.answers for system in systems)]
    if not common:
        raise UsageError(f"{PAIRS}: no question was answered by all of {', '.join(system.name for system in systems)}")
    every = {id for system in systems for id in system.answers}
    if len(every) > len(common):
        log.warning("%s: %d questions that not all runs answered are left out", PAIRS, len(every) - len(common))
    log.info("%s: %d questions, %s", PAIRS, len(common), " against ".join(system.name for system in systems))
    rows = list(_pairs(systems, common, judge_orders, judge_seed))
    options = {
        "judge_names": [system.name for system in systems if system.name != REFERENCE],
        "judge_reference": judge_reference,
        "judge_orders": judge_orders,
        "judge_seed": judge_seed,
    }
    left_out = {"questions that not all runs answered": len(every) - len(common)}
    record = _record(systems, options, {"questions": len(common), "pairs": len(rows)}, left_out)
    return {"evaluation": provenance.documents_of(rows, record)}


def _record(
    systems: Sequence[System], options: dict[str, Any], kept: dict[str, int], left_out: dict[str, int] | None = None
) -> provenance.Record:
    """What is judged, and the samples it was read from."""
    files = [
        {**provenance.local_file("samples", Path(system.file), Path(system.place)), "system": system.name}
        for system in systems
        if system.file
    ]
    dropped = {what: number for what, number in (left_out or {}).items() if number}
    return provenance.Record("samples", local_files=files, options=options, kept=kept, left_out=dropped)


def _pairs(systems: Sequence[System], questions: Sequence[str], orders: int, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)  # noqa: S311 (an order of questions, no secret)
    shuffled = chance.sample(list(questions), len(questions))
    names = [system.name for system in systems]
    for number, id in enumerate(shuffled):
        # Over the shuffled questions the orders take turns, and with them which pair starts with which.
        for pair_number, (one, other) in enumerate(combinations(systems, 2)):
            shown = (one, other) if (number + pair_number) % 2 == 0 else (other, one)
            for first, second in (shown, shown[::-1])[:orders]:
                yield _pair(first.name, second.name, first.answers[id], second.answers[id], names)


def _pair(first: str, second: str, one: Answered, other: Answered, systems: list[str]) -> dict[str, Any]:
    read = [answered.passages for name, answered in ((first, one), (second, other)) if name != REFERENCE]
    passages = list(dict.fromkeys(_passage(passage) for passages in read for passage in passages))
    return {
        "id": one.id,
        "query_id": f"{one.id}/{first}/{second}",
        "first": first,
        "second": second,
        "systems": systems,
        "quoted": {
            "question": quote(one.question),
            "passages": passages,
            "first": quote(one.answer),
            "second": quote(other.answer),
        },
    }


def _passage(passage: dict[str, str]) -> str:
    return quote(f"{passage['title']}\n{passage['text']}")


def _places(samples: Any, task: str) -> list[str]:
    if not samples:
        raise UsageError(
            f"{task} judges the answers of an earlier run: --metadata samples=PATH, what `lm_eval --tasks clapnq_... "
            f"--log_samples --output_path PATH` wrote"
        )
    return [str(place) for place in samples] if isinstance(samples, (list, tuple)) else [str(samples)]


# <|im_end|>, </s>, <start_of_turn>, <｜User｜>, ◁think▷, [INST], [gMASK], [|endofturn|], ]~b]: a bracket that touches what
# follows, also in full width, which some tokenizers make plain. [1] is none.
_OPENING = re.compile(r"[<＜﹤◁](?=\S)|[\[［](?=[^\s\d])|\](?=~)")
# Format characters that scripts need; all others (direction overrides, tag characters) say things that no reader sees.
_NEEDED = "\u200c\u200d\u00ad"
# Variation selectors beyond those of emoji: marks by category, but unseen, and 256 of them spell any byte.
_SELECTORS = {*map(chr, range(0xFE00, 0xFE0E)), *map(chr, range(0xE0100, 0xE01F0))}


def quote(text: str) -> str:
    """The text as quoted lines. Invisible and other non-text characters are removed, tabs become spaces.

    A judge's prompt holds answers that anyone may have written. Each of their lines stands behind ``> ``, so that none can
    pass for a line of the prompt, and what a tokenizer could take for a special token (the end of a turn, say) is broken.
    An empty text is one empty quoted line.
    """
    lines = text.splitlines() or [""]
    return "\n".join(f"> {_OPENING.sub(_apart, _visible(line))}".rstrip() for line in lines)


def _apart(match: re.Match[str]) -> str:
    return f"{match[0]} "


def _visible(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    kept = []
    for character in line:
        category = unicodedata.category(character)
        if character == "\t":
            kept.append(" ")
        elif character not in _SELECTORS and (category[0] != "C" or character in _NEEDED):
            kept.append(character)
    return "".join(kept)
