"""The tasks of CLAPnq: ``clapnq_gold*`` (the gold passage) and ``clapnq_rag*`` (a retriever's), each under three prompts.

The prompts are written by hand (``_prompt_*``), as are the judge's tasks (``judge/``).
"""

from __future__ import annotations

from lm_eval_tasks.clapnq.retrieval import RETRIEVERS
from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Base, Benchmark, Metric, Task

__all__ = ["BENCHMARK", "OF_A_DETECTOR"]

_PROMPTS = {"": "_prompt_flan", "_gpt": "_prompt_gpt", "_llama": "_prompt_llama"}

_ANSWERABLE = "answerable questions"
_REFERENCED = "answerable questions with a gold answer"
_IN_CORPUS = "answerable questions whose gold passage is in the corpus"
_READ = "answers that do not abstain and that the detector has read; counted in words"
_RATINGS = "ratings that could be read"
_OF_ANSWERS = (
    Metric(
        "rougeL",
        DEFINED_MEAN,
        True,
        _REFERENCED,
        definition="ROUGE-L F-measure against the gold answer",
        unit="score",
        label="RougeL",
        title="Agrees with the reference answers",
        sentence="Its answers overlap with the best reference answer by RougeL {value} on average, where 1 is word for "
        "word",
        headline=True,
    ),
    Metric(
        "recall",
        DEFINED_MEAN,
        True,
        _REFERENCED,
        definition="ROUGE-1 recall of the gold answer: is it complete?",
        unit="score",
        headline=True,
    ),
    Metric(
        "rougeLp",
        DEFINED_MEAN,
        True,
        _ANSWERABLE,
        definition="ROUGE-L F-measure against the passage: is it taken from there?",
        unit="score",
        label="RougeLp",
        headline=True,
    ),
    Metric(
        "k_precision",
        DEFINED_MEAN,
        True,
        "answers that do not abstain and hold a letter or digit",
        definition="share of the answer's tokens that are in the passages given",
        unit="score",
    ),
    Metric(
        "unanswerable_accuracy",
        DEFINED_SHARE,
        True,
        "unanswerable questions",
        definition="share that abstains",
        title="Declines what cannot be answered",
        sentence="It rightly declines {value} of the questions that cannot be answered",
        headline=True,
        prominence=1,
        traded_against="answerable_abstention_rate",
        cost="It declines more of what can be answered, too",
        verdict="is better at declining than",
    ),
    Metric(
        "answerable_abstention_rate",
        DEFINED_SHARE,
        False,
        _ANSWERABLE,
        definition="share that abstains: the price of caution",
        title="Declines what can be answered",
        sentence="It declines {value} of the questions that can be answered, which is the price of its caution",
        headline=True,
    ),
    Metric(
        "length",
        DEFINED_MEAN,
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
        DEFINED_SHARE,
        True,
        _IN_CORPUS,
        definition="share whose gold passage is among those the model was given",
        label="gold passage retrieved",
        title="Gold passage among those retrieved",
        sentence="Retrieval found the gold passage for {value} of the answerable questions",
    ),
    Metric(
        "ndcg@10",
        DEFINED_MEAN,
        True,
        _IN_CORPUS,
        definition="how early the gold passage stands among the ten best",
        unit="score",
    ),
    Metric(
        "recall@10",
        DEFINED_MEAN,
        True,
        _IN_CORPUS,
        definition="share whose gold passage is among the ten best",
        unit="score",
    ),
)
OF_A_DETECTOR = (
    Metric(
        "hallucinated_share",
        higher_is_better=False,
        denominator=_READ,
        definition="share of words that a detector flags (with `--metadata detector=NAME`)",
        title="Words of an answer that a detector flags",
        sentence="A detector flags {value} of the words of its answers; nothing corrects this for the detector's errors",
        counted="answers",
        headline=True,
        prominence=2,
        verdict="makes up less than",
        is_raw=True,
    ),
    Metric(
        "rogan_gladen_rate",
        higher_is_better=False,
        denominator=_READ,
        definition="the same, corrected for the detector's errors (with `calibration=`)",
        label="Rogan-Gladen rate",
        title="Words that are made up, corrected",
        sentence="About {value} of the words that it writes are made up, as corrected for the detector's errors "
        "(Rogan-Gladen); the detector flagged {hallucinated_share}",
        counted="answers",
        prominence=3,
        verdict="makes up less than",
    ),
)
_OF_A_JUDGE = (
    Metric(
        "f_plus_a",
        higher_is_better=True,
        denominator="questions with a rating that could be read",
        definition="harmonic mean of a judge's two mean ratings, 1 to 4",
        unit="rating",
        label="F+A",
        title="Faithful and appropriate, as a judge rates it",
        sentence="The judge rates faithfulness and appropriateness together {value} on a scale from 1 to 4, as their "
        "harmonic mean",
    ),
    Metric(
        "faithfulness",
        higher_is_better=True,
        denominator=_RATINGS,
        definition="mean rating of how true answers are to the passages, 1 to 4",
        unit="rating",
        title="Faithful, as a judge rates it",
        sentence="The judge rates faithfulness to the passages {value} on a scale from 1 to 4",
        counted="ratings",
    ),
    Metric(
        "appropriateness",
        higher_is_better=True,
        denominator=_RATINGS,
        definition="mean rating of how useful and complete answers look, 1 to 4",
        unit="rating",
        title="Appropriate, as a judge rates it",
        sentence="The judge rates how useful and complete answers look {value} on a scale from 1 to 4",
        counted="ratings",
    ),
    Metric(
        "win_rate_",
        higher_is_better=True,
        denominator="verdicts on a system's answers",
        definition="share of the comparisons that a system wins",
        sentence="The judge prefers the answers of {rest} in {value} of the comparisons",
    ),
    Metric(
        "flip_rate",
        higher_is_better=False,
        denominator="pairs of answers with a verdict in both orders",
        definition="share of verdicts that turn with the order of the answers",
    ),
    Metric("tie_rate", denominator="verdicts that could be read", definition="share of ties"),
    Metric(
        "first_position_rate",
        denominator="verdicts for one of the answers",
        definition="share of verdicts for the answer shown first; 0.5 without bias",
    ),
    Metric(
        "unread_rate",
        higher_is_better=False,
        denominator="all replies of the judge",
        definition="share of replies that say no verdict",
    ),
)


