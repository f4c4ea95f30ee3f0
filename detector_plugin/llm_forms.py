"""Forms in which language models are asked for hallucinated spans, and the readers of their replies.

A reply is data: it is searched, never run. What is wrong with it is counted, and what can be read of it counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import yaml

from custom_metrics.reading.response import after_reasoning, final_answer
from custom_metrics.reading.spans import HALLUCINATION, Span
from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.usage.shipped_tables import shipped_rows

Turns = list[dict[str, str]]
Bounds = list[tuple[int, int]]

LONGEST_REPLY = 1 << 20  # characters; the reply to an answer of 10,000 characters has some 50,000 at most
UNREADABLE = "unreadable"
"""Kind of a reply of which nothing can be read, so that nothing is flagged by it."""


class Form(NamedTuple):
    """How a model is asked about an answer or each part of it, and how its reply is read."""

    prompt: str  # text that is the same for all answers: it decides the version
    turns: Callable[[str, str, str], Turns]  # of reference, answer or part of it, question
    read: Callable[[str, str, Counter[str]], tuple[str, list[Span]]]  # reply, answer or part; kind of reply, spans
    pieces: Callable[[str, str | None], Bounds] = lambda answer, language: [(0, len(answer))]
    as_document: bool = False  # whether the chat template takes the reference, under ``documents``

    @property
    def version(self) -> str:
        return f"prompt {hashlib.sha256(self.prompt.encode()).hexdigest()[:8]}"


def form_of(form: str, model: str) -> str:
    """The form that is meant: ``auto`` is the one that a model's name calls for."""
    if form != "auto":
        return form
    name = model.casefold()
    return next((known for known, part in _NAMED.items() if part in name), "tags")


_NAMED = {"lettucedetect": "lettucedect", "granite-guardian": "granite-guardian"}


# Tags: any model


def template_text() -> str:
    """The Jinja template of the prompt for tags, as in FAVA (Mishra et al. 2024), with the fields ``reference`` and
    ``answer``; the YAML of the detection tasks has the same text."""
    return resources.files("detector_plugin").joinpath("detection_prompt.jinja").read_text("utf-8")


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(keep_trailing_newline=False).from_string(template_text())


def detection_prompt(reference: str, answer: str) -> str:
    """Render the prompt for one answer. Jinja code in reference and answer is not run."""
    return str(_template().render(reference=reference, answer=answer))


def read_tags(reply: str, answer: str, problems: Counter[str]) -> tuple[str, list[Span]]:
    """The spans of a tagged copy of an answer, carried over to the answer itself; the kind is that of the copy
    (:func:`custom_metrics.reading.tagged_text.align`)."""
    alignment = align(*parse(final_answer(reply)), answer)
    return UNREADABLE if alignment.kind == "lost" else alignment.kind, alignment.spans


# LettuceDetect: typed spans as JSON

_LIST = re.compile(r'"hallucinated_spans"\s*:\s*\[\s*')
_BETWEEN = re.compile(r"[\s,]*")


def read_typed_spans(reply: str, answer: str, problems: Counter[str]) -> tuple[str, list[Span]]:
    """The spans of a reply of LettuceDetect's generative models, ``{"hallucinated_spans": [{"text", "category",
    "subcategory"}]}``, in a code fence or not: ``whole``, ``cut off`` (what is whole of it is read) or ``unreadable``.

    A span is where its text first stands in the answer outside earlier spans, as in LettuceDetect's own code; a ``start``
    (and ``end``) that a model gives counts where the text stands there. Spans that are left out, or have no known type, are
    counted in `problems`: ``no text``, ``not in the answer``, ``repeated``, ``wrong offsets``, ``unknown type``.
    """
    reply = after_reasoning(reply) if len(reply) <= LONGEST_REPLY else ""
    opening = _LIST.search(reply)
    if opening is None:
        return UNREADABLE, []
    at, kind, spans = opening.end(), "whole", []
    decoder, taken = json.JSONDecoder(), bytearray(len(answer))
    following: dict[str, int] = defaultdict(int)  # of each text: where it is looked for next
    while reply[at : at + 1] != "]":
        try:
            item, at = decoder.raw_decode(reply, at)
        except (ValueError, RecursionError):  # cut off, or no JSON
            kind = "cut off"
            break
        between = _BETWEEN.match(reply, at)
        at = between.end() if between else at
        quoted = item.get("text") if isinstance(item, dict) else None
        text = quoted.strip() if isinstance(quoted, str) else ""
        if not text:
            problems["no text"] += 1
            continue
        start = _place_of(text, item, answer, taken, following, problems)
        if start is not None:
            end = start + len(text)
            taken[start:end] = b"\1" * len(text)
            category = _category_of(item.get("category"), item.get("subcategory"))
            if category is None:
                problems["unknown type"] += 1
            spans.append(Span(start, end, category or HALLUCINATION))
    return kind, sorted(spans)


