"""Write results and data for others: a folder for each task, or training examples.

`tasks`: one folder a task and run below DIR/tasks, with its results and samples alone, and the averages of groups below
DIR/groups, for a leaderboard's converter. The files of the run stay as they are.

`clapnq`: JSON lines with `prompt` and `completion` (plain text) and `messages` (a chat), which TRL, Axolotl, LLaMA-Factory
and transformers' Seq2SeqTrainer read. The tasks themselves render the prompts. FILE.provenance.json says where the examples
come from.

Examples:
  lm-eval-grounded export tasks results -o separated
  lm-eval-grounded export clapnq --setting rag --retriever bm25 --split dev -o dev.jsonl
"""

# `every_eval_ever convert lm_eval --include_samples` takes the last file that `samples_<task>_*.jsonl` matches. For
# `clapnq_gold` that may be `clapnq_gold_gpt`'s, and for the group `nomiracl` it is one language's. In a folder with one
# task and one run of it, there is only the right file.

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.commands import add_mirror, add_output, add_retriever_options, retriever_options, say, split_names

if TYPE_CHECKING:
    from lm_eval_tasks.clapnq.corpus import Corpus

_WHO = "lm-eval-grounded export"
SETTINGS = ("gold", "rag", "rag-gold")
PROMPTS = {"flan": "", "gpt": "_gpt", "llama": "_llama"}  # name of a prompt to the suffix of its tasks' names
COLUMNS = ("prompt", "completion", "messages")

Document = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    tasks = kinds.add_parser("tasks", help="a folder for each task, for a leaderboard's converter")
    tasks.add_argument("path", type=Path, metavar="PATH", help="results file, or folder of them")
    add_output(tasks, required=True)
    clapnq = kinds.add_parser("clapnq", help="training examples of CLAPnq")
    clapnq.add_argument("--split", default="train", help="train (the default) or validation (also dev)")
    setting = "gold passage (the default); retrieved ones; these with the gold one at a random place"
    clapnq.add_argument("--setting", default="gold", choices=SETTINGS, help=setting)
    clapnq.add_argument("--prompt", default="flan", choices=tuple(PROMPTS), help="default: flan")
    columns = ",".join(COLUMNS)
    clapnq.add_argument("--columns", default=columns, metavar="NAME,...", help=f"which to write (default: {columns})")
    clapnq.add_argument("--retriever", metavar="NAME", help="rag: who finds the passages (default: bm25)")
    clapnq.add_argument("--top_k", "--top-k", type=int, default=3, help="passages of a prompt with rag (default: 3)")
    clapnq.add_argument("--seed", type=int, default=1234, help="rag-gold: of the gold passages' places (default: 1234)")
    add_output(clapnq, "FILE", "where examples go", required=True)
    add_mirror(clapnq, "folder of the public files, or `sample`")
    add_retriever_options(clapnq)


def run(arguments: argparse.Namespace) -> int:
    if arguments.kind == "tasks":
        say(*export_tasks(arguments.path, arguments.output))
    else:
        _run_clapnq(arguments)
    return 0


def _run_clapnq(arguments: argparse.Namespace) -> None:
    from lm_eval_tasks.data.provenance import sidecar_of

    names = ("output", "split", "setting", "prompt", "retriever", "top_k", "seed", "mirror")
    exported = export_clapnq(
        **{name: getattr(arguments, name) for name in names},
        columns=split_names(arguments.columns),
        options=retriever_options(arguments),
    )
    say(", ".join(f"{number} {kind} questions" for kind, number in exported.examples.items()))
    for where, number in exported.gold.items():
        say(f"gold passage {where}: {number}")
    for reason, number in exported.left_out.items():
        say(f"left out, {reason}: {number}")
    say(arguments.output, sidecar_of(arguments.output))


# ------------------------------------------------------------------------------------------------- a folder for each task

_BY_NAME = (
    *("results", "groups", "group_subtasks", "configs", "versions"),
    *("n-shot", "higher_is_better", "n-samples", "task_hashes"),
)
"""Sections of a results file that have an entry for each task or group."""
_NOT_METRICS = ("alias", "name", "sample_len", "sample_count", "samples", "bypass")
"""Keys of a task's results that are no scores; ``bypass`` is the harness's metric of ``--predict_only``, always 999."""
_DATE = re.compile(r"_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.json$")


