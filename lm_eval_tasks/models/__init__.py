"""Harness models without a language model: reference points (`baseline`), stored answers (`replay`), and `detector`;
and the base class of these models, which answer documents, not prompts, and have no likelihoods."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

from custom_metrics.usage.options import assignments, refuse_unknown
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.secrets import blank
from detector_plugin import processes
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.harness import LM

_TABLE = "answers that follow from documents"  # of the harness's cache of answers
_TO_EVERY_MODEL = ("batch_size", "device", "max_batch_size", "trust_remote_code")
"""Options that the harness passes to every model."""
_UNFIT = re.compile(r"[^\w.-]+")


class DocumentAnswerer(LM):  # type: ignore[misc]
    """A harness model whose answer (:meth:`respond`) follows from the document of a request.

    It ignores the prompt, so chat templates and few-shot examples change nothing. It refuses tasks that need
    likelihoods. Started by ``accelerate launch`` or ``torchrun``, each process answers a part of the documents, and the
    first gathers all.
    """

    NAME = ""  # as in ``--model``
    NAMED_BY = ("", "", "")  # the first word of its name in results, the option that follows, and the option's default
    SHARED = True  # whether processes of a launch share the documents; otherwise each answers all of its own
    tokenizer_name = ""  # part of the harness's key for cached requests

    def __init__(self) -> None:
        super().__init__()
        self._device = "cpu"  # for tensors that the harness gathers
        if self.SHARED and "WORLD_SIZE" in os.environ:  # as every launcher sets it
            self._rank, self._world_size, _ = processes.here()

    @classmethod
    def results_name(cls, model_args: Mapping[str, Any] | str | None) -> str:
        """The model's name in results, from its settings, such as ``lm-eval-grounded/baseline-lexical``. A digest of the
        other options follows where there are any, so that no two settings share a name."""
        options = options_of(model_args)
        prefix, option, default = cls.NAMED_BY
        chosen = shown = str(options.pop(option, default))
        if "/" in chosen:  # a path, or a name on the hub
            shown, options = chosen.rstrip("/").rsplit("/", 1)[-1], {**options, option: chosen}
        ending = f"-{digest_of(options)}" if options else ""
        return f"{PACKAGE}/{prefix}-{_UNFIT.sub('_', shown)[:60].strip('_.-') or 'unnamed'}{ending}"

    @classmethod
    def results_folder(cls, plain: str, model_args: Mapping[str, Any] | str | None, output: Path) -> str:
        return plain

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None
    ) -> DocumentAnswerer:
        """Create the model from ``--model_args``; unknown options are refused, except those of every model."""
        parameters = signature(cls).parameters
        merged = {**arg_dict, **{key: value for key, value in (additional_config or {}).items() if value is not None}}
        arguments = {key: value for key, value in merged.items() if key in parameters or key not in _TO_EVERY_MODEL}
        refuse_unknown(cls.NAME, arguments, cls)
        return cls(**arguments)

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: Mapping[str, Any] | None = None
    ) -> DocumentAnswerer:
        return cls.create_from_arg_obj(assignments(arg_string), additional_config)

    def all_gather(self, tensor: Any) -> Any:
        import torch

        return torch.stack(processes.all_gather(tensor))

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        return processes.gather(obj)

    def barrier(self) -> None:
        processes.barrier()

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns of a chat, one after another, as a person would read them."""
        return "\n\n".join(turn["content"] for turn in chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return None

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Use a separate, empty table in the file of ``--use_cache``, so that no cached answer replaces the model's. The
        key of the harness's cache is the prompt. These models' answers follow from the document and from their options,
        so a cached answer may be that of another document, detector, strategy or file."""
        super().set_cache_hook(cache_hook)
        database = cache_hook.dbdict
        if database is None:
            return
        from sqlitedict import SqliteDict

        SqliteDict(database.filename, tablename=_TABLE, flag="w").close()
        database.tablename = _TABLE

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        for request in requests:
            request.is_unprompted = True  # for :mod:`lm_eval_tasks.harness.task`
        return self.respond(requests, disable_tqdm)

    def respond(self, requests: Sequence[Any], disable_tqdm: bool) -> list[str]:
        """The answers to the documents of some requests, one each."""
        raise NotImplementedError

    def loglikelihood(self, requests: Sequence[Any]) -> NoReturn:
        raise UsageError(f"{type(self).__name__} has no likelihoods; it runs on generation tasks only")

    loglikelihood_rolling = loglikelihood


def options_of(model_args: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """``--model_args`` by name, without secrets and the options that the harness passes to every model."""
    options = assignments(model_args) if isinstance(model_args, str) else model_args or {}
    return {key: value for key, value in blank(options).items() if key not in _TO_EVERY_MODEL}


def digest_of(options: Mapping[str, Any]) -> str:
    content = json.dumps(options, sort_keys=True, default=str)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:6]