def _place_of(
    text: str,
    item: dict[str, Any],
    answer: str,
    taken: bytearray,
    following: dict[str, int],
    problems: Counter[str],
) -> int | None:
    """Where a span of this text begins, in characters of the answer; ``None`` where it is not there, or is taken."""
    stated = item.get("start")
    if isinstance(stated, int):
        if stated >= 0 and answer.startswith(text, stated) and taken.find(1, stated, stated + len(text)) < 0:
            return stated
        problems["wrong offsets"] += 1
    while (start := answer.find(text, following[text])) >= 0:
        overlap = taken.rfind(1, start, start + len(text))
        following[text] = start + len(text) if overlap < 0 else overlap + 1
        if overlap < 0:
            return start
    problems["repeated" if text in answer else "not in the answer"] += 1
    return None


@lru_cache(maxsize=1)
def _types() -> dict[tuple[str, str], str]:
    return {
        (row["category"], row["subcategory"]): row["mfava"]
        for row in shipped_rows("detector_plugin", "lettucedetect_types.tsv")
    }


def _category_of(category: Any, subcategory: Any) -> str | None:
    """mFAVA's category of a type of LettuceDetect's, by the table; ``None`` where it has none."""
    return _types().get((str(category), str(subcategory))) or _types().get((str(category), "*"))


# Granite Guardian: a verdict on each sentence

_SCORE = re.compile(r"<score>\s{0,9}(yes|no)\s{0,9}</score>", re.IGNORECASE)


def read_verdict(reply: str, sentence: str, problems: Counter[str]) -> tuple[str, list[Span]]:
    """The verdict of Granite Guardian on a sentence, ``<score>yes</score>`` for ungrounded; else ``unreadable``."""
    verdicts = _SCORE.findall(after_reasoning(reply)) if len(reply) <= LONGEST_REPLY else []
    if not verdicts:
        return UNREADABLE, []
    verdict = verdicts[-1].lower()
    return verdict, [Span(0, len(sentence))] if verdict == "yes" else []


# The forms by name


@lru_cache(maxsize=1)
def forms() -> dict[str, Form]:
    """The forms, by the name that the option ``form`` gives.

    - ``tags``: FAVA's prompt, for any model; the reply is the answer with tags.
    - ``lettucedetect``: the prompt and reply of LettuceDetect's generative models of version 2.
    - ``granite-guardian``: the prompt and verdict of Granite Guardian 4.1 on groundedness, for each sentence, as in IBM's
      own measurement (evaluation/benchmarks/groundedness_true.py).
    """
    from detector_plugin.sentences import sentence_bounds  # with numpy, which tables of benchmarks do without

    prompts = yaml.safe_load(resources.files("detector_plugin").joinpath("llm_prompts.yaml").read_text("utf-8"))
    system, guardian = prompts["lettucedetect"], prompts["granite-guardian"]

    def typed(reference: str, answer: str, question: str) -> Turns:
        request = f"User request: {question}\n\n" if question else ""
        return _turns(("system", system), ("user", f"{request}{reference}\n\nAnswer to verify:\n{answer}"))

    def judged(reference: str, sentence: str, question: str) -> Turns:
        return _turns(("assistant", sentence), ("user", guardian))

    return {
        "tags": Form(
            template_text(),
            lambda reference, answer, question: _turns(("user", detection_prompt(reference, answer))),
            read_tags,
        ),
        "lettucedetect": Form(system, typed, read_typed_spans),
        "granite-guardian": Form(guardian, judged, read_verdict, sentence_bounds, as_document=True),
    }


def _turns(*turns: tuple[str, str]) -> Turns:
    return [{"role": role, "content": content} for role, content in turns]
