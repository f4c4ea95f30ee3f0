"""Lengths of prompts: in tokens where the model's tokenizer is on this machine, else in characters.

Nothing is downloaded, and no code of a model's repository is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Measure", "measure_of"]


class Measure(NamedTuple):
    """Counts prompts.

    Attributes:
        tokenizer: of the model; ``None`` where characters are counted.
        window: how many tokens the model can take, prompt and answer together; ``None`` where that is not known.
        architecture: what the model's configuration calls it, empty where that is not known.
    """

    tokenizer: Any = None
    window: int | None = None
    architecture: str = ""

    @property
    def unit(self) -> str:
        return "characters" if self.tokenizer is None else "tokens"

    def counts(self, prompts: Sequence[str]) -> list[int]:
        """The length of each."""
        if self.tokenizer is None:
            return [len(prompt) for prompt in prompts]
        return [len(ids) for ids in self.tokenizer(list(prompts), add_special_tokens=False)["input_ids"]]


_TOKENIZERS = ("tokenizer", "pretrained", "model")  # model arguments that name one, the surest first
_WINDOWS = ("max_length", "max_model_len", "context_length")  # of hf, vllm, sglang


def measure_of(model_args: Mapping[str, Any]) -> tuple[Measure, str]:
    """A measure for the prompts of a model, and in a line why it counts characters (empty where it does not).

    Args:
        model_args: of the harness's model: ``tokenizer`` or ``pretrained`` names a folder or a model in the cache.
    """
    name = next((str(model_args[key]) for key in _TOKENIZERS if model_args.get(key)), None)
    if name is None:
        return Measure(), "no tokenizer is named (--model_args pretrained=NAME or tokenizer=NAME)"
    try:
        from transformers import AutoConfig, AutoTokenizer
    except ImportError:
        return Measure(), f"the tokenizer of {name} needs transformers: pip install 'lm-eval-grounded[hf]'"
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if model_args.get("revision"):
        here["revision"] = str(model_args["revision"])
    try:
        configuration = AutoConfig.from_pretrained(str(model_args.get("pretrained") or name), **here)
    except Exception:  # a folder of a tokenizer alone, a server's model, or not here
        configuration = None
    architecture = next(iter(getattr(configuration, "architectures", None) or ()), "")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **here)
    except Exception as error:  # transformers raises OSError, ValueError, ImportError and those of its parsers
        lines = str(error).splitlines()
        said = lines[0] if lines else type(error).__name__
        return Measure(architecture=architecture), f"the tokenizer of {name} cannot be loaded on this machine: {said}"
    return Measure(tokenizer, _window(model_args, configuration, tokenizer), architecture), ""


def _window(model_args: Mapping[str, Any], configuration: Any, tokenizer: Any) -> int | None:
    text = getattr(configuration, "text_config", None)
    candidates = [
        *(model_args.get(key) for key in _WINDOWS),
        *(getattr(part, "max_position_embeddings", None) for part in (configuration, text)),
        getattr(tokenizer, "model_max_length", None),
    ]
    for window in candidates:
        if isinstance(window, int) and 0 < window < 10**9:  # transformers writes 10**30 for "not known"
            return window
    return None
