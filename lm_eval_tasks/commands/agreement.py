"""How far raters agree: people, or a judge model.

Compares what raters said of the same items: ratings (share of equal ones, Cohen's kappa, quadratic-weighted kappa,
Kendall's tau-b), or mFAVA's tags (kappa of words). With more than two files: every pair, and their mean.

Examples:
  lm-eval-grounded agreement people.csv judge.jsonl --column faithfulness
  lm-eval-grounded agreement anna.jsonl ben.jsonl --kind tags
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval_tasks.commands import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    files = ".jsonl, .jsonl.gz, .json, .csv or .tsv, or a samples file of `lm_eval --log_samples`; one for each rater"
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help=files)
    parser.add_argument("--kind", choices=("ratings", "tags"), default="ratings", help="default: ratings")
    parser.add_argument("--id", metavar="NAME", help="column that says which item a row is of (default: id)")
    column = "column of ratings (default: rating) or tagged texts (default: annotated): one for all or each file"
    parser.add_argument("--column", nargs="+", default=[], metavar="NAME", help=column)
    text = "column of the text that was tagged (default: the first rater's, without tags)"
    parser.add_argument("--text", metavar="NAME", help=text)
    parser.add_argument(
        "--language", help="of the tagged texts; decides what a word is (default: the column `language`)"
    )


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.results.agreement import compare, render_table

    comparison = compare(
        arguments.files, arguments.kind, arguments.column, arguments.id, arguments.text, arguments.language
    )
    say(render_table(comparison))
    return 0
