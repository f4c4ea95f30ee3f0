"""The tasks of CLAPnq: ``clapnq_gold*`` (the gold passage) and ``clapnq_rag*`` (a retriever's), each under three prompts,
and the group ``clapnq`` of the first of each.

The prompts are written by hand (``_prompt_*``), as are the judge's tasks (``judge/``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lm_eval_tasks.clapnq.retrieval import RETRIEVERS
from lm_eval_tasks.definition.schema import Base, Benchmark, Group, Metric, Task, abstention_metrics, by_labels
from lm_eval_tasks.detection.marked import MARKED_RATE, NEEDS, REMEDY

_PROMPTS = {"": "_prompt_flan", "_gpt": "_prompt_gpt", "_llama": "_prompt_llama"}

_ANSWERABLE = "answerable questions"
_REFERENCED = "answerable questions with a gold answer"
_IN_CORPUS = "answerable questions whose gold passage is in the corpus"
_READ = "answers that do not abstain and that the detector has read; counted in words"


def _score(name: str, denominator: str, definition: str, **text: Any) -> Metric:
    """A mean of the answers' scores, the higher the better."""
    return Metric(name, "defined_score", True, denominator, definition=definition, unit="score", **text)


_OF_ANSWERS = (
    _score(
        "rougeL",
        _REFERENCED,
        "ROUGE-L F-measure against the gold answer",
        label="RougeL",
        title="Agrees with the reference answers",
        sentence="Its answers overlap with the best reference answer by RougeL {value} on average, where 1 is word for "
        "word",
        headline=True,
    ),
    _score("recall", _REFERENCED, "ROUGE-1 recall of the gold answer: is it complete?", headline=True),
    _score(
        "rougeLp",
        _ANSWERABLE,
        "ROUGE-L F-measure against the passage: is it taken from there?",
        label="RougeLp",
        headline=True,
    ),
    _score(
        "k_precision",
        "answers that do not abstain and can be read",
        "share of the answer's tokens that are in the passages given",
    ),
    *abstention_metrics(),
    Metric(
        "length",
        "defined_mean",
        None,
        _ANSWERABLE,
        definition="characters of an answer; near those of the references (272 on dev, says the paper) is good",
        unit="characters",
        label="length in characters",
        title="Length of an answer",
        sentence="An answer to an answerable question has {value} characters on average",
        headline=True,
    ),
)
_OF_RETRIEVAL = (
    Metric(
        "gold_retrieved",
        "defined_share",
        True,
        _IN_CORPUS,
        definition="share whose gold passage is among those the model was given",
        label="gold passage retrieved",
        title="Gold passage among those retrieved",
        sentence="Retrieval found the gold passage for {value} of the answerable questions",
    ),
    _score("ndcg@10", _IN_CORPUS, "how early the gold passage stands among the ten best"),
    _score("recall@10", _IN_CORPUS, "share whose gold passage is among the ten best"),
)
OF_A_DETECTOR = (
    Metric(
        "hallucinated_share",
        "lm_eval_tasks.clapnq.hallucination.hallucinated_share",
        higher_is_better=False,
        denominator=_READ,
        definition="share of words that a detector flags (with the option `detector`)",
        title="Words of an answer that a detector flags",
        sentence="A detector flags {value} of the words of its answers; nothing corrects this for the detector's errors",
        counted="answers",
        headline=True,
        prominence=2,
        is_raw=True,
        of_detector=True,
    ),
    Metric(
        "rogan_gladen_rate",
        "lm_eval_tasks.clapnq.hallucination.rogan_gladen_rate",
        higher_is_better=False,
        denominator=_READ,
        definition="the same, corrected for the detector's errors on RAG answers (with `calibration=`)",
        label="Rogan-Gladen rate",
        title="Words that are made up, corrected",
        sentence="About {value} of the words that it writes are made up, as corrected for the detector's errors "
        "(Rogan-Gladen); the detector flagged {hallucinated_share}",
        counted="answers",
        prominence=3,
        needs=NEEDS,
        remedy=REMEDY,
        of_detector=True,
    ),
)
_RATING: dict[str, Any] = {"denominator": "ratings that could be read", "unit": "rating", "counted": "ratings"}
_JUDGING = "custom_metrics.scores.judging"
_OF_A_JUDGE = (
    Metric(
        "f_plus_a",
        f"{_JUDGING}.f_plus_a",
        higher_is_better=True,
        denominator="questions with a rating that could be read",
        definition="harmonic mean of the two mean ratings, 1 to 4",
        unit="rating",
        label="F+A",
        title="Faithful and appropriate, as a judge rates it",
        sentence="The judge rates faithfulness and appropriateness together {value} on a scale from 1 to 4, as their "
        "harmonic mean",
    ),
    *(
        Metric(
            name,
            "defined_mean",
            higher_is_better=True,
            definition=f"mean rating of {asked}, 1 to 4",
            title=f"{adjective}, as a judge rates it",
            sentence=f"The judge rates {rated} {{value}} on a scale from 1 to 4",
            **_RATING,
        )
        for name, adjective, asked, rated in (
            ("faithfulness", "Faithful", "how true answers are to the passages", "faithfulness to the passages"),
            ("appropriateness", "Appropriate", *["how useful and complete answers look"] * 2),
        )
    ),
    Metric(
        "win_rate_",
        f"{_JUDGING}.win_rate",
        True,
        "verdicts on a system's answers",
        "share of the comparisons that a system wins",
        sentence="The judge prefers the answers of {rest} in {value} of the comparisons",
    ),
    Metric(
        "flip_rate",
        f"{_JUDGING}.flip_rate",
        False,
        "pairs of answers with a verdict in both orders",
        "share of verdicts that turn with the order of the answers",
    ),
    Metric("tie_rate", f"{_JUDGING}.share", None, "verdicts that could be read", "share of ties"),
    Metric(
        "first_position_rate",
        f"{_JUDGING}.share",
        None,
        "verdicts for one of the answers",
        "share of verdicts for the answer shown first; 0.5 without bias",
    ),
    Metric(
        "unread_rate", f"{_JUDGING}.share", False, "all replies of the judge", "share of replies that say no verdict"
    ),
)


