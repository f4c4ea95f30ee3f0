"""Print what each layer of the reader of answers is worth: ``python -m tests.development.ablation ../shared``.

A layer is switched off by itself. Columns are the released NoMIRACL answers whose label changes, the invented replies of
``tests/data/abstention/replies`` that are read as labelled, and the released MTRAG-UN answers on which the reader agrees
with the official judge. Released answers in nothing but the prompt's own words are left out: no layer reads them.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from custom_metrics import abstention, relevance
from custom_metrics.abstention.sentence_reading import Sentence
from custom_metrics.reading import no_answer
from tests.development.released_sample import released_answers
from tests.logged_runs import lines

REPLIES = Path(__file__).parents[1] / "data" / "abstention" / "replies"
PLAIN = re.compile(r"\s*(?:yes, answer is present|i don't know)\.?\s*", re.IGNORECASE)


def always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


LAYERS: dict[str, list[tuple[Any, str, Any]]] = {
    "none": [],
    "labelled parts": [(relevance, "labelled_verdict", always(None))],
    "removal of the prompt": [(relevance, "without_prompt", lambda text, *_: text)],
    "turning the task around": [(relevance, "_ASKS_BACK", re.compile("(?!)")), (relevance, "only_asks", always(False))],
    "repeated instructions": [(relevance, "_ECHO", re.compile("(?!)"))],
    "loops": [(no_answer, "_loops", always(False))],
    "service failures": [(relevance, "is_service_failure", always(False))],
    "a yes at the start": [(relevance, "affirms_presence", always(False))],
    "a no at the start": [(relevance, "denies_presence", always(False))],
    "passages as sources": [(Sentence, "_drop_sources", always(False)), (Sentence, "names_source", always(False))],
    "passages reported": [(Sentence, "reports_passage", always(False))],
    "details of a long answer": [(Sentence, "asks_for_a_detail", always(False))],
}


def main(shared: Path) -> None:
    every = ((row["response"], row["language"]) for row in released_answers(shared))
    released = [(text, language) for text, language in every if not PLAIN.fullmatch(text or "")]
    replies = [row for path in sorted(REPLIES.glob("*.jsonl")) for row in lines(path)]
    judged = []
    for path in sorted((shared / "reference" / "mtragun_outputs").glob("[gq]*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            rows = [json.loads(line) for line in stream]
        judged += [(r["response"], r["metrics"]["idk_eval"][0]) for r in rows if r["response"]]
    judged = [(text, verdict == 1) for text, verdict in judged if verdict in (0, 1)]
    whole: list[str] = []
    print("| layer off | released labels changed | invented replies read as labelled | judge's verdicts met |")
    print("|---|---|---|---|")
    for name, changes in LAYERS.items():
        abstention._read.cache_clear()
        no_answer._form.cache_clear()
        with ExitStack() as stack:
            for owner, attribute, value in changes:
                stack.enter_context(patch.object(owner, attribute, value))
            labels = [relevance.robust_label(*row) for row in released]
            right = sum(relevance.robust_label(r["text"], r["language"], r["question"]) == r["label"] for r in replies)
            agreed = sum(abstention.is_abstention(text, "en") is verdict for text, verdict in judged)
        whole = whole or labels
        changed = sum(a != b for a, b in zip(whole, labels, strict=True))
        print(f"| {name} | {changed} | {right / len(replies):.3f} | {agreed} of {len(judged)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
