"""The base model of a training, and transformers' ``Trainer`` with our loss and attention.

The loss is of tokens whose label is a class, a share of annotators, or "hallucinated" without a category.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.usage.options import misspelt
from custom_metrics.usage.plain_errors import PlainError, UsageError
from detector_plugin.detector import UnusableDetector
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.engine import bidirectional_mask, reads_types
from detector_plugin.transformers.model import (
    StoredSettings,
    describe_model,
    first_line,
    learned_positions,
    library,
    load_classifier,
    max_positions,
)
from detector_plugin.transformers.training.data import IGNORED, LABELS, Examples, Recipe, collated
from detector_plugin.transformers.training.measuring import f1_at

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_HEADS = ("score", "classifier")  # the layer that is made anew, trained whole, and stays out of LoRA and quantization


class TrainingFailed(PlainError):
    """The training cannot go on. The message says why, and what to do."""


class Base(NamedTuple):
    """A model to be trained, with a new head and its adapter; version and licence are the base model's."""

    model: Any
    tokenizer: Any  # a fast one, with a token that pads
    settings: StoredSettings  # that the detector brings along, but for the threshold
    version: str
    licence: str


def load_base(recipe: Recipe, arguments: Any) -> Base:
    """Load the base model of a recipe, for the classes of its labels; UsageError where it cannot be, or not in this way."""
    torch, transformers = library("torch"), library("transformers")
    try:
        described = describe_model(recipe.base, trained=False)
    except UnusableDetector as error:
        raise UsageError(str(error).replace("detector ", "base model ", 1)) from error
    config, tokenizer, decoder, labels = described.config, described.tokenizer, described.decoder, LABELS[recipe.labels]
    config.id2label = dict(enumerate(labels))  # sets num_labels, too
    config.label2id = {label: number for number, label in enumerate(labels)}
    form = recipe.form if recipe.form != "auto" else "paper" if decoder else "pair"
    if not decoder and recipe.attention == "causal":
        raise UsageError(f"--attention causal is for decoders, and {recipe.base} is an encoder")
    both = recipe.attention == "bidirectional" or (recipe.attention == "auto" and form == "paper")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    # Weights that are trained stay in float32: steps of AdamW are smaller than what bfloat16 can tell apart.
    options = {"config": config, "dtype": dtype_of(arguments) if recipe.adapter == "lora" else torch.float32}
    if recipe.quantization == "4bit":
        if recipe.adapter == "none":
            raise UsageError("--quantization 4bit needs --adapter lora: quantized weights do not learn")
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
            llm_int8_skip_modules=list(_HEADS),
        )
        options["device_map"] = {"": arguments.device}
    model = load_classifier(described.weights, options, ("sdpa", "eager"), f"base model {recipe.base}: it")
    limits = (int(tokenizer.model_max_length), max_positions(config), learned_positions(model))
    longest = min(recipe.max_length, *(limit for limit in limits if limit is not None))
    if longest < recipe.max_length:
        log.info("%s reads %d tokens at most, not %d", recipe.base, longest, recipe.max_length)
    if recipe.adapter == "lora":
        model = _with_lora(model, recipe, arguments.gradient_checkpointing)
    attention = ("bidirectional" if both else "causal") if decoder else None
    settings = StoredSettings(form, attention, max_length=longest, labels=labels)
    return Base(model, tokenizer, settings, described.version, described.own.licence())


def _with_lora(model: Any, recipe: Recipe, checkpointing: bool) -> Any:
    torch, peft = library("torch"), library("peft")
    # peft's own all-linear takes the head of a token classifier, too, which is trained whole.
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    targets = sorted({name.rpartition(".")[2] for name in linear} - {*_HEADS})
    if recipe.quantization == "4bit":
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpointing)
    elif checkpointing:
        model.enable_input_require_grads()  # the first checkpoint's input is frozen, and would pass no gradient
    values = {"r": recipe.lora_r, "lora_alpha": recipe.lora_alpha, "lora_dropout": recipe.lora_dropout}
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="TOKEN_CLS", target_modules=targets, **values))
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model