def export_tasks(place: Path, output: Path) -> list[Path]:
    """Lay results out as ``output/tasks/<folder>/<date>/<task>/`` and ``output/groups/<folder>/<date>/<group>/``;
    returns the results files that were written.

    Each has only that task, with its samples of the same run as a hard link, or written anew if their settings hold
    secrets. A group's has what the configurations of its tasks share. Results of ``--predict_only`` have no score and
    are skipped.
    """
    from lm_eval_tasks.data import finished
    from lm_eval_tasks.data.sources import MissingSource

    if place.is_dir() and place.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(f"{output}: lies in {place}; name a folder beside it (-o)")
    files = [place] if place.is_file() else finished(place, "results_*.json") if place.is_dir() else []
    written = [path for file in files for path in _export_file(file, output)]
    if not written:
        reason = "no score in its results (--predict_only?)" if files else "no results file (results_<date>.json)"
        raise MissingSource(f"{place.resolve()}: {reason}")
    return written


def _export_file(file: Path, output: Path) -> Iterator[Path]:
    from lm_eval_tasks.data import whole_file
    from lm_eval_tasks.data.samples import write_without_secrets
    from lm_eval_tasks.runs.results_file import leaves_of, read_results

    results = read_results(file)
    for name in results["results"]:
        if Path(name).name != name:
            raise ValueError(f"{file}: no name of a task: {name!r}")
    try:
        json.dumps(results, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{file}: it holds NaN, which is no JSON; score the run again with this release") from error
    match = _DATE.search(file.name)
    date = match["date"] if match else file.stem
    for name, scores in results["results"].items():
        numbers = {key.partition(",")[0] for key, value in scores.items() if isinstance(value, (int, float))}
        if all(metric.endswith("_stderr") or metric in _NOT_METRICS for metric in numbers):
            continue
        is_task = name in results["configs"]
        separated = dict(results)
        for section in _BY_NAME:
            if isinstance(results.get(section), Mapping):
                separated[section] = {key: value for key, value in results[section].items() if key == name}
        if not is_task:
            tasks = leaves_of(name, results.get("group_subtasks") or {})
            first, *rest = [results["configs"][task] for task in tasks if task in results["configs"]] or [{}]
            shared = [key for key in first if all(key in config and config[key] == first[key] for config in rest)]
            separated["configs"] = {name: {key: first[key] for key in shared}}
        folder = output / ("tasks" if is_task else "groups") / file.resolve().parent.name / date / name
        samples = file.with_name(f"samples_{name}_{date}.jsonl")
        if is_task and samples.is_file():
            with whole_file(folder / samples.name) as partial:
                if not write_without_secrets(samples, partial):
                    try:
                        os.link(samples, partial)
                    except OSError:  # on another file system, or one without links
                        shutil.copyfile(samples, partial)
        written = folder / f"results_{date}.json"
        with whole_file(written) as partial:
            partial.write_text(json.dumps(separated, indent=2, ensure_ascii=False), "utf-8")
        yield written


# -------------------------------------------------------------------------------------------- training examples of CLAPnq


class Exported(NamedTuple):
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
    """
    from lm_eval_tasks import definition
    from lm_eval_tasks.clapnq import dataset, retrieval
    from lm_eval_tasks.data import provenance
    from lm_eval_tasks.harness import TaskManager, autoload

    definition.choice("split", split, dataset.FILE_SPLIT, _WHO)
    definition.choice("setting", setting, SETTINGS, _WHO)
    definition.choice("prompt", prompt, PROMPTS, _WHO)
    for column in columns:
        definition.choice("column", column, COLUMNS, _WHO)
    if setting == "gold" and (retriever or options):
        raise UsageError(f"{_WHO}: the setting gold has no retriever; say --setting rag or rag-gold")
    retriever = retriever or "bm25"
    if setting != "gold":
        definition.choice("retriever", retriever, retrieval.names(), _WHO)
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
            corpus = dataset.open_corpus(mirror)
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

    def is_gold(passage: Mapping[str, str]) -> bool:
        return passage["text"].strip() == gold["text"].strip() or bool(gold["id"] and passage["id"] == gold["id"])

    passages = [passage for passage in row["passages"] if not is_gold(passage)][: top_k - 1]
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
