"""Write the figures of runs as one table, or training examples with the tasks' own prompts.

`figures`: a row for each figure of the runs: model, task, language, filter, metric, value, bounds, number of documents,
denominator, settings. FILE ends in `.csv` or `.json`.

`clapnq`: JSON lines with `prompt` and `completion` (plain text) and `messages` (a chat), which TRL, Axolotl, LLaMA-Factory
and transformers' Seq2SeqTrainer read. The tasks themselves render the prompts. FILE.provenance.json says where the examples
come from.

Examples:
  lm-eval-grounded export figures results -o figures.csv
  lm-eval-grounded export clapnq --setting rag --retriever bm25 --split dev -o dev.jsonl
"""

from __future__ import annotations

import argparse
import inspect
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.commands import (
    add_cost,
    add_mirror,
    add_output,
    add_retriever_options,
    print_or_write,
    retriever_options,
    say,
)

if TYPE_CHECKING:
    from lm_eval_tasks.clapnq.corpus import Corpus

_WHO = "lm-eval-grounded export"
SETTINGS = ("gold", "rag", "rag-gold")
PROMPTS = {"flan": "", "gpt": "_gpt", "llama": "_llama"}
"""Name of a prompt to the suffix of its tasks' names."""
COLUMNS = ("prompt", "completion", "messages")

Document = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=("figures", "clapnq"), help="figures of runs; training examples of CLAPnq")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="figures: folders, or results files")
    parser.add_argument("--split", default="train", help="train (the default) or validation (also dev)")
    parser.add_argument(
        "--setting",
        default="gold",
        choices=SETTINGS,
        help="gold: the gold passage (the default); rag: the retrieved passages; rag-gold: these with the gold one at a "
        "random place",
    )
    parser.add_argument("--prompt", default="flan", choices=tuple(PROMPTS), help="default: flan")
    parser.add_argument(
        "--columns",
        default=",".join(COLUMNS),
        metavar="NAME,...",
        help="which of prompt, completion and messages to write (default: all)",
    )
    parser.add_argument("--retriever", metavar="NAME", help="rag: who finds the passages (default: bm25)")
    parser.add_argument("--top_k", "--top-k", type=int, default=3, help="passages of a prompt with rag (default: 3)")
    parser.add_argument("--seed", type=int, default=1234, help="rag-gold: of the gold passages' places (default: 1234)")
    add_cost(parser)
    add_output(parser, "FILE", "where figures or examples go", required=True)
    add_mirror(parser, "folder of the public files, or `sample`")
    add_retriever_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.data.provenance import sidecar_of

    names = ("output", "split", "setting", "prompt", "retriever", "top_k", "seed", "mirror")
    if arguments.kind == "figures":
        defaults = inspect.signature(export_clapnq).parameters
        options = [name for name in names[1:] if getattr(arguments, name) != defaults[name].default]
        if options or retriever_options(arguments) or not arguments.runs:
            wrong = "its other options are of export clapnq" if arguments.runs else "name the runs"
            raise UsageError(f"{_WHO} figures RUN... -o FILE.csv: {wrong}")
        say(f"{export_figures(arguments.runs, arguments.output, arguments.cost)} figures", arguments.output)
        return 0
    if arguments.cost != 1:
        raise UsageError(f"{_WHO}: --cost is of export figures")
    if arguments.runs:
        raise UsageError(f"{_WHO} clapnq takes no runs; got {arguments.runs[0]}")
    exported = export_clapnq(
        **{name: getattr(arguments, name) for name in names},
        columns=[name.strip() for name in arguments.columns.split(",")],
        options=retriever_options(arguments),
    )
    say(", ".join(f"{number} {kind} questions" for kind, number in exported.examples.items()))
    for where, number in exported.gold.items():
        say(f"gold passage {where}: {number}")
    for reason, number in exported.left_out.items():
        say(f"left out, {reason}: {number}")
    say(arguments.output)
    say(sidecar_of(arguments.output))
    return 0


def export_figures(places: Sequence[Path], output: Path, cost: float = 1.0) -> int:
    """Write the figures of runs (:func:`lm_eval_tasks.results.tidy.figure_rows`) as CSV or JSON, as the name ends; a
    UsageError for another ending. `cost`: see :func:`lm_eval_tasks.runs.run.with_cost`. Returns how many there are."""
    from lm_eval_tasks.results.formats import csv_of, json_of
    from lm_eval_tasks.results.tidy import figure_rows
    from lm_eval_tasks.runs import read_runs
    from lm_eval_tasks.runs.run import with_cost

    if output.suffix not in (".csv", ".json"):
        raise UsageError(f"{_WHO} figures: {output}: the name of a table ends in .csv or .json")
    rows = [*figure_rows(with_cost(run, cost) for run in read_runs(places))]
    if not rows:
        raise UsageError(f"{_WHO} figures: no results file has a figure in {', '.join(map(str, places))}")
    print_or_write(csv_of(rows) if output.suffix == ".csv" else json_of({"figures": rows}), output)
    return len(rows)