def dtype_of(arguments: Any) -> Any:
    """What torch computes in, by transformers' ``TrainingArguments``."""
    torch = library("torch")
    return torch.bfloat16 if arguments.bf16 else torch.float16 if arguments.fp16 else torch.float32


def arguments_of(recipe: Recipe, folder: Path, choose: Sequence[LabelledAnswer]) -> Any:
    """transformers' ``TrainingArguments``, with those of the recipe and checkpoints in `folder`; creating them joins the
    processes of ``accelerate launch``. The checkpoint is chosen by the F1 on some documents, by the loss where nothing in
    them is hallucinated. By default a GPU computes in what it has, a CPU in float32. UsageError for a wrong one."""
    torch, transformers = library("torch"), library("transformers")
    values = dict(recipe.trainer)
    if "output_dir" in values:
        raise UsageError("--output_dir: the folder of the new detector is named with -o, and its checkpoints lie in it")
    cpu = str(values.get("use_cpu", "")).casefold() == "true" or not torch.cuda.is_available()
    if not cpu and not {"bf16", "fp16"} & values.keys():
        values["bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"] = True
    by_f1 = any(document.spans for document in choose)
    values |= {"load_best_model_at_end": bool(choose), "output_dir": str(folder), "remove_unused_columns": False}
    values |= {"label_names": "labels", "logging_nan_inf_filter": False}
    if choose:
        values |= {"metric_for_best_model": "f1" if by_f1 else "loss", "greater_is_better": by_f1}
    else:
        values["eval_strategy"] = "no"
    words = [
        word
        for name, value in values.items()
        for word in (f"--{name}", json.dumps(value) if isinstance(value, (dict, bool)) else str(value))
    ]
    parser = transformers.HfArgumentParser(transformers.TrainingArguments, allow_abbrev=False, add_help=False)
    try:
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            arguments, unknown = parser.parse_args_into_dataclasses(
                words, return_remaining_strings=True, look_for_args_file=False
            )
    except SystemExit as error:
        message = stderr.getvalue().strip().rpartition("error: ")[2]
        raise UsageError(f"an option of transformers' Trainer: {message}") from error
    except (ValueError, ImportError, RuntimeError) as error:
        raise UsageError(f"options of transformers' Trainer do not fit: {first_line(error)}") from error
    if unknown:
        near = misspelt(unknown[0].lstrip("-"), [*vars(arguments), *recipe.values])
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f"no option {unknown[0]} of train, of the recipe or of transformers' Trainer{hint}")
    arguments.data_seed = arguments.seed
    return arguments


def token_loss(logits: Any, labels: Any, shares: Any) -> Any:
    """The sum over tokens of ``-(1 - s) log p(supported) - s log p(class)``, which is cross entropy with hard labels.

    ``s`` is the share of annotators that marked the token. Where a token is hallucinated in a way that nobody named,
    ``p(class)`` is the sum over all hallucinated classes. `logits` are (batch, tokens, classes), `labels` and `shares`
    (batch, tokens), see :class:`detector_plugin.transformers.training.data.Example`.
    """
    classes = logits.shape[-1]
    learned = labels != IGNORED
    log_p = logits[learned].float().log_softmax(-1)
    of, share = labels[learned], shares[learned]
    hallucinated = log_p[:, 1:].logsumexp(-1)
    named = log_p.gather(1, of.clamp(max=classes - 1)[:, None])[:, 0]
    by_class = named.where((of > 0) & (of < classes), hallucinated)
    supported = log_p[:, 0]
    # Not simply a product: 0 times the infinite loss of a class that is out of the question would be no number.
    terms = (1 - share) * supported.where(share < 1, 0) + share * by_class.where(share > 0, 0)
    return -terms.sum()


