"""The detector ``llm``: prompts a language model for hallucinated spans, through any model class of the harness.

This module has all of it but the harness: :mod:`lm_eval_tasks.harness.llm_detector` has that, and is what the name loads.

``detector=llm`` with ``model=local-chat-completions,base_url=http://.../v1/chat/completions,pretrained=NAME`` asks an
OpenAI-compatible endpoint; with ``model=vllm,pretrained=NAME`` it loads the model here. Batching, retries and parallel
requests are the harness's. A reply is data: it is searched, never run. What is wrong with it is counted, and what can be
read of it counts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import yaml

from custom_metrics.reading.response import after_reasoning, final_answer
from custom_metrics.reading.spans import HALLUCINATION, Span
from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.usage.options import known_instead, refuse_unknown, signature_of
from custom_metrics.usage.shipped_tables import shipped_rows
from detector_plugin import processes
from detector_plugin.detector import Languages, Texts, UnusableDetector, check_choice, check_lengths

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

MAX_GEN_TOKS = 2048


class LLMDetector(ABC):
    """A detector that prompts a language model; UnusableDetector where these arguments do not work.

    Args:
        model: a class of the harness (``vllm``, ``hf``, ``local-chat-completions``, ``openai-chat-completions``, ...).
        pretrained: the model's name or path.
        form: how it is asked, and how its reply is read (:func:`forms`); ``auto`` knows the
            models of LettuceDetect and Granite Guardian by name, and asks all others for tags.
        max_gen_toks: tokens of a reply, tags included.
        chat: send the prompt as a user turn of the model's chat template (endpoints of chat completions always do).
        options: further arguments of that class: ``base_url``, ``num_concurrent``, ``dtype``, ``device``, ...
    """

    def __init__(
        self,
        model: str = "local-chat-completions",
        pretrained: str | None = None,
        max_gen_toks: int = MAX_GEN_TOKS,
        chat: bool = True,
        form: str = "auto",
        **options: Any,
    ) -> None:
        model_class = self.check(model, pretrained, form, **options)
        self.form = forms()[form_of(form, str(pretrained))]
        if model in ("hf", "huggingface"):  # its own default is a GPU, whether there is one or not
            import torch

            options.setdefault("device", processes.gpu() if torch.cuda.is_available() else "cpu")
        try:
            self.lm = model_class(**{"model" if "completions" in model else "pretrained": pretrained}, **options)
        except Exception as error:  # the harness's classes raise what their libraries raise
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))  # of a class that takes any
            signature = signature_of(model_class)
            if unknown and unknown[1] in options and signature:
                hint = known_instead(unknown[1], [*signature.parameters])
                raise UnusableDetector(f"detector llm, model {model}: no option {unknown[1]!r}{hint}") from error
            raise UnusableDetector(
                f"detector llm: model {model!r} with {pretrained!r} cannot be used: {error}"
            ) from error
        self.chat = chat
        self.max_gen_toks = int(max_gen_toks)
        self.name = f"llm:{pretrained}"
        settings = {"max_gen_toks": (self.max_gen_toks, MAX_GEN_TOKS), "chat": (chat, True)}
        self.version = self.form.version + "".join(
            f";{name}={value}" for name, (value, default) in settings.items() if value != default
        )
        self.licence = "unknown"

    @staticmethod
    @abstractmethod
    def model_class(name: str) -> Any:
        """The model class of this name, of which nothing is loaded yet; an error of any kind where there is none."""

    @abstractmethod
    def replies(self, prompts: Sequence[tuple[Any, dict[str, Any]]]) -> list[str]:
        """The model's reply to each prompt, which stands before its settings of generation."""

    @classmethod
    def check(
        cls, model: str = "local-chat-completions", pretrained: str | None = None, form: str = "auto", **options: Any
    ) -> Any:
        """Get the harness's model class by name, without loading anything; UnusableDetector where there is none."""
        check_choice("form", form, ("auto", *forms()))
        if not pretrained:
            raise UnusableDetector(
                "detector llm: say which model is to be asked: pretrained=NAME. (In `detector_args` of --metadata put `;` "
                "between options, or write JSON: at commas the harness cuts.)"
            )
        try:
            model_class = cls.model_class(model)
        except Exception as error:  # the registry raises several kinds
            raise UnusableDetector(
                f"detector llm: model {model!r} with {pretrained!r} cannot be used: {error}"
            ) from error
        refuse_unknown(f"detector llm, model {model}", options, model_class, UnusableDetector)
        return model_class

    @staticmethod
    def calibrated_name(options: Mapping[str, Any]) -> str:
        return f"llm:{options.get('pretrained')}"

    def detect(
        self, references: Texts, answers: Texts, languages: Languages, questions: Texts | None = None
    ) -> list[list[Span]]:
        """See :class:`detector_plugin.Detector`. By a reply that cannot be read nothing is flagged; the log counts such
        replies, and the spans that cannot be used.
        """
        check_lengths(references, answers, languages, questions)
        pieces = [
            (index, *place)
            for index, answer in enumerate(answers)
            if answer.strip()
            for place in self.form.pieces(answer, languages[index])
        ]
        prompts = []
        for index, start, end in pieces:
            turns = self.form.turns(references[index], answers[index][start:end], questions[index] if questions else "")
            prompt, more = self._prompt(turns, references[index] if self.form.as_document else None)
            settings = {"until": [], "do_sample": False, "max_gen_toks": self.max_gen_toks, **more}
            prompts.append((prompt, settings))
        responses = self.replies(prompts) if prompts else []
        spans: list[list[Span]] = [[] for _ in answers]
        kinds: Counter[str] = Counter()
        problems: Counter[str] = Counter()
        for (index, start, end), response in zip(pieces, responses, strict=True):
            kind, of_piece = self.form.read(response, answers[index][start:end], problems)
            kinds[kind] += 1
            spans[index] += [span._replace(start=start + span.start, end=start + span.end) for span in of_piece]
        if kinds:
            log.info("detector %s: replies, by what they are: %s", self.name, dict(kinds))
        if problems:
            log.warning("detector %s: spans of replies that are not as they should be: %s", self.name, dict(problems))
        if kinds[UNREADABLE]:
            log.warning(
                "detector %s: %d of %d replies cannot be read; nothing is flagged by them",
                *(self.name, kinds[UNREADABLE], len(pieces)),
            )
        return spans

    def _prompt(self, turns: Turns, document: str | None) -> tuple[Any, dict[str, Any]]:
        """The prompt of these turns, and what goes along with the request: a document for the chat template of a server. A
        model that is loaded here applies its template itself."""
        if not self.chat:
            return "\n\n".join(turn["content"] for turn in turns), {}
        if document is None:
            return self.lm.apply_chat_template(turns), {}
        documents = {"documents": [{"doc_id": "0", "text": document}]}
        options = getattr(self.lm, "chat_template_args", None)
        if options is None:
            return self.lm.apply_chat_template(turns), documents
        self.lm.chat_template_args = {**options, **documents}
        try:
            return self.lm.apply_chat_template(turns), {}
        finally:
            self.lm.chat_template_args = options


# The forms in which models are asked, and the readers of their replies

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
        return _version_of(self.prompt)


def _version_of(prompt: str) -> str:
    return f"prompt {hashlib.sha256(prompt.encode()).hexdigest()[:8]}"


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


PROMPT_VERSION = _version_of(template_text())
"""Version of a detector that is a model prompted for tags. It changes with the prompt, as its errors do."""


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
