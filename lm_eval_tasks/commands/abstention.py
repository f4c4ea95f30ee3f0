"""Show why an answer is read as an abstention, or why not.

Prints how each sentence of the answer is read, and the phrases of the table that stand in it: what a native speaker needs
to correct a table. The tables are in custom_metrics/abstention/tables.

Examples:
  lm-eval-grounded abstention "I cannot tell from the passages." --language en
  lm-eval-grounded abstention - --language de < answer.txt
"""

from __future__ import annotations

import argparse
import sys

from lm_eval_tasks.commands import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="the answer; `-` reads standard input")
    parser.add_argument("--language", help="ISO 639 code (default: the two languages that the answer most looks like)")


def run(arguments: argparse.Namespace) -> int:
    from custom_metrics.abstention.explained import explain
    from lm_eval_tasks.detection.language_tags import with_phrases

    language = with_phrases(arguments.language or None)
    answer = sys.stdin.read() if arguments.text == "-" else arguments.text
    if not answer.strip():
        raise ValueError("the answer is empty; an empty answer does not abstain")
    explanations = explain(answer, language)
    if language is None:
        abstaining = [explanation.language for explanation in explanations if explanation.abstains]
        languages = " and ".join(explanation.language for explanation in explanations)
        why = f"{abstaining[0]} reads it as one, and one is enough" if abstaining else "neither reads it as one"
        verdict = "an abstention" if abstaining else "no abstention"
        say(f"{verdict}: it looks most like {languages}, and {why} (--language reads it as another)")
    for explanation in explanations:
        tables = dict.fromkeys((explanation.language, "en"))
        verdict = "an abstention" if explanation.abstains else "no abstention"
        sure = "sure" if explanation.sure else "not sure: no phrase decides"
        say(f"{verdict}, {sure}: {explanation.reason} (tables: {', '.join(tables)})")
        for sentence in explanation.sentences:
            say(f"  {sentence.text.strip()!r}: {sentence.reading}")
            for kind, pattern, text, words in sentence.matches:
                origins = "; ".join(f"{phrase}: {item}" for phrase, item in words)
                say(f"    {kind:10} {pattern!r} reads {text!r}" + (f" ({origins})" if origins else ""))
    return 0
