"""Write training examples whose prompts are those of a benchmark's tasks.

CLAPnq: JSON lines with `prompt` and `completion` (plain text) and `messages` (a chat), which TRL, Axolotl, LLaMA-Factory
and transformers' Seq2SeqTrainer read. The tasks themselves render the prompts. FILE.provenance.json says where the examples
come from.
"""

from __future__ import annotations

import argparse

from lm_eval_tasks.commands import add_mirror, add_output, add_retriever_options, retriever_options, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", choices=("clapnq",))
    parser.add_argument("--split", default="train", help="train (the default) or validation (also dev)")
    parser.add_argument(
        "--setting",
        default="gold",
        choices=("gold", "rag", "rag-gold"),
        help="gold: the gold passage (the default); rag: the retrieved passages; rag-gold: these with the gold one at a "
        "random place",
    )
    parser.add_argument("--prompt", default="flan", choices=("flan", "gpt", "llama"), help="default: flan")
    parser.add_argument(
        "--columns",
        default="prompt,completion,messages",
        metavar="NAME,...",
        help="which of prompt, completion and messages to write (default: all)",
    )
    parser.add_argument("--retriever", metavar="NAME", help="rag: who finds the passages (default: bm25)")
    parser.add_argument("--top_k", "--top-k", type=int, default=3, help="passages of a prompt with rag (default: 3)")
    parser.add_argument("--seed", type=int, default=1234, help="rag-gold: of the gold passages' places (default: 1234)")
    add_output(parser, "FILE", "where the examples go", required=True)
    add_mirror(parser, "folder of the public files, or `sample`")
    add_retriever_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.commands.work.exporting import export_clapnq, sidecar_of

    exported = export_clapnq(
        arguments.output,
        arguments.split,
        arguments.setting,
        arguments.prompt,
        arguments.retriever,
        arguments.top_k,
        arguments.seed,
        [name.strip() for name in arguments.columns.split(",")],
        retriever_options(arguments),
        arguments.mirror,
    )
    say(", ".join(f"{number} {kind} questions" for kind, number in exported.examples.items()))
    for where, number in exported.gold.items():
        say(f"gold passage {where}: {number}")
    for reason, number in exported.left_out.items():
        say(f"left out, {reason}: {number}")
    say(arguments.output)
    say(sidecar_of(arguments.output))
    return 0
