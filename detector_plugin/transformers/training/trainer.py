"""The base model of a training, and transformers' ``Trainer`` with our loss and attention.

The loss is of tokens whose label is a class, a share of annotators, or "hallucinated" without a category.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import shutil
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from custom_metrics.usage.plain_errors import PlainError, UsageError
from detector_plugin.detector import UnusableDetector
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.engine import bidirectional_mask, bidirectional_problem, reads_types
from detector_plugin.transformers.model import (
    Repository,
    StoredSettings,
    check_configuration,
    fast_tokenizer,
    first_line,
    is_decoder,
    learned_positions,
    library,
    load_classifier,
    load_configuration,
    max_positions,
)
from detector_plugin.transformers.training.examples import IGNORED, LABELS, Examples, collated
from detector_plugin.transformers.training.measuring import f1_at
from detector_plugin.transformers.training.recipe import Recipe, close_to

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

HEAVIEST = 20.0
"""How many times the mean a class may weigh."""

_HEADS = ("score", "classifier")
"""What transformers calls the layer that is made anew. It is trained whole and stays out of LoRA and quantization."""


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
    repository = Repository(recipe.base, None)
    try:
        check_configuration(repository, None)
        tokenizer = fast_tokenizer([repository], False, recipe.base)
    except UnusableDetector as error:
        raise UsageError(str(error).replace("detector ", "base model ", 1)) from error
    labels = LABELS[recipe.labels]
    config = load_configuration(repository)
    config.id2label = dict(enumerate(labels))  # sets num_labels, too
    config.label2id = {label: number for number, label in enumerate(labels)}
    decoder = is_decoder(config)
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
    if recipe.quantization != "none":
        options["quantization_config"] = _quantization(torch, transformers, recipe)
        options["device_map"] = {"": arguments.device}
    model = load_classifier(repository, options, ("sdpa", "eager"), f"base model {recipe.base}: it")
    if both and decoder:  # before an adapter hides what the model is made of
        model.eval()

        def logits(ids: Any) -> Any:
            row = torch.from_numpy(ids)[None].to(model.device)
            mask = bidirectional_mask(torch, torch.ones_like(row), model.dtype)
            with torch.inference_mode():
                return model(input_ids=row, attention_mask=mask).logits[0]

        if problem := bidirectional_problem(model, logits):
            raise UsageError(
                f"base model {recipe.base}: a {type(model).__name__} cannot attend in both directions here ({problem}); "
                "use --attention causal"
            )
    limits = (int(tokenizer.model_max_length), max_positions(config), learned_positions(model))
    longest = min(recipe.max_length, *(limit for limit in limits if limit is not None))
    if longest < recipe.max_length:
        log.info("%s reads %d tokens at most, not %d", recipe.base, longest, recipe.max_length)
    if recipe.adapter == "lora":
        model = _with_lora(model, recipe)
    attention = ("bidirectional" if both else "causal") if decoder else None
    settings = StoredSettings(form, attention, max_length=longest, labels=labels)
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
    kind: dict[str, Any] = {"load_in_8bit": True}
    if recipe.quantization == "4bit":
        kind = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
        kind["bnb_4bit_compute_dtype"] = torch.bfloat16
    return transformers.BitsAndBytesConfig(llm_int8_skip_modules=list(_HEADS), **kind)


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
    values = {"r": recipe.lora_r, "lora_alpha": recipe.lora_alpha, "lora_dropout": recipe.lora_dropout}
    try:
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="TOKEN_CLS", target_modules=targets, **values))
    except ValueError as error:
        raise UsageError(f"--lora_target_modules {wanted}: {first_line(error)}") from error
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model


def dtype_of(arguments: Any) -> Any:
    """What torch computes in, by transformers' ``TrainingArguments``."""
    torch = library("torch")
    return torch.bfloat16 if arguments.bf16 else torch.float16 if arguments.fp16 else torch.float32


