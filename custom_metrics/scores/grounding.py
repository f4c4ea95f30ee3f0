"""CLAPnq's metrics: whether a long answer is complete, cohesive and taken from its passage, and abstains when it must.

ROUGE has the values of the `rouge_score` package without stemming. It is faster because each text is tokenised once, and
rapidfuzz's bit-parallel algorithm finds the longest common subsequence. Of several references, the one with the best
F-measure of that ROUGE type counts; recall is the ROUGE-1 recall of that reference. So the paper's Table 5 is reproduced.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import compress
from typing import Any, NamedTuple

from custom_metrics.abstention import is_abstention
from custom_metrics.abstention.folding import NO_SPACES
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.reading.words import SEGMENTERS, segmenter, words
from custom_metrics.statistics.figures import Figure, FloatWithCounts, outcome
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import POINTS, excerpt, plain

CUTOFFS = (1, 3, 5, 10)

BY_RETRIEVAL = ("rougeL", "recall", "rougeLp", "length", "answerable_abstention_rate")

_TOKEN = re.compile(r"[a-z0-9]+")


class Score(NamedTuple):
    """Shares in [0, 1], as in ``rouge_score.scoring.Score``."""

    precision: float
    recall: float
    fmeasure: float


@lru_cache(maxsize=1024)
def tokens(text: str) -> tuple[str, ...]:
    """Lower-cased runs of ASCII letters and digits: the tokens of ``rouge_score`` without a stemmer."""
    return tuple(_TOKEN.findall(text.lower()))


_NOT_IN_WORDS = re.compile(f"[{POINTS}\u0640\u0307]")  # vowel points, tatweel, the dot that Turkish İ leaves


@lru_cache(maxsize=1024)
def word_tokens(text: str, language: str | None = None) -> tuple[str, ...]:
    """The tokens of K-Precision: of English those of ``rouge_score``; else the words of the language
    (:func:`custom_metrics.reading.words.words`), casefolded, without punctuation and symbols. Accents and vowel signs
    count, but for the points of Arabic and Hebrew. Characters in several forms are one."""
    text = plain(text)
    if language == "en" or text.isascii():
        return tokens(text)
    text = _NOT_IN_WORDS.sub("", unicodedata.normalize("NFC", text.casefold())).replace("ı", "i")
    inside = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text)
    return tuple(word for start, end in words(text, language) for word in inside[start:end].split())


def rouge1(targets: Iterable[str], prediction: str, tokenize: Callable[[str], Iterable[str]] = tokens) -> Score:
    """Unigram overlap with texts, joined by white space: precision over the prediction's tokens, recall over the texts'."""
    target_counts: Counter[str] = Counter()
    for target in targets:
        target_counts.update(tokenize(target))
    predicted = tuple(tokenize(prediction))
    overlap = sum(min(number, target_counts[token]) for token, number in Counter(predicted).items())
    return _score(overlap, target_counts.total(), len(predicted))


def rouge_l(target: str, prediction: str) -> Score:
    """Longest common subsequence of tokens: precision over the prediction's, recall over the target's."""
    from rapidfuzz.distance import LCSseq

    expected, predicted = tokens(target), tokens(prediction)
    return _score(LCSseq.similarity(expected, predicted), len(expected), len(predicted))


def _score(common: int, targets: int, predictions: int) -> Score:
    precision = common / max(predictions, 1)
    recall = common / max(targets, 1)
    total = precision + recall
    return Score(precision, recall, 2 * precision * recall / total if total > 0 else 0.0)


def score_answer(answer: str, references: Sequence[str], groundings: Sequence[str]) -> dict[str, float | None]:
    """Quality of one answer to an answerable question: ``rougeL`` (F-measure) and ``recall`` (of ROUGE-1) against the gold
    answers that are not empty, ``rougeLp`` (ROUGE-L F-measure against the grounding text it is nearest to: the gold
    passage, or one of the retrieved) in [0, 1], and ``length`` in characters. ``None`` without one of these."""
    references = [reference for reference in references if reference.strip()]
    best = max((rouge1([reference], answer) for reference in references), key=lambda s: s.fmeasure, default=None)
    return {
        "rougeL": max((rouge_l(reference, answer).fmeasure for reference in references), default=None),
        "recall": best and best.recall,
        "rougeLp": max((rouge_l(grounding, answer).fmeasure for grounding in groundings), default=None),
        "length": float(len(answer)),
    }


_OTHER_SCRIPTS = 1 / 3  # largest share of letters: "Tokyo (東京)" has 2 of 7


def refuse_other_scripts(texts: Iterable[str]) -> None:
    """Raise a UsageError where ROUGE cannot be computed against texts, as more than a third of their letters are of another
    script than Latin. ``rouge_score`` drops them: equal texts in Thai would get 0.0."""
    text = " ".join(texts)
    letters = [character for character in text if character.isalpha()]
    others = sum(character > "\u024f" and not "\u1e00" <= character <= "\u1eff" for character in letters)
    if others > _OTHER_SCRIPTS * len(letters):
        raise UsageError(
            f"ROUGE counts words in Latin letters, and {excerpt(text)} has {others} of {len(letters)} letters in another "
            "script; k_precision(..., language=CODE) counts words of any script"
        )


def k_precision(answer: str, groundings: Sequence[str], language: str | None = None) -> float:
    """K-Precision: the share of an answer's tokens (:func:`word_tokens`) that are in the passages given (Adlakha et al.
    2024, "Evaluating Correctness and Faithfulness of Instruction-Following Models for Question Answering").

    It is ROUGE-1 precision against all passages together: a token counts as often as the passages hold it. The language
    ``None`` takes Japanese for what has kana, Chinese for other Han.

    Returns:
        A share in [0, 1], 0 without groundings; ``nan`` for an answer without a token.

    Raises:
        TypeError: `groundings` is one text.
        UsageError: nothing here finds the words: the script has no spaces, such as Thai.
    """
    if isinstance(groundings, str):
        raise TypeError("k_precision takes a list of passages; groundings is one text")
    unspaced = "".join(NO_SPACES.findall(plain(answer)))
    if language != "en" and 2 * len(unspaced) > sum(map(str.isalpha, answer)):
        if language is None:
            language = "ja" if _KANA.search(unspaced) else "zh" if _HAN.search(unspaced) else None
        if segmenter(language) == "whitespace":
            raise UsageError(
                f"k_precision counts words, and there are none to be found in language {language!r}: its script has no "
                f"spaces, and only {', '.join(SEGMENTERS)} have a segmenter"
            )
    tokenize = partial(word_tokens, language=language)
    return rouge1(groundings, answer, tokenize).precision if tokenize(answer) else math.nan


_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u9fff]")


def retrieval_quality(ranked: Sequence[str], relevant: Collection[str]) -> dict[str, float]:
    """``ndcg@1|3|5|10`` and ``recall@10`` of a ranking, best first; ``nan`` where nothing is relevant.

    nDCG has gain 1 for a relevant passage and discount ``1 / log2(rank + 1)`` (Järvelin and Kekäläinen 2002).
    """
    relevant_ids = set(relevant)
    if not relevant_ids:
        return dict.fromkeys([*(f"ndcg@{k}" for k in CUTOFFS), "recall@10"], math.nan)
    gains = [1 / math.log2(rank + 1) for rank in range(1, 11)]
    hits = [passage in relevant_ids for passage in dict.fromkeys(ranked)][:10]
    ndcg = {f"ndcg@{k}": sum(compress(gains, hits[:k])) / sum(gains[: min(k, len(relevant_ids))]) for k in CUTOFFS}
    return {**ndcg, "recall@10": sum(hits) / len(relevant_ids)}


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Every metric of a document of ``lm_eval_tasks.clapnq.dataset``, ``None`` where it is not in the denominator.

    Answer quality is over answerable questions, ``unanswerable_accuracy`` over the others, ``k_precision`` over the answers
    to either that do not abstain, can be read and have a token. The first number is the document's own score.

    An answer that is empty, or no answer in another way of :mod:`custom_metrics.reading.no_answer`, neither answers nor
    abstains: it is wrong in ``balanced_error``, and not in ``answerable_abstention_rate``.
    """
    answer = results[0] if isinstance(results[0], str) else ""
    kind = no_answer(answer, doc.get("question"), doc["groundings"])
    abstained = kind != "failure" and is_abstention(answer, "en")
    answered = not abstained and kind is None
    quality = score_answer(answer, doc["answers"], doc["groundings"]) if doc["answerable"] else {}
    precision = k_precision(answer, doc["groundings"], "en") if answered else math.nan
    return {
        "rougeL": quality.get("rougeL"),
        "unanswerable_accuracy": None if doc["answerable"] else float(abstained),
        "recall": quality.get("recall"),
        "rougeLp": quality.get("rougeLp"),
        "k_precision": None if math.isnan(precision) else precision,
        "length": quality.get("length"),
        "answerable_abstention_rate": float(abstained) if doc["answerable"] and (answered or abstained) else None,
        "balanced_error": outcome(doc["answerable"], answered if doc["answerable"] else abstained),
    }


