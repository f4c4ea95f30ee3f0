"""The tasks of MTRAG-UN, ``mtragun_<domain>``, and their group."""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.definition.schema import Base, Benchmark, Group, Metric, Task, abstention_metrics
from lm_eval_tasks.mtragun import DOMAINS

_ANSWERABLE = "answerable turns"
_TURNS: dict[str, Any] = {"counted": "turns"}

_BEHAVIOUR = (
    *abstention_metrics("turns"),
    Metric(
        "clarification_rate",
        "defined_share",
        True,
        "underspecified turns",
        definition="share that asks the user back what is meant",
        title="Asks back when a question is underspecified",
        sentence="It asks back at {value} of the turns that could mean several things",
        headline=True,
        traded_against="answerable_clarification_rate",
        **_TURNS,
    ),
    Metric(
        "answerable_clarification_rate",
        "defined_share",
        False,
        f"{_ANSWERABLE} whose answer can be read",
        definition="share that asks the user back: the price of asking",
        title="Asks back when a question is clear",
        sentence="It asks back at {value} of the turns that can be answered, which is the price of its asking",
        headline=True,
        **_TURNS,
    ),
    Metric(
        "partial_answer_rate",
        "defined_share",
        True,
        "partly answerable turns",
        definition="share that says what the passages lack in one sentence, and tells something in another",
        title="Answers what it can and says what is missing",
        sentence="It answers a part and says what is missing at {value} of the turns that can be answered in part",
        headline=True,
        **_TURNS,
    ),
)


def _score(name: str, definition: str, denominator: str = _ANSWERABLE, **text: Any) -> Metric:
    return Metric(name, "defined_score", True, denominator, definition, unit="score", **text, **_TURNS)


_QUALITY = (
    _score(
        "rougeL",
        "ROUGE-L F-measure against the reference response",
        label="RougeL",
        title="Agrees with the reference responses",
        sentence="Its answers overlap with the reference response by RougeL {value} on average, where 1 is word for word",
        headline=True,
    ),
    _score("recall", "ROUGE-1 recall of the reference response: is it complete?"),
    _score(
        "rougeLp",
        "ROUGE-L F-measure against the nearest passage: is it taken from there?",
        "answerable turns with a passage",
        label="RougeLp",
    ),
    _score(
        "k_precision",
        "share of the answer's tokens that are in the passages given",
        "answers to answerable turns that do not abstain and can be read",
    ),
    Metric(
        "length",
        "defined_mean",
        None,
        _ANSWERABLE,
        definition="characters of an answer",
        unit="characters",
        label="length in characters",
        **_TURNS,
    ),
)

_BASE = Base(
    "_mtragun_base",
    """\
What all tasks of MTRAG-UN share. The instruction is the paper's, word for word (section 3.3): it stands in the system turn,
with the passages behind it. The layout of passages, and that of the turns in plain text, is ours.""",
    task="lm_eval_tasks.mtragun.dataset.ConversationTask",
    documents="lm_eval_tasks.mtragun.dataset.load_task",
    dataset_path="IBM/mt-rag-benchmark",
    prompt={
        "description": "Given one or more documents and a user question, generate a response to the question using less "
        'than 150 words that is grounded in the provided documents. If no answer can be found in the documents, say, "I do '
        'not have specific information". If a question is underspecified — e.g., it has multiple possible answers, a broad '
        "scope, or needs explanation — include that further clarification/information is needed from the user in your "
        "response.\n\n"
        "{% for passage in passages %}PASSAGE {{ loop.index }}\n"
        "{% if passage.title %}{{ passage.title }}\n{% endif %}{{ passage.text }}\n\n{% endfor %}",
        "doc_to_text": '{% for turn in conversation %}{{ "User" if turn.role == "user" else "Agent" }}: '
        "{{ turn.content }}\n{% endfor %}Agent:",
        "doc_to_target": "target",
        "target_delimiter": " ",
        "generation_kwargs": {"until": ["\nUser:", "\nAgent:"], "do_sample": False, "max_gen_toks": 512},
        "num_fewshot": 0,
    },
    filters={"answer": ("final_answer", "take_first")},
    process_results="lm_eval_tasks.mtragun.dataset.process_results",
    metrics=(*_BEHAVIOUR, *_QUALITY),
)

_TASKS = tuple(Task(f"mtragun_{domain}", _BASE, {"domain": domain}) for domain in DOMAINS)

BENCHMARK = Benchmark(
    version=1.2,
    tasks=_TASKS,
    groups=(Group("mtragun", _TASKS),),
    languages={"en": "English"},
    title="MTRAG-UN",
    questions={"mtragun": "Does it know in a conversation when it cannot know, and ask back?"},
)
