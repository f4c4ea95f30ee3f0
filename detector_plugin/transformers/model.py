"""A classifier of tokens or of texts and its tokenizer, or the PEFT adapter of one, made ready to run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detector_plugin import processes
from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.repository import (
    DETECTOR_FILE,
    Repository,
    StoredSettings,
    check_configuration,
    first_line,
    library,
)

LONGEST = 4096
"""Tokens of an input where nobody said: that of the mFAVA paper's appendix A.3, and LettuceDetect's default. Longer
documents are read in windows."""

_HEAD = re.compile(r"(?:^|\.)(?:score|classifier)\.(?:modules_to_save\.)?(?:default\.)?(?:out_proj\.)?weight$")
_OF_TOKENS, _OF_TEXTS = "TokenClassification", "SequenceClassification"  # as architectures are called in config.json
_FROM_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text", "roberta-prelayernorm"}
"""RoBERTa and its kin count positions from after the padding token's."""
_PROMPT_LEARNING = {"PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "MULTITASK_PROMPT_TUNING", "CPT"}


@dataclass(frozen=True)
class ModelDescription:
    """A classifier as its files describe it; no weights are loaded to know."""

    name: str  # as the user gave it
    own: Repository
    weights: Repository  # of an adapter's base model, else the same
    config: Any  # of the model, or of an adapter's base model
    tokenizer: Any  # a fast one
    labels: list[str]  # names of the classes in their order
    decoder: bool  # whether it was made to predict the next token
    of_texts: bool  # whether it gives classes to a text, not to its tokens
    version: str  # commit of the hub, or a hash of the files' contents; that of an adapter names its base model's, too
    licence: str  # as the model card has it, else ``unknown``
    stored: StoredSettings
    has_head: bool  # whether an adapter brings the classifier's weights along
    trust_remote_code: bool  # whether code of the repository may run

    @property
    def adapter(self) -> bool:
        return self.weights is not self.own


def find_repositories(name: str, revision: str | None, base_model: str | None) -> tuple[Repository, Repository]:
    """A model's repository, and that of its weights: an adapter's base model, else the same. UnusableDetector where it
    cannot be had; no weights are loaded to know."""
    own = Repository(name, revision)
    adapter = own.json("adapter_config.json")
    if not adapter:
        if base_model:
            raise UnusableDetector(
                f"detector {name}: option base_model is for PEFT adapters, and this has no adapter_config.json"
            )
        check_configuration(own, None)
        return own, own
    if adapter.get("peft_type") in _PROMPT_LEARNING:
        raise UnusableDetector(
            f"detector {name}: is an adapter of the kind {adapter['peft_type']}, which puts tokens before the text; "
            "use one that changes weights, such as LORA"
        )
    base = base_model or adapter.get("base_model_name_or_path")
    if not base:
        raise UnusableDetector(
            f"detector {name}: adapter_config.json names no base model; name it with the option base_model"
        )
    if own.folder and not Path(base).expanduser().is_dir() and (own.folder / base).is_dir():
        base = own.folder / base
    weights = Repository(str(base), None if base_model else adapter.get("revision"))
    check_configuration(weights, own)
    return own, weights


def describe_model(
    name: str, revision: str | None = None, base_model: str | None = None, trust_remote_code: bool = False
) -> ModelDescription:
    """What is known of a classifier, or of the PEFT adapter of one, without its weights. Arguments are options of
    :class:`detector_plugin.transformers.TransformersDetector`. UnusableDetector where there is none of tokens or texts."""
    library("torch")  # says what to install
    transformers = library("transformers")
    own, weights = find_repositories(name, revision, base_model)
    with _as_unusable(name, "its configuration cannot be read"):
        config = transformers.AutoConfig.from_pretrained(
            weights.source, revision=weights.revision, trust_remote_code=trust_remote_code
        )
    stored = StoredSettings.from_json(own.json(DETECTOR_FILE), name)
    adapter, head_size = own is not weights, None
    architectures = getattr(config, "architectures", None) or []
    of_texts = any(_OF_TEXTS in kind for kind in architectures)
    if adapter:
        of_texts = own.json("adapter_config.json").get("task_type") == "SEQ_CLS"
        head_size = _head_size(own)
        if head_size and config.num_labels != head_size:
            config.num_labels = head_size
    elif architectures and not of_texts and not any(_OF_TOKENS in kind for kind in architectures):
        raise UnusableDetector(
            f"detector {name}: is a {' and '.join(architectures)}, no classifier of tokens or texts (config.json: "
            f"architectures). Name a model whose card says token or text classification; for a generative model use "
            f"detector llm with pretrained={name}"
        )
    if hasattr(config, "reference_compile"):
        config.reference_compile = False  # ModernBERT would compile itself in transformers before 5
    config.use_cache = False
    labels = [str(config.id2label[index]) for index in range(config.num_labels)]
    if adapter:
        names = own.json("config.json").get("id2label")
        if isinstance(names, dict) and len(names) == len(labels):
            labels = [str(names[str(index)]) for index in range(len(labels))]
        elif stored.labels and len(stored.labels) == len(labels):
            labels = list(stored.labels)
    tokenizer = fast_tokenizer(transformers, [own, weights] if adapter else [own], trust_remote_code, name)
    if of_texts and config.pad_token_id is None:  # a decoder's class is that of the last token which is no padding
        config.pad_token_id = padding_of(tokenizer)
    return ModelDescription(
        name=name,
        own=own,
        weights=weights,
        config=config,
        tokenizer=tokenizer,
        labels=labels,
        decoder=is_decoder(config),
        of_texts=of_texts,
        version=f"{own.version()}+base.{weights.version()}" if adapter else own.version(),
        licence=own.licence(),
        stored=stored,
        has_head=bool(head_size),
        trust_remote_code=trust_remote_code,
    )


def load_model(described: ModelDescription, device: str, dtype: str) -> Any:
    """The model, in evaluation mode, on its device. `device` and `dtype` are those of torch, or ``auto``. UnusableDetector
    where any of it cannot be done, or the files lack weights."""
    torch, transformers = library("torch"), library("transformers")
    name, config, repository = described.name, described.config, described.weights
    if device == "auto":
        device = processes.gpu() if torch.cuda.is_available() else "cpu"
    try:
        torch_device = torch.device(device)
        torch.empty(1, device=torch_device)
    except Exception as error:
        raise UnusableDetector(f"option device: {device!r} cannot be used here: {first_line(error)}") from error
    if dtype == "auto" and torch_device.type != "cuda":
        dtype = "float32"
    elif dtype == "auto":
        dtype = "bfloat16" if torch.cuda.get_device_capability(torch_device) >= (8, 0) else "float16"
    torch_dtype = getattr(torch, dtype)
    release = tuple(int(part) for part in re.findall(r"\d+", transformers.__version__)[:2])
    options = {
        "config": config,
        "dtype" if release >= (4, 56) else "torch_dtype": torch_dtype,
        "revision": repository.revision,
        "trust_remote_code": described.trust_remote_code,
        "output_loading_info": True,
    }
    what = f"detector {name}: {repository.source}"
    # not every encoder has an attention to choose
    attentions = ("sdpa", "eager" if described.decoder else None)
    model, info = load_classifier(repository, options, attentions, what, described.of_texts)
    # Weights outside its base model, or of another size, that the files lack.
    mismatched = [key[0] if isinstance(key, tuple) else key for key in info.get("mismatched_keys") or []]
    inner = f"{model.base_model_prefix}."
    missing = sorted({*mismatched, *(key for key in info["missing_keys"] if not key.startswith(inner))})
    if missing and not described.has_head:
        raise UnusableDetector(
            f"detector {name}: is no trained classifier: {repository.source} has no weights {', '.join(missing)}. Name a "
            "model whose card says token or text classification, or an adapter with such a head."
        )
    if described.adapter:
        own = described.own
        with _as_unusable(name, f"its adapter cannot be put on {repository.source}"):
            model = library("peft").PeftModel.from_pretrained(model, own.source, revision=own.revision)
    with _as_unusable(name, f"it cannot be brought onto {torch_device} in {torch_dtype}"):
        if not getattr(config, "quantization_config", None):
            model = model.to(device=torch_device, dtype=torch_dtype)
    return model.eval()


def load_classifier(
    repository: Repository,
    options: Mapping[str, Any],
    attentions: Sequence[str | None],
    what: str,
    of_texts: bool = False,
) -> Any:
    """What transformers' ``AutoModelForTokenClassification.from_pretrained`` returns, or that of texts, with the first of
    several implementations of attention that the model has, ``None`` being its own: flash attention takes no mask of ours.
    UnusableDetector says that `what` cannot be loaded.
    """
    transformers, quiet = library("transformers"), library("transformers.utils.logging")
    kind = _OF_TEXTS if of_texts else _OF_TOKENS
    level = quiet.get_verbosity()
    quiet.set_verbosity_error()  # it warns of heads without weights, which the callers know
    try:
        for attention in attentions:
            try:
                return getattr(transformers, f"AutoModelFor{kind}").from_pretrained(
                    repository.source,
                    **options,
                    **({"attn_implementation": attention} if attention else {}),
                    ignore_mismatched_sizes=True,  # a head of other classes
                    use_safetensors=True,  # pickled weights can run code
                )
            except ValueError as error:
                if attention == attentions[-1] or "attention" not in str(error):
                    raise
    except Exception as error:
        why = first_line(error)
        if isinstance(error, ValueError) and "Unrecognized configuration class" in str(error):
            why = f"transformers {transformers.__version__} has no {kind} of the kind {options['config'].model_type}"
        raise UnusableDetector(f"{what} cannot be loaded: {why}") from error
    finally:
        quiet.set_verbosity(level)


def is_decoder(config: Any) -> bool:
    """Whether models of this kind predict the next token, and no masked ones."""
    auto = library("transformers.models.auto.modeling_auto")
    kind = getattr(config, "model_type", None)
    return kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def _head_size(own: Repository) -> int | None:
    """Number of classes of the head that came with an adapter; ``None`` where none did."""
    file = own.file("adapter_model.safetensors")
    if not file:
        raise UnusableDetector(
            f"detector {own.name}: has adapter_config.json, but no adapter_model.safetensors. Pickled weights "
            "(adapter_model.bin) are not read, because reading them can run code; save them with safe_serialization=True"
        )
    with library("safetensors").safe_open(str(file), framework="np") as weights:
        head = next((key for key in weights.keys() if _HEAD.search(key)), None)  # noqa: SIM118 - it is no mapping
        return int(weights.get_slice(head).get_shape()[0]) if head else None


def fast_tokenizer(transformers: Any, repositories: list[Repository], trust_remote_code: bool, name: str) -> Any:
    """The tokenizer of the first place that has one; UnusableDetector where it cannot be loaded, or cannot say where a
    token stands in a text."""
    repository = next(
        (
            candidate
            for candidate in repositories
            if candidate.file("tokenizer.json") or candidate.file("tokenizer_config.json")
        ),
        repositories[-1],
    )
    with _as_unusable(name, f"its tokenizer cannot be loaded from {repository.source}"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            repository.source, revision=repository.revision, trust_remote_code=trust_remote_code, use_fast=True
        )
    if not getattr(tokenizer, "is_fast", False):
        raise UnusableDetector(
            f"detector {name}: its tokenizer ({type(tokenizer).__name__}) is not a fast one and cannot say where a token "
            "stands in the text; the repository needs a tokenizer.json"
        )
    return tokenizer


def padding_of(tokenizer: Any) -> int:
    """The token that fills inputs up: of a tokenizer without one, the token that ends a text."""
    return (tokenizer.eos_token_id or 0) if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)


@contextmanager
def _as_unusable(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except UnusableDetector:
        raise
    except Exception as error:
        hint = " (its code may run only with trust_remote_code=True)" if "trust_remote_code" in str(error) else ""
        raise UnusableDetector(f"detector {name}: {what}: {first_line(error)}{hint}") from error


def max_positions(config: Any) -> int | None:
    """Tokens of an input by a model's configuration; ``None`` where it does not say."""
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if not isinstance(limit, int) or limit <= 0:
        return None
    return limit - (config.pad_token_id or 0) - 1 if config.model_type in _FROM_PADDING else limit


def learned_positions(model: Any) -> int | None:
    """Positions that were learned: there are no more. Others can be had, at the user's risk."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in ("position_embeddings", "wpe") and hasattr(module, "num_embeddings"):
            padding = getattr(module, "padding_idx", None)  # as in :func:`max_positions`
            return int(module.num_embeddings - (0 if padding is None else padding + 1))
    return None