def process_results_with_retrieval(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """As :func:`process_results`; and, over answerable questions whose gold passage is in the corpus: ``ndcg@10`` (which
    carries :func:`retrieval_quality`), ``recall@10``, and ``gold_retrieved`` (was a gold passage among those given?)."""
    values = process_results(doc, results)
    if not doc["answerable"] or not doc["gold_ids"]:
        return {**values, **dict.fromkeys(("ndcg@10", "recall@10", "gold_retrieved"))}
    quality = retrieval_quality(doc["retrieved_ids"], doc["gold_ids"])
    return {
        **values,
        "ndcg@10": FloatWithCounts(quality["ndcg@10"], quality),
        "recall@10": quality["recall@10"],
        "gold_retrieved": float(bool(doc["gold_ranks"])),
    }


def retrieval_figures(values: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Figure, str]]:
    """The finer figures of a task with retrieval, from the values of all documents by metric: name, figure, denominator.
    They are ``ndcg@1``, ``ndcg@3``, ``ndcg@5``; and every metric in ``BY_RETRIEVAL`` as ``<metric>_retrieved`` over the
    questions whose gold passage was given, and as ``<metric>_missed`` over those where it was not."""
    from custom_metrics.scores.aggregations import defined_mean, defined_score, defined_share  # with numpy

    qualities = [value.counts for value in values.get("ndcg@10", ()) if value is not None]
    for k in CUTOFFS[:-1]:
        figure = defined_score.figure_of([quality[f"ndcg@{k}"] for quality in qualities])
        yield f"ndcg@{k}", figure, "answerable questions whose gold passage is in the corpus"
    hits = values.get("gold_retrieved", ())
    for ending, where, flag in (("_retrieved", "is among the passages given", 1.0), ("_missed", "is not", 0.0)):
        for metric in BY_RETRIEVAL:
            chosen = [value for value, hit in zip(values.get(metric, ()), hits, strict=True) if hit == flag]
            kind = {"answerable_abstention_rate": defined_share, "length": defined_mean}.get(metric, defined_score)
            yield f"{metric}{ending}", kind.figure_of(chosen), f"answerable questions whose gold passage {where}"