class Exported(NamedTuple):
    """The numbers of questions that were written and left out."""

    examples: dict[str, int]  # by kind: ``answerable`` and ``unanswerable``
    left_out: dict[str, int]  # questions without an example, by reason
    gold: dict[str, int]  # answerable questions by the place of the gold passage; empty for the setting ``gold``


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
    """Write the training examples of a split as JSON lines, and their provenance beside them (``FILE.provenance.json``).

    A line has ``id`` (the question and the setting), ``answerable`` and `columns`: ``prompt`` and ``completion`` (plain
    text, to be put one after the other), ``messages`` (the turns of a chat, the last one the assistant's). The arguments
    are the command's; `options` are the retriever's. ``rag-gold`` is the paper's E5-G-CLAPnq-T5-lg. The place of each gold
    passage follows from `seed` and the question alone, not from the order of the questions.

    Raises:
        ValueError: an unknown split, setting, prompt, retriever or column; `top_k` is no whole number or too large; an
            option of another retriever, or a retriever with the setting ``"gold"``.
        MissingSource, CorruptSource: a file is missing or damaged.
    """
    from lm_eval_tasks.clapnq import dataset, retrieval
    from lm_eval_tasks.data import provenance, sources
    from lm_eval_tasks.definition import metadata
    from lm_eval_tasks.harness import autoload
    from lm_eval_tasks.harness.host import TaskManager

    metadata.choice("split", split, dataset.FILE_SPLIT, _WHO)
    metadata.choice("setting", setting, SETTINGS, _WHO)
    metadata.choice("prompt", prompt, PROMPTS, _WHO)
    for column in columns:
        metadata.choice("column", column, COLUMNS, _WHO)
    if setting == "gold" and (retriever or options):
        raise UsageError(f"{_WHO}: the setting gold has no retriever; say --setting rag or rag-gold")
    retriever = retriever or "bm25"
    if setting != "gold":
        metadata.choice("retriever", retriever, retrieval.names(), _WHO)
        retrieval.refuse_unfitting(retriever, options or {}, _WHO)
    name = f"clapnq_gold{PROMPTS[prompt]}"
    task_options = {"split": split, **({"mirror": mirror} if mirror else {})}
    manager = TaskManager(include_path=autoload.task_folder(), include_defaults=False, metadata=task_options)
    task = manager.load([name])["tasks"][name]  # its prompts, and its questions with their gold passages
    documents, rows = task.eval_docs, [*task.eval_docs]
    places = Counter[str]()
    if setting != "gold":
        retrieved = {**(options or {}), "retriever": retriever, "top_k": top_k}
        documents = dataset.load(split=split, mirror=mirror, name=_WHO, **retrieved)["evaluation"]
        gold = {row["id"]: row["passages"][0] for row in rows}
        rows = [dict(row) for row in documents]
        for row in rows:
            if row["answerable"]:  # an unanswerable question has no gold passage
                places[f"{'' if row['gold_ranks'] else 'not '}among the {top_k} retrieved"] += 1
        if setting == "rag-gold":
            folder = sources.mirror_folder(mirror)
            corpus = dataset.open_corpus(str(folder) if folder else None)
            rows = [_insert_gold(row, gold[row["id"]], corpus, top_k, seed, places) for row in rows]
    record = provenance.of_dataset(documents)
    record.pop("not_comparable", None)  # concerns figures only
    usable = [row for row in rows if row["answers"] or not row["answerable"]]
    left_out = {"answerable, without a gold answer": len(rows) - len(usable)} if len(usable) < len(rows) else {}
    if not usable:
        raise UsageError(f"{_WHO}: no question of {split} has an answer to learn from ({left_out})")
    answerable = sum(row["answerable"] for row in usable)
    exported = Exported({"answerable": answerable, "unanswerable": len(usable) - answerable}, left_out, dict(places))
    seed_used = seed if setting == "rag-gold" else None
    settings = {"setting": setting, "prompt": prompt, "columns": list(columns), "seed": seed_used}
    examples = _examples(task, usable, setting, columns)
    provenance.write_with_sidecar(output, examples, {**record, "export": {**settings, **exported._asdict()}})
    return exported


def _insert_gold(
    row: Document, annotated: Mapping[str, str], corpus: Corpus, top_k: int, seed: int, places: Counter[str]
) -> Document:
    """A question with its gold passage at a random place among the retrieved ones."""
    if not row["answerable"]:
        return row
    gold = annotated
    if row["gold_ranks"]:
        gold = row["passages"][row["gold_ranks"][0] - 1]
    elif row["gold_ids"]:
        gold = corpus.passage(row["gold_ids"][0])._asdict()
    else:
        places["not in the corpus, taken from the annotations"] += 1
    passages = [
        passage
        for passage in row["passages"]
        if passage["text"].strip() != gold["text"].strip() and (not gold["id"] or passage["id"] != gold["id"])
    ][: top_k - 1]
    chance = random.Random(f"{seed} {row['id']}")  # noqa: S311 (a place among passages, no secret)
    place = chance.randint(0, len(passages))
    return {**row, "passages": [*passages[:place], dict(gold), *passages[place:]]}


def _examples(task: Any, rows: Sequence[Document], setting: str, columns: Sequence[str]) -> Iterator[Document]:
    from tqdm import tqdm

    separator = str(task.config.target_delimiter)
    after_prompt = separator[len(separator.rstrip()) :]  # what the task leaves to the model's answer
    for row in tqdm(rows, desc=f"{setting} prompts", unit="question", disable=None):
        answer = str(task.doc_to_target(row)).strip()
        turns = task.fewshot_context(row, 0, apply_chat_template=True, chat_template=lambda turns, **_: turns)
        prompt_turns = [{key: turn[key] for key in ("role", "content")} for turn in turns]
        example = {
            "prompt": task.fewshot_context(row, 0),
            "completion": after_prompt + answer,
            "messages": [*prompt_turns, {"role": "assistant", "content": answer}],
        }
        identity = {"id": f"{row['id']}/{setting}", "answerable": row["answerable"]}
        yield {**identity, **{column: example[column] for column in COLUMNS if column in columns}}