def _trainer_class() -> Any:
    transformers, torch = library("transformers"), library("torch")

    class DetectorTrainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        """Trains a token classifier. With `bidirectional` a decoder's tokens see those after them."""

        def __init__(self, *, bidirectional: bool, **options: Any) -> None:
            super().__init__(**options)
            self.bidirectional = bidirectional
            self.model_accepts_loss_kwargs = True  # has it count the tokens of all processes and accumulated steps

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            inputs = dict(inputs)
            labels, shares = inputs.pop("labels"), inputs.pop("shares")
            if self.bidirectional:
                inputs["attention_mask"] = bidirectional_mask(torch, inputs["attention_mask"], dtype_of(self.args))
            outputs = model(**inputs)
            total = token_loss(outputs.logits, labels, shares)
            if num_items_in_batch is None:
                loss = total / (labels != IGNORED).sum().clamp(min=1)
            else:
                items = torch.as_tensor(num_items_in_batch, device=total.device).reshape(-1)[0].clamp(min=1)
                # Gradients are averaged over processes, and the tokens counted were those of all.
                processes = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
                loss = total / items * processes
            return (loss, {"logits": outputs.logits}) if return_outputs else loss

        def training_step(self, *arguments: Any, **options: Any) -> Any:
            loss = super().training_step(*arguments, **options)
            if not torch.isfinite(loss):
                raise TrainingFailed(
                    f"the loss is {loss.item()} at step {self.state.global_step + 1} (learning rate "
                    f"{self._get_learning_rate():.2g}): no weights can be learned from it. Try a smaller --learning_rate, "
                    f"some --warmup_steps, or float32 (--bf16 false, --fp16 false)"
                )
            return loss

    return DetectorTrainer


def fit(base: Base, recipe: Recipe, arguments: Any, learn: Examples, choose: Examples) -> Any:
    """Train, and return the trainer. TrainingFailed: no loss, memory for one example, or room on the disk."""
    transformers, safetensors = library("transformers"), library("safetensors")
    types = reads_types(base.model, base.tokenizer)
    try:
        trainer = _trainer_class()(
            model=base.model,
            args=arguments,
            train_dataset=learn.all,
            eval_dataset=choose.all or None,
            data_collator=partial(collated, padding=base.tokenizer.pad_token_id, types=types),
            compute_metrics=_token_f1,
            preprocess_logits_for_metrics=_flagged_probability,
            callbacks=[transformers.EarlyStoppingCallback(recipe.patience)] if recipe.patience and choose.all else [],
            bidirectional=base.settings.attention == "bidirectional",
        )
    except (ImportError, RuntimeError, ValueError) as error:  # a reporter that is not installed, say
        raise UsageError(f"transformers' Trainer cannot start: {first_line(error)}") from error
    try:
        trainer.train()
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:  # a full disk, no memory
        raise TrainingFailed(
            f"the training ended at step {trainer.state.global_step}: {first_line(error)}. Is there memory for an example "
            f"of {base.settings.max_length} tokens (--max_length, --gradient_checkpointing true), and room in "
            f"{arguments.output_dir}?"
        ) from error
    return trainer


def _flagged_probability(logits: Any, labels: Any) -> Any:
    """(batch, tokens) probability to be hallucinated, which is all that :func:`_token_f1` needs of the logits."""
    logits = logits[0] if isinstance(logits, tuple) else logits
    return 1 - logits.float().softmax(-1)[..., 0]


def _token_f1(predicted: Any) -> dict[str, float]:
    """F1 of the hallucinated tokens at the threshold that is best for them; nothing where there are none."""
    probabilities, labels = np.asarray(predicted.predictions), np.asarray(predicted.label_ids)
    learned = labels != IGNORED
    p, y = probabilities[learned], labels[learned] > 0
    return {"f1": max(f1_at(np.arange(0.05, 1, 0.05), p, y))} if y.any() else {}
