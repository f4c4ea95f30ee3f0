"""MTRAG-UN: documents (a conversation, the passages for its last turn, and what kind of turn that is), and their task, with
the conversation as chat turns or as a transcript in plain text.

What an answer to the last turn is worth depends on the kind of turn.

- Answerable: CLAPnq's scores (:mod:`custom_metrics.scores.grounding`); and whether it abstains or asks back, which is the
  price of caution.
- Unanswerable: whether it abstains.
- Underspecified: whether it asks back (:mod:`custom_metrics.abstention.clarification`).
- Partial: whether it says what is missing and gives the rest (:func:`is_partial`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from custom_metrics.abstention import excerpt, is_abstention
from custom_metrics.abstention.clarification import asks_clarification
from custom_metrics.abstention.folding import fold
from custom_metrics.abstention.sentence_reading import split
from custom_metrics.scores import grounding
from custom_metrics.statistics.figures import FloatWithCounts
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.tables import read_rows, text_of
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, documents, in_turn
from lm_eval_tasks.harness.task import GroundedTask
from lm_eval_tasks.mtragun import DOMAINS

REPOSITORY = "IBM/mt-rag-benchmark"
FILE = "mtragun-human/generation_tasks/reference.jsonl"
KINDS = ("answerable", "unanswerable", "underspecified", "partial")
ROLES = {"user": "user", "agent": "assistant"}
MOST_PASSAGES = 10  # the paper sends "up to the first 10 relevant passages" (section 3.3); seven turns have more


def load(domain: str, mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the conversations of a domain, a key of :data:`DOMAINS`.

    Returns:
        ``{"evaluation": documents}``; the kinds of turns alternate, so that ``--limit`` sees all. Columns: ``id``,
        ``conversation_id``, ``passage`` (the conversation, by which bounds are clustered, where one has several turns in
        the task; else empty), ``domain``, ``kind`` (one of :data:`KINDS`), ``answerable`` (whether the kind is that),
        ``conversation`` (``role``, ``content`` of each turn, the question last), ``question``, ``passages`` (``id``,
        ``title``, ``text``), ``groundings`` (title, one space, text, of each), ``answers`` (the reference response),
        ``target`` (the same).
    """
    task = f"mtragun_{domain}"
    load_task.check(task, ignored, domain=(domain, DOMAINS))
    counts: Counter[str] = Counter()
    with sources.recording() as read:
        path = sources.locate(REPOSITORY, FILE, mirror)
    parse = partial(_document, domain=domain, counts=counts)
    rows = [row for row in read_rows(path, parse, "no task of MTRAG-UN") if row]
    several = len({row["conversation_id"] for row in rows}) < len(rows)
    rows = [{**row, "passage": row["conversation_id"] if several else ""} for row in rows]
    by_kind = [[row for row in rows if row["kind"] == kind] for kind in KINDS]
    kept = {kind: len(of_kind) for kind, of_kind in zip(KINDS, by_kind, strict=True)}
    counted = ", ".join(f"{number} {kind}" for kind, number in kept.items())
    return documents(task, in_turn(by_kind), read, counted, counts, kept=kept, options={"domain": domain})


def _files(options: Options) -> Places:
    return [(REPOSITORY, FILE)]


load_task = TaskLoader(load, _files, of_task=("domain",), logged_elsewhere=("groundings", "target"))


def _document(row: Mapping[str, Any], domain: str, counts: Counter[str]) -> dict[str, Any] | None:
    """The document of a row; ``None`` for one of another domain. Passages that are left out are counted."""
    if text_of(row, "Collection") != DOMAINS[domain]:
        return None
    (label,) = row["answerability"]
    kind = str(label).lower()
    if kind not in KINDS:
        raise ValueError(f"unknown answerability {label!r}")
    turns = [{"role": ROLES[turn["speaker"]], "content": text_of(turn, "text").strip()} for turn in row["input"]]
    if turns[-1]["role"] != "user":
        raise ValueError("the last turn is not the user's")
    passages = []
    for context in row["contexts"][:MOST_PASSAGES]:
        # The text of a passage with a title begins with it, and is here without.
        title, text = str(context.get("title") or "").strip(), text_of(context, "text").strip()
        content = text.removeprefix(title).strip()
        passages.append({"id": text_of(context, "document_id"), "title": title, "text": content})
    target = text_of(row["targets"][0], "text").strip()
    counts["passages left out, after the first ten"] += max(0, len(row["contexts"]) - MOST_PASSAGES)
    return {
        "domain": domain,
        "id": text_of(row, "task_id"),
        "conversation_id": text_of(row, "conversation_id"),
        "kind": kind,
        "answerable": kind == "answerable",
        "conversation": turns,
        "question": turns[-1]["content"],
        "passages": passages,
        "groundings": [f"{passage['title']} {passage['text']}".strip() for passage in passages],
        "answers": [target],
        "target": target,
    }