def arguments_of(recipe: Recipe, folder: Path, seed: int, choose: Sequence[LabelledAnswer]) -> Any:
    """transformers' ``TrainingArguments``, with those of the recipe and checkpoints in `folder`; creating them joins the
    processes of ``accelerate launch``. The checkpoint is chosen by the F1 on some documents, by the loss where nothing in
    them is hallucinated. UsageError for an argument that is not known, or whose value does not fit.
    """
    torch, transformers = library("torch"), library("transformers")
    values = dict(recipe.trainer or {})
    cpu = str(values.get("use_cpu", "")).casefold() == "true" or not torch.cuda.is_available()
    if recipe.precision == "fp16" and cpu:
        raise UsageError("--precision fp16 needs a GPU; on a CPU take bf16 or fp32")
    usual = "fp32" if cpu else "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"
    precision = usual if recipe.precision == "auto" else recipe.precision
    if choose:
        by_f1 = any(document.spans for document in choose)
        values |= {"load_best_model_at_end": True, "metric_for_best_model": "f1" if by_f1 else "loss"}
        values["greater_is_better"] = by_f1
    else:
        values |= {"eval_strategy": "no", "load_best_model_at_end": False}
    words: list[str] = []
    for name, value in values.items():
        if value is not None:
            text = json.dumps(value) if isinstance(value, (dict, bool)) else str(value)
            words += [f"--{name}", *(map(str, value) if isinstance(value, (list, tuple)) else [text])]
    words += [
        *("--output_dir", str(folder), "--remove_unused_columns", "false", "--label_names", "labels"),
        *("--seed", str(seed), "--data_seed", str(seed), "--logging_nan_inf_filter", "false"),
        *((f"--{precision}", "true") if precision != "fp32" else ()),
    ]
    parser = transformers.HfArgumentParser(transformers.TrainingArguments, allow_abbrev=False, add_help=False)
    try:
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            arguments, unknown = parser.parse_args_into_dataclasses(
                words, return_remaining_strings=True, look_for_args_file=False
            )
    except SystemExit as error:
        last = stderr.getvalue().strip().splitlines()[-1:] or ["?"]
        raise UsageError(f"an option of transformers' Trainer: {last[0].partition('error: ')[2] or last[0]}") from error
    except (ValueError, ImportError, RuntimeError) as error:
        raise UsageError(f"options of transformers' Trainer do not fit: {first_line(error)}") from error
    if unknown:
        name = next((word for word in unknown if word.startswith("--")), unknown[0]).lstrip("-")
        near = close_to(name, [*vars(arguments), *recipe.values])
        raise UsageError(f"no option --{name} of train, of the recipe or of transformers' Trainer{near}")
    return arguments


def balanced(tokens: Sequence[int]) -> list[float]:
    """Weights of classes by the inverse of their shares, scaled to a mean of 1 over all tokens. `tokens` is the number of
    tokens of each class; a class that does not occur weighs 1, which changes nothing."""
    present = [number for number in tokens if number]
    capped = [min(sum(present) / (len(present) * number), HEAVIEST) if number else 0.0 for number in tokens]
    mean = sum(weight * number for weight, number in zip(capped, tokens, strict=True)) / max(sum(present), 1)
    return [round(weight / mean, 6) if number else 1.0 for weight, number in zip(capped, tokens, strict=True)]


def token_loss(logits: Any, labels: Any, shares: Any, weights: Any | None = None) -> Any:
    """The sum over tokens of ``-(1 - s) log p(supported) - s log p(class)``.

    ``s`` is the share of annotators that marked the token: with hard labels 0 or 1, so that this is cross entropy. Where a
    token is hallucinated in a way that nobody named, ``p(class)`` is the sum over all hallucinated classes.

    Args:
        logits: (batch, tokens, classes).
        labels, shares: (batch, tokens), see :class:`detector_plugin.transformers.training.examples.Example`.
        weights: (classes,); a token that nobody named weighs the mean of the hallucinated classes.
    """
    classes = logits.shape[-1]
    learned = labels != IGNORED
    log_p = logits[learned].float().log_softmax(-1)
    of, share = labels[learned], shares[learned]
    hallucinated = log_p[:, 1:].logsumexp(-1)
    named = log_p.gather(1, of.clamp(max=classes - 1)[:, None])[:, 0]
    by_class = named.where((of > 0) & (of < classes), hallucinated)
    supported = log_p[:, 0]
    if weights is not None:
        extended = weights.new_zeros(classes + 1)
        extended[:classes], extended[classes] = weights, weights[1:].mean()
        supported = supported * weights[0]
        by_class = by_class * extended[of]
    # Not simply a product: 0 times the infinite loss of a class that is out of the question would be no number.
    terms = (1 - share) * supported.where(share < 1, 0) + share * by_class.where(share > 0, 0)
    return -terms.sum()


