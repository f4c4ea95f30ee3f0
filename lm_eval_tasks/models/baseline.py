"""``grounded-baseline``: strategies without a model, whose scores are reference points for those of models.

``--model grounded-baseline --model_args strategy=...``

- ``abstain``: always "I don't know". No hallucination, every error.
- ``answer``: always answers: "Yes, answer is present" (NoMIRACL), the first sentence of the first passage (CLAPnq).
- ``full_passage``: the passages themselves, title, space, text: the paper's "Full Passage" row of CLAPnq.
- ``lexical``: an extractive baseline without weights: sentences that cover the question's words (:func:`extract`).

mFAVA has no passages in its prompts. There the baseline quotes the article, which models do not see. So every span that a
detector flags in its answers is a false alarm.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from math import fsum
from typing import Any

from tqdm import tqdm

from custom_metrics.abstention.folding import NO_SPACES
from custom_metrics.relevance import ANSWER, NO_ANSWER
from custom_metrics.usage.options import known_instead
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.corpus import Passage
from lm_eval_tasks.models import DocumentAnswerer

STRATEGIES = ("abstain", "answer", "full_passage", "lexical")

# Tuned on the bundled sample, not on the public data, so that as many answerable questions are refused as unanswerable
# ones are answered. The best of ten passages covers more of a question than a single one.
THRESHOLD_TO_JUDGE = 0.55
THRESHOLD_TO_ANSWER = 0.4
NEAR_THE_BEST = 0.6  # least coverage of a further sentence, as a share of the best one's


class GroundedBaseline(DocumentAnswerer):
    """A model that needs no weights, for tasks whose documents hold a question and passages.

    `threshold` is of ``lexical``: least coverage of the question (:func:`coverage`), below which it abstains; default
    :data:`THRESHOLD_TO_JUDGE` for NoMIRACL's documents, :data:`THRESHOLD_TO_ANSWER` for CLAPnq's, none for mFAVA's,
    whose questions were all made from their articles.
    """

    NAME = "grounded-baseline"
    NAMED_BY = ("baseline", "strategy", "lexical")

    def __init__(self, strategy: str = "lexical", threshold: float | None = None) -> None:
        super().__init__()
        if strategy not in STRATEGIES:
            raise UsageError(f"grounded-baseline: unknown strategy {strategy!r}{known_instead(strategy, STRATEGIES)}")
        self.strategy = strategy
        self.threshold = None if threshold is None else float(threshold)

    def respond(self, requests: Sequence[Any], disable_tqdm: bool) -> list[str]:
        return [self.answer(r.doc) for r in tqdm(requests, desc=f"baseline {self.strategy}", disable=disable_tqdm)]

    def answer(self, doc: dict[str, Any]) -> str:
        """The answer to a document with ``query`` or ``question``, and ``passages`` or a ``reference``."""
        if self.strategy == "abstain":
            return NO_ANSWER
        if not {"query", "question"} & doc.keys():
            raise UsageError(f"grounded-baseline: the document has no 'query' or 'question', only {sorted(doc)}")
        question, passages = str(doc.get("query", doc.get("question"))), _passages(doc)
        judging = "query" in doc and "passages" in doc  # NoMIRACL: do the passages answer?
        if self.strategy == "full_passage":
            return "\n\n".join(passage.grounding for passage in passages)
        if self.strategy == "answer":
            return ANSWER if judging else next((s for p in passages for s in split_sentences(p.text)), "")
        default = THRESHOLD_TO_JUDGE if judging else THRESHOLD_TO_ANSWER if "passages" in doc else 0.0
        threshold = default if self.threshold is None else self.threshold
        if judging:
            best, covered = best_passage(question, passages)
            return f"{ANSWER} in [{best + 1}]." if covered >= threshold else NO_ANSWER
        return extract(question, passages, threshold) or NO_ANSWER


# ----------------------------------------------------------------------------------------------------------------- lexical
#
# A question's terms are its words, cut to their first five letters (a stemmer for forty languages), and character pairs in
# scripts without spaces. A term counts 1, or 0.3 where it is short (up to three letters: mostly function words) or stands
# in the passage's title: the title names the subject, and the other terms are what the question asks *about* it.


def coverage(question: str, passage: Passage) -> list[tuple[float, str]]:
    """Each sentence of a passage with its coverage of the question: the weighted share, in [0, 1], of the question's terms
    that it or the sentence before it holds."""
    title = terms(passage.title)
    weights = {
        term: 0.3 if term in title or (len(term) <= 3 and not NO_SPACES.match(term)) else 1.0
        for term in terms(question)
    }
    total = fsum(weights.values()) or 1.0  # exact, so that the order of a set's terms does not matter
    scored = []
    before: set[str] = set()
    for sentence in split_sentences(passage.text):
        held = terms(sentence)
        covered = fsum(weight for term, weight in weights.items() if term in held | before | title)
        scored.append((covered / total, sentence))
        before = held
    return scored


def best_passage(question: str, passages: Sequence[Passage]) -> tuple[int, float]:
    """Index and coverage of the passage with the best sentence; ``(0, 0.0)`` without passages."""
    covered = [max((score for score, _ in coverage(question, passage)), default=0.0) for passage in passages]
    best = max(covered, default=0.0)
    return (covered.index(best), best) if covered else (0, 0.0)


def extract(question: str, passages: Sequence[Passage], threshold: float, limit: int = 3) -> str:
    """The sentences (at most `limit`, in their order) of the best passage with the best coverage of a question; empty where
    the passage's coverage is below `threshold`."""
    index, covered = best_passage(question, passages)
    if not passages or covered < threshold:
        return ""
    scored = coverage(question, passages[index])
    ranked = sorted(range(len(scored)), key=lambda i: (-scored[i][0], i))
    selected = [i for i in ranked[:limit] if scored[i][0] >= NEAR_THE_BEST * covered]
    return " ".join(scored[i][1] for i in sorted(selected))


_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？।۔؟])\s*|\n+")
_WORD = re.compile(r"[^\W_]+")


def split_sentences(text: str) -> list[str]:
    """Sentences of a text in any script, divided after their final marks and at line breaks."""
    return [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]


def terms(text: str) -> set[str]:
    """The terms of a text: words by their first five letters, and pairs of characters in scripts without spaces."""
    text = unicodedata.normalize("NFKC", text).casefold()
    beginnings = {word[:5] for word in _WORD.findall(NO_SPACES.sub(" ", text))}
    pairs: set[str] = set()
    for run in NO_SPACES.findall(text):
        pairs.update(run[i : i + 2] for i in range(max(1, len(run) - 1)))
    return beginnings | pairs


def _passages(doc: dict[str, Any]) -> list[Passage]:
    if "passages" not in doc:
        if "reference" not in doc:
            raise UsageError(f"grounded-baseline: the document has no 'passages' or 'reference', only {sorted(doc)}")
        return [Passage("", str(doc.get("title") or ""), str(doc["reference"]))]
    if "titles" in doc:  # NoMIRACL: texts "title: text", the titles beside them
        pairs = zip(doc["titles"], doc["passages"], strict=True)
        return [Passage("", title, passage.removeprefix(f"{title}: ")) for title, passage in pairs]
    return [Passage(passage["id"], passage["title"], passage["text"]) for passage in doc["passages"]]
