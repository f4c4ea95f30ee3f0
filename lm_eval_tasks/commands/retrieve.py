"""Rank CLAPnq's passages for its questions, without a language model.

Writes a TREC run of every question and prints nDCG and recall beside the paper's Table 4. Dense vectors are made here once
and used by `lm_eval` afterwards; `clapnq_rag_run --metadata run=FILE` reads the run.
"""

from __future__ import annotations

import argparse

from lm_eval_tasks.commands import add_mirror, add_output, add_retriever_options, retriever_options, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from lm_eval_tasks.clapnq.retrieval import names

    parser.add_argument("--retriever", required=True, choices=names())
    parser.add_argument("--split", default="validation", help="validation (also dev; the default) or train")
    parser.add_argument("-k", type=int, default=10, help="passages a question in the run (default: 10)")
    add_output(parser, "RUN", "where the run goes (default: nowhere)")
    add_mirror(parser, "folder of the public files, or `sample`")
    add_retriever_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.commands.work.retrieving import retrieve, table

    options = retriever_options(arguments)
    found = retrieve(arguments.retriever, arguments.split, arguments.k, arguments.output, options, arguments.mirror)
    say(table(found, arguments.split))
    if arguments.output is not None:
        say(arguments.output)
    return 0