def _base(file: str, says: str, process_results: str, metrics: tuple[Metric, ...]) -> Base:
    return Base(
        file,
        says,
        task="lm_eval_tasks.clapnq.task.ClapnqTask",
        documents="lm_eval_tasks.clapnq.dataset.load_task",
        dataset_path="PrimeQA/clapnq",
        filters={"answer": ("final_answer", "take_first")},
        process_results=f"custom_metrics.scores.grounding.{process_results}",
        metrics=metrics,
    )


_GOLD = _base("_gold_base", "What the tasks with the gold passage share.", "process_results", _OF_ANSWERS)
_RAG = _base(
    "_rag_base",
    "What the tasks with retrieval share.",
    "process_results_with_retrieval",
    (*_OF_ANSWERS, *_OF_RETRIEVAL),
)


def _gold(prompt: str) -> Task:
    name = f"clapnq_gold{prompt}"
    return Task(name, _GOLD, {"name": name}, folder="gold", include=(_GOLD.file, _PROMPTS[prompt]))


def _rag(retriever: str, prompt: str) -> Task:
    name = f"clapnq_rag{'' if retriever == 'bm25' else f'_{retriever}'}{prompt}"  # BM25 goes without saying
    options = {"name": name, "retriever": retriever}
    return Task(name, _RAG, options, folder="rag", include=(_RAG.file, _PROMPTS[prompt]))


BENCHMARK = Benchmark(
    version=1.8,
    tasks=(
        *map(_gold, _PROMPTS),
        *(_rag(retriever, prompt) for prompt in _PROMPTS for retriever in RETRIEVERS),
    ),
    languages={"en": "English"},
    title="CLAPnq",
    questions={
        "clapnq": "Does it answer from the passages, and decline what they do not answer?",
        "clapnq_judge": "How good are the answers, as a judge rates them?",
    },
    more_metrics=(*OF_A_DETECTOR, *_OF_A_JUDGE),
)
