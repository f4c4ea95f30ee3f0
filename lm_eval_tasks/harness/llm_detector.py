"""The detector ``llm``: has a language model tag the hallucinated spans, through any model class of the harness.

``detector=llm`` with ``model=local-chat-completions,base_url=http://.../v1/chat/completions,pretrained=NAME`` asks an
OpenAI-compatible endpoint; with ``model=vllm,pretrained=NAME`` it loads the model here. Batching, retries and parallel
requests are the harness's. A reply is data: it is searched, never run.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from custom_metrics.reading.response import final_answer
from custom_metrics.reading.tagged_text import align, parse
from custom_metrics.usage.options import refuse_unknown
from detector_plugin import processes
from detector_plugin.detector import Languages, Questions, Spans, Texts, UnusableDetector, check_lengths
from lm_eval_tasks import harness

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

MAX_GEN_TOKS = 2048


class HarnessLLMDetector:
    """A detector that prompts a language model; UnusableDetector where these arguments do not work.

    Args:
        model: a class of the harness (``vllm``, ``hf``, ``local-chat-completions``, ``openai-chat-completions``, ...).
        pretrained: the model's name or path.
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
        **options: Any,
    ) -> None:
        model_class = self.check(model, pretrained, **options)
        if model in ("hf", "huggingface"):  # its own default is a GPU, whether there is one or not
            import torch

            options.setdefault("device", processes.gpu() if torch.cuda.is_available() else "cpu")
        try:
            self.lm = model_class(**{"model" if "completions" in model else "pretrained": pretrained}, **options)
        except Exception as error:  # the harness's classes raise what their libraries raise
            raise UnusableDetector(
                f"detector llm: model {model!r} with {pretrained!r} cannot be used: {error}"
            ) from error
        self.chat = chat
        self.max_gen_toks = int(max_gen_toks)
        self.name = f"llm:{pretrained}"
        settings = {"max_gen_toks": (self.max_gen_toks, MAX_GEN_TOKS), "chat": (chat, True)}
        self.version = PROMPT_VERSION + "".join(
            f";{name}={value}" for name, (value, default) in settings.items() if value != default
        )
        self.licence = "unknown"

    @classmethod
    def check(cls, model: str = "local-chat-completions", pretrained: str | None = None, **options: Any) -> Any:
        """Get the harness's model class by name, without loading anything; UnusableDetector where there is none."""
        if not pretrained:
            raise UnusableDetector(
                "detector llm: say which model is to be asked: pretrained=NAME. (In `detector_args` of --metadata put `;` "
                "between options, or write JSON: at commas the harness cuts.)"
            )
        try:
            model_class = harness.get_model(model)
        except Exception as error:  # the registry raises several kinds
            raise UnusableDetector(
                f"detector llm: model {model!r} with {pretrained!r} cannot be used: {error}"
            ) from error
        refuse_unknown(f"detector llm, model {model}", options, model_class, UnusableDetector)
        return model_class

    @staticmethod
    def calibrated_name(options: Mapping[str, Any]) -> str:
        return f"llm:{options.get('pretrained')}"

    def detect(self, references: Texts, answers: Texts, languages: Languages, questions: Questions = None) -> Spans:
        """See :class:`detector_plugin.Detector`. A reply that cannot be read flags nothing; the log counts such replies."""
        check_lengths(references, answers, languages, questions)
        indices = [index for index, answer in enumerate(answers) if answer.strip()]
        settings = {"until": [], "do_sample": False, "max_gen_toks": self.max_gen_toks}
        requests = []
        for number, index in enumerate(indices):
            prompt: Any = detection_prompt(references[index], answers[index])
            if self.chat:
                prompt = self.lm.apply_chat_template([{"role": "user", "content": prompt}])
            # The name of a task and the number of a document: nobody reads them, every version wants them.
            places = {"idx": number, "doc_id": number, "task_name": "", "metadata": ("", number, 1)}
            requests.append(harness.Instance("generate_until", {}, (prompt, {**settings}), **places))
        spans: Spans = [[] for _ in answers]
        kinds: Counter[str] = Counter()
        replies = self.lm.generate_until(requests) if requests else []
        for index, reply in zip(indices, replies, strict=True):
            alignment = align(*parse(final_answer(str(reply))), answers[index])
            kinds[alignment.kind] += 1
            if alignment.kind != "lost":
                spans[index] = alignment.spans
        if kinds:
            log.info("detector %s: replies, by how the tagged copy fits the answer: %s", self.name, dict(kinds))
        if kinds["lost"]:
            log.warning(
                "detector %s: %d of %d replies cannot be read; nothing is flagged by them",
                *(self.name, kinds["lost"], len(indices)),
            )
        return spans


def template_text() -> str:
    """The Jinja template of the prompt for tags, as in FAVA (Mishra et al. 2024), of ``reference`` and ``answer``."""
    return resources.files("detector_plugin").joinpath("detection_prompt.jinja").read_text("utf-8")


PROMPT_VERSION = f"prompt {hashlib.sha256(template_text().encode()).hexdigest()[:8]}"
"""Version of a detector that is a model prompted for tags. It changes with the prompt, as its errors do."""


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(keep_trailing_newline=False).from_string(template_text())


def detection_prompt(reference: str, answer: str) -> str:
    """Render the prompt for one answer. Jinja code in reference and answer is not run."""
    return str(_template().render(reference=reference, answer=answer))