_GOLD = Base(
    "_gold_base",
    "What the tasks with the gold passage share.",
    task="lm_eval_tasks.clapnq.task.ClapnqTask",
    documents="lm_eval_tasks.clapnq.dataset.load_task",
    dataset_path="PrimeQA/clapnq",
    filters={"answer": ("final_answer", "take_first")},
    process_results="custom_metrics.scores.grounding.process_results",
    metrics=_OF_ANSWERS,
)
_RAG = replace(
    _GOLD,
    file="_rag_base",
    comment="What the tasks with retrieval share.",
    process_results="custom_metrics.scores.grounding.process_results_with_retrieval",
    metrics=(*_OF_ANSWERS, *_OF_RETRIEVAL),
)


def _task(prompt: str, retriever: str = "") -> Task:
    base, folder = (_RAG, "rag") if retriever else (_GOLD, "gold")
    infix = "" if retriever in ("", "bm25") else f"_{retriever}"  # BM25 is the default
    name = f"clapnq_{folder}{infix}{prompt}"
    options = {"name": name, "retriever": retriever} if retriever else {"name": name}
    return Task(name, base, options, folder, (base.file, _PROMPTS[prompt]))


_GOLD_TASKS = tuple(map(_task, _PROMPTS))
_RAG_TASKS = tuple(_task(prompt, retriever) for prompt in _PROMPTS for retriever in RETRIEVERS)

BENCHMARK = Benchmark(
    version=2.2,
    tasks=(*_GOLD_TASKS, *_RAG_TASKS),
    groups=(Group("clapnq", (_GOLD_TASKS[0], _task("", "bm25"))),),
    languages={"en": "English"},
    title="CLAPnq",
    questions={
        "clapnq": "Does it answer from the passages, and decline what they do not answer?",
        "clapnq_judge": "How good are the answers, as a judge rates them?",
    },
    more_metrics=(MARKED_RATE, *by_labels(_OF_ANSWERS), *OF_A_DETECTOR, *_OF_A_JUDGE),
)