def _trainer_class() -> Any:
    """The class, made when torch is there."""
    transformers, torch = library("transformers"), library("torch")

    class DetectorTrainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        """Trains a token classifier. With `bidirectional` a decoder's tokens see those after them; `weights` are of the
        classes."""

        def __init__(self, *, bidirectional: bool, weights: Sequence[float] | None, **options: Any) -> None:
            super().__init__(**options)
            self.bidirectional = bidirectional
            self.weights = None if weights is None else torch.tensor(weights, device=self.args.device)
            self.model_accepts_loss_kwargs = True  # has it count the tokens of all processes and accumulated steps

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            inputs = dict(inputs)
            labels, shares = inputs.pop("labels"), inputs.pop("shares")
            if self.bidirectional:
                inputs["attention_mask"] = bidirectional_mask(torch, inputs["attention_mask"], dtype_of(self.args))
            outputs = model(**inputs)
            total = token_loss(outputs.logits, labels, shares, self.weights)
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
                    f"{self._get_learning_rate():.2g}, {'bf16' if self.args.bf16 else 'fp16' if self.args.fp16 else 'fp32'}"
                    f"): no weights can be learned from it. Try a smaller --learning_rate, some --warmup_steps, or "
                    f"--precision {'bf16' if self.args.fp16 else 'fp32'}. Checkpoints of earlier steps stay in "
                    f"{self.args.output_dir}"
                )
            return loss

        def _save_checkpoint(self, *arguments: Any, **options: Any) -> None:
            try:
                super()._save_checkpoint(*arguments, **options)
            except Exception as error:  # OSError, safetensors' own, torch's RuntimeError: what says that a disk is full
                if self.args.should_save:
                    shutil.rmtree(self.args.output_dir, ignore_errors=True)
                raise TrainingFailed(
                    f"checkpoint-{self.state.global_step} cannot be written ({first_line(error)}); all checkpoints were "
                    "removed. Free some space and run the same command again"
                ) from error

    return DetectorTrainer


def fit(base: Base, recipe: Recipe, arguments: Any, learn: Examples, choose: Examples) -> Any:
    """Train, and return the trainer. Where a GPU's memory runs out, training starts anew with half as many examples at
    once, twice as often.

    Raises:
        TrainingFailed: memory runs out at one example at once, the loss is not a number, or a checkpoint cannot be written.
    """
    torch, transformers = library("torch"), library("transformers")
    weights = balanced(learn.tokens[:-1]) if recipe.class_weights == "balanced" else None
    types = reads_types(base.model, base.tokenizer)
    learned = {name: weight for name, weight in base.model.named_parameters() if weight.requires_grad}
    initial = {name: weight.detach().to("cpu", copy=True) for name, weight in learned.items()}
    while True:
        stopping = [transformers.EarlyStoppingCallback(recipe.patience)] if recipe.patience and choose.all else []
        try:
            trainer = _trainer_class()(
                model=base.model,
                args=arguments,
                train_dataset=learn.all,
                eval_dataset=choose.all or None,
                data_collator=partial(collated, padding=base.tokenizer.pad_token_id, types=types),
                compute_metrics=_token_f1,
                preprocess_logits_for_metrics=_flagged_probability,
                callbacks=stopping,
                bidirectional=base.settings.attention == "bidirectional",
                weights=weights,
            )
        except (ImportError, RuntimeError, ValueError) as error:  # a reporter that is not installed, say
            raise UsageError(f"transformers' Trainer cannot start: {first_line(error)}") from error
        try:
            trainer.train()
            return trainer
        except torch.cuda.OutOfMemoryError as error:
            at_once = arguments.per_device_train_batch_size
            if at_once == 1 or arguments.world_size > 1:
                raise TrainingFailed(
                    f"{arguments.device} has too little memory for {at_once} examples of up to {base.settings.max_length} "
                    "tokens at once; set --gradient_checkpointing true, --max_length or a smaller --base"
                ) from error
            arguments.per_device_train_batch_size = at_once // 2
            arguments.gradient_accumulation_steps *= 2
            log.warning(
                "out of memory with %d examples at once; starting anew with %d, twice as often", at_once, at_once // 2
            )
        del trainer
        base.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, weight in learned.items():
                weight.copy_(initial[name])
        gc.collect()
        torch.cuda.empty_cache()


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
