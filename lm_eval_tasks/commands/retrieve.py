"""Rank CLAPnq's passages for its questions, without a language model.

Writes a TREC run of every question and prints nDCG and recall beside the paper's Table 4. Dense vectors are made here once
and used by `lm_eval` afterwards; `clapnq_rag_run --metadata '{"run": "FILE"}'` reads the run.

Examples:
  lm-eval-grounded retrieve --retriever bm25
  lm-eval-grounded retrieve --retriever minilm -k 100 -o minilm.trec
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_eval_tasks.commands import add_mirror, add_output, add_retriever_options, retriever_options, say

if TYPE_CHECKING:
    from custom_metrics.statistics.figures import Figure

_WHO = "retrieve"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from lm_eval_tasks.clapnq.retrieval import names

    parser.add_argument("--retriever", required=True, metavar="NAME", help=", ".join(names()))
    parser.add_argument("--split", default="validation", help="validation (also dev; the default) or train")
    parser.add_argument("-k", type=int, default=10, help="passages a question in the run (default: 10)")
    add_output(parser, "RUN", "where the run goes (default: nowhere)")
    add_mirror(parser, "folder of the public files, or `sample`")
    add_retriever_options(parser)


def run(arguments: argparse.Namespace) -> int:
    options = retriever_options(arguments)
    retrieved = retrieve(arguments.retriever, arguments.split, arguments.k, arguments.output, options, arguments.mirror)
    say(render_table(retrieved, arguments.split))
    if arguments.output is not None:
        say(arguments.output)
    return 0


class Retrieved(NamedTuple):
    """The figures of a retriever on the answerable questions that have a gold passage in the corpus."""

    figures: dict[str, Figure]  # of each metric: mean and 95 % bootstrap bounds; ``nan`` where no question counts
    scored: int  # number of questions that count
    questions: int  # number of all questions, including unanswerable ones
    passages: int  # the size of the corpus
    described: dict[str, Any]  # the retriever's description of itself


def retrieve(
    name: str, split: str, k: int, output: Path | None, options: Mapping[str, Any], mirror: str | None = None
) -> Retrieved:
    """Rank the passages for every question of a split, write them as a TREC run, and score them. The arguments are the
    command's. The figures are over the first ten passages, whatever `k` is."""
    from custom_metrics.scores.aggregations import defined_score
    from custom_metrics.scores.grounding import CUTOFFS, retrieval_quality
    from lm_eval_tasks import definition
    from lm_eval_tasks.clapnq import retrieval
    from lm_eval_tasks.clapnq.corpus import gold_ids
    from lm_eval_tasks.clapnq.dataset import FILE_SPLIT, open_corpus, questions_by_kind
    from lm_eval_tasks.clapnq.retrieval.run import write_run
    from lm_eval_tasks.definition import in_turn

    definition.choice("split", split, FILE_SPLIT, _WHO)
    definition.positive("k", k, _WHO)
    retrieval.refuse_unfitting(name, options, _WHO)
    rows = in_turn(questions_by_kind(split, mirror))
    corpus = open_corpus(mirror)
    if k > len(corpus):
        raise ValueError(f"{_WHO}: k={k} is larger than the corpus ({len(corpus)} passages)")
    gold = gold_ids(rows, FILE_SPLIT[split], corpus, mirror, _WHO)
    retriever = retrieval.open_retriever(name, corpus, options)
    depth = min(max(k, *CUTOFFS), len(corpus))
    rankings = retriever.search([retrieval.Question(row["id"], row["question"]) for row in rows], depth)
    if output is not None:
        write_run(output, ((row["id"], ranking[:k]) for row, ranking in zip(rows, rankings, strict=True)), name)
    values = [
        retrieval_quality([passage for passage, _ in ranking], gold[row["id"]])
        for row, ranking in zip(rows, rankings, strict=True)
        if row["answerable"] and gold.get(row["id"])
    ]
    metrics = retrieval_quality((), ())
    figures = {metric: defined_score.figure_of([value[metric] for value in values]) for metric in metrics}
    return Retrieved(figures, len(values), len(rows), len(corpus), retriever.describe())


def published_row(name: str) -> dict[str, float] | None:
    """The paper's row for a retriever (Table 4, dev, whole corpus), as shares; ``None`` where it has none."""
    from lm_eval_tasks.published import all_rows

    task = "clapnq_rag" if name == "bm25" else f"clapnq_rag_{name}"
    figures = {
        row.metric: row.value
        for row in all_rows()
        if row.source.name == "clapnq_table4" and (row.task, row.split) == (task, "validation")
    }
    return figures or None


def render_table(retrieved: Retrieved, split: str) -> str:
    from lm_eval_tasks.clapnq.dataset import FILE_SPLIT

    name = retrieved.described["retriever"]
    paper = published_row(name) if FILE_SPLIT[split] == "dev" else None
    lines = [f"{'metric':10} {name:>7} {'95 % bounds':>16}" + ("   paper (178,891 passages)" if paper else "")]
    for metric, figure in retrieved.figures.items():
        bounds = "-" if math.isnan(figure.low) else f"[{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
        published_value = f"   {100 * paper[metric]:.0f}" if paper else ""
        lines.append(f"{metric:10} {100 * figure.value:7.1f} {bounds:>16}{published_value}")
    lines.append(
        f"over {retrieved.scored} answerable questions with a gold passage in the corpus, of {retrieved.questions} "
        f"questions; {retrieved.passages:,} passages"
    )
    return "\n".join(lines)
