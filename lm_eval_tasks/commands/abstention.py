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
    from custom_metrics.abstention import decide, excerpt, lexicons
    from custom_metrics.abstention.phrases import matches
    from lm_eval_tasks.detection.language_tags import with_phrases

    language = with_phrases(arguments.language or None)
    answer = sys.stdin.read() if arguments.text == "-" else arguments.text
    if not answer.strip():
        raise ValueError("the answer is empty; an empty answer does not abstain")
    read = [
        (code, lexicon, decide(lexicon.fold(excerpt(answer)), lexicon)) for code, lexicon in lexicons(answer, language)
    ]
    if language is None:
        abstaining = [code for code, _, decision in read if decision.abstains]
        languages = " and ".join(code for code, *_ in read)
        why = f"{abstaining[0]} reads it as one, and one is enough" if abstaining else "neither reads it as one"
        verdict = "an abstention" if abstaining else "no abstention"
        say(f"{verdict}: it looks most like {languages}, and {why} (--language reads it as another)")
    for code, lexicon, decision in read:
        tables = dict.fromkeys((code, "en"))
        verdict = "an abstention" if decision.abstains else "no abstention"
        sure = "sure" if decision.sure else "not sure: no phrase decides"
        say(f"{verdict}, {sure}: {decision.reason} (tables: {', '.join(tables)})")
        for sentence, reading in decision.sentences:
            say(f"  {sentence.strip()!r}: {reading}")
            for kind, pattern, text, words in matches(sentence, lexicon):
                origins = "; ".join(f"{phrase}: {item}" for phrase, item in words)
                say(f"    {kind:10} {pattern!r} reads {text!r}" + (f" ({origins})" if origins else ""))
    return 0