LANGUAGE = "en"
_FEWEST = 3  # words of a statement
_OF_ANSWERABLE = ("rougeL", "recall", "rougeLp", "k_precision", "length", "answerable_abstention_rate")
_WITH_ANSWER = ("answerable", "unanswerable")


class ConversationTask(GroundedTask):
    """A task whose documents have a ``conversation``.

    With ``--apply_chat_template`` its turns are the turns of the chat, behind the system turn with the instruction and the
    passages: what the model's template or API makes of a chat. A template without a system role has them in the first user
    turn (:mod:`lm_eval_tasks.harness.task`). Without a template, all are lines of one prompt.
    """

    is_generated = True

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **how: Any) -> Any:
        """The harness's prompt, in a chat with the turns of the conversation in place of the one user turn."""
        if num_fewshot:
            raise UsageError(f"{self.config.task}: num_fewshot {num_fewshot}: there are no examples; leave it out")
        template = how.pop("chat_template", None) if how.get("apply_chat_template") else None
        if template is None:
            return super().fewshot_context(doc, num_fewshot, **how)

        def with_turns(messages: list[dict[str, Any]], **more: Any) -> Any:
            before, behind = ([turn for turn in messages if turn["role"] == role] for role in ("system", "assistant"))
            before = [{**turn, "content": turn["content"].strip()} for turn in before]
            return template([*before, *map(dict, doc["conversation"]), *behind], **more)

        return super().fewshot_context(doc, num_fewshot, chat_template=with_turns, **how)


def is_partial(answer: str) -> bool:
    """Whether a sentence of an answer says that something is not told, and another one tells something: neither abstains
    nor asks back, and has at least three words."""
    silent = states = False
    for sentence, is_question in split(fold(excerpt(answer))):
        if is_abstention(sentence, LANGUAGE):
            silent = True
        elif not is_question and not asks_clarification(sentence, LANGUAGE):
            states = states or len(sentence.split()) >= _FEWEST
    return silent and states


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Every metric of a document of :mod:`lm_eval_tasks.mtragun.dataset`, ``None`` where it is not in the denominator. The
    first number is the document's own score."""
    answer = results[0] if isinstance(results[0], str) else ""
    kind = doc["kind"]
    of_clapnq = grounding.process_results(doc, [answer])
    values: dict[str, Any] = dict.fromkeys((*_OF_ANSWERABLE, "unanswerable_accuracy", "balanced_error"))
    values |= dict.fromkeys(("clarification_rate", "answerable_clarification_rate", "partial_answer_rate"))
    if kind in _WITH_ANSWER:
        values |= {name: of_clapnq[name] for name in ("unanswerable_accuracy", "balanced_error")}
    if kind == "answerable":
        values |= {name: of_clapnq[name] for name in _OF_ANSWERABLE}
        if values["answerable_abstention_rate"] is not None:  # it can be read
            values["answerable_clarification_rate"] = float(asks_clarification(answer, LANGUAGE))
    elif kind == "underspecified":
        values["clarification_rate"] = float(asks_clarification(answer, LANGUAGE))
    elif kind == "partial":
        values["partial_answer_rate"] = float(is_partial(answer))
    if not doc["passage"]:
        return values
    return {
        name: FloatWithCounts(value, cluster=doc["passage"]) if isinstance(value, float) else value
        for name, value in values.items()
    }
