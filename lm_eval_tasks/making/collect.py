"""JSON lines made of the samples of the making tasks: for the next step, and for training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.abstention.folding import fold
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.samples import read_samples, samples_files
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.making import steps

__all__ = ["Collected", "collect"]

Row = dict[str, Any]
_WHO = "lm-eval-grounded make"
_CARRIED = ("title", "url", "language", "question", "reference")
DOUBLE, MISSING = "a double of another row", "a part of the text is missing"


class Collected(NamedTuple):
    """What was made of some samples.

    Attributes:
        step: that the samples are of.
        rows: how many were written, by language.
        replies: how many were read.
        left_out: how many parts of the replies, or rows, were left out, by reason.
    """

    step: str
    rows: dict[str, int]
    replies: int
    left_out: dict[str, int]


def collect(places: Sequence[Path], output: Path, step: str | None = None, faithful: bool = False) -> Collected:
    """Write what models made, as JSON lines, and beside it where it comes from (``<output>.provenance.json``).

    A row has ``id``, ``title``, ``url``, ``article`` (address, or else title), ``language``, ``question``, ``reference``,
    and from the step ``answers`` on ``answer``, ``spans`` (``[start, end, category]``, in characters of the answer) and
    ``model`` (who wrote the answer). The next step reads it with ``--metadata articles=FILE``, training as it is.

    Args:
        places: samples files, or folders of them, as ``lm_eval --log_samples`` writes; of a folder the newest of each task
            counts. Its folder's name is the model's.
        output: the file.
        step: where the samples are of several steps: which.
        faithful: of inserted errors: write each text before the errors as well, as a row of its own.

    Raises:
        MissingSource, CorruptSource: there are no samples, or damaged ones.
        UsageError: samples of no step, of several, or nothing that can be kept.
    """
    files = [
        (file, task) for place in places for tasks in samples_files(place).values() for task, file in tasks.items()
    ]
    known = {of_task for _, task in files if (of_task := steps.step_of(task))}
    if step is not None:
        known &= {step}
    if len(known) != 1:
        of = " and ".join(sorted(known)) if known else f"none ({', '.join(sorted({task for _, task in files}))})"
        raise UsageError(
            f"{_WHO} collect: the samples are of {of}; name those of one step, or choose with --step "
            f"{'|'.join(steps.STEPS)}"
        )
    (step,) = known
    reasons: Counter[str] = Counter()
    rows: list[Row] = []
    replies = 0
    read = _translated if step == steps.TRANSLATE else _made
    used = [file for file, task in files if steps.step_of(task) == step]
    for file in used:
        samples = list(read_samples(file))
        replies += len(samples)
        try:
            rows += read(samples, file.parent.name, reasons, faithful)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptSource(f"{file}: not the samples of a making task ({error!r})") from error
    rows = list(_once(rows, reasons))
    if not rows:
        left_out = "; ".join(f"{reason}: {number}" for reason, number in reasons.items())
        raise UsageError(f"{_WHO} collect: nothing of {replies} replies can be kept ({left_out})")
    collected = Collected(step, dict(Counter(row["language"] for row in rows)), replies, dict(reasons))
    files_used = [provenance.local_file("samples", file) for file in used]
    provenance.write_with_sidecar(output, rows, {"local_files": files_used, "collected": collected._asdict()})
    return collected


def _made(samples: Sequence[Row], model: str, reasons: Counter[str], faithful: bool) -> Iterator[Row]:
    """Rows of questions, answers or inserted errors."""
    for sample in samples:
        doc = sample["doc"]
        reading = steps.read(sample["resps"][0][0], doc)
        reasons += reading.reasons
        for number, made in enumerate(reading.rows, 1):
            several = doc["step"] == steps.QUERIES
            row = {"id": f"{doc['row']}/{number}" if several else doc["row"], **_carried(doc), **made}
            yield row if several else {**row, "model": model}
            if faithful and doc["step"] == steps.SILVER:
                before = {"answer": doc["answer"], "spans": _spans(doc), "model": doc["model"]}
                yield {**row, "id": f"{row['id']}/faithful", **before}


def _translated(samples: Sequence[Row], model: str, reasons: Counter[str], faithful: bool) -> Iterator[Row]:
    """Rows put together from their translated texts; one that lacks a text is left out."""
    translated: dict[str, dict[str, Row]] = {}  # row to part to its translation
    firsts: dict[str, Row] = {}  # row to the document that carries its other fields
    for sample in samples:
        doc = sample["doc"]
        reading = steps.read(sample["resps"][0][0], doc)
        reasons += reading.reasons
        parts = translated.setdefault(doc["row"], {})
        for row in reading.rows:
            parts[doc["part"]] = row
        if doc["part"] == doc["parts"][0]:
            firsts[doc["row"]] = doc
    for id, parts in translated.items():
        first = firsts.get(id)
        if first is None or parts.keys() != {*first["parts"]}:
            reasons[MISSING] += 1
            continue
        texts = {part: row["text"] for part, row in parts.items()}
        fields = {**_carried(first), **texts}
        if first["answer"]:
            spans = parts["answer"]["spans"] if "answer" in parts else _spans(first)
            fields |= {"answer": texts.get("answer", first["answer"]), "spans": spans, "model": first["model"]}
        origin = {"translated_from": first["source_language"], "translator": model}
        yield {"id": f"{id}/{first['language']}", **fields, **origin}


def _carried(doc: Mapping[str, Any]) -> Row:
    """The fields of a document that go into its row."""
    fields = {name: str(doc[name]) for name in _CARRIED}
    return {**fields, "article": fields["url"] or fields["title"]}


def _spans(doc: Mapping[str, Any]) -> list[list[Any]]:
    return [[span["start"], span["end"], span["category"]] for span in doc["spans"]]


def _once(rows: Sequence[Row], reasons: Counter[str]) -> Iterator[Row]:
    """Rows whose text is not that of an earlier one; ids that two models share get the model's name."""
    seen: set[tuple[str, ...]] = set()
    ids: set[str] = set()
    for row in rows:
        key = (row["language"], fold(row["question"]), fold(row.get("answer", "")))
        if key in seen:
            reasons[DOUBLE] += 1
            continue
        seen.add(key)
        id = row["id"] if row["id"] not in ids else f"{row['id']}/{row.get('model', '')}/{len(ids)}"
        ids.add(id)
        yield {**row, "id": id}
