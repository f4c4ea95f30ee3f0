"""The base model of a training: loaded, quantized and given an adapter as the recipe says."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.engines.runner import both_ways, problem_of_both_ways
from detector_plugin.transformers.model import fast_tokenizer, from_pretrained, is_decoder, learned_positions, positions
from detector_plugin.transformers.repository import Repository, Stored, first_line, library, require
from detector_plugin.transformers.training.recipe import Recipe

__all__ = ["Base", "load_base"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_HEADS = ("score", "classifier")
"""What transformers calls the layer that is made anew. It is trained whole and stays out of LoRA and quantization."""


class Base(NamedTuple):
    """A model to be trained, with a new head and its adapter; version and licence are the base model's."""

    model: Any
    tokenizer: Any  # a fast one, with a token that pads
    settings: Stored  # that the detector brings along, but for the threshold
    version: str
    licence: str


def load_base(recipe: Recipe, labels: Sequence[str], precision: str, device: Any) -> Base:
    """Load the base model of a recipe, for classes of some names; UsageError where it cannot be, or not in this way."""
    torch, transformers = library("torch"), library("transformers")
    repository = Repository(recipe.base, None)
    try:
        require(repository, None)
        tokenizer = fast_tokenizer(transformers, [repository], False, recipe.base)
    except UnusableDetector as error:
        raise UsageError(str(error).replace("detector ", "base model ", 1)) from error
    config = transformers.AutoConfig.from_pretrained(repository.source)
    decoder = is_decoder(config)
    form = recipe.form if recipe.form != "auto" else "paper" if decoder else "pair"
    if not decoder and recipe.attention == "causal":
        raise UsageError(f"--attention causal is for decoders, and {recipe.base} is an encoder")
    both = recipe.attention == "bidirectional" or (recipe.attention == "auto" and form == "paper")
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: number for number, label in enumerate(labels)}
    config.use_cache = False
    if hasattr(config, "reference_compile"):
        config.reference_compile = False
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    # Weights that are trained stay in float32: steps of AdamW are smaller than what bfloat16 can tell apart.
    frozen = recipe.adapter == "lora" and precision != "fp32"
    options: dict[str, Any] = {
        "config": config,
        "dtype": getattr(torch, {"bf16": "bfloat16", "fp16": "float16"}[precision]) if frozen else torch.float32,
    }
    if recipe.quantization != "none":
        options |= {"quantization_config": _quantization(torch, transformers, recipe), "device_map": {"": device}}
    model = from_pretrained(repository, options, ("sdpa", "eager"), f"base model {recipe.base}: it")
    if both and decoder:  # before an adapter hides what the model is made of
        model.eval()

        def logits(ids: Any) -> Any:
            row = torch.from_numpy(ids)[None].to(model.device)
            with torch.inference_mode():
                return model(input_ids=row, attention_mask=both_ways(torch, torch.ones_like(row), model.dtype)).logits[
                    0
                ]

        if problem := problem_of_both_ways(model, logits):
            raise UsageError(
                f"base model {recipe.base}: a {type(model).__name__} cannot attend in both directions here ({problem}); "
                "use --attention causal"
            )
    limits = (int(tokenizer.model_max_length), positions(config), learned_positions(model))
    longest = min(recipe.max_length, *(limit for limit in limits if limit is not None))
    if longest < recipe.max_length:
        log.info("%s reads %d tokens at most, not %d", recipe.base, longest, recipe.max_length)
    if recipe.adapter == "lora":
        model = _with_lora(model, recipe)
    attention = ("bidirectional" if both else "causal") if decoder else None
    settings = Stored(form, attention, max_length=longest, labels=tuple(labels))
    return Base(model, tokenizer, settings, repository.version(), repository.licence())


def _quantization(torch: Any, transformers: Any, recipe: Recipe) -> Any:
    option = f"--quantization {recipe.quantization}"
    instead = "--quantization none trains the adapter on weights as they are (--base names a smaller model)"
    if recipe.adapter == "none":
        raise UsageError(f"{option} needs --adapter lora: quantized weights do not learn")
    if not torch.cuda.is_available():
        raise UsageError(f"{option} needs a GPU, and torch finds none; {instead}")
    if find_spec("bitsandbytes") is None:
        raise UsageError(f"{option} needs bitsandbytes (pip install bitsandbytes); {instead}")
    if recipe.quantization == "8bit":
        return transformers.BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=list(_HEADS))
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=list(_HEADS),
    )


def _with_lora(model: Any, recipe: Recipe) -> Any:
    torch, peft = library("torch"), library("peft")
    wanted = recipe.lora_target_modules
    if wanted == "all-linear":
        # peft's own all-linear takes the head of a token classifier, too, which is trained whole.
        linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
        targets = sorted({name.rpartition(".")[2] for name in linear} - {*_HEADS})
    else:
        targets = [name.strip() for name in wanted.split(",") if name.strip()]
    checkpointing = (recipe.trainer or {}).get("gradient_checkpointing")
    if recipe.quantization != "none":
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=bool(checkpointing))
    elif checkpointing:
        model.enable_input_require_grads()  # the first checkpoint's input is frozen, and would pass no gradient
    options = peft.LoraConfig(
        task_type="TOKEN_CLS",
        r=recipe.lora_r,
        lora_alpha=recipe.lora_alpha,
        lora_dropout=recipe.lora_dropout,
        target_modules=targets,
    )
    try:
        model = peft.get_peft_model(model, options)
    except ValueError as error:
        raise UsageError(f"--lora_target_modules {wanted}: {first_line(error)}") from error
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model
