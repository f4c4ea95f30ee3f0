"""Training examples of CLAPnq: the prompts of its tasks with the answers that a model should give.

A prompt is rendered by the harness task itself, so training and evaluation prompts are the same to the letter. The settings
are those of the paper's fine-tuned models (sections 4.2 and 4.3, appendix C).
"""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq import dataset, retrieval
from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.commands.work.retrieving import refuse_unfitting
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.definition import metadata
from lm_eval_tasks.harness import autoload

__all__ = ["COLUMNS", "PROMPTS", "SETTINGS", "Exported", "export_clapnq", "sidecar_of"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_WHO = "lm-eval-grounded export"
SETTINGS = ("gold", "rag", "rag-gold")
PROMPTS = {"flan": "", "gpt": "_gpt", "llama": "_llama"}
"""Name of a prompt to the ending of its tasks' names."""
COLUMNS = ("prompt", "completion", "messages")

Document = dict[str, Any]


class Exported(NamedTuple):
    """What was written.

    Attributes:
        examples: how many, by kind: ``answerable`` and ``unanswerable``.
        left_out: questions without an example, by reason.
        gold: answerable questions by where the gold passage is among those given; empty in the setting ``gold``.
    """

    examples: dict[str, int]
    left_out: dict[str, int]
    gold: dict[str, int]


def export_clapnq(
    output: Path,
    split: str = "train",
    setting: str = "gold",
    prompt: str = "flan",
    retriever: str | None = None,
    top_k: int = 3,
    seed: int = 1234,
    columns: Sequence[str] = COLUMNS,
    options: Mapping[str, Any] | None = None,
    mirror: str | None = None,
) -> Exported:
    """Write the training examples of a split as JSON lines, and beside them where they come from (:func:`sidecar_of`).

    A line has ``id`` (the question and the setting), ``answerable`` and `columns`: ``prompt`` and ``completion`` (plain
    text, to be put one after the other), ``messages`` (the turns of a chat, the last one the assistant's).

    Args:
        output: the file.
        split: ``"train"`` or ``"validation"`` (also ``"dev"``).
        setting: ``"gold"`` (the gold passage), ``"rag"`` (the retrieved passages, gold or not) or ``"rag-gold"`` (the same
            with the gold passage at a random place among them, the paper's E5-G-CLAPnq-T5-lg).
        prompt: ``"flan"``, ``"gpt"`` or ``"llama"``.
        retriever: who finds the passages, one of ``retrieval.names()``; default ``"bm25"``.
        top_k: how many passages a prompt has, the gold one included.
        seed: decides the places of gold passages, each by itself: the order of the questions does not matter.
        columns: of :data:`COLUMNS`.
        options: of the retriever.
        mirror: folder with copies of the public files.

    Raises:
        ValueError: an unknown split, setting, prompt, retriever or column; `top_k` is no whole number or too large; an
            option of another retriever, or a retriever with the setting ``"gold"``.
        MissingSource, CorruptSource: a file is not to be had, or damaged.
    """
    metadata.choice("split", split, dataset.FILE_SPLIT, _WHO)
    metadata.choice("setting", setting, SETTINGS, _WHO)
    metadata.choice("prompt", prompt, PROMPTS, _WHO)
    for column in columns:
        metadata.choice("column", column, COLUMNS, _WHO)
    if setting == "gold" and (retriever or options):
        raise UsageError(f"{_WHO}: the setting gold has no retriever; say --setting rag or rag-gold")
    finder = retriever or "bm25"
    if setting != "gold":
        metadata.choice("retriever", finder, retrieval.names(), _WHO)
        refuse_unfitting(finder, options or {}, _WHO)
    task = _task(f"clapnq_gold{PROMPTS[prompt]}", split, mirror)
    documents, found_at = task.eval_docs, Counter[str]()
    if setting != "gold":
        given = {**(options or {}), "retriever": finder, "top_k": top_k}
        documents = dataset.load(split=split, mirror=mirror, name=_WHO, **given)["evaluation"]
    record = provenance.of_dataset(documents)
    record.pop("not_comparable", None)  # speaks of figures
    rows: Sequence[Document] = documents
    if setting != "gold":
        gold_passages = {row["id"]: row["passages"] for row in task.eval_docs}
        folder = sources.mirror_folder(mirror)
        corpus = dataset.open_corpus(str(folder) if folder else None)
        rows = [_placed(row, gold_passages[row["id"]], corpus, setting, top_k, seed, found_at) for row in documents]
    kept, left_out = Counter[str](answerable=0, unanswerable=0), Counter[str]()
    side = sidecar_of(output)
    with whole_file(side) as partial_side, whole_file(output) as partial:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            for example in _examples(task, rows, setting, columns, kept, left_out):
                stream.write(json.dumps(example, ensure_ascii=False, allow_nan=False) + "\n")
        if not sum(kept.values()):
            raise UsageError(f"{_WHO}: no question of {split} has an answer to learn from ({dict(left_out)})")
        exported = Exported(dict(kept), dict(left_out), dict(found_at))
        said = {
            "setting": setting,
            "prompt": prompt,
            "columns": list(columns),
            "seed": seed if setting == "rag-gold" else None,
            **exported._asdict(),
        }
        content = {"versions": provenance.versions(), **record, "export": said}
        partial_side.write_text(json.dumps(provenance.plain(content), indent=2, ensure_ascii=False) + "\n", "utf-8")
    return exported


def sidecar_of(output: Path) -> Path:
    """The file beside an export with its provenance: public files and their digests, retriever, versions, counts."""
    return output.with_name(f"{output.name}.provenance.json")


def _task(name: str, split: str, mirror: str | None) -> Any:
    """The harness task whose prompts are exported, with the questions and gold passages of a split."""
    from lm_eval.tasks import TaskManager

    given = {"split": split, **({"mirror": mirror} if mirror else {})}
    manager = TaskManager(include_path=autoload.task_folder(), include_defaults=False, metadata=given)
    return manager.load([name])["tasks"][name]


def _placed(
    row: Mapping[str, Any],
    gold: Sequence[Mapping[str, str]],
    corpus: Corpus,
    setting: str,
    top_k: int,
    seed: int,
    found_at: Counter[str],
) -> Document:
    """A question with the passages of its prompt. Where the gold one was found is counted.

    An unanswerable question keeps what was retrieved: it has no gold passage.
    """
    if not row["answerable"]:
        return dict(row)
    ranks = row["gold_ranks"]
    found_at[f"among the {top_k} retrieved" if ranks else f"not among the {top_k} retrieved"] += 1
    if setting == "rag":
        return dict(row)
    if row["gold_ids"]:
        first = row["gold_ids"][0]
        wanted = row["passages"][ranks[0] - 1] if ranks else corpus.passage(first)._asdict()
    else:
        found_at["not in the corpus, taken from the annotations"] += 1
        wanted = gold[0]
    others = [each for each in row["passages"] if not _same(each, wanted)][: top_k - 1]
    chance = random.Random(f"{seed} {row['id']}")  # noqa: S311 (a place among passages, no secret)
    place = chance.randint(0, len(others))
    return {**row, "passages": [*others[:place], dict(wanted), *others[place:]]}


def _same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return bool(one["id"] and one["id"] == other["id"]) or one["text"].strip() == other["text"].strip()


def _examples(
    task: Any,
    rows: Sequence[Document],
    setting: str,
    columns: Sequence[str],
    kept: Counter[str],
    left_out: Counter[str],
) -> Iterator[Document]:
    separator = str(task.config.target_delimiter)
    after_prompt = separator[len(separator.rstrip()) :]  # what the task leaves to the model's answer
    for row in tqdm(rows, desc=f"{setting} prompts", unit="question", disable=None):
        if row["answerable"] and not row["answers"]:
            left_out["answerable, without a gold answer"] += 1
            continue
        kept["answerable" if row["answerable"] else "unanswerable"] += 1
        answer = str(task.doc_to_target(row)).strip()
        turns = task.fewshot_context(row, 0, apply_chat_template=True, chat_template=_turns)
        example = {
            "prompt": task.fewshot_context(row, 0),
            "completion": after_prompt + answer,
            "messages": [*turns, {"role": "assistant", "content": answer}],
        }
        named = {"id": f"{row['id']}/{setting}", "answerable": row["answerable"]}
        yield {**named, **{column: example[column] for column in COLUMNS if column in columns}}


def _turns(messages: Sequence[Mapping[str, str]], **_: Any) -> list[dict[str, str]]:
    """A chat template that leaves the turns as they are."""
    return [{"role": message["role"], "content": message["content"]} for message in messages]
