"""The detector ``llm``: prompts a language model for hallucinated spans, through any model class of the harness.

``detector=llm`` with ``model=local-chat-completions,base_url=http://.../v1/chat/completions,pretrained=NAME`` asks an
OpenAI-compatible endpoint; with ``model=vllm,pretrained=NAME`` it loads the model here. Batching, retries and parallel
requests are the harness's.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from custom_metrics.reading.spans import Span
from custom_metrics.usage.options import known_instead, refuse_unknown, signature_of
from detector_plugin import processes
from detector_plugin.detector import Languages, Texts, UnusableDetector, check_choice, check_lengths
from detector_plugin.llm_forms import UNREADABLE, Turns, form_of, forms

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

MAX_GEN_TOKS = 2048

PROMPT_VERSION = forms()["tags"].version
"""Version of a detector that is a model prompted for tags. It changes with the prompt, as its errors do."""


class LLMDetector:
    """A detector that prompts a language model; UnusableDetector where these arguments do not work.

    Args:
        model: a class of the harness (``vllm``, ``hf``, ``local-chat-completions``, ``openai-chat-completions``, ...).
        pretrained: the model's name or path.
        form: how it is asked, and how its reply is read (:func:`detector_plugin.llm_forms.forms`); ``auto`` knows the
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
    def check(
        model: str = "local-chat-completions", pretrained: str | None = None, form: str = "auto", **options: Any
    ) -> Any:
        """Get the harness's model class by name, without loading anything; UnusableDetector where there is none."""
        from custom_metrics.harness.host import get_model

        check_choice("form", form, ("auto", *forms()))
        if not pretrained:
            raise UnusableDetector(
                "detector llm: say which model is to be asked: pretrained=NAME. (In `--metadata detector_args=` put `;` "
                "between options, or write JSON: at commas the harness cuts.)"
            )
        try:
            model_class = get_model(model)
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
        from custom_metrics.harness.host import Instance

        check_lengths(references, answers, languages, questions)
        pieces = [
            (index, *place)
            for index, answer in enumerate(answers)
            if answer.strip()
            for place in self.form.pieces(answer, languages[index])
        ]
        requests = []
        for number, (index, start, end) in enumerate(pieces):
            question = questions[index] if questions else ""
            turns = self.form.turns(references[index], answers[index][start:end], question)
            prompt, more = self._prompt(turns, references[index] if self.form.as_document else None)
            arguments = {"until": [], "do_sample": False, "max_gen_toks": self.max_gen_toks, **more}
            # The name of a task and the number of a document: nobody reads them, every version wants them.
            places = {"idx": number, "doc_id": number, "task_name": "", "metadata": ("", number, 1)}
            requests.append(Instance("generate_until", {}, (prompt, arguments), **places))
        responses = [str(response) for response in self.lm.generate_until(requests)] if requests else []
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
